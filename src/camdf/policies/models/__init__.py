"""What policies are made of: linear and membership models, label noise, tuning."""
