"""Training: the loop, and what it stands on."""
