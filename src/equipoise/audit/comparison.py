"""Two runs of one kind: which has more bias, and is the difference more than luck?"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from equipoise.audit.captions.folds import HALVES, half_gaps, half_table, over_splits
from equipoise.audit.findings import Findings, read_draws, read_queries
from equipoise.audit.folders import nothing_else
from equipoise.data.atomic import sha256_of
from equipoise.data.results import read_results
from equipoise.data.runs import KINDS, Run, claimed, find_run
from equipoise.engine.progress import Heartbeat
from equipoise.errors import InputError
from equipoise.measure.notes import Note, facts_of, no_interval, note, of_sources
from equipoise.measure.stats import compare as paired
from equipoise.measure.stats.estimate import Estimate
from equipoise.measure.stats.laws import normal_above, normal_quantile
from equipoise.pace import stages

_SAME = ["metric", "variant", "suite", "pool", "axis", "group", "k"]
_RESULTS = "results.parquet"


def compare(a: str | Path, b: str | Path, out: str | Path | None = None, *, overwrite: bool = False) -> Findings:
    """The differences a - b of every metric that both folders have.

    Audits of models are paired query by query, audits of captions image by image and LIC split by split, where both
    have the same images. Where both audits shuffled the same labels, as two audits of one table with one seed do,
    chance shuffles them alike for both: an image that every query retrieves moves all differences together, so that
    queries that share a pool are not independent, and two models that do not see the groups may still differ in what
    luck gives them. Elsewhere the two are exchanged query by query (signs are flipped, chance level 0). What cannot be
    paired, and every number of other kinds (datasets, filters), is compared as if the two were independent; chance is
    then the difference of their chance levels, of which the smaller dataset often has the higher.

    Args:
        a: the folder of a finished run.
        b: the folder of another run of the same kind, which is subtracted.
        out: the folder that the differences are written to, if given; it may hold an earlier comparison of these two.
        overwrite: replace whatever other run ``out`` holds.

    Returns:
        A row for each difference, named ``<metric>`` with the variant of the audits; ``model`` is "A - B". Values of
        paired audits that only one of them has are counted in the notes.
    """
    folders = (Path(a), Path(b))
    for folder in folders:
        if not folder.is_dir():
            raise InputError(f"{folder}: there is no audit here; give the folder of a finished audit")
    kind = _common_kind(*folders)
    if out is None:
        with Heartbeat("comparing"):
            return _marked(_differences(*folders, kind), folders)
    of = {"a": str(a), "b": str(b)}
    parents = {name: sha256_of(Path(path) / _RESULTS) for name, path in of.items() if (Path(path) / _RESULTS).is_file()}
    claim: dict[str, Any] = {"of": of, "settings": {"kind": kind}, "parents": parents}
    with claimed(out, "comparison", **claim, accept=nothing_else(_another, of), overwrite=overwrite) as home:
        with Heartbeat("comparing"):
            findings = _marked(_differences(*folders, kind), folders)
        findings.save(home.stage)
        home.publish(seen=_seen(folders))
    return findings


def _marked(findings: Findings, folders: Sequence[Path]) -> Findings:
    """The findings with a note, and one in every row, on a model that has learnt from subjects it is judged on."""
    for folder, seen in zip(folders, _seen(folders), strict=True):
        if seen is None:
            continue
        run = find_run(folder)
        name = folder.name if run is None else run.of.get("model", folder.name)
        text = f"{name} has learnt from {seen[0]} of {seen[1]} subjects, which flatters it"
        findings.notes.append(text)
        for row in findings.rows:
            row["notes"] = "; ".join(part for part in (row.get("notes"), text) if part)
    return findings


def _seen(folders: Sequence[Path]) -> list[list[int] | None]:
    """For each audit, of how many subjects its model, or the remedy of it, has seen how many; ``None`` for none."""
    counts: list[list[int] | None] = []
    for folder in folders:
        run = find_run(folder)
        about = run.of.get("fitted_on") if run is not None else None
        known = about.get("subjects") if isinstance(about, dict) else None
        seen, asked = set[str](), set[str]()
        if isinstance(known, list) and (folder / _RESULTS).is_file():
            asked = set(read_results(folder)["subject"].dropna().astype(str))
            seen = asked & set(map(str, known))
        counts.append([len(seen), len(asked)] if seen else None)
    return counts


def _common_kind(a: Path, b: Path) -> str:
    """The kind that both folders are of; ``audit`` where nothing says so. One that is not finished is refused."""
    kinds = []
    for folder in (a, b):
        run = find_run(folder)
        if run is not None and not run.finished:
            raise InputError(f"{folder}: the run here is not finished; run its command again, then compare")
        kinds.append("audit" if run is None else run.kind)
    if kinds[0] != kinds[1]:
        nouns = [KINDS[kind].noun if kind in KINDS else kind for kind in kinds]
        raise InputError(f"{a} holds {nouns[0]} and {b} {nouns[1]}; compare two of one kind")
    if kinds[0] in ("remedy", "demo", "report"):
        raise InputError(f"{a}: {KINDS[kinds[0]].noun} has no numbers to compare; give the folders of two audits")
    return kinds[0]


def _another(of: dict[str, str], run: Run) -> str:
    """The comparison of other folders, in words."""
    same = all(Path(str(run.of.get(name))).resolve() == Path(path).resolve() for name, path in of.items())
    return "" if same else "the comparison of others"


def _differences(a: Path, b: Path, kind: str) -> Findings:
    if kind == "audit":
        return _by_query(a, b)
    captions_kept = kind == "captions" and all((folder / "queries.parquet").is_file() for folder in (a, b))
    findings = _by_query(a, b) if captions_kept else Findings(kind, "")
    if kind == "captions":
        _add_lic(findings, a, b)
    _add_unpaired(findings, a, b)
    if not findings.rows:
        raise InputError(f"{a} and {b} have no number in common; compare two of the same data")
    return findings


def _by_query(a: Path, b: Path) -> Findings:
    first, second = (_means(read_queries(folder)) for folder in (a, b))
    # An audit with several models in one folder (tfidf, random) is compared model by model.
    same = [*_SAME, "model"] if max(frame["model"].nunique() for frame in (first, second)) > 1 else _SAME
    joined = first.merge(second, on=[*same, "query"], suffixes=("_a", "_b"))
    if joined.empty:
        raise InputError(f"{a} and {b} have no query in common; compare audits of the same suite and table")
    names = _names(first, second, a, b)
    findings = Findings(str(joined["suite"].iloc[0]), " - ".join(names))
    joint_draws, placebos = _joint_draws(a, b, same), _placebos(a) | _placebos(b)
    for _, some in stages(list(joined.groupby(same, dropna=False, sort=False))):
        keys: dict[str, Any] = {"model": findings.model} | {name: _plain(some[name].iloc[0]) for name in same}
        joint = joint_draws.get(tuple(keys[name] for name in same))
        clusters = _clusters(some)
        estimate = paired(some["value_a"].to_numpy(), some["value_b"].to_numpy(), clusters=clusters, draws=joint)
        means = _compared(names, float(some["value_a"].mean()), float(some["value_b"].mean()))
        of_placebo = [note("placebo_axis")] if keys["axis"] in placebos else []
        findings.rows.append(estimate.with_notes(means, *of_sources(clusters), *of_placebo).row(**keys))
    for frame, other, folder in ((first, second, a), (second, first, b)):
        left = frame.merge(other[[*same, "query"]], on=[*same, "query"], how="left", indicator=True)
        alone = int((left["_merge"] == "left_only").sum())
        if alone:
            findings.notes.append(f"{alone} values of {folder} have no counterpart and were left out")
    return findings


def _placebos(folder: Path) -> set[str]:
    """The axes that an audit says are placebos."""
    if not (folder / _RESULTS).is_file():
        return set()
    rows = read_results(folder).to_dict("records")
    return {str(row["axis"]) for row in rows if facts_of(row, "placebo_axis") is not None}


def _add_lic(findings: Findings, a: Path, b: Path) -> None:
    """LIC_M, and LIC where both have references, paired by split: the same images are split alike by the same seed."""
    first, second = (_SplitScores(folder) for folder in (a, b))
    alone = len(first.models) == len(second.models) == 1
    models = [(first.models[0], second.models[0])] if alone else [(m, m) for m in first.models if m in second.models]
    for mine, theirs in models:
        if not (first.images[mine] == second.images[theirs] and first.share == second.share):
            findings.note("LIC is not paired: the two measured other images, or split them otherwise")
            continue
        for metric in ("lic_m", "lic"):
            left, right = first.values(mine, metric), second.values(theirs, metric)
            both = left.index.intersection(right.index)
            if len(both) < 2:
                continue
            numbers = left[both].to_numpy(float), right[both].to_numpy(float)
            estimate = over_splits(
                numbers[0] - numbers[1],
                half_gaps(first.halves(mine, metric), second.halves(theirs, metric)),
                share=first.share,
                bounds=(-200.0, 200.0),
                null_value=0.0,
                alternative="two-sided",
                n=len(first.images[mine]),
                notes=(
                    _compared((mine, theirs), float(numbers[0].mean()), float(numbers[1].mean())),
                    f"paired over {len(both)} splits",
                ),
            )
            model = f"{mine} - {theirs}" if alone else mine
            keys = first.keys_of(mine, metric)
            findings.rows.append(estimate.row(**keys | {"metric": metric, "suite": "captions", "model": model}))


class _SplitScores:
    """The score of every classifier behind LIC in one folder, in points, by model and split."""

    def __init__(self, folder: Path) -> None:
        try:
            runs = pd.read_csv(folder / "runs.csv")
            captions = pd.read_csv(folder / "captions.csv", dtype={"image_id": str})
            self.models = [str(name) for name in dict.fromkeys(captions["model"])]
            by_model = {str(name): some for name, some in captions.groupby("model")}
            self.images = {name: frozenset(zip(f["image_id"], f["group"], strict=True)) for name, f in by_model.items()}
            self._runs = runs.assign(value=100 * runs["value"].astype(float))
        except (OSError, ValueError, KeyError) as error:
            raise InputError(f"{folder}: runs.csv or captions.csv cannot be read ({error}); run it again") from None
        self._results = read_results(folder)
        run = find_run(folder)
        folds = None if run is None else run.settings.get("folds")
        self.share = 1 / folds if isinstance(folds, int) and folds > 1 else 0.1

    def values(self, model: str, metric: str, part: str = "") -> pd.Series[float]:
        """By seed and split: LIC_M, or LIC, which is the captioner's less the mean of people's."""
        mine = self._runs[self._runs["model"] == model]
        sides = {str(side): some.groupby(["seed", "split"])["value"].mean() for side, some in mine.groupby("side")}
        ours, theirs = f"model{part}", f"references{part}"
        if ours not in sides or (metric == "lic" and theirs not in sides):
            return pd.Series(dtype=float)
        if metric == "lic_m":
            return sides[ours]
        return (sides.get(f"model on images with references{part}", sides[ours]) - sides[theirs]).dropna()

    def halves(self, model: str, metric: str) -> NDArray[np.float64] | None:
        """(halvings, 2) the same in each half of the captions, where it was measured."""
        return half_table(self.values(model, metric, HALVES).rename("value").reset_index())

    def keys_of(self, model: str, metric: str) -> dict[str, Any]:
        """What a results row of this metric says of it."""
        rows = self._results
        rows = rows[(rows["metric"] == metric) & (rows["model"] == model) & rows["pool"].isna()]
        return {name: _plain(rows[name].iloc[0]) if len(rows) else None for name in ("variant", "axis")}


def _add_unpaired(findings: Findings, a: Path, b: Path) -> None:
    """Every number of both folders that is not paired, as if the two were independent."""
    first, second = (read_results(folder) for folder in (a, b))
    several = max(frame["model"].nunique() for frame in (first, second)) > 1
    same = [*_SAME, "subject", *(["model"] if several else [])]
    known = {tuple(_plain(row.get(name)) for name in same) for row in findings.rows}
    names = _names(first, second, a, b)
    findings.model = findings.model or " - ".join(names)
    rows = [
        {tuple(_plain(row[name]) for name in same): row for row in frame.to_dict("records")}
        for frame in (first, second)
    ]
    levels = tuple(_level(folder) for folder in (a, b))
    for key, mine in rows[0].items():
        theirs = rows[1].get(key)
        if theirs is None or key in known or pd.isna(mine["value"]) or pd.isna(theirs["value"]):
            continue
        keys = {"model": findings.model} | dict(zip(same, key, strict=True))
        findings.rows.append(_independent(mine, theirs, names, levels).row(**keys))


def _level(folder: Path) -> float:
    """The confidence level of a folder's intervals."""
    run = find_run(folder)
    level = None if run is None else run.settings.get("level")
    return float(level) if isinstance(level, int | float) else 0.95


def _independent(
    mine: dict[Any, Any], theirs: dict[Any, Any], names: tuple[str, str], levels: Sequence[float]
) -> Estimate:
    """The difference of two numbers, with a 95% interval where both have one; ``levels``: those of their intervals.

    Chance is the difference of their chance levels: few images are more lopsided by luck than many.
    """
    value = float(mine["value"] - theirs["value"])
    has_chance = not (pd.isna(mine["null_mean"]) or pd.isna(theirs["null_mean"]))
    chance = float(mine["null_mean"] - theirs["null_mean"]) if has_chance else 0.0
    sizes = [0 if pd.isna(row["n"]) else int(row["n"]) for row in (mine, theirs)]
    notes = (_compared(names, mine["value"], theirs["value"]), "not paired: as if the two were independent")
    ends = [row[name] for row in (mine, theirs) for name in ("ci_low", "ci_high")]
    if any(pd.isna(end) for end in ends) or not np.isfinite(value):
        return Estimate(value, n=min(sizes), notes=(*notes, no_interval("one of the two has none")))
    quantiles = [float(normal_quantile((1 + level) / 2)) for level in levels]
    error = float(np.hypot((ends[1] - ends[0]) / quantiles[0], (ends[3] - ends[2]) / quantiles[1])) / 2
    z = float(normal_quantile(0.975))
    p_value = float(2 * normal_above(abs(value - chance) / error)) if error > 0 else None
    return Estimate(
        value, value - z * error, value + z * error, null_mean=chance, p_value=p_value, n=min(sizes), notes=notes
    )


def _joint_draws(a: Path, b: Path, same: list[str]) -> dict[tuple[Any, ...], NDArray[np.float64]]:
    """(R,) the difference of both audits' nulls in each draw, by what is measured, where both shuffled labels alike."""
    joined = read_draws(a).merge(read_draws(b), on=[*same, "shuffle", "n"], suffixes=("_a", "_b"))
    return {
        tuple(_plain(row[name]) for name in same): np.asarray(row["draws_a"]) - np.asarray(row["draws_b"])
        for row in joined.to_dict("records")
    }


def _means(frame: pd.DataFrame) -> pd.DataFrame:
    """One value per query: prompts of the same subject are averaged."""
    by_query = frame.groupby([*_SAME, "query", "model"], dropna=False, sort=False)
    return by_query.agg(value=("value", "mean"), cluster=("cluster", "first")).reset_index()


def _clusters(some: pd.DataFrame) -> NDArray[Any] | None:
    """What belongs together among the queries: captions of one image, images of one occupation."""
    cluster = some["cluster_a"]
    return None if cluster.isna().any() else np.asarray(pd.factorize(cluster)[0])


def _plain(value: Any) -> Any:
    return None if pd.isna(value) else value


def _names(first: pd.DataFrame, second: pd.DataFrame, a: Path, b: Path) -> tuple[str, str]:
    """Which two are compared: their models, or the folders where they have several or none."""

    def name(frame: pd.DataFrame, folder: Path) -> str:
        models = sorted(frame["model"].dropna().unique())
        return str(models[0]) if len(models) == 1 and models[0] else str(folder)

    return name(first, a), name(second, b)


def _compared(names: tuple[str, str], first: float, second: float) -> Note:
    return note("compared", first=names[0], second=names[1], first_mean=first, second_mean=second)
