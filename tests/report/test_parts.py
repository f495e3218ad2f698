"""The parts of a page, by hand-worked values."""

from __future__ import annotations

import math
import re
import shutil

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from equipoise.errors import InputError
from equipoise.report import read_given, write
from equipoise.report.findings import leans, main_metric, main_rows
from equipoise.report.page.figures import _luminance, shade
from equipoise.report.page.funnel import funnel_figure, funnel_table, read_funnel
from equipoise.report.page.gallery import Gallery, SubjectPictures
from equipoise.report.page.tables import funnel_rows
from equipoise.report.page.words import read_words
from equipoise.report.svg import Scale, SvgDrawing, ticks
from equipoise.report.truth import read_truth, recovered
from equipoise.report.verdict.change import changes
from equipoise.report.verdict.whole import verdict


def row(**keys):
    usual = {"metric": "max_skew", "variant": "equipoise", "model": "m", "axis": "gender", "k": 6, "value": 0.5}
    usual |= {"null_mean": 0.2, "null_sd": 0.05, "excess": 0.3, "ci_low": 0.4, "ci_high": 0.6, "p_value": 0.001, "n": 8}
    return usual | keys


@given(st.floats(-1, 1))
def test_words_on_a_cell_can_be_read(strength):
    colour, words = shade(strength)
    background = _luminance([int(colour[i : i + 2], 16) for i in (1, 3, 5)])
    text = {"dark": 0.0, "light": 1.0}[words]
    contrast = (max(background, text) + 0.05) / (min(background, text) + 0.05)
    assert contrast >= 4.5


@given(st.floats(-1e6, 1e6), st.floats(1e-6, 1e6))
def test_ticks_are_few_in_order_and_inside(low, span):
    found = ticks(low, low + span)
    assert len(found) <= 7
    assert found == sorted(found)
    assert all(low - 1e-6 * span - 1e-9 <= t <= low + span + 1e-6 * span + 1e-9 for t in found)


@given(st.text())
def test_any_text_in_a_figure_stays_text(words):
    from html import unescape
    from re import DOTALL, search

    drawing = SvgDrawing("d", 10, 10)
    drawing.text(0, 0, words)
    inside = search(r"<text[^>]*>(.*)</text>", drawing.svg("x"), DOTALL)
    assert inside
    assert "<" not in inside[1]
    assert unescape(inside[1]) == unescape(words) or "&" in words


def test_a_scale_keeps_what_lies_outside_at_its_edge():
    scale = Scale(0, 1, 10, 20)
    assert [scale(v) for v in (-1, 0, 0.5, 2)] == [10, 10, 15, 20]


def test_the_main_metric_is_the_first_known_one_that_has_a_chance_level(results_folder):
    rows = [row(metric="ndkl"), row(metric="max_skew", null_mean=None, excess=None, p_value=None), row(metric="other")]
    assert main_metric(read_given([results_folder(rows)]).series) == "ndkl"
    assert main_metric(read_given([results_folder([row(metric="unheard_of")], "b")]).series) == "unheard_of"
    nothing = [row(null_mean=None, excess=None, p_value=None)]
    series = read_given([results_folder(nothing, "c")]).series
    assert main_metric(series) is None
    assert "hold no number with a chance level" in verdict(series).text


def test_main_rows_take_the_corrected_definition_once_an_axis(results_folder):
    rows = [row(variant="berg", value=9.0), row(), row(k=12, value=7.0), row(axis="age"), row(subject="nurse")]
    (one,) = read_given([results_folder(rows)]).series
    found = main_rows(one, "max_skew")
    assert found["value"].tolist() == [0.5, 0.5]
    assert found["axis"].tolist() == ["gender", "age"]


def test_whom_a_subject_leans_to_by_hand(results_folder):
    gap = {"metric": "counterfactual_gap", "subject": "nurse", "axis": "tone", "k": None}
    rows = [
        row(),
        row(**gap, group="dark - light", value=0.2, p_value=0.01),
        row(**gap, group="dark - medium", value=-0.1, p_value=0.5),
        row(**gap, group="light - medium", value=-0.4, p_value=0.02),
    ]
    (one,) = read_given([results_folder(rows)]).series
    (lean,) = leans(one)
    # dark (0.2 - 0.1) / 2 = 0.05; light (-0.2 - 0.4) / 2 = -0.3; medium (0.1 + 0.4) / 2 = 0.25
    assert (lean.towards, lean.against) == ("medium", "light")
    assert lean.size == pytest.approx(0.55)
    assert lean.p_value == pytest.approx(0.03)


def test_weak_evidence_is_not_called_bias(results_folder):
    rows = [row(), row(axis="age", ci_low=0.1, p_value=0.01), row(axis="race", p_value=0.4)]
    (one,) = read_given([results_folder(rows)]).series
    made = verdict([one])
    assert made.lead == "m is biased by perceived gender."
    answer = dict(made.answers)["Is it biased?"]
    assert "On age: cannot tell" in answer
    assert "On race: cannot tell" in answer  # its interval reaches far beyond the margin


def test_an_axis_that_is_called_perceived_is_not_called_so_twice(results_folder, tmp_path):
    folder = results_folder([row(axis="perceived_gender")])
    (one,) = read_given([folder]).series
    made = verdict([one])
    assert made.lead == "m is biased by perceived gender."
    page = write(folder, tmp_path / "page.html").read_text(encoding="utf-8")
    assert "perceived perceived" not in f"{made.text} {page}".lower().replace("_", " ")


def test_two_audits_compared_are_not_called_biased(results_folder):
    rows = [row(model="a - b", value=-0.3, null_mean=0.0, excess=-0.3, ci_low=-0.4, ci_high=-0.2)]
    found = read_given([results_folder(rows)])
    assert found.sources[0].kind == "comparison"
    made = verdict([], comparisons=found.series)
    assert made.lead == "a and b differ."
    assert "b has more MaxSkew@6 than a" in made.text


def test_a_metric_whose_excess_is_no_bias_is_not_called_one(results_folder):
    (one,) = read_given([results_folder([row(metric="attribute_auc", k=None)])]).series
    made = verdict([one])
    assert "biased" not in made.text
    assert "beyond chance on gender" in made.lead


def test_many_axes_raise_the_bar(results_folder):
    rows = [row(axis=f"axis{i}", p_value=0.02) for i in range(5)]
    (one,) = read_given([results_folder(rows)]).series
    made = verdict([one])
    assert made.lead.startswith("These numbers cannot tell whether m leans by perceived axis0, axis1")
    assert "corrected for the 5 numbers looked at (Holm)" in dict(made.answers)["How sure are we?"]


def test_before_and_after_pairs_the_subjects_that_both_have(results_folder):
    excess = {"a": (0.5, 0.1), "b": (0.4, 0.2), "c": (0.6, 0.1), "only before": (0.9, None)}
    made = []
    for place, name in enumerate(("before", "after")):
        rows = [row()] + [row(subject=s, excess=v[place], n=1) for s, v in excess.items() if v[place] is not None]
        made.append(read_given([results_folder(rows, name)]).series[0])
    (change,) = changes(made[0], made[1], "max_skew")
    assert change.difference is not None
    assert change.difference.n == 3
    assert change.difference.value == pytest.approx((0.4 + 0.2 + 0.5) / 3)


PAIRS = {"dark - light": (0.3, 0.1), "dark - medium": (0.2, 0.15), "light - medium": (0.4, 0.5)}
"""Size of the score gap of each pair, before and after."""


def of_pairs(results_folder, place, name, metric="counterfactual_gap_size", **keys):
    rows = []
    for pair, sizes in PAIRS.items():
        size = {"metric": metric, "axis": "skin_tone", "k": None, "group": pair, "value": sizes[place], **keys}
        size |= {"null_mean": 0.04, "excess": sizes[place] - 0.04, "ci_low": None, "ci_high": None}
        rows.append(row(**size))
        rows += [
            row(**size | {"excess": sizes[place] - 0.04 + 1e-3 * i, "subject": f"s{i}", "n": 1}) for i in range(12)
        ]
    return read_given([results_folder(rows, name)]).series[0]


def test_each_pair_of_groups_is_held_against_itself(results_folder):
    from equipoise.report.verdict.change import change_figure
    from equipoise.report.verdict.repair import Repair

    before, after = (of_pairs(results_folder, place, name) for place, name in enumerate(("before", "after")))
    found = changes(before, after, "counterfactual_gap_size")
    assert {c.before["group"]: (c.before["value"], c.after["value"]) for c in found} == PAIRS
    assert [c.told for c in found] == ["smaller", "smaller", "larger"]
    assert found[0].difference.value == pytest.approx(0.2)
    answers = dict(verdict([before, after], repairs=[Repair(before, after, found)]).answers)
    assert "skin tone between dark and light 0.260 to 0.060" in answers["Did the repair work?"]
    assert "skin tone between light and medium 0.360 to 0.460" in answers["Did the repair work?"]
    assert "did harm on skin tone between light and medium" in answers["Did the repair work?"]
    svg, table = change_figure(found, ("before", "after"))
    assert "between light and medium" in svg
    assert table.set_index("group")["after_value"].to_dict() == {pair: sizes[1] for pair, sizes in PAIRS.items()}


def test_one_pair_of_groups_needs_no_name(results_folder):
    rows = [row(metric="counterfactual_gap_size", k=None, group="female - male"), row(axis="skin_tone")]
    (one,) = read_given([results_folder(rows)]).series
    assert main_rows(one, "counterfactual_gap_size")["about"].tolist() == ["gender"]
    assert main_rows(one, "max_skew")["about"].tolist() == ["skin tone"]
    assert main_rows(one, "unheard_of").empty


def test_another_model_and_a_naive_number_are_held_against_the_same_pair(results_folder):
    from equipoise.report.page.naive import naive_figure, naive_numbers

    first, other = (of_pairs(results_folder, place, name, model=name) for place, name in enumerate(("one", "two")))
    told = verdict([first, other]).text
    assert "two, asked the same, cannot be judged by skin tone between dark and light" in told
    assert "(one: 0.260)" in told
    found = naive_numbers([first], [first], "counterfactual_gap_size")
    assert [one.found["group"] for one in found] == list(PAIRS)
    assert naive_figure(found)[1]["group"].tolist() == list(PAIRS)


def test_a_number_without_an_axis_is_told_as_one_of_groups(results_folder):
    (one,) = read_given([results_folder([row(axis=None)])]).series
    made = verdict([one])
    assert made.lead == "m is biased by perceived group."
    assert "one group has 1.6 times" in made.text
    assert "all" not in made.text.split()
    assert changes(one, one, "max_skew")[0].after["value"] == 0.5


def test_a_p_value_is_never_told_as_a_frequency(results_folder):
    (one,) = read_given([results_folder([row()])]).series
    made = verdict([one])
    told = made.text + " ".join(answer for _, answer in made.answers)
    tail = "p < 0.001 by a normal tail, p = 0.001 by the draws alone, both corrected for this number alone"
    assert tail in told
    assert not re.search(r"(times|once) in 1,?00", told)


def test_the_truth_is_recovered_and_its_absence_told(results_folder):
    gap = {"metric": "counterfactual_gap", "axis": "gender", "k": None, "group": "female - male"}
    injected = {"a": -2.0, "b": -1.0, "c": 1.0, "d": 2.0}
    rows = [row()] + [row(**gap, subject=s, value=0.1 * v) for s, v in injected.items()]
    (one,) = read_given([results_folder(rows)]).series
    table = [{"subject": s, "axis": "gender", "group": "female", "log_odds": v} for s, v in injected.items()]
    table += [{"subject": s, "axis": "gender", "group": "male", "log_odds": -v} for s, v in injected.items()]
    (found,) = recovered(one, pd.DataFrame(table))
    assert found.correlation == pytest.approx(1.0)
    assert found.table["injected"].tolist() == pytest.approx([-2.0, -1.0, 1.0, 2.0])
    assert found.same_direction == (4, 4)
    (flat,) = recovered(one, pd.DataFrame(table).assign(log_odds=0.0))
    assert flat.correlation is None
    assert "nothing was put into" in verdict([one], truths=[flat]).text


@pytest.mark.parametrize(
    ("injected", "measured", "told"),
    [
        (
            (2.0, 2.0, 2.0),
            (0.3, 0.1, -0.2),
            "the same into every subject .*: the direction is right for 2 of 3 subjects",
        ),
        ((2.0, -1.0, 0.5), (0.1, 0.1, 0.1), "was measured is the same for every subject: the audit does not find it"),
    ],
)
def test_a_truth_that_nothing_can_be_correlated_with_is_not_called_nothing(results_folder, injected, measured, told):
    gap = {"metric": "counterfactual_gap", "axis": "gender", "k": None, "group": "female - male"}
    rows = [row()] + [row(**gap, subject=f"s{i}", value=v) for i, v in enumerate(measured)]
    (one,) = read_given([results_folder(rows)]).series
    table = [
        {"subject": f"s{i}", "axis": "gender", "group": group, "log_odds": sign * v}
        for i, v in enumerate(injected)
        for group, sign in (("female", 1), ("male", -1))
    ]
    (found,) = recovered(one, pd.DataFrame(table))
    assert found.correlation is None
    made = verdict([one], truths=[found])
    assert "nothing was put into" not in made.text
    assert re.search(told, made.text)
    assert re.search(told, dict(made.answers)["What was put in, and was it found?"])


def test_a_naive_number_is_against_even_shares_only_where_its_definition_is(results_folder):
    from equipoise.report.page.naive import naive_numbers

    two = [row(value=0.1, null_mean=0.05), row(variant="berg", value=0.7, null_mean=0.6)]
    audit, both, ours = (
        read_given([results_folder(rows, name)]).series[0]
        for name, rows in (("audit", [row()]), ("both", two), ("ours", two[:1]))
    )
    (even,) = naive_numbers([both], [audit], "max_skew")
    assert (even.row["value"], even.is_even) == (0.7, True)
    assert "one group at 2.0 times its even share" in even.told
    (fair,) = naive_numbers([ours], [audit], "max_skew")
    assert (fair.row["value"], fair.is_even) == (0.1, False)
    told = dict(verdict([audit], naive=[fair]).answers)["What would a naive number have said?"]
    assert "1.1 times its fair share" in told
    assert "even" not in told
    assert "lopsided" not in told


def test_what_somebody_expects_is_not_called_put_in_on_purpose(results_folder, tmp_path):
    gap = {"metric": "counterfactual_gap", "axis": "gender", "k": None, "group": "female - male"}
    expected = {"a": -2.0, "b": -1.0, "c": 1.0, "d": 2.0}
    home = results_folder([row()] + [row(**gap, subject=s, value=0.1 * v) for s, v in expected.items()])
    table = [
        {"subject": subject, "axis": "gender", "group": group, "log_odds": sign * value}
        for subject, value in expected.items()
        for group, sign in (("female", 1), ("male", -1))
    ]
    pd.DataFrame(table).to_csv(tmp_path / "expected.csv", index=False)
    page = write(home, tmp_path / "page.html", truth=tmp_path / "expected.csv").read_text(encoding="utf-8")
    assert "Measured preferences follow those that were stated (correlation 1.00" in page
    assert "Does it follow what was stated?" in page
    assert "stated: log-odds of female rather than male" in page
    assert "put in" not in page


def test_one_of_many_axes_that_follows_the_truth_by_luck_is_not_called_found(results_folder):
    """Correlations over 12 subjects, of which the interval of one barely excludes 0: p is 0.03, and 0.15 over five."""
    put_in = np.linspace(-2.0, 2.0, 12)
    noise = np.random.default_rng(5).normal(size=(5, 12))
    noise -= noise.mean(axis=1, keepdims=True) + np.outer(noise @ put_in / (put_in @ put_in), put_in)
    wanted = [0.62, 0.1, 0.0, -0.1, 0.05]
    rows, table = [row()], []
    for number, (r, off) in enumerate(zip(wanted, noise, strict=True)):
        measured = r * put_in / np.linalg.norm(put_in) + np.sqrt(1 - r * r) * off / np.linalg.norm(off)
        keys = {"metric": "counterfactual_gap", "axis": f"axis{number}", "k": None, "group": "a - b"}
        rows += [row(**keys, subject=f"s{i}", value=float(v)) for i, v in enumerate(measured)]
        table += [
            {"subject": f"s{i}", "axis": f"axis{number}", "group": group, "log_odds": sign * float(v)}
            for i, v in enumerate(put_in)
            for group, sign in (("a", 1), ("b", -1))
        ]
    (one,) = read_given([results_folder(rows)]).series
    truths = recovered(one, pd.DataFrame(table))
    first = next(truth for truth in truths if truth.axis == "axis0")
    assert first.correlation == pytest.approx(0.62)
    assert first.interval[0] > 0
    assert "the audit does not clearly find it" in verdict([one], truths=truths).text
    assert "the audit finds it" in verdict([one], truths=[first]).text


def test_what_was_put_into_the_world_is_shown_at_its_size(results_folder):
    gap = {"metric": "counterfactual_gap", "axis": "gender", "k": None, "group": "female - male"}
    rows = [row()] + [row(**gap, subject=s, value=0.1) for s in ("nurse", "firefighter", "judge", "pilot")]
    (one,) = read_given([results_folder(rows)]).series
    truth = read_truth("world:biased")
    (found,) = recovered(one, truth)
    assert found.table.set_index("subject")["injected"].round(2).to_dict() == {
        "firefighter": -2.4,
        "pilot": -1.16,
        "judge": 0.44,
        "nurse": 2.4,
    }


def test_the_interval_of_a_correlation_is_fishers(results_folder):
    gap = {"metric": "counterfactual_gap", "axis": "gender", "k": None, "group": "female - male"}
    measured = [0.0, 2.0, 1.0, 3.0, 5.0, 4.0, 6.0]
    rows = [row()] + [row(**gap, subject=f"s{i}", value=v) for i, v in enumerate(measured)]
    (one,) = read_given([results_folder(rows)]).series
    put_in = {"female": 1, "male": -1}
    truth = pd.DataFrame(
        [
            {"subject": f"s{i}", "axis": "gender", "group": g, "log_odds": i * by}
            for i in range(7)
            for g, by in put_in.items()
        ]
    )
    (found,) = recovered(one, truth)
    r = np.corrcoef(range(7), measured)[0, 1]
    assert found.correlation == pytest.approx(r)
    assert found.interval[0] == pytest.approx(math.tanh(math.atanh(r) - 1.959964 / 2), abs=1e-6)


def test_names_of_the_truth_are_text_as_in_results(tmp_path):
    lines = ["7,tone,0,1.5", "7,tone,NA,-1.5", ",tone,0,2", "8,tone,0,"]
    (tmp_path / "truth.csv").write_text("\n".join(["subject,axis,group,log_odds", *lines]))
    told = read_truth(tmp_path / "truth.csv")
    assert told.to_dict("list") == {
        "subject": ["7", "7"], "axis": ["tone", "tone"], "group": ["0", "NA"], "log_odds": [1.5, -1.5]
    }  # fmt: skip
    frame = pd.DataFrame({"subject": [7], "axis": ["tone"], "group": [1.0], "log_odds": [0.5]})
    assert read_truth(frame)[["subject", "group"]].to_numpy().tolist() == [["7", "1"]]


def test_truth_that_cannot_be_read_is_refused(tmp_path):
    with pytest.raises(InputError, match="no such file"):
        read_truth(tmp_path / "truth.csv")
    (tmp_path / "truth.csv").write_text("subject,axis,group,log_odds\nnurse,gender,female,much\n")
    with pytest.raises(InputError, match="not a number"):
        read_truth(tmp_path / "truth.csv")
    (tmp_path / "truth.csv").write_text("subject,axis,group,log_odds\nnurse,gender,female,inf\n")
    with pytest.raises(InputError, match="infinite"):
        read_truth(tmp_path / "truth.csv")


def test_the_funnel_by_hand(tmp_path):
    path = tmp_path / "funnel.csv"
    path.write_text("step,group,subject,kept,dropped\na,x,,8,2\na,y,,10,0\nb,x,,4,4\nb,y,,10,0\n")
    frame = read_funnel(path)
    table = funnel_table(frame)
    assert table["kept"].tolist() == [18, 14]
    assert table["most_dropped"].tolist() == ["x", "x"]
    assert table["highest_rate"].tolist() == [0.2, 0.5]
    # chi-squared of [[4, 4], [10, 0]]: 18 (4*0 - 4*10)^2 / (8 * 10 * 14 * 4)
    assert table["p_value"].iloc[1] == pytest.approx(math.erfc(math.sqrt(18 * 1600 / 4480 / 2)), rel=1e-6)
    assert [cell for cell, _ in funnel_rows(table)[0]["cells"][2:4]] == ["x (20.0%)", "y (0.0%)"]
    nobody = {"highest_rate": 0.0, "lowest_rate": 0.0, "dropped": 0}
    assert [cell for cell, _ in funnel_rows(table.assign(**nobody))[0]["cells"][2:4]] == ["nobody (0.0%)"] * 2
    svg, _ = funnel_figure(frame)
    assert "x 40% of 10" in svg
    assert "y 100% of 10" in svg


def test_the_folder_of_a_filter_run_is_told_by_axis(results_folder, tmp_path):

    test = {"metric": "filter_bias", "variant": "sharp", "suite": "filter", "axis": "gender", "group": "female"}
    test |= {
        "value": 0.2,
        "null_mean": 0.05,
        "excess": 0.15,
        "p_value": 0.01,
        "n": 40,
        "notes": "largest excess drop rate",
    }
    rate = {**test, "metric": "filter_drop", "value": 0.3, "null_mean": 0.175, "ci_low": 0.24, "ci_high": 0.36}
    folder = results_folder([{**rate, "excess": 0.125, "null_sd": 0.03}, test], "filters")
    (folder / "funnel.csv").write_text(
        "step,axis,group,subject,kept,dropped,unit\nsharp,gender,female,nurse,14,6,image\n"
        "sharp,gender,male,nurse,19,1,image\nsharp,,,nurse,33,7,image\nsharp,,,nurse,9,1,set\n"
    )
    text = write(folder, tmp_path / "p.html").read_text(encoding="utf-8")
    assert "Filters are harder on some groups than on others." in text
    assert "Filter sharp takes female more than is even on gender (12.5 points [6.5, 18.5], p = 0.010)" in text
    assert "by gender" in text
    assert "female 70% of 20" in text
    data = pd.read_csv(tmp_path / "p_files" / "funnel.csv")
    assert data["kept"].tolist() == [14, 19]


def test_a_filter_that_spares_a_group_is_told_so(results_folder, tmp_path):
    from equipoise.filters.bias import bias_test
    from equipoise.filters.funnel import TestedStep, result_rows
    from equipoise.measure.groups import Groups

    groups = Groups.from_values(["a", "b", "c", "d"] * 60, axis="kind")
    failed = [False if i % 4 == 3 else i % 3 == 0 for i in range(240)]
    test = bias_test(np.array(failed), groups, None, draws=499, seed=0)
    folder = results_folder(result_rows([TestedStep("sharp", "fail", test, 0.01)], []), "filters")
    (folder / "funnel.csv").write_text("step,group,subject,kept,dropped\nsharp,d,,60,0\nsharp,a,,40,20\n")
    text = write(folder, tmp_path / "p.html").read_text(encoding="utf-8")
    assert "Filter sharp takes d less than is even on kind" in text


def test_words_that_tell_are_shaded_with_their_group(captions_folder):
    (source,) = read_given([captions_folder]).sources
    problems: list[str] = []
    parts = {part.group: part for part in read_words(source, problems)}
    assert not problems
    tokens = [t for t in parts["female"].captions[0][0] if t.level]
    assert {t.text for t in tokens} >= {"red"}
    assert all(t.group == "female" for t in tokens if t.text == "red")
    assert "".join(t.text for t in parts["male"].captions[0][0]) == "a person with a blue umbrella"


@pytest.mark.parametrize("file", ["words.csv", "captions.csv"])
def test_missing_words_are_told(captions_folder, tmp_path, file):
    folder = shutil.copytree(captions_folder, tmp_path / "captions")
    (folder / file).unlink()
    (source,) = read_given([folder]).sources
    problems: list[str] = []
    assert read_words(source, problems) == []
    assert problems == [f"captions/{file} is missing; no caption words are shown"]


@pytest.mark.parametrize(
    ("file", "column", "value"),
    [("words", "weight", "much"), ("words", "contribution", "inf"), ("captions", "score", "")],
)
def test_words_without_their_numbers_are_left_out_and_told(captions_folder, tmp_path, file, column, value):
    folder = shutil.copytree(captions_folder, tmp_path / "captions")
    frame = pd.read_csv(folder / f"{file}.csv", dtype=str)
    frame.loc[1, column] = value
    frame.to_csv(folder / f"{file}.csv", index=False)
    (source,) = read_given([folder]).sources
    problems: list[str] = []
    assert read_words(source, problems) == []
    assert problems == [f"captions/{file}.csv has a {column} that is not a number; no caption words are shown"]


def test_captions_are_shown_where_no_word_tells(captions_folder, tmp_path):
    folder = shutil.copytree(captions_folder, tmp_path / "captions")
    head = (folder / "words.csv").read_text().splitlines()[0]
    (folder / "words.csv").write_text(head + "\n")
    (source,) = read_given([folder]).sources
    problems: list[str] = []
    parts = read_words(source, problems)
    assert not problems
    assert all(part.words.empty and part.captions for part in parts)
    assert not any(token.level for part in parts for tokens, _ in part.captions for token in tokens)


@pytest.mark.parametrize("count", ["inf", "-inf", "nan", "1.5", "1e300", "many"])
def test_a_funnel_counts_in_whole_numbers(tmp_path, count):
    path = tmp_path / "funnel.csv"
    path.write_text(f"step,group,subject,kept,dropped\na,x,,8,2\na,y,,{count},0\n")
    with pytest.raises(InputError, match=r"funnel\.csv: row 2 has kept = .*a whole number, 0 or more"):
        read_funnel(path)


def test_notes_that_are_no_list_are_left_out_and_told(results_folder):
    folder = results_folder([row()])
    (folder / "audit.json").write_text("{}")
    (folder / "results.json").write_text('{"notes": 5}')
    given_ = read_given([folder])
    assert given_.sources[0].notes == ()
    assert "results/results.json is not what an audit writes; its notes are not shown" in given_.problems


def test_an_end_that_is_infinite_is_drawn_at_the_edge(results_folder, tmp_path):

    keys = {"ci_low": 0.4, "ci_high": math.inf}
    rows = [row(**keys), row(axis="age", ci_low=-math.inf), *(row(subject=s, n=1) for s in "abc")]
    rows += [row(metric="representation", group=g, **keys) for g in ("female", "male")]
    rows.append(row(metric="representation", group="neither", value=None, excess=None))
    folder = results_folder(rows)
    again = results_folder(rows, "again")
    write([folder, again], tmp_path / "p.html", before_after=(folder, again), naive={"m (results)": folder})
    drawn = {path.stem: path.read_text(encoding="utf-8") for path in (tmp_path / "p_files").glob("*.svg")}
    assert {"headline", "change", "naive", "proportions"} <= set(drawn)
    for name, svg in drawn.items():
        assert not re.search(r"""[="' ML](nan|-?inf)\b""", svg), name


def test_a_page_that_fails_is_no_failure_of_the_audit(results_folder, monkeypatch):
    from equipoise.report import write_into, writing

    def fail(*_args, **_keys):
        raise KeyError("a fault")

    folder = results_folder([row()])
    assert write_into(folder)[0] == folder / "report.html"
    monkeypatch.setattr(writing, "gather", fail)
    assert write_into(folder) == (None, "the page could not be made (KeyError: 'a fault')")


def test_pictures_beside_the_verdict_are_called_lopsided_only_where_all_are_beyond_chance():
    sure, unsure = (SubjectPictures("cook", "p", [("m", [])], sure=known) for known in (True, False))
    assert Gallery([sure, sure, unsure]).why == "Chosen because they are lopsided"
    assert "luck alone" in Gallery([sure, unsure]).why


def test_a_figure_of_shares_says_which_models_it_leaves_out(results_folder, tmp_path):
    shares = {"metric": "representation", "group": "female", "value": 0.6, "null_mean": 0.5}
    homes = [results_folder([row(model=f"m{i}"), row(model=f"m{i}", **shares)], f"r{i}") for i in range(4)]
    texts = [write(homes[:n], tmp_path / f"{n}.html").read_text(encoding="utf-8") for n in (3, 4)]
    assert "models are drawn" not in texts[0]
    assert "The first 3 of 4 models are drawn; the data has all." in texts[1]
