"""Objects of images and objects in captions."""

from __future__ import annotations

import json

import pytest

from equipoise.audit.captions.inputs import read_inputs
from equipoise.audit.captions.measures import CaptionMeasures, word_list
from equipoise.audit.captions.objects import ObjectMatcher, read_objects
from equipoise.audit.captions.reading import CaptionColumns
from equipoise.audit.captions.run import training_words
from equipoise.audit.captions.settings import CaptionSettings
from equipoise.errors import InputError
from equipoise.text import Lexicon

COCO = (
    "bicycle,car,motorcycle,airplane,bus,train,truck,boat,traffic light,fire hydrant,bench,bird,cat,dog,horse,sheep,"
    "bear,umbrella,tie,suitcase,frisbee,skis,snowboard,sports ball,kite,baseball bat,baseball glove,tennis racket,"
    "bottle,wine glass,cup,fork,knife,banana,apple,orange,carrot,hot dog,pizza,donut,cake,couch,bed,dining table,"
    "toilet,tv,laptop,mouse,remote,keyboard,cell phone,book,clock,scissors,teddy bear,hair drier,toothbrush"
).split(",")


@pytest.mark.parametrize(
    ("caption", "objects"),
    [
        ("a rabbit eats carrots", {"carrot"}),
        ("two hot dogs and a dog", {"hot dog", "dog"}),
        ("a hotdog on a bun", {"hot dog"}),
        ("a cardboard box and a scarf", set()),
        ("a teddy bear on a bed", {"teddy bear", "bed"}),
        ("bears near buses", {"bear", "bus"}),
        ("KNIVES, forks and wine-glasses", {"knife", "fork", "wine glass"}),
        ("three mice by the laptop computer", {"mouse", "laptop"}),
        ("a man in an orange shirt", set()),
        ("an orange on a table", {"orange"}),
        ("two oranges", {"orange"}),
        ("an apple and an orange.", {"apple", "orange"}),
        ("a cat's toy", {"cat"}),
        ("people at a bus stop", set()),
        ("a train station", set()),
        ("a baseball player swings a bat", {"baseball bat"}),
        ("a baseball bat", {"baseball bat"}),
        ("a plane over planes", {"airplane"}),
        ("a motorbike and bikes", {"motorcycle", "bicycle"}),
        ("a pair of scissors and skis", {"scissors", "skis"}),
        ("cattle and a category", set()),
        ("", set()),
    ],
)
def test_mentions(caption, objects):
    assert ObjectMatcher(COCO).found(caption) == objects


def test_hot_dog_is_no_dog_even_where_hot_dogs_are_not_asked_for():
    assert ObjectMatcher(["dog"]).found("a hot dog") == set()


def test_words_of_ones_own():
    assert ObjectMatcher(["couch"], more={"couch": ["settee"]}).found("two settees") == {"couch"}


def instances(**changes):
    return {
        "images": [{"id": 1}, {"id": 2}, {"id": 3}],
        "categories": [{"id": 1, "name": "person"}, {"id": 2, "name": "car"}],
        "annotations": [
            {"image_id": 1, "category_id": 1},
            {"image_id": 1, "category_id": 2},
            {"image_id": 2, "category_id": 1},
        ],
    } | changes


def test_instances(tmp_path):
    (tmp_path / "i.json").write_text(json.dumps(instances()))
    assert read_objects(tmp_path / "i.json") == {"1": {"car"}, "2": set(), "3": set()}
    (tmp_path / "o.jsonl").write_text('{"image_id": 4, "objects": ["person", "kite"]}\n')
    assert read_objects(tmp_path / "o.jsonl") == {"4": {"kite"}}


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("[]", "not a COCO instances file"),
        ("{", "not valid JSON"),
        (json.dumps(instances(annotations=[{"category_id": 2}])), "annotation 0: has no image_id"),
        (json.dumps(instances(annotations=[{"image_id": 1, "category_id": 9}])), "category_id 9 is not among"),
        (json.dumps(instances(categories=[{"id": 1}])), "category 0 has no id or no name"),
    ],
)
def test_wrong_instances(tmp_path, content, says):
    (tmp_path / "i.json").write_text(content)
    with pytest.raises(InputError, match=says):
        read_objects(tmp_path / "i.json")


def test_objects_in_human_captions_agree_with_the_annotations(shared_data):
    """Where five people mention an object it is nearly always annotated: the matcher finds few that are not there."""
    folder = shared_data / "photos" / "annotations"
    if not folder.is_dir():
        pytest.skip("the COCO photographs are not on this machine")
    held, captions, names = {}, {}, []
    for split in ("train2017", "val2017"):
        held |= read_objects(folder / f"instances_{split}.json")
        data = json.loads((folder / f"instances_{split}.json").read_text())
        names = [c["name"] for c in data["categories"] if c["name"] != "person"]
        for row in json.loads((folder / f"captions_{split}.json").read_text())["annotations"]:
            captions.setdefault(str(row["image_id"]), []).append(row["caption"])
    matcher = ObjectMatcher(names)
    said, right = 0, 0
    for image, texts in captions.items():
        counts = [matcher.found(text) for text in texts]
        for name in names:
            if sum(name in found for found in counts) >= 3:
                said += 1
                right += name in held[image]
    assert said > 130
    assert right / said > 0.95


def rows_file(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def test_objects_in_several_rows_of_an_image_are_taken_together(tmp_path):
    rows = [{"photo": 1, "objects": some} for some in (["dog", "person"], [], ["cat"])]
    path = rows_file(tmp_path / "objects.jsonl", rows)
    assert read_objects(path, CaptionColumns.named("photo")) == {"1": {"cat", "dog"}}


def test_training_captions_are_read_from_the_columns_that_were_named(tmp_path):
    rows = [{"photo": i, "text": f"a {who} on a bike", "caption": "x"} for i, who in enumerate(["man", "woman"] * 2)]
    path = rows_file(tmp_path / "train.jsonl", rows)
    assert training_words(path, Lexicon.load("lic"), 2, CaptionColumns.named("photo", "text")) == ("bike",)


def test_an_image_without_objects_is_listed_once_for_all_models(tmp_path):
    rows = [{"image_id": i, "caption": f"a {g} with a dog", "gender": g} for i, g in enumerate(["man", "woman"] * 4)]
    models = [rows_file(tmp_path / name, rows) for name in ("a.jsonl", "b.jsonl")]
    inputs = read_inputs(models, None, "gender")
    objects = {str(i): frozenset({"dog"}) for i in range(7)}
    for model in inputs.models:
        measures = CaptionMeasures(inputs, model, word_list("lic", inputs), CaptionSettings(), print)
        measures.amplification(None, objects)
    assert inputs.dropped.rows == [("--objects", "7", "no objects known")]
