"""Filters that look at pictures: safety, people, sharpness, duplicates, fidelity, quality."""

import json
from importlib.util import find_spec

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image, ImageFilter
from scipy.stats import rankdata

from equipoise.data import Table
from equipoise.data.images import encode
from equipoise.errors import InputError
from equipoise.filters import FilterEvidence, Means, Step
from equipoise.filters.detecting import as_json, from_json, largest_person
from equipoise.filters.quality import Quality, frechet_gap
from equipoise.filters.rules.duplicates import Duplicates, _set_sums, earlier_twin
from equipoise.filters.rules.fidelity import Fidelity, colour_fidelity, object_f1, rank_sum, thumbnail
from equipoise.filters.rules.people import People
from equipoise.filters.rules.safety import Safety
from equipoise.filters.rules.sharpness import Sharpness, sharpness_of
from equipoise.measure.groups import Groups
from equipoise.models.protocols import Detections
from equipoise.world import preset, write_table

BROKEN = {"bytes": b"not an image", "path": None}


def picture(image):
    return {"bytes": encode(image), "path": None}


def squares(red, blue, size=16):
    """A picture with so many red ("person") and blue ("dog") pixels."""
    pixels = np.full((size, size, 3), 255, dtype=np.uint8)
    pixels[0, :red] = (255, 0, 0)
    pixels[2, :blue] = (0, 0, 255)
    return Image.fromarray(pixels)


# safety


@pytest.fixture(scope="module")
def unsafe_world(tmp_path_factory):
    return write_table(tmp_path_factory.mktemp("unsafe") / "t", preset("fair").changed(unsafe=0.3), 40, seed=1)


def test_a_classifier_finds_what_was_planted(unsafe_world, magenta):
    verdict = Safety().judge(FilterEvidence(unsafe_world, means=Means(classifier=magenta)))
    planted = unsafe_world.to_pandas(["unsafe"])["unsafe"]
    assert 5 < planted.sum() < 25
    assert (verdict.failed == planted).all()
    by_column = Safety(column="unsafe", black_from=2.0).judge(FilterEvidence(unsafe_world))
    assert (by_column.failed == planted).all()


def test_a_set_goes_with_one_unsafe_image(images):
    rows = [{"image_id": f"{s}{i}", "set_id": s, "score_x": float(s == "a" and i == 1)} for s in "ab" for i in (0, 1)]
    table = images(rows, columns=["score_x"])
    by_set, by_image = (Safety(column="score_x", black_from=2.0, scope=scope) for scope in ("set", "image"))
    assert by_set.judge(FilterEvidence(table)).dropped.tolist() == [True, True, False, False]
    assert by_image.judge(FilterEvidence(table)).dropped.tolist() == [False, True, False, False]


def test_a_column_of_words_cannot_say_how_unsafe(images):
    table = images([{"image_id": "a", "caption": "a nurse"}])
    with pytest.raises(InputError, match=r"'caption' of .* holds string; how unsafe"):
        Safety(column="caption", black_from=2.0).judge(FilterEvidence(table))


def test_black_images_are_found_without_a_classifier(images):
    noisy = Image.fromarray(np.random.default_rng(0).integers(0, 6, (8, 8, 3), dtype=np.uint8))
    rows = [
        {"image_id": "black", "image": picture(Image.new("RGB", (8, 8)))},
        {"image_id": "jpeg", "image": picture(noisy)},
        {"image_id": "dark", "image": picture(Image.new("RGB", (8, 8), (20, 20, 20)))},
        {"image_id": "broken", "image": {"bytes": b"no image", "path": None}},
    ]
    verdict = Safety(**Safety.presets["black"]).judge(FilterEvidence(images(rows)))
    assert verdict.dropped.tolist() == [True, True, False, True]
    assert "unsafe" not in verdict.scores
    assert any("1 images could not be decoded" in note for note in verdict.notes)


def test_pictograms_have_an_embedded_default_and_photographs_none(unsafe_world, images, monkeypatch, tmp_path):
    from equipoise.models import miniatures

    if not (miniatures.FOLDER / "safety").is_dir():
        pytest.skip("the miniature safety is not in this installation")
    planted = unsafe_world.to_pandas(["unsafe"])["unsafe"]
    verdict = Safety().judge(FilterEvidence(unsafe_world))
    assert (verdict.failed == planted).all()
    assert any("mini:safety, which knows the sign of the pictogram world alone" in note for note in verdict.notes)
    photo = images([{"image_id": "a", "image": picture(Image.new("RGB", (65, 40), "red"))}], "photo")
    verdict = Safety().judge(FilterEvidence(photo))
    assert not verdict.failed.any()
    assert "unsafe" not in verdict.scores
    assert any("for photographs name a real one" in note for note in verdict.notes)
    monkeypatch.setattr(miniatures, "FOLDER", tmp_path)
    assert any("mini:safety is not installed" in note for note in Safety().judge(FilterEvidence(unsafe_world)).notes)


def test_prompts_in_place_of_a_classifier(images, embedded):
    table = images([{"image_id": "a"}, {"image_id": "b"}])
    spec = embedded("v", ["a", "b"], np.eye(2), ["blood", "flowers"], np.eye(2))
    settings = Safety(unsafe_texts=("blood",), safe_texts=("flowers",), black_from=2.0)
    verdict = settings.judge(FilterEvidence(table, means=Means(encoder=spec)))
    assert verdict.failed.tolist() == [True, False]
    with pytest.raises(InputError, match="belong together"):
        Safety(unsafe_texts=("blood",))


def test_the_judge_may_not_filter(unsafe_world):
    for name in ("mini", "mini:judge"):
        with pytest.raises(InputError, match="would judge itself"):
            Safety(classifier=name).judge(FilterEvidence(unsafe_world))


def test_a_classifier_without_an_unsafe_label_is_refused(unsafe_world, magenta):
    with pytest.raises(InputError, match="no unsafe label"):
        Safety(unsafe_labels=("violence",)).judge(FilterEvidence(unsafe_world, means=Means(classifier=magenta)))


# people


def test_annotations_count_people(world):
    verdict = People(exactly=1).judge(FilterEvidence(world))
    n = world.to_pandas(["people"])["people"].map(lambda cell: len(json.loads(cell)))
    assert (verdict.failed == (n != 1)).all()
    assert (verdict.scores["persons"] == n).all()


def test_persons_among_objects_and_a_face(images, detector, face_detector):
    rows = [
        {"image_id": "one", "image": picture(squares(1, 0))},
        {"image_id": "none", "image": picture(squares(0, 2))},
        {"image_id": "few", "image": picture(squares(1, 3))},
        {"image_id": "two", "image": picture(squares(2, 1))},
    ]
    evidence = FilterEvidence(images(rows), means=Means(detector=detector, faces=face_detector))
    assert People(exactly=1).judge(evidence).failed.tolist() == [False, True, False, True]
    assert People(at_least=2).judge(evidence).failed.tolist() == [True, True, True, False]
    found = People(share_least=0.3).judge(evidence)
    assert found.scores["person_share"].tolist() == pytest.approx([1.0, 0.0, 0.25, 2 / 3])
    assert found.failed.tolist() == [False, True, True, False]
    gab = Step.of("people", preset="gab").filter
    assert (gab.share_least, gab.face) == (0.15, True)
    assert gab.judge(evidence).failed.tolist() == [False, True, False, False]
    with pytest.raises(InputError, match="no detector of faces"):
        gab.judge(FilterEvidence(evidence.table, means=Means(detector=detector)))
    faces = gab.judge(evidence).scores["faces"]
    assert faces.tolist() == [1, 0, 1, 2]  # the dogs are none


def test_a_detector_of_people_finds_no_faces(images, detector):
    table = images([{"image_id": "one", "image": picture(squares(1, 0))}])
    evidence = FilterEvidence(table, means=Means(detector=detector, faces=detector))
    for one in (People(face=True), Sharpness(of="face")):
        with pytest.raises(InputError, match="no label of squares named 'face'"):
            one.judge(evidence)


def test_faces_of_a_column_are_those_that_are_sure(images):
    found = [("person", 0.9), ("Human face", 0.9), ("face", 0.2)]
    cell = json.dumps([{"box": [0, 0, 1, 1], "label": label, "score": score} for label, score in found])
    table = images([{"image_id": "a", "detections": cell}], columns={"detections": "json"})
    verdict = People(detector="detections", face=True, faces="detections").judge(FilterEvidence(table))
    assert verdict.scores["faces"].tolist() == [1.0]


def test_nobody_counted_is_not_nobody_there(images):
    cells = {"none": "[]", "unknown": None, "one": '[{"box": [0, 0, 1, 1]}]'}
    table = images([{"image_id": i, "people": cell} for i, cell in cells.items()], columns={"people": "json"})
    verdict = People().judge(FilterEvidence(table))
    np.testing.assert_array_equal(verdict.scores["persons"], [0, np.nan, 1])
    assert verdict.failed.tolist() == [True, True, False]
    assert verdict.notes == ["1 images could not be looked at"]
    named = [{"image_id": "a", "people": None, "objects": ["dog"]}]  # of this one something is known
    table = images(named, name="named", columns={"people": "json", "objects": "list<string>"})
    assert People(at_least=0).judge(FilterEvidence(table)).scores["persons"].tolist() == [0.0]


def test_a_column_of_detections_is_taken_as_it_is(images):
    found = Detections(np.float32([[0, 0, 2, 3], [1, 1, 2, 2]]), ("person", "dog"), np.float32([0.9, 0.2]))
    rows = [{"image_id": "a", "detections": as_json(found)}, {"image_id": "b", "detections": None}]
    table = images(rows, columns={"detections": "json"})
    verdict = People(detector="detections").judge(FilterEvidence(table))
    assert verdict.scores["persons"][0] == 1
    assert verdict.failed.tolist() == [False, True]
    assert verdict.scores["person_share"][0] == 1.0  # the dog is too unsure
    with pytest.raises(InputError, match="box, label and score"):
        from_json('{"label": 1}')
    with pytest.raises(InputError, match="name a detector"):
        People().judge(FilterEvidence(images([{"image_id": "a"}], name="bare")))


def test_the_largest_person_in_fractions_and_crowds():
    people = [
        {"box": [0.5, 0.5, 0.5, 0.5], "unit": "fraction"},
        {"box": [0, 0, 1, 1], "unit": "fraction", "iscrowd": True},
    ]
    assert largest_person(json.dumps(people), (10, 20)) == (5, 10, 10, 20)
    assert largest_person(None, (10, 20)) is None


# sharpness


def test_blur_lowers_sharpness(world):
    image = next(world.images())[1].resize((128, 128))
    values = [sharpness_of(image.filter(ImageFilter.GaussianBlur(r))) for r in (0, 1, 3)]
    assert values[0] > values[1] > values[2] > 0


def test_a_limit_drops_blurred_images_and_none_only_scores(images, face_detector):
    sharp = squares(2, 2)
    rows = [
        {"image_id": "sharp", "image": picture(sharp)},
        {"image_id": "blurred", "image": picture(sharp.filter(ImageFilter.GaussianBlur(4)))},
    ]
    table = images(rows)
    scores = Sharpness(of="image").judge(FilterEvidence(table)).scores["sharpness"]
    assert scores[0] > scores[1]
    limit = float(scores.mean())
    assert Sharpness(least=limit, of="image").judge(FilterEvidence(table)).dropped.tolist() == [False, True]
    faces = Sharpness(of="face").judge(FilterEvidence(table, means=Means(faces=face_detector)))
    assert np.isnan(faces.scores["sharpness"][1])  # no red pixel is left to be a face
    assert not faces.dropped.any()
    assert "no face was found in 1 images" in faces.notes[0]


def test_the_sharpness_of_a_broken_image_is_not_that_of_an_empty_one(images, face_detector):
    rows = [
        {"image_id": "face", "image": picture(squares(1, 0))},
        {"image_id": "empty", "image": picture(squares(0, 3))},
        {"image_id": "broken", "image": BROKEN},
    ]
    evidence = FilterEvidence(images(rows), means=Means(faces=face_detector))
    scored = Sharpness(of="face").judge(evidence)
    assert not scored.dropped.any()
    assert "1 images could not be decoded and stay, since no limit is set" in scored.notes
    limited = Sharpness(of="face", least=-1.0).judge(evidence)
    assert limited.dropped.tolist() == [False, False, True]
    assert limited.notes == [
        "no face was found in 1 images, which stay",
        "1 images could not be decoded and go",
    ]


# duplicates


def brute_force(vectors, kin, alike):
    stays, out = [], []
    for i, v in enumerate(vectors):
        near = [float(v @ vectors[j]) for j in stays if kin[j] != kin[i]]
        out.append(max(near) if near else np.nan)
        if not (near and max(near) >= alike - 1e-6):
            stays.append(i)
    return out


@given(st.integers(0, 10**6), st.integers(1, 40))
def test_twins_equal_brute_force(seed, n):
    rng = np.random.default_rng(seed)
    vectors = rng.normal(size=(n, 2))
    vectors = (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)
    kin = rng.integers(0, 10, n)
    np.testing.assert_allclose(earlier_twin(vectors, kin, 0.95), brute_force(vectors, kin, 0.95), atol=1e-5)


def test_the_first_of_two_copies_stays_and_a_set_may_be_alike(images, embedded):
    frame = {"image_id": list("abcd"), "set_id": ["s", "s", "t", "t"]}
    table = images(pd.DataFrame(frame))
    v = np.array([[1.0, 0.0], [1.0, 0.01], [1.0, 0.0], [0.0, 1.0]])
    evidence = FilterEvidence(table, means=Means(encoder=embedded("v", frame["image_id"], v)))
    assert Duplicates().judge(evidence).dropped.tolist() == [False, False, True, False]
    assert not Duplicates(unit="set").judge(evidence).dropped.any()


def test_a_set_like_an_earlier_one_goes(images, embedded):
    rows = [{"image_id": f"{s}{i}", "set_id": s} for i in (0, 1) for s in "abc"]
    e = np.eye(3)
    by_set = {"a": e[0] + e[1], "b": e[2], "c": e[0] + 1.01 * e[1]}
    spec = embedded("v", [row["image_id"] for row in rows], [by_set[row["set_id"]] for row in rows])
    verdict = Duplicates(unit="set").judge(FilterEvidence(images(rows), means=Means(encoder=spec)))
    assert verdict.dropped.tolist() == [False, False, True] * 2


def test_sums_of_sets_equal_a_loop():
    rng = np.random.default_rng(0)
    sets = np.r_[np.arange(5), rng.integers(0, 5, 20)]
    vectors = rng.normal(size=(25, 3)).astype(np.float32)
    expected = [vectors[sets == s].sum(axis=0) for s in range(5)]
    np.testing.assert_allclose(_set_sums(vectors, sets), expected, rtol=1e-5, atol=1e-6)


# fidelity


def test_a_full_tie_goes_to_the_first():
    sums = rank_sum({"prompt": [0.30, 0.28, 0.25], "objects": [0.5, 1, 0.8], "colour": [0.2, 0.1, 0.4]})
    assert sums.tolist() == [6, 6, 6]
    assert int(np.argsort(sums, kind="stable")[0]) == 0


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=12), st.integers(0, 3))
def test_rank_sums_equal_counting(scores, weight):
    a, b = np.array(scores, dtype=float).T

    def rank(values):
        return np.array([1 + (values > v).sum() + ((values == v).sum() - 1) / 2 for v in values])

    assert rank_sum({"prompt": a, "colour": b}, {"colour": weight}) == pytest.approx(rank(a) + weight * rank(b))
    assert rankdata(-a).tolist() == rank(a).tolist()


def test_missing_scores_rank_last_and_identical_colours_first():
    assert rank_sum({"prompt": [np.nan, 0.1, 0.3]}).tolist() == [3, 2, 1]
    same = colour_fidelity([[0.1, 0.2], [0.0, 0.0]], [[0.1, 0.2], [0.0, 1.0]])
    assert same.tolist() == [np.inf, 1.0]
    assert rank_sum({"colour": same}).tolist() == [1, 2]


def test_thumbnails_are_means_of_areas():
    pixels = np.random.default_rng(0).integers(0, 256, (28, 42, 3), dtype=np.uint8)
    expected = pixels.reshape(14, 2, 14, 3, 3).mean(axis=(1, 3)) / 255
    np.testing.assert_allclose(thumbnail(Image.fromarray(pixels)).reshape(14, 14, 3), expected, atol=1e-5)


def test_the_best_edit_of_each_group_stays(images, embedded, detector):
    original = squares(1, 2)
    rows = [
        {"image_id": "o", "image": picture(original), "caption": "x"},
        {"image_id": "f1", "image": picture(squares(1, 2)), "source_id": "o", "gender": "f", "caption": "woman"},
        {"image_id": "f2", "image": picture(squares(1, 0)), "source_id": "o", "gender": "f", "caption": "woman"},
        {"image_id": "m1", "image": picture(squares(0, 0)), "source_id": "o", "gender": "m", "caption": "man"},
        {"image_id": "m2", "image": picture(squares(1, 1)), "source_id": "o", "gender": "m", "caption": "man"},
    ]
    table = images(rows)
    e = np.eye(3)
    vectors = [e[2], e[0], e[0] + 0.1 * e[2], e[1] + e[2], e[1]]
    spec = embedded("v", [r["image_id"] for r in rows], vectors, ["x", "woman", "man"], [e[2], e[0], e[1]])
    evidence = FilterEvidence(table, means=Means(encoder=spec, detector=detector))
    verdict = Fidelity().judge(evidence)
    assert verdict.dropped.tolist() == [False, False, True, True, False]
    assert not verdict.judged[0]
    assert verdict.scores["objects"][1:].tolist() == pytest.approx([1.0, 2 / 3, 0.0, 1.0])
    assert verdict.scores["colour"][1] == np.inf
    tones = Step.of("fidelity", {"axis": "skin_tone"}).filter
    assert tones._weights()["colour"] == 0
    assert Fidelity(colour="on", axis="skin_tone")._weights()["colour"] == 1
    assert object_f1({"a"}, set()) == 0.0
    lost = images([rows[1]], name="lost")
    with pytest.raises(InputError, match="the original 'o' is neither"):
        Fidelity().judge(FilterEvidence(lost, means=Means(encoder=spec, detector=detector)))


def test_broken_edits_do_not_win(images):
    rows = [{"image_id": "o", "image": picture(squares(1, 2)), "caption": "x", "objects": ["dog"]}]
    for name, broken, objects in (("f1", True, ["dog"]), ("f2", True, []), ("m1", True, ["dog"]), ("m2", False, [])):
        image = BROKEN if broken else picture(squares(1, 1))
        row = {"image_id": name, "source_id": "o", "gender": name[0], "caption": "x"}
        rows.append(row | {"image": image, "objects": objects})
    table = images(rows, columns={"objects": "list<string>"})
    # the annotations speak for m1, which cannot be seen
    for weights in ({"prompt": 0, "objects": 0}, {"prompt": 0, "objects": 9}):
        verdict = Fidelity(weights=weights).judge(FilterEvidence(table))
        assert verdict.dropped.tolist() == [False, True, True, True, False]
        assert verdict.notes == ["3 edits (or their originals) could not be looked at and go"]


def test_an_original_that_an_earlier_filter_dropped_is_not_missing(images):
    rows = [{"image_id": "o", "image": picture(squares(1, 2)), "caption": "x"}]
    rows.append({**rows[0], "image_id": "f", "source_id": "o", "gender": "f"})
    with pytest.raises(InputError, match="'o' was dropped by an earlier filter; put fidelity first"):
        Fidelity().judge(FilterEvidence(images(rows), alive=np.array([False, True])))


# quality


def test_a_group_of_one_image_does_not_stop_the_run(images):
    rows = [
        {"image_id": f"{i}", "image": picture(squares(i, 9 - i)), "gender": "female" if i == 0 else "male"}
        for i in range(9)
    ]
    verdict = Quality(frechet=False, size=16).judge(FilterEvidence(images(rows)))
    assert any(note.startswith("no SSIM by gender: a gap needs two groups") for note in verdict.notes)
    assert [row["metric"] for row in verdict.rows if row["metric"] == "ssim"] == ["ssim"]  # of all together


def test_a_group_that_looks_less_real_has_the_larger_distance():
    rng = np.random.default_rng(0)
    real, images = rng.normal(size=(200, 4)), rng.normal(size=(200, 4))
    labels = np.arange(200) % 2
    images[labels == 1] += 0.8
    found, gap = frechet_gap(real, images, Groups(labels, ("expected", "unexpected"), "cell"), draws=49)
    assert found["unexpected"].value > found["expected"].value + 1
    assert gap.p_value == pytest.approx(0.02)
    even, none = frechet_gap(real, rng.normal(size=(200, 4)), Groups(labels, ("a", "b"), "cell"), draws=49)
    assert none.p_value > 0.05
    assert set(even) == {"a", "b"}
    with pytest.raises(InputError, match="fewer than two groups"):
        frechet_gap(real, images, Groups(np.zeros(200, int), ("a", "b")))


def test_quality_drops_nothing_and_measures_by_group(world, tmp_path, embedded):
    ids = world.to_pandas(["image_id"])["image_id"]
    rng = np.random.default_rng(0)
    spec = embedded("v", [*ids, *(f"r{i}" for i in range(60))], rng.normal(size=(len(ids) + 60, 4)))
    reference = Table.create(tmp_path / "real", [{"image_id": f"r{i}"} for i in range(60)])
    settings = Quality(by=("gender",), pairs=20, draws=19, size=32)
    verdict = settings.judge(FilterEvidence(world, means=Means(encoder=spec, reference=reference)))
    assert not verdict.dropped.any()
    rows = pd.DataFrame(verdict.rows)
    assert {"frechet", "frechet_gap", "ssim", "ssim_gap"} <= set(rows["metric"])
    by_group = rows[(rows["metric"] == "ssim") & rows["group"].notna()]
    assert set(by_group["group"]) == {"female", "male"}
    if find_spec("lpips") is None:
        assert "no LPIPS: the package lpips is not installed" in verdict.notes
    alone = Quality(by=("gender",), pairs=0).judge(FilterEvidence(world, means=Means(encoder=spec)))
    assert "no Fréchet distance: no table of real images was given as reference" in alone.notes


class _Distance:
    """As the package lpips: a network of pictures in -1 to 1, (n, 3, height, width), that gives (n, 1, 1, 1)."""

    def __init__(self, net, verbose):
        assert (net, verbose) == ("squeeze", False)

    def eval(self):
        return self

    def __call__(self, a, b):
        assert a.shape[1] == 3
        assert a.abs().max() <= 1
        return (a - b).abs().mean(dim=(1, 2, 3), keepdim=True)


def _refused(error):
    def made(**_):
        raise error

    return made


def test_lpips_is_measured_where_its_package_is_and_says_why_not(world, tmp_path, embedded, monkeypatch):
    import sys
    from importlib.machinery import ModuleSpec
    from types import ModuleType
    from urllib.error import URLError

    pytest.importorskip("torch")
    module = ModuleType("lpips")
    module.__spec__ = ModuleSpec("lpips", None)
    monkeypatch.setitem(sys.modules, "lpips", module)
    settings = Quality(by=("gender",), frechet=False, pairs=10, draws=19, size=32)
    module.LPIPS = _Distance
    rows = pd.DataFrame(settings.judge(FilterEvidence(world)).rows)
    mine = rows[rows["metric"] == "lpips"].set_index("group")["value"]
    assert (mine > 0.01).all()
    assert {"female", "male"} <= set(mine.index)
    assert "lpips_gap" in set(rows["metric"])
    for error, words in (
        (URLError("no network"), "SqueezeNet are not here and cannot be downloaded"),
        (RuntimeError("operator torchvision::nms does not exist"), "cannot be used (operator torchvision::nms"),
    ):
        module.LPIPS = _refused(error)
        verdict = settings.judge(FilterEvidence(world))
        assert any(words in note for note in verdict.notes), verdict.notes
        assert "lpips" not in set(pd.DataFrame(verdict.rows)["metric"])


def test_expected_and_unexpected_scenes_are_compared(images, embedded, tmp_path):
    """Unexpected scenes are blurred: sharpness tells, with a gap above chance; the sets of a cell stay whole."""
    rng = np.random.default_rng(0)
    rows = []
    for i in range(40):
        cell = ("E1", "E2", "U1", "U2")[i % 4]
        sharp = Image.fromarray(rng.integers(0, 256, (16, 16, 3), dtype=np.uint8))
        shown = sharp.filter(ImageFilter.GaussianBlur(2)) if cell[0] == "U" else sharp
        rows.append({"image_id": str(i), "image": picture(shown), "cell": cell, "gender": "fm"[i % 2]})
    table = images(rows, columns={"cell": "string"})
    settings = Sharpness(of="image", by=("expected", "gender"))
    assert settings.columns == ("cell", "gender")
    found = pd.DataFrame(settings.judge(FilterEvidence(table)).rows).set_index(["metric", "axis", "group"])["value"]
    assert found["sharpness", "expected", "expected"] > 2 * found["sharpness", "expected", "unexpected"]
    p = pd.DataFrame(settings.judge(FilterEvidence(table)).rows).set_index(["metric", "axis"])["p_value"]
    assert p["sharpness_gap", "expected"] == pytest.approx(1 / 200)
    assert p["sharpness_gap", "gender"] > 0.01
    quality = Quality(**Quality.presets["gab"], frechet=False, pairs=8, draws=19, size=16)
    rows_of_pairs = pd.DataFrame(quality.judge(FilterEvidence(table)).rows)
    assert {"expected", "unexpected"} <= set(rows_of_pairs[rows_of_pairs["axis"] == "expected"]["group"].dropna())
    spoiled = images([{"image_id": "a", "cell": "E1"}], "bare", columns={"cell": "string"})
    with pytest.raises(InputError, match="cell"):
        Sharpness(by=("expected",)).judge(FilterEvidence(images([{"image_id": "a"}], "none")))
    assert Quality(by=("expected",), frechet=False, pairs=0).judge(FilterEvidence(spoiled)).rows == []
