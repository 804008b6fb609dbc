"""Every framework under every tracer in nine situations, and whether its traces can be learned from."""
