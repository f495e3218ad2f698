"""The pictures of the page: what a model ranks first for its most and least skewed subjects, and whole sets.

Whom a model ranked first is what the audit wrote down (``ranking.parquet``). Pictures are thumbnails inside the page,
read from a table in one pass, each shown with the groups it has.
"""

from __future__ import annotations

import io
from base64 import b64encode
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from equipoise.data import Table
from equipoise.data.images import decode, refuse_outside
from equipoise.data.labels import PLACEBO, set_numbers, with_joined_labels, without_twins
from equipoise.errors import InputError
from equipoise.formatting import one_line, p_text, signed
from equipoise.pace import steps
from equipoise.report.findings import LEVEL, axis_name, is_of_prompts, main_rows, metric_name, subject_rows
from equipoise.report.sources import Given, Series, no_table
from equipoise.report.svg import SERIES_COLOURS
from equipoise.report.verdict.outcomes import distances

FILE = "ranking.parquet"
_RANKED = "intersectional"
"""The suite whose audits have a ranking; those of earlier versions have none."""


@dataclass(frozen=True)
class PictureOrder:
    """The pictures of each subject in the model's order, with their labels."""

    frame: pd.DataFrame
    """The labels, one row per picture: ``image_id``, ``subject``, ``set_id`` and the axes."""
    order: dict[str, NDArray[np.int64]]
    """For each subject the rows of ``frame``, the best first."""

    def top(self, subject: str, k: int) -> pd.DataFrame:
        """The labels of the subject's first ``k`` pictures."""
        return self.frame.iloc[self.order[subject][:k]]

    def shares(self, axes: Sequence[str], k: int) -> pd.DataFrame:
        """``subject, group, share, expected``: of the first ``k`` with a group, as audits count, and of all.

        >>> frame = pd.DataFrame({"image_id": [*"abc"], "subject": "cook", "gender": ["f", None, "m"]})
        >>> PictureOrder(frame, {"cook": np.array([1, 2, 0])}).shares(["gender"], 1)["share"].tolist()
        [0.0, 1.0]
        """
        labels = self.frame[list(axes)]
        known = labels.notna().all(axis=1).to_numpy(bool)
        named = (" & ".join(map(str, row)) for row in zip(*(labels[axis] for axis in axes), strict=True))
        joint = np.array([name if there else None for name, there in zip(named, known, strict=True)], dtype=object)
        groups = sorted(set(joint[known]))
        usual = without_twins(self.frame)
        subjects = self.frame["subject"].to_numpy(object) if "subject" in self.frame else np.full(len(usual), None)
        rows = []
        for subject, order in self.order.items():
            mine = usual & (subjects == subject)
            every = joint[known & (mine if mine.any() else usual)]  # a prompt is asked of the whole pool
            first = joint[order[known[order]][:k]]
            for group in groups:
                rows.append(
                    {
                        "subject": subject,
                        "group": group,
                        "share": float((first == group).mean()) if len(first) else 0.0,
                        "expected": float((every == group).mean()) if len(every) else 0.0,
                    }
                )
        return pd.DataFrame(rows)

    def most_above(self, axes: Sequence[str], k: int) -> list[tuple[str, str]]:
        """Each subject with the group that has most above its share among the first ``k``; none where all are even.

        >>> frame = pd.DataFrame({"image_id": [*"abcd"], "subject": "cook", "gender": [*"ffmm"]})
        >>> PictureOrder(frame, {"a kind person": np.array([0, 1, 2, 3])}).most_above(["gender"], 2)
        [('a kind person', 'f')]
        """
        shares = self.shares(axes, k)
        above = shares.assign(above=shares["share"] - shares["expected"]).sort_values("above", kind="stable")
        best = above.groupby("subject", sort=False).tail(1)
        best = best[best["above"] > 1e-9]
        return list(zip(best["subject"].astype(str), best["group"].astype(str), strict=True))


Rankings = dict[str, PictureOrder]
"""By the label of the model."""


def read_ranking(series: Series, problems: list[str]) -> PictureOrder | None:
    """The ranking behind an audit's numbers; ``None`` for other suites, or with a sentence in ``problems``."""
    home, name = series.source.path, series.source.path.name
    if series.source.kind != "audit" or not ((home / FILE).is_file() or series.source.settings.get("suite") == _RANKED):
        return None
    ranks = _read(home, FILE, problems)
    kept = "labels.parquet" if (home / "labels.parquet").is_file() else "_evidence/frame.parquet"
    labels = None if ranks is None else _read(home, kept, problems)
    if ranks is None or labels is None:
        return None
    try:
        best_first = ranks.sort_values(["query", "rank"], kind="stable")
        rows = pd.Index(labels["image_id"]).get_indexer(pd.Index(best_first["image_id"]))
        queries = best_first["query"].astype(str).to_numpy()
        order = {subject: rows[queries == subject].astype(np.int64) for subject in dict.fromkeys(queries)}
    except (KeyError, TypeError, ValueError) as error:
        problems.append(f"{name}/{FILE} is not what an audit writes ({error}): no retrieved pictures can be shown")
        return None
    if (rows < 0).any():
        problems.append(f"{name}/{FILE} is not of the same pictures as its labels: no retrieved pictures can be shown")
        return None
    if not order:
        why = "the model gives all pictures of a subject the same score"
        problems.append(f"{name}: no retrieved pictures can be shown, because {why}")
        return None
    return PictureOrder(labels.reset_index(drop=True), order)


def _read(home: Path, file: str, problems: list[str]) -> pd.DataFrame | None:
    loss = "no retrieved pictures can be shown"
    if not (home / file).is_file():
        problems.append(f"{home.name}/{file} is missing: {loss}; measure the audit again")
        return None
    try:
        return pd.read_parquet(home / file)
    except (OSError, ValueError, TypeError) as error:
        problems.append(f"{home.name}/{file} is damaged or cut short ({one_line(error, 80)}): {loss}")
        return None


SIDE = 96
"""Pixels of the longer side of a thumbnail."""


@dataclass(frozen=True)
class Shown:
    """One picture of the page."""

    uri: str
    alt: str
    label: str
    frame: int
    """The number of the frame's colour; -1 for none."""


@dataclass(frozen=True)
class SetShown:
    """One counterfactual set of the page."""

    title: str
    pictures: list[Shown]


def thumbnails(table: Table, wanted: Iterable[str], problems: list[str]) -> dict[str, str]:
    """The pictures with these ids as small data URIs; a picture that cannot be had is told and left out."""
    ids, uris, broken = set(wanted), {}, []
    for batch in _batches_with(table, ids):
        names = batch.column("image_id").to_pylist()
        places = [i for i, name in enumerate(names) if name in ids]
        for i in places:
            try:
                image = batch.column("image")[i].as_py()
                refuse_outside(image, table.path, table.image_root)
                picture = decode(image, root=table.image_root)
            except (InputError, OSError) as error:
                broken.append(f"{names[i]!r} ({one_line(error)})")
                continue
            picture.thumbnail((SIDE, SIDE))
            out = io.BytesIO()
            picture.save(out, "WEBP", quality=82, method=4)
            uris[names[i]] = "data:image/webp;base64," + b64encode(out.getvalue()).decode()
        if len(uris) + len(broken) == len(ids):
            break
    missing = len(ids) - len(uris)
    if missing:
        first = f", the first of them {broken[0]}" if broken else ""
        problems.append(
            f"{table.path.name}: {missing} of {len(ids)} pictures to show could not be read{first}; left out"
        )
    return uris


def _batches_with(table: Table, ids: set[str]) -> Iterator[Any]:
    """Ids and pictures of the shards that hold some of ``ids``: of a large table few bytes are read."""
    for index in steps(range(len(table.shards))):
        if any(not ids.isdisjoint(batch.column(0).to_pylist()) for batch in table.shard_batches(index, ["image_id"])):
            yield from table.shard_batches(index, ["image_id", "image"])


def set_gallery(frame: pd.DataFrame, axes: Sequence[str], n: int = 4) -> list[tuple[str, pd.DataFrame]]:
    """``n`` counterfactual sets of different subjects, the members in the order of their groups."""
    if "set_id" not in frame:
        return []
    known = frame[frame["set_id"].notna() & without_twins(frame)]
    known = known.assign(_set=set_numbers(known))
    known = known[known.groupby("_set")["_set"].transform("size") > 1]
    if known.empty:
        return []
    firsts = known.drop_duplicates("subject" if "subject" in known else "set_id")
    step = max(1, len(firsts) // n)
    sets = []
    for row in firsts.iloc[::step].head(n).to_dict("records"):
        members = known[known["_set"] == row["_set"]].sort_values(list(axes)).head(12).drop(columns="_set")
        sets.append((str(row.get("subject") or row["set_id"]), members))
    return sets


MOST, LEAST, AT_MOST, MODELS = 3, 2, 12, 3
AT_A_GLANCE = 2
"""So many subjects, and models of each, stand beside the verdict."""


@dataclass(frozen=True)
class SubjectPictures:
    """One subject: how skewed it is, and each model's first pictures."""

    subject: str
    told: str
    models: list[tuple[str, list[Shown]]]
    sure: bool = False
    """Whether it is beyond chance."""


@dataclass(frozen=True)
class Gallery:
    """All pictures of the page."""

    retrieved: list[SubjectPictures] = field(default_factory=list)
    sets: list[SetShown] = field(default_factory=list)
    frames: list[tuple[str, int]] = field(default_factory=list)
    note: str = ""

    @property
    def why(self) -> str:
        """Why the pictures beside the verdict were chosen: lopsided they are called only where luck is no reason."""
        if self.glance and all(each.sure for each in self.glance):
            return "Chosen because they are lopsided"
        return "Chosen for their numbers, which luck alone could give"

    @property
    def glance(self) -> list[SubjectPictures]:
        """The most skewed subjects, with the first models only."""
        return [replace(each, models=each.models[:AT_A_GLANCE]) for each in self.retrieved[:AT_A_GLANCE]]


def gallery(given: Given, audits: Sequence[Series], rankings: dict[str, PictureOrder], metric: str | None) -> Gallery:
    """The pictures of the first audit whose table is known; empty where none is."""
    found = [given.table_of(audit.source) for audit in audits]
    for audit, table in zip(audits, found, strict=True):
        if table is not None and audit.label in rankings and metric is not None:
            return _of_audit(given, audit, table, audits, rankings, metric)
    if rankings and not any(found):
        given.problems.append(no_table(next(audit.source for audit in audits if audit.label in rankings)))
    asked_about = {audit.source.fingerprint for audit in audits} - {None}
    for table in given.tables:
        if not asked_about or table.fingerprint in asked_about:
            return _of_table(given, table)
        given.problems.append(f"{table.path.name}: is not the table that was audited; its pictures are not shown")
    return Gallery()


def _of_audit(
    given: Given,
    audit: Series,
    table: Table,
    audits: Sequence[Series],
    rankings: dict[str, PictureOrder],
    metric: str,
) -> Gallery:
    chosen = _axis(audit, metric, table)
    if chosen is None:
        return _of_table(given, table)
    axis, k = chosen
    subjects = _ends(audit, metric, axis, k, rankings[audit.label])
    shown = [a for a in audits if a.label in rankings and a.source.fingerprint == audit.source.fingerprint][:MODELS]
    tops = {
        (s, a.label): rankings[a.label].top(s, min(k, AT_MOST))
        for s, _, _ in subjects
        for a in shown
        if s in rankings[a.label].order
    }
    axes = [a for a in table.axes if a in rankings[audit.label].frame]
    sets = set_gallery(rankings[audit.label].frame, axes)
    wanted = [i for top in tops.values() for i in top["image_id"]] + [i for _, m in sets for i in m["image_id"]]
    uris = thumbnails(table, wanted, given.problems)
    groups = sorted(rankings[audit.label].frame[axis].dropna().unique())
    number = {str(group): place % SERIES_COLOURS for place, group in enumerate(groups)}
    blocks = []
    for subject, size, sure in subjects:
        mine = [(label, top) for (name, label), top in tops.items() if name == subject]
        models = [(label, _shown(top, axis, axes, number, uris, subject)) for label, top in mine]
        if models := [(label, pictures) for label, pictures in models if pictures]:
            blocks.append(SubjectPictures(subject, size, models, sure))
    first, unit = f"the first {min(k, AT_MOST)} pictures", "prompt" if is_of_prompts(audit) else "subject"
    what = f"For a prompt that names the subject alone, {first} of that subject"
    what = f"For a prompt, {first} of the pool" if unit == "prompt" else what
    note = (
        f"{what} in the model's order, from left to right: {_which(len(subjects), unit)} of "
        f"{audit.label} on {axis_name(axis)}. The frame and the word below say the group."
    )
    return Gallery(blocks, _sets(sets, axis, axes, number, uris), list(number.items()), note)


def _which(n: int, unit: str) -> str:
    """Which subjects are shown, of which there may be too few for both ends.

    >>> _which(5, "subject"), _which(4, "subject"), _which(2, "prompt")
    ('the 3 most and the 2 least skewed subjects', 'the 3 most and the least skewed subjects', 'all 2 prompts')
    """
    if n <= MOST:
        return f"all {n} {unit}s" if n > 1 else f"the only {unit}"
    return f"the {MOST} most and the {f'{n - MOST} ' if n - MOST > 1 else ''}least skewed {unit}s"


def _axis(audit: Series, metric: str, table: Table) -> tuple[str, int] | None:
    """The single axis that is farthest from chance, and its K."""
    rows = main_rows(audit, metric)
    rows = rows[rows["axis"].isin(table.axes) & rows["k"].notna()]
    if rows.empty:
        return None
    row = rows.loc[distances(metric, rows["excess"]).sort_values(kind="stable").index[-1]]
    return str(row["axis"]), int(row["k"])


def _ends(audit: Series, metric: str, axis: str, k: int, ranking: PictureOrder) -> list[tuple[str, str, bool]]:
    """The most and the least skewed subjects, what to say of them, and whether they are beyond chance.

    Of subjects that are equally skewed, to the two digits that are shown, the one with the wider gap inside sets comes
    first; and before a second subject that favours the same group comes the first that favours another.
    """
    rows = subject_rows(audit, metric)
    rows = rows[(rows["axis"] == axis) & rows["subject"].isin(ranking.order)]
    gaps = subject_rows(audit, "counterfactual_gap")
    size = gaps[gaps["axis"] == axis].groupby("subject")["value"].agg(lambda v: float(v.abs().max()))
    rows = rows.assign(
        gap=rows["subject"].map(size).fillna(0.0),
        shown=distances(metric, rows["excess"]).round(2),
        favoured=[_favoured(ranking.top(subject, k), axis) for subject in rows["subject"]],
    )
    rows = rows.sort_values(["shown", "gap", "subject"], ascending=[False, False, True], kind="stable")
    sure = rows[rows["p_shown"] < LEVEL] if (rows["p_shown"] < LEVEL).any() else rows
    order = [*sure.drop_duplicates("favoured").index, *rows.index]
    most = rows.loc[list(dict.fromkeys(order))[:MOST]]
    least = rows.drop(index=most.index).tail(LEAST)
    subjects = []
    for row in pd.concat([most, least]).to_dict("records"):
        words = f"{metric_name(metric, row['k'])} {signed(row['excess'])} over chance, {p_text(row['p_shown'])}"
        words += " corrected over the prompts (Holm)" if pd.notna(row["p_holm"]) else ""
        subjects.append((str(row["subject"]), words, bool(row["p_shown"] < LEVEL and row["shown"] > 0)))
    return subjects


def _favoured(top: pd.DataFrame, axis: str) -> str:
    """The group that most of these pictures have."""
    counts = top[axis].dropna().value_counts()
    return str(counts.index[0]) if len(counts) else ""


def _shown(
    members: pd.DataFrame, axis: str, axes: Sequence[str], number: dict[str, int], uris: dict[str, str], subject: str
) -> list[Shown]:
    pictures = []
    for place, row in enumerate(members.to_dict("records"), start=1):
        if row["image_id"] not in uris:
            continue
        group = row[axis]
        labels = [str(row[a]) for a in axes if pd.notna(row[a])]
        word = "undefined" if pd.isna(group) else str(group)
        alt = f"{place}: {subject}, {', '.join(labels)}"
        pictures.append(Shown(uris[row["image_id"]], alt, f"{place} {word}", number.get(word, -1)))
    return pictures


def _sets(
    sets: list[tuple[str, pd.DataFrame]], axis: str, axes: Sequence[str], number: dict[str, int], uris: dict[str, str]
) -> list[SetShown]:
    shown = []
    for title, members in sets:
        pictures = []
        varied = [a for a in axes if members[a].nunique(dropna=False) > 1]
        for row in members.to_dict("records"):
            if row["image_id"] in uris:
                label = ", ".join(str(row[a]) for a in varied if pd.notna(row[a])) or "undefined"
                pictures.append(
                    Shown(uris[row["image_id"]], f"{title}: {label}", label, number.get(str(row[axis]), -1))
                )
        if pictures:
            shown.append(SetShown(title, pictures))
    return shown


def _of_table(given: Given, table: Table) -> Gallery:
    """The sets of a table alone, where no ranking of its pictures is known."""
    columns = [c for c in ("image_id", "set_id", "subject", *table.axes) if c in table.columns]
    columns += [c for c in table.columns if c.startswith(PLACEBO)]
    axes = list(table.axes)
    if not axes or "set_id" not in columns:
        return Gallery()
    frame, _ = with_joined_labels(table.to_pandas(columns), axes)
    sets = set_gallery(frame, axes)
    uris = thumbnails(table, [i for _, members in sets for i in members["image_id"]], given.problems)
    groups = sorted(frame[axes[0]].dropna().unique())
    number = {str(group): place % SERIES_COLOURS for place, group in enumerate(groups)}
    return Gallery([], _sets(sets, axes[0], axes, number, uris), list(number.items()))
