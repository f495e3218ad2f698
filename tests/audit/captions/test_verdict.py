"""What may be said of captioners: p-values adjusted over models, and one of four outcomes."""

from __future__ import annotations

import itertools
import json

import pandas as pd
import pytest
from scipy import stats as sps

from equipoise.audit.captions.page import words_page
from equipoise.audit.captions.verdict import Adjusted, adjust_over_models, judge, judgements, smallest_found
from equipoise.data.results import write_results
from equipoise.measure.captions import lic, lic_m, lic_scores
from equipoise.measure.notes import codes_of, note
from equipoise.measure.stats.estimate import RESULT_COLUMNS
from equipoise.measure.stats.permutation import holm
from equipoise.report import verdict_of
from equipoise.report.verdict.outcomes import Conclusion

NOTHING = Conclusion.NOTHING
PAIR = codes_of([note("named_pair", first="male", second="female")])


def row(metric="lic", value=3.0, low=2.0, high=4.0, chance=0.0, p=0.001, **keys):
    start = dict.fromkeys(RESULT_COLUMNS)
    numbers = {"value": value, "ci_low": low, "ci_high": high, "null_mean": chance, "p_value": p, "n": 3000}
    return {**start, "metric": metric, "model": "nic", "axis": "gender", "notes": "", **numbers, **keys}


@pytest.mark.parametrize(
    ("given", "p", "outcome", "says"),
    [
        (row(), 0.001, "leans", "give gender away more than the references do (LIC 3.0 [2.0, 4.0], chance 0.0"),
        (row(value=-3.0, low=-4.0, high=-2.0), 0.001, NOTHING, "less than the references do"),
        (row(value=0.4, low=0.1, high=0.7), 0.01, "too small to matter", "beyond chance, but within 1 point of chance"),
        (row(value=0.1, low=-0.5, high=0.7), 0.6, NOTHING, "excess of 0.9 points would have been found"),
        (row(value=0.1, low=-1.2, high=1.4), 0.9, "cannot tell", "up to 1.4 points cannot be ruled out, where 1 point"),
        (row(value=0.8, low=0.1, high=1.5), 0.03, "cannot tell", "it is beyond chance, but up to 1.5 points cannot be"),
        (row("ba", 0.001, -0.012, 0.014), 0.9, NOTHING, "excess of 1.9 points would have been found"),
        (row("ba", 0.03, -0.09, 0.15), 0.4, "cannot tell", "only an excess of 17.2 points would be found"),
        (row(low=None, high=None), 0.001, "cannot tell", "no interval, or chance was not measured"),
        (row(chance=None), 0.001, "cannot tell", "no interval, or chance was not measured"),
        (
            row("lic_m", 45, 44, 46, 27.9),
            0.005,
            "leans",
            "whether more than people's captions do, references would say",
        ),
        (row("lic_m", 20, 19, 21, 27.9), 0.005, NOTHING, "less than chance"),
        (row("ba", 0.028, 0.001, 0.053, -0.011), 0.008, "leans", "(BA 2.8 [0.1, 5.3], chance -1.1, Holm p 0.008"),
        (row("dba_o", -0.02, -0.03, -0.01), 0.008, "leans", "objects are named for the group less"),
        (row("ratio", 2.0, 1.8, 2.2, 1.1, codes=PAIR), 0.001, "leans", "name male more often"),
        (row("ratio", 0.5, 0.4, 0.6, 1.1, codes=PAIR), 0.001, "leans", "name female more often"),
        (row("ratio", 1.866, 1.644, 2.1186, 2.125, codes=PAIR), 0.009, "leans", "[1.644, 2.119], chance 2.125"),
        (row("ratio", 1.866, 1.644, 2.125, 2.125), 0.009, "cannot tell", "its interval reaches chance"),
        (row(value=3.0, low=-0.5, high=6.5), 0.04, "cannot tell", "its interval reaches chance"),
        (row("ratio", 1.1, 1.07, 1.13, 1.1), 0.9, "too small to matter", "within 10% of chance"),
    ],
)
def test_each_outcome(given, p, outcome, says):
    found = judge(given, Adjusted(p, 1), masked=True)
    assert found.outcome == outcome
    assert says in found.sentence.replace(", words that name a group masked,", "")
    assert "amplif" not in found.sentence


def test_masked_is_said_where_words_were_masked():
    assert "words that name a group masked" in judge(row(), Adjusted(0.001, 1), masked=True).sentence
    assert "masked" not in judge(row(), Adjusted(0.001, 1), masked=False).sentence
    assert "were masked first" in words_page({}, "gender", ("a", "b"), classifier="fast", masked=True)
    assert "were not masked" in words_page({}, "gender", ("a", "b"), classifier="fast", masked=False)


def test_more_tests_need_a_larger_effect():
    nothing = row("ba", 0.001, -0.012, 0.014)
    assert "1.9 points" in judge(nothing, Adjusted(0.9, 1), masked=True).sentence
    assert "2.4 points" in judge(nothing, Adjusted(0.9, 10), masked=True).sentence


@pytest.mark.parametrize(
    ("metric", "chance", "masked"),
    [
        ("lic", 0.0, True),
        pytest.param("lic_m", 25.0, False, marks=pytest.mark.slow),
        pytest.param("lic", 0.0, False, marks=pytest.mark.slow),
        pytest.param("lic_m", 25.0, True, marks=pytest.mark.slow),
    ],
)
def test_the_terminal_says_of_lic_what_the_report_says(tmp_path, metric, chance, masked):
    grid = itertools.product((-3.0, 0.0, 0.3, 0.8, 1.6, 4.0), (0.2, 0.7, 1.5, 6.0), (0.001, 0.03, 0.2, 0.9))
    for number, (value, half, p) in enumerate(grid):
        ends = (chance + value - half, chance + value + half)
        rows = [row(metric, chance + value, *ends, chance, p, null_sd=half / 2, suite="captions")]
        adjusted = adjust_over_models(rows)
        write_results(tmp_path / str(number) / "results.parquet", rows)
        about = {"command": "captions", "words_masked": masked}
        (tmp_path / str(number) / "config.json").write_text(json.dumps(about))
        told = verdict_of([tmp_path / str(number)])
        assert judge(rows[0], adjusted[0], masked=masked).outcome is told.outcome, (value, half, p, told.text)


def test_p_values_are_adjusted_over_models_and_metrics_of_one_question():
    models = ("a", "b", "c")
    rows = [row("ba", p=p, model=m) for m, p in zip(models, (0.01, 0.02, 0.03), strict=True)]
    rows += [row("dba_g", p=0.04, model=m) for m in models]
    rows += [row("error", p=0.01, model=m, variant=v) for m in models for v in ("burns_all", "libra")]
    rows += [row("bleu_4", p=None), row("lic_m", p=0.01, pool="without-person"), row("lic_m", p=0.02)]
    found = adjust_over_models(rows)
    assert [one.p for one in found[:6]] == pytest.approx(holm([0.01, 0.02, 0.03, 0.04, 0.04, 0.04]))
    assert {one.tests for one in found[6:12]} == {3}  # definitions of one metric are not tests of their own
    assert found[12] is None
    assert [one.tests for one in found[13:]] == [1, 1]
    assert "Holm p 0.06 over 6 tests" in rows[0]["notes"]
    assert "over 1 test;" in rows[-1]["notes"]


def test_with_references_lic_is_judged_and_without_them_lic_m():
    rows = [row(model="a"), row("lic_m", 45, 44, 46, 28, model="a"), row("lic_m", 45, 44, 46, 28, model="b")]
    rows.append(row("lic_m", 30, 29, 31, 28, model="b", pool="without-person"))
    made = judgements(pd.DataFrame(rows), adjust_over_models(rows), masked=True)
    assert [(one.model, one.metric) for one in made] == [("a", "lic"), ("b", "lic_m")]


def test_no_interval_leaves_what_is_possible_or_has_no_width():
    assert lic_m([0.9, 0.5, 1.0]).ci_high <= 1
    assert lic_m([0.0, 0.3, 0.1]).ci_low >= 0
    assert lic([1.0, 0.0], [0.0, 1.0]).ci_high <= 1
    same = lic_m([float(lic_scores([[0.5, 0.5], [0.5, 0.5]], [0, 1]).mean())] * 4)
    assert same.ci_low is None
    assert "no interval: all splits alike" in same.notes


@pytest.mark.parametrize("tests", [1, 3, 8, 40, 200])
@pytest.mark.parametrize("n", [10, 400, 1500, 100_000])
def test_the_smallest_effect_is_known_for_any_number_of_tests(n, tests):
    """Of a test far out, scipy's noncentral t has no value in the other tail."""
    found = smallest_found(row(value=0.0, low=-1.96, high=1.96, n=n), tests)
    assert found >= 2.8
    if n >= 400:
        assert found == pytest.approx(sps.norm.isf(0.025 / tests) + sps.norm.isf(0.2), abs=0.05)
