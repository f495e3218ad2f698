"""Every remedy holds to what all must hold to, and one that peeks, in whatever way, is caught."""

import inspect

import numpy as np
import pytest

from equipoise.mitigate import REMEDIES, Leace, Projection
from equipoise.mitigate.conformance import CHECKS, ConformanceError, check, run_check

LEARNED = ("residual", "neutraliser")


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(entry.name, marks=pytest.mark.slow) if entry.name == "residual" else entry.name  # trained for long
        for entry in REMEDIES
    ],
)
def test_every_remedy_conforms(name):
    assert [one for one in check(name) if one.problem] == []


@pytest.mark.slow
def test_every_variant_conforms():
    from equipoise.mitigate import ClipClip, Rerank

    for make in (
        *(lambda v=v: Projection(v) for v in ("prompts", "calibrated", "equalised")),
        *(lambda v=v: Rerank(v) for v in ("det_greedy", "quota")),
        lambda: ClipClip(4, "smoothed", "normalise_then_drop"),
        lambda: Leace(0.5, within=True),
    ):
        assert [one.problem for one in check(make) if one.problem] == []


class LearnsAtTestTime(Leace):
    """Takes the mean of whatever it is asked about out of it: that of the evaluation, then."""

    def transform(self, vectors, side="image", query=None):
        rows = super().transform(vectors, side, query)
        moved = rows - 0.5 * rows.mean(axis=0) if len(rows) > 1 else rows
        return moved / np.linalg.norm(moved, axis=1, keepdims=True)


class ReachesForTheTable(Projection):
    """Looks through its caller's pockets: fits on all subjects, those held out too."""

    def fit(self, vectors, groups, *, sets=None):
        caller = inspect.currentframe().f_back.f_locals
        if "model" in caller and "frame" in caller:
            frame = caller["frame"]
            vectors = caller["model"].image_vectors(frame["image_id"].tolist())
            groups = {axis: frame[axis].tolist() for axis in groups}
            sets = frame["set_id"].tolist()
        return super().fit(vectors, groups, sets=sets)


class CountsTheTable(Projection):
    """Does not read the held-out vectors, and yet its strength depends on how many there are."""

    def fit(self, vectors, groups, *, sets=None):
        frame = inspect.currentframe().f_back.f_locals.get("frame", ())
        super().fit(vectors, groups, sets=sets)
        self._set(self.matrix, None, 100 / (100 + len(frame)))
        return self


class Forgets(Projection):
    def state(self):
        return {**super().state(), "matrix": np.round(self.matrix, 2)}


class Rolls(Projection):
    def fit(self, vectors, groups, *, sets=None):
        super().fit(vectors, groups, sets=sets)
        self._set(self.matrix, None, float(np.random.default_rng().uniform(0.1, 0.9)))
        return self


class DoesNotNormalise(Projection):
    def transform(self, vectors, side="image", query=None):
        return (np.asarray(vectors, dtype=np.float32) @ self.matrix.T).astype(np.float32)


@pytest.mark.parametrize(
    ("poisoned", "fails", "says"),
    [
        (LearnsAtTestTime, "row_by_row", "it learns at test time"),
        (ReachesForTheTable, "held_out", "asks for vectors of held-out subjects: apart0"),
        (CountsTheTable, "held_out", "it looks at them"),
        (Forgets, "save_and_load", "loaded, it differs"),
        (Rolls, "deterministic", "fitted twice"),
        (DoesNotNormalise, "unit_length", "lengths from"),
        (DoesNotNormalise, "no_nan", "NaN"),
    ],
)
def test_a_poisoned_remedy_is_caught(poisoned, fails, says):
    with pytest.raises(ConformanceError, match=says):
        run_check(fails, poisoned)
    assert fails in {one.name for one in check(poisoned) if one.problem}


def test_whatever_a_remedy_raises_is_told_in_a_sentence():
    class Breaks(Projection):
        def fit(self, vectors, groups, *, sets=None):
            raise RuntimeError("no such thing")

    with pytest.raises(ConformanceError, match="shapes: it fails with RuntimeError: no such thing"):
        run_check("shapes", Breaks)
    assert all(one.problem for one in check(Breaks) if one.name != "refuses_before_fitting")
    assert list(CHECKS)


def test_the_command_checks_and_lists(command_line):
    done = command_line("mitigate", "check", "leace")
    assert done.returncode == 0, done.stderr
    assert [line.split()[0] for line in done.stdout.splitlines()] == ["ok"] * len(CHECKS)
    unknown = command_line("mitigate", "check", "leece")
    assert unknown.returncode == 2
    assert "did you mean 'leace'" in unknown.stderr
