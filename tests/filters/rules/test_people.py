import json

import numpy as np
import pytest
from PIL import Image

from equipoise.data.images import encode
from equipoise.errors import InputError
from equipoise.filters import Models, RemainingImages, Step
from equipoise.filters.detecting import as_json, from_json, largest_person
from equipoise.filters.rules.people import People
from equipoise.filters.rules.sharpness import Sharpness
from equipoise.models.protocols import Detections


def picture(image):
    return {"bytes": encode(image), "path": None}


def squares(red, blue, size=16):
    """A picture with so many red ("person") and blue ("dog") pixels."""
    pixels = np.full((size, size, 3), 255, dtype=np.uint8)
    pixels[0, :red] = (255, 0, 0)
    pixels[2, :blue] = (0, 0, 255)
    return Image.fromarray(pixels)


def test_annotations_count_people(world):
    verdict = People(exactly=1).judge(RemainingImages(world))
    n = world.to_pandas(["people"])["people"].map(lambda cell: len(json.loads(cell)))
    assert (verdict.failed == (n != 1)).all()
    assert (verdict.scores["persons"] == n).all()


def test_a_group_drawn_as_one_is_not_one_person(images):
    crowd, one = {"box": [0, 0, 50, 50], "iscrowd": True}, {"box": [0, 0, 9, 9]}
    people = {"crowd": [crowd], "both": [one, crowd], "one": [one], "none": []}
    rows = [
        {"image_id": name, "people": json.dumps(cell), "objects": ["Person", "dog"]} for name, cell in people.items()
    ]
    rows.append({"image_id": "named", "people": None, "objects": ["person", "dog"]})
    remaining = RemainingImages(images(rows, columns={"people": "json", "objects": "list<string>"}))
    found = People(exactly=1).judge(remaining)
    assert found.scores["persons"].tolist() == [0, 1, 1, 0, 1]
    assert found.failed.tolist() == [True, True, False, True, False]
    assert People(exactly=0).judge(remaining).failed.tolist() == [True, True, True, False, True]
    assert People().judge(remaining).failed.tolist() == [False, False, False, True, False]
    assert People(at_least=3).judge(remaining).failed.tolist() == [True, False, True, True, True]
    assert found.scores["person_share"].tolist() == pytest.approx([1 / 2, 2 / 3, 1 / 2, 0, 1 / 2])


def test_persons_among_objects_and_a_face(images, detector, face_detector):
    rows = [
        {"image_id": "one", "image": picture(squares(1, 0))},
        {"image_id": "none", "image": picture(squares(0, 2))},
        {"image_id": "few", "image": picture(squares(1, 3))},
        {"image_id": "two", "image": picture(squares(2, 1))},
    ]
    remaining = RemainingImages(images(rows), models=Models(detector=detector, faces=face_detector))
    assert People(exactly=1).judge(remaining).failed.tolist() == [False, True, False, True]
    assert People(at_least=2).judge(remaining).failed.tolist() == [True, True, True, False]
    found = People(share_least=0.3).judge(remaining)
    assert found.scores["person_share"].tolist() == pytest.approx([1.0, 0.0, 0.25, 2 / 3])
    assert found.failed.tolist() == [False, True, True, False]
    gab = Step.of("people", preset="gab").filter
    assert (gab.share_least, gab.face) == (0.15, True)
    assert gab.judge(remaining).failed.tolist() == [False, True, False, False]
    with pytest.raises(InputError, match="no detector of faces"):
        gab.judge(RemainingImages(remaining.table, models=Models(detector=detector)))
    faces = gab.judge(remaining).scores["faces"]
    assert faces.tolist() == [1, 0, 1, 2]  # the dogs are none


def test_a_detector_of_people_finds_no_faces(images, detector):
    table = images([{"image_id": "one", "image": picture(squares(1, 0))}])
    remaining = RemainingImages(table, models=Models(detector=detector, faces=detector))
    for one in (People(face=True), Sharpness(of="face")):
        with pytest.raises(InputError, match="no label of squares named 'face'"):
            one.judge(remaining)


def test_faces_of_a_column_are_those_that_are_sure(images):
    found = [("person", 0.9), ("Human face", 0.9), ("face", 0.2)]
    cell = json.dumps([{"box": [0, 0, 1, 1], "label": label, "score": score} for label, score in found])
    table = images([{"image_id": "a", "detections": cell}], columns={"detections": "json"})
    verdict = People(detector="detections", face=True, faces="detections").judge(RemainingImages(table))
    assert verdict.scores["faces"].tolist() == [1.0]


def test_nobody_counted_is_not_nobody_there(images):
    cells = {"none": "[]", "unknown": None, "one": '[{"box": [0, 0, 1, 1]}]'}
    table = images([{"image_id": i, "people": cell} for i, cell in cells.items()], columns={"people": "json"})
    verdict = People().judge(RemainingImages(table))
    np.testing.assert_array_equal(verdict.scores["persons"], [0, np.nan, 1])
    assert verdict.failed.tolist() == [True, True, False]
    assert verdict.notes == ["1 images could not be looked at"]
    named = [{"image_id": "a", "people": None, "objects": ["dog"]}]  # of this one something is known
    table = images(named, name="named", columns={"people": "json", "objects": "list<string>"})
    assert People(at_least=0).judge(RemainingImages(table)).scores["persons"].tolist() == [0.0]


def test_a_column_of_detections_is_taken_as_it_is(images):
    found = Detections(np.float32([[0, 0, 2, 3], [1, 1, 2, 2]]), ("person", "dog"), np.float32([0.9, 0.2]))
    rows = [{"image_id": "a", "detections": as_json(found)}, {"image_id": "b", "detections": None}]
    table = images(rows, columns={"detections": "json"})
    verdict = People(detector="detections").judge(RemainingImages(table))
    assert verdict.scores["persons"][0] == 1
    assert verdict.failed.tolist() == [False, True]
    assert verdict.scores["person_share"][0] == 1.0  # the dog is too unsure
    with pytest.raises(InputError, match="box, label and score"):
        from_json('{"label": 1}')
    with pytest.raises(InputError, match="name a detector"):
        People().judge(RemainingImages(images([{"image_id": "a"}], name="bare")))


def test_the_largest_person_in_fractions_and_crowds():
    people = [
        {"box": [0.5, 0.5, 0.5, 0.5], "unit": "fraction"},
        {"box": [0, 0, 1, 1], "unit": "fraction", "iscrowd": True},
    ]
    assert largest_person(json.dumps(people), (10, 20)) == (5, 10, 10, 20)
    assert largest_person(None, (10, 20)) is None


def test_labels_of_people_are_read_in_any_case(images):
    cell = as_json(Detections(np.zeros((2, 4)), ("Person", "Dog"), np.ones(2)))
    table = images([{"image_id": "a", "detections": cell}], columns={"detections": "json"})
    remaining = RemainingImages(table, models=Models(detector="detections"))
    for labels in (("Person",), ("person",)):
        assert not People(person_labels=labels).judge(remaining).dropped.any()
