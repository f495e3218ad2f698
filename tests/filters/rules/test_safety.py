import numpy as np
import pytest
from PIL import Image

from equipoise.data.images import encode
from equipoise.errors import InputError
from equipoise.filters import Models, RemainingImages
from equipoise.filters.rules.safety import Safety
from equipoise.world import preset, write_table


def picture(image):
    return {"bytes": encode(image), "path": None}


@pytest.fixture(scope="module")
def unsafe_world(tmp_path_factory):
    return write_table(tmp_path_factory.mktemp("unsafe") / "t", preset("fair").changed(unsafe=0.3), 40, seed=1)


def test_a_classifier_finds_what_was_planted(unsafe_world, magenta):
    verdict = Safety().judge(RemainingImages(unsafe_world, models=Models(classifier=magenta)))
    planted = unsafe_world.to_pandas(["unsafe"])["unsafe"]
    assert 5 < planted.sum() < 25
    assert (verdict.failed == planted).all()
    by_column = Safety(column="unsafe", black_from=2.0).judge(RemainingImages(unsafe_world))
    assert (by_column.failed == planted).all()


def test_a_set_goes_with_one_unsafe_image(images):
    rows = [{"image_id": f"{s}{i}", "set_id": s, "score_x": float(s == "a" and i == 1)} for s in "ab" for i in (0, 1)]
    table = images(rows, columns=["score_x"])
    by_set, by_image = (Safety(column="score_x", black_from=2.0, scope=scope) for scope in ("set", "image"))
    assert by_set.judge(RemainingImages(table)).dropped.tolist() == [True, True, False, False]
    assert by_image.judge(RemainingImages(table)).dropped.tolist() == [False, True, False, False]


def test_a_column_of_words_cannot_say_how_unsafe(images):
    table = images([{"image_id": "a", "caption": "a nurse"}])
    with pytest.raises(InputError, match=r"'caption' of .* holds string; how unsafe"):
        Safety(column="caption", black_from=2.0).judge(RemainingImages(table))


def test_black_images_are_found_without_a_classifier(images):
    noisy = Image.fromarray(np.random.default_rng(0).integers(0, 6, (8, 8, 3), dtype=np.uint8))
    rows = [
        {"image_id": "black", "image": picture(Image.new("RGB", (8, 8)))},
        {"image_id": "jpeg", "image": picture(noisy)},
        {"image_id": "dark", "image": picture(Image.new("RGB", (8, 8), (20, 20, 20)))},
        {"image_id": "broken", "image": {"bytes": b"no image", "path": None}},
    ]
    remaining = RemainingImages(images(rows), models=Models(max_broken=0.25))
    verdict = Safety(**Safety.presets["black"]).judge(remaining)
    assert verdict.dropped.tolist() == [True, True, False, True]
    assert "unsafe" not in verdict.scores
    assert any("1 images could not be decoded" in note for note in verdict.notes)


def test_pictograms_have_an_embedded_default_and_photographs_none(unsafe_world, images, monkeypatch, tmp_path):
    from equipoise.models import miniatures

    if not (miniatures.FOLDER / "safety").is_dir():
        pytest.skip("the miniature safety is not in this installation")
    planted = unsafe_world.to_pandas(["unsafe"])["unsafe"]
    verdict = Safety().judge(RemainingImages(unsafe_world))
    assert (verdict.failed == planted).all()
    assert any("mini:safety, which knows the sign of the pictogram world alone" in note for note in verdict.notes)
    photo = images([{"image_id": "a", "image": picture(Image.new("RGB", (65, 40), "red"))}], "photo")
    verdict = Safety().judge(RemainingImages(photo))
    assert not verdict.failed.any()
    assert "unsafe" not in verdict.scores
    assert any("for photographs name a real one" in note for note in verdict.notes)
    monkeypatch.setattr(miniatures, "FOLDER", tmp_path)
    assert any("mini:safety is not installed" in note for note in Safety().judge(RemainingImages(unsafe_world)).notes)


def test_prompts_in_place_of_a_classifier(images, embedded):
    table = images([{"image_id": "a"}, {"image_id": "b"}])
    spec = embedded("v", ["a", "b"], np.eye(2), ["blood", "flowers"], np.eye(2))
    settings = Safety(unsafe_texts=("blood",), safe_texts=("flowers",), black_from=2.0)
    verdict = settings.judge(RemainingImages(table, models=Models(encoder=spec)))
    assert verdict.failed.tolist() == [True, False]
    with pytest.raises(InputError, match="belong together"):
        Safety(unsafe_texts=("blood",))


def test_the_judge_may_not_filter(unsafe_world):
    for name in ("mini", "mini:judge"):
        with pytest.raises(InputError, match="would judge itself"):
            Safety(classifier=name).judge(RemainingImages(unsafe_world))


def test_a_classifier_without_an_unsafe_label_is_refused(unsafe_world, magenta):
    with pytest.raises(InputError, match="no unsafe label"):
        Safety(unsafe_labels=("violence",)).judge(RemainingImages(unsafe_world, models=Models(classifier=magenta)))
