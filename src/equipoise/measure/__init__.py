"""Numbers: pure functions from arrays to small result objects, with their chance level."""
