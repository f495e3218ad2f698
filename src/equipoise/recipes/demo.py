"""The offline demonstration: from making counterfactual sets to a repaired model, with the truth known all along.

Everything comes with the package and nothing is downloaded: two small CLIPs, of which one was taught a bias, a
captioner, and a generator, all of a world of pictograms. Because that world was made by hand, the numbers can be held
against what was put in. The pictures are signs, not people, and say nothing about anyone.
"""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from textwrap import wrap
from typing import Any

import numpy as np
import pandas as pd

from equipoise.audit import Audit, AuditConfig, compare, run
from equipoise.data import Table, read_results
from equipoise.data.runs import claimed
from equipoise.errors import InputError
from equipoise.models import load
from equipoise.recipes.demo_parts import CaptionsFound, GeneratedFound, Remembering, make_and_filter, measure_captioner
from equipoise.recipes.demo_tuned import judged_by, write_tuned
from equipoise.world import PLACEBOS, preset
from equipoise.world.tables import write_counterfactual_table, write_table

Say = Callable[[str], None]
MODELS = {"biased": "mini:clip", "fair": "mini:clip-fair"}
TOP, MADE_TOP = 12, 4
"""How many pictures count as shown first; fewer of the made ones, of which the filters may leave few."""
PROMPT = "A photo of {a}"
AXES = ("gender", "skin_tone")
SHARE = 0.75
"""How much of the directions is taken out: what a tournament of remedies chooses (``docs/mitigate.md``), on subjects of
other tables than those judged here."""
TRUTH = "world:biased"
MADE = (
    "sets natural biased fair naive-biased naive-fair remedy held_out before after tuned tuned-model captions "
    "captioner generated filtered generated-biased generated-fair report_files"
).split()
"""What the demonstration makes in its folder, and clears when it is run again."""


@dataclass(frozen=True)
class DemoSettings:
    """How much is made; the numbers of the README are those of the defaults."""

    sets: int = 6
    """Rendered counterfactual sets of each occupation, three or more; each placebo adds as many pictures again."""
    natural: int = 1400
    """Pictures of the natural, lopsided pool."""
    made_subjects: int = 8
    candidates: int = 8
    """Sets that the generator makes of each of those subjects."""
    draws: int = 5000
    """Draws of every chance level: as many as it takes to tell one in a thousand."""
    generator: Any = "mini:diffusion"
    """A generator or its name; ``None`` leaves the made pictures out."""


@dataclass(frozen=True)
class Demo:
    """What the demonstration made and found."""

    folder: Path
    audits: dict[str, Audit]
    """By name: biased, fair, naive-biased, naive-fair, before, after, tuned, and generated-biased, generated-fair."""
    gaps: pd.DataFrame
    """For each encoder, axis and occupation: what was put in (``injected``) and the gap that was ``measured``."""
    recovered: dict[tuple[str, str], float]
    """The correlation of measured gaps with what was put in, for each encoder and axis."""
    captions: CaptionsFound
    generated: GeneratedFound
    page: Path
    verdict: str
    """The paragraph on the page, which the terminal shows too."""
    digest: str
    """The hash of every number: two runs on one machine with the same versions give the same."""


def demo(folder: Path, say: Say, settings: DemoSettings | None = None) -> Demo:
    """Run the whole demonstration into ``folder`` and write a page to look at."""
    chosen = settings or DemoSettings()
    if chosen.sets < 3:  # a set has six pictures, and whom the first twelve show can only be told if there are more
        raise InputError(
            f"sets = {chosen.sets}: to rank {TOP} pictures of an occupation the demonstration needs 3 or more"
        )
    size = {name: value for name, value in asdict(chosen).items() if name != "generator"}
    with claimed(folder, "demo", settings=size) as home:
        for name in MADE:  # an earlier demonstration's
            if (folder / name).is_dir():
                shutil.rmtree(folder / name)
        done = _shown(folder, say, chosen)
        home.publish()
    return done


def _shown(folder: Path, say: Say, chosen: DemoSettings) -> Demo:
    """Every part, one after the other."""
    say("1. Two small CLIPs that learnt from pictograms (signs, not people). In the world of the first, occupations")
    say("   lean towards one figure, on purpose; in the world of the second, its twin, none do.")
    encoders = {name: Remembering(load(spec)) for name, spec in MODELS.items()}
    config = AuditConfig(axes=AXES, k=(TOP,), prompts=(PROMPT,), draws=chosen.draws)

    say(f"\n2. Counterfactual sets: the same scene with every figure and skin tone, {chosen.sets} for each occupation;")
    say("   and placebos, changes that nobody calls a group: the same pictures with a bag, mirrored, or brighter.")
    table = _sets(folder / "sets", chosen.sets, say)

    say("\n3. The audit: whom do they show first for 'A photo of a nurse' and 27 other prompts that name nobody?")
    audits = {
        name: run(encoder, "intersectional", table, folder / name, config=config, page=False)
        for name, encoder in encoders.items()
    }
    for name in MODELS:
        _headline(audits[name], name, say)
    difference = compare(folder / "biased", folder / "fair").frame()
    row = difference[(difference["metric"] == "max_skew") & (difference["axis"] == "gender")].iloc[0]
    say(f"   MaxSkew@{TOP} on gender, biased - fair, paired by occupation: {row['value']:+.2f} {_span(row)}")

    say("\n4. Against the truth: does the gap inside sets follow what was put into the world of the biased one?")
    gaps, recovered = _against_truth(folder)
    for (name, axis), correlation in recovered.items():
        say(f"   {name:6} {axis:9} correlation with what was put in {correlation:+.2f}")

    say(
        f"\n5. What a naive number says: {chosen.natural:,} pictures as that world has them, lopsided, no chance level."
    )
    audits |= _naive(folder, encoders, chosen, say)

    say("\n6. Two repairs, both from half of the occupations and judged on the others: take most of what tells gender")
    say(
        "   and skin tone out of the biased CLIP (projection); or fine-tune its texts on sets that vary gender (tuned)."
    )
    audits |= _repaired(folder, encoders["biased"], table, config, say)

    say("\n7. A captioner of the same world: clear pictures, then the same ones grainy, where it has to guess.")
    captions = measure_captioner(folder, Table.open(folder / "natural"), table, say)

    say("\n8. Sets that a generator makes, and filters: what stays, of whom?")
    generated = make_and_filter(
        folder, chosen.generator, subjects=chosen.made_subjects, candidates=chosen.candidates, say=say
    )
    audits |= _audit_generated(folder, generated, encoders, config, say)

    say("\n9. The report. Its verdict:")
    page, verdict = _report(folder)
    for line in wrap(verdict, 110):
        say(f"   {line}")
    digest = digest_of(folder)
    say(f"   every number in one hash (the same each time on one machine): {digest}")
    say(f"\nOpen {page} in a browser. Then try:")
    say(f"  equipoise compare {folder}/biased {folder}/fair")
    say(f"  equipoise measure {folder}/biased --k 5 --variant berg -o {folder}/biased-berg")
    say(f"  equipoise review {folder}/generated -o {folder}/review --ask counterfactual-set -n 40 -a me")
    say(f"  equipoise mitigate projection mini:clip --table {folder}/sets --axis gender -o {folder}/my-remedy")
    return Demo(folder, audits, gaps, recovered, captions, generated, page, verdict, digest)


def digest_of(folder: Path) -> str:
    """The hash of the results in ``folder``, all numbers to six digits."""
    digest = hashlib.sha256()
    for path in sorted(folder.glob("*/results.parquet")):
        frame = read_results(path)
        text = frame.to_csv(index=False, float_format="%.6g", lineterminator="\n")
        digest.update(f"{path.parent.name}\n{text}".encode())
    return digest.hexdigest()[:16]


def _sets(path: Path, n: int, say: Say) -> Table:
    from tqdm import tqdm

    config = preset("fair").changed(activity_share=0.0, visible=1.0)
    subjects = sorted(config.occupations)
    base = len(subjects) * n * 6
    with tqdm(total=base * (1 + len(PLACEBOS)), desc="drawing", unit="picture", disable=None) as bar:
        table = write_counterfactual_table(
            path, config, n, subjects=subjects, axes=AXES, placebos=PLACEBOS, seed=77, progress=bar.update
        )
    say(f"   {len(table):,} pictures in {path}, {base:,} of them without a placebo")
    return table


def _naive(folder: Path, encoders: dict[str, Any], chosen: DemoSettings, say: Say) -> dict[str, Audit]:
    """MaxSkew against even shares, as it is often published, on a pool that leans as the world does."""
    world = preset("biased").changed(activity_share=0.0, visible=1.0)
    natural = write_table(folder / "natural", world, chosen.natural, seed=78)
    config = AuditConfig(axes=AXES, k=(TOP,), prompts=(PROMPT,), draws=500, variants=("berg",))
    audits = {}
    for name, encoder in encoders.items():
        key = f"naive-{name}"
        audits[key] = run(encoder, "intersectional", natural, folder / key, config=config, page=False)
        row = _row(audits[key], "max_skew", "gender")
        say(
            f"   {name:6} MaxSkew@{TOP} {row['value']:.2f}: one gender has {np.exp(row['value']):.1f} times an even "
            f"share. (A blind model has {row['null_mean']:.2f} here.)"
        )
    say("   So the naive number calls both biased: it cannot tell a lopsided model from a lopsided pool.")
    return audits


def _repaired(folder: Path, encoder: Any, table: Table, config: AuditConfig, say: Say) -> dict[str, Audit]:
    from equipoise.mitigate import Projection, fit_on_table, held_out_layer, repaired, save

    apart = judged_by(table)
    remedy = fit_on_table(Projection(share=SHARE), encoder, table, AXES, held_out=apart)
    save(remedy, folder / "remedy")
    layer = held_out_layer(table, apart, folder / "held_out")
    view = table.with_layers([layer])
    models = {"before": encoder, "after": repaired(encoder, remedy, name=f"{encoder.name} + projection")}
    tuned = load(f"hf:{write_tuned(folder / 'tuned-model')}")
    tuned.name = f"{encoder.name} fine-tuned"
    models["tuned"] = Remembering(tuned, sees_as=encoder)  # fine-tuning left the images' side as it was
    audits = {
        name: run(model, "intersectional", view, folder / name, config=config, page=False)
        for name, model in models.items()
    }
    for axis in AXES:
        before, after, learnt = (_largest(audits[name], "standard_gap_size", axis) for name in models)
        say(
            f"   {axis:9} {before['value']:.2f} {_span(before)} spreads before, {after['value']:.2f} {_span(after)} "
            f"projected, {learnt['value']:.2f} {_span(learnt)} tuned"
        )
    say(f"   on {int(after['n'])} occupations that neither has seen.")
    costs = {name: run(model, "utility", view).results for name, model in models.items()}
    shares = [100 * c[c["metric"] == "zero_shot_accuracy"]["value"].iloc[0] for c in costs.values()]
    say(
        f"   what they cost: {shares[0]:.1f}% of these pictures get their occupation before, "
        f"{shares[1]:.1f}% projected, {shares[2]:.1f}% tuned"
    )
    return audits


def _audit_generated(
    folder: Path, generated: GeneratedFound, encoders: dict[str, Any], config: AuditConfig, say: Say
) -> dict[str, Audit]:
    """Both encoders on what the filters left of the made pictures; nothing where that is too little."""
    if generated.kept is None:
        return {}
    audits, chosen = {}, config.having({"k": [MADE_TOP]})
    for name, encoder in encoders.items():
        try:
            key = f"generated-{name}"
            audits[key] = run(encoder, "intersectional", generated.kept, folder / key, config=chosen, page=False)
        except InputError as error:
            say(f"   not audited: {error}")
            return {}
        row = _row(audits[key], "max_skew", "gender")
        say(
            f"   {name:6} on made pictures: MaxSkew@{MADE_TOP} on gender {row['value']:.2f}, "
            f"chance {row['null_mean']:.2f}, {int(row['n'])} occupations"
        )
    return audits


def _report(folder: Path) -> tuple[Path, str]:
    """The page, and its verdict."""
    from equipoise.report.writing import write_and_tell

    shown: dict[str, Path] = {MODELS[name]: folder / name for name in MODELS}
    repaired = {"before": f"{MODELS['biased']} before repair", "after": f"{MODELS['biased']} after repair"}
    repaired["tuned"] = f"{MODELS['biased']} fine-tuned"
    shown |= {label: folder / name for name, label in repaired.items()}
    shown |= {f"{MODELS[name]} (generated)": folder / f"generated-{name}" for name in MODELS}
    shown |= {"captioner": folder / "captioner", "filters": folder / "filtered", "generated": folder / "generated"}
    folders = {label: path for label, path in shown.items() if _has_something(path)}
    beside: dict[str, Any] = {
        "truth": TRUTH,
        "before_after": (folder / "before", folder / "after", folder / "tuned"),
        "naive": {MODELS[name]: folder / f"naive-{name}" for name in MODELS},
    }
    page, verdict = write_and_tell(folders, folder / "report.html", title="An audit with known truth", **beside)
    return page, verdict.text


def _has_something(path: Path) -> bool:
    """Whether a folder holds results or a table; one whose audit was refused holds evidence alone."""
    return any((path / name).is_file() for name in ("results.parquet", "_table.json"))


def _row(audit: Audit, metric: str, axis: str) -> pd.Series:
    rows = audit.results
    return rows[rows["subject"].isna() & (rows["metric"] == metric) & (rows["axis"] == axis)].iloc[0]


def _largest(audit: Audit, metric: str, axis: str) -> pd.Series:
    """The row of the pair of groups with the largest value."""
    rows = audit.results
    rows = rows[rows["subject"].isna() & (rows["metric"] == metric) & (rows["axis"] == axis)]
    return rows.iloc[int(rows["value"].to_numpy(dtype=float).argmax())]


def _headline(audit: Audit, name: str, say: Say) -> None:
    """The size of the gaps on each axis, and how far it is above that of the placebos."""
    for axis in AXES:
        size, above = _largest(audit, "standard_gap_size", axis), _row(audit, "placebo_excess", axis)
        say(
            f"   {name:6} {axis:9} {size['group']}: {size['value']:.2f} {_span(size)} spreads between sets; "
            f"above placebo {above['value']:+.2f} {_span(above)}"
        )


def _span(row: pd.Series) -> str:
    """The interval of a row, if it has one."""
    return "" if pd.isna(row["ci_low"]) else f"[{row['ci_low']:.2f}, {row['ci_high']:.2f}]"


def _against_truth(folder: Path) -> tuple[pd.DataFrame, dict[tuple[str, str], float]]:
    """What the page says of the truth, for each encoder and axis."""
    from equipoise.report import read_given
    from equipoise.report.truth import read_truth, recovered

    known = read_truth(TRUTH)
    assert known is not None
    tables, correlations = [], {}
    for name in MODELS:
        for recovery in recovered(read_given({name: folder / name}).series[0], known):
            tables.append(recovery.table.assign(encoder=name, axis=recovery.axis))
            correlations[name, recovery.axis] = 0.0 if recovery.correlation is None else recovery.correlation
    return pd.concat(tables, ignore_index=True), correlations
