from __future__ import annotations

import io

from equipoise.engine.progress import NoProgress, Progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_line_every_five_seconds_and_one_at_the_end() -> None:
    out, clock = io.StringIO(), Clock()
    with Progress("job", total=100, stream=out, clock=clock) as progress:
        for _ in range(10):
            clock.now += 2.0
            progress.advance(10)
    lines = out.getvalue().splitlines()
    assert lines == [
        "job: 30/100 rows (30%), 5 rows/s, 14 s left",
        "job: 60/100 rows (60%), 5 rows/s, 8 s left",
        "job: 90/100 rows (90%), 5 rows/s, 2 s left",
        "job: 100/100 rows (100%), 5 rows/s",
    ]


def test_the_rate_leaves_out_what_was_done_before() -> None:
    out, clock = io.StringIO(), Clock()
    with Progress("job", total=1000, done=900, stream=out, clock=clock) as progress:
        clock.now = 10.0
        progress.advance(50, failed=3)
    assert out.getvalue() == "job: 950/1000 rows (95%), 5 rows/s, 10 s left, 3 failed\n"


def test_a_bar_on_a_terminal() -> None:
    out = Terminal()
    with Progress("job", total=4, stream=out) as progress:
        progress.advance(2)
        progress.advance(2, failed=1)
    assert "job: 100%" in out.getvalue()
    assert "4/4" in out.getvalue()
    assert "failed=1" in out.getvalue()


def test_nothing_is_said_where_nothing_happened() -> None:
    out = io.StringIO()
    with Progress("job", total=0, stream=out):
        pass
    with NoProgress("job", total=5, stream=out) as silent:
        silent.advance(5, failed=1)
    assert out.getvalue() == ""
    assert (silent.n_done, silent.n_failed) == (5, 1)
