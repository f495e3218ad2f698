"""Constructed result folders, and the one of four outcomes that each must give, with words that must and must not be.

The numbers are chosen; the folders are written by the project's own writers, and judged as ``equipoise report`` does.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from equipoise.audit.config import AuditConfig
from equipoise.audit.findings import Findings
from equipoise.audit.folders import AuditOf, audit_folder
from equipoise.data.results import write_results
from equipoise.measure.notes import codes_of, note
from equipoise.measure.stats import summarise
from equipoise.report import verdict_of, write
from equipoise.report.dossier.bounds import check_policy
from equipoise.report.dossier.policy import Bound, Policy
from equipoise.report.findings import bias_rows
from equipoise.report.sources import read_given
from equipoise.report.verdict.judging import REPAIRED, BiasVerdict
from equipoise.report.verdict.outcomes import Conclusion, read_row
from equipoise.report.verdict.sizes import size_words

from .folders import folder, of_sets, row

SKEW = {"chance": 0.2, "sd": 0.03, "k": 12}
HALF = [1.0] * 14 + [-1.0] * 14
"""Fourteen subjects to one side and fourteen to the other."""


@dataclass(frozen=True)
class Case:
    name: str
    build: Callable[[Path], BiasVerdict]
    outcome: Conclusion
    must: tuple[str, ...]
    must_not: tuple[str, ...] = ()
    repair: bool = False


def audit(*rows: dict[str, Any], **keys: Any) -> Callable[[Path], BiasVerdict]:
    return lambda home: verdict_of(folder(home / "audit", list(rows), **keys))


def with_truth(rows: list[dict[str, Any]], injected: np.ndarray) -> Callable[[Path], BiasVerdict]:
    truth = pd.DataFrame(
        [
            {"subject": f"s{i}", "axis": "gender", "group": group, "log_odds": sign * float(value)}
            for i, value in enumerate(injected)
            for group, sign in (("female", 1), ("male", -1))
        ]
    )
    return lambda home: verdict_of(folder(home / "audit", rows), truth=truth)


def repair(before: list[dict[str, Any]], after: list[dict[str, Any]], **of: Any) -> Callable[[Path], BiasVerdict]:
    def build(home: Path) -> BiasVerdict:
        pair = folder(home / "before", before, model="m"), folder(home / "after", after, model="m + fix", **of)
        return verdict_of(list(pair), before_after=pair)

    return build


def spread_out(size: float, n: int = 28, seed: int = 0) -> np.ndarray:
    """Gaps of n subjects with no common direction and this root mean square."""
    gaps = np.random.default_rng(seed).normal(size=n)
    gaps -= gaps.mean()
    return gaps * size / float(np.sqrt((gaps**2).mean()))


def leaning(size: float, low: float, high: float, *, n: int = 28, **keys: Any) -> list[dict[str, Any]]:
    """Sets with gaps of this size and no common direction."""
    each = keys.pop("each", spread_out(size, n))
    return of_sets(size=(size, low, high, 0.001), gap=(0.0, -0.3, 0.3, 0.95), each=each, n=n, **keys)


def filters(*rows: dict[str, Any]) -> Callable[[Path], BiasVerdict]:
    def build(home: Path) -> BiasVerdict:
        write_results(home / "filtered" / "results.parquet", [{**one, "suite": "filter"} for one in rows])
        (home / "filtered" / "filter.json").write_text("{}")
        return verdict_of(home / "filtered")

    return build


def filter_rows(rate: float, low: float, high: float, p: float) -> list[dict[str, Any]]:
    keys = {"variant": "sharp", "group": "female", "pool": None}
    side = "above" if rate > 0.1 else "below"
    told = note("filter_test", what="drop", group="female", side=side)
    size = abs(rate - 0.1), None, None, p
    return [
        row("filter_drop", (rate, low, high, p), chance=0.1, n=400, **keys),
        row("filter_bias", size, chance=0.01, sd=0.01, n=800, notes=told, side=side, **keys),
    ]


def dataset(*rows: dict[str, Any]) -> Callable[[Path], BiasVerdict]:
    def build(home: Path) -> BiasVerdict:
        from equipoise.data.runs import claimed

        findings = Findings("dataset", "")
        findings.rows = [{**one, "suite": "dataset"} for one in rows]
        with claimed(home / "photos", "dataset", of={"dataset": "photos"}) as run:
            findings.save(run.stage)
            run.publish()
        return verdict_of(home / "photos")

    return build


def shares(value: float, half: float, p: float, n: int) -> list[dict[str, Any]]:
    keys = {"chance": 0.5, "n": n, "pool": None, "variant": None}
    return [
        row("group_share", (share, share - half, share + half, p), group=group, **keys)
        for group, share in (("female", 1 - value), ("male", value))
    ]


def captions(*rows: dict[str, Any], mask: bool = True, masked: bool | None = None) -> Callable[[Path], BiasVerdict]:
    def build(home: Path) -> BiasVerdict:
        findings = Findings("captions", "")
        findings.rows = [{**one, "suite": "captions", "pool": None, "model": one["model"] or "nic"} for one in rows]
        findings.save(home / "out")
        about = {"command": "captions", "settings": {"mask": mask}, "words_masked": mask if masked is None else masked}
        (home / "out" / "config.json").write_text(json.dumps(about))
        return verdict_of(home / "out")

    return build


def classified(*rows: dict[str, Any]) -> Callable[[Path], BiasVerdict]:
    def build(home: Path) -> BiasVerdict:
        from equipoise.data.runs import claimed

        findings = Findings("classification", "")
        keys = {"suite": "classification", "model": "net", "pool": None, "variant": None}
        findings.rows = [{**one, **keys} for one in rows]
        with claimed(home / "predicted", "classification", of={"predictions": "p"}) as run:
            findings.save(run.stage)
            run.publish()
        return verdict_of(home / "predicted")

    return build


def compared(*rows: dict[str, Any]) -> Callable[[Path], BiasVerdict]:
    def build(home: Path) -> BiasVerdict:
        codes = codes_of([note("compared", first="A", second="B", first_mean=0.1, second_mean=0.2)])
        write_results(home / "c" / "results.parquet", [{**one, "model": "A - B", "codes": codes} for one in rows])
        return verdict_of(home / "c")

    return build


def contrast(natural: dict[str, Any], *edited: dict[str, Any]) -> Callable[[Path], BiasVerdict]:
    rows = [{**natural, "pool": "natural"}, *({**one, "pool": "edited"} for one in edited)]
    return audit(*rows, suite="contrast")


LEANS, SMALL, NOTHING, UNKNOWN = Conclusion.LEANS, Conclusion.TOO_SMALL, Conclusion.NOTHING, Conclusion.CANNOT_TELL
ONE_WAY = of_sets(gap=(0.8, 0.6, 1.0, 0.0001), size=(0.82, 0.62, 1.02, 0.001), ranks=(0.71, 0.64, 0.78, 0.0001))
QUIRKS = leaning(0.8, 0.6, 1.0)
DISTANCE = {"pool": None, "variant": None, "n": 40}
BEFORE = leaning(0.9, 0.7, 1.1)

CASES = [
    Case(
        "no bias", audit(*of_sets()), NOTHING, ("No bias by perceived gender was found", "would have been"), ("fair",)
    ),
    Case(
        "tiny with n = 100,000",
        audit(*of_sets(gap=(0.02, 0.015, 0.025, 0.0001), size=(0.02, 0.015, 0.025, 0.001), n=100_000, each=[0.02] * 5)),
        SMALL,
        ("too small to matter", "margin of 0.2 spreads"),
        ("is biased", "No bias"),
    ),
    Case(
        "tiny skew with many queries",
        audit(row("max_skew", (0.22, 0.21, 0.23, 0.0002), **SKEW | {"n": 50_000})),
        SMALL,
        ("too small to matter", "1.1 times the share that luck gives"),
        ("is biased",),
    ),
    Case(
        "huge with one subject",
        audit(
            *of_sets(gap=(3.0, 2.5, 3.5, 0.001), size=(3.0, 2.5, 3.5, 0.001), n=1, each=[3.0]),
            row("max_skew", (0.69, None, None, 0.001), **SKEW | {"n": 1}),
        ),
        UNKNOWN,
        ("cannot tell", "Only one subject"),
        ("is biased", "No bias"),
    ),
    Case(
        "a small p-value whose interval touches chance",
        audit(row("max_skew", (0.35, 0.19, 0.51, 0.001), **SKEW)),
        UNKNOWN,
        ("cannot tell", "beyond chance", "reaches from nothing to more than the margin"),
        ("is biased", "No bias"),
    ),
    Case(
        "less lopsided than luck",
        audit(row("max_skew", (0.1, 0.08, 0.12, 1.0), **SKEW | {"sd": 0.02})),
        NOTHING,
        ("No bias", "less lopsided than luck"),
        ("is biased", "beyond chance"),
    ),
    Case(
        "less lopsided than luck, with few pictures",
        audit(row("max_skew", (0.1, 0.05, 0.15, 1.0), **SKEW | {"sd": 0.08})),
        UNKNOWN,
        ("cannot tell", "less lopsided than luck"),
        ("is biased", "No bias"),
    ),
    Case(
        "one direction over subjects",
        audit(*ONE_WAY, row("max_skew", (0.5, 0.45, 0.55, 0.001), **SKEW)),
        LEANS,
        ("m is biased by perceived gender.", "71 of 100 sets [64, 78]", "0.80 spreads [0.60, 1.00]", "1.6 times"),
        ("reacts", "cannot be told"),
    ),
    Case(
        "against the first group",
        audit(
            *of_sets(gap=(-0.8, -1.0, -0.6, 0.0001), size=(0.82, 0.62, 1.02, 0.001), ranks=(0.29, 0.22, 0.36, 0.0001))
        ),
        LEANS,
        ("A picture labelled male outranks its twin labelled female in 71 of 100 sets [64, 78]",),
    ),
    Case(
        "opposite directions that cancel",
        audit(*leaning(1.0, 0.8, 1.2, each=HALF)),
        LEANS,
        ("reacts to the visible difference in gender", "no common direction", "1.00 spreads"),
        ("is biased", "No bias"),
    ),
    Case(
        "opposite directions, and a skew beyond chance",
        audit(*leaning(1.0, 0.8, 1.2, each=HALF), row("max_skew", (0.5, 0.45, 0.55, 0.001), **SKEW)),
        LEANS,
        ("reacts to the visible difference", "1.6 times its fair share"),
        ("is biased",),
    ),
    Case(
        "a direction too small to matter inside a large size",
        audit(*of_sets(gap=(0.03, 0.01, 0.05, 0.001), size=(0.8, 0.6, 1.0, 0.001), each=spread_out(0.8))),
        LEANS,
        ("reacts to the visible difference",),
        ("is biased",),
    ),
    Case(
        "only one metric beyond chance",
        audit(
            row("max_skew", (0.22, 0.18, 0.26, 0.4), **SKEW),
            row("ndkl", (0.2, 0.18, 0.22, 0.0002), chance=0.15, sd=0.005, k=12),
        ),
        LEANS,
        ("NDKL@12",),
        ("No bias", "nothing was found"),
    ),
    Case(
        "only a metric without a margin beyond chance",
        audit(
            row("max_skew", (0.22, 0.16, 0.28, 0.4), **SKEW | {"sd": 0.02}),
            row("infeasible_index", (4.0, 3.0, 5.0, 0.0002), chance=2.0, sd=0.3, k=12),
        ),
        SMALL,
        ("infeasible index@12 is beyond chance (p < 0.001 after correction), without a margin",),
        ("No bias", "is biased"),
    ),
    Case(
        "a small p-value that the correction takes away",
        audit(
            *of_sets(),
            *(row("ndkl", (0.16, 0.14, 0.18, 0.5), chance=0.15, k=k) for k in range(1, 60)),
            row("exposure_ratio", (0.4, 0.3, 0.5, 0.001), chance=0.5, sd=0.03, k=12),
        ),
        UNKNOWN,
        ("stands out alone (p = 0.001)", "not after correction for 63 numbers"),
        ("is biased", "No bias"),
    ),
    Case(
        "several K, of which one leans",
        audit(
            row("max_skew", (0.25, 0.15, 0.35, 0.2), **SKEW | {"k": 5}),
            row("max_skew", (0.5, 0.45, 0.55, 0.001), **SKEW | {"k": 20}),
        ),
        LEANS,
        ("m is biased", "first 20 pictures", "1.6 times its fair share"),
        ("first 5 pictures",),
    ),
    Case(
        "several axes of which one leans",
        audit(
            *ONE_WAY,
            *of_sets(axis="age", pair="old - young"),
            *of_sets(axis="race", pair="a - b", size=(0.2, 0.0, 0.4, 0.3)),
        ),
        LEANS,
        ("m is biased by perceived gender.", "on age nothing was found", "n race it cannot be told"),
        ("perceived gender and age",),
    ),
    Case(
        "three groups",
        audit(
            *of_sets(axis="tone", pair="dark - light", gap=(-0.7, -0.9, -0.5, 0.0001), size=(0.72, 0.5, 0.9, 0.001)),
            *of_sets(axis="tone", pair="dark - medium"),
            *of_sets(axis="tone", pair="light - medium", gap=(0.3, 0.1, 0.5, 0.01), size=(0.3, 0.1, 0.5, 0.01)),
        ),
        LEANS,
        ("m is biased by perceived tone.", "labelled light", "labelled dark"),
        ("labelled medium come",),
    ),
    Case(
        "few subjects",
        audit(*of_sets(gap=(0.5, -0.4, 1.4, 0.25), size=(0.5, 0.0, 1.5, 0.2), n=3)),
        UNKNOWN,
        ("cannot tell", "cannot be ruled out"),
        ("is biased", "No bias"),
    ),
    Case(
        "no sets",
        audit(row("max_skew", (0.34, 0.32, 0.36, 0.001), **SKEW | {"pool": "natural", "chance": 0.1})),
        LEANS,
        ("m is biased", "1.4 times its fair share [1.4, 1.4], where luck gives 1.1 times"),
        ("sets",),
    ),
    Case(
        "an interval of no width",
        audit(row("max_skew", (0.2, 0.2, 0.2, 0.9), **SKEW)),
        UNKNOWN,
        ("no interval",),
        ("up to 0.00", "No bias"),
    ),
    Case(
        "a placebo as large as the axis",
        audit(*of_sets(gap=(0.4, 0.3, 0.5, 0.001), size=(0.42, 0.32, 0.52, 0.001), placebo=(0.02, -0.1, 0.14, 0.7))),
        LEANS,
        (
            "reacts to the visible difference",
            "not clearly more than to a bag (0.02 spreads [−0.10, 0.14] more",
        ),
        ("is biased",),
    ),
    Case(
        "a placebo much smaller",
        audit(*of_sets(gap=(0.8, 0.6, 1.0, 0.0001), size=(0.8, 0.6, 1.0, 0.001), placebo=(0.6, 0.4, 0.8, 0.0001))),
        LEANS,
        ("m is biased by perceived gender.", "4.0 times as much as to a bag (0.60 spreads [0.40, 0.80] more)"),
        ("no more than",),
    ),
    Case(
        "the truth agrees",
        with_truth(QUIRKS, spread_out(0.8) * 3 + spread_out(0.3, seed=1)),
        LEANS,
        ("m is biased by perceived gender.", "follow those that were stated (correlation 0.9"),
        ("reacts", "put in"),
    ),
    Case(
        "the truth does not agree",
        with_truth(QUIRKS, spread_out(0.8, seed=5)),
        LEANS,
        ("reacts to the visible difference", "do not clearly follow those that were stated"),
        ("is biased", "put in"),
    ),
    Case(
        "contrast: a blind model on a lopsided pool",
        contrast(
            row("max_skew", (0.6, 0.55, 0.65, 0.001), **SKEW),
            row("max_skew", (0.2, 0.17, 0.23, 0.6), **SKEW | {"sd": 0.02}),
            row("bias_at_k", (0.0, -0.03, 0.03, 0.9), k=5),
        ),
        NOTHING,
        ("No bias", "only the person differs (edited pictures)"),
        ("is biased",),
    ),
    Case(
        "contrast: a model that prefers a group",
        contrast(
            row("max_skew", (0.2, 0.17, 0.23, 0.6), **SKEW),
            row("max_skew", (0.5, 0.45, 0.55, 0.001), **SKEW),
            row("bias_at_k", (0.4, 0.3, 0.5, 0.001), k=5),
        ),
        LEANS,
        ("m is biased by perceived gender where only the person differs (edited pictures).",),
    ),
    Case(
        "captions with references",
        captions(row("lic", (8.0, 6.0, 10.0, 0.001), n=900), row("lic_m", (40.0, 38.0, 42.0, 0.001), chance=25.0)),
        LEANS,
        ("The captions of nic amplify bias by perceived gender.", "words that name a group were masked", "8.0 points"),
        ("No word was masked", "no amplification"),
    ),
    Case(
        "captions without references",
        captions(row("lic_m", (40.0, 38.0, 42.0, 0.001), chance=25.0)),
        LEANS,
        ("The captions of nic give away perceived gender.", "no reference captions were given", "no amplification"),
        ("amplify bias",),
    ),
    Case(
        "captions that were not masked",
        captions(row("lic", (8.0, 6.0, 10.0, 0.001)), mask=False),
        LEANS,
        ("No word was masked",),
        ("were masked",),
    ),
    Case(
        "captions of an axis that no lexicon names",
        captions(row("lic", (0.1, -0.2, 0.4, 0.6), sd=0.1), masked=False),
        UNKNOWN,
        ("No word was masked", "words that name a group were not masked, and could hide a difference"),
        ("were masked", "would have been found"),
    ),
    Case(
        "captions of three models, of which luck favours one",
        captions(
            *(
                row("lic", (v, v - 1.5, v + 1.5, p), model=m)
                for m, v, p in (("a", 1.6, 0.04), ("b", 0.1, 0.9), ("c", 0.2, 0.8))
            )
        ),
        UNKNOWN,
        ("cannot be told", "corrected for 3 models"),
        ("The captions of a amplify",),
    ),
    Case(
        "an even dataset",
        dataset(*shares(0.505, 0.01, 0.4, 10_000)),
        NOTHING,
        ("Nothing in photos is lopsided",),
        ("is lopsided by",),
    ),
    Case(
        "a small dataset",
        dataset(*shares(0.55, 0.1, 0.3, 90)),
        UNKNOWN,
        ("cannot be told",),
        ("photos is lopsided.", "Nothing"),
    ),
    Case(
        "a lopsided dataset",
        dataset(
            *shares(0.7, 0.03, 0.0001, 900), row("word_distance", (0.3, 0.25, 0.35, 0.001), chance=0.1, **DISTANCE)
        ),
        LEANS,
        (
            "photos is lopsided.",
            "male has 70% of the images where 50% would be even",
            "The words lean to groups of gender",
        ),
        ("female has",),
    ),
    Case(
        "a large dataset that is hardly lopsided",
        dataset(*shares(0.51, 0.002, 0.0001, 900_000)),
        SMALL,
        ("too little to matter", "5 points"),
        ("photos is lopsided.",),
    ),
    Case(
        "a filter that is even",
        filters(*filter_rows(0.105, 0.09, 0.12, 0.8)),
        NOTHING,
        ("would have been found",),
        ("harder",),
    ),
    Case(
        "a filter that is not",
        filters(*filter_rows(0.3, 0.25, 0.35, 0.001)),
        LEANS,
        (
            "Filters are harder on some groups",
            "sharp takes female more than is even on gender (20.0 points [15.0, 25.0]",
        ),
    ),
    Case(
        "a filter seen too seldom",
        filters(*filter_rows(0.2, 0.02, 0.38, 0.2)),
        UNKNOWN,
        ("cannot be told",),
        ("harder",),
    ),
    Case(
        "two models that differ",
        compared(row("max_skew", (-0.3, -0.4, -0.2, 0.001), k=12)),
        LEANS,
        ("A and B differ.", "B has more MaxSkew@12 than A", "A - B is −0.30"),
    ),
    Case(
        "two models of which one leans the other way",
        compared(row("bias_at_k", (-0.7, -0.8, -0.6, 0.001), k=5)),
        LEANS,
        ("A and B differ.", "A and B differ in Bias@5", "A - B is −0.70"),
        ("has more",),
    ),
    Case(
        "two models that differ on an intersection alone",
        compared(
            row("max_skew", (0.01, -0.02, 0.04, 0.6), k=12, sd=0.01),
            row("max_skew", (-0.3, -0.4, -0.2, 0.001), k=12, axis="gender x age"),
        ),
        LEANS,
        ("A and B differ.", "On gender × age, B has more MaxSkew@12 than A"),
    ),
    Case(
        "two models of which luck favours one",
        compared(row("max_skew", (-0.01, -0.05, 0.03, 0.0001), chance=-0.3, k=12)),
        LEANS,
        ("A has more MaxSkew@12 than B beyond chance: A - B is −0.01", "where chance gives −0.30"),
        ("B has more",),
    ),
    Case(
        "two models, their difference and its margin in one unit",
        compared(row("recall_gap", (0.03, -0.02, 0.08, 0.2))),
        UNKNOWN,
        ("A - B is 0.03 (95% interval −0.02 to 0.08)", "more than the margin (0.05)"),
        ("points",),
    ),
    Case(
        "two models whose sets are ranked alike",
        compared(row("outranks", (0.03, 0.0, 0.06, 0.2), group="female - male")),
        NOTHING,
        ("inside the margin (0.056)",),
        ("56 of 100",),
    ),
    Case(
        "two models within the margin",
        compared(row("max_skew", (0.02, 0.01, 0.03, 0.001), k=12)),
        SMALL,
        ("differ by too little to matter",),
        ("A and B differ.",),
    ),
    Case(
        "two models that few subjects compare",
        compared(row("max_skew", (0.1, -0.2, 0.4, 0.5), k=12, n=5)),
        UNKNOWN,
        ("cannot be told",),
        ("do not differ",),
    ),
    Case(
        "only the ranks inside sets lean",
        audit(
            *of_sets(gap=(0.15, 0.0, 0.3, 0.06), size=(0.15, 0.0, 0.3, 0.06), ranks=(0.36, 0.29, 0.43, 0.0001)),
        ),
        LEANS,
        (
            "labelled male outranks its twin labelled female in 64 of 100 sets [57, 71], where chance gives 50",
            "the margin is 56 of 100 sets",
            "By this number it prefers pictures labelled male",
        ),
        ("14 of 100", "no common direction", "is biased"),
    ),
    Case(
        "ranks inside sets that say little",
        audit(row("outranks", (0.55, 0.45, 0.65, 0.4), chance=0.5, group="female - male")),
        UNKNOWN,
        ("up to 65 of 100 sets cannot be ruled out, where 56 of 100 sets is the margin",),
    ),
    Case(
        "beyond chance, and nobody has said how much is too much",
        audit(row("exposure_ratio", (0.5, 0.4, 0.6, 0.0001), chance=0.95)),
        UNKNOWN,
        ("at 0.450 [0.350, 0.550] from it, but no margin is stated for it",),
        ("margin of ",),
    ),
    Case(
        "a placebo on other pictures than those the verdict is about",
        audit(
            *(
                row(metric, number, group=group, pool=pool, **null)
                for pool, gap, excess in (
                    ("generated", (0.0, -0.05, 0.05, 0.9), (-0.3, -0.4, -0.2, 0.9)),
                    ("edited", (0.8, 0.6, 1.0, 0.0001), (0.6, 0.4, 0.8, 0.0001)),
                )
                for metric, number, group, null in (
                    ("standard_gap", gap, "female - male", {}),
                    ("standard_gap_size", gap, "female - male", {"chance": 0.05, "sd": 0.05}),
                    ("placebo_excess", excess, None, {}),
                )
            )
        ),
        LEANS,
        ("m is biased by perceived gender where only the person differs", "0.60 spreads [0.40, 0.80] more"),
        ("no more than to",),
    ),
    Case(
        "a second metric beyond chance inside its margin",
        audit(
            row("max_skew", (0.2, 0.18, 0.22, 0.5), **SKEW),
            row("ndkl", (0.012, 0.011, 0.013, 0.0001), chance=0.010, sd=0.0002),
        ),
        SMALL,
        ("Its NDKL is beyond chance (p < 0.001 after correction), at 0.002 [0.001, 0.003] with a margin of 0.005",),
        ("too (", "without a margin"),
    ),
    Case(
        "a second metric beyond chance, perhaps beyond its margin",
        audit(
            row("max_skew", (0.2, 0.18, 0.22, 0.5), **SKEW),
            row("bias_at_k", (0.09, 0.02, 0.16, 0.0001), k=12),
        ),
        UNKNOWN,
        ("Its Bias@12 is beyond chance",),
        ("too small to matter",),
    ),
    Case(
        "predictions that lean",
        classified(row("object_recall_gap", (0.2, 0.1, 0.3, 0.0001), chance=0.05, n=400)),
        LEANS,
        ("The predictions of net lean.", "gap in recall of objects on gender is 15.0 points"),
        ("drawn on",),
    ),
    Case(
        "predictions that only react to drawn pictures",
        classified(
            row("leakage_amplification", (0.001, -0.004, 0.006, 0.6), sd=0.002, n=400),
            row("artefact_delta", (30.0, 15.0, 45.0, 0.0001), chance=2.0, n=400),
        ),
        NOTHING,
        ("The predictions of net do not lean", "Its predictions move when pictures are drawn on", "28.0 percent"),
        ("net lean.",),
    ),
    Case(
        "predictions of which nothing else is known",
        classified(row("artefact_delta", (30.0, 15.0, 45.0, 0.0001), chance=2.0, n=400)),
        UNKNOWN,
        ("Whether the predictions of net lean cannot be told", "move when pictures are drawn on"),
    ),
    Case(
        "faces",
        audit(
            row("person_preference_gap", (0.2, 0.15, 0.25, 0.001), chance=0.01, variant="own_label"),
            row("zero_shot_accuracy_gap", (0.01, 0.0, 0.03, 0.4), chance=0.01, variant="mean"),
            suite="faces",
        ),
        LEANS,
        ("Person preference gap of m is beyond chance on gender", "19.0 points"),
        ("biased", "sets"),
    ),
    Case(
        "faces without a difference",
        audit(
            row("zero_shot_accuracy_gap", (0.01, 0.0, 0.03, 0.4), chance=0.01, sd=0.008, variant="mean"), suite="faces"
        ),
        NOTHING,
        ("would have been",),
        ("beyond chance on",),
    ),
    Case(
        "binding",
        audit(row("binding_drop", (0.12, 0.08, 0.16, 0.001), variant="2_person", pool=None), suite="binding"),
        LEANS,
        ("Binding drop of m is beyond chance on gender", "12.0 points [8.0, 16.0]", "margin is 5 points"),
        ("is biased",),
    ),
    Case(
        "a repair that only halves the scores",
        repair(BEFORE, BEFORE),
        LEANS,
        ("The repair (m + fix) made no difference",),
        ("worked", "helped", "in part", "had not seen"),
        repair=True,
    ),
    Case(
        "a repair after which a gap inside the margin is larger",
        repair(
            of_sets(size=(0.01, 0.0, 0.02, 0.4), each=[0.01] * 28),
            of_sets(size=(0.05, 0.03, 0.07, 0.01), each=[0.05] * 28),
        ),
        NOTHING,
        (
            "The repair (m + fix) had nothing to repair",
            "went from 0.01 spreads to 0.05 spreads, inside the margin of 0.2",
            "0.01 spreads [0.00, 0.02] to 0.05 spreads [0.03, 0.07]",
        ),
        ("worse", "harm", "−"),
        repair=True,
    ),
    Case(
        "a repair that works, on subjects it had not seen",
        repair(
            BEFORE,
            of_sets(size=(0.05, 0.0, 0.12, 0.4), each=spread_out(0.05)),
            fitted_on={"subjects": ["other", "another"]},
        ),
        LEANS,
        ("The repair (m + fix) worked, tested on 28 subjects that it had not seen", "inside the margin of 0.2 spreads"),
        ("flatters",),
        repair=True,
    ),
    Case(
        "a repair that leaves half, with six subjects",
        repair(leaning(0.9, 0.5, 1.5, n=6), leaning(0.45, 0.1, 0.8, n=6)),
        LEANS,
        ("repair (m + fix)",),
        ("worked", "had not seen"),
        repair=True,
    ),
    Case(
        "a repair that leaves half, with many subjects",
        repair(BEFORE, leaning(0.45, 0.35, 0.55)),
        LEANS,
        ("helped, but not fully", "not shown to be inside the margin"),
        ("worked",),
        repair=True,
    ),
    Case(
        "a repair fitted on the subjects it is judged by",
        repair(
            BEFORE,
            of_sets(size=(0.05, 0.0, 0.12, 0.4), each=spread_out(0.05)),
            fitted_on={"subjects": [f"s{i}" for i in range(28)]},
        ),
        LEANS,
        ("worked, tested on the very subjects it was fitted on, which flatters it",),
        ("had not seen",),
        repair=True,
    ),
    Case(
        "a repair that does harm",
        repair(leaning(0.45, 0.35, 0.55), leaning(0.9, 0.7, 1.1)),
        LEANS,
        ("made things worse",),
        ("worked", "helped"),
        repair=True,
    ),
    Case(
        "a repair where there was nothing to repair",
        repair(of_sets(), of_sets()),
        NOTHING,
        ("had nothing to repair",),
        ("worked", "helped"),
        repair=True,
    ),
]


@pytest.fixture(scope="module", params=CASES, ids=lambda case: case.name)
def judged(request, tmp_path_factory) -> tuple[Case, BiasVerdict]:
    """A case and what is said of its folder, built once for both tests that look at it."""
    return request.param, request.param.build(tmp_path_factory.mktemp("case"))


def test_each_folder_gives_its_outcome(judged):
    case, made = judged
    assert made.outcome is case.outcome, made.text
    for phrase in case.must:
        assert phrase in made.text + " ".join(answer for _, answer in made.answers), made.text
    for phrase in case.must_not:
        assert phrase not in made.text, made.text


def test_each_paragraph_is_short_and_whole(judged):
    _, made = judged
    assert len(made.sentences) <= 6, made.text
    for sentence in [made.lead, *made.sentences, *(answer for _, answer in made.answers)]:
        assert (
            sentence[0].isupper()
            or sentence[0].isdigit()
            or sentence.startswith(("m ", "m is", "photos", "nic", "a,", "a:"))
        ), sentence
        assert sentence.endswith("."), sentence
        for wrong in ("nan", "None", "1 subjects", "1 images", "  ", "..", " 0.00 cannot", "()", "times in 1,000"):
            assert wrong not in sentence, sentence


def test_every_outcome_and_kind_is_in_the_table():
    assert len(CASES) >= 25
    assert {case.outcome for case in CASES} == set(Conclusion)


def test_the_level_of_the_intervals_is_the_folders_own(tmp_path):
    made = verdict_of(folder(tmp_path / "a", ONE_WAY, settings=replace(AuditConfig(), level=0.9)))
    assert "90% intervals" in made.text
    assert "95%" not in made.text + " ".join(answer for _, answer in made.answers)


def test_the_page_shows_what_a_terminal_prints(tmp_path):
    home = folder(tmp_path / "a", ONE_WAY)
    text = write(home, tmp_path / "p.html").read_text(encoding="utf-8")
    assert verdict_of(home).lead in text
    assert "does not show that a model is fair" in text


def test_what_luck_gives_does_not_depend_on_an_unrelated_row(tmp_path):
    """A correction over more rows moves a p-value towards 1, and says nothing of the side of chance."""
    near = row("max_skew", (0.300, 0.280, 0.320, 0.52), chance=0.301, sd=0.01, k=10, n=200)
    other = row("ndkl", (0.050, 0.045, 0.055, 0.48), chance=0.0495, sd=0.002, n=200)
    for number, rows in enumerate(([near], [near, other])):
        made = verdict_of(folder(tmp_path / str(number), rows))
        assert made.outcome is NOTHING
        assert "less lopsided than luck" not in made.text


@pytest.mark.parametrize("turned", [False, True])
def test_a_verdict_stands_on_the_card_of_its_model_alone(tmp_path, turned):
    """The audit that the verdict is about need not come first: one without a chance level is passed over."""
    judged = folder(tmp_path / "judged", ONE_WAY, model="judged")
    silent = folder(tmp_path / "silent", [row("max_skew", (0.3, 0.2, 0.4, None), chance=None)], model="silent")
    write([silent, judged] if turned else [judged, silent], tmp_path / "p.html")
    said = {
        name: (tmp_path / "p_files" / f"model_card_{name}.md").read_text(encoding="utf-8")
        for name in ("judged", "silent")
    }
    assert "judged is biased by perceived gender." in said["judged"]
    assert "is biased" not in said["silent"]


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize(("shift", "words"), [(-0.06, "helped, but not fully"), (0.06, "made things worse")])
def test_a_change_is_told_alike_on_either_side_of_chance(tmp_path, sign, shift, words):
    rng = np.random.default_rng(0)
    before = rng.normal(0.4, 0.2, 40)
    pair = []
    for name, values in (("before", before), ("after", before + shift + rng.normal(0, 0.01, 40))):
        keys = {"metric": "bias_at_k", "variant": "equipoise", "pool": "natural", "axis": "gender", "k": 5}
        findings, values = Findings("contrast", name), sign * values
        findings.add(summarise(values, null_value=0.0), **keys)
        findings.add_queries(values, [f"q{i}" for i in range(40)], **keys)
        about = AuditOf("contrast", {"table": "t", "model": name}, AuditConfig(), ["gender"], {"table": "t"})
        with audit_folder(tmp_path / name, about) as run:
            findings.save(run.stage)
            run.publish()
        pair.append(tmp_path / name)
    made = verdict_of(pair, before_after=pair)
    answer = dict(made.answers)[REPAIRED]
    assert words in made.text
    assert f"after - before, paired: {'−' if shift < 0 else '+'}0.06" in answer
    assert "38.8 points" in answer


@pytest.mark.parametrize("axis", ["placebo_bag", "bag"])
def test_a_placebo_is_none_of_the_axes_whatever_it_is_called(tmp_path, axis):
    pair = []
    for name, size in (("before", 0.9), ("after", 0.5)):
        bag = [{**one, "codes": codes_of([note("placebo_axis")])} for one in leaning(size, size - 0.2, size + 0.2)]
        rows = [*BEFORE, *({**one, "axis": axis} for one in bag)]
        pair.append(folder(tmp_path / name, rows, model=name))
    made = verdict_of(pair, before_after=pair)
    assert "The repair (after) made no difference" in made.text
    assert "bag" not in dict(made.answers)[REPAIRED]
    before = read_given(pair).series[0]
    assert set(bias_rows(before)["axis"]) == {"gender"}
    bound = Bound(name="gaps", metric="standard_gap_size", most=2.0)
    told = {"intended_use": "search", "decided_by": "us", "decided_on": "today", "groups": {"gender": ("f", "m")}}
    assert {check.axis for check in check_policy(Policy(**told, bounds=(bound,)), [before]).checks} == {"gender"}


def test_a_wider_margin_makes_a_lean_too_small(tmp_path):
    rows = of_sets(gap=(0.4, 0.3, 0.5, 0.0001), size=(0.42, 0.32, 0.52, 0.001))
    assert verdict_of(folder(tmp_path / "a", rows)).outcome is LEANS
    wide = folder(tmp_path / "b", rows, settings=AuditConfig(margin=0.6))
    assert verdict_of(wide).outcome is SMALL
    assert "0.6 spreads" in verdict_of(wide).text


@pytest.mark.parametrize(("found", "metric"), [(0.87, "abs_bias_at_k"), (0.57, "max_skew")])
def test_the_figure_shows_the_number_that_the_verdict_rests_on(tmp_path, found, metric):
    """Natural pools can lean by one metric and not by the main one; a reader looks for what the first sentence says."""
    chance = 0.57
    p = 0.0002 if found > chance else 0.5
    rows = [
        row("max_skew", (0.2, 0.1, 0.3, 0.999), chance=0.4, k=2),
        row("abs_bias_at_k", (found, found - 0.1, min(1.0, found + 0.1), p), chance=chance, k=2),
    ]
    for one in ("cook", "pilot"):
        of = {"subject": one, "n": 1, "k": 2}
        rows += [
            row("max_skew", (0.2, None, None, 0.9), chance=0.4, sd=0.1, **of),
            row("abs_bias_at_k", (1.0, None, None, 0.4), chance=0.5, sd=0.3, **of),
        ]
    write(folder(tmp_path / "a", rows), tmp_path / "p.html")
    figure = pd.read_csv(tmp_path / "p_files" / "headline.csv")
    assert figure["metric"].unique().tolist() == [metric]


def test_a_mean_and_a_majority_that_disagree_are_told_as_they_are(tmp_path):
    rows = of_sets(gap=(0.4, 0.2, 0.6, 0.001), size=(0.9, 0.7, 1.1, 0.001), ranks=(0.46, 0.4, 0.52, 0.2))
    text = verdict_of(folder(tmp_path / "a", rows)).text
    assert "labelled female score higher than their twins labelled male on average" in text
    assert "in only 46 of 100 sets [40, 52]" in text
    assert "54 of 100" not in text


def test_a_repair_is_judged_where_only_the_person_differs_else_each_pool_is_named(tmp_path):
    def told(home, pools):
        pair = []
        for name, place in (("before", 0), ("after", 1)):
            rows = [
                row("max_skew", (v[place], v[place] - 0.05, v[place] + 0.05, 0.001), **SKEW | {"pool": pool})
                for pool, v in pools.items()
            ]
            pair.append(folder(home / name, rows, model=name, suite="contrast"))
        return verdict_of(pair, before_after=pair).text

    pools = {"natural": (1.0, 0.4), "edited": (0.5, 0.8)}
    assert "The repair (after) made things worse" in told(tmp_path / "a", pools)
    text = told(tmp_path / "b", {"natural": (1.0, 0.4), "balanced": (0.5, 0.8)})
    assert "helped on gender on natural pictures and did harm on gender on balanced pictures" in text


def test_only_numbers_of_the_same_k_are_set_side_by_side(tmp_path):
    def at(home, **values):
        rows = [row("max_skew", (v, v - 0.05, v + 0.05, 0.001), **SKEW | {"k": int(k[1:])}) for k, v in values.items()]
        return folder(tmp_path / home, rows, model=home)

    one, two, deep = at("one", k10=0.9, k100=0.2), at("two", k10=0.15, k100=0.4), at("deep", k100=0.3)
    text = verdict_of([one, two]).text
    assert "two, asked the same" in text
    assert "(one: 2." not in text
    assert dict(verdict_of([one, deep], before_after=(one, deep)).answers)[REPAIRED].startswith("It cannot be said")


def test_of_three_groups_a_preference_has_the_size_of_its_own_pair(tmp_path):
    none = {"gap": (0.0, -0.3, 0.3, 0.95)}
    pairs = {
        "dark - light": of_sets(size=(0.9, 0.7, 1.1, 0.001), **none),
        "dark - medium": of_sets(size=(0.4, 0.3, 0.5, 0.001), gap=(-0.35, -0.45, -0.25, 0.0001)),
        "light - medium": of_sets(**none),
    }
    rows = [{**one, "axis": "skin_tone", "group": pair} for pair, some in pairs.items() for one in some]
    first = folder(tmp_path / "x", [{**one, "axis": "skin_tone"} for one in ONE_WAY], model="x")
    text = verdict_of([first, folder(tmp_path / "y", rows, model="y")]).text
    assert "y, asked the same, prefers pictures labelled medium to their twins by 0.35 spreads" in text
    assert "between dark and medium" in text


def test_a_size_within_chance_stands_beside_its_own_interval():
    numbers = {"value": 0.02, "null_mean": 0.05, "null_sd": 0.05, "ci_low": 0.0, "ci_high": 0.1, "n": 28}
    reading = read_row(pd.Series({**numbers, "metric": "standard_gap_size"}), 0.7)
    assert size_words(reading) == "0.02 spreads [0.00, 0.10]"  # not -0.03 beside the interval of 0.02
    assert reading.beyond == pytest.approx(-0.03)
    assert not read_row(reading.row, 0.001).detected  # chance gives more, whatever a p-value says
