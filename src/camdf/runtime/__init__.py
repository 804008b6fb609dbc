"""What runs work and keeps it from doing harm: threads with time limits, a breaker, switches, and forks."""
