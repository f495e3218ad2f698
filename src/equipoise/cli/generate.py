"""``equipoise generate``: counterfactual sets, edits, inpainting, masking, face swap, substitution and scenes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import typer

from equipoise.cli.making import (
    OUT,
    SOME,
    Making,
    listed,
    making,
    numbers,
    one_axis,
    only_some,
    span,
    tell_whether_recognised,
)
from equipoise.errors import InputError

app = typer.Typer(
    no_args_is_help=True,
    help="Make images: the same scene for every group, people edited or redrawn, and more. Every command can be "
    "stopped and resumes where it stopped; --dry-run says beforehand how many images, how long and how many GB.",
)

TABLE = typer.Argument(..., metavar="TABLE", help="The table whose images are used.")
MODEL = typer.Option("mini", "--generator", "-g", help="mini, diffusers:<repo or folder>, or api:<url>#<model>.")
GUIDANCE = typer.Option(None, "--guidance", help="Guidance scale; the model's own by default.")
FINDER = typer.Option(
    None, "--finder", help="A detector by name: of faces for swap, persons or objects for mask, outlines for inpaint."
)
AXIS = typer.Option(["gender"], "--axis", help="The axis that is changed, one at a time.")
ONE_AXIS = "one axis is changed at a time, and inpaint changes several together"
CHECK = typer.Option(
    "",
    "--check",
    help="An encoder that says afterwards how many images show the group that they should: hf:<repo>, mini:clip-fair.",
)
GROUPS = typer.Option("", "--groups", help="The groups to show, separated by commas.")


@app.command()
@making("steps", "seed", "device", "dtype")
def sets(
    out: Path = OUT,
    generator: str = MODEL,
    preset: str = typer.Option("race-gender", "--preset", "-p", help="Captions: see equipoise text captions --list."),
    captions: Path | None = typer.Option(None, "--captions", help="Captions: a TOML file of your own, instead."),
    world: str = typer.Option("", "--world", help="Captions: those of a pictogram world (fair, biased, ...), instead."),
    axes: str = typer.Option("gender,skin_tone", "--axes", help="With --world: what the sets vary."),
    subjects: str = typer.Option("", "--subjects", help="Only these subjects, separated by commas."),
    prefixes: str = typer.Option("", "--prefixes", help="Only these prefixes, separated by commas."),
    settings: str = typer.Option("", "--settings", help="socialcf_code or socialcf_paper; options below change it."),
    candidates: int | None = typer.Option(None, "-n", min=1, help="Candidates for each set; 100 by default."),
    inject: str | None = typer.Option(None, "--inject", help="Attention to share: self, cross or both."),
    blend: bool = typer.Option(False, "--blend", help="Keep the first image where other words change little."),
    share: str = typer.Option("", "--share", help="Shares of steps as LOW,HIGH; 0.1,0.9 by default."),
    guidance: str = typer.Option("", "--guidance", help="Guidance scales as LOW,HIGH; 7.5,15 by default."),
    sampler: str | None = typer.Option(None, "--sampler", help="euler-ancestral or ddim; the model's own by default."),
    batch_size: int | None = typer.Option(None, "--batch-size", min=0, help="Images at a time; 0 for a whole set."),
    limit: int = only_some("Only the first N caption sets, to try things out."),
    *,
    how: Making,
) -> None:
    """Make counterfactual sets: every caption of a set from the same noise, with the attention of the first.

    Example: [bold]equipoise generate sets runs/doctors -g diffusers:sd-v1-5 --subjects doctor -n 4 --dry-run[/bold]
    """
    from itertools import islice

    from equipoise.generate import SetsConfig, plan_sets, world_sets
    from equipoise.generate.sets import set_preset
    from equipoise.text.templates import caption_preset, captions_from_file

    options: dict[str, Any] = {
        "candidates": candidates,
        "inject": inject,
        "blend": blend or None,
        "share": span(share, "--share"),
        "guidance": span(guidance, "--guidance"),
        "sampler": sampler,
        "batch_size": batch_size,
        "steps": how.steps,
        "seed": how.seed,
    }
    config = replace(
        set_preset(settings) if settings else SetsConfig(), **{k: v for k, v in options.items() if v is not None}
    )
    how.refuse_other_settings(out, "sets", config)
    names = listed(subjects)
    if world:
        from equipoise import world as worlds

        caption_sets: Any = world_sets(worlds.preset(world), names or None, tuple(listed(axes)), seed=how.seed)
    else:
        chosen = captions_from_file(captions) if captions is not None else caption_preset(preset)
        caption_sets = chosen.having(subjects=names, prefixes=listed(prefixes)).sets()
    how.carry_out(plan_sets(islice(caption_sets, limit or None), config), out, how.model(generator))


@app.command()
@making("steps", "seed", "device", "dtype", "layer", "sample")
def edits(
    table: Path = TABLE,
    out: Path = OUT,
    generator: str = typer.Option("mini:edit", "--generator", "-g", help="An editor: mini:edit, or diffusers:<repo>."),
    axis: list[str] = AXIS,
    groups: str = GROUPS,
    guidance: str = typer.Option(
        "", "--guidance", help="Guidance scales, separated by commas; the editor's own by default, else 9.5,15."
    ),
    image_guidance: float | None = typer.Option(
        None, "--image-guidance", help="How much the edit keeps of the image; the editor's own by default, else 1.5."
    ),
    instructions: int | None = typer.Option(
        None,
        "--instructions",
        min=1,
        help="Only the first N instructions of each group; 1 makes one edit of each.",
        metavar="N",
        show_default="all, 4",
    ),
    limit: int = only_some("Only the first N photographs that can be edited (one person, a label), to try things out."),
    whole: bool = typer.Option(False, "--whole", help="Edit the whole image instead of the person's box."),
    long_side: int | None = typer.Option(None, "--long-side", min=8, help="The editing size; the editor's by default."),
    feather: int = typer.Option(0, "--feather", min=0, help="Pixels inside the box that fade into the photograph."),
    check: str = CHECK,
    *,
    how: Making,
) -> None:
    """Edit the one person in each photograph into each group; everything outside the box stays as it is.

    Example: [bold]equipoise generate edits coco runs/edits -g diffusers:timbrooks/instruct-pix2pix --steps 500[/bold]
    """
    from equipoise.data.sampling import refuse_two_choices
    from equipoise.generate import EditsConfig, plan_edits

    refuse_two_choices(limit, how.sample)
    config = EditsConfig(
        axis=one_axis(axis, ONE_AXIS),
        groups=tuple(listed(groups)),
        guidance=tuple(numbers(guidance, "--guidance")),
        image_guidance=image_guidance,
        area="whole" if whole else "person",
        long_side=long_side,
        feather=feather,
        instructions=instructions,
        limit=limit or None,
        steps=how.steps,
        seed=how.seed,
    )
    photographs = how.opened(table)
    unsettled = [name for name in ("guidance", "image_guidance") if getattr(config, name) in ((), None)]
    how.refuse_other_settings(out, "edits", config, photographs, unsettled)  # before the editor is loaded
    editor = how.model(generator)
    checker = how.encoder(check)  # before hours of work, not after
    edited = how.carry_out(plan_edits(photographs, config, editor=editor), out, editor)
    if edited is not None:
        tell_whether_recognised(edited, out, config.axis, checker, how.asking())


@app.command()
@making("seed", "device", "dtype", *SOME)
def inpaint(
    table: Path = TABLE,
    out: Path = OUT,
    generator: str = typer.Option("mini:inpaint", "--generator", "-g", help="mini:inpaint, or diffusers:<repo>."),
    axis: list[str] = typer.Option(
        [], "--axis", help="The axis that is changed; repeat for every combination of several.", show_default="gender"
    ),
    groups: list[str] = typer.Option(
        [],
        "--groups",
        help="The groups to draw, separated by commas, once for each --axis.",
        show_default="female,male",
    ),
    words: Path | None = typer.Option(
        None, "--words", help="A TOML file with words of your own for groups: [terms.AXIS], [[forms.AXIS]]."
    ),
    per_group: int | None = typer.Option(None, "-m", min=1, help="Images of each group.", show_default="30"),
    guidance: str = typer.Option(
        "", "--guidance", help="Guidance scales, over which they are spread evenly.", show_default="7.5,9.5,15"
    ),
    dilation: float = typer.Option(8.0, "--dilation", min=0.0, help="Pixels around the mask that are drawn too."),
    part: bool = typer.Option(
        False, "--part", help="Redraw one body part, with the photograph's own caption: the artefact test."
    ),
    by: str = typer.Option("segment", "--by", help="segment, box, or finder (a segmenter outlines the box)."),
    finder: str | None = FINDER,
    steps: int = typer.Option(50, "--steps", min=1, help="Denoising steps."),
    *,
    how: Making,
) -> None:
    """Redraw the largest person in each photograph as each group; everything outside the mask stays as it is.

    Example: [bold]equipoise generate inpaint coco runs/inpainted -g diffusers:sd-inpainting -m 30[/bold]
    Combinations: [bold]... --axis gender --groups female,male --axis skin_tone --groups light,dark[/bold]

    With --part nobody becomes somebody else: one random body part is drawn once, and labels and captions stay.

    Example: [bold]equipoise generate inpaint coco runs/parts -g diffusers:sd-inpainting --part --guidance 7.5[/bold]
    """
    from equipoise.generate import InpaintConfig, PartsConfig, plan_inpaint, plan_parts
    from equipoise.text.templates import read_wording

    scales = tuple(numbers(guidance, "--guidance"))
    if part:
        given = {"--axis": axis, "--groups": groups, "--words": words, "-m": per_group}
        odd = next((name for name, value in given.items() if value), None)
        if odd:
            raise InputError(f"--part draws one image per photograph and changes no group; leave {odd} out")
        if len(scales) > 1:
            raise InputError(f"--part draws one image per photograph; give one --guidance, not {len(scales)}")
        scale = scales[0] if scales else PartsConfig.guidance
        parts = PartsConfig(guidance=scale, dilation=dilation, by=by, steps=steps, seed=how.seed)
        photographs = how.opened(table)
        how.refuse_other_settings(out, "inpaint", parts, photographs)
        how.carry_out(plan_parts(photographs, parts), out, how.model(generator), finder=finder)
        return
    axis = axis or ["gender"]
    if axis == ["gender"] and not groups:
        groups = ["female,male"]
    if len(groups) != len(axis) or len(set(axis)) < len(axis):
        raise InputError(f"{len(axis)} --axis and {len(groups)} --groups: name each axis once, with its --groups")
    wanted = {name: tuple(listed(some)) for name, some in zip(axis, groups, strict=True)}
    config = InpaintConfig(
        axis=axis[0],
        groups=wanted.pop(axis[0]),
        also=wanted,
        wording=None if words is None else read_wording(words),
        per_group=30 if per_group is None else per_group,
        guidance=scales or (7.5, 9.5, 15.0),
        dilation=dilation,
        by=by,
        steps=steps,
        seed=how.seed,
    )
    photographs = how.opened(table)
    how.refuse_other_settings(out, "inpaint", config, photographs)
    plan = plan_inpaint(photographs, config)
    how.carry_out(plan, out, how.model(generator), finder=finder)


@app.command()
@making(*SOME)
def mask(
    table: Path = TABLE,
    out: Path = OUT,
    what: str = typer.Option("person", "--what", help="person, object or both."),
    by: str = typer.Option("box", "--by", help="box or segment."),
    most_correlated: str = typer.Option(
        "", "--most-correlated", metavar="AXIS", help="Of the objects, only the one that leans most on this axis."
    ),
    least: int = typer.Option(20, "--least", min=1, help="How many images an object must be on to count as leaning."),
    finder: str | None = FINDER,
    *,
    how: Making,
) -> None:
    """Black out persons, objects or both.

    Examples:

    [bold]equipoise generate mask coco runs/masked --what person --by segment[/bold]

    [bold]equipoise generate mask coco runs/no-object --what object --most-correlated gender[/bold]
    """
    from equipoise.generate import MaskConfig, plan_mask

    config = MaskConfig(what=what, by=by, find=finder is not None, most_correlated=most_correlated, least=least)
    plan = plan_mask(how.opened(table), config)
    how.carry_out(plan, out, None, finder=finder)


@app.command()
@making("seed", *SOME)
def perturb(
    table: Path = TABLE,
    out: Path = OUT,
    blur: float = typer.Option(0.01, "--blur", help="The blur's radius, as a share of the shorter side."),
    objects: float = typer.Option(0.0, "--objects", help="Black out this share of the objects, as in 0.1."),
    *,
    how: Making,
) -> None:
    """Change what is not a group: blur the background, or the whole picture where no person is outlined; hide objects.

    Audit the copy too, and give it to check or dossier as --perturbed: they tell how far the numbers move.

    Example: [bold]equipoise generate perturb sets sets-blurred[/bold]
    """
    from equipoise.generate import PerturbConfig, plan_perturb

    config = PerturbConfig(blur=blur, objects=objects, seed=how.seed)
    how.carry_out(plan_perturb(how.opened(table), config), out, None)


@app.command()
@making("seed", *SOME)
def swap(
    table: Path = TABLE,
    faces: Path = typer.Argument(..., metavar="FACES", help="A table of faces with labels."),
    out: Path = OUT,
    axis: list[str] = AXIS,
    groups: str = GROUPS,
    where: list[str] = typer.Option([], "--where", help="Only such faces, e.g. age=20-29,30-39; repeat for several."),
    finder: str | None = FINDER,
    match_colour: bool = typer.Option(
        False,
        "--match-colour",
        help="Give the new face the old one's mean colour; undoes a change of skin tone or race.",
    ),
    *,
    how: Making,
) -> None:
    """Replace each face with one of the target group.

    Example: [bold]equipoise generate swap coco fairface runs/swapped --where age=20-29,30-39[/bold]
    """
    from equipoise.data import Table
    from equipoise.generate import SwapConfig, plan_swap

    limits = {}
    for condition in where:
        name, equals, values = condition.partition("=")
        if not equals or not values:
            raise InputError(f"--where {condition}: a column and its values are expected, as age=20-29,30-39")
        limits[name] = tuple(listed(values))
    table_of_faces = Table.open(faces)
    config = SwapConfig(
        axis=one_axis(axis, ONE_AXIS),
        groups=tuple(listed(groups)),
        where=limits or None,
        find=finder is not None,
        match_colour=match_colour,
        seed=how.seed,
    )
    plan = plan_swap(how.opened(table), table_of_faces, config)
    how.carry_out(plan, out, None, finder=finder, faces=table_of_faces)


@app.command()
@making("steps", "seed", "device", "dtype", "price", "per_minute", *SOME)
def substitute(
    table: Path = TABLE,
    out: Path = typer.Argument(
        "", metavar="[OUT]", help="The folder for generated/ and one table D<alpha> per share; or give it with -o."
    ),
    generator: str = MODEL,
    alpha: str = typer.Option("0.2,0.4,0.6,0.8,1", "--alpha", help="Shares to replace, separated by commas."),
    per_caption: bool = typer.Option(False, "--per-caption", help="One image for every caption; makes no D<alpha>."),
    guidance: float | None = GUIDANCE,
    together: int = typer.Option(8, "--batch-size", min=1, help="Images at a time."),
    *,
    how: Making,
) -> None:
    """Replace shares of the images with images generated from their captions; the shares are nested.

    Called again with a larger share, it generates only what is missing; what was replaced stays replaced.

    Example: [bold]equipoise generate substitute coco runs/contaminated -g diffusers:sd-v1-5 --alpha 0.2,0.4[/bold]
    """
    from equipoise.generate import SubstituteConfig, contaminated, plan_substitute
    from equipoise.generate.substitute import parts_of

    alphas = numbers(alpha, "--alpha") or [1.0]
    real = how.opened(table)
    config = SubstituteConfig(
        alpha=max(alphas),
        per_caption=per_caption,
        guidance=guidance,
        steps=how.steps,
        together=together,
        seed=how.seed,
    )
    parts = parts_of(out, config.alpha)
    for folder, upto, beyond in parts:
        how.refuse_other_settings(folder, "substitute", replace(config, alpha=upto, beyond=beyond), real)
    model = how.model(generator) if parts else None
    plans = [(plan_substitute(real, replace(config, alpha=upto, beyond=beyond)), at) for at, upto, beyond in parts]
    generated = [how.carry_out(plan, folder, model) for plan, folder in plans]
    if not how.dry_run and not per_caption:
        missing = [share for share in alphas if not (out / f"D{share:g}" / "_table.json").exists()]
        for share in contaminated(real, generated, missing, out, seed=how.seed):
            typer.echo(f"D({share:g}) in {out / f'D{share:g}'}")
        n_failed = sum(part.n_errors for part in generated)
        if n_failed:
            typer.echo(f"{n_failed:,} images could not be generated and stay real; D<alpha>.json lists them")


@app.command()
@making("steps", "seed", "device", "dtype", "price", "per_minute")
def scenes(
    out: Path = OUT,
    generator: str = MODEL,
    activities: str = typer.Option("", "--activities", help="Only these, separated by commas; by default all 37."),
    world: str = typer.Option(
        "", "--world", help="The activities and words of a pictogram world (fair, biased, ...), instead."
    ),
    per_cell: int = typer.Option(20, "-n", min=1, help="Images of each activity and each of E1, E2, U1, U2."),
    clusters: int = typer.Option(6, "--clusters", min=1, help="Clusters that the settings are spread over."),
    encoder: str | None = typer.Option(None, "--encoder", help="Sentence embeddings by a model; TF-IDF by default."),
    writer: str | None = typer.Option(None, "--writer", help="A language model that writes prompts: hf: or api:."),
    guidance: float | None = GUIDANCE,
    *,
    how: Making,
) -> None:
    """Make the scenes of the Gender-Activity Binding benchmark: who does what, expected and unexpected.

    Example: [bold]equipoise generate scenes runs/gab -g 'api:https://api.openai.com/v1#dall-e-3' --price 0.04 --dry-run
    [/bold]
    """
    from functools import partial

    from equipoise.engine import vectors
    from equipoise.generate import ScenesConfig, plan_scenes, plan_world_scenes
    from equipoise.generate.rewriting import rewriter
    from equipoise.generate.rewriting import writer as language_model
    from equipoise.models import load

    config = ScenesConfig(per_cell=per_cell, clusters=clusters, guidance=guidance, steps=how.steps, seed=how.seed)
    how.refuse_other_settings(out, "scenes", config)
    if world:
        if writer or encoder:
            raise InputError("--world has prompts of its own; leave --writer and --encoder out")
        from equipoise.world import preset

        plan = plan_world_scenes(preset(world), listed(activities), config)
        how.carry_out(plan, out, how.model(generator))
        return
    if writer and how.dry_run:
        typer.echo(f"{writer} is not asked in a dry run; it would write each prompt out")
    plan = plan_scenes(
        listed(activities),
        config,
        embed=partial(vectors, load(encoder)) if encoder else None,
        rewrite=rewriter(language_model(writer)) if writer and not how.dry_run else None,
    )
    model = how.model(generator)
    how.carry_out(plan, out, model)
