"""Speed and memory as ratios measured in one run: ``make bench``, or ``python -m benchmarks text`` for one part."""

import time


def cpu_seconds(work, times=1):
    best = float("inf")
    for _ in range(times):
        start = time.process_time()
        work()
        best = min(best, time.process_time() - start)
    return best
