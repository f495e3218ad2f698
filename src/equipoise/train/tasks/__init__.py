"""The tasks: one file each, and one line in :mod:`equipoise.train.task`."""
