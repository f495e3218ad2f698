"""The parts of the HTML page."""
