"""Learned tokens: what is written opens as a model, says what it was learnt from, and leaves images alone."""

import json

import numpy as np
import pytest

from equipoise.errors import InputError
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
    again, _ = learn_tokens("mini:clip", table, "gender", tmp_path / "again", settings=how)
    np.testing.assert_allclose(load(f"hf:{again}").encode_texts(texts), after.encode_texts(texts), atol=1e-6)


def test_bad_settings_are_refused():
    with pytest.raises(InputError, match="above 0"):
        TokenSettings(steps=0)
