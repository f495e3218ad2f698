"""The front door: one thin file per command group, and no logic.

Nothing heavy is imported until a command runs, so that ``equipoise --help`` answers at once. Nothing imports
this package.
"""
