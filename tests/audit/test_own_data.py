"""What people who audited their own data stumbled over in the terminal and in the results."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

from equipoise.audit import AuditConfig, measure_again
from equipoise.audit.printing import table_of
from equipoise.audit.suites import SUITES
from equipoise.data import read_results
from equipoise.measure.notes import N_OF_SOURCES, facts_of, of_sources
from equipoise.measure.sides import favoured, in_words
from equipoise.measure.stats import Estimate
from equipoise.report import write

PROMPTS = ("a thief", "a nurse")


def people(n: int, groups: tuple[str, ...] = ("female", "male")) -> list[dict]:
    return [{"image_id": f"{group}-{i}", "gender": group} for group in groups for i in range(n)]


def leaning(rows: list[dict], towards: dict[str, str], dim: int = 8) -> dict[str, np.ndarray]:
    """Vectors by which each text puts the images of one group first."""
    rng = np.random.default_rng(0)
    sides = {group: np.eye(dim)[place] for place, group in enumerate(dict.fromkeys(row["gender"] for row in rows))}
    images = {row["image_id"]: sides[row["gender"]] + 0.05 * rng.normal(size=dim) for row in rows}
    return images | {text: sides[group] for text, group in towards.items()}


def test_the_shares_of_every_group_are_written_for_every_prompt(toy, tmp_path):
    """Counted by hand: 3 groups of 40, K = 12; also where the results were measured again, and with K above 100."""
    rows = people(40, ("female", "male", "other"))
    one = toy(rows, leaning(rows, {"a thief": "male", "a nurse": "female"}), axes=["gender"])
    one.run("prompts", "run", prompts=list(PROMPTS), draws=50)
    measure_again(one.home / "run", config={"k": [110]}, out=one.home / "again")
    for folder, k, of_male in (("run", 12, 12), ("again", 110, 40)):
        found = read_results(one.home / folder)
        shares = found[(found["metric"] == "representation") & found["subject"].notna()]
        assert len(shares) == 2 * 3
        assert shares.groupby("subject")["value"].sum().tolist() == pytest.approx([1.0, 1.0])
        assert (shares["k"] == k).all()
        male = shares[(shares["subject"] == "a thief") & (shares["group"] == "male")].iloc[0]
        assert male["value"] == of_male / k
        assert male["null_mean"] == pytest.approx(1 / 3, abs=0.05)
        assert facts_of(male, "shown") == {"first": of_male, "k": k, "pool_share": pytest.approx(1 / 3)}
        assert pd.isna(male["p_value"])
        ranking = pd.read_parquet(one.home / folder / "ranking.parquet")
        assert ranking.groupby("query").size().tolist() == [max(k, 100)] * 2


@pytest.mark.parametrize(("towards", "pair"), [("male", ()), ("female", ()), ("male", ("female", "male"))])
def test_bias_at_k_says_whom_its_sign_favours(toy, towards, pair):
    """Among two perceived genders "male" counts as positive; ``--pair`` turns the sign round, and never the words."""
    rows = people(30)
    one = toy(rows, leaning(rows, dict.fromkeys(PROMPTS, towards)), axes=["gender"])
    done = one.run("prompts", prompts=list(PROMPTS), pair=list(pair), draws=50)
    bias = done.results[(done.results["metric"] == "bias_at_k")]
    assert len(bias) == 3  # over all prompts, and each by itself
    assert set(np.sign(bias["value"])) == {1.0 if towards == (pair or ("male",))[0] else -1.0}
    assert {favoured(row) for row in bias.to_dict("records")} == {towards}
    assert {in_words(row) for row in bias.to_dict("records")} == {f"more {towards} than the pool"}
    first, second = pair or ("male", "female")
    printed = done.table(most=5).splitlines()
    assert f"bias_at_k: above chance is more {first} than the pool, below it more {second}" in printed
    line = next(line for line in printed if line.startswith("bias_at_k "))
    assert line.split()[4] == towards, line


def test_the_kind_of_prompts_that_a_group_lies_closest_to_is_told(scored):
    suite = SUITES.load("prompts")
    config = AuditConfig(prompts=PROMPTS, prompt_kinds=("crime", "job"), draws=50)
    frame = pd.DataFrame(people(20))
    frame.attrs["axes"] = ["gender"]

    def score(row: dict, text: str) -> float:
        return float((row["gender"] == "male") == (text == "a thief"))

    found = suite.measure(scored(suite, frame, score, config), config).frame()
    gaps = found[found["metric"] == "closest_kind_gap"]
    told = {row["axis"]: favoured(row) for row in gaps.to_dict("records")}
    assert told == {"gender | prompts=crime": "male", "gender | prompts=job": "female"}


def test_every_signed_number_of_sets_says_whom_it_favours(toy):
    """Of counterfactual sets: gaps, outranking, and Bias@K, on an axis of two groups and on one of three."""
    rng = np.random.default_rng(0)
    sides, vectors, rows = {"old": 0.5, "young": 0.0}, {}, []
    for subject in ("cook", "nurse", "pilot"):
        for number in range(4):
            for age, lean in sides.items():
                for tone in ("dark", "light", "medium"):
                    name = f"{subject}{number}{age}{tone}"
                    rows.append({"image_id": name, "set_id": f"{subject}{number}", "subject": subject})
                    rows[-1] |= {"age": age, "tone": tone}
                    leans = np.array([1, lean + (0.3 if tone == "dark" else 0.0)])
                    vectors[name] = np.concatenate([leans, 0.02 * rng.normal(size=6)])
    one = toy(rows, vectors | {"x": np.eye(8)[1]}, axes=["age", "tone"])
    from equipoise.audit import run, texts_asked

    texts = texts_asked("intersectional", one.table)
    one = toy(rows, vectors | {text: np.eye(8)[1] for text in texts}, axes=["age", "tone"])
    done = run(one.model, "intersectional", one.table, config={"draws": 50})
    whole = done.results[done.results["subject"].isna()]
    signed = whole[whole["metric"].isin(["counterfactual_gap", "standard_gap", "outranks", "bias_at_k"])]
    told = {(row["metric"], row["axis"], row["group"]): favoured(row) for row in signed.to_dict("records")}
    for metric in ("counterfactual_gap", "standard_gap", "outranks"):
        assert told[metric, "age", "old - young"] == "old"
        assert told[metric, "tone", "dark - light"] == "dark"
        assert told[metric, "tone", "dark - medium"] == "dark"
    assert [group for (metric, axis, _), group in told.items() if (metric, axis) == ("bias_at_k", "age")] == ["old"]
    sizes = whole[whole["metric"].isin(["standard_gap_size", "counterfactual_gap_size", "abs_bias_at_k", "max_skew"])]
    assert {favoured(row) for row in sizes.to_dict("records")} == {""}  # a size has no sign
    assert "favours" in table_of(done.results).splitlines()[0]


@pytest.mark.parametrize("pool", ["natural", "balanced"])
def test_bias_at_k_of_captions_says_whom_its_sign_favours(toy, pool):
    rows = [row | {"caption": f"somebody number {i}"} for i, row in enumerate(people(30))]
    vectors = leaning(rows, {row["caption"]: "female" for row in rows})
    one = toy(rows, vectors, axes=["gender"])
    found = one.run("natural", draws=20, seeds=[0, 1], lexicon="none").results
    bias = found[(found["metric"] == "bias_at_k") & (found["pool"] == pool)]
    assert len(bias) == 2
    assert {favoured(row) for row in bias.to_dict("records")} == {"female"}


def test_what_n_counts_is_said_where_queries_share_their_sources():
    """520 captions of 13 photographs: both numbers stand in the table, and a line below says which is which."""
    usual = {"variant": "equipoise", "pool": "edited", "model": "m", "axis": "gender", "k": 10}
    shared = Estimate(0.2, 0.1, 0.3, null_mean=0.0, p_value=0.01, n=520)
    shared = shared.with_notes(*of_sources([f"photograph {i % 13}" for i in range(520)]))
    frame = pd.DataFrame([shared.row(metric="bias_at_k", **usual)])
    printed = table_of(frame).splitlines()
    assert printed[1].endswith("520 (13 sources)")
    assert N_OF_SOURCES in printed
    alone = pd.DataFrame([Estimate(0.2, null_mean=0.0, p_value=0.01, n=520).row(metric="bias_at_k", **usual)])
    assert N_OF_SOURCES not in table_of(alone)


def test_the_k_that_nobody_gave_is_told_with_its_reason_once_and_near_the_top(toy, capsys):
    from equipoise.cli.audit import _tell

    rows = people(60)
    one = toy(rows, leaning(rows, dict.fromkeys(PROMPTS, "male")), axes=["gender"])
    done = one.run("prompts", "run", prompts=list(PROMPTS), draws=50)
    why = "a tenth of the pool, at most 100 and at least one image for each group"
    told = f"No --k was given, so the suite chose K = 12: {why}."
    assert done.k_told == told
    assert str(done).splitlines()[1] == told
    _tell(done, page=False, all_rows=True, everything=False)
    printed = capsys.readouterr().out.splitlines()
    assert printed[0] == told
    assert sum("No --k" in line for line in printed) == 1
    assert json.loads((one.home / "run" / "results.json").read_text())["k"] == told
    page = write(one.home / "run", one.home / "page.html").read_text(encoding="utf-8")
    assert page.index(told) < page.index('id="verdict"')
    assert page.count(told) == 1
    again = measure_again(one.home / "run", config={"k": [10]}, out=one.home / "ten")
    assert again.k_told == ""
    assert "No --k" not in str(again)
    assert "k" not in json.loads((one.home / "ten" / "results.json").read_text())
    assert "No --k" not in write(one.home / "ten", one.home / "ten.html").read_text(encoding="utf-8")


def test_every_suite_that_ranks_says_how_it_chooses_k():
    for entry in SUITES:
        suite = entry.load()
        if "k" in suite.settings:
            assert suite.own_k, suite.name
