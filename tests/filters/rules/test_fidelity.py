import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from scipy.stats import rankdata

from equipoise.data.images import encode
from equipoise.errors import InputError
from equipoise.filters import Models, RemainingImages, Step
from equipoise.filters.rules.fidelity import Fidelity, colour_fidelity, object_f1, rank_sum, thumbnail

BROKEN = {"bytes": b"not an image", "path": None}


def picture(image):
    return {"bytes": encode(image), "path": None}


def squares(red, blue, size=16):
    """A picture with so many red ("person") and blue ("dog") pixels."""
    pixels = np.full((size, size, 3), 255, dtype=np.uint8)
    pixels[0, :red] = (255, 0, 0)
    pixels[2, :blue] = (0, 0, 255)
    return Image.fromarray(pixels)


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
    remaining = RemainingImages(table, models=Models(encoder=spec, detector=detector))
    verdict = Fidelity().judge(remaining)
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
        Fidelity().judge(RemainingImages(lost, models=Models(encoder=spec, detector=detector)))


def test_objects_of_a_column_are_those_that_are_sure(images):
    def found(**scores):
        return json.dumps([{"box": [0, 0, 9, 9], "label": name, "score": score} for name, score in scores.items()])

    cells = {"o": found(dog=0.9), "f1": found(dog=0.9, cat=0.05), "f2": found(dog=0.3), "m1": None}
    rows = [{"image_id": name, "caption": "x", "detections": cell} for name, cell in cells.items()]
    rows = [row | ({} if row["image_id"] == "o" else {"source_id": "o", "gender": "f"}) for row in rows]
    remaining = RemainingImages(images(rows, columns={"detections": "json"}))
    for threshold, expected in ((0.5, [1.0, 0.0]), (0.2, [1.0, 1.0]), (0.01, [2 / 3, 1.0])):
        chosen = Fidelity(weights={"prompt": 0, "colour": 0}, detector="detections", threshold=threshold)
        scores = chosen.judge(remaining).scores["objects"]
        assert scores[1:3].tolist() == pytest.approx(expected)
        assert np.isnan(scores[3])


def test_broken_edits_do_not_win(images):
    rows = [{"image_id": "o", "image": picture(squares(1, 2)), "caption": "x", "objects": ["dog"]}]
    for name, broken, objects in (("f1", True, ["dog"]), ("f2", True, []), ("m1", True, ["dog"]), ("m2", False, [])):
        image = BROKEN if broken else picture(squares(1, 1))
        row = {"image_id": name, "source_id": "o", "gender": name[0], "caption": "x"}
        rows.append(row | {"image": image, "objects": objects})
    table = images(rows, columns={"objects": "list<string>"})
    # the annotations speak for m1, which cannot be seen
    for weights in ({"prompt": 0, "objects": 0}, {"prompt": 0, "objects": 9}):
        verdict = Fidelity(weights=weights).judge(RemainingImages(table, models=Models(max_broken=1)))
        assert verdict.dropped.tolist() == [False, True, True, True, False]
        assert verdict.notes == ["3 edits (or their originals) could not be looked at and go"]


def test_an_original_that_an_earlier_filter_dropped_is_not_missing(images):
    rows = [{"image_id": "o", "image": picture(squares(1, 2)), "caption": "x"}]
    rows.append({**rows[0], "image_id": "f", "source_id": "o", "gender": "f"})
    with pytest.raises(InputError, match="'o' was dropped by an earlier filter; put fidelity first"):
        Fidelity().judge(RemainingImages(images(rows), alive=np.array([False, True])))


def test_no_filter_draws_one_at_random_and_asks_no_model(images):
    rows = [{"image_id": f"o{i}", "image": picture(squares(1, 2))} for i in range(30)]
    rows += [
        {"image_id": f"o{i}-{g}{j}", "image": BROKEN, "source_id": f"o{i}", "gender": g, "caption": g}
        for i in range(30)
        for g in "fm"
        for j in range(3)
    ]
    table = images(rows)
    drawn = []
    for seed, of_run in ((0, 0), (0, 0), (1, 0), (0, 1)):
        step = Step.of("fidelity", {**Fidelity.presets["no-filter"], "seed": seed})
        assert step.filter.needs == ()
        verdict = step.filter.judge(RemainingImages(table, models=Models(), seed=of_run))
        kept = [name for name, gone in zip(table.to_pandas()["image_id"], verdict.dropped, strict=True) if not gone]
        assert sorted(name[:-1] for name in kept if "-" in name) == sorted(f"o{i}-{g}" for i in range(30) for g in "fm")
        drawn.append([name[-1] for name in kept if "-" in name])
    assert drawn[0] == drawn[1] != drawn[2]
    assert drawn[3] != drawn[0], "the seed of the run (--seed) draws anew too"
    assert min(drawn[0].count(j) for j in "012") >= 8, "each of the three has its chance: 20 of 60 expected"
