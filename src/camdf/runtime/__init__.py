"""What the rest runs on: work on threads, forks, a breaker, switches, whole files, checked settings, progress."""
