"""The operator: plans in, recommendations out, approved ones deployed."""
