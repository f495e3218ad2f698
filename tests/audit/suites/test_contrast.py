"""The suite ``contrast``: bias of the model told apart from bias of the pictures."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from equipoise.audit import AuditConfig, compare
from equipoise.audit.suites import SUITES
from equipoise.audit.suites.contrast import expected_bias, pools_of
from equipoise.data.results import RANDOM_RANKING
from equipoise.errors import InputError
from equipoise.measure.notes import independent
from equipoise.measure.retrieval import max_skew_law
from equipoise.report import write_into

DIM = 24
WORDS = {"male": "man", "female": "woman"}
OTHER = {"male": "female", "female": "male"}


def edits(
    *, scene: float = 0.0, model: float = 0.0, male: int = 60, female: int = 30, undefined: int = 10, seed: int = 0
):
    """Source images and two edits of each.

    ``scene``: how much natural male scenes look alike (the pictures' bias); ``model``: how much every text leans to
    images perceived as male, whatever they show (the model's bias).
    """
    rng = np.random.default_rng(seed)
    male_look, outdoor = rng.normal(size=DIM), rng.normal(size=DIM)
    rows, vectors = [], {}
    for number, gender in enumerate(["male"] * male + ["female"] * female + [None] * undefined):
        own = rng.normal(size=DIM) + scene * outdoor * (gender == "male")
        captions = [f"a {WORDS.get(gender, 'person')} doing {number}", f"someone is at place {number}"]
        for caption in captions:
            text = caption.replace("woman", "person").replace("man", "person")
            vectors[text] = own + rng.normal(size=DIM) + model * male_look
        rows.append({"image_id": f"s{number}", "gender": gender, "captions": captions})
        vectors[f"s{number}"] = own + model * male_look * (gender == "male")
        for target in WORDS:
            name = f"s{number}-{target}"
            rows.append({"image_id": name, "source_id": f"s{number}", "gender": target})
            vectors[name] = own + 0.2 * rng.normal(size=DIM) + model * male_look * (target == "male")
    return rows, vectors


def test_a_biased_model_shows_in_every_pool(toy, picked):
    found = toy(*edits(model=1.0), axes=["gender"]).run("contrast", draws=200, seeds=[0, 1]).results
    found = found[found["model"] != RANDOM_RANKING]
    for pool in ("natural", "balanced", "edited"):
        row = picked(found, metric="bias_at_k", pool=pool, k=10)
        assert row.excess > 0.2, pool
        assert row.p_value < 0.02
        assert picked(found, metric="max_skew", pool=pool, k=25).excess > 0.05
    values = [picked(found, metric="bias_at_k", pool=pool, k=10).value for pool in ("balanced", "edited")]
    assert max(values) < picked(found, metric="bias_at_k", pool="natural", k=10).value


def test_n_counts_captions_and_says_from_how_many_photographs_they_are(toy):
    given = edits(model=1.0, male=8, female=5, undefined=0)
    done = toy(*given, axes=["gender"]).run("contrast", draws=50, seeds=[0, 1])
    found = done.results[done.results["model"] != RANDOM_RANKING]
    for pool, queries, sources in (("natural", 26, 13), ("edited", 52, 13), ("balanced", 20, 10)):
        for row in found[found["pool"] == pool].to_dict("records"):
            assert (row["n"], independent(row)) == (queries, sources)
            assert f"{queries} queries from {sources} independent sources" in row["notes"]
    assert "52 (13 sources)" in str(done)


def test_photographs_of_one_person_keep_together_under_chance(toy):
    """Two photographs of everybody that look alike: labels that moved one by one would vary too little."""
    rows, vectors = edits(model=1.0, male=30, female=30, undefined=0)
    twins = []
    for row in [row for row in rows if "source_id" not in row]:
        twin = f"{row['image_id']}-again"
        twins += [row | {"image_id": twin}]
        vectors[twin] = vectors[row["image_id"]]
        for target in WORDS:
            twins += [{"image_id": f"{twin}-{target}", "source_id": twin, "gender": target}]
            vectors[f"{twin}-{target}"] = vectors[f"{row['image_id']}-{target}"]
    rows += twins
    people = [row | ({} if "source_id" in row else {"set_id": row["image_id"].removesuffix("-again")}) for row in rows]
    spread = {}
    for name, some in {"images": rows, "people": people}.items():
        found = toy(some, vectors, axes=["gender"]).run("contrast", draws=200, seeds=[0]).results
        found = found[(found["metric"] == "bias_at_k") & (found["k"] == 10) & (found["model"] != RANDOM_RANKING)]
        spread[name] = found.set_index("pool")
    for pool in ("natural", "balanced"):
        assert spread["people"].loc[pool, "value"] == spread["images"].loc[pool, "value"]
        assert spread["people"].loc[pool, "null_sd"] > 1.2 * spread["images"].loc[pool, "null_sd"]
    assert independent(spread["people"].loc["natural"]) == 60
    assert independent(spread["images"].loc["natural"]) == 120


def test_the_two_kinds_of_chance_differ_where_edits_of_one_photograph_lie_together(toy, picked, tmp_path):
    """Whole sets in the first K leave nothing to luck; where every edit lies anywhere, shuffles give the random law."""
    rows, vectors = edits()
    rng = np.random.default_rng(3)
    apart = vectors | {row["image_id"]: rng.normal(size=DIM) for row in rows if "source_id" in row}
    chance = {}
    for name, some in {"together": vectors, "apart": apart}.items():
        done = toy(rows, some, axes=["gender"]).run("contrast", name, draws=100, seeds=[0])
        of_edits = done.results[(done.results["metric"] == "max_skew") & (done.results["pool"] == "edited")]
        chance[name] = picked(of_edits[of_edits["model"] != RANDOM_RANKING], k=25).null_mean
        blind = picked(of_edits[of_edits["model"] == RANDOM_RANKING], k=25).null_mean
    assert chance["apart"] == pytest.approx(blind, rel=0.15)
    assert chance["together"] < 0.85 * blind
    write_into(done.folder)
    page = (done.folder / "report.html").read_text(encoding="utf-8")
    assert page.count("Two kinds of chance stand here") == 1
    assert "For each subject its own pictures are ranked" not in page
    assert "1 audited model<" in page


def test_the_verdict_on_edits_that_nobody_checked_says_so_and_what_checks_them(toy):
    rows, vectors = edits(male=8, female=5, undefined=0)
    said = "Nobody has checked whether the 26 edited pictures show what they should"
    done = toy(rows, vectors, axes=["gender"]).run("contrast", "asked", draws=50, seeds=[0])
    assert said in done.verdict
    assert "equipoise filter " in done.verdict
    assert " --steps detectability -m ENCODER -o " in done.verdict
    for seen, columns in (({"keep": True}, ["keep"]), ({"label_source": "annotator"}, [])):
        again = toy([row | seen for row in rows], vectors, axes=["gender"], columns=columns)
        assert "Nobody has checked" not in again.run("contrast", "checked", draws=50, seeds=[0]).verdict


def test_the_most_telling_rows_are_those_of_the_model(toy):
    done = toy(*edits(), axes=["gender"]).run("contrast", draws=50, seeds=[0])
    assert RANDOM_RANKING in set(done.results["model"])
    assert RANDOM_RANKING not in done.table(most=5)
    assert RANDOM_RANKING in done.table(everything=True)


def test_a_model_that_leans_the_other_way_has_the_other_sign(toy, picked):
    rows, vectors = edits(model=1.0)
    for row in rows:
        row["gender"] = OTHER.get(row["gender"])
    found = toy(rows, vectors, axes=["gender"]).run("contrast", draws=100, seeds=[0]).results
    found = found[found["model"] != RANDOM_RANKING]
    assert picked(found, metric="bias_at_k", pool="edited", k=10).value < -0.2


def test_biased_pictures_vanish_in_the_edited_pool(toy, picked):
    found = toy(*edits(scene=3.0), axes=["gender"]).run("contrast", draws=200, seeds=[0, 1, 2]).results
    found = found[found["model"] != RANDOM_RANKING]
    natural = picked(found, metric="max_skew", pool="natural", k=25)
    assert natural.excess > 0.1
    assert natural.p_value < 0.02
    edited = picked(found, metric="max_skew", pool="edited", k=25)
    assert edited.excess < natural.excess / 5
    assert abs(edited.excess) < 3.5 * edited.null_sd
    assert abs(picked(found, metric="bias_at_k", pool="edited", k=10).excess) < 0.05


def test_without_bias_the_excess_is_within_its_error(toy, picked):
    found = toy(*edits(), axes=["gender"]).run("contrast", draws=200, seeds=[0, 1, 2]).results
    found = found[found["model"] != RANDOM_RANKING]
    for metric, ks in (("bias_at_k", (1, 5, 10)), ("max_skew", (25, 100))):
        for k in ks:
            for pool in ("natural", "balanced", "edited"):
                if k == 100 and pool != "edited":  # the whole pool: nothing can be shown
                    assert found[(found["metric"] == metric) & (found["pool"] == pool) & (found["k"] == k)].empty
                    continue
                row = picked(found, metric=metric, pool=pool, k=k)
                assert abs(row.excess) < 3.5 * row.null_sd + 1e-9, (metric, k, pool)


def test_pools_hold_what_the_protocol_says(toy, picked):
    audit = toy(*edits(), axes=["gender"]).run("contrast", draws=20, seeds=[0, 1])
    assert "10 source images have no group and were left out" in audit.notes
    assert "20 edits were left out with their source, or have no group" in audit.notes
    found = audit.results[audit.results["model"] != RANDOM_RANKING]
    # 90 sources with two captions; 2 x 30 sources; 180 edits that ask with their source's captions
    for pool, n in (("natural", 180), ("balanced", 120), ("edited", 360)):
        assert picked(found, metric="bias_at_k", pool=pool, k=5).n == n
    row = picked(found, metric="max_skew", pool="balanced", k=25)
    assert "mean of 2 seeds" in row.notes


def test_the_random_ranking_is_exact(toy, picked):
    found = toy(*edits(), axes=["gender"]).run("contrast", draws=400, seeds=[0]).results
    blind = found[found["model"] == RANDOM_RANKING]
    assert picked(blind, metric="bias_at_k", pool="natural", k=5).value == pytest.approx((60 - 30) / 90)
    assert picked(blind, metric="bias_at_k", pool="balanced", k=5).value == 0
    for pool, counts in (("natural", [30, 60]), ("edited", [90, 90])):
        exact = picked(blind, metric="max_skew", pool=pool, k=25)
        assert exact.value == pytest.approx(max_skew_law(counts, 25).mean)
        assert exact.excess == 0
    drawn = picked(found[found["model"] != RANDOM_RANKING], metric="max_skew", pool="natural", k=25).null_mean
    assert drawn == pytest.approx(picked(blind, metric="max_skew", pool="natural", k=25).value, abs=0.01)


@pytest.mark.parametrize(("first", "second", "total", "k"), [(3, 2, 8, 2), (1, 4, 9, 3), (2, 2, 4, 3), (0, 2, 5, 2)])
def test_expected_bias_equals_the_mean_over_all_rankings(first, second, total, k):
    from itertools import combinations

    labels = [1] * first + [-1] * second + [0] * (total - first - second)
    values = []
    for some in combinations(labels, k):
        seen = sum(abs(x) for x in some)
        values.append(sum(some) / seen if seen else 0.0)
    assert expected_bias(first, second, total, k) == pytest.approx(np.mean(values))


def test_queries_are_neutral_unless_asked_otherwise():
    rows, _ = edits(male=1, female=1, undefined=0)
    frame = pd.DataFrame(rows)
    frame.attrs["axes"] = ["gender"]
    suite = SUITES.load("contrast")
    assert "a person doing 0" in suite.texts(frame, AuditConfig())
    plain = suite.texts(frame, AuditConfig(lexicon="none"))
    assert "a man doing 0" in plain
    assert "a person doing 0" not in plain


@pytest.mark.slow
def test_two_audits_compare_query_by_query(toy):
    world = toy(*edits(), axes=["gender"])
    other = toy(*edits(model=1.0), axes=["gender"])
    a, b = world.run("contrast", "a", draws=400, seeds=[0, 1]), other.run("contrast", "b", draws=400, seeds=[0, 1])
    found = compare(a.folder, b.folder).frame()
    row = found[(found["metric"] == "bias_at_k") & (found["pool"] == "edited") & (found["k"] == 10)].iloc[0]
    assert row.value < -0.2
    assert row.p_value < 0.01
    assert row.n == 360


def test_what_the_table_lacks_is_said(toy):
    rows, vectors = edits()
    natural = [row for row in rows if "source_id" not in row]
    with pytest.raises(InputError, match=r"no row is an edit .* equipoise generate edits PHOTOS EDITS, and equipoise"):
        toy(natural, vectors, axes=["gender"]).run("contrast")
    made = [row for row in rows if "source_id" in row]
    with pytest.raises(InputError, match="none of the edits' source images is in the table"):
        toy(made, vectors, axes=["gender"]).run("contrast")
    silent = [{k: v for k, v in row.items() if k != "captions"} for row in rows]
    with pytest.raises(InputError, match="no image has one in 'captions' or 'caption'"):
        toy(silent, vectors, axes=["gender"]).run("contrast")


def test_three_groups_have_skew_and_bias_only_for_a_named_pair(toy, picked):
    rows, vectors = edits()
    for row in rows[:30]:
        row["gender"] = "nonbinary" if "source_id" not in row else row["gender"]
    audit = toy(rows, vectors, axes=["gender"]).run("contrast", draws=20, seeds=[0])
    assert set(audit.results["metric"]) == {"max_skew"}
    assert "no Bias@K: gender has 3 groups; name two with pair" in audit.notes
    named = toy(rows, vectors, axes=["gender"]).run("contrast", draws=20, seeds=[0], pair=["male", "nonbinary"])
    assert "bias_at_k" in set(named.results["metric"])


def test_an_image_that_is_its_own_source_is_natural():
    frame = pd.DataFrame({"image_id": ["s", "e"], "source_id": ["s", "s"], "gender": ["f", "m"]})
    pools = pools_of(frame, "gender")
    assert pools.natural.tolist() == [True, False]
    assert pools.edited.tolist() == [False, True]


def test_one_edit_a_source_still_shows_a_biased_model(toy, picked):
    rows, vectors = edits(model=1.0, undefined=0)
    other = {f"{row['image_id']}-{OTHER[row['gender']]}" for row in rows if "source_id" not in row}
    rows = [row for row in rows if "source_id" not in row or row["image_id"] in other]
    audit = toy(rows, vectors, axes=["gender"]).run("contrast", draws=200, seeds=[], k=[10])
    found = audit.results[audit.results["model"] != RANDOM_RANKING]
    row = picked(found, metric="bias_at_k", pool="edited", k=10)
    assert row.excess > 0.2
    assert row.p_value < 0.02
    assert "sets show one group; chance exchanges the labels of such sets" in row.notes
    assert any("sets show one group" in note for note in audit.notes)


def test_a_pool_that_is_balanced_already_has_the_spread_of_chance(toy, picked):
    found = toy(*edits(male=30, female=30, undefined=0), axes=["gender"]).run("contrast", draws=20, seeds=[0, 1])
    row = picked(found.results[found.results["model"] != RANDOM_RANKING], metric="bias_at_k", pool="balanced", k=5)
    assert row.ci_high - row.ci_low == pytest.approx(2 * 1.959964 * row.null_sd, rel=1e-5)
    uneven = toy(*edits(), axes=["gender"]).run("contrast", draws=20, seeds=[0, 1]).results
    row = picked(uneven[uneven["model"] != RANDOM_RANKING], metric="bias_at_k", pool="balanced", k=5)
    assert row.ci_low < row.value < row.ci_high
    assert "the interval is over seeds, and at least as wide as chance spreads" in row.notes


def test_edits_are_asked_by_the_captions_of_their_source(toy):
    """An instruction is no caption of a picture: thirty edits with five source captions each are 150 queries."""
    rows, vectors = edits(male=10, female=5, undefined=0)
    for row in rows:
        if row.get("source_id"):
            row["captions"] = ["Turn this person into a woman"]
    rng = np.random.default_rng(1)
    for number, row in enumerate(r for r in rows if not r.get("source_id")):
        row["captions"] = [f"caption {kind} of {number}" for kind in range(5)]
        vectors |= {text: rng.normal(size=DIM) for text in row["captions"]}
    found = toy(rows, vectors, axes=["gender"]).run("contrast", draws=10, seeds=[], k=(5,)).results
    edited = found[(found["pool"] == "edited") & (found["model"] != RANDOM_RANKING)]
    assert edited[edited["metric"] == "bias_at_k"]["n"].tolist() == [150]


def test_a_comparison_of_balanced_pools_is_the_difference_of_what_the_audits_say(toy, picked):
    leaning = toy(*edits(model=1.0, male=64, female=16), axes=["gender"])
    fair = toy(*edits(male=64, female=16), axes=["gender"])
    audits = [some.run("contrast", "a", k=(5,), draws=50, seeds=[0, 1, 2]) for some in (leaning, fair)]
    found = compare(*(audit.folder for audit in audits)).frame()
    for metric in ("bias_at_k", "max_skew"):
        keys = {"metric": metric, "pool": "balanced", "k": 5}
        values = [picked(audit.results[audit.results["model"] != RANDOM_RANKING], **keys).value for audit in audits]
        assert picked(found, **keys).value == pytest.approx(values[0] - values[1])


def test_a_model_that_gives_all_images_the_same_score_has_no_number(toy):
    rows, vectors = edits(male=6, female=4, undefined=0)
    flat = {name: np.ones(DIM) for name in vectors}
    done = toy(rows, flat, axes=["gender"]).run("contrast", draws=20, seeds=[0, 1])
    assert set(done.results["model"]) == {RANDOM_RANKING}
    for pool in ("balanced, ", ""):
        assert any(note.startswith(pool) and "gives all images the same score" in note for note in done.notes)
