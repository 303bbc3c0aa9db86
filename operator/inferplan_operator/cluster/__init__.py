"""The operator's effects: what it reads from and writes to the API server, and when."""
