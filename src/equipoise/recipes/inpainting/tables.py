"""What the study of inpainting shows: the paper's tables, each arm over its seeds, and the test of parity."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from equipoise.data import Table, read_results
from equipoise.data.published import doubt_sentence, published_numbers
from equipoise.measure.groups import Groups
from equipoise.measure.stats import holm, mean_interval
from equipoise.recipes.inpainting.arms import ARMS, CAPTION_ARMS, EVERY_ARM, SECOND_ARMS, TONE_ARMS
from equipoise.recipes.inpainting.parity import parity_gap
from equipoise.recipes.studies.common import paper_table
from equipoise.recipes.studies.frame import StudyHome
from equipoise.report.study import StudyPart, StudyTable, measured_cells

PAIRS = {"gender": ("male", "female"), "skin_tone": ("light", "dark")}
SYNTHETIC = "synthetic"
_MASKED, _REDRAWN = "person-masked", "inpainted"
_NUMBERS: dict[str, tuple[dict[str, str], float]] = {
    "mAP": ({"metric": "mean_average_precision"}, 100.0),
    "Ratio, raw": ({"metric": "ratio", "variant": "raw", "pool": _MASKED}, 1.0),
    "Ratio": ({"metric": "ratio", "variant": "folded", "pool": _MASKED}, 1.0),
    "Leakage": ({"metric": "leakage_amplification"}, 100.0),
    "Delta": ({"metric": "artefact_delta", "pool": _REDRAWN}, 1.0),
}
"""What is shown of an audit, under the paper's name (``Ratio`` is folded there), and by what it is multiplied."""


def parts_of(home: StudyHome) -> list[StudyPart]:
    """Everything that the study shows."""
    audits = _audits(home)
    parts = [_main(audits)]
    if home.options.scale == "mini":
        parts += [_drawn(home), _captioners(home)]
    parts.append(_artefacts(audits, home))
    parts += [*_second(audits), *_tones(audits, home)]
    note = "As printed, with the other networks."
    names = (
        ("T4.1", "Classifiers, COCO"),
        ("T4.2", "Captioners, gender"),
        ("T4.5", "Classifiers, OpenImages"),
        ("T4.7", "Captioners, skin tone"),
    )
    published = tuple(paper_table("inpainting", name, f"{title} (Table {name[1:]})", digits=1) for name, title in names)
    parts.append(StudyPart("Published", "The paper's tables", (note,), published, (), "published"))
    return parts


def _audits(home: StudyHome) -> dict[str, dict[str, Path]]:
    """The folders of audits, by arm and seed."""
    folders: dict[str, dict[str, Path]] = {}
    for name in EVERY_ARM:
        steps = home.done(f"audit-{name}-*")
        seeds = {step.removeprefix(f"audit-{name}-"): home.step(step) for step in steps}
        if seeds:
            folders[name] = seeds
    return folders


def _main(audits: dict[str, dict[str, Path]]) -> StudyPart:
    arms = {name: some for name, some in audits.items() if name in ARMS and name != "planted"}
    frame = _over_seeds(arms, ("mAP", "Ratio, raw", "Ratio", "Leakage"), "T4.1", "COCO / gender / ")
    tables = [
        StudyTable("T4.1", "Each way to train, over its seeds", frame, digits=2),
        StudyTable("T4.1-seeds", "Each seed", _by_seed(arms, ("mAP", "Ratio", "Leakage")), digits=2),
    ]
    texts = [
        "Ratio: men over women among predictions for test photographs whose person is masked; 1 is parity, and folded "
        "is max(r, 1/r), as the paper's. Leakage: how much better the gender is read off predicted things and places "
        "than off annotated ones, in points. Intervals over seeds are t; of one seed over photographs. The published "
        "numbers are ResNet-50's on COCO: for comparison of directions, not of numbers."
    ]
    verdict = "no S_synthetic"
    if SYNTHETIC in arms:
        compared, left_out = parity_rows(arms)
        sentence, verdict = parity_sentence(compared, left_out)
        texts.append(sentence)
        title = "Farther from parity than S_synthetic: |ln Ratio|, paired by photograph"
        tables.append(StudyTable("parity", title, compared, digits=2))
    return StudyPart("Table 4.1", "Classifiers by gender", tuple(texts), tuple(tables), (), verdict)


def _second(audits: dict[str, dict[str, Path]]) -> list[StudyPart]:
    """Table 4.5, where the second world was made."""
    arms = {name: some for name, some in audits.items() if name in SECOND_ARMS}
    if not arms:
        return []
    frame = _over_seeds(arms, ("mAP", "Ratio, raw", "Ratio", "Leakage"), "T4.5", "OpenImages / gender / ")
    compared, left_out = parity_rows({name.removeprefix("second-"): some for name, some in arms.items()})
    sentence, verdict = parity_sentence(compared, left_out)
    texts = (
        "A second world stands for the paper's second dataset: the same things and places, but the leans are dealt to "
        "others of them. One picture is drawn of each photograph and gender, so that no filter chooses. The published "
        "numbers are ResNet-50's on OpenImages.",
        sentence,
    )
    tables = (
        StudyTable("T4.5", "Five ways to train, on the second world", frame, digits=2),
        StudyTable("parity-second", "Farther from parity than S_synthetic, second world", compared, digits=2),
    )
    return [StudyPart("Table 4.5", "A second world", texts, tables, (), verdict)]


def _tones(audits: dict[str, dict[str, Path]], home: StudyHome) -> list[StudyPart]:
    """Tables 4.6 and 4.7."""
    parts = []
    arms = {name: some for name, some in audits.items() if name in TONE_ARMS}
    if arms:
        frame = _over_seeds(arms, ("mAP", "Leakage"), "T4.6", "COCO / skin tone / ")
        about = "Classifiers of things, places and skin tone; the published numbers are ResNet-50's."
        tables = (StudyTable("T4.6", "Photographs, and the same drawn with each skin tone", frame, digits=1),)
        parts.append(StudyPart("Table 4.6", "Skin tone", (about,), tables, (), "skin tone"))
    rows = [row for name in TONE_ARMS for row in _caption_rows(home, name, "T4.7", "skin tone")]
    if rows:
        about = (
            "Captioners of the same two sets. Words of skin tone (lexicon skin_tone) are hidden from the classifier of "
            "LIC; METEOR is the approximation without WordNet, LIC is by the linear screen (fast). The published "
            "numbers are the Transformer's."
        )
        tables = (StudyTable("T4.7", "Captioners by skin tone", pd.DataFrame(rows), digits=2),)
        parts.append(StudyPart("Table 4.7", "Captioners by skin tone", (about,), tables, (), "captioners by tone"))
    return parts


def parity_rows(arms: Mapping[str, Mapping[str, Path]]) -> tuple[pd.DataFrame, list[str]]:
    """Each arm against S_synthetic: how much farther its mean |ln Ratio| is from 0, with p adjusted over the arms.

    ``arms`` holds the folders of audits by arm and seed; the seeds that both sides have are compared. Second, the arms
    that have none of them.
    """
    seen = {
        name: {seed: said for seed, folder in folders.items() if (said := _masked(folder)) is not None}
        for name, folders in arms.items()
    }
    mine = seen.pop(SYNTHETIC, {})
    rows, p, left_out = [], [], []
    for name, groups in seen.items():
        shared = [seed for seed in groups if seed in mine]
        if not shared:
            left_out.append(ARMS[name].published)
            continue
        gap = parity_gap([groups[seed] for seed in shared], [mine[seed] for seed in shared], PAIRS["gender"])
        p.append(1.0 if gap.p_value is None else float(gap.p_value))
        rows.append({"arm": ARMS[name].published, "seeds": len(shared)} | measured_cells(gap.row()))
    frame = pd.DataFrame(rows)
    return (frame.assign(p_adjusted=holm(p)) if len(frame) else frame), left_out


def parity_sentence(rows: pd.DataFrame, left_out: Sequence[str] = ()) -> tuple[str, str]:
    """Whether S_synthetic is nearest to parity, said plainly, and the same in few words.

    >>> parity_sentence(pd.DataFrame(), ["Original"])[0]
    'Nothing could be compared with S_synthetic: no seed of Original says a gender of masked photographs on both sides.'
    """
    why = "no seed of {} says a gender of masked photographs on both sides."
    if not len(rows):
        about = f": {why.format(', '.join(left_out))}" if left_out else "."
        return f"Nothing could be compared with S_synthetic{about}", "nothing compared"
    text, few = _nearest(rows)
    return (f"{text} Left out, because {why.format(', '.join(left_out))}" if left_out else text), few


def _nearest(rows: pd.DataFrame) -> tuple[str, str]:
    nearer = rows[rows["measured"] < 0]
    clear = rows[(rows["measured"] > 0) & (rows["p_adjusted"] < 0.05)]
    open_ = rows[~rows.index.isin(clear.index)]
    if not len(nearer) and len(clear) == len(rows):
        return (
            f"S_synthetic is nearest to parity: all {len(rows)} others are farther, each with p below .05 after Holm's "
            "adjustment.",
            "S_synthetic nearest",
        )
    names = ", ".join(f"{row['arm']} ({row['measured']:+.2f})" for row in open_.to_dict("records"))
    if ((rows["measured"] < 0) & (rows["p_adjusted"] < 0.05)).any():
        first = "S_synthetic is not the nearest to parity"
    else:  # which of them is truly nearer is open
        first = f"S_synthetic {'does not have' if len(nearer) else 'has'} the smallest distance"
    text = (
        f"{first}; that it is nearest is not shown: {len(clear)} of {len(rows)} others are clearly farther (p below "
        f".05 after Holm's adjustment), and these are not: {names}."
    )
    return text, "not shown to be nearest"


def _masked(folder: Path) -> Groups | None:
    if not (folder / "masked.csv").is_file():
        return None
    frame = pd.read_csv(folder / "masked.csv", dtype={"image_id": str}).sort_values("image_id")
    return Groups.from_values(frame["gender"].tolist(), list(PAIRS["gender"])) if "gender" in frame else None


def _value(folder: Path, name: str) -> dict[str, Any] | None:
    """One number of one audit, as the columns of a table."""
    keys, scale = _NUMBERS[name]
    rows = read_results(folder / "audit" / "results.parquet")
    for key, value in keys.items():
        rows = rows[rows[key] == value]
    records = rows.to_dict("records")
    return measured_cells(records[0], scale) if records else None


def _over_seeds(arms: dict[str, dict[str, Path]], names: Sequence[str], table: str, column: str) -> pd.DataFrame:
    rows: list[dict[str, Any]] = []
    for arm, seeds in arms.items():
        called = EVERY_ARM[arm].published
        for name in names:
            cells = [cells for folder in seeds.values() if (cells := _value(folder, name))]
            paper = _published(table, f"ResNet-50 / {called}", column + name)
            if cells or paper:
                rows.append({"arm": called, "what": name, "seeds": len(cells)} | _mean(cells, name) | paper)
    return pd.DataFrame(rows)


def _mean(cells: Sequence[dict[str, Any]], name: str) -> dict[str, Any]:
    """The mean over seeds with its t interval; of ratios that of the logarithm; one seed has its own interval."""
    if len(cells) < 2:
        return dict(cells[0]) if cells else {"measured": None}
    values = np.array([cell["measured"] for cell in cells], dtype=float)
    logs = name.startswith("Ratio")
    scaled = np.log(values) if logs else values
    ends = mean_interval(scaled)
    shown = [float(scaled.mean()), *(ends or ())]
    mean, *span = (math.exp(x) for x in shown) if logs else shown
    low, high = (max(1.0, span[0]) if name == "Ratio" else span[0], span[1]) if ends else (None, None)
    chances = [cell["chance"] for cell in cells if cell["chance"] is not None]
    return {
        "measured": mean,
        "low": low,
        "high": high,
        "chance": float(np.mean(chances)) if chances else None,
        "n": cells[0]["n"],
    }


def _by_seed(arms: dict[str, dict[str, Path]], names: Iterable[str]) -> pd.DataFrame:
    rows = [
        {"arm": ARMS[arm].published, "what": name, "seed": seed} | cells
        for arm, seeds in arms.items()
        for name in names
        for seed, folder in seeds.items()
        if (cells := _value(folder, name))
    ]
    return pd.DataFrame(rows)


def _published(table: str, row: str, column: str) -> dict[str, Any]:
    cell = published_numbers("inpainting").cell(table, row, column)
    if cell is None or pd.isna(cell["value"]):
        return {}
    doubt = doubt_sentence(str(cell["doubt"]))
    return {"published": float(cell["value"]), "published_at": f"{table}, {row}", "doubt": doubt}


def _drawn(home: StudyHome) -> StudyPart:
    from equipoise.recipes.inpainting.drawing import choices_table, right_shares

    rows = []
    for step, axes, wanted in (
        ("drawn-gender", ("gender",), None),
        ("drawn-tone", ("skin_tone",), 85.0),
        ("drawn-both", ("gender", "skin_tone"), 80.0),
    ):
        shares = right_shares(home.step(step), axes)
        reached = "" if wanted is None else "yes" if shares["measured"] >= wanted else "no"
        rows.append({"drawn": " and ".join(axes), "wanted, at least": wanted, "reached": reached} | shares)
    choices = choices_table(home.step("drawn-gender"))
    texts = (
        "Shares of drawn pictures, before any filter, in which mini:judge sees the wanted groups; intervals by "
        "photograph.",
        "Table 4.4: of the candidates of a photograph and group, each choice of filters takes one. A judge stands "
        "where the paper asked people about objects, skin tone and gender, so that its ratings are of another scale "
        "and are not set beside. The filter's score of objects and the judge's are of two models; CLIPScore is of the "
        "encoder that also chooses. n counts chosen pictures.",
    )
    tables = (
        StudyTable("drawn", "Drawn as asked?", pd.DataFrame(rows), digits=1),
        StudyTable("T4.4", "Choices of filters", choices, digits=1),
        paper_table("inpainting", "T4.4", "Table 4.4 as published", digits=2),
    )
    return StudyPart("Table 4.4", "The drawn pictures", texts, tables, (), f"{rows[1]['measured']:.0f}% of tones right")


_CAPTIONS = {"METEOR": ("meteor_approximate", 100.0), "CLIPScore": ("clip_score", 100.0), "LIC": ("lic", 1.0)}
"""What is shown of an audit of captions, under the paper's name, and by what it is multiplied."""


def _caption_rows(home: StudyHome, name: str, table: str, axis: str) -> list[dict[str, Any]]:
    """Quality and LIC of one arm's captions, one row per seed and number."""
    called = "LIBRA" if name == "libra" else EVERY_ARM[name].published
    rows: list[dict[str, Any]] = []
    for step in home.done(f"captions-{name}-*"):
        results = read_results(home.step(step) / "results.parquet")
        whole = results[results["group"].isna() & results["subject"].isna() & results["pool"].isna()]
        seed = step.rsplit("-", 1)[1]
        for head, (metric, scale) in _CAPTIONS.items():
            for row in whole[whole["metric"] == metric].head(1).to_dict("records"):
                paper = _published(table, f"Transformer / {called}", f"COCO / {axis} / {head}")
                rows.append({"arm": called, "seed": seed, "what": head} | measured_cells(row, scale) | paper)
    return rows


def _captioners(home: StudyHome) -> StudyPart:
    from equipoise.recipes.inpainting.captioning import caption_ratio

    rows: list[dict[str, Any]] = []
    for name in (*CAPTION_ARMS, "libra"):
        rows += _caption_rows(home, name, "T4.2", "gender")
        called = "LIBRA" if name == "libra" else ARMS[name].published
        for step in home.done(f"caption-{name}-*"):
            ratio = caption_ratio(home.step(step) / "masked.jsonl", PAIRS["gender"])
            if ratio is not None:
                cells = measured_cells(ratio.row())
                paper = _published("T4.2", f"Transformer / {called}", "COCO / gender / Ratio")
                seed = step.rsplit("-", 1)[1]
                rows.append({"arm": called, "seed": seed, "what": "Ratio"} | cells | paper)
    texts = (
        "The miniature captioner trained on each set. METEOR is the approximation without WordNet, LIC is by the "
        "linear screen (fast), Ratio is folded, on masked photographs; the published numbers are the Transformer's "
        "(ViT and GPT-2).",
    )
    table = StudyTable("T4.2", "Captioners by gender", pd.DataFrame(rows), digits=2)
    return StudyPart("Table 4.2", "Captioners", texts, (table,), (), "captioners")


def _artefacts(audits: dict[str, dict[str, Path]], home: StudyHome) -> StudyPart:
    rows: list[dict[str, Any]] = []
    for arm in ("original", "augment", SYNTHETIC, "planted"):
        for seed, folder in audits.get(arm, {}).items():
            cells = _value(folder, "Delta")
            if cells:
                paper = _published(
                    "T4.3", f"ResNet-50 / {ARMS[arm].published}", "COCO test original vs inpainted / gender / Delta"
                )
                rows.append({"model": "classifier", "arm": ARMS[arm].published, "seed": seed} | cells | paper)
    if home.options.scale == "mini":
        rows += _caption_deltas(home)
    frame = pd.DataFrame(rows)
    planted = frame[frame["arm"] == ARMS["planted"].published] if len(frame) else frame
    texts = [
        "Delta: how far the Ratio of predictions moves, in percent, when one body part of each test photograph is "
        "drawn anew with its own caption."
    ]
    if len(planted):
        found = "found" if (planted["p"] < 0.05).all() else "not found"
        texts.append(
            f"The arm {ARMS['planted'].published} learnt from drawn pictures that all have a mark, and its redrawn "
            f"test photographs have it, too: what the test must find. It is {found} in every seed (p below .05)."
        )
    title = "Does a model see that a picture was drawn on?"
    table = StudyTable("T4.3", "Artefact test", frame, digits=1)
    return StudyPart("Table 4.3", title, tuple(texts), (table,), (), "artefacts")


def _caption_deltas(home: StudyHome) -> list[dict[str, Any]]:
    from equipoise.errors import InputError
    from equipoise.recipes.inpainting.captioning import caption_delta

    sources = Table.open(home.step("parts") / "plain").to_pandas(["image_id", "source_id"])
    origin = dict(zip(sources["image_id"], sources["source_id"], strict=True))
    rows = []
    for arm in ("original", "augment", SYNTHETIC):
        for step in home.done(f"caption-{arm}-*"):
            folder = home.step(step)
            try:
                delta = caption_delta(folder / "test.jsonl", folder / "parts.jsonl", origin, PAIRS["gender"])
            except InputError:  # no caption names one of the genders
                continue
            paper = _published(
                "T4.3", f"ClipCap / {ARMS[arm].published}", "COCO test original vs inpainted / gender / Delta"
            )
            keys = {"model": "captioner", "arm": ARMS[arm].published, "seed": step.rsplit("-", 1)[1]}
            rows.append(keys | measured_cells(delta.row()) | paper)
    return rows
