"""The tables of the captions page are those of the committed runs, and near what was published."""

import pytest


@pytest.fixture(scope="module")
def script(docs_script):
    return docs_script("captions_table")


def test_the_page_holds_the_tables_of_the_results(script):
    text = script.PAGE.read_text(encoding="utf-8")
    assert script.page(text) == text, "run: python docs/captions_table.py"


@pytest.mark.parametrize("model", ["nic", "sat", "fc", "transformer", "nic_plus"])
def test_the_lstm_is_near_the_published_mean_and_the_screen_near_the_lstm(script, model):
    ours = script.lstm_m("gender", model)
    assert ours.n == 10
    assert ours.value == pytest.approx(script.published_values("lic", "gender").of(model, "lic_m")[0], abs=1.5)
    assert script.screen().loc[("gender", model, "lic_m"), "value"] == pytest.approx(ours.value, abs=1.5)


@pytest.mark.parametrize("model", ["nic", "fc"])
def test_skin_tone_is_near_the_published_mean(script, model):
    ours = script.lstm_m("skin", model)
    assert ours.n == 10
    assert ours.value == pytest.approx(script.published_values("lic", "skin").of(model, "lic_m")[0], abs=2.5)


def test_the_models_keep_their_order(script):
    assert script.order() >= 0.85
