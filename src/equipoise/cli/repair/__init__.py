"""Training and repairing on the command line."""
