"""In a world whose bias is known, the caption metrics rise with the amplification that was put in, and only then."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats as sps

from equipoise.audit.captions.run import audit_captions
from equipoise.audit.captions.settings import CaptionSettings
from equipoise.world import WorldConfig, preset, sample
from equipoise.world.catalog import OCCUPATIONS
from equipoise.world.truth import Probabilities

pytestmark = pytest.mark.slow

STRENGTHS = (0.0, 0.45, 0.7)
N = 2000


class StandIn:
    """A captioner with a known amplification ``strength``, from 0 (it sees what people see) to 1.

    With probability strength / 2 it takes the gender from the occupation, the one that the world makes likelier, and
    with strength / 2 the occupation from the gender, by the odds of a world that leans three times as much. The first
    makes errors, the second makes masked captions tell more, both move words towards who they lean to.
    """

    def __init__(self, world: WorldConfig) -> None:
        names = list(OCCUPATIONS)
        groups = world.groups_allowed("gender")
        odds = Probabilities(world).given_subject("gender")[: len(names)]
        self.likelier = {name: groups[int(np.argmax(row))] for name, row in zip(names, odds, strict=True)}
        steep = Probabilities(world.changed(strength=3 * world.strength)).given_subject("gender")[: len(names)]
        self.names = names
        self.typical = {g: steep[:, i] / steep[:, i].sum() for i, g in enumerate(groups) if steep[:, i].sum() > 0}

    def caption(self, scene, strength, rng):
        person, u = scene.people[0], rng.random()
        occupation = str(rng.choice(self.names, p=self.typical[person.gender]))
        if u < strength / 2:
            scene = scene.counterfactual(gender=self.likelier[person.occupation])
        elif u < strength:
            scene = replace(scene, people=(replace(person, occupation=occupation), *scene.people[1:]))
        # the sixth paraphrase: what a further person would have written
        return scene.captions(6, "gendered")[5]


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    home = tmp_path_factory.mktemp("world")
    world = preset("biased").changed(activity_share=0.0, label_noise=0.0)
    scenes = list(sample(world, N, seed=11))
    with (home / "human.jsonl").open("w") as file:
        for number, scene in enumerate(scenes):
            row = {"image_id": number, "captions": scene.captions(6, "gendered")[:5], "gender": scene.group("gender")}
            file.write(json.dumps(row) + "\n")
    model = StandIn(world)
    for strength in STRENGTHS:
        rng = np.random.default_rng(5)
        with (home / f"s{strength}.jsonl").open("w") as file:
            for number, scene in enumerate(scenes):
                row = {"image_id": number, "caption": model.caption(scene, strength, rng)}
                file.write(json.dumps(row) + "\n")
    files = [f"{strength}={home / f's{strength}.jsonl'}" for strength in STRENGTHS]
    done = audit_captions(
        files,
        home / "human.jsonl",
        "gender",
        settings=CaptionSettings(seeds=3, permutations=0, lexicon="equipoise", quality=False),
    )
    main = done.results[done.results["group"].isna() & done.results["subject"].isna()]
    return main.drop_duplicates(["model", "metric"]).set_index(["metric", "model"])


@pytest.mark.parametrize("metric", ["lic", "ba", "error"])
def test_the_metric_rises_with_the_injected_amplification(measured, metric):
    values = [measured.loc[(metric, str(strength)), "value"] for strength in STRENGTHS]
    assert sps.spearmanr(STRENGTHS, values).statistic >= 0.9


@pytest.mark.parametrize("metric", ["lic", "ba", "error"])
def test_without_amplification_the_interval_covers_zero_and_with_much_it_does_not(measured, metric):
    none, much = measured.loc[(metric, "0.0")], measured.loc[(metric, str(STRENGTHS[-1]))]
    assert none["ci_low"] <= 0 <= none["ci_high"]
    if metric != "error":  # the chance level of Error is that of captions that name genders blindly
        assert none["ci_low"] <= none["null_mean"] <= none["ci_high"]
    assert much["ci_low"] > 0


def test_errors_are_as_many_as_were_put_in(measured):
    """Half the strength, times how often the shown gender is not the likelier one: known from the same draw."""
    rates = [measured.loc[("error", str(strength)), "value"] for strength in STRENGTHS]
    slope = np.polyfit(STRENGTHS, rates, 1)[0]
    assert rates == pytest.approx([slope * s for s in STRENGTHS], abs=0.02)
