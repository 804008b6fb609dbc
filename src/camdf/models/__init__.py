"""What policies are made of: linear and membership models, Newton passes, label noise, tuning."""
