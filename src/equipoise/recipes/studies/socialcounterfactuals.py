"""SocialCounterfactuals as a study: whom a model retrieves for a neutral prompt, by intersections of groups.

Counterfactual sets show one scene with every combination of groups. The miniature study draws sets of the pictogram
world, in which the bias of ``mini:clip`` is known, and makes others with the miniature generator, which the paper's
filter then thins out: every probe is repeated before the filter, after its first stage, and after all of it. Beside the
published rows stands what chance alone gives on the published pools.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from equipoise.audit.folders import short_name
from equipoise.data import Table
from equipoise.errors import InputError
from equipoise.recipes.counterfactual_sets import GUIDANCE, LEAST, filter_steps, spread_subjects
from equipoise.recipes.studies.chance import SEGMENTS
from equipoise.recipes.studies.common import audit_steps, write_csv
from equipoise.recipes.studies.frame import Covered, StepCost, Study, StudyHome, StudyOptions, StudyStep, outside_step
from equipoise.recipes.studies.socialcounterfactuals_repairs import full_repair_steps, repair_steps
from equipoise.recipes.studies.socialcounterfactuals_repairs import rendered as sets_of
from equipoise.recipes.studies.socialcounterfactuals_tables import AXES, FULL, GENERATOR, MINI, STAGES, THREE, parts_of

SIZES = {"sets": 8, "subjects": 6, "caption_sets": 3, "candidates": 2}
"""Rendered sets of each occupation; generated: occupations, caption sets of each, candidates of each set."""
SEES = "mini:clip-fair"
SAFETY = "mini:safety"
JUDGE = "mini:judge"
MAY_FAIL = 1
"""Pictures of a set that may not show what was asked before the set is thought bad; fixed before any was rated."""


def _steps(options: StudyOptions) -> list[StudyStep]:
    return _full(options) if options.scale == "full" else _mini(options)


def _mini(options: StudyOptions) -> list[StudyStep]:
    models = options.models or MINI
    n_rendered, n_made = 28 * 12 * SIZES["sets"], SIZES["subjects"] * SIZES["caption_sets"] * SIZES["candidates"] * 6
    settings = {"sets": SIZES["sets"], "seed": options.seed}
    config: dict[str, Any] = {"axes": AXES, "draws": 200, "seed": options.seed}
    rendered = StudyStep(
        "rendered",
        "Sets of the world: each scene with two genders, three skin tones, two ages",
        _render,
        settings,
        resumes=False,
        cost=StepCost(images=n_rendered, cpu_minutes=1.0, disk_gb=0.03),
    )
    steps = [rendered]
    about: dict[str, Any] = {"needs": ("rendered",), "images": n_rendered, "cpu_minutes": 0.7}
    for model in models:
        steps += audit_steps([model], "intersectional", sets_of, config, **about)
        three = {**config, "axes": THREE, "draws": 100}
        steps += audit_steps([model], "intersectional", sets_of, three, name="three", **about)
    steps += _made_steps(options, models, config, n_made)
    steps += repair_steps(models[0], config, settings)
    return steps


def _render(home: StudyHome, out: Path) -> None:
    from equipoise.world import WorldConfig
    from equipoise.world.tables import write_counterfactual_table

    world = WorldConfig(age={"adult": 1, "older": 1}, activity_share=0.0, visible=1.0)
    write_counterfactual_table(out, world, SIZES["sets"], axes=THREE, seed=home.options.seed)


def _made_steps(options: StudyOptions, models: tuple[str, ...], config: Mapping[str, Any], n: int) -> list[StudyStep]:
    generated = StudyStep(
        "generated",
        f"Sets by {GENERATOR}: shared noise and attention",
        _generate,
        {name: size for name, size in SIZES.items() if name != "sets"} | {"seed": options.seed},
        cost=StepCost((GENERATOR,), (), n, cpu_minutes=0.0045 * n, disk_gb=0.01),
    )
    filtered = StudyStep(
        "filter",
        "Similarity, safety, detectability",
        _filter,
        {"sees": SEES, "safety": SAFETY, "least": LEAST},
        ("generated",),
        cost=StepCost((SEES, SAFETY), (), n, cpu_minutes=0.5),
    )
    rated = StudyStep(
        "ratings",
        f"Which sets show what was asked, by {JUDGE}, which stands in for people",
        _rate,
        {"judge": JUDGE},
        ("generated",),
        resumes=False,
        cost=StepCost((JUDGE,), (), n, cpu_minutes=0.1),
    )
    steps = [generated, filtered, rated]
    for stage, about in STAGES.items():
        for model in models:
            steps.append(_stage_step(model, stage, about, config))
    return steps


def _stage_step(model: str, stage: str, about: str, config: Mapping[str, Any]) -> StudyStep:
    """One model over what is left at one stage; where too little is left, that is said instead of a number."""

    def work(home: StudyHome, out: Path) -> None:
        from equipoise.audit import AuditConfig, run

        try:
            chosen = AuditConfig().having({**config, "min_sets": 1})
            run(model, "intersectional", _stage(home, stage), out, config=chosen)
        except InputError as error:
            home.say(f"   not audited: {error}")
            out.mkdir(parents=True, exist_ok=True)

    name = f"made-{stage}-{short_name(model)}"
    cost = StepCost((model,), (), 0, cpu_minutes=0.3)
    return StudyStep(
        name, f"{model} over generated sets, {about}", work, {"model": model, **config}, ("filter",), True, cost
    )


def _generate(home: StudyHome, out: Path) -> None:
    from equipoise.generate import SetsConfig, plan_sets, run, world_sets
    from equipoise.models import load
    from equipoise.world import WorldConfig

    world = WorldConfig(activity_share=0.0, visible=1.0)
    texts = world_sets(
        world, spread_subjects(SIZES["subjects"]), AXES, n=SIZES["caption_sets"], seed=home.options.seed, place=False
    )
    config = SetsConfig(
        candidates=SIZES["candidates"], share=(0.1, 0.9), guidance=GUIDANCE, blend=True, seed=home.options.seed
    )
    run(plan_sets(texts, config), out, load(GENERATOR, kind="generator", device="cpu"), progress=False)


def _filter(home: StudyHome, out: Path) -> None:
    from equipoise.filters import Models, Step, run
    from equipoise.world import WorldConfig

    similarity, detectability = filter_steps(WorldConfig(activity_share=0.0, visible=1.0))
    steps = [similarity, Step.of("safety", {"classifier": SAFETY}), detectability]
    models = Models(encoder=SEES)
    run(Table.open(home.step("generated")), steps, out, models=models, axes=AXES, seed=home.options.seed)


def _rate(home: StudyHome, out: Path) -> None:
    """``ratings.csv``: a set is accepted where at most one of its six pictures does not show the groups asked for."""
    import pandas as pd

    from equipoise.models import load

    table = Table.open(home.step("generated"))
    ids, images = zip(*table.images(), strict=True)
    answers = load(JUDGE, kind="classifier").classify(list(images))
    frame = table.to_pandas(["image_id", "set_id", *AXES]).set_index("image_id").loc[list(ids)]
    right = pd.Series(True, index=frame.index)
    for axis in AXES:
        right &= frame[axis] == answers[axis].best
    wrong = (~right).groupby(frame["set_id"]).sum()
    rated = pd.DataFrame({"set_id": wrong.index, "wrong": wrong.to_numpy(), "accepted": (wrong <= MAY_FAIL).to_numpy()})
    write_csv(out / "ratings.csv", rated)


def _stage(home: StudyHome, stage: str) -> Table:
    folder = home.step("filter")
    layers = sorted((folder / "steps").glob("*similarity*"))[:1] if stage == "similarity" else [folder / "layer"]
    return Table.open(home.step("generated"), layers=[] if stage == "before" else layers)


def _full(options: StudyOptions) -> list[StudyStep]:
    models = options.models or tuple(FULL)
    steps = []
    for segment in SEGMENTS:
        given = segment.name in options.given
        need = (
            ""
            if given
            else (
                f"a table of the {segment.name} sets is needed (equipoise table import socialcounterfactuals): --from "
                f"{segment.name}=TABLE"
            )
        )
        n = segment.sets * segment.groups
        data = (f"SocialCounterfactuals, {segment.name}: {segment.sets:,} sets, {n:,} images",)
        if not given:
            images = 104_000 * segment.groups
            title = f"{segment.name}: download the public sets, or make 104,000 anew (equipoise generate sets)"
            cost: dict[str, Any] = {"models": ("diffusers:stable-diffusion-v1-5/stable-diffusion-v1-5",), "data": data}
            cost |= {"images": images, "gpu_hours": images * 6 / 3600, "disk_gb": images * 5e-5}
            steps.append(outside_step(f"sets-{segment.name}", title, need, **cost))

        def table(home: StudyHome, name: str = segment.name) -> Table:
            return Table.open(home.options.given[name])

        config = {"k": (segment.groups,), "seed": options.seed}
        about: dict[str, Any] = {"name": segment.name, "missing": need, "reads": (segment.name,), "data": data}
        about |= {"images": n, "gpu_hours": n / 400_000, "disk_gb": n * 2.2e-6}
        steps += audit_steps(models, "intersectional", table, config, **about)
        steps += full_repair_steps(segment.name, segment.groups, models, need, n, options.seed)
    return steps


COVERS = (
    Covered("F3, F4, F6, F7", "skew over subjects", "counterfactual sets (suites intersectional, marginal)"),
    Covered("T12 to T14", "quartiles of NDKL over subjects", "counterfactual sets (suite intersectional)"),
    Covered("T1, T11", "sets and images at each stage of the filter", "generated sets and the filter's log"),
    Covered("T10", "thresholds learned from ratings of sets", "a judge's ratings; people's: review thresholds"),
    Covered("10.2", "three attributes at once", "counterfactual sets"),
    Covered("10.4", "every probe before and after the filter", "generated sets"),
    Covered("T2, T16, T17", "before and after fine-tuning on each segment", "sets; judged on held-out subjects"),
    Covered("T4, T5", "what a repair costs", "the suite utility; at scale mini over the sets themselves"),
    Covered("T2, T12-T14: chance", "what chance gives on the published pools", "the public metadata, or facts of it"),
    Covered(
        "T3",
        "VisoGender and PATA",
        why_not="their images are addresses that rot; equipoise audit --suite visogender, pata",
    ),
    Covered("T6 to T9", "annotators' agreement", why_not="the annotations were not released"),
    Covered(
        "10.3",
        "FID and inception score",
        why_not="needs Inception's weights and the images: filter quality, features=inception",
    ),
)

STUDY = Study(
    name="socialcounterfactuals",
    title="SocialCounterfactuals: intersections of groups",
    citation="Howard et al., SocialCounterfactuals: Probing and Mitigating Intersectional Social Biases in "
    "Vision-Language Models with Counterfactual Examples, CVPR 2024",
    question="Whom does a model retrieve for a prompt that names nobody, by race, gender and looks together?",
    covers=COVERS,
    steps=_steps,
    parts=parts_of,
    takes={
        "metadata": "a folder with the public metadata_race_gender.csv and its two sisters: exact sizes of the pools",
        "race-gender": "a table of these sets, for scale full",
        "physical-gender": "a table of these sets, for scale full",
        "physical-race": "a table of these sets, for scale full",
    },
    parts_read=("metadata",),
    limits=(
        "Groups are what a prompt asked the generator for, as a filter recognised them; they are perceived attributes.",
        "Twelve groups and twelve ranks cannot be even by chance: a skew without its chance level says little.",
        "The world's figures are signs; numbers over them say nothing about photographs.",
    ),
)
