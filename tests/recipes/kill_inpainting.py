"""Runs the study of inpainting in a tiny form and kills it; started by the test of kills.

Argument: a folder. The study runs to its end in ``study``, which becomes ``whole``; then it is begun anew in the same
place and killed with SIGKILL in each kind of step, at several of the renames with which it writes, and started again
each time, until it ends: ``study``. Imports cost more than most steps, so this process imports and forks a child for
each start. Prints how often each step was killed.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import traceback
from collections import Counter
from pathlib import Path
from typing import Any

import torch
import transformers  # noqa: F401

from equipoise.recipes.inpainting import captioning, drawing, learning, study  # noqa: F401
from equipoise.recipes.inpainting.arms import StudySize
from equipoise.recipes.studies.frame import run_study

TINY = StudySize(
    photographs=12,
    test=110,
    candidates=2,
    tones=12,
    both=1,
    parts=8,
    pictures=40,
    warming=4,
    steps=6,
    speaking=3,
    seeds=(0,),
    further_seeds=(0,),
    arms=("original", "over-sampling", "augment", "synthetic", "planted"),
    caption_arms=("original",),
    tone_captions=("tone-synthetic",),
    second=12,
)
KINDS = (
    "photographs",
    "backbone",
    "drawn-gender",
    "drawn-both",
    "parts",
    "sets",
    "learn-synthetic-0",
    "audit-synthetic-0",
    "caption-original-0",
    "captions-original-0",
    "caption-libra-0",
    "captions-tone-synthetic-0",
    "drawn-second",
)
"""One step of each kind that the study has."""


class Renames:
    """Counts the renames of each step, and kills this process at one of them or when the step is over."""

    def __init__(self, numbers: dict[str, str], step: str = "", at: int = 0) -> None:
        self.numbers, self.step, self.at = numbers, step, at
        self.now, self.counts = "", Counter[str]()
        self.replace, self.rename = os.replace, os.rename

    def say(self, text: str) -> None:
        """What the study says when a step begins."""
        if "done before" in text:
            return
        if self.step and self.now == self.step:  # it ended before it was killed
            os.kill(os.getpid(), signal.SIGKILL)
        self.now = self.numbers[text.partition("/")[0]]

    def watch(self) -> None:
        """Count from now on."""

        def counting(rename: Any) -> Any:
            def counted(*paths: Any, **how: Any) -> Any:
                self.counts[self.now] += 1
                if self.now == self.step and self.counts[self.now] == self.at:
                    os.kill(os.getpid(), signal.SIGKILL)
                return rename(*paths, **how)

            return counted

        os.replace, os.rename = counting(self.replace), counting(self.rename)


def started(home: Path, cache: str, step: str = "", at: int = 0) -> int:
    """The exit code of the study in a child that is perhaps killed."""
    pid = os.fork()
    if pid:
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    code = 1
    try:
        torch.set_num_threads(1)
        os.environ["EQUIPOISE_CACHE"] = str(home / cache)
        options = study.STUDY.options(quick=True)
        numbers = {str(i): one.name for i, one in enumerate(study.STUDY.steps(options), 1)}
        renames = Renames(numbers, step, at)
        renames.watch()
        run_study(study.STUDY, home / "study", options, renames.say)
        (home / "counts.json").write_text(json.dumps(renames.counts))
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


def main(home: Path) -> None:
    study.QUICK = TINY
    assert started(home, "cache-whole") == 0
    counts = json.loads((home / "counts.json").read_text())
    os.rename(home / "study", home / "whole")
    kills: Counter[str] = Counter()
    for step in KINDS:
        n = counts[step]
        for at in sorted({1, (n + 1) // 2, n}):
            code = started(home, "cache-killed", step, at)
            assert code == -signal.SIGKILL, (step, at, code)
            kills[step] += 1
    assert started(home, "cache-killed") == 0
    print(json.dumps(kills))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
