"""Labels out and in: table, CSV, Label Studio, majorities, axes; and what they say of errors, detectors and judges."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from equipoise.data import Table
from equipoise.data.images import encode
from equipoise.errors import InputError
from equipoise.review import ReviewSettings, labels_frame, majority, people_layer, prepare, preset, summary_of
from equipoise.review.label_studio import _rows, config_of, read_label_studio, tasks_of, write_label_studio
from equipoise.review.labels import (
    _escaped,
    _unescaped,
    accepted_items,
    gold_of,
    read_labels_csv,
    take_in,
    write_labels_csv,
    write_labels_table,
)
from equipoise.review.preparing import sheet_of
from equipoise.review.questions import Question, Questionnaire
from equipoise.review.static_pages import export_static, read_static
from equipoise.review.summary import agreement_of
from equipoise.review.using import (
    _threshold,
    calibrate_judge,
    calibrate_scores,
    calibration_in,
    confusion_in,
    confusion_with_people,
    error_rows,
    errors_in,
    errors_text,
)

SIMILAR = ("objects_alike", "colours_alike", "gap_filled")
ALIKE = Question("alike", "Are they alike?", answers=("yes", "no"), accept=("yes",))


def compared(store, name, answer_of):
    """Let somebody answer all of a review similar-to-source; ``answer_of`` an image id is "yes" or "no"."""
    ids = dict(store.rows("SELECT id, image_id FROM pictures"))
    for item, pictures in store.rows("SELECT id, pictures FROM items"):
        edits = json.loads(pictures)[1:]
        kept = {(question, edit): answer_of(ids[edit]) for edit in edits for question in SIMILAR}
        assert store.record(name, item, {**kept, **{("skin_tone", edit): "3" for edit in edits}})


def said(store, name, answers):
    """Let somebody answer items by name; ``None`` skips."""
    numbers = {item: i for i, item in store.rows("SELECT id, name FROM items")}
    for item, told in answers.items():
        kept = {} if told is None else {(question, 0): answer for question, answer in told.items()}
        assert store.record(name, numbers[item], kept, skipped=told is None, seconds=1.25)


@pytest.fixture
def answered(table, review_of):
    store = review_of(table, shared=1.0, gold=4)
    store.add("ana", "ben", "cem")
    names = [row["image_id"] for row in table.rows(["image_id"])]
    said(store, "ana", {n: {"gender": n.split("-")[0], "note": "=1+1, «ok»\nline"} for n in names[:10]})
    said(store, "ben", {n: {"gender": "male"} for n in names[:10]})
    said(store, "cem", {names[0]: {"gender": "unsure"}, names[1]: None})
    return store


def same_labels(one: pd.DataFrame, other: pd.DataFrame) -> bool:
    columns = ["image_id", "annotator", "question", "answer", "item", "about", "skipped", "seconds"]
    order = ["item", "annotator", "question", "image_id"]
    left, right = (f[columns].sort_values(order).reset_index(drop=True) for f in (one, other))
    pd.testing.assert_frame_equal(left, right)
    return True


def test_the_table_of_labels(answered, tmp_path):
    table = write_labels_table(answered, tmp_path / "labels")
    assert table.kind == "labels"
    assert table.columns[:4] == ["image_id", "annotator", "question", "answer"]
    assert len(table) == 31  # 10 answers and 10 notes, 10 answers, 1
    assert table.parents == (answered.setting("table")["fingerprint"],)


def test_csv_out_and_in_is_unchanged(answered, table, review_of, tmp_path):
    path = write_labels_csv(answered, tmp_path / "labels.csv")
    other = review_of(table, name="other", shared=1.0)
    assert take_in(other, read_labels_csv(path)) == (22, 3)
    assert same_labels(labels_frame(answered, skipped=True), labels_frame(other, skipped=True))


@given(st.text(st.characters(codec="utf-8"), max_size=20))
def test_any_text_survives_the_csv(text):
    cell = _escaped(text)
    assert _unescaped(cell) == text
    assert not cell.startswith(("=", "+", "-", "@", "\t", "\r"))


def test_label_studio_out_and_in_is_unchanged(answered, table, review_of, tmp_path):
    path = write_label_studio(answered, tmp_path / "studio")
    tasks = json.loads(path.read_text(encoding="utf-8"))
    assert len(tasks) == 12
    assert tasks[0]["data"]["image_1"].startswith("data:image/png;base64,")
    assert '<Choices name="gender" toName="image_1"' in (tmp_path / "studio" / "config.xml").read_text()
    other = review_of(table, name="other", shared=1.0)
    take_in(other, read_label_studio(path, sheet_of(other)))
    assert same_labels(labels_frame(answered, skipped=True), labels_frame(other, skipped=True))
    first, second = tasks_of(answered, pictures=False), tasks_of(other, pictures=False)
    by_name = {task["data"]["item"]: task for task in second}
    for task in first:
        results, again = (
            {t["data"]["annotators"][str(a["completed_by"])]: a["result"] for a in t["annotations"]}
            for t in (task, by_name[task["data"]["item"]])
        )
        assert json.dumps(results, sort_keys=True) == json.dumps(again, sort_keys=True)


def test_label_studio_of_many_pictures(table, review_of, tmp_path):
    store = review_of(table, preset("similar-to-source"), shared=1.0)
    store.add("ana")
    item = store.next_item("ana")
    [_, made] = store.item(item)["pictures"]
    names = ("objects_alike", "colours_alike", "gap_filled")
    store.record("ana", item, {**{(name, made): "yes" for name in names}, ("skin_tone", made): "7"})
    path = write_label_studio(store, tmp_path / "studio", pictures=False)
    other = review_of(table, preset("similar-to-source"), "other", shared=1.0)
    take_in(other, read_label_studio(path, sheet_of(other)))
    assert sorted(labels_frame(other)["answer"]) == ["7", "yes", "yes", "yes"]
    assert same_labels(labels_frame(store), labels_frame(other))


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_label_studios_own_package_reads_it(answered, tmp_path):
    pytest.importorskip("label_studio_sdk", reason="label-studio-sdk is not installed")
    from label_studio_sdk.label_interface import LabelInterface
    from label_studio_sdk.label_interface.objects import TaskValue

    interface = LabelInterface(config_of(sheet_of(answered)))
    interface.validate()
    checked = 0
    for task in tasks_of(answered):
        TaskValue.model_validate(task)
        assert interface.validate_task({"data": task["data"]})
        for annotation in task["annotations"]:
            assert interface.validate_annotation(annotation)
            checked += len(annotation["result"])
    assert checked == 31
    wrong = {"from_name": "gender", "to_name": "image_1", "type": "choices", "value": {"choices": ["purple"]}}
    assert not interface.validate_annotation({"result": [wrong]})  # so the check can fail


def test_an_export_of_label_studio_itself(answered):
    """Who did it is told as a person there, and an empty result is a skipped task."""
    data = {"item": "female-0", "image_ids": ["female-0"]}
    told = {"from_name": "gender", "to_name": "image_1", "type": "choices", "value": {"choices": ["male"]}}
    by = {"id": 7, "email": "dan@example.org", "first_name": "", "last_name": ""}
    annotations = [{"completed_by": by, "result": [told]}, {"completed_by": 8, "result": [], "was_cancelled": True}]
    rows = list(_rows({"data": data, "annotations": annotations}, sheet_of(answered)))
    assert [(row["annotator"], row["question"], row["answer"]) for row in rows] == [
        ("dan", "gender", "male"),
        ("person 8", "", None),
    ]


@pytest.mark.parametrize("content", ["{", "[1]", '[{"data": {}}]', '{"format": "x"}'])
def test_files_that_are_something_else_are_refused(answered, tmp_path, content):
    path = tmp_path / "x.json"
    path.write_text(content)
    with pytest.raises(InputError, match=r"x\.json"):
        read_label_studio(path, sheet_of(answered)) if content != '{"format": "x"}' else read_static(path, answered)
    with pytest.raises(InputError, match="no column 'image_id'"):
        read_labels_csv(path)


def test_a_comma_too_many_is_said_with_its_line(tmp_path):
    path = tmp_path / "labels.csv"
    path.write_text("image_id,annotator,question,answer\na,x,note,fine\nb,x,note,nice, really\n")
    with pytest.raises(InputError, match=r"labels\.csv: line 3 has more fields than columns; put quotes"):
        read_labels_csv(path)


def test_nothing_of_a_file_is_taken_if_a_row_is_wrong(answered):
    before = len(labels_frame(answered))
    good = {"image_id": "female-0", "annotator": "dan", "question": "gender", "answer": "male"}
    for wrong in ({"answer": "purple"}, {"image_id": "nobody"}, {"question": "what"}, {"annotator": "<b>"}):
        with pytest.raises(InputError):
            take_in(answered, [good, {**good, "image_id": "male-1", **wrong}])
    assert len(labels_frame(answered)) == before
    assert [one.name for one in answered.annotators()] == ["ana", "ben", "cem"]


def test_majorities_and_the_axis_that_people_see(answered, table):
    told = majority(labels_frame(answered), "gender", unsure="unsure").set_index("image_id")["answer"]
    assert told["male-1"] == "male"
    assert pd.isna(told["female-2"])  # one says female, one male
    view = people_layer(answered, table, least=2)
    frame = view.to_pandas(["image_id", "gender", "label_source"]).set_index("image_id")
    assert frame.loc["male-1"].tolist() == ["male", "annotator"]
    assert frame.loc["female-2"].tolist() == ["female", "world"]  # split: what the table says stays
    assert frame.loc["male-11"].tolist() == ["male", "world"]  # nobody looked
    assert view.axes == ("gender",)


def test_what_is_said_of_a_whole_set_is_no_group_of_its_images(table, review_of):
    whole = Question("gender", "Who is shown?", answers=("female", "male"), axis="gender")
    each = Question("age", "How old?", answers=("young", "old"), axis="age", each=True)
    store = review_of(table, Questionnaire(about="set", questions=(whole,)), shared=1.0)
    with pytest.raises(InputError, match="answered 'gender' of each set as a whole, which gives no image a group"):
        people_layer(store, table)
    store = review_of(table, Questionnaire(about="set", questions=(whole, each)), "both", shared=1.0)
    store.add("ana")
    item, pictures = next(iter(store.rows("SELECT id, pictures FROM items WHERE name = 'set-0'")))
    answers = {("gender", 0): "male", **{("age", picture): "old" for picture in json.loads(pictures)}}
    assert store.record("ana", item, answers)
    view = people_layer(store, table)
    assert view.to_pandas(["gender", "age"])[:2].values.tolist() == [["female", "old"], ["male", "old"]]
    with pytest.raises(InputError, match="answered 'gender' of each set as a whole, and the detector spoke of images"):
        confusion_in(store, table, "gender", question="gender")


def test_two_questions_about_one_axis_are_refused_before_anyone_looks_but_answers_are_not_lost(
    table, review_of, tmp_path, monkeypatch
):
    answers = {"text": "Who?", "answers": ("female", "male"), "axis": "gender"}
    twice = Questionnaire(questions=(Question("one", **answers), Question("two", **answers)))
    with pytest.raises(InputError, match="two questions are about the axis 'gender', of which an image has one group"):
        review_of(table, twice)
    with monkeypatch.context() as patch:  # as it was made before they were refused
        patch.setattr(Questionnaire, "perceived", lambda sheet: [])
        store = review_of(table, twice, shared=1.0)
    store.add("ana")
    said(store, "ana", {"female-0": {"one": "female", "two": "male"}})
    assert "female-0" in write_labels_csv(store, tmp_path / "labels.csv").read_text(encoding="utf-8")
    with pytest.raises(InputError, match="two questions are about the axis 'gender'"):
        people_layer(store, table)


def test_the_summary_by_hand(answered):
    summary = summary_of(answered)
    ana, ben, cem = summary.people
    assert (ana.done, ana.skipped, ana.left, ana.seconds) == (10, 0, 2, 1.25)
    assert (cem.done, cem.skipped) == (2, 1)
    gold = {n for (n,) in answered.rows("SELECT name FROM items WHERE gold NOT NULL")}
    seen = gold & {f"{'male' if i % 2 else 'female'}-{i}" for i in range(10)}
    assert ana.gold.n == len(seen)
    assert ana.gold.value == 1.0
    assert ana.gold.null_mean == 0.5
    assert ben.gold.value == sum(n.startswith("male") for n in seen) / len(seen)
    [gender] = summary.questions
    assert gender.counts == {"male": 15, "female": 5, "unsure": 1}
    assert list(gender.kappas) == ["ana, ben", "ana, cem", "ben, cem"][: len(gender.kappas)]
    assert gender.kappas["ana, ben"].value == 0.0  # ben always says the same
    # pairs on the same item: 9 items with (f,m) or (m,m), one with (f, m, unsure)
    assert gender.same == pytest.approx(2 * 5 / (2 * 9 + 6))
    assert "10 of" not in str(summary)
    assert "gender" in str(summary)


def test_accepted_items(table, review_of):
    store = review_of(table, preset("counterfactual-set"), shared=1.0)
    store.add("ana", "ben")
    said(store, "ana", {f"set-{i}": {"same_except": "yes" if i < 3 else "no"} for i in range(6)})
    said(store, "ben", {f"set-{i}": {"same_except": "yes" if i < 2 else "unsure"} for i in range(4)})
    assert accepted_items(store).to_dict() == {"set-0": True, "set-1": True, "set-4": False, "set-5": False}
    with pytest.raises(InputError, match="no question says which answers are accepted"):
        accepted_items(store, "failures")


@pytest.fixture
def edits(tmp_path):
    """Ten sources with two edits each; the judge ``ok`` likes the edits of the first five, and every other source."""
    rows = []
    for i in range(10):
        rows.append({"image_id": f"s{i}", "source_id": None, "ok": i % 2 == 0})
        rows += [{"image_id": f"s{i}-{k}", "source_id": f"s{i}", "ok": i < 5} for k in range(2)]
    image = {"bytes": encode(Image.new("RGB", (9, 9))), "path": None}
    return Table.create(tmp_path / "edits", [{**row, "image": image} for row in rows], columns={"ok": "bool"})


def test_an_item_with_an_undecided_image_is_accepted_by_nobody(edits, review_of):
    store = review_of(edits, preset("similar-to-source"), shared=1.0)
    store.add("ana", "ben")
    compared(store, "ana", lambda image: "no" if image == "s1-1" else "yes")
    compared(store, "ben", lambda image: "no" if image in ("s0-0", "s1-0", "s1-1") else "yes")
    told = accepted_items(store).to_dict()
    assert "s0" not in told  # split on one edit, good the other
    assert told == {"s1": False, **{f"s{i}": True for i in range(2, 10)}}


def test_items_that_are_all_undecided_are_no_answer(edits, review_of):
    store = review_of(edits, preset("similar-to-source"), shared=1.0)
    store.add("ana", "ben")
    compared(store, "ana", lambda image: "yes")
    compared(store, "ben", lambda image: "yes" if image.endswith("0") else "no")
    with pytest.raises(InputError, match="nobody has answered 'objects_alike' clearly"):
        accepted_items(store)


def test_a_judge_of_edits_is_read_at_the_edits(edits, review_of):
    store = review_of(edits, preset("similar-to-source"), shared=1.0)
    store.add("ana")
    compared(store, "ana", lambda image: "yes" if image[1] in "01234" else "no")
    found = calibration_in(store, edits, "ok")
    assert (found.accuracy.value, found.accuracy.n) == (1.0, 20)
    assert found.judged == 0.5  # of the edits, whatever it says of sources


def numbered_anew(tmp_path):
    """Cook and nurse have a set 1 each, the nurse a set 2 as well."""
    places = [("cook", "1"), ("nurse", "1"), ("nurse", "2")]
    image = {"bytes": encode(Image.new("RGB", (8, 8))), "path": None}
    rows = [
        {"image_id": f"{job}-{number}-{g}", "subject": job, "set_id": number, "gender": g, "image": image}
        for job, number in places
        for g in ("female", "male")
    ]
    return Table.create(tmp_path / "anew", rows, axes=["gender"])


SETS = Questionnaire(about="set", questions=(ALIKE,))


def test_sets_of_one_name_and_two_subjects_are_two_items(tmp_path, review_of):
    table = numbered_anew(tmp_path)
    store = review_of(table, SETS, shared=1.0)
    ids = dict(store.rows("SELECT id, image_id FROM pictures"))
    items = {name: [ids[i] for i in json.loads(p)] for name, p in store.rows("SELECT name, pictures FROM items")}
    names = ("cook: 1", "nurse: 1", "nurse: 2")
    assert items == {name: [f"{name.replace(': ', '-')}-{g}" for g in ("female", "male")] for name in names}
    store.add("ana")
    said(store, "ana", {"cook: 1": {"alike": "no"}, "nurse: 1": {"alike": "yes"}, "nurse: 2": {"alike": "yes"}})
    assert accepted_items(store).to_dict() == {"cook: 1": False, "nurse: 1": True, "nurse: 2": True}
    [share] = [row for row in errors_in(store, table) if row["subject"] == "yes"]
    assert (share["value"], share["n"]) == (2 / 3, 3)


def test_a_set_is_called_the_same_after_filtering(tmp_path, review_of):
    table = numbered_anew(tmp_path)
    gone = [name.startswith("cook") for name in table.to_pandas(["image_id"])["image_id"]]
    keep = pd.DataFrame({"image_id": table.to_pandas(["image_id"])["image_id"], "keep": [not g for g in gone]})
    store = review_of(table.add_layer("kept", keep, columns=["keep"]), SETS, only_kept=True)
    assert sorted(name for (name,) in store.rows("SELECT name FROM items")) == ["nurse: 1", "nurse: 2"]


def test_answers_that_name_only_the_set_are_read_where_one_subject_has_it(tmp_path, review_of):
    each = Question("clear", "Is it clear?", answers=("yes", "no"), each=True, optional=True)
    store = review_of(numbered_anew(tmp_path), Questionnaire(about="set", questions=(ALIKE, each)), shared=1.0)
    row = {"annotator": "ana", "question": "alike", "answer": "yes", "image_id": "nurse-2-female"}
    assert take_in(store, [{**row, "item": "2"}]) == (1, 1)
    assert accepted_items(store).to_dict() == {"nurse: 2": True}
    with pytest.raises(InputError, match="item '1' may be 'cook: 1' or 'nurse: 1'"):
        take_in(store, [{**row, "item": "1", "image_id": "cook-1-female"}])
    whole = {**row, "item": "nurse: 1"}
    one_image = {**row, "question": "clear", "item": "1", "image_id": "nurse-1-male"}
    assert take_in(store, [whole, one_image]) == (1, 1)
    assert set(labels_frame(store)["item"]) == {"nurse: 1", "nurse: 2"}


def test_a_gold_answer_may_name_only_the_set(tmp_path):
    gold = {"2": {"alike": "yes"}, "1": {"alike": "yes"}}
    store = prepare(numbered_anew(tmp_path), SETS, tmp_path / "gold", ReviewSettings(gold=1), gold=gold)
    assert store.rows("SELECT name FROM items WHERE gold IS NOT NULL") == [("nurse: 2",)]
    store.close()


def test_a_review_that_shows_sets_of_two_subjects_as_one_is_not_gone_on_with(tmp_path, review_of):
    table = numbered_anew(tmp_path)
    store = review_of(table, SETS, name="old")
    by_name = {name: json.loads(pictures) for name, pictures in store.rows("SELECT name, pictures FROM items")}
    with store.writing() as file:  # as an earlier version made it
        file.execute("DELETE FROM items WHERE name = 'cook: 1'")
        joined = json.dumps([*by_name["cook: 1"], *by_name["nurse: 1"]])
        file.execute("UPDATE items SET name = '1', pictures = ? WHERE name = 'nurse: 1'", (joined,))
    with pytest.raises(InputError, match="item '1' shows sets of several subjects as one; make a new review"):
        prepare(table, SETS, tmp_path / "old")


def test_errors_keep_sets_of_one_name_and_two_subjects_apart():
    jobs, numbers = np.repeat([*"abcdef"], 4), np.tile(np.repeat(["1", "2"], 2), 6)
    frame = pd.DataFrame({"image_id": np.arange(24).astype(str), "subject": jobs, "set_id": numbers})
    answers = frame[["image_id"]].assign(answer=np.tile(["yes", "yes", "no", "no", "yes", "yes", "yes", "yes"], 3))
    anew = error_rows(answers, frame)
    named = error_rows(answers, frame.assign(set_id=frame["subject"] + ": " + frame["set_id"]))
    assert anew == named
    assert anew != error_rows(answers, frame.drop(columns="subject"))  # which knows two sets only


def ends(estimate):
    return estimate.ci_low, estimate.ci_high


def test_copies_of_an_item_make_no_calibration_surer():
    """Eight copies of each of 40 items say no more than the 40 do."""
    rng = np.random.default_rng(0)
    wanted = rng.random(40) < 0.6
    verdicts = np.where(rng.random(40) < 0.8, wanted, ~wanted)
    sources = np.arange(40).repeat(8)
    once = calibrate_judge(verdicts, wanted)
    eight = calibrate_judge(verdicts.repeat(8), wanted.repeat(8), clusters=sources)
    assert calibrate_judge(verdicts, wanted, clusters=np.arange(40)) == once
    assert ends(eight.corrected) == pytest.approx(ends(once.corrected))
    assert ends(eight.kappa) == pytest.approx(ends(once.kappa))
    blind = calibrate_judge(verdicts.repeat(8), wanted.repeat(8))
    for name in ("accuracy", "sensitivity", "specificity"):
        single, copied, taken_apart = (np.diff(ends(getattr(c, name)))[0] for c in (once, eight, blind))
        assert copied >= 0.95 * single
        assert taken_apart < 0.5 * single
    assert eight.accuracy.p_value > 10 * blind.accuracy.p_value
    said = confusion_with_people(wanted.repeat(8).astype(str), verdicts.repeat(8).astype(str), clusters=sources)
    assert ends(said.kappa) == pytest.approx(ends(once.kappa), abs=0.02)
    assert ends(said.accuracy) == ends(eight.accuracy)


def test_a_threshold_judges_no_edit_of_a_source_that_it_was_learned_from():
    """Scores are right by luck inside each source: cross-fitting by source shows that they know nothing."""
    rng = np.random.default_rng(1)
    wanted = rng.permutation(np.arange(60) % 2 == 0)
    scores = rng.permutation(60).astype(float)
    found = calibrate_scores(scores.repeat(10), wanted.repeat(10), clusters=np.arange(60).repeat(10))
    assert found.accuracy.ci_low < 0.5 < found.accuracy.ci_high
    assert found.area.ci_low < 0.5 < found.area.ci_high
    assert np.diff(ends(found.area))[0] > 0.25
    with pytest.raises(InputError, match=r"one for each fold \(edits of one source"):
        calibrate_scores(scores, wanted, clusters=np.arange(60) // 20)
    with pytest.raises(InputError, match="give one name for each"):
        calibrate_judge([True, False], [True, False], clusters=["a"])


def test_a_judge_of_edits_is_calibrated_by_source(edits, review_of):
    store = review_of(edits, preset("similar-to-source"), shared=1.0)
    store.add("ana")
    compared(store, "ana", lambda image: "yes" if int(image[1]) < 6 else "no")
    ids = edits.to_pandas(["image_id", "source_id"])
    judge = pd.DataFrame({"image_id": ids["image_id"], "judge": [name[1] in "0123489" for name in ids["image_id"]]})
    view = edits.add_layer("judge", judge, columns={"judge": "bool"})
    made = ids[ids["source_id"].notna()]
    number = made["source_id"].str[1].astype(int)
    by_hand = calibrate_judge(number.isin([0, 1, 2, 3, 4, 8, 9]), number < 6, clusters=made["source_id"])
    assert str(calibration_in(store, view, "judge")) == str(by_hand)


def test_errors_among_edits_of_few_sources_are_counted_by_source():
    ids = [f"s{i}-{k}" for i in range(10) for k in range(6)]
    frame = pd.DataFrame({"image_id": ids, "source_id": [name.split("-")[0] for name in ids]})
    frame["gender"] = ["female" if name[1] in "01234" else "male" for name in ids]
    answers = frame[["image_id"]].assign(answer=["bad" if name[1] in "0128" else "good" for name in ids])
    rows = {(r["metric"], r["group"]): r for r in error_rows(answers, frame, by=["gender"]) if r["subject"] == "bad"}
    apart = {
        (r["metric"], r["group"]): r
        for r in error_rows(answers, frame.drop(columns="source_id"), by=["gender"])
        if r["subject"] == "bad"
    }
    share, gap = ("answer_share", None), ("answer_share_gap", None)
    assert rows[share]["value"] == apart[share]["value"] == 0.4
    assert rows[share]["ci_high"] - rows[share]["ci_low"] > 1.8 * (apart[share]["ci_high"] - apart[share]["ci_low"])
    assert rows[gap]["value"] == apart[gap]["value"] == pytest.approx(0.4)
    assert apart[gap]["p_value"] < 0.01  # three sources of five against one of five
    assert rows[gap]["p_value"] > 0.2


def test_a_judge_of_images_is_not_calibrated_on_whole_sources(edits, review_of):
    """Items are called as their sources are, which are images too."""
    store = review_of(edits, Questionnaire(about="source", questions=(ALIKE,)), shared=1.0)
    store.add("ana")
    said(store, "ana", {f"s{i}": {"alike": "yes" if i < 5 else "no"} for i in range(10)})
    with pytest.raises(InputError, match=r"each source as a whole.* calibrate on a review about images"):
        calibration_in(store, edits, "ok")


def test_steps_of_a_scale_that_nobody_chose_count():
    """By hand on 1..10: the two differ by 16 / 6 on average, and two answers at random by 4."""
    told = {"ana": (1, 1, 2, 2, 10, 10), "ben": (1, 1, 2, 10, 10, 2)}
    rows = [(who, i, "skin_tone", 0, str(step)) for who, steps in told.items() for i, step in enumerate(steps)]
    frame = pd.DataFrame(rows, columns=["annotator", "item", "question", "picture", "answer"])
    [question] = [q for q in preset("monk-skin-tone").questions if q.kind == "swatches"]
    assert agreement_of(frame, question).kappas["ana, ben"].value == pytest.approx(1 / 3)


def test_unsure_is_counted_whoever_counts(table, review_of):
    store = review_of(table, preset("counterfactual-set"), shared=1.0)
    store.add("ana", "ben", "cem")
    for who, answers in {"ana": ("yes", "yes"), "ben": ("unsure", "yes"), "cem": ("unsure", "unsure")}.items():
        said(store, who, {f"set-{i}": {"same_except": answer} for i, answer in enumerate(answers)})
    told = majority(labels_frame(store), "same_except", unsure="unsure").set_index("item")["answer"]
    assert pd.isna(told["set-0"])
    assert told["set-1"] == "yes"
    assert accepted_items(store).to_dict() == {"set-1": True}


def test_an_axis_that_people_are_unsure_of_does_not_cost_the_other(tmp_path):
    rows = [{"image_id": name, "image": Image.new("RGB", (9, 9)), "gender": "male", "race": "white"} for name in "abc"]
    table = Table.create(tmp_path / "t", rows, axes=["gender", "race"])
    asked = [
        Question("g", "Which gender?", answers=("male", "female"), unsure="unsure", axis="gender"),
        Question("r", "Which race?", answers=("white", "black"), unsure="unsure", axis="race"),
        Question("a", "Which age?", answers=("young", "old"), unsure="unsure", axis="age"),
    ]
    store = prepare(table, Questionnaire(questions=tuple(asked)), tmp_path / "r", ReviewSettings())
    answers = {"a": ("female", "unsure", "unsure"), "b": ("female", "black", "old"), "c": ("unsure",) * 3}
    take_in(
        store,
        [
            {"annotator": "ana", "image_id": name, "question": question.name, "answer": answer}
            for name, told in answers.items()
            for question, answer in zip(asked, told, strict=True)
        ],
    )
    seen = people_layer(store, table).to_pandas(["gender", "race", "age", "label_source"])
    assert seen.astype(object).where(seen.notna(), None).to_numpy().tolist() == [
        ["female", "white", None, "annotator"],
        ["female", "black", "old", "annotator"],
        ["male", "white", None, None],
    ]


def test_errors_by_group_before_and_after(table, review_of):
    store = review_of(table, preset("group-failures", axis="gender"), shared=1.0)
    store.add("ana")
    names = [row["image_id"] for row in table.rows(["image_id"])]
    bad = {"female-0", "female-2", "male-1"}
    answers = {
        n: {"perceived_gender": n.split("-")[0], "failure": "wrong group" if n in bad else "good"} for n in names
    }
    said(store, "ana", answers)
    keep = [{"image_id": n, "keep": n not in {"female-0", "male-1", "male-3"}} for n in names]
    view = table.add_layer("filter", keep, columns=["keep"])
    rows = errors_in(store, view, axes=["gender"], draws=99)
    wrong = {(r["variant"], r["group"], r["metric"]): r for r in rows if r["subject"] == "wrong group"}
    assert wrong["before", None, "answer_share"]["value"] == 3 / 12
    assert wrong["before", "female", "answer_share"]["value"] == 2 / 6
    assert wrong["after", None, "answer_share"]["value"] == 1 / 9
    assert wrong["after", "male", "answer_share"]["value"] == 0
    gap = wrong["before", None, "answer_share_gap"]
    assert gap["value"] == pytest.approx(1 / 6)
    assert gap["null_mean"] > 0
    assert gap["p_value"] > 0.05
    assert "wrong group" in errors_text(rows)


def test_errors_of_whole_sets_belong_to_no_group(table, review_of):
    store = review_of(table, preset("counterfactual-set"), shared=1.0)
    store.add("ana")
    said(store, "ana", {f"set-{i}": {"same_except": "no" if i < 2 else "yes"} for i in range(6)})
    names = [row["image_id"] for row in table.rows(["image_id"])]
    # the second image of set-0, the first of set-1, both of set-2
    keep = [{"image_id": n, "keep": n not in {"male-1", "female-2", "female-4", "male-5"}} for n in names]
    rows = errors_in(store, table.add_layer("filter", keep, columns=["keep"]))
    assert {row["axis"] for row in rows} == {None}
    found = {(r["variant"], r["subject"]): (r["value"], r["n"]) for r in rows}
    assert found["before", "no"] == (2 / 6, 6)
    assert found["after", "no"] == (0, 3)
    with pytest.raises(InputError, match="asked of each set as a whole"):
        errors_in(store, table, axes=["gender"])


def test_errors_of_whole_sources_ask_what_became_of_the_edits(edits, review_of):
    store = review_of(edits, Questionnaire(about="source", questions=(ALIKE,)), shared=1.0)
    store.add("ana")
    said(store, "ana", {f"s{i}": {"alike": "no" if i < 5 else "yes"} for i in range(10)})
    keep = [{"image_id": row["image_id"], "keep": "-" in row["image_id"]} for row in edits.rows(["image_id"])]
    keep[1]["keep"] = False
    rows = errors_in(store, edits.add_layer("filter", keep, columns=["keep"]))
    assert {(r["variant"], r["subject"]): r["value"] for r in rows}["after", "no"] == 4 / 9


def test_errors_need_labels_of_the_same_table():
    told = pd.DataFrame({"image_id": ["x"], "answer": ["good"]})
    with pytest.raises(InputError, match="labels of the same table"):
        error_rows(told, pd.DataFrame({"image_id": ["y"]}))


@pytest.mark.parametrize("wrong", [0, 1])
def test_answers_about_people_with_several_images_are_tested_between_people(wrong):
    people = np.repeat(np.arange(40), 3)
    ids = [f"i{i}" for i in range(120)]
    gender = np.where(people % 2 == 1, "male", "female")
    answers = pd.DataFrame({"image_id": ids, "answer": np.where(gender == "male", "bad", "good")})
    gender[:wrong] = "male"
    frame = pd.DataFrame({"image_id": ids, "set_id": people.astype(str), "gender": gender})
    rows = error_rows(answers, frame, by=["gender"])
    (gap,) = [row for row in rows if row["metric"] == "answer_share_gap" and row["subject"] == "bad"]
    assert gap["p_value"] < 0.01  # labels that moved inside people alone gave 1


def test_the_published_table_of_a_detector_is_reached():
    """SocialCounterfactuals, Table 9: precision .99 and .96, recall .95 and .99 with support 549 and 589."""
    people = ["male"] * 549 + ["female"] * 589
    detector = ["male"] * 524 + ["female"] * 25 + ["female"] * 584 + ["male"] * 5
    found = confusion_with_people(people, detector).by_group.set_index("group").round(2)
    assert found.loc["male", ["precision", "recall", "f1", "support"]].tolist() == [0.99, 0.95, 0.97, 549]
    assert found.loc["female", ["precision", "recall", "f1", "support"]].tolist() == [0.96, 0.99, 0.97, 589]


def test_a_detector_against_people(answered, table):
    view = table.add_layer(
        "detector",
        [{"image_id": f"{'male' if i % 2 else 'female'}-{i}", "seen": "male"} for i in range(12)],
        columns={"seen": "string"},
    )
    found = confusion_in(answered, view, "seen")
    assert found.counts.loc["male", "male"] == 5
    assert found.dropped == 5  # people are split
    with pytest.raises(InputError, match="no image has both"):
        confusion_with_people([None], ["male"])


def test_a_judge_of_known_errors_is_corrected():
    """Sensitivity .9 and specificity .75: intervals hold the truth about as often as they say."""
    rng = np.random.default_rng(0)
    held = np.zeros(4)
    for _ in range(40):
        truth = rng.random(3000) < 0.4
        judge = np.where(truth, rng.random(3000) < 0.9, rng.random(3000) < 0.25)
        found = calibrate_judge(judge[:400], truth[:400], everything=judge, replicates=200)
        known = [(found.sensitivity, 0.9), (found.specificity, 0.75), (found.corrected, truth.mean())]
        held[:3] += [e.ci_low <= value <= e.ci_high for e, value in known]
        held[3] += found.corrected.ci_low <= found.judged <= found.corrected.ci_high
    assert (held[:3] >= 34).all(), held
    assert held[3] < 5  # the judge alone says about .51
    assert "accepted, corrected" in str(found)


def test_a_threshold_on_scores():
    scores = np.array([0.1, 0.2, 0.3, 0.6, 0.7, 0.8, 0.9, 0.15, 0.65, 0.75])
    found = calibrate_scores(scores, scores > 0.5)
    assert 0.3 < found.threshold < 0.6
    assert found.area.value == 1.0
    with pytest.raises(InputError, match="accepted and rejected"):
        calibrate_scores([0.1] * 6, [True] * 6)


@given(st.lists(st.tuples(st.integers(0, 6), st.booleans()), min_size=2, max_size=12))
def test_no_threshold_agrees_better(pairs):
    scores, wanted = np.array([float(s) for s, _ in pairs]), np.array([w for _, w in pairs])
    found = (scores >= _threshold(scores, wanted)) == wanted
    best = max(((scores >= t) == wanted).sum() for t in np.arange(-0.5, 8, 0.5))
    assert found.sum() == best


def test_a_judge_in_a_table(table, review_of):
    store = review_of(table, preset("matches-caption"), shared=1.0)
    store.add("ana")
    names = [row["image_id"] for row in table.rows(["image_id"])]
    said(store, "ana", {n: {"matches_caption": "yes" if i < 8 else "no"} for i, n in enumerate(names)})
    rows = [{"image_id": n, "score_match": float(-i), "keep": i < 6} for i, n in enumerate(names)]
    view = table.add_layer("judge", rows, columns=["score_match", "keep"])
    assert calibration_in(store, view, "keep").sensitivity.value == 6 / 8
    assert -8 < calibration_in(store, view, "score_match").threshold < -7


def test_gold_with_two_answers_is_refused():
    rows = [{"image_id": "a", "question": "q", "answer": answer} for answer in ("x", "y")]
    assert gold_of(rows[:1]) == {"a": {"q": "x"}}
    with pytest.raises(InputError, match="two answers"):
        gold_of(rows)


def test_gold_answers_from_a_file(table, tmp_path):
    known = {"female-0": {"matches_caption": "no"}}
    store = prepare(table, preset("matches-caption"), tmp_path / "r", ReviewSettings(gold=1), gold=known)
    [(name, gold)] = store.rows("SELECT name, gold FROM items WHERE gold NOT NULL")
    assert (name, json.loads(gold)) == ("female-0", {"matches_caption": {"0": "no"}})
    store.close()


def test_answers_of_another_review_of_the_same_table_are_refused(table, review_of, tmp_path):
    """Its items have other numbers, by which the answers of static pages are told apart."""
    first, other = review_of(table, name="first", seed=0), review_of(table, name="other", seed=1, items=6)
    first.add("ana")
    page = export_static(first, "ana", tmp_path / "pages")
    contents = json.loads((page.parent / "items.js").read_text().split("= ", 1)[1].rstrip(";\n"))
    answers = [{"item": item["item"], "answers": {"gender": "male"}} for item in contents["items"]]
    file = tmp_path / "answers.json"
    for name in (contents["review"], table.fingerprint):  # pages of earlier versions name the table alone
        file.write_text(json.dumps({**contents, "review": name, "answers": answers}))
        assert len(read_static(file, first)) == 12
    file.write_text(json.dumps({**contents, "answers": answers}))
    with pytest.raises(InputError, match="belongs to another review"):
        read_static(file, other)


def test_one_person_in_two_cases_of_letters_is_not_two(answered, table, review_of, tmp_path):
    rows = read_labels_csv(write_labels_csv(answered, tmp_path / "labels.csv"))
    other = review_of(table, name="other", shared=1.0)
    other.add("Ana")
    with pytest.raises(InputError, match="there is somebody called 'Ana', and 'ana' differs in case alone"):
        take_in(other, rows)
    assert labels_frame(other, skipped=True).empty
