"""Audits of predictions: three shapes of one file give the same numbers, and what does not fit is told."""

import json

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from equipoise.audit.classify import ClassifierSettings, audit_classifier, read_classifier_inputs, read_image_labels
from equipoise.cli.main import app
from equipoise.data import Table
from equipoise.data.results import read_results
from equipoise.data.runs import read_run
from equipoise.errors import InputError
from equipoise.measure.classify import leakage_amplification, mean_average_precision
from equipoise.report import verdict_of

OBJECTS = ["kite", "oven", "tie", "umbrella"]
QUICK = ClassifierSettings(seeds=1, folds=3, draws=19)


@pytest.fixture(scope="module")
def world():
    """200 images; ties are predicted far too often beside men."""
    rng = np.random.default_rng(0)
    gender = np.where(rng.random(200) < 0.6, "male", "female")
    truth = (rng.random((200, 4)) < 0.4).astype(int)
    scores = np.clip(0.2 + 0.6 * truth + rng.normal(0, 0.1, truth.shape), 0, 1).round(3)
    scores[gender == "male", 2] = 0.9
    ids = [f"i{k:03}" for k in range(200)]
    return ids, gender, truth, scores


@pytest.fixture
def files(world, tmp_path):
    ids, gender, truth, scores = world
    shown = [[name for name, there in zip(OBJECTS, row, strict=True) if there] for row in truth]
    labels = pd.DataFrame({"image_id": ids, "objects": [";".join(row) for row in shown], "gender": gender})
    labels.assign(skin_tone=np.where(np.arange(200) % 3, "light", "dark")).to_csv(tmp_path / "labels.csv", index=False)
    wide = pd.DataFrame(scores, columns=OBJECTS).assign(image_id=ids, gender=gender)
    wide.to_csv(tmp_path / "wide.csv", index=False)
    wide.to_parquet(tmp_path / "wide.parquet")
    long = wide.drop(columns="gender").melt("image_id", var_name="label", value_name="score")
    guesses = pd.DataFrame({"image_id": ids, "label": [f"gender:{g}" for g in gender], "score": 0.9})
    pd.concat([long, guesses]).to_csv(tmp_path / "long.csv", index=False)
    rows = [
        {"image_id": i, "objects": OBJECTS, "scores": row.tolist(), "gender": g}
        for i, row, g in zip(ids, scores, gender, strict=True)
    ]
    (tmp_path / "lists.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    return tmp_path


def test_three_shapes_and_four_formats_say_the_same(world, files):
    _, gender, truth, scores = world
    for name in ("wide.csv", "wide.parquet", "long.csv", "lists.jsonl"):
        read = read_classifier_inputs(files / name, files / "labels.csv")
        assert read.labels == tuple(OBJECTS)
        np.testing.assert_array_equal(read.truth, truth)
        np.testing.assert_allclose(read.scores, scores)
        np.testing.assert_array_equal(read.predicted, scores >= 0.5)
        guessed = read.predicted_groups["gender"]
        assert [guessed.names[label] for label in guessed.labels] == gender.tolist()
        assert sorted(read.groups) == ["gender", "skin_tone"]


def test_images_of_one_set_or_source_belong_together(files):
    labels = pd.read_csv(files / "labels.csv")
    assert read_classifier_inputs(files / "wide.csv", files / "labels.csv").clusters is None
    labels["set_id"] = [7 if k in (3, 5) else None for k in range(200)]
    labels["source_id"] = ["i000" if k in (1, 5) else None for k in range(200)]
    labels.to_csv(files / "linked.csv", index=False)
    read = read_classifier_inputs(files / "wide.csv", files / "linked.csv")
    assert read.clusters[:7] == ["i000", "i000", "i002", "i000", "i004", "i000", "i006"]  # 5 is linked with 3, 1 and 0
    assert any("200 images are of 197 sources or sets" in note for note in read.notes)
    wide = pd.read_csv(files / "wide.csv").assign(set_id=np.arange(200) // 2)
    wide.to_csv(files / "numbered.csv", index=False)
    numbered = read_classifier_inputs(files / "numbered.csv", files / "labels.csv")
    assert numbered.labels == tuple(OBJECTS)  # the number of a set is no score
    assert numbered.clusters[:4] == ["i000", "i000", "i002", "i002"]


def test_a_source_that_a_spreadsheet_writes_as_42_0_is_its_image(tmp_path):
    shown = pd.DataFrame({"image_id": ["42", "43", "44"], "gender": ["f", "m", "f"], "cup": 1, "tie": [0, 1, 0]})
    shown.to_csv(tmp_path / "predictions.csv", index=False)
    shown.assign(source_id=[None, 42.0, None]).to_csv(tmp_path / "labels.csv", index=False)
    assert "42.0" in (tmp_path / "labels.csv").read_text()
    read = read_classifier_inputs(tmp_path / "predictions.csv", tmp_path / "labels.csv")
    assert read.clusters == ["42", "42", "44"]


def test_what_images_of_one_source_share_is_not_read_as_leakage(tmp_path):
    """Twelve photographs of each group with five edits each, alike in their objects: they tell edits, not groups."""
    rng = np.random.default_rng(1)
    sources = np.repeat(np.arange(24), 5)
    objects = (rng.random((24, 14)) < 0.5).astype(int)[sources]
    frame = pd.DataFrame(objects, columns=[f"object {k}" for k in range(14)])
    frame = frame.assign(image_id=[f"i{k}" for k in range(120)], gender=np.where(sources % 2, "male", "female"))
    frame.drop(columns="gender").to_csv(tmp_path / "predictions.csv", index=False)
    values = {}
    for name, linked in (("alone", frame), ("linked", frame.assign(source_id=[f"photo {k}" for k in sources]))):
        linked.to_csv(tmp_path / f"{name}.csv", index=False)
        done = audit_classifier(tmp_path / "predictions.csv", tmp_path / f"{name}.csv", settings=QUICK)
        values[name] = done.results.set_index("metric").loc["leakage_data"]
    assert values["alone"]["value"] > 0.6
    assert values["alone"]["p_value"] < 0.01
    assert values["linked"]["value"] < 0.45
    assert values["linked"]["p_value"] > 0.05


def test_labels_may_be_a_table(world, files, tmp_path):
    ids, gender, truth, _ = world
    rows = [
        {"image_id": i, "gender": g, "objects": [n for n, there in zip(OBJECTS, row, strict=True) if there]}
        for i, g, row in zip(ids, gender, truth, strict=True)
    ]
    Table.create(tmp_path / "people", rows, axes=["gender"], columns={"objects": "list<string>"})
    read = read_classifier_inputs(files / "wide.csv", tmp_path / "people")
    np.testing.assert_array_equal(read.truth, truth)


def test_the_numbers_are_those_of_the_metrics_and_the_planted_leaning_is_found(world, files, tmp_path):
    _, gender, truth, scores = world
    masked = pd.DataFrame({"image_id": ["a", "b", "c", "d"], "gender": ["male", "male", "male", "female"]})
    masked.to_csv(files / "masked.csv", index=False)
    parts = pd.read_csv(files / "wide.csv")[["image_id", "gender"]].rename(columns={"image_id": "source_id"})
    parts["image_id"] = parts["source_id"] + "-part"
    parts.to_csv(files / "parts.csv", index=False)
    how = {"masked": files / "masked.csv", "inpainted": files / "parts.csv", "settings": QUICK}
    done = audit_classifier(files / "wide.csv", files / "labels.csv", tmp_path / "run", **how)
    results = read_results(tmp_path / "run")
    by = results.set_index(["metric", "variant", "pool", "axis", "group"])["value"]
    plain = results.set_index("metric")["value"]
    assert plain["mean_average_precision"] == mean_average_precision(scores, truth).estimate.value
    expected = leakage_amplification(
        (scores >= 0.5).astype(float), truth, gender.tolist(), folds=3, seeds=(0,), ids=world[0]
    )
    leaked = results[(results["metric"] == "leakage_amplification") & (results["axis"] == "gender")].iloc[0]
    assert leaked["value"] == pytest.approx(expected.difference.value)
    assert leaked["p_value"] < 0.05
    assert by["ratio", "raw", "person-masked", "gender", "male / female"] == 3.0
    assert by["ratio", "folded", "person-masked", "gender", "male / female"] == 3.0
    assert plain["artefact_delta"] == 0.0
    assert {"gender & skin_tone"} < set(results["axis"].dropna())
    biased = results[~results["metric"].isin(["object_recall"])]
    assert biased[["null_mean", "n"]].notna().all().all()  # no number about bias without its chance level
    assert done.labels["images"].tolist() == truth.sum(axis=0).tolist()
    assert read_run(tmp_path / "run", "classification").of["axes"] == ["gender", "skin_tone"]
    assert "lean" in verdict_of([tmp_path / "run"]).lead
    with pytest.raises(InputError, match="audit of other predictions"):
        audit_classifier(files / "long.csv", files / "labels.csv", tmp_path / "run", settings=QUICK)


def test_an_original_is_found_by_a_number_that_a_spreadsheet_wrote_with_decimals(world, tmp_path):
    _, gender, truth, scores = world
    shown = [";".join(n for n, there in zip(OBJECTS, row, strict=True) if there) for row in truth]
    pd.DataFrame({"image_id": range(200), "objects": shown, "gender": gender}).to_csv(tmp_path / "labels.csv")
    pd.DataFrame(scores, columns=OBJECTS).assign(image_id=range(200), gender=gender).to_csv(tmp_path / "said.csv")
    origins = [*range(199), None]  # the empty cell makes pandas write 0.0, 1.0, ...
    parts = pd.DataFrame({"image_id": [f"part{i}" for i in range(200)], "source_id": origins, "gender": gender})
    parts.to_csv(tmp_path / "parts.csv", index=False)
    audit = audit_classifier(
        tmp_path / "said.csv", tmp_path / "labels.csv", inpainted=tmp_path / "parts.csv", settings=QUICK
    )
    delta = audit.results[audit.results["metric"] == "artefact_delta"]
    assert delta["n"].tolist() == [199]


def test_axes_that_share_the_names_of_groups_keep_their_own_recalls(files):
    labels = pd.read_csv(files / "labels.csv").rename(columns={"skin_tone": "second_gender"})
    labels["second_gender"] = labels["second_gender"].map({"light": "female", "dark": "male"})
    labels.to_csv(files / "two.csv", index=False)
    axes = ["gender", "second_gender"]
    both = audit_classifier(files / "wide.csv", files / "two.csv", axes=axes, settings=QUICK).labels
    for axis, columns in (("gender", "recall of {}"), ("second_gender", "recall of {} (second_gender)")):
        alone = audit_classifier(files / "wide.csv", files / "two.csv", axes=[axis], settings=QUICK).labels
        for group in ("female", "male"):
            assert both[columns.format(group)].tolist() == alone[f"recall of {group}"].tolist()


def test_predictions_without_scores_have_no_map_and_missing_images_are_told(world, files):
    ids, _, truth, _ = world
    rows = [(i, n) for i, row in zip(ids[:150], truth, strict=False) for n, t in zip(OBJECTS, row, strict=True) if t]
    pd.DataFrame([*rows, (ids[0], "zebra")], columns=["image_id", "label"]).to_csv(files / "said.csv", index=False)
    done = audit_classifier(files / "said.csv", files / "labels.csv", axes=["gender"], settings=QUICK)
    assert "mean_average_precision" not in set(done.results["metric"])
    told = " ".join(done.notes)
    assert "no mAP" in told
    assert "1 labels that no image has, left out" in told
    assert "images without predictions, left out" in told
    assert "no group on gender is predicted: no Ratio" in told
    # the truth itself adds nothing
    added = done.results.set_index("metric").loc["leakage_amplification"]
    assert added["value"] == 0.0


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("image_id,label,score\ni000,tie,much\n", "a number is expected"),
        ("image_id,label,score\ni000,tie,1\ni000,tie,1\n", "twice"),
        ("image_id,tie\ni000,1\ni000,0\n", "twice"),
        ("image_id,name\ni000,tie\n", "no labels here"),
        ("image_id,tie\nx,1\n", "none of its 1 images"),
        ("image_id,zebra\ni000,1\n", "predicts none of the labels"),
        ("image_id,tie,oven\ni000,1,1\ni001,,0\n", "the column 'tie' has no number for the image 'i001'"),
        ("image_id,tie,gender\ni000,1,child\ni001,1,male\ni002,0,female\n", "the labels have"),
    ],
)
def test_what_cannot_be_read_is_refused_in_one_sentence(files, text, why):
    (files / "bad.csv").write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match=why):
        read_classifier_inputs(files / "bad.csv", files / "labels.csv", axes=["gender"])


def test_columns_of_every_table_may_be_empty(files):
    text = "image_id,tie,source_id,seed\ni000,1,,7\ni001,0,4,\n"
    (files / "some.csv").write_text(text, encoding="utf-8")
    assert read_image_labels(files / "some.csv").names == ("tie",)
    (files / "groups.csv").write_text("image_id,gender,height\ni000,male,\ni001,female,4\n", encoding="utf-8")
    assert not read_image_labels(files / "groups.csv", ["gender"], need_labels=False).names


@pytest.mark.parametrize(
    ("female", "male", "groups"),
    [
        ([1, 0, 0, 1], [0, 1, 0, 1], {"a": "female", "b": "male"}),  # none, or both, is no group
        ([0.4, 0.1, 0.0, 0.5], [0.3, 0.2, 0.0, 0.5], {"a": "female", "b": "male"}),
        ([-1.0, -9.0, 0.0, -2.0], [-3.0, -2.0, -1.0, -2.0], {"a": "female", "b": "male", "c": "female"}),  # logits
    ],
)
def test_an_image_without_a_best_label_has_no_group(tmp_path, female, male, groups):
    wide = pd.DataFrame({"image_id": [*"abcd"], "dog": [1, 0, 1, 0], "gender:female": female, "gender:male": male})
    wide.to_csv(tmp_path / "wide.csv", index=False)
    assert read_image_labels(tmp_path / "wide.csv", ["gender"]).values == {"gender": groups}
    long = wide.melt("image_id", var_name="label", value_name="score")
    long.to_csv(tmp_path / "long.csv", index=False)
    assert read_image_labels(tmp_path / "long.csv", ["gender"]).values == {"gender": groups}


def test_rows_that_give_an_image_two_groups_are_refused_and_unknown_gives_way(tmp_path):
    path = tmp_path / "labels.csv"
    path.write_text("image_id,label,gender\na,dog,N/A\na,cat,female\nb,dog,Male\nb,cat,male\n")
    assert read_image_labels(path, ["gender"]).values["gender"] == {"a": "female", "b": "Male"}
    path.write_text("image_id,label,gender\na,dog,male\na,cat,female\n")
    with pytest.raises(InputError, match="'a' is 'male' on gender in one row and 'female' in another"):
        read_image_labels(path, ["gender"])


@pytest.mark.parametrize("scores", [[0.9, 0.1], [0.1, 0.9]])
def test_an_object_of_several_boxes_has_the_score_of_its_best(tmp_path, scores):
    path = tmp_path / "boxes.jsonl"
    path.write_text(json.dumps({"image_id": "a", "objects": ["dog", "dog"], "scores": scores}))
    assert read_image_labels(path).scores == {"a": {"dog": 0.9}}


def test_what_is_not_listed_is_not_predicted_however_low_the_threshold(tmp_path):
    (tmp_path / "labels.csv").write_text("image_id,objects,gender\na,dog,male\nb,cat,female\nc,dog;cat,male\n")
    rows = [("a", "dog", 0.9), ("b", "dog", 0.4), ("c", "cat", 0.0)]
    said = [{"image_id": image, "objects": [name], "scores": [score]} for image, name, score in rows]
    (tmp_path / "top1.jsonl").write_text("\n".join(map(json.dumps, said)))
    read = read_classifier_inputs(tmp_path / "top1.jsonl", tmp_path / "labels.csv", threshold=0.0)
    assert read.labels == ("cat", "dog")
    assert read.predicted.tolist() == [[0, 1], [0, 1], [1, 0]]


def test_labels_under_other_names_are_told_and_not_counted_as_missed(tmp_path):
    (tmp_path / "labels.csv").write_text("image_id,objects,gender\na,dog,male\nb,cat,female\nc,dog;cat,male\n")
    said = tmp_path / "long.csv"
    said.write_text("image_id,label,score\na,Dog,0.9\nb,Cat,0.9\n c,Dog,0.9\n")
    with pytest.raises(
        InputError, match=r"predicts none of the labels in .*, such as 'cat', but others, such as 'Cat'"
    ):
        read_classifier_inputs(said, tmp_path / "labels.csv")
    said.write_text("image_id,label,score\na,dog,0.9\nb,Cat,0.9\nc,dog,0.9\n")
    notes = "\n".join(read_classifier_inputs(said, tmp_path / "labels.csv").notes)
    assert "never predicts 1 label, such as 'cat' (it has 'Cat'; if they are the same, give them one name)" in notes


@pytest.mark.parametrize("cell", ["", "nan", "NA", "-inf"])
def test_a_label_is_not_lost_for_all_where_one_image_lacks_its_number(tmp_path, cell):
    (tmp_path / "labels.csv").write_text("image_id,objects,gender\na,dog,male\nb,cat,female\nc,dog;cat,male\n")
    (tmp_path / "wide.csv").write_text(f"image_id,dog,cat\na,0.9,0.1\nb,{cell},0.8\nc,0.7,0.7\n")
    with pytest.raises(InputError, match="the column 'dog' has no number for the image 'b'"):
        read_classifier_inputs(tmp_path / "wide.csv", tmp_path / "labels.csv")


def test_predicted_groups_that_are_the_labels_themselves_are_told(world, files):
    ids, gender, _, scores = world
    told = "gives every image the gender of its label"
    assert told in "\n".join(read_classifier_inputs(files / "wide.csv", files / "labels.csv").notes)
    guesses = np.where(np.arange(200) == 1, "female", gender)
    assert gender[1] == "male"
    pd.DataFrame(scores, columns=OBJECTS).assign(image_id=ids, gender=guesses).to_csv(files / "own.csv", index=False)
    assert told not in "\n".join(read_classifier_inputs(files / "own.csv", files / "labels.csv").notes)


def test_lists_and_scores_must_be_as_long(files):
    (files / "bad.jsonl").write_text('{"image_id": "a", "objects": ["x", "y"], "scores": [1]}', encoding="utf-8")
    with pytest.raises(InputError, match="2 objects and 1 scores"):
        read_image_labels(files / "bad.jsonl")


def test_the_command_prints_and_writes_a_report(files, tmp_path):
    told = [str(files / "wide.csv"), "--labels", str(files / "labels.csv"), "--axis", "gender", "--seeds", "1"]
    made = CliRunner().invoke(app, ["classify-audit", *told, "--draws", "19", "-o", str(tmp_path / "run")])
    assert made.exit_code == 0, made.output
    assert "leakage_amplification" in made.output
    page = (tmp_path / "run" / "report.html").read_text(encoding="utf-8")
    assert "image classifier" in page
    refused = CliRunner().invoke(app, ["classify-audit", *told, "--pair", "male"])
    assert isinstance(refused.exception, InputError)
    unknown = CliRunner().invoke(app, ["classify-audit", *told, "--pair", "men,women"])
    assert "no axis has these two groups; there are gender: " in str(unknown.exception)


def test_an_axis_that_was_asked_for_and_shows_one_group_is_told(files):
    labels = pd.read_csv(files / "labels.csv").assign(age="young")
    labels.to_csv(files / "labels.csv", index=False)
    read = read_classifier_inputs(files / "wide.csv", files / "labels.csv", axes=["gender", "age"])
    assert list(read.groups) == ["gender"]
    assert f"{files / 'labels.csv'}: age has fewer than two groups among the images, left out" in read.notes
    assert not any("age has" in text for text in read_classifier_inputs(files / "wide.csv", files / "labels.csv").notes)


def test_the_seed_of_a_table_is_no_label(tmp_path):
    rows = [{"image_id": name, "gender": "male", "tie": there, "seed": 7} for name, there in (("a", 1), ("b", 0))]
    Table.create(tmp_path / "shown", rows, axes=["gender"], columns={"tie": "int64"})
    assert read_image_labels(tmp_path / "shown", ["gender"]).names == ("tie",)
