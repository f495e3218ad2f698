"""The package is light to import, and every metric says what a reader must know, in the code and in the docs."""

import math
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from equipoise import measure
from equipoise.errors import InputError, UnknownNameError
from equipoise.measure.metric import Metric, Metrics, Scope, metric
from equipoise.measure.retrieval import Groups, Scores, chance, evaluate, summary

TELLS = ("title", "summary", "citation", "formula", "range", "direction", "chance", "when_it_lies", "takes")
DOCS = Path(__file__).parents[2] / "docs"
ABOUT = {name: "x" for name in TELLS if name not in ("title", "takes")}


@pytest.fixture
def registered():
    """Metrics that are forgotten after the test."""
    before = set(measure.METRICS.entries())
    yield metric
    for name in set(measure.METRICS.entries()) - before:
        measure.METRICS.remove(name)


@pytest.mark.parametrize("entry", list(measure.METRICS), ids=lambda entry: entry.name)
def test_every_metric_loads_says_when_it_lies_and_is_in_the_docs(entry):
    assert callable(entry.load())
    for name in TELLS:
        assert getattr(entry, name).strip(), f"{entry.name} lacks {name}"
    low, high = entry.bounds_in(Scope(2, np.array([[6.0, 6.0]]), np.array([[0.5, 0.5]]), 4))
    assert low < high
    function = entry.target.partition(":")[2]
    pages = "".join(page.read_text(encoding="utf-8") for page in DOCS.glob("measure-*.md"))
    assert f"`{function}`" in pages or f"{function}(" in pages


def test_main_metrics_have_places_of_their_own():
    metrics = list(measure.METRICS)
    names = [m.name for m in metrics] + [row for m in metrics for row in m.rows]
    assert len(set(names)) == len(names)
    places = [place for name in names if (place := measure.METRICS.find(name).main) is not None]
    assert sorted(places) == list(range(1, len(places) + 1))


def test_importing_the_package_brings_no_torch_and_no_tables():
    code = (
        "import sys; from equipoise import measure; measure.retrieval; measure.counterfactual; measure.stats;"
        "print([m for m in ('torch', 'transformers', 'matplotlib', 'pyarrow', 'PIL', 'typer') if m in sys.modules])"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


def test_an_unknown_face_is_an_attribute_error():
    with pytest.raises(AttributeError, match="retrival"):
        measure.retrival


def test_names_in_results_are_found_with_what_is_known_of_them():
    find = measure.METRICS.find
    assert find("attribute_auc").title == "AUC of guessing the group"
    assert find("neutral_rate_gap").bounds_in(Scope(2)) == (0.0, 1.0)
    assert find("self_similarity_gap").main == 10
    assert find("vocabulary").bounds_in(Scope(2)) == (-math.inf, math.inf)
    with pytest.raises(UnknownNameError, match="did you mean 'max_skew'"):
        measure.METRICS.get("max_skw")


def test_a_metric_must_say_everything_and_cannot_take_a_name_of_ours(registered):
    with pytest.raises(InputError, match="lacks its formula"):
        registered("mine", takes="counts", **(ABOUT | {"formula": " "}))(len)
    with pytest.raises(UnknownNameError, match="did you mean 'counts'"):
        registered("mine", takes="count", **ABOUT)(len)
    with pytest.raises(InputError, match="'max_skew' is registered twice"):
        registered("max_skew", takes="counts", **ABOUT)(lambda counts, desired: counts[:, 0])
    alone = Metrics()
    alone.add(Metric("max_skew", target="theirs:f"))
    alone.add(measure.METRICS.get("max_skew"))  # ours is imported later, and stays
    assert alone.get("max_skew").title == "MaxSkew"


SCORES = np.random.default_rng(0).random((12, 60))
GROUPS = Groups(np.arange(60) % 3, ("a", "b", "c"))


def test_a_metric_of_counts_or_labels_is_measured_with_its_null(registered):
    about = ABOUT | {"alternative": "greater"}

    @registered("top_share", takes="counts", bounds=(0.0, 1.0), **about)
    def top_share(counts, desired):
        return counts.max(axis=1) / counts.sum(axis=1)

    @registered("first_is_a", takes="ranked", **about)
    def first_is_a(ranked, desired):
        assert ranked.shape[1] == 6
        return ranked[:, 0] == 0

    @registered("surplus", takes="counts", per_group=True, **ABOUT)
    def surplus(counts, desired):
        return counts - desired * counts.sum(axis=1, keepdims=True)

    found = evaluate(Scores(SCORES), GROUPS, k=6)
    rows = {(row.metric, row.group): row.estimate for row in summary(found, chance(found, draws=400))}
    share = rows["top_share", None]
    assert 1 / 3 < share.null_mean < 0.6
    assert 0 < share.p_value <= 1
    assert share.ci_low < share.value < share.ci_high <= 1
    assert abs(rows["first_is_a", None].null_mean - 1 / 3) < 0.02
    assert [abs(rows["surplus", group].null_mean) < 0.1 for group in "abc"] == [True] * 3


def test_metrics_without_a_form_for_shared_ties_are_refused_by_name(registered):
    @registered("half_share", takes="counts", **ABOUT)
    def half_share(counts, desired):
        return counts[:, 0] / 2

    tied = Scores(np.zeros((1, 60)))
    found = evaluate(tied, GROUPS, k=6, ties="expected")
    assert found.values["half_share"][0] == pytest.approx(1.0)

    @registered("first_is_a", takes="ranked", **ABOUT)
    def first_is_a(ranked, desired):
        return ranked[:, 0] == 0

    with pytest.raises(InputError, match="no form for shared ties: first_is_a"):
        evaluate(tied, GROUPS, k=6, ties="expected")
    assert "first_is_a" not in evaluate(tied, GROUPS, k=6, ties="expected", metrics=["max_skew"]).values
    with pytest.raises(InputError, match="no form for shared ties: max_skew, ndkl"):
        evaluate(tied, GROUPS, k=6, ties="expected", variant="berg")


def test_a_metric_of_the_wrong_shape_or_without_a_number_is_refused_by_name(registered):
    @registered("nothing", takes="counts", **ABOUT)
    def nothing(counts, desired):
        return np.full(len(counts), np.nan)

    with pytest.raises(InputError, match=r"'nothing' gave no number \(NaN\) for 12 queries"):
        evaluate(Scores(SCORES), GROUPS, k=6, metrics=["nothing"])

    @registered("table", takes="counts", **ABOUT)
    def table(counts, desired):
        return counts

    with pytest.raises(InputError, match=r"'table' returned the shape \(12, 3\) where \(12,\) is expected"):
        evaluate(Scores(SCORES), GROUPS, k=6, metrics=["table"])
