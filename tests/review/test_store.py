"""Answers are kept whole, once, and with their history; links work until they are stopped."""

import sqlite3
import threading

import pytest

from equipoise.errors import InputError, OtherSettingsError
from equipoise.review import ReviewSettings, open_review, prepare, preset
from equipoise.review.store import check_name


def test_answers_undo_and_resume(table, review_of):
    store = review_of(table, shared=1.0)
    store.add("ana")
    first = store.next_item("ana")
    assert store.next_item("ana") == first  # until it is answered
    assert store.record("ana", first, {("gender", 0): "female"}, seconds=2.5)
    second = store.next_item("ana")
    assert second != first
    assert store.undo("ana") == (first, {("gender", 0): "female"})
    assert store.next_item("ana") == first
    assert store.progress("ana").done == 0
    assert store.undo("ana") is None
    store.record("ana", first, {("gender", 0): "male"})
    store.record("ana", first, {("gender", 0): "unsure"})  # sent twice: kept once
    assert store.rows("SELECT answer FROM answers") == [("unsure",)]
    assert [what for (what,) in store.rows("SELECT what FROM history ORDER BY id")] == [
        "answer",
        "undo",
        "answer",
        "answer",
    ]
    store.close()
    again = open_review(store.path.parent)
    assert again.next_item("ana") == second
    again.close()


def test_nobody_answers_for_others(table, review_of):
    store = review_of(table, shared=0.0)
    store.add("ana", "ben")
    [(item,)] = store.rows("SELECT item FROM assigned WHERE annotator = 'ana' LIMIT 1")
    assert not store.record("ben", item, {("gender", 0): "male"})
    assert store.rows("SELECT count(*) FROM history") == [(0,)]


def test_links_are_kept_as_hashes_and_can_be_stopped(table, review_of):
    store = review_of(table)
    tokens = store.add("ana", "ben")
    assert store.annotator_of(tokens["ana"]) == "ana"
    assert store.annotator_of(tokens["ana"] + "x") is None
    assert store.annotator_of("") is None
    raw = b"".join(path.read_bytes() for path in store.path.parent.iterdir() if path.is_file())
    assert tokens["ana"].encode() not in raw
    new = store.new_link("ana")
    assert store.annotator_of(tokens["ana"]) is None
    assert store.annotator_of(new) == "ana"
    before = {i for (i,) in store.rows("SELECT item FROM assigned")}
    store.record("ana", store.next_item("ana"), {("gender", 0): "male"})
    store.revoke("ana")
    assert store.annotator_of(new) is None
    assert {i for (i,) in store.rows("SELECT item FROM assigned")} == before  # ben has what ana had not begun
    assert store.rows("SELECT count(*) FROM answers") == [(1,)]
    with pytest.raises(InputError, match="no annotator named 'bem'; did you mean 'ben'"):
        store.revoke("bem")


def test_somebody_who_comes_later_takes_part_of_what_is_left(table, review_of):
    store = review_of(table, shared=0.0)
    store.add("ana")
    item = store.next_item("ana")
    store.add("ben")
    assert {name: store.progress(name).total for name in ("ana", "ben")} == {"ana": 6, "ben": 6}
    assert store.record("ana", item, {("gender", 0): "male"})  # what ana is looking at stays hers


@pytest.mark.parametrize("name", ["", " ", "<b>", "x" * 41, "a\nb\tc/d", "=cmd", "_x"])
def test_names_are_plain(name):
    with pytest.raises(InputError, match="annotator name"):
        check_name(name)


def test_a_name_is_there_once(table, review_of):
    store = review_of(table)
    store.add("ana")
    with pytest.raises(InputError, match="there is somebody called 'Ana' already"):
        store.add("ben", "Ana")
    assert [one.name for one in store.annotators()] == ["ana"]  # all or nothing


def test_a_failed_transaction_leaves_nothing(table, review_of):
    store = review_of(table, shared=1.0)
    store.add("ana")
    item = store.next_item("ana")
    with pytest.raises(sqlite3.IntegrityError):
        store.record("ana", item, {("gender", 0): None})
    assert store.progress("ana").done == 0
    assert store.record("ana", item, {("gender", 0): "male"})


def test_threads_lose_and_double_nothing(table, review_of):
    store = review_of(table, shared=1.0)
    names = [f"p{i}" for i in range(6)]
    store.add(*names)

    def look(name):
        while (item := store.next_item(name)) is not None:
            store.record(name, item, {("gender", 0): "male"})

    threads = [threading.Thread(target=look, args=(name,)) for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert store.rows("SELECT count(*), count(DISTINCT annotator || item) FROM answers") == [(72, 72)]
    assert store.rows("SELECT count(*) FROM history") == [(72,)]
    assert store.rows("PRAGMA synchronous") == [(2,)]  # FULL
    assert store.rows("PRAGMA journal_mode") == [("wal",)]


def test_the_same_settings_go_on_and_others_are_refused(table, tmp_path):
    sheet = preset("perceived-group", axis="gender")
    store = prepare(table, sheet, tmp_path / "r", ReviewSettings(gold=2))
    store.add("ana")
    store.record("ana", store.next_item("ana"), {("gender", 0): "male"})
    store.close()
    again = prepare(table, sheet, tmp_path / "r", ReviewSettings(gold=2))
    assert again.progress("ana").done == 1
    again.close()
    with pytest.raises(OtherSettingsError, match="another table or with other questions"):
        prepare(table, sheet, tmp_path / "r", ReviewSettings(gold=3))
    with pytest.raises(InputError, match="holds what people said of 1 item, which is not replaced"):
        prepare(table, sheet, tmp_path / "r", ReviewSettings(gold=3), overwrite=True)


def test_gold_is_hidden_and_seen_by_all(table, review_of):
    store = review_of(table, gold=3, shared=0.0)
    store.add("ana", "ben")
    gold = {i for (i,) in store.rows("SELECT id FROM items WHERE gold NOT NULL")}
    assert len(gold) == 3
    for name in ("ana", "ben"):
        assert gold <= {i for (i,) in store.rows("SELECT item FROM assigned WHERE annotator = ?", name)}


def test_more_gold_than_is_known_is_refused(table, tmp_path):
    with pytest.raises(InputError, match="2 gold items wanted, but the right answer is known of 0"):
        prepare(table, preset("matches-caption"), tmp_path / "r", ReviewSettings(gold=2))


def test_sets_and_sources_are_items(table, review_of):
    sets = review_of(table, preset("counterfactual-set"), "sets", shared=1.0)
    assert sets.rows("SELECT count(*) FROM items") == [(6,)]
    assert all(len(sets.item(i)["pictures"]) == 2 for (i,) in sets.rows("SELECT id FROM items"))
    sources = review_of(table, preset("similar-to-source"), "sources", shared=1.0)
    item = sources.item(1)
    [(image,)] = sources.rows("SELECT image_id FROM pictures WHERE id = ?", item["pictures"][0])
    assert image == item["name"]  # the source stands first


def test_a_missing_column_is_named(table, tmp_path):
    with pytest.raises(InputError, match="has no column 'prompt', which the questionnaire needs"):
        prepare(table, preset("which-reply", trait="kind"), tmp_path / "r")
