"""``python -m equipoise`` is the same as ``equipoise``."""

from equipoise.cli.main import run

if __name__ == "__main__":
    run()
