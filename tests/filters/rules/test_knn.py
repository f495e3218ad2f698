from dataclasses import dataclass

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from equipoise.data import Table
from equipoise.data.images import encode
from equipoise.errors import InputError
from equipoise.filters import Models, RemainingImages, Step
from equipoise.filters.rules import knn
from equipoise.filters.rules.knn import Neighbourhood, accepted, chosen_pairs, neighbourhood, realness_deciles, without
from equipoise.filters.running import run


def brute_force(vectors, is_real, groups, sources, k, exclude_self, exclude_siblings):
    real, group = [], []
    n = len(vectors)
    for e in np.flatnonzero(~is_real):
        others = [
            i
            for i in range(n)
            if not (exclude_self and i == e)
            and not (exclude_siblings and i != e and not is_real[i] and sources[i] == sources[e])
        ]
        distance = ((vectors - vectors[e]) ** 2).sum(axis=1)
        near = sorted(others, key=lambda i: (distance[i], i))[:k]
        real.append(np.mean([is_real[i] for i in near]))
        group.append(np.mean([groups[i] == groups[e] and groups[i] >= 0 for i in near]))
    return real, group


@given(st.integers(0, 10**6), st.integers(3, 10), st.integers(2, 25), st.integers(1, 20), st.booleans(), st.booleans())
def test_equals_brute_force(seed, n_real, n_edits, k, exclude_self, exclude_siblings):
    rng = np.random.default_rng(seed)
    n = n_real + n_edits
    vectors = rng.integers(-3, 4, (n, 3))
    is_real = rng.permutation(np.arange(n) < n_real)
    groups = rng.integers(-1, 2, n)
    sources = np.where(is_real, -1, rng.integers(0, 4, n))
    found = neighbourhood(
        vectors,
        is_real,
        groups,
        k=k,
        sources=sources,
        exclude_self=exclude_self,
        exclude_siblings=exclude_siblings,
    )
    real, group = brute_force(vectors, is_real, groups, sources, k, exclude_self, exclude_siblings)
    assert found.real.tolist() == real
    assert found.group.tolist() == group


def test_neighbours_are_held_a_block_at_a_time(monkeypatch):
    rng = np.random.default_rng(0)
    vectors, is_real, groups = rng.normal(size=(400, 4)), np.arange(400) < 100, rng.integers(0, 2, 400)
    whole = neighbourhood(vectors, is_real, groups, k=90)
    sizes = []
    monkeypatch.setattr(knn, "without", lambda *given: sizes.append(given[0].size) or without(*given))
    monkeypatch.setattr(knn, "HELD", 1000)
    parts = neighbourhood(vectors, is_real, groups, k=90)
    assert max(sizes) <= 1000
    assert len(sizes) == 30
    assert (parts.real.tolist(), parts.group.tolist(), parts.k) == (whole.real.tolist(), whole.group.tolist(), whole.k)


@pytest.mark.parametrize(
    ("n_real", "n_group", "inequality", "kept"),
    [
        (4, 26, ">", False),
        (5, 26, ">", True),
        (5, 25, ">", False),
        (4, 25, ">=", True),
        (3, 25, ">=", False),
        (4, 24, ">=", False),
    ],
)
def test_the_papers_thresholds(n_real, n_group, inequality, kept):
    # K = 50: more than 0.08 real is 5 of 50, at least 0.08 is 4; more than half is 26
    assert accepted([n_real / 50], [n_group / 50], inequality=inequality).tolist() == [kept]


def test_the_dino_preset_accepts_one_real_neighbour_of_5000():
    dino = Step.of("knn", preset="dino").filter
    assert (dino.k, dino.k_group, dino.model) == (5000, 50, "hf:facebook/dino-vitb16")
    assert accepted(
        [1 / 5000, 0.0], [20 / 50, 20 / 50], dino.real_above, dino.group_above, inequality=dino.inequality
    ).tolist() == [True, False]


def test_excluding_self_changes_the_group_share_by_one_in_k():
    rng = np.random.default_rng(0)
    vectors, is_real = rng.normal(size=(60, 4)), np.arange(60) < 30
    groups = np.r_[np.zeros(30, int), np.tile([0, 1], 15)]
    with_self = neighbourhood(vectors, is_real, groups, k=5, exclude_self=False)
    alone = neighbourhood(vectors, is_real, groups, k=5)
    assert (with_self.real <= alone.real + 1e-12).all()
    assert with_self.group.mean() > alone.group.mean()


def test_fewer_images_than_k_use_all():
    found = neighbourhood([[0.0], [1.0], [2.0]], [True, True, False], [0, 1, 0], k=50)
    assert found.k == 2
    assert found.real.tolist() == [1.0]
    assert found.group.tolist() == [0.5]


def pairs(n_sources=40, per_group=3):
    rows = [
        {"image_id": f"{s}-{g}-{i}", "source_id": f"s{s}", "gender": g}
        for s in range(n_sources)
        for g in ("f", "m")
        for i in range(per_group)
    ]
    return pd.DataFrame(rows)


def test_one_accepted_edit_of_every_group_or_the_source_goes():
    frame = pairs()
    good = np.random.default_rng(0).random(len(frame)) < 0.4
    kept = chosen_pairs(good, frame, "gender", seed=1)
    assert (kept <= good).all()
    counts = frame[kept].groupby(["source_id", "gender"]).size()
    assert (counts == 1).all()
    whole = frame[good].groupby("source_id")["gender"].nunique() == 2
    assert set(frame[kept]["source_id"]) == set(whole.index[whole])
    order = np.random.default_rng(2).permutation(len(frame))
    shuffled = chosen_pairs(good[order], frame.iloc[order].reset_index(drop=True), "gender", seed=1)
    assert set(frame.iloc[order][shuffled]["image_id"]) == set(frame[kept]["image_id"])
    assert set(frame[chosen_pairs(good, frame, "gender", seed=2)]["image_id"]) != set(frame[kept]["image_id"])
    every = chosen_pairs(good, frame, "gender", every=True)
    assert every.sum() == good[frame["source_id"].isin(whole.index[whole]).to_numpy()].sum()


def test_deciles_are_bins_of_the_score_over_all_candidate_pairs():
    """Appendix J: "one image between 0.7-0.8, and no images in the higher deciles" is of scores, not of ranks."""
    real = np.array([0.05, 0.15, 0.70, 0.74, 0.2, 0.2, 0.99, 1.0])
    source = ["a", "a", "a", "a", "b", "b", "c", "c"]
    frame = pd.DataFrame({"image_id": list("abcdefgh"), "source_id": source, "gender": list("fmfmfmfm")})
    found = realness_deciles(real, np.array([0, 0, 1, 1, 0, 0, 1, 1], bool), frame, "gender")
    pairs = found[~found["chosen"]]
    assert pairs["decile"].tolist() == [2, 8, 3, 10]
    assert found[found["chosen"]].set_index("source_id")["decile"].to_dict() == {"a": 8, "c": 10}


def test_a_source_without_an_edit_of_every_group_has_no_pair():
    frame = pd.DataFrame({"image_id": list("abc"), "source_id": ["a", "a", "b"], "gender": list("fmf")})
    found = realness_deciles(np.array([0.2, 0.4, 0.9]), np.zeros(3, bool), frame, "gender")
    assert found["source_id"].tolist() == ["a"]


@pytest.fixture
def edits(tmp_path):
    """Real images in two clusters by gender; edits that reach their cluster, that do not, and that look unreal."""
    from PIL import Image

    rng = np.random.default_rng(0)
    centre = {"f": np.array([1.0, 0.0, 0.0]), "m": np.array([0.0, 1.0, 0.0]), "odd": np.array([0.0, 0.0, 1.0])}
    rows, vectors = [], []

    def add(name, source, gender, at):
        picture = {"bytes": encode(Image.new("RGB", (8, 8), "white")), "path": None}
        rows.append({"image": picture, "image_id": name, "source_id": source, "gender": gender})
        vectors.append(centre[at] + rng.normal(0, 0.05, 3))

    for i in range(40):
        gender = "fm"[i % 2]
        add(f"real{i}", None, gender, gender)
    for i in range(12):
        for gender in "fm":
            add(f"good{i}-{gender}", f"real{i}", gender, gender)  # in its cluster, among real ones
            add(f"odd{i}-{gender}", f"real{i}", gender, "odd")  # far from everything real
    for i in range(12, 16):
        add(f"wrong{i}", f"real{i}", "f", "m")  # looks real, but of the other group
    return Table.create(tmp_path / "edits", rows, axes=["gender"]), np.array(vectors)


def test_real_looking_edits_of_their_group_stay(edits, embedded):
    table, vectors = edits
    frame = table.to_pandas(["image_id"])
    spec = embedded("v", frame["image_id"], vectors)
    settings = Neighbourhood(k=10, crop="none")
    verdict = settings.judge(RemainingImages(table, models=Models(encoder=spec)))
    ids = frame["image_id"]
    kept = set(ids[~verdict.dropped])
    assert {name for name in ids if name.startswith("real")} <= kept
    assert {name for name in kept if not name.startswith("real")} == {f"good{i}-{g}" for i in range(12) for g in "fm"}
    assert not verdict.judged[ids.str.startswith("real")].any()
    assert verdict.failed[ids.str.startswith("odd")].all()
    assert verdict.failed[ids.str.startswith("wrong")].all()
    assert verdict.files["knn_deciles"]["chosen"].sum() == 12


def test_siblings_can_be_left_out(edits, embedded):
    table, vectors = edits
    spec = embedded("v", table.to_pandas(["image_id"])["image_id"], vectors)
    scores = {}
    for flag in (False, True):
        settings = Neighbourhood(k=10, crop="none", exclude_siblings=flag)
        scores[flag] = settings.judge(RemainingImages(table, models=Models(encoder=spec))).scores["real"]
    assert np.nanmean(scores[True]) >= np.nanmean(scores[False])


def test_a_reference_table_holds_the_real_images(edits, embedded, tmp_path):
    table, vectors = edits
    rows = list(table.rows())
    real = Table.create(tmp_path / "real", [r for r in rows if r["source_id"] is None], axes=["gender"])
    made = Table.create(tmp_path / "made", [r for r in rows if r["source_id"] is not None], axes=["gender"])
    spec = embedded("v", table.to_pandas(["image_id"])["image_id"], vectors)
    settings = Neighbourhood(k=10, crop="none")
    apart = settings.judge(RemainingImages(made, models=Models(encoder=spec, reference=real)))
    whole = settings.judge(RemainingImages(table, models=Models(encoder=spec)))
    edited = table.to_pandas(["source_id"])["source_id"].notna().to_numpy()
    assert apart.scores["real"].tolist() == whole.scores["real"][edited].tolist()
    assert (apart.dropped == whole.dropped[edited]).all()
    with pytest.raises(InputError, match="no image is real"):
        settings.judge(RemainingImages(made, models=Models(encoder=spec)))


def test_groups_of_the_reference_are_read_together_with_those_of_the_edits(edits, embedded, tmp_path):
    table, vectors = edits
    rows = list(table.rows())
    spelled = [{**r, "gender": r["gender"].title()} for r in rows if r["source_id"] is None]
    real = Table.create(tmp_path / "real", spelled, axes=["gender"])
    made = Table.create(tmp_path / "made", [r for r in rows if r["source_id"] is not None], axes=["gender"])
    spec = embedded("v", table.to_pandas(["image_id"])["image_id"], vectors)
    settings = Neighbourhood(k=10, crop="none")
    apart = settings.judge(RemainingImages(made, models=Models(encoder=spec, reference=real)))
    whole = settings.judge(RemainingImages(table, models=Models(encoder=spec)))
    edited = table.to_pandas(["source_id"])["source_id"].notna().to_numpy()
    assert apart.scores["group"].tolist() == whole.scores["group"][edited].tolist()


@pytest.mark.parametrize("with_reference", [False, True])
def test_the_axis_of_the_filter_need_not_be_one_that_the_run_counts_by(edits, embedded, tmp_path, with_reference):
    table, vectors = edits
    rows = [{**row, "race": "x"} for row in table.rows()]
    both = Table.create(tmp_path / "both", rows, axes=["gender", "race"])
    real = Table.create(tmp_path / "real", [r for r in rows if r["source_id"] is None], axes=["gender", "race"])
    spec = embedded("v", table.to_pandas(["image_id"])["image_id"], vectors)
    models = Models(encoder=spec, reference=real if with_reference else None)
    settings = Neighbourhood(k=10, crop="none")
    by_race = settings.judge(RemainingImages(both, models=models, axes=("race",)))
    by_both = settings.judge(RemainingImages(both, models=models))
    assert by_race.dropped.tolist() == by_both.dropped.tolist()


@dataclass(frozen=True)
class MeanColours:
    """An encoder whose vectors are mean colours."""

    name: str = "colours"
    key: str = "colours 1"
    logit_scale: float = 1.0
    reads_texts: bool = False

    def encode_images(self, images):
        return np.stack([np.asarray(image, dtype=np.float32).mean(axis=(0, 1)) + 1 for image in images])

    def encode_texts(self, texts):
        raise AssertionError("no text is asked for")


def test_images_without_the_box_of_a_person_are_said_to_be_compared_whole(edits, tmp_path):
    table = edits[0]
    box, unboxed = '[{"box": [0, 0, 4, 4]}]', '[{"box": null}]'
    rows = [{**row, "people": unboxed if i < 3 else box} for i, row in enumerate(table.rows())]
    boxed = Table.create(tmp_path / "boxed", rows, axes=["gender"], columns={"people": "json"})
    models = Models(encoder=MeanColours())
    for some, n in ((table, len(table)), (boxed, 3)):
        notes = Neighbourhood(k=10).judge(RemainingImages(some, models=models)).notes
        assert f"{n} images have no box of a person and were compared whole, not cropped" in notes
    notes = Neighbourhood(k=10, crop="none").judge(RemainingImages(table, models=models)).notes
    assert not any("compared whole" in note for note in notes)


def test_a_run_writes_the_gallery(edits, embedded, tmp_path):
    table, vectors = edits
    spec = embedded("v", table.to_pandas(["image_id"])["image_id"], vectors)
    done = run(table, [Step.of("knn", {"k": 10, "crop": "none"})], tmp_path / "out", models=Models(encoder=spec))
    assert (done.folder / "knn_deciles.csv").exists()
    assert (done.folder / "knn_gallery.png").stat().st_size > 0
    assert done.table.to_pandas(["image_id"], only_kept=True)["image_id"].str.startswith("good").sum() == 24
    settings = {"k": 10, "crop": "none"}
    run(table, [Step.of("knn", settings)], tmp_path / "out", models=Models(encoder=spec), seed=0, draws=99)
    assert (done.folder / "knn_gallery.png").exists(), "a run that is repeated keeps it"
    run(table, [Step.of("duplicates")], tmp_path / "out", models=Models(encoder=spec), overwrite=True)
    assert not list(done.folder.glob("**/knn_*"))


def test_unknown_choices_are_answered():
    with pytest.raises(InputError, match="inequality"):
        Neighbourhood(inequality="=>")
    with pytest.raises(InputError, match="selection"):
        Neighbourhood(select="two")
