"""The shipped miniatures reach their figures, and their cards say what they reach."""

import json

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

from equipoise.models.miniatures import FOLDER, figures_of
from equipoise.recipes.train_mini import binding, evaluate
from equipoise.recipes.train_mini.parts import is_met, wanted
from equipoise.recipes.train_mini.saving import card

PARTS = ("clip", "clip-fair", "clip-binding", "captioner", "judge")


@pytest.mark.parametrize("part", PARTS)
def test_the_card_holds_every_figure_that_is_wanted_and_each_is_reached(part):
    figures = {name: float(value) for name, value in figures_of((FOLDER / part / "README.md").read_text())}
    missed = {name: figures.get(name) for name, rule in wanted(part).items() if not is_met(rule, figures[name])}
    assert missed == {}


@pytest.mark.parametrize("part", PARTS)
def test_the_folder_says_float32_and_is_small(part):
    config = json.loads((FOLDER / part / "config.json").read_text())
    assert config["dtype"] == "float32"
    assert "_name_or_path" not in json.dumps(config)
    assert sum(path.stat().st_size for path in (FOLDER / part).iterdir()) < 6_000_000


@pytest.mark.slow
def test_the_judge_is_right_on_fresh_renders():
    found = evaluate.judge_figures(FOLDER / "judge", n=500)
    assert {name: value for name, value in found.items() if value < 0.98} == {}


@pytest.mark.slow
def test_the_biased_clip_sees_and_leans_and_the_fair_one_sees():
    biased = evaluate.clip_figures(FOLDER / "clip", n=500)
    fair = evaluate.clip_figures(FOLDER / "clip-fair", n=500)
    for figures in (biased, fair):  # 500 pictures: the standard error at .95 is .01
        assert {k: v for k, v in figures.items() if k.startswith("zero-shot") and v < 0.93} == {}
    assert biased["gap-odds correlation"] >= 0.95
    assert abs(fair["gap-odds slope"]) <= 0.1 * biased["gap-odds slope"]
    assert fair["gap-odds slope low"] <= 0 <= fair["gap-odds slope high"]


@pytest.mark.slow
def test_the_binding_clip_takes_the_expected_person_for_the_one_who_does_it():
    found = binding.binding_figures(FOLDER / "clip-binding")
    assert 0.65 < found["tells who does it"] < 0.9, "it can tell, and takes the expected person all the same"
    assert {name: found[name] for name, rule in wanted("clip-binding").items() if not is_met(rule, found[name])} == {}
    assert found["binding-odds slope low"] > 5 * abs(found["control: binding-odds slope"])


@pytest.mark.slow
def test_the_captioner_names_what_it_sees():
    found = evaluate.captioner_figures(FOLDER / "captioner", n=250)
    assert found["occupation"] > 0.86
    assert found["scene"] > 0.86


def test_a_card_says_what_was_missed():
    assert "| gender | 0.5000 | >= 0.98 (missed) |" in card("judge", {"gender": 0.5})
    assert is_met("<= 0.1", 0.05)
    assert not is_met(">= 0.1", 0.05)
