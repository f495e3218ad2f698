"""Learned tokens: what is written opens as a model, says what it was learnt from, and leaves images alone."""

import json

import numpy as np
import pytest

from equipoise.data import Table
from equipoise.errors import InputError
from equipoise.mitigate import learned_tokens
from equipoise.mitigate.learned_tokens import TokenSettings, learn_tokens
from equipoise.mitigate.tournament.contenders import recorded_subjects
from equipoise.models import load
from equipoise.world import preset
from equipoise.world.tables import write_counterfactual_table


@pytest.mark.slow
def test_tokens_are_learnt_saved_and_opened(tmp_path):
    config = preset("fair").changed(activity_share=0.0, visible=1.0)
    subjects = sorted(config.occupations)[:5]
    table = write_counterfactual_table(tmp_path / "sets", config, 2, subjects=subjects, axes=("gender",), seed=1)
    how = TokenSettings(steps=5, batch=8)
    out, apart = learn_tokens("mini:clip", table, "gender", tmp_path / "tokens", settings=how)
    assert set(recorded_subjects(f"hf:{out}")) == set(subjects) - set(apart)
    before, after = load("mini:clip"), load(f"hf:{out}")
    texts = ["a photo of a nurse", "a photo of a cook"]
    images = [np.full((64, 64, 3), level, np.uint8) for level in (30, 200)]
    from PIL import Image

    pictures = [Image.fromarray(image) for image in images]
    np.testing.assert_allclose(before.encode_images(pictures), after.encode_images(pictures), atol=1e-5)
    assert np.abs(before.encode_texts(texts) - after.encode_texts(texts)).max() > 1e-3
    assert json.loads((out / "config.json").read_text())["learned_tokens"] == 2
    given_back, _ = learn_tokens("mini:clip", table, "gender", out, settings=how)
    assert given_back == out
    with pytest.raises(InputError, match="holds another checkpoint"):
        learn_tokens("mini:clip", table, "gender", out, settings=TokenSettings(steps=6, batch=8))


def test_the_device_is_passed_on(tmp_path, command_line):
    config = preset("fair").changed(activity_share=0.0, visible=1.0)
    write_counterfactual_table(tmp_path / "sets", config, 1, subjects=["nurse", "chef"], axes=("gender",), seed=1)
    words = ["mitigate", "learned-tokens", "mini:clip", "--table", tmp_path / "sets", "--axis", "gender"]
    answer = command_line(*words, "--device", "nowhere", "-o", tmp_path / "tokens")
    assert answer.returncode == 2
    assert "device 'nowhere' cannot be used" in answer.stderr


@pytest.mark.slow
def test_a_stopped_run_goes_on_to_the_same_tokens(tmp_path, monkeypatch):
    from safetensors.numpy import load_file

    from equipoise.train import loop

    config = preset("fair").changed(activity_share=0.0, visible=1.0)
    table = write_counterfactual_table(
        tmp_path / "sets", config, 1, subjects=sorted(config.occupations)[:4], axes=("gender",), seed=1
    )
    how = TokenSettings(steps=6, batch=8, save_every=2)
    straight, _ = learn_tokens("mini:clip", table, "gender", tmp_path / "straight", settings=how)
    real = loop.run

    def killed(*given, **more):
        real(*given, **more, stop_at=5)  # the checkpoint is of step 4
        raise KeyboardInterrupt

    monkeypatch.setattr(loop, "run", killed)
    with pytest.raises(KeyboardInterrupt):
        learn_tokens("mini:clip", table, "gender", tmp_path / "stopped", settings=how)
    monkeypatch.setattr(loop, "run", real)
    stopped, _ = learn_tokens("mini:clip", table, "gender", tmp_path / "stopped", settings=how)
    one, other = (load_file(folder / "model.safetensors") for folder in (straight, stopped))
    assert all(np.array_equal(one[name], other[name]) for name in one)
    assert not (stopped / "_work").exists()


@pytest.mark.parametrize(
    ("genders", "shown"), [(["female"], "only 'female'"), ([None], "no group"), (["n/a", "Female", "female"], "only")]
)
def test_fewer_than_two_groups_are_refused(tmp_path, genders, shown):
    rows = [
        {"image_id": f"{job}-{i}", "subject": job, "gender": genders[i % len(genders)], "caption": f"a {job}"}
        for job in ("nurse", "chef")
        for i in range(3)
    ]
    table = Table.create(tmp_path / "sets", rows, axes=["gender"])
    with pytest.raises(InputError, match=f"gender shows {shown}.*two groups or more are needed"):
        learn_tokens("mini:clip", table, "gender", tmp_path / "tokens", settings=TokenSettings(steps=1))
    assert not (tmp_path / "tokens").exists()


def test_bad_settings_are_refused():
    with pytest.raises(InputError, match="above 0"):
        TokenSettings(steps=0)


def test_what_the_split_keeps_for_tests_is_not_learnt_from(tmp_path, monkeypatch):
    config = preset("fair").changed(activity_share=0.0, visible=1.0)
    subjects = sorted(config.occupations)[:4]
    made = write_counterfactual_table(tmp_path / "sets", config, 1, subjects=subjects, axes=("gender",), seed=1)
    rows = [{**row, "split": "Test" if row["subject"] == subjects[0] else "train"} for row in made.rows()]
    table = Table.create(tmp_path / "split", rows, axes=made.axes, columns=made.further_columns)
    learnt = []

    def stop(encoder, frame, *given):
        learnt.extend(frame["subject"].unique())
        raise KeyboardInterrupt

    monkeypatch.setattr(learned_tokens, "_learnt", stop)
    with pytest.raises(KeyboardInterrupt):
        learn_tokens("mini:clip", table, "gender", tmp_path / "tokens", held_out=0)
    assert sorted(learnt) == subjects[1:]
    tests = Table.create(tmp_path / "tests", rows[:1], axes=made.axes, columns=made.further_columns)
    with pytest.raises(InputError, match="all images left are of the split test"):
        learn_tokens("mini:clip", tests, "gender", tmp_path / "none", held_out=0)
