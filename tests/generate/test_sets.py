"""What is drawn for a set before it is made."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from equipoise.errors import InputError, UnknownNameError
from equipoise.generate import SET_PRESETS, SetsConfig, plan_sets, world_sets
from equipoise.generate.sets import batches_of, set_preset

Sets = Callable[..., list[Any]]


def test_over_a_hundred_candidates_by_default_and_full_totals() -> None:
    from equipoise.text.templates import caption_preset

    plan = plan_sets(caption_preset("race-gender").sets())
    assert plan.n_tasks == 104_000, "260 occupations x 4 prefixes x 100 candidates"
    assert plan.n_images == 1_248_000


def test_shares_and_guidance_are_uniform(caption_sets: Sets) -> None:
    plan = plan_sets(caption_sets(), SetsConfig(candidates=2000))
    tasks = list(plan.tasks())
    shares, scales = np.array([t["share"] for t in tasks]), np.array([t["guidance"] for t in tasks])
    for values, low, high in ((shares, 0.1, 0.9), (scales, 7.5, 15)):
        assert low <= values.min() <= low + 0.02 * (high - low)
        assert high - 0.02 * (high - low) <= values.max() <= high
        # five standard errors of a uniform mean
        assert abs(values.mean() - (low + high) / 2) < 5 * (high - low) / (12 * 2000) ** 0.5
    assert abs(np.corrcoef(shares, scales)[0, 1]) < 0.1
    assert len({t["seed"] for t in tasks}) == 2000


def test_a_task_depends_on_its_name_and_the_seed_alone(caption_sets: Sets) -> None:
    alone = {t["id"]: t for t in plan_sets(caption_sets("nurse"), SetsConfig(candidates=2)).tasks()}
    among = {t["id"]: t for t in plan_sets(caption_sets("doctor", "nurse"), SetsConfig(candidates=9)).tasks()}
    assert all(among[name] == task for name, task in alone.items())
    other = next(plan_sets(caption_sets("nurse"), SetsConfig(candidates=2, seed=1)).tasks())
    assert other["seed"] != alone[other["id"]]["seed"]


def test_presets_are_the_code_and_the_paper() -> None:
    assert (SET_PRESETS["socialcf_code"].inject, SET_PRESETS["socialcf_code"].sampler) == ("self", "euler-ancestral")
    assert SET_PRESETS["socialcf_code"].steps == 100
    assert SET_PRESETS["socialcf_paper"].inject == "cross"
    for preset in SET_PRESETS.values():
        assert (preset.share, preset.guidance, preset.candidates) == ((0.1, 0.9), (7.5, 15.0), 100)
    assert set_preset("socialcf_code", candidates=3).candidates == 3
    with pytest.raises(UnknownNameError, match="socialcf_code"):
        set_preset("socialcf")


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"inject": "all"}, "kind of attention"),
        ({"candidates": 0}, "candidates=0"),
        ({"batch_size": 1}, "batch_size=1"),
        ({"share": (0.9, 0.1)}, "share=0.9, 0.1"),
        ({"share": (0.0, 1.1)}, "share=0.0, 1.1"),
    ],
)
def test_refusals(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words.replace(".", r"\.")):
        SetsConfig(**settings)


def test_two_sets_of_one_name_are_refused(caption_sets: Sets) -> None:
    with pytest.raises(InputError, match="is there twice"):
        plan_sets([*caption_sets(), *caption_sets()])


@pytest.mark.parametrize("size", [0, 2, 3, 5, 12, 30])
def test_batches_hold_every_prompt_once_after_the_source(size: int) -> None:
    prompts = [str(i) for i in range(12)]
    batches = batches_of(prompts, size)
    assert all(batch[0] == "0" for batch in batches)
    assert [p for batch in batches for p in batch[1:]] == prompts[1:]
    assert size == 0 or max(map(len, batches)) <= size


def test_the_world_has_caption_sets_too() -> None:
    from equipoise.world import preset

    found = world_sets(preset("fair"), ["nurse", "scientist"], n=2)
    assert len(found) == 4
    for one in found:
        assert len({c.text for c in one.captions}) == len(one) == 6
        assert {c.attributes["gender"] for c in one.captions} == {"female", "male"}
        for caption in one.captions:
            assert f"{caption.attributes['skin_tone']} skin" in caption.text
    plan = plan_sets(found, SetsConfig(candidates=1))
    assert plan.axes == ("gender", "skin_tone")


def test_captions_of_the_world_may_leave_the_place_to_the_seed() -> None:
    from equipoise.world import preset, prompts

    places = [text.removeprefix("a photo of a person ") for text in prompts("scene").values()]
    named = [c.text for one in world_sets(preset("fair"), n=3) for c in one.captions]
    unnamed = [c.text for one in world_sets(preset("fair"), n=3, place=False) for c in one.captions]
    assert any(place in text for text in named for place in places)
    assert not any(place in text for text in unnamed for place in places)
    for one in world_sets(preset("fair"), n=3, place=False):
        assert len({c.text for c in one.captions}) == 6
        assert all(f"{c.attributes['skin_tone']} skin" in c.text and one.subject in c.text for c in one.captions)
