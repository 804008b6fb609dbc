"""Against the peers: what other tools choose from the same candidates, installed and run, beside camdf's choice."""
