"""Which rows are learnt from, and in which order: by hand on small tables."""

import io

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from equipoise.data import Table
from equipoise.errors import InputError, UnknownNameError
from equipoise.train.batches import Stream, mixed
from equipoise.train.rows import TrainingRows, note_on_left_out, parted, places_apart, refuse_other_pictures


def a_table(folder, rows, **columns):
    return Table.create(folder, rows, columns=columns, rows_per_shard=2)


def test_dropped_rows_are_left_out_and_copies_are_kept(tmp_path):
    rows = [
        {"image_id": name, "caption": name, "keep": keep, "copies": n}
        for name, keep, n in [("a", True, 2), ("b", False, 1), ("c", None, 1), ("d", True, 0), ("e", True, None)]
    ]
    table = a_table(tmp_path / "t", rows, keep="bool", dropped_by="string", copies="int64")
    found = TrainingRows(table, ["caption"])
    assert found.labels["image_id"].tolist() == ["a", "e"]
    assert found.copies.tolist() == [2, 1]
    stream = Stream(np.arange(2), 3, seed=0, copies=found.copies)
    assert sorted(stream.batch_at(0)) == sorted(stream.batch_at(1)) == [0, 0, 1]


def test_an_unknown_column_is_answered_with_the_closest(tmp_path):
    table = a_table(tmp_path / "t", [{"image_id": "a"}])
    with pytest.raises(UnknownNameError, match="did you mean 'caption'"):
        TrainingRows(table, ["captoin"])


def test_the_split_of_a_table_is_kept_and_what_leaks_does_not_judge(tmp_path):
    rows = [
        {"image_id": "a", "subject": "cook", "split": "train"},
        {"image_id": "b", "subject": "cook", "split": "val"},  # a subject of training
        {"image_id": "c", "subject": "nurse", "split": "val", "source_id": "a"},  # made from an image of training
        {"image_id": "d", "subject": "nurse", "split": "val"},
        {"image_id": "e", "subject": "pilot", "split": "test"},
    ]
    found = parted(TrainingRows(a_table(tmp_path / "t", rows), []), 0.1, 0)
    assert found.train.tolist() == [0]
    assert found.validation.tolist() == [3]
    assert found.n_left_out == 2


def test_sets_of_one_name_and_two_subjects_leak_nothing(tmp_path):
    rows = [
        {
            "image_id": f"{job}-{number}-{i}",
            "subject": job,
            "set_id": number,
            "split": "val" if job == "cook" else "train",
        }
        for job in ("cook", "nurse", "judge")
        for number in "01"
        for i in range(2)
    ]
    parts = parted(TrainingRows(a_table(tmp_path / "t", rows), []), 0.2, 0)
    assert (len(parts.train), len(parts.validation), parts.n_left_out) == (8, 4, 0)
    drawn = parted(TrainingRows(a_table(tmp_path / "u", [{**row, "split": None} for row in rows]), []), 0.34, 0)
    assert (len(drawn.train), len(drawn.validation)) == (8, 4)


def test_a_split_that_leaks_altogether_is_refused(tmp_path):
    rows = [{"image_id": "a", "set_id": "s", "split": "train"}, {"image_id": "b", "set_id": "s", "split": "val"}]
    with pytest.raises(InputError, match="leave the split layer out"):
        parted(TrainingRows(a_table(tmp_path / "t", rows), []), 0.1, 0)


def test_held_back_subjects_share_nothing_with_training(tmp_path):
    rng = np.random.default_rng(0)
    rows = [
        {"image_id": f"i{i}", "subject": f"s{rng.integers(9)}", "set_id": f"t{i // 3}" if i % 5 else None}
        for i in range(60)
    ]
    for i, row in enumerate(rows):  # a set is of one subject
        row["subject"] = rows[i // 3 * 3]["subject"]
    found = TrainingRows(a_table(tmp_path / "t", rows), [])
    parts = parted(found, 0.3, seed=4)
    train, judges = found.labels.iloc[parts.train], found.labels.iloc[parts.validation]
    assert len(train) + len(judges) == 60
    assert len(judges)
    for column in ("subject", "set_id"):
        assert not set(train[column].dropna()) & set(judges[column].dropna())


@given(st.integers(1, 40), st.integers(1, 9), st.integers(0, 3))
def test_every_epoch_takes_every_row_once(n, batch, seed):
    stream = Stream(np.arange(n), batch, seed)
    steps = -(-3 * n // batch)
    taken = np.concatenate([stream.batch_at(step) for step in range(steps)])
    for epoch in range(3):
        assert sorted(taken[epoch * n : (epoch + 1) * n]) == list(range(n))
    again = Stream(np.arange(n), batch, seed)  # asked in another order, as after a kill
    assert all((again.batch_at(s) == taken[s * batch : (s + 1) * batch]).all() for s in reversed(range(steps)))


@given(st.lists(st.integers(1, 6), min_size=1, max_size=12), st.integers(6, 14), st.integers(0, 3))
def test_whole_sets_stay_in_one_batch(sizes, batch, seed):
    units = [f"set {number}" for number, size in enumerate(sizes) for _ in range(size)]
    stream = Stream(np.arange(len(units)), batch, seed, units=units)
    packs = [stream.batch_at(step) for step in range(int(stream.steps_per_epoch))]
    assert sorted(np.concatenate(packs)) == list(range(len(units)))
    assert max(map(len, packs)) <= batch
    of_set = [{number for number, pack in enumerate(packs) if i in pack} for i in range(len(units))]
    places = pd.Series(of_set).groupby(pd.Series(units)).agg(lambda sets: len(set.union(*sets)))
    assert (places == 1).all()


def test_a_set_larger_than_a_batch_is_refused():
    with pytest.raises(InputError, match="a set has 3 images"):
        Stream(np.arange(3), 2, 0, units=["s", "s", "s"])


def test_windows_are_gone_through_one_after_another():
    windows = [np.arange(0, 4), np.arange(4, 8)]
    taken = Stream(np.arange(8), 8, 1, windows=windows).batch_at(0)
    assert {frozenset(taken[:4]), frozenset(taken[4:])} == {frozenset(range(4)), frozenset(range(4, 8))}


def test_a_small_memory_reads_the_same_images(world_sets):
    plenty, little = TrainingRows(world_sets, ["caption"]), TrainingRows(world_sets, ["caption"], held_bytes=1)
    assert plenty.windows() is None
    assert sorted(np.concatenate(little.windows())) == list(range(len(little)))
    for place in (0, 59, 7):
        one, other = (rows.rows([place])[0] for rows in (plenty, little))
        assert one["image"].tobytes() == other["image"].tobytes()


def test_decoded_images_are_kept_as_far_as_there_is_room(world_sets, monkeypatch):
    from equipoise.train import rows as module

    n_decoded = []
    decode = module.decode
    monkeypatch.setattr(module, "decode", lambda *a, **k: n_decoded.append(1) or decode(*a, **k))
    first = TrainingRows(world_sets, ["caption"]).rows([0])[0]["image"]
    monkeypatch.setattr(module, "DECODED_BYTES", 4 * first.width * first.height * 2)
    rows = TrainingRows(world_sets, ["caption"])
    n_decoded.clear()
    epochs = [[row["image"].tobytes() for row in rows.rows(range(6))] for _ in range(3)]
    assert epochs[0] == epochs[1] == epochs[2]
    assert len(n_decoded) == 6 + 4 + 4, "two of six fit into memory"


def test_tables_take_their_share_of_every_batch(tmp_path):
    main = TrainingRows(a_table(tmp_path / "a", [{"image_id": f"a{i}"} for i in range(9)]), [])
    other = TrainingRows(a_table(tmp_path / "b", [{"image_id": f"b{i}"} for i in range(4)]), [])
    first, second = mixed(main, np.arange(9), {other: 0.25}, 8, 0)
    assert (len(first.stream.batch_at(3)), len(second.stream.batch_at(3))) == (6, 2)
    with pytest.raises(InputError, match="together below 1"):
        mixed(main, np.arange(9), {other: 1.0}, 8, 0)
    with pytest.raises(InputError, match="a batch of 2 cannot be shared out so"):
        mixed(main, np.arange(9), {other: 0.1}, 2, 0)


def test_a_table_that_is_mixed_in_gives_its_train_rows_that_share_nothing_with_those_that_judge(tmp_path):
    judging = {"image_id": "j", "subject": "nurse", "set_id": "s", "source_id": "photo"}
    judges = TrainingRows(a_table(tmp_path / "judges", [judging]), []).labels
    rows = [
        {"image_id": "a", "subject": "cook", "split": "train", "copies": 2},
        {"image_id": "b", "subject": "cook", "split": "test"},
        {"image_id": "c", "subject": "cook"},  # of no split where others have one
        {"image_id": "d", "subject": "nurse", "split": "train"},
        {"image_id": "e", "set_id": "s", "split": "train"},
        {"image_id": "f", "source_id": "photo", "split": "train"},
        {"image_id": "g", "source_id": "j", "split": "train"},  # made from an image that judges
        {"image_id": "photo", "split": "train"},  # which an image that judges was made from
        {"image_id": "j", "split": "train"},
        {"image_id": "h", "split": "Train"},
    ]
    other = TrainingRows(a_table(tmp_path / "other", rows, copies="int64"), [])
    assert places_apart(other, judges).tolist() == [0, 9]
    assert places_apart(other, judges.iloc[:0]).tolist() == [0, 3, 4, 5, 6, 7, 8, 9]
    main = TrainingRows(a_table(tmp_path / "main", [{"image_id": f"m{i}"} for i in range(9)]), [])
    second = mixed(main, np.arange(9), {other: 0.5}, 6, 0, places_of={other: places_apart(other, judges)})[1]
    assert second.places.tolist() == [0, 9]
    assert sorted(second.stream.batch_at(0)) == [0, 0, 9]


def test_a_note_says_what_a_table_that_is_mixed_in_shares_with_those_that_judge(tmp_path):
    judging = [{"image_id": f"j{i}", "subject": "nurse", "set_id": "1"} for i in range(2)]
    judges = TrainingRows(a_table(tmp_path / "judges", judging), []).labels
    rows = [
        *({"image_id": f"a{i}", "subject": "cook", "set_id": "1", "split": "train"} for i in range(2)),
        {"image_id": "b", "subject": "nurse", "split": "train"},
        {"image_id": "j0", "subject": "cook", "split": "train"},
        {"image_id": "c", "subject": "cook", "split": "test"},
    ]
    other = TrainingRows(a_table(tmp_path / "other", rows), [])
    places = places_apart(other, judges)
    assert places.tolist() == [0, 1]  # the cook's set 1 is not the nurse's
    assert note_on_left_out(other, places, judges) == (
        f"{tmp_path / 'other'}: 2 of 5 images are mixed in; left out: 1 outside its training split, 2 with the name of "
        "something that judges (subject: 1, image or source: 1); if that is chance, rename it in one of the two "
        "tables, or judge by none (--val-share 0)"
    )
    assert note_on_left_out(other, np.arange(5), judges) == ""


def test_an_id_that_names_another_picture_elsewhere_is_refused(tmp_path):
    def a_picture(shade, quality=None):
        shown = Image.linear_gradient("L").resize((64, 64)).convert("RGB")
        shown.paste((shade, 0, 0), (8, 8, 40, 40))
        data = io.BytesIO()
        shown.save(data, "PNG") if quality is None else shown.resize((96, 96)).save(data, "JPEG", quality=quality)
        return {"bytes": data.getvalue(), "path": None}

    def rows(name, **pictures):
        return TrainingRows(a_table(tmp_path / name, [{"image_id": i, "image": p} for i, p in pictures.items()]), [])

    main = rows("main", a=a_picture(0), b=a_picture(250), c=a_picture(120))
    again = rows("again", b=a_picture(250, quality=60), x=a_picture(0))
    other = rows("other", c=a_picture(0), b=a_picture(0))
    refuse_other_pictures(main, np.array([0, 1]), again)  # the same picture, in another file
    refuse_other_pictures(main, np.array([0]), other)
    refuse_other_pictures(main, np.zeros(0, dtype=np.int64), other)
    with pytest.raises(InputError, match=r"the id 'b' is one picture in .*main and another in .*other"):
        refuse_other_pictures(main, np.array([0, 1]), other)


def test_a_table_of_which_nothing_is_left_to_mix_in_is_refused(tmp_path):
    judges = TrainingRows(a_table(tmp_path / "judges", [{"image_id": "j", "subject": "nurse"}]), []).labels
    other = TrainingRows(a_table(tmp_path / "other", [{"image_id": "a", "subject": "nurse"}]), [])
    with pytest.raises(InputError, match="other: no row is left to mix in, for each shares a subject"):
        places_apart(other, judges)
