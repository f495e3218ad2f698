"""What a result folder may be said to show, in sentences."""
