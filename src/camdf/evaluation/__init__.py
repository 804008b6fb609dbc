"""What an operator runs on logged tasks: splits, replay, a verdict, a learning curve, and the fit that ships."""
