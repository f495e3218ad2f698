"""Labels from captions as a layer, and tables joined into one."""

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from equipoise.cli.main import app
from equipoise.data import Table
from equipoise.data.labels import label_layer
from equipoise.data.mixing import combine, join_tables, write_mixture
from equipoise.data.sampling import balance_layer
from equipoise.errors import InputError

CAPTIONS = {
    "one": ["A man rides.", "Somebody rides"],
    "two": ["A man and a woman", "A man rides"],  # a caption with both makes the image undefined
    "three": ["A woman's bag", "a street"],
    "four": ["a street", "a dog"],
}


def made(path, names=CAPTIONS, **more):
    picture = Image.fromarray(np.zeros((4, 4, 3), np.uint8))
    rows = [{"image_id": name, "image": picture, "captions": CAPTIONS.get(name, ["x"]), **more} for name in names]
    return Table.create(path, rows, columns=dict.fromkeys(more, "string"))


def listed(column):
    return [None if value != value else value for value in column]


def test_an_image_has_the_group_that_its_captions_name_and_no_other(tmp_path):
    found = label_layer(made(tmp_path / "t"), "equipoise").to_pandas(["image_id", "gender", "label_source"])
    assert listed(found["gender"]) == ["male", None, "female", None]
    assert listed(found["label_source"]) == ["caption", None, "caption", None]


def test_the_tokens_of_a_paper_are_kept(tmp_path):
    """GenSynth splits at spaces, so "woman's" names nobody."""
    table = label_layer(made(tmp_path / "t"), "gensynth_code", compat="gensynth", name="gensynth")
    assert listed(table.to_pandas(["gender"])["gender"]) == ["male", None, None, None]
    assert table.layers[-1].config["lexicon"] == "gensynth_code"


def test_without_captions_it_is_refused(tmp_path):
    picture = Image.fromarray(np.zeros((4, 4, 3), np.uint8))
    table = Table.create(tmp_path / "t", [{"image_id": "a", "image": picture}])
    with pytest.raises(InputError, match="no image has a caption"):
        label_layer(table, "equipoise")


def test_joined_tables_have_all_rows_and_columns(tmp_path):
    first, second = made(tmp_path / "a", ["one", "two"], place="sea"), made(tmp_path / "b", ["three"], source="one")
    both = join_tables([first, second], tmp_path / "both").to_pandas(["image_id", "place", "source", "captions"])
    assert both["image_id"].tolist() == ["one", "two", "three"]
    assert listed(both["place"]) == ["sea", "sea", None]
    assert listed(both["source"]) == [None, None, "one"]
    assert list(both["captions"].iloc[2]) == CAPTIONS["three"]


def test_equal_ids_are_refused(tmp_path):
    first, second = made(tmp_path / "a", ["one", "two"]), made(tmp_path / "b", ["two"])
    with pytest.raises(InputError, match=r"the id 'two' is in .*a and in .*b"):
        join_tables([first, second], tmp_path / "both")
    assert not (tmp_path / "both").exists()


def test_the_commands(tmp_path):
    from typer.testing import CliRunner

    made(tmp_path / "a", ["one"]), made(tmp_path / "b", ["three"])
    run = CliRunner().invoke
    joined = run(app, ["table", "join", str(tmp_path / "a"), str(tmp_path / "b"), "-o", str(tmp_path / "c")])
    assert joined.exit_code == 0, joined.output
    labelled = run(app, ["table", "label", str(tmp_path / "c"), "--lexicon", "equipoise", "--axis", "gender"])
    assert labelled.exit_code == 0, labelled.output
    assert "male" in labelled.output
    assert Table.open(tmp_path / "c", layers="all").group_counts("gender") == {"female": 1, "male": 1}


def test_images_that_are_taken_more_than_once_are_not_joined_as_if_once(tmp_path):
    photos = [{"image_id": f"a{i}", "gender": "fmmm"[i]} for i in range(4)]
    edits = [{"image_id": f"b{i}", "source_id": f"a{i}", "gender": "mfff"[i]} for i in range(4)]
    a = Table.create(tmp_path / "a", photos, axes=["gender"])
    b = Table.create(tmp_path / "b", edits, axes=["gender"])
    often = balance_layer(a, "gender", name="over", method="oversample")
    with pytest.raises(InputError, match=r"takes 1 images more than once, such as 'a0'.*balance the new table"):
        join_tables([often, b], tmp_path / "c")
    chosen = combine(pd.DataFrame(photos), pd.DataFrame(edits), "gender")
    with pytest.raises(InputError, match="more than once"):
        write_mixture(often, b, chosen, tmp_path / "c")
    assert not (tmp_path / "c").exists()
    once = balance_layer(a, "gender", name="under")
    assert join_tables([once, b], tmp_path / "d").group_counts("gender") == {"f": 4, "m": 2}
