"""How far long work has come: told by its loops, in percent and time left, on a terminal and in a log."""

from __future__ import annotations

import io
import time
from typing import Any

import numpy as np
import pandas as pd
import pytest

from equipoise import pace
from equipoise.audit import AuditConfig
from equipoise.audit.evidence import Evidence
from equipoise.audit.suites import SUITES
from equipoise.engine.progress import Heartbeat
from equipoise.measure.stats.bootstrap import resampling_weights
from equipoise.pace import listening, portion, stages, steps


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_loops_that_nobody_listens_to_are_plain_loops() -> None:
    items = [1, 2]
    assert steps(items) is items
    assert stages(items) is items
    with portion(0.5):
        assert list(steps(iter("ab"))) == ["a", "b"]


def test_a_loop_without_a_length_and_one_that_is_left_early_harm_nothing() -> None:
    with listening() as told:
        assert list(steps(iter("ab"))) == ["a", "b"]
        for _ in stages("abcd"):
            for number in steps(range(10)):
                if number == 2:
                    break
        assert told.share == 1.0
        assert told.of_this_loop is None


def test_loops_that_follow_each_other_never_let_the_share_fall() -> None:
    seen: list[float | None] = []
    with listening() as told:
        for _ in stages("ab"):
            for _ in range(3):  # nobody said that three would come
                seen += [told.share for _ in steps(range(5))]
    assert seen == sorted(seen)
    assert seen[0] == 0.0
    assert seen[15] == 0.5
    assert len(set(seen)) == 30


def test_two_loops_that_run_side_by_side_are_both_counted() -> None:
    with listening() as told:
        for _ in stages("ab"):
            for _ in zip(steps("abc"), steps("abc"), strict=True):
                assert told.share is not None
        assert told.share == 1.0


def test_a_log_gets_a_line_with_percent_and_time_left() -> None:
    out = io.StringIO()
    with Heartbeat("measuring", stream=out, first=0.3, then=0.3):
        for number in stages(range(4)):
            time.sleep(0.4 if number in (1, 2) else 0)
    lines = out.getvalue().splitlines()
    assert 2 <= len(lines) <= 3
    assert lines[0].startswith("measuring: 25%, about ")
    assert lines[0].endswith(" s left")
    assert lines[-1].startswith("measuring: 50%, about ")


def test_a_terminal_gets_one_line_that_is_taken_away_again() -> None:
    out = Terminal()
    with Heartbeat("measuring", stream=out, first=0.05, then=60):
        for _ in stages(range(2)):
            for _ in steps(range(2)):
                time.sleep(0.2)
    written = out.getvalue()
    assert "\n" not in written
    assert "measuring: " in written
    assert "%, about " in written
    assert written.endswith("\r")
    assert not written.rsplit("\r", 2)[1].strip()


def test_work_whose_whole_is_not_known_says_how_far_the_loop_in_hand_is() -> None:
    out = io.StringIO()
    with Heartbeat("comparing", stream=out, first=0.2, then=60):
        for number in steps(range(4)):
            time.sleep(0.5 if number == 1 else 0)
    assert out.getvalue() == "comparing: still at work after 0 s, 25% of the part in hand\n"


def test_quick_work_says_nothing() -> None:
    out = io.StringIO()
    with Heartbeat("measuring", stream=out):
        list(stages(range(4)))
    assert out.getvalue() == ""


@pytest.fixture
def shares(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Every share of the whole that a listener could have been told."""
    seen: list[float] = []

    class Recorded(pace.Pace):
        def _in(self, span: Any) -> Any:
            seen.append(self.share or 0.0)
            return super()._in(span)

    monkeypatch.setattr(pace, "Pace", Recorded)
    return seen


def evidence(suite: str, config: AuditConfig) -> Evidence:
    """Forty images of three subjects, with random vectors for whatever the suite asks."""
    rng = np.random.default_rng(0)
    rows = [
        {"image_id": f"{group}{number}", "gender": group, "age": ("old", "young")[number % 2], "set_id": str(number)}
        | {"subject": ("cook", "nurse", "pilot")[number % 3], "caption": f"somebody number {number} {group}"}
        | {"source_id": None if group == "female" else f"female{number}"}
        for number in range(20)
        for group in ("female", "male")
    ]
    frame = pd.DataFrame(rows)
    frame.attrs["axes"] = ["gender", "age"]
    texts = list(SUITES.load(suite).texts(frame, config))
    vectors = rng.normal(size=(len(frame) + len(texts), 8)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    images, words = vectors[: len(frame)], vectors[len(frame) :]
    return Evidence(frame, texts, model="m", image_vectors=images, text_vectors=words)


@pytest.mark.parametrize("suite", ["prompts", "intersectional", "marginal", "natural", "faces", "recall-gap"])
def test_an_audit_tells_how_far_its_nulls_are(suite: str, shares: list[float]) -> None:
    kinds = {"prompts": ("a thief", "a nurse"), "prompt_kinds": ("crime", "job")} if suite == "prompts" else {}
    one = ("gender",) if suite in ("natural", "recall-gap") else ("gender", "age")
    config = AuditConfig(draws=20, axes=one, **kinds)
    asked = evidence(suite, config)
    shares.clear()
    with listening() as told:
        SUITES.load(suite).measure(asked, config)
    assert shares == sorted(shares)
    assert len(set(shares)) >= 4
    assert shares[-1] > 0.5
    assert told.share is not None
    assert told.share > 0.9


def test_a_bootstrap_tells_its_replicates() -> None:
    seen: set[float | None] = set()
    with listening() as told:
        for _ in stages("a"):
            seen = {told.share for _ in resampling_weights(10, 40, np.random.default_rng(0), chunk=100)}
    assert len(seen) == 4
