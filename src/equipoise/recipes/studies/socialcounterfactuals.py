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

import pandas as pd

from equipoise.audit.published import published_cell
from equipoise.data import Table, read_results
from equipoise.errors import InputError
from equipoise.recipes.studies.chance import SEGMENTS, chance_part
from equipoise.recipes.studies.common import (
    audit_step,
    metric_table,
    paper_table,
    recovered_part,
    rows_of,
    short_name,
    subject_values,
)
from equipoise.recipes.studies.frame import Covered, StepCost, Study, StudyHome, StudyOptions, StudyStep
from equipoise.report.charts import box_plots, grouped_bars, quartiles
from equipoise.report.study import StudyFigure, StudyPart, StudyTable, measured_cells

__all__ = ["SIZES", "STUDY"]

SIZES = {"sets": 8, "subjects": 8, "caption_sets": 3, "candidates": 2}
"""Rendered sets of each occupation; generated: occupations, caption sets of each, candidates of each set."""
MINI = ("mini:clip", "mini:clip-fair")
FULL = {
    "hf:openai/clip-vit-base-patch32": "CLIP",
    "hf:facebook/flava-full": "FLAVA",
    "open_clip:ViT-B-32/laion2b_s34b_b79k": "OPENCLIP",
}
"""ALIP, SLIP and LaCLIP are released as training checkpoints: convert them to a folder and give hf:FOLDER."""
GENERATOR = "mini:diffusion"
FULL_GENERATOR = "diffusers:stable-diffusion-v1-5/stable-diffusion-v1-5"
SEES = "mini:clip-fair"
SAFETY = "mini:safety"
AXES = ("gender", "skin_tone")
THREE = ("gender", "skin_tone", "age")
LEAST = 0.9
STAGES = {"before": "as they were made", "similarity": "after similarity", "all": "after safety and detectability"}
HELD_OUT = 5
"""Every fifth occupation is held out of the repair, a fifth of them as in the paper."""


def _steps(options: StudyOptions) -> list[StudyStep]:
    return _full(options) if options.scale == "full" else _mini(options)


def _mini(options: StudyOptions) -> list[StudyStep]:
    models = options.models or MINI
    n_rendered, n_made = 28 * 12 * SIZES["sets"], SIZES["subjects"] * SIZES["caption_sets"] * SIZES["candidates"] * 6
    settings = {**SIZES, "seed": options.seed}
    config: dict[str, Any] = {"axes": AXES, "draws": 300, "seed": options.seed}
    rendered = StudyStep(
        "rendered",
        "Sets of the world: each scene with two genders, three skin tones, two ages",
        _render,
        settings,
        resumes=False,
        cost=StepCost(images=n_rendered, cpu_minutes=1.0, disk_gb=0.03),
    )
    steps = [rendered]
    for model in models:
        cost = StepCost((model,), (), n_rendered, cpu_minutes=0.7)
        steps.append(audit_step(model, "intersectional", _rendered, config, needs=("rendered",), cost=cost))
        three = {**config, "axes": THREE, "draws": 100}
        steps.append(
            audit_step(model, "intersectional", _rendered, three, name="three", needs=("rendered",), cost=cost)
        )
    steps += _made_steps(options, models, config, n_made)
    steps += _repair_steps(models[0], config, settings)
    return steps


def _render(home: StudyHome, out: Path) -> None:
    from equipoise.world import WorldConfig
    from equipoise.world.tables import write_counterfactual_table

    world = WorldConfig(age={"adult": 1, "older": 1}, activity_share=0.0, visible=1.0)
    write_counterfactual_table(out, world, SIZES["sets"], axes=THREE, seed=home.options.seed)


def _rendered(home: StudyHome) -> Table:
    return Table.open(home.step("rendered"))


def _made_steps(options: StudyOptions, models: tuple[str, ...], config: Mapping[str, Any], n: int) -> list[StudyStep]:
    made = StudyStep(
        "generated",
        f"Sets by {GENERATOR}: shared noise and attention",
        _generate,
        {**SIZES, "seed": options.seed},
        cost=StepCost((GENERATOR,), (), n, cpu_minutes=0.0045 * n, disk_gb=0.01),
    )
    sieve = StudyStep(
        "filter",
        "Similarity, safety, detectability",
        _filter,
        {"sees": SEES, "safety": SAFETY, "least": LEAST},
        ("generated",),
        cost=StepCost((SEES, SAFETY), (), n, cpu_minutes=0.5),
    )
    steps = [made, sieve]
    for stage, about in STAGES.items():
        for model in models:
            steps.append(_stage_step(model, stage, about, config))
    return steps


def _stage_step(model: str, stage: str, about: str, config: Mapping[str, Any]) -> StudyStep:
    """One model over what is left at one stage; where too little is left, that is said instead of a number."""

    def work(home: StudyHome, out: Path) -> None:
        from equipoise.audit import AuditConfig, run

        try:
            run(
                model,
                "intersectional",
                _stage(home, stage),
                out,
                config=AuditConfig().having({**config, "min_sets": 1}),
            )
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
    names = sorted(world.occupations)
    chosen = [names[i * len(names) // SIZES["subjects"]] for i in range(SIZES["subjects"])]
    texts = world_sets(world, chosen, AXES, n=SIZES["caption_sets"], seed=home.options.seed, place=False)
    config = SetsConfig(
        candidates=SIZES["candidates"], share=(0.1, 0.9), guidance=(2.0, 4.0), blend=True, seed=home.options.seed
    )
    run(plan_sets(texts, config), out, load(GENERATOR, kind="generator", device="cpu"), progress=False)


def _filter(home: StudyHome, out: Path) -> None:
    from equipoise.filters import Models, Step, run
    from equipoise.world import WorldConfig, prompts

    world = WorldConfig(activity_share=0.0, visible=1.0)
    words = {axis: prompts(axis, world) for axis in AXES}
    detect = {"axes": AXES, "least": LEAST, "subject_least": LEAST, "prompts": words}
    steps = [Step.of("similarity", preset="socialcf"), Step.of("safety"), Step.of("detectability", detect)]
    models = Models(encoder=SEES, safety=SAFETY)
    run(Table.open(home.step("generated")), steps, out, models=models, axes=AXES, seed=home.options.seed)


def _stage(home: StudyHome, stage: str) -> Table:
    folder = home.step("filter")
    layers = {"before": [], "all": [folder / "layer"]}
    layers["similarity"] = (
        [next(iter(sorted((folder / "steps").glob("*similarity*"))))] if stage == "similarity" else []
    )
    return Table.open(home.step("generated"), layers=layers[stage])


def _repair_steps(model: str, config: Mapping[str, Any], settings: Mapping[str, Any]) -> list[StudyStep]:
    def fit(home: StudyHome, out: Path) -> None:
        from equipoise.mitigate import Projection, fit_on_table, save
        from equipoise.models import load

        remedy = fit_on_table(Projection(), load(model), _rendered(home), AXES, held_out=_held_out(home))
        save(remedy, out)

    def audits(home: StudyHome, out: Path) -> None:
        from equipoise.audit import AuditConfig, run
        from equipoise.mitigate import held_out_layer, repaired
        from equipoise.models import load

        view = _rendered(home).with_layers([held_out_layer(_rendered(home), _held_out(home), out / "held-out")])
        encoder = load(model)
        models = {
            "before": encoder,
            "after": repaired(encoder, load_remedy(home.step("repair")), name=f"{model} repaired"),
        }
        for name, one in models.items():
            run(one, "intersectional", view, out / name, config=AuditConfig().having(dict(config)))
            run(one, "utility", view, out / f"utility-{name}", config=AuditConfig().having({}))

    return [
        StudyStep(
            "repair",
            f"A repair of {model}: the directions of {' and '.join(AXES)} taken out, fitted on four fifths of subjects",
            fit,
            {"model": model, **settings},
            ("rendered",),
            resumes=False,
            cost=StepCost((model,), cpu_minutes=0.4),
        ),
        StudyStep(
            "held-out",
            "Before and after the repair, over the subjects that it has not seen",
            audits,
            {"model": model, **config},
            ("repair",),
            resumes=False,
            cost=StepCost((model,), cpu_minutes=0.8),
        ),
    ]


def _held_out(home: StudyHome) -> list[str]:
    return sorted(_rendered(home).to_pandas(["subject"])["subject"].unique())[::HELD_OUT]


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
            made = 104_000 * segment.groups
            cost = StepCost(
                ("diffusers:stable-diffusion-v1-5/stable-diffusion-v1-5",),
                data,
                made,
                gpu_hours=made * 6 / 3600,
                disk_gb=made * 5e-5,
            )
            title = f"{segment.name}: download the public sets, or make 104,000 anew (equipoise generate sets)"
            steps.append(StudyStep(f"sets-{segment.name}", title, _render, cost=cost, missing=need))
        for model in models:

            def table(home: StudyHome, name: str = segment.name) -> Table:
                return Table.open(home.options.given[name])

            cost = StepCost((model,), data, n, gpu_hours=n / 400_000, disk_gb=n * 2.2e-6)
            config = {"k": (segment.groups,), "seed": options.seed}
            steps.append(audit_step(model, "intersectional", table, config, name=segment.name, cost=cost, missing=need))
    return steps


# What the tables say


def _parts(home: StudyHome) -> list[StudyPart]:
    parts = [chance_part(home.options.given.get("metadata"))]
    if home.options.scale == "full":
        return parts + _full_parts(home)
    models = home.options.models or MINI
    folders = {model: home.step(f"intersectional-{short_name(model)}") for model in models}
    both = " x ".join(AXES)
    parts.append(_boxes(folders, both))
    parts.append(_quartile_part(folders, both))
    parts.append(_truth(folders))
    parts.append(_three({model: home.step(f"three-{short_name(model)}") for model in models}))
    parts += _stage_parts(home, models, both)
    parts.append(_repair(home, both))
    return parts


def _boxes(folders: Mapping[str, Path], axis: str) -> StudyPart:
    values = {model: subject_values(folder, "max_skew", axis=axis) for model, folder in folders.items()}
    chance = {model: float(rows_of(f, "max_skew", axis=axis)["null_mean"].iloc[0]) for model, f in folders.items()}
    k = int(rows_of(next(iter(folders.values())), "max_skew", axis=axis)["k"].iloc[0])
    svg = box_plots(values, f"MaxSkew@{k}", chance=chance, name="f3")
    table = metric_table(folders, ("max_skew", "ndkl", "bias_at_k"), "F3", "Over all subjects")
    caption = "Boxes over subjects, the outermost named; the coloured tick is the mean that chance gives."
    figures = (StudyFigure("F3", f"MaxSkew@{k} on {axis}, by subject", caption, svg),)
    text = ("With as many groups as ranks MaxSkew has a floor far above 0; what counts is the distance to the tick.",)
    return StudyPart("Figures 3, 4 and 6", "Intersectional skew", text, (table,), figures, "rendered sets")


def _quartile_part(folders: Mapping[str, Path], axis: str) -> StudyPart:
    tables = []
    for metric in ("ndkl", "max_skew"):
        values = {model: subject_values(folder, metric, axis=axis).tolist() for model, folder in folders.items()}
        frame = quartiles(values).rename(columns={"label": "model"})
        nulls = [float(rows_of(folder, metric, axis=axis)["null_mean"].iloc[0]) for folder in folders.values()]
        tables.append(StudyTable(f"T12-{metric}", f"{metric} over subjects", frame.assign(chance=nulls)))
    papers = [paper_table("socialcounterfactuals", t, f"The paper's Table {t[1:]}") for t in ("T12", "T13", "T14")]
    return StudyPart("Tables 12 to 14", "Quartiles over subjects", (), (*tables, *papers), (), "rendered sets")


def _truth(folders: Mapping[str, Path]) -> StudyPart:
    table, figures = recovered_part(folders, "biased")
    text = (
        "The log-odds that were put into the world that mini:clip learned from, and the gaps of its scores inside sets "
        "that show everybody alike. Into the world of mini:clip-fair nothing was put.",
    )
    return StudyPart("Against the truth", "Is what was put in found?", text, (table,), tuple(figures), "rendered sets")


def _three(folders: Mapping[str, Path]) -> StudyPart:
    axis = " x ".join(THREE)
    table = metric_table(folders, ("max_skew", "ndkl"), "10.2", "Three attributes at once", axis=axis)
    text = ("Gender, skin tone and age together: twelve groups of one figure.",)
    return StudyPart("Section 10.2", "Three attributes", text, (table,), (), "rendered sets")


def _stage_parts(home: StudyHome, models: tuple[str, ...], axis: str) -> list[StudyPart]:
    funnel = pd.read_csv(home.step("filter") / "funnel.csv")
    rows = []
    for stage, about in STAGES.items():
        for model in models:
            folder = home.step(f"made-{stage}-{short_name(model)}")
            if not (folder / "results.parquet").is_file():
                rows.append({"model": model, "sets": about, "metric": "too few sets are left"})
                continue
            for row in rows_of(folder, ("max_skew", "ndkl"), axis=axis).to_dict("records"):
                k = "" if pd.isna(row["k"]) else f"@{int(row['k'])}"
                rows.append({"model": model, "sets": about, "metric": f"{row['metric']}{k}", **measured_cells(row)})
    text = ("A filter that sees with a model of its own may drop some groups more often; its bias is tested too.",)
    return [
        StudyPart(
            "Tables 1 and 11",
            "What the filter leaves",
            text,
            (
                StudyTable("T11", "Sets and images at each stage", funnel),
                paper_table("socialcounterfactuals", "T11", "The paper's Table 11"),
            ),
            (),
            f"sets by {GENERATOR}",
        ),
        StudyPart(
            "Section 10.4",
            "Every probe before and after the filter",
            (),
            (StudyTable("10.4", "Skew by stage", pd.DataFrame(rows)),),
            (),
            f"sets by {GENERATOR}",
        ),
    ]


def _repair(home: StudyHome, axis: str) -> StudyPart:
    folder = home.step("held-out")
    rows, bars = [], []
    for name in ("before", "after"):
        for row in rows_of(folder / name, ("max_skew", "ndkl")).to_dict("records"):
            cells = measured_cells(row)
            k = "" if pd.isna(row["k"]) else f"@{int(row['k'])}"
            rows.append({"repair": name, "axis": row["axis"], "metric": f"{row['metric']}{k}", **cells})
            if row["metric"] == "max_skew":
                bars.append(
                    {
                        "group": row["axis"],
                        "series": name,
                        "value": cells["measured"],
                        "low": cells["low"],
                        "high": cells["high"],
                    }
                )
    costs = []
    for name in ("before", "after"):
        some = read_results(folder / f"utility-{name}" / "results.parquet")
        some = some[some["subject"].isna() & some["group"].isna()]
        for row in some.to_dict("records"):
            k = "" if pd.isna(row["k"]) else f"@{int(row['k'])}"
            costs.append({"repair": name, "metric": f"{row['metric']}{k}", **measured_cells(row)})
    svg = grouped_bars(pd.DataFrame(bars), "MaxSkew@K on held-out subjects", name="t2")
    text = (
        "The paper fine-tunes on counterfactual sets and judges on held-out occupations. Here the repair is a "
        "projection fitted on the other occupations, which no training is needed for; the numbers stand for the "
        "protocol, not for fine-tuning. Tables 4 and 5 ask what the repair costs: here zero-shot accuracy and recall.",
    )
    return StudyPart(
        "Tables 2, 16, 4 and 5",
        "Before and after a repair, on held-out subjects",
        text,
        (
            StudyTable("T2", "Skew before and after", pd.DataFrame(rows)),
            StudyTable("T4", "What it costs", pd.DataFrame(costs)),
            paper_table("socialcounterfactuals", "T2", "The paper's Table 2", rows="CLIP|FLAVA|ALIP"),
        ),
        (StudyFigure("T2", "MaxSkew before and after the repair", "Bars with 95% intervals.", svg),),
        "a fifth of the occupations",
    )


def _full_parts(home: StudyHome) -> list[StudyPart]:
    models = home.options.models or tuple(FULL)
    parts = []
    for segment in SEGMENTS:
        folders = {m: home.step(f"{segment.name}-{short_name(m)}") for m in models}
        folders = {m: folder for m, folder in folders.items() if (folder / "results.parquet").is_file()}
        if not folders:
            continue
        rows = []
        for model, folder in folders.items():
            some = rows_of(folder, ("max_skew", "ndkl"))
            joint = some[some["axis"].str.contains(" x ")]
            for row in joint.to_dict("records"):
                beside: dict[str, Any] = {}
                if row["metric"] == "ndkl" and model in FULL:
                    column = f"{segment.name} / NDKL / mean"
                    beside = published_cell(
                        "socialcounterfactuals", segment.ndkl_table, f"{FULL[model]} pretrained", column
                    )
                rows.append({"model": model, "metric": row["metric"], **measured_cells(row), **beside})
        axis = str(joint["axis"].iloc[0])
        values = {model: subject_values(folder, "max_skew", axis=axis) for model, folder in folders.items()}
        svg = box_plots(values, f"MaxSkew@{segment.groups}", name=segment.name)
        parts.append(
            StudyPart(
                f"Figure 3 and Table {segment.ndkl_table[1:]}",
                segment.name,
                (),
                (StudyTable(segment.ndkl_table, f"Skew, {segment.name}", pd.DataFrame(rows)),),
                (
                    StudyFigure(
                        f"F3-{segment.name}", f"MaxSkew by occupation, {segment.name}", "Boxes over occupations.", svg
                    ),
                ),
                "the sets that were given",
            )
        )
    return parts


COVERS = (
    Covered("F3, F4, F6, F7", "skew over subjects", "counterfactual sets (suites intersectional, marginal)"),
    Covered("T12 to T14", "quartiles of NDKL over subjects", "counterfactual sets (suite intersectional)"),
    Covered("T1, T11", "sets and images at each stage of the filter", "generated sets and the filter's log"),
    Covered("10.2", "three attributes at once", "counterfactual sets"),
    Covered("10.4", "every probe before and after the filter", "generated sets"),
    Covered("T2, T16", "before and after, on held-out subjects", "sets and a repair; at scale mini a projection"),
    Covered("T4, T5", "what a repair costs", "the suite utility"),
    Covered("T2, T12-T14: chance", "what chance gives on the published pools", "the public metadata, or facts of it"),
    Covered(
        "T2, T16, T17: fine-tuned",
        "models fine-tuned on each segment",
        why_not="fine-tuning on counterfactual sets is not in this version of equipoise",
    ),
    Covered(
        "T3",
        "VisoGender and PATA",
        why_not="their images are addresses that rot; equipoise audit --suite visogender, pata",
    ),
    Covered("T6 to T9", "annotators' agreement", why_not="the annotations were not released"),
    Covered("T10", "thresholds learned from ratings", why_not="needs ratings of sets by people"),
    Covered("10.3", "FID and inception score", why_not="needs Inception's weights and the images"),
)

STUDY = Study(
    name="socialcounterfactuals",
    title="SocialCounterfactuals: intersections of groups",
    citation="Howard et al., SocialCounterfactuals: Probing and Mitigating Intersectional Social Biases in "
    "Vision-Language Models with Counterfactual Examples, CVPR 2024",
    question="Whom does a model retrieve for a prompt that names nobody, by race, gender and looks together?",
    covers=COVERS,
    steps=_steps,
    parts=_parts,
    takes={
        "metadata": "a folder with the public metadata_race_gender.csv and its two sisters: exact sizes of the pools",
        "race-gender": "a table of these sets",
        "physical-gender": "a table of these sets",
        "physical-race": "a table of these sets",
    },
    limits=(
        "Groups are what a prompt asked the generator for, as a filter recognised them; they are perceived attributes.",
        "Twelve groups and twelve ranks cannot be even by chance: a skew without its chance level says little.",
        "The world's figures are signs; numbers over them say nothing about photographs.",
    ),
)
