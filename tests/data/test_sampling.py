"""Balancing, splitting, substituting, combining: exact counts, nothing torn apart, no dependence on row order."""

from __future__ import annotations

import json
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from tests.examples import examples

from equipoise.data import Table
from equipoise.data.labels import set_numbers
from equipoise.data.mixing import Substitution, combine, substitute, substitution_count, write_mixture
from equipoise.data.results import draw_order
from equipoise.data.sampling import METHODS, balance, balance_layer, some_of, split, split_layer
from equipoise.errors import InputError, UnknownNameError

groups = st.sampled_from(["female", "male", "other", None])


@st.composite
def frames(draw: Any) -> pd.DataFrame:
    n = draw(st.integers(1, 40))
    return pd.DataFrame(
        {
            "image_id": [f"i{k}" for k in range(n)],
            "gender": draw(st.lists(groups, min_size=n, max_size=n)),
            "race": draw(st.lists(st.sampled_from(["x", "y", None]), min_size=n, max_size=n)),
            "subject": draw(st.lists(st.sampled_from(["cook", "nurse", "pilot", None]), min_size=n, max_size=n)),
            "set_id": draw(st.lists(st.sampled_from(["s1", "s2", "s3", "s4", None]), min_size=n, max_size=n)),
        }
    ).astype(object)


def counted(male: int, female: int, undefined: int) -> pd.DataFrame:
    labels = ["male"] * male + ["female"] * female + [None] * undefined
    return pd.DataFrame({"image_id": [f"{i:05d}" for i in range(len(labels))], "gender": labels})


def test_gensynths_rule_on_cocos_published_counts() -> None:
    found = balance(counted(1275, 539, 3186), "gender", method="gensynth")
    # 2 * 539 = 1,078 defined; the undefined share 3186/5000 = 0.6372 gives int(0.6372 * 1078 / 0.3628) = 1,893
    assert dict(found.after) == {("female",): 539, ("male",): 539, None: 1893}
    assert dict(found.before) == {("female",): 539, ("male",): 1275, None: 3186}
    assert balance(counted(1275, 539, 3186), "gender").after == {("female",): 539, ("male",): 539}


def test_oversampling_takes_each_row_equally_often() -> None:
    frame = pd.DataFrame({"image_id": list("abcdefg"), "gender": list("mmmmmff"), "race": list("xxxyyxy")})
    found = balance(frame, ["gender", "race"], method="oversample")
    assert found.after == dict.fromkeys([("f", "x"), ("f", "y"), ("m", "x"), ("m", "y")], 3)
    taken = Counter(found.positions.tolist())
    assert sorted(taken[i] for i in (3, 4)) == [1, 2]
    assert taken[5] == taken[6] == 3


def test_combinations_that_nobody_shows_are_named() -> None:
    frame = pd.DataFrame({"image_id": list("abc"), "gender": list("mmf"), "race": list("xyx")})
    assert balance(frame, ["gender", "race"]).missing == (("f", "y"),)


@given(frames(), st.sampled_from(METHODS), st.integers(0, 3))
@settings(deadline=None)
def test_every_group_is_shown_equally_often(frame: pd.DataFrame, method: str, seed: int) -> None:
    pairs = zip(frame["gender"], frame["race"], strict=True)
    joint = [None if any(pd.isna(value) for value in pair) else pair for pair in pairs]
    sizes = Counter(pair for pair in joint if pair is not None)
    if not sizes:
        with pytest.raises(InputError, match="nothing to balance"):
            balance(frame, ["gender", "race"], method=method, seed=seed)
        return
    found = balance(frame, ["gender", "race"], method=method, seed=seed)
    after = Counter(joint[i] for i in found.positions)
    undefined = after.pop(None, 0)
    assert set(after.values()) == {max(sizes.values()) if method == "oversample" else min(sizes.values())}
    assert set(after) == set(sizes)
    n_undefined = len(joint) - sum(sizes.values())
    if method == "gensynth":
        exact = n_undefined * sum(after.values()) / sum(sizes.values())
        assert 0 <= exact - undefined < 1
    else:
        assert undefined == 0
    if method != "oversample":
        assert len(set(found.positions)) == len(found.positions)
    shuffled = frame.sample(frac=1, random_state=seed)
    again = balance(shuffled, ["gender", "race"], method=method, seed=seed)
    assert sorted(shuffled["image_id"].iloc[again.positions]) == sorted(frame["image_id"].iloc[found.positions])


def test_another_seed_takes_other_rows() -> None:
    frame = counted(500, 5, 0)
    taken = {tuple(balance(frame, "gender", seed=seed).positions) for seed in range(5)}
    assert len(taken) == 5


def test_a_draw_is_fair() -> None:
    names = [str(i) for i in range(8)]
    first = Counter(int(draw_order(names, seed, "test")[0]) for seed in range(4000))
    assert max(abs(n - 500) for n in first.values()) < 5 * np.sqrt(500)
    assert set(draw_order(names, 7, "test")) == set(range(8))


@given(frames(), st.sampled_from(["subject", "set_id"]), st.integers(0, 3))
@settings(deadline=None)
def test_nothing_that_belongs_together_is_torn_apart(frame: pd.DataFrame, by: str, seed: int) -> None:
    fractions = {"train": 0.5, "test": 0.5}
    alone = pd.DataFrame({"image_id": ["alone"], by: ["another"]})  # so that there are two units to split
    frame = pd.concat([frame, alone], ignore_index=True)
    parts = split(frame, by=by, fractions=fractions, seed=seed)
    assert parts.index.equals(frame.index)
    sets = pd.Series(set_numbers(frame))
    for together in (sets[sets >= 0], *([frame["subject"]] if by == "subject" else [])):
        for _, rows in frame.assign(part=parts).groupby(together):
            assert rows["part"].nunique() == 1
    shuffled = frame.sample(frac=1, random_state=seed)
    again = split(shuffled, by=by, fractions=fractions, seed=seed)
    assert (again.sort_index() == parts).all()


def test_fractions_are_of_the_units() -> None:
    frame = pd.DataFrame({"image_id": [str(i) for i in range(1000)], "subject": [f"s{i % 100}" for i in range(1000)]})
    parts = split(frame, fractions={"train": 0.8, "test": 0.2})
    assert Counter(parts) == {"train": 800, "test": 200}
    assert Counter(split(frame)) == {"train": 800, "val": 100, "test": 100}
    thirds = split(frame, fractions={"a": 1 / 3, "b": 1 / 3, "c": 1 / 3})
    assert sorted(Counter(thirds).values()) == [330, 330, 340]
    more = pd.concat([frame, frame.assign(image_id=[f"n{i}" for i in range(1000)])], ignore_index=True)
    assert (split(more, fractions={"train": 0.8, "test": 0.2}).iloc[:1000] == parts).all()


def anew(n_subjects: int = 6) -> pd.DataFrame:
    """Sets 0 and 1, of a woman and a man, in each subject."""
    cells = [(s, number, who) for s in range(n_subjects) for number in "01" for who in ("female", "male")]
    return pd.DataFrame(
        [
            {"image_id": f"{s}-{number}-{who}", "subject": f"s{s}", "set_id": number, "gender": who}
            for s, number, who in cells
        ]
    )


def test_values_of_the_column_asked_for_are_never_torn_apart() -> None:
    frame = anew()
    for seed in range(5):
        parts = split(frame, by="set_id", fractions={"train": 0.5, "test": 0.5}, seed=seed)
        assert (parts.groupby(frame["set_id"]).nunique() == 1).all()


@pytest.mark.parametrize("by", ["subject", "image_id"])
def test_sets_of_one_name_and_two_subjects_are_split_as_two(by: str) -> None:
    frame = anew()
    named = frame.assign(set_id=frame["subject"] + ": " + frame["set_id"])
    for seed in range(5):
        halves = {"train": 0.5, "test": 0.5}
        parts = split(frame, by=by, fractions=halves, seed=seed)
        assert parts.tolist() == split(named, by=by, fractions=halves, seed=seed).tolist()
        assert Counter(parts) == {"train": 12, "test": 12}
        assert (parts.groupby([frame["subject"], frame["set_id"]]).nunique() == 1).all()


def test_a_sample_takes_sets_of_one_name_and_two_subjects_apart(tmp_path: Path) -> None:
    table = Table.create(tmp_path / "anew", anew(), axes=["gender"])
    assert some_of(table, sample=6).to_pandas(["keep"])["keep"].sum() == 6
    layer = split_layer(table, by="set_id", fractions={"train": 0.5, "test": 0.5})
    assert Counter(layer.to_pandas(["split"])["split"]) == {"train": 12, "test": 12}


def test_an_image_stays_with_what_was_made_from_it() -> None:
    frame = pd.DataFrame(
        {
            "image_id": ["a", "a1", "b", "b1", "c", "d"],
            "source_id": [None, "a", None, "b", None, None],
            "subject": ["1", "2", "3", "3", "4", "5"],
        }
    )
    for seed in range(10):
        for by in ("subject", "source_id", "image_id"):
            parts = split(frame, by=by, fractions={"train": 0.5, "test": 0.5}, seed=seed).tolist()
            assert parts[0] == parts[1]
            assert parts[2] == parts[3]


@pytest.mark.parametrize(
    ("fractions", "reason"),
    [
        ({"train": 0.9, "test": 0.2}, "add up to 1.1"),
        ({"train": 1.2, "test": -0.2}, "'train' is 1.2"),
        ({"train": "half"}, "'train' is 'half'"),
        ({"train": 0.999, "test": 0.001}, "too few for a share of 0.001 in 'test'"),
    ],
)
def test_wrong_fractions(fractions: dict[str, Any], reason: str) -> None:
    frame = pd.DataFrame({"image_id": list("abc"), "subject": list("abc")})
    with pytest.raises(InputError, match=reason):
        split(frame, fractions=fractions)


def test_sets_that_are_numbered_anew_in_each_subject_are_named_as_the_reason() -> None:
    frame = pd.DataFrame(
        {"image_id": list("abcd"), "subject": ["cook", "cook", "nurse", "nurse"], "set_id": list("1212")}
    )
    with pytest.raises(
        InputError, match=r"1 unit to split by 'subject' \(its 2 values are joined .* such as cook-1\): too few"
    ):
        split(frame, fractions={"fit": 0.5, "held_out": 0.5})
    apart = frame.assign(set_id=frame["subject"] + "-" + frame["set_id"])
    assert split(apart, fractions={"fit": 0.5, "held_out": 0.5}).nunique() == 2


def test_wrong_frames_and_options() -> None:
    with pytest.raises(UnknownNameError, match="did you mean 'undersample'"):
        balance(counted(1, 1, 0), "gender", method="undersampel")
    with pytest.raises(InputError, match="no column 'race'"):
        balance(counted(1, 1, 0), "race")
    with pytest.raises(InputError, match="more than once"):
        balance(pd.DataFrame({"image_id": ["a", "a"], "gender": ["f", "m"]}), "gender")
    with pytest.raises(InputError, match="an id is text"):
        balance(pd.DataFrame({"image_id": [1, 2], "gender": ["f", "m"]}), "gender")
    with pytest.raises(InputError, match="no column 'image_id'"):
        split(pd.DataFrame({"subject": ["a"]}))
    with pytest.raises(InputError, match="no column 'subject' to split by"):
        split(counted(2, 2, 0))
    with pytest.raises(InputError, match="seed='x'"):
        balance(counted(1, 1, 0), "gender", seed="x")  # type: ignore[arg-type]


def generated_for(ids: list[str], copies: int = 1) -> pd.DataFrame:
    rows = [(f"{i}~{c}", i, f"caption of {i}") for i in ids for c in range(copies)]
    return pd.DataFrame(rows, columns=["image_id", "source_id", "caption"])


@pytest.mark.parametrize(("alpha", "count"), [(0.2, 554_458), (0.4, 1_108_916), (0.6, 1_663_373), (0.8, 2_217_831)])
def test_counts_of_the_contamination_study(alpha: float, count: int) -> None:
    assert substitution_count(2_772_289, alpha) == count


def test_substitutions_are_nested_exact_and_do_not_depend_on_order() -> None:
    real = pd.DataFrame({"image_id": [f"r{i:04d}" for i in range(997)]})
    fake = generated_for(real["image_id"].tolist(), copies=2)
    before: set[str] = set()
    for alpha in (0, 0.2, 0.4, 0.6, 0.8, 1):
        found = substitute(real, fake, alpha, seed=3)
        assert len(found.replaced) == int(np.floor(alpha * 997 + 0.5))
        assert before <= set(found.replaced)
        before = set(found.replaced)
        for unit, image in found.replacement.items():
            assert image.split("~")[0] == unit
        shuffled = substitute(real.sample(frac=1, random_state=1), fake.sample(frac=1, random_state=2), alpha, seed=3)
        assert shuffled.replacement == found.replacement
        assert shuffled.sha256 == found.sha256
    assert {image[-1] for image in found.replacement.values()} == {"0", "1"}  # one of the two is drawn
    assert substitute(real, fake, 0.2, seed=4).sha256 != substitute(real, fake, 0.2, seed=3).sha256
    manifest = json.loads(json.dumps(substitute(real, fake, 0.2, seed=3).manifest()))
    assert (manifest["n"], manifest["n_replaced"], len(manifest["replacement"])) == (997, 199, 199)


def test_substitution_by_caption() -> None:
    real = pd.DataFrame({"image_id": ["a", "b"], "captions": [["x", "y", "z"], ["x"]]})
    fake = pd.DataFrame(
        {"image_id": list("1234"), "source_id": list("aaab"), "caption": ["x", "y", "z", "x"]},
    )
    assert substitute(real, fake, 1, unit="caption").replacement == {"a#0": "1", "a#1": "2", "a#2": "3", "b#0": "4"}
    half = substitute(real, fake, 0.5, unit="caption")
    assert (half.n, len(half.replaced)) == (4, 2)
    with pytest.raises(InputError, match="1 of the 4 units to replace have no generated image, the first is 'a#1'"):
        substitute(real, fake.drop(index=1), 1, unit="caption")
    with pytest.raises(InputError, match="needs the column 'captions'"):
        substitute(real[["image_id"]], fake, 1, unit="caption")


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"alpha": 1.5}, "alpha=1.5: a number from 0 to 1"),
        ({"alpha": True}, "alpha=True"),
        ({"unit": "pixel"}, "unit='pixel'"),
        ({"generated": pd.DataFrame({"image_id": ["x"]})}, "no column 'source_id'"),
        ({"generated": pd.DataFrame({"image_id": ["x"], "source_id": [None]})}, "holds None in row 0"),
        ({"generated": generated_for(["a"])}, "1 of the 2 units to replace have no generated image"),
    ],
)
def test_wrong_substitutions(change: dict[str, Any], reason: str) -> None:
    given_: dict[str, Any] = {"generated": generated_for(["a", "b"]), "alpha": 1.0} | change
    with pytest.raises(InputError, match=reason):
        substitute(pd.DataFrame({"image_id": ["a", "b"]}), **given_)


def test_synthetic_and_augmented_sets() -> None:
    real = pd.DataFrame({"image_id": list("abc"), "skin_tone": ["light", "dark", None]})
    fake = pd.DataFrame(
        {
            "image_id": ["a_l", "a_d", "b_l", "b_d", "c_l"],
            "source_id": ["a", "a", "b", "b", "c"],
            "skin_tone": ["light", "dark", "light", "dark", "light"],
        }
    )
    augmented = combine(real, fake, "skin_tone", mode="augment")
    assert augmented.real.tolist() == [0, 1, 2]
    assert fake["image_id"].iloc[augmented.generated].tolist() == ["a_d", "b_l"]
    assert (augmented.unlabelled, augmented.incomplete) == (("c",), ("c",))
    synthetic = combine(real, fake, "skin_tone", mode="synthetic")
    assert (synthetic.real.tolist(), synthetic.generated.tolist()) == ([], [0, 1, 2, 3, 4])
    with pytest.raises(InputError, match="made from 'c', which is not among the real images"):
        combine(real.iloc[:2], fake, "skin_tone")
    with pytest.raises(InputError, match="has no label on skin_tone"):
        combine(real, fake.assign(skin_tone=None), "skin_tone")
    with pytest.raises(InputError, match="mode='both'"):
        combine(real, fake, "skin_tone", mode="both")


def rows_of_table(n: int) -> list[dict[str, Any]]:
    return [
        {
            "image": b"bytes %d" % i,
            "image_id": f"r{i}",
            "caption": f"c{i}",
            "captions": [f"c{i}"],
            "subject": f"s{i % 5}",
            "gender": ("m", "m", "f", None)[i % 4],
        }
        for i in range(n)
    ]


def test_layers_on_a_table(tmp_path: Path) -> None:
    table = Table.create(tmp_path / "t", rows_of_table(40), axes=["gender"], rows_per_shard=7)
    first = table.add_layer("blur", [{"image_id": "r2", "keep": False}], columns=["keep"])
    with_balance = balance_layer(table, "gender")
    kept = with_balance.to_pandas(["gender"], only_kept=True)["gender"].tolist()
    assert Counter(kept) == {"m": 10, "f": 10}
    assert set(with_balance.to_pandas(["dropped_by"])["dropped_by"].dropna()) == {"balance"}
    more = balance_layer(table, ["gender"], name="over", method="oversample")
    copies = more.to_pandas(["gender", "copies"]).groupby("gender")["copies"].sum()
    assert copies.to_dict() == {"m": 20, "f": 20}
    assert len(first) == 40
    parts = split_layer(table, fractions={"train": 0.6, "test": 0.4}).to_pandas(["subject", "split"])
    assert parts.groupby("subject")["split"].nunique().max() == 1
    assert Counter(parts["split"]) == {"train": 24, "test": 16}


def test_a_balanced_layer_draws_only_from_rows_that_are_kept(tmp_path: Path) -> None:
    table = Table.create(tmp_path / "t", rows_of_table(40), axes=["gender"])
    verdicts = [{"image_id": f"r{i}", "keep": i >= 20} for i in range(40)]
    filtered = table.add_layer("half", verdicts, columns=["keep"])
    both = balance_layer(filtered, "gender")
    kept = both.to_pandas(["image_id", "gender"], only_kept=True)
    assert Counter(kept["gender"]) == {"m": 5, "f": 5}
    assert all(int(name[1:]) >= 20 for name in kept["image_id"])


def test_mixtures_are_written_as_tables(tmp_path: Path) -> None:
    real = Table.create(tmp_path / "real", rows_of_table(10), axes=["gender"], columns={"url": "string"})
    made = [
        {"image": b"fake", "image_id": f"g{i}", "source_id": f"r{i}", "caption": "prompt", "gender": "f", "seed": i}
        for i in range(10)
    ]
    fake = Table.create(tmp_path / "fake", made, axes=["gender"], columns={"score_x": "float64"})
    frames_ = (real.to_pandas(["image_id", "gender"]), fake.to_pandas(["image_id", "source_id", "gender"]))
    chosen = substitute(*frames_, 0.3, seed=1)
    mixed = write_mixture(real, fake, chosen, tmp_path / "mixed")
    rows = list(mixed.rows())
    assert len(rows) == 10
    replaced = [row for row in rows if row["image_id"].startswith("g")]
    assert sorted(row["source_id"] for row in replaced) == list(chosen.replaced)
    for row in replaced:
        assert (row["image"]["bytes"], row["caption"]) == (b"fake", "c" + row["source_id"][1:])
    assert mixed.config["substitute"]["sha256"] == chosen.sha256
    assert set(mixed.parents) == {real.fingerprint, fake.fingerprint}
    augmented = write_mixture(real, fake, combine(*frames_, "gender"), tmp_path / "augmented")
    assert [row["image_id"] for row in augmented.rows()][10:] == ["g0", "g1", "g4", "g5", "g8", "g9"]
    assert len(write_mixture(real, fake, combine(*frames_, "gender", mode="synthetic"), tmp_path / "synthetic")) == 10
    by_caption = substitute(
        real.to_pandas(["image_id", "captions"]),
        fake.to_pandas().assign(caption=[f"c{i}" for i in range(10)]),
        1,
        unit="caption",
    )
    with pytest.raises(InputError, match="used through its manifest"):
        write_mixture(real, fake, by_caption, tmp_path / "x")


def test_an_id_that_would_name_two_images_of_a_mixture_is_refused(tmp_path: Path) -> None:
    def table(name: str, *rows: tuple[str, str | None]) -> Table:
        made = [{"image_id": i, "source_id": source, "gender": "f" if source is None else "m"} for i, source in rows]
        return Table.create(tmp_path / name, made, axes=["gender"])

    real = table("real", *((name, None) for name in "abcd"))
    fake = table("fake", ("b", "a"), ("c1", "c"))
    frames_ = [t.to_pandas(["image_id", "source_id", "gender"]) for t in (real, fake)]
    sentence = r"the id 'b' is in .*real and in .*fake, .* import one of the two with other ids"
    with pytest.raises(InputError, match=sentence):
        write_mixture(real, fake, combine(*frames_, "gender"), tmp_path / "x")
    with pytest.raises(InputError, match=sentence):
        write_mixture(real, fake, Substitution(0.25, 0, "image", 4, {"a": "b"}), tmp_path / "x")
    own_name = Substitution(0.25, 0, "image", 4, {"a": "b", "b": "c1"})  # the real b goes, the generated one comes
    assert write_mixture(real, fake, own_name, tmp_path / "own").to_pandas(["image_id"])["image_id"].tolist() == [
        *("c", "d", "b", "c1")
    ]
    first, second = table("first", ("x", "a")), table("second", ("x", "b"))
    for chosen in ({"a": "x", "b": "x"}, {"a": "x"}):
        with pytest.raises(InputError, match=r"the id 'x' is in .*first and in .*second"):
            write_mixture(real, [first, second], Substitution(0.5, 0, "image", 4, chosen), tmp_path / "y")
    with pytest.raises(InputError, match="'x' takes the place of several real ones"):
        write_mixture(real, first, Substitution(0.5, 0, "image", 4, {"a": "x", "b": "x"}), tmp_path / "y")


def test_a_mixture_keeps_its_images_and_leaves_out_what_filters_dropped(tmp_path: Path) -> None:
    tables = []
    for name, root, ids in (("real", None, "ab"), ("fake", tmp_path / "photos", "xy")):
        folder = root or tmp_path / name
        config = {"image_root": str(root)} if root else {}
        rows = [
            {"image": f"{i}.png", "image_id": i, "source_id": s, "gender": g}
            for i, s, g in zip(ids, "ab", "mf" if name == "real" else "fm", strict=True)
        ]
        tables.append(Table.create(tmp_path / name, rows, axes=["gender"], config=config))
        folder.mkdir(exist_ok=True)
        for i in ids:
            Image.new("RGB", (2, 2)).save(folder / f"{i}.png")
    real, fake = tables
    frames_ = (real.to_pandas(["image_id", "gender"]), fake.to_pandas(["image_id", "source_id", "gender"]))
    for number, chosen in enumerate((substitute(*frames_, 0.5), combine(*frames_, "gender"))):
        mixed = write_mixture(real, fake, chosen, tmp_path / f"mixed{number}")
        mixed.validate(decode=True)
        assert len(list(mixed.images())) == (2, 4)[number]
    judged = real.add_layer("f", [{"image_id": "a", "keep": True}, {"image_id": "b", "keep": False}], columns=["keep"])
    made = write_mixture(judged, fake, combine(*frames_, "gender"), tmp_path / "judged")
    assert made.to_pandas(["image_id"])["image_id"].tolist() == ["a", "x", "y"]
    assert not {"keep", "dropped_by"} & set(made.columns)
    with pytest.raises(InputError, match=r"1 images of the substitution are not in .*, such as 'b'; choose among"):
        write_mixture(judged, fake, substitute(*frames_, 1), tmp_path / "wrong")
    kept = judged.to_pandas(["image_id", "gender"], only_kept=True)
    made = write_mixture(judged, fake, substitute(kept, frames_[1], 1), tmp_path / "right")
    assert made.to_pandas(["image_id"])["image_id"].tolist() == ["x"]


def test_sets_that_are_numbered_anew_in_each_subject_are_drawn_apart(tmp_path: Path) -> None:
    rows = [
        {"image_id": f"{s}-{k}-{i}", "subject": f"s{s}", "set_id": str(k)}
        for s in range(50)
        for k in range(4)
        for i in range(2)
    ]
    some = some_of(Table.create(tmp_path / "t", rows), sample=10)
    drawn = some.to_pandas(["image_id"], only_kept=True)["image_id"]
    assert len(drawn) == 10
    assert set(drawn.str[:-2].value_counts()) == {2}, "whole sets"
    assert drawn.str.partition("-")[0].nunique() > 2, "of several subjects"


@pytest.mark.slow
def test_the_size_of_conceptual_captions() -> None:
    n = 2_772_289
    real = pd.DataFrame({"image_id": [f"cc3m-train-{i:09d}" for i in range(n)]})
    fake = pd.DataFrame({"image_id": [f"g{i}" for i in range(n)], "source_id": real["image_id"]})
    start = time.process_time()
    found = substitute(real, fake, 0.2, seed=0)
    assert len(found.replacement) == 554_458
    assert time.process_time() - start < 60


def test_some_images_are_the_first_or_whole_sets(tmp_path: Path) -> None:
    rows = [{"image_id": f"{s}-{i}", "set_id": f"s{s}"} for s in range(10) for i in range(3)]
    table = Table.create(tmp_path / "t", rows)

    def kept(**how: int) -> list[str]:
        some = some_of(table, **how)
        return [row["image_id"] for row in some.rows(["image_id"], only_kept=True)]

    assert kept(limit=4) == ["0-0", "0-1", "0-2", "1-0"]
    drawn = kept(sample=7, seed=1)
    sets = [name.partition("-")[0] for name in drawn]
    assert len(drawn) == 9
    assert all(sets.count(name) == 3 for name in sets)
    assert kept(sample=7, seed=1) == drawn
    assert some_of(table) is table
    with pytest.raises(InputError, match="give one of the two"):
        some_of(table, limit=1, sample=1)
    assert not (table.path / "_layers").exists()


def lacking(chosen, items):
    """How many images all objects and groups together have less than the group with most."""
    total = 0
    for item in items:
        counts = [chosen.get((item, group), 0) for group in ("f", "m")]
        total += max(counts) - min(counts)
    return total


@given(st.lists(st.tuples(st.sampled_from(["f", "m", None]), st.sets(st.sampled_from("xyz"))), max_size=30))
@settings(max_examples=examples(60), deadline=None)
def test_objects_and_groups_together_never_get_less_balanced_and_counts_are_true(rows):
    rows = [("f", {"x"}), ("m", {"x"}), *rows]
    frame = pd.DataFrame(
        {
            "image_id": [f"{i}" for i in range(len(rows))],
            "gender": [g for g, _ in rows],
            "objects": [list(o) for _, o in rows],
        }
    )
    for method in ("oversample", "undersample"):
        chosen = balance(frame, ["objects", "gender"], method=method)
        taken = frame.iloc[chosen.positions]
        plain = Counter((o, g) for g, some in zip(taken["gender"], taken["objects"], strict=True) for o in some)
        assert dict(chosen.after) == dict(plain)
        shared = [o for o in "xyz" if all(chosen.before.get((o, g)) for g in "fm")]
        assert lacking(chosen.after, shared) <= lacking(chosen.before, shared)
        assert taken["gender"].notna().all()
        labelled = set(frame.index[frame["gender"].notna()])
        assert set(taken.index) == labelled if method == "oversample" else set(taken.index) <= labelled
        assert taken.index.is_unique or method == "oversample"
        assert set(chosen.missing) == {(o, g) for o in {o for o, _ in chosen.before} for g in "fm"} - set(chosen.before)


def test_single_objects_are_balanced_exactly_by_hand():
    frame = pd.DataFrame(
        {
            "image_id": list("abcdefgh"),
            "gender": ["m", "m", "m", "f", "f", "f", "m", "f"],
            "objects": [["tie"], ["tie"], ["tie"], ["tie"], ["oven"], ["oven"], ["oven"], ["wig"]],
        }
    )
    over = balance(frame, ["objects", "gender"], method="oversample")
    assert dict(over.after) == {("oven", "f"): 2, ("oven", "m"): 2, ("tie", "f"): 3, ("tie", "m"): 3, ("wig", "f"): 1}
    under = balance(frame, ["objects", "gender"])
    assert dict(under.after) == {("oven", "f"): 1, ("oven", "m"): 1, ("tie", "f"): 1, ("tie", "m"): 1, ("wig", "f"): 1}
    assert over.missing == under.missing == (("wig", "m"),)
    with pytest.raises(InputError, match="with groups"):
        balance(frame, "objects")
    with pytest.raises(InputError, match="gensynth does not"):
        balance(frame, ["objects", "gender"], method="gensynth")
