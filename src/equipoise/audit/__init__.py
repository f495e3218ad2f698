"""Questions: suites that say what to ask a model, over which pool, with which metrics."""
