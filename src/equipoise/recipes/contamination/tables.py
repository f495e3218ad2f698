"""What the study of contamination shows: truth beside measured, trends with verdicts, controls, generations."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from equipoise.formatting import brackets, missing, p_plain, plain
from equipoise.recipes.contamination.measures import CAPTIONER_METRICS, CLIP_METRICS
from equipoise.recipes.contamination.settings import ARMS, settings_of
from equipoise.recipes.contamination.shown import gallery, shown_rows
from equipoise.recipes.contamination.trends import UniformityCheck, noise_share, trends_of, uniformity
from equipoise.recipes.studies.common import correlation_cells, paper_table
from equipoise.recipes.studies.frame import StudyHome
from equipoise.report.charts import scatter
from equipoise.report.study import StudyFigure, StudyPart, StudyTable

SEES = 0.9
"""Zero-shot gender below this, and a CLIP enters no table: the bias of a model that cannot see is not a finding."""
BIAS = "gap-odds slope"
SIGHT = "zero-shot gender"


def parts_of(home: StudyHome) -> list[StudyPart]:
    """Everything that the study shows."""
    clips, captioners = (measured_models(home, kind) for kind in ("clip", "captioner"))
    clips, sight = _seeing(clips)
    truth = _truth(home)
    alphas = settings_of(home.options).shares
    parts = [_truth_part(clips, truth, sight, alphas)] if len(clips) else [_blind_part(sight)]
    parts += _trend_parts(clips, CLIP_METRICS, "CLIPs", "Tables 2 to 6", home)
    parts += _trend_parts(captioners, CAPTIONER_METRICS, "captioners", "Table 1", home)
    blurred = _blur_part(clips)
    parts += [blurred] if blurred else []
    again = _generation_part(home)
    parts += [again] if again else []
    return [*parts, *_shown_parts(home), _published()]


def measured_models(home: StudyHome, kind: str) -> pd.DataFrame:
    """What was measured of every model of a kind: ``arm``, ``seed``, ``alpha`` and the columns of its rows.

    What nothing was replaced in counts as the beginning of every arm.
    """
    frames = []
    for step in home.done(f"{kind}-*"):
        arm, seed, alpha = step.removeprefix(f"{kind}-").rsplit("-", 2)
        rows = pd.read_csv(home.step(step) / "rows.csv")
        frames.append(rows.assign(arm=arm, seed=int(seed), alpha=float(alpha)))
    if not frames:
        return pd.DataFrame(columns=["arm", "seed", "alpha", "metric", "axis", "group", "value", "chance"])
    return pd.concat(frames, ignore_index=True)


def _of_arm(frame: pd.DataFrame, arm: str) -> pd.DataFrame:
    """The models of an arm, those in which nothing was replaced among them."""
    return frame[frame["arm"].isin([arm, "real"])]


def _arms(frame: pd.DataFrame) -> list[str]:
    return [arm for arm in ARMS if (frame["arm"] == arm).any()]


def _seeing(clips: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The rows of CLIPs that can see, and the zero-shot accuracy of all."""
    sight = clips[clips["metric"] == SIGHT][["arm", "seed", "alpha", "value"]]
    able = sight[sight["value"] >= SEES][["arm", "seed", "alpha"]]
    return clips.merge(able, on=["arm", "seed", "alpha"]), sight


def _blind_part(sight: pd.DataFrame) -> StudyPart:
    frame = sight.rename(columns={"value": "measured"}).assign(chance=0.5)
    text = f"No CLIP tells women and men apart at {SEES:g} of the pictures, so nothing is said of their bias."
    table = StudyTable("sight", "Zero-shot gender", frame[["arm", "seed", "alpha", "measured", "chance"]])
    return StudyPart("Truth", "Does bias follow the data?", (text,), (table,), (), f"{len(sight)} CLIPs")


def _truth(home: StudyHome) -> pd.DataFrame:
    rows = []
    for path in sorted((home.folder / "steps").glob("data-*/truth.json")):
        arm, seed, alpha = path.parent.name.removeprefix("data-").rsplit("-", 2)
        truth = json.loads(path.read_text(encoding="utf-8"))
        rows.append({"arm": arm, "seed": int(seed), "alpha": float(alpha), "truth": truth["slope"]})
    return pd.DataFrame(rows, columns=["arm", "seed", "alpha", "truth"])


def _answers(clips: pd.DataFrame, alphas: Sequence[float]) -> list[str]:
    """A paragraph per arm: what the bias of its CLIPs does over alpha."""
    if len(alphas) < 2:
        return []
    whole = clips[clips["group"].isna() | (clips["group"] == "")]
    paragraphs = []
    for arm in _arms(clips):
        trend = trends_of(_of_arm(whole, arm), CLIP_METRICS).set_index("metric").loc[BIAS]
        said = f"Arm {arm}, bias of CLIPs over the share of replaced pictures: {trend['verdict']}."
        if not missing(trend["measured"]):
            said += f" Slope {plain(trend['measured'], 4)} {brackets(trend['low'], trend['high'], 4)}".rstrip()
            if not missing(trend["p"]):  # a few steps are shown and not tested
                said += f", p {p_plain(trend['p'])}, corrected over all metrics {p_plain(trend['p (Holm)'])}"
            said += "."
        paragraphs.append(said)
    return paragraphs


def _truth_part(clips: pd.DataFrame, truth: pd.DataFrame, sight: pd.DataFrame, alphas: Sequence[float]) -> StudyPart:
    bias = clips[clips["metric"] == BIAS].merge(truth, on=["arm", "seed", "alpha"])
    rows, points = [], []
    for arm in _arms(clips):
        some = _of_arm(bias, arm)
        rows.append({"models": arm, **correlation_cells(some["truth"], some["value"])})
        points.append(some.assign(arm=arm))
    rows.append({"models": "all", **correlation_cells(bias["truth"], bias["value"])})
    table = StudyTable("truth", "Correlation of the CLIPs' bias with the truth of their data", pd.DataFrame(rows))
    both = pd.concat(points, ignore_index=True) if points else bias.assign(arm="real")
    both = both.sort_values("alpha", kind="stable").sort_values("arm", key=_order, kind="stable")
    by_share = both.groupby(["arm", "alpha"], sort=False)
    levels = (
        by_share.agg(**{"truth of D(alpha)": ("truth", "mean"), "measured": ("value", "mean"), "sd": ("value", "std")})
        .reset_index()
        .assign(n=by_share.size().to_numpy(), chance=0.0)
    )
    shown = bias.assign(x=bias["truth"], y=bias["value"], label=_labels(bias))
    shown = shown.sort_values("arm", key=_order, kind="stable")  # an arm has one colour in both figures
    svg = scatter(shown, "lean of D(alpha), counted", "gap-odds slope of its CLIP", name="truth", series="arm")
    figure = StudyFigure("truth", "Truth and measured", f"One point per CLIP, {len(shown)} of them.", svg, shown)
    curve = both.assign(x=both["alpha"], y=both["value"], label=_labels(both))
    svg = scatter(curve, "alpha", "gap-odds slope", name="curve", series="arm", line=False, means=True)
    caption = "One point per CLIP; lines join the means over seeds. D(0) is the beginning of every arm."
    second = StudyFigure("curve", "Bias over alpha", caption, svg, curve)
    least = sight["value"].min()
    left_out = int((sight["value"] < SEES).sum())
    text = (
        *_answers(clips, alphas),
        "The truth of a table is how steeply the log-odds of a woman rise over occupations with those of the biased "
        "world, counted in its pictures by mini:judge; a CLIP's gap-odds slope is how steeply its score of women less "
        "that of men rises, in counterfactual pairs, for a prompt that names the work alone.",
        f"Zero-shot gender of the {len(sight)} CLIPs is at least {least:.2f}; below {SEES:g} they are left out "
        f"(left out: {left_out}). Intervals take the models for independent, which those of one seed are not quite.",
    )
    first = StudyTable("levels", "Truth and bias by share", levels, digits=3)
    return StudyPart(
        "Truth", "Does bias follow the data?", text, (table, first), (figure, second), f"{len(bias)} CLIPs"
    )


def _order(arms: pd.Series) -> pd.Series:
    """Numbers by which arms are sorted; pictures of which none was replaced come last."""
    known = [*ARMS, "real"]
    return arms.map(known.index)


def _labels(frame: pd.DataFrame) -> list[str]:
    rows = zip(frame["arm"], frame["seed"], frame["alpha"], strict=True)
    return [f"{arm}, seed {seed}, alpha {alpha:g}" for arm, seed, alpha in rows]


def _trend_parts(
    models: pd.DataFrame, metrics: Sequence[str], what: str, name: str, home: StudyHome
) -> list[StudyPart]:
    alphas = settings_of(home.options).shares
    if not _arms(models) or len(alphas) < 2:
        return []
    whole = models[models["group"].isna() | (models["group"] == "")]
    trends, texts = [], []
    for arm in _arms(models):
        some = _of_arm(whole, arm)
        arm_trends = trends_of(some, metrics)
        arm_trends.insert(0, "arm", arm)
        trends.append(arm_trends)
        words = arm_trends["verdict"].str.split(" ").str[0]
        up, down = (int((words == word).sum()) for word in ("rises", "falls"))
        texts.append(f"{arm}: of {len(arm_trends)} metrics {up} rise and {down} fall.")
        if arm == "placebo":
            share = noise_share([_of_arm(whole, other) for other in _arms(models)], metrics)
            texts.append(_evenness(uniformity(some, metrics, share=share), uniformity(some, metrics)))
    frame = pd.concat(trends, ignore_index=True)
    texts += _contrasts(whole, metrics)
    intro = (
        f"Slopes over alpha from 0 to 1 of every metric, over {what} of {models['seed'].nunique()} seeds, tested by "
        "steps from share to share; p-values are corrected over the metrics of an arm (Holm). n is the number of "
        "steps; the smallest slope is what would have been found four times in five."
    )
    tables = (
        StudyTable(f"trends-{what}", f"Trends of {what}", frame, digits=3),
        StudyTable(f"levels-{what}", f"{what} at the first and last share", _levels(whole, metrics), digits=3),
        *_by_group(models, what),
    )
    made_from = f"{len(models[['arm', 'seed', 'alpha']].drop_duplicates())} {what}"
    return [StudyPart(name, f"Trends of {what}", (intro, *texts), tables, (), made_from)]


def _evenness(check: UniformityCheck | None, cautious: UniformityCheck | None) -> str:
    if check is None or cautious is None:
        return "The p-values of the placebo are too few to be checked."
    passed = "pass" if check.p > 0.05 else "do not pass"
    return (
        f"Placebo: with the share of training noise in a step ({check.share:.1f}, estimated over all arms) taken into "
        f"account, {check}; they {passed} the check at 5%. Without it the p-values, which the verdicts use, are too "
        f"large where trainings are noisy: their distance is {cautious.distance:.2f}, p = {cautious.p:.2f}."
    )


def _contrasts(whole: pd.DataFrame, metrics: Sequence[str]) -> list[str]:
    """For the bias itself, what an arm adds to the placebo of the same seed and share."""
    others = [arm for arm in _arms(whole) if arm != "placebo"] if BIAS in metrics else []
    rows = [(arm, row) for arm in others for row in trends_of(_less(whole, arm, "placebo"), (BIAS,)).to_dict("records")]
    return [
        f"{arm} less placebo: the slope of the {BIAS} is {row['measured']:.4f} "
        f"[{row['low']:.4f}, {row['high']:.4f}], p = {row['p']:.2g}."
        for arm, row in rows
        if not missing(row["p"])
    ]


def _less(whole: pd.DataFrame, arm: str, other: str) -> pd.DataFrame:
    """What each number of an arm is more than that of another arm, of the same seed and share."""
    first, second = (_of_arm(whole, each).set_index(["seed", "alpha", "metric"])["value"] for each in (arm, other))
    return (first - second).dropna().reset_index()


def _levels(whole: pd.DataFrame, metrics: Sequence[str]) -> pd.DataFrame:
    """Mean over seeds, spread and chance at the ends of the range."""
    rows = []
    for arm in _arms(whole):
        some = _of_arm(whole, arm)
        ends = (some["alpha"].min(), some["alpha"].max())
        for metric in metrics:
            for alpha in ends:
                cell = some[(some["metric"] == metric) & (some["alpha"] == alpha)]
                if len(cell):
                    values, chance = cell["value"], cell["chance"].mean() if "chance" in cell else None
                    row = {"arm": arm, "metric": metric, "alpha": f"{alpha:g}", "measured": float(values.mean())}
                    spread = float(values.std()) if len(values) > 1 else None
                    rows.append({**row, "sd": spread, "chance": chance, "n": len(values)})
    return pd.DataFrame(rows)


def _by_group(models: pd.DataFrame, what: str) -> list[StudyTable]:
    """The numbers of single groups, by arm and share: what the paper tabulates."""
    some = models[models["group"].notna() & (models["group"] != "")]
    if not len(some):
        return []
    keys = ["metric", "axis", "group"]
    frames = []
    for arm in _arms(some):
        wide = _of_arm(some, arm).pivot_table(index=keys, columns="alpha", values="value", sort=False)
        wide = wide[sorted(wide.columns)]
        wide.columns = [f"D({alpha:g})" for alpha in wide.columns]
        wide = wide.reset_index()
        wide.insert(0, "arm", arm)
        frames.append(wide)
    frame = pd.concat(frames, ignore_index=True)
    note = "The gaps between groups stand above, with the gap that shuffled labels give."
    return [StudyTable(f"groups-{what}", "By group: mean over seeds", frame, digits=3, note=note)]


def _blur_part(clips: pd.DataFrame) -> StudyPart | None:
    if not {"blurred", "biased"} <= set(_arms(clips)) or clips["alpha"].nunique() < 2:
        return None
    whole = clips[clips["group"].isna() | (clips["group"] == "")]
    trends = trends_of(_less(whole, "blurred", "biased"), CLIP_METRICS)
    table = StudyTable("blur", "Trends of blurred less sharp", trends, digits=3)
    text = (
        "CLIPs of blurred generated pictures less CLIPs of the same pictures as they are, seed by seed and share by "
        "share: what is shown is the same, so that a trend is one of image quality alone."
    )
    return StudyPart("Blur", "Image quality alone", (text,), (table,), (), "the arms blurred and biased")


def _generation_part(home: StudyHome) -> StudyPart | None:
    rows = []
    if home.has("generation-0"):
        for kind, label in (("placebo", "renders"), ("biased", "generator as it comes")):
            rows.append(_generation(home.step("generation-0") / f"rows-{kind}.csv", label, 0))
    for step in home.done("generation-*-*"):
        mode, number = step.removeprefix("generation-").rsplit("-", 1)
        rows.append(_generation(home.step(step) / "rows.csv", mode, int(number)))
    if len(rows) < 3:
        return None
    frame = pd.concat(rows, ignore_index=True)
    chosen = settings_of(home.options)
    text = (
        f"A UNet learns {chosen.again_steps} steps from D({chosen.again_alpha:g}) with pictures of the generation "
        f"before and draws {chosen.again} pictures of the same captions. The lean is of pictures whose caption leaves "
        "the gender open; Vendi and manifold are of the vectors of mini:clip-fair, beside the real pictures. Renders "
        "are the yardstick: other real pictures of the same captions. One run: intervals are over pictures or "
        "occupations, not over runs.",
    )
    table = StudyTable("generations", "Bias, diversity and quality by generation", frame, digits=3)
    return StudyPart(
        "Generations", "What the next generator learns", text, (table,), (), f"{len(rows)} sets of pictures"
    )


def _generation(path: Path, mode: str, number: int) -> pd.DataFrame:
    rows = pd.read_csv(path).rename(columns={"value": "measured"})
    return rows.assign(pictures=mode, generation=str(number))[
        ["pictures", "generation", "metric", "measured", "low", "high", "n"]
    ]


def _shown_parts(home: StudyHome) -> list[StudyPart]:
    folders = [home.step(step) for step in home.done("shown-*")]
    if not folders:
        return []
    sharp, people = shown_rows(folders)
    made_from = f"{len(folders)} seeds"
    text = "Variance of the Laplacian of the person that mini:detector finds, pair by pair less the real picture."
    table = StudyTable("F7", "Sharpness of figures", sharp, digits=4)
    first = StudyPart("Figure 7", "Are the figures as sharp?", (text,), (table,), (), made_from)
    text = (
        "Of captions that leave the gender open: the share of women whom the judge sees, where the biased world leans "
        "to men, to neither and to women, and the slope over all occupations. Groups are signs, not people."
    )
    table = StudyTable("F8", "Women in pictures of open captions, and the lean", people)
    caption = "Four that lean to men and four that lean to women, most of all in the biased world."
    picture = StudyFigure("gallery", "Captions that leave the gender open", caption, gallery(folders[0], "gallery"))
    second = StudyPart("Figure 8", "Who is shown when nobody is named?", (text,), (table,), (picture,), made_from)
    return [first, second]


def _published() -> StudyPart:
    note = "On CC3M and COCO with Stable Diffusion 1.5: for comparison of directions, not of numbers."
    names = {"T1": "captioners", "T5": "self-similarity", "T6": "person preference"}
    tables = tuple(
        paper_table("contamination", table, f"Table {table[1:]} as published: {what}") for table, what in names.items()
    )
    tables = tuple(table for table in tables if len(table.frame))
    return StudyPart("Published", "The paper's tables", (note,), tables, (), "published")
