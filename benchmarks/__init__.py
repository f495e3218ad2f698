"""Speed and memory as ratios measured in one run: ``make bench``, or ``python -m benchmarks text`` for one part."""

import time


def cpu_seconds(work, times=1):
    best = float("inf")
    for _ in range(times):
        start = time.process_time()
        work()
        best = min(best, time.process_time() - start)
    return best


def in_turns(ours, bare, times=3):
    """The least CPU seconds of each of two works that take turns: a slow second of the machine falls on both."""
    pairs = [(cpu_seconds(ours), cpu_seconds(bare)) for _ in range(times)]
    return tuple(min(some) for some in zip(*pairs, strict=True))
