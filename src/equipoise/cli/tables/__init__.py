"""Tables on the command line."""
