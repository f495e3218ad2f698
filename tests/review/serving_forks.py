"""Run as a script: serves a review from a child, forked anew for each line read, so that starting costs nothing."""

from __future__ import annotations

import os
import sys

from equipoise.review import open_review
from equipoise.review.app import create_app  # imported once, before the forks
from equipoise.review.serving import serve

__all__ = ["create_app"]

if __name__ == "__main__":
    for _ in sys.stdin:
        child = os.fork()
        if child == 0:
            serve(open_review(sys.argv[1]), port=0, started=lambda port, token: print(os.getpid(), port, flush=True))
            os._exit(0)
        os.waitpid(child, 0)
