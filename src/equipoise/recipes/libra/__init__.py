"""LIBRA on the pictogram world: its small reviser, and the study of captions before and after."""
