"""What people asked and agents called, as logs have it: requests to learn from."""
