"""InferPlan's planner: what will this model do on that GPU, before a GPU-hour is spent.

A pure library: no Kubernetes, no GPU, no weights. Rooms, top down: `report`, `planning`, `performance`,
`engine`, then `model`, `hardware` and `workload`.
"""

__version__ = "0.1.0"
