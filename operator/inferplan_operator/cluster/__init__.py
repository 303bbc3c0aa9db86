"""InferPlan operator."""
