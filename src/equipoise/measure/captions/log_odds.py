"""Which words captions use for one group rather than the others: log-odds with an informative prior.

Monroe, Colaresi and Quinn, "Fightin' Words", Political Analysis 2008.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import sparse

from equipoise.array_types import Floats
from equipoise.errors import InputError
from equipoise.measure.arrays import as_count, chosen, same_length
from equipoise.measure.captions.counts import ImagesOfCaptions
from equipoise.measure.groups import Groups
from equipoise.measure.metric import metric
from equipoise.measure.notes import no_interval
from equipoise.measure.stats.estimate import Estimate
from equipoise.measure.stats.laws import normal_above
from equipoise.measure.stats.permutation import TIE, benjamini_hochberg, holm, with_chance


@dataclass(frozen=True)
class WordUse:
    """How much more captions of a group use each word than captions of the other groups."""

    table: pd.DataFrame
    """One row per word and group, the largest |z| first: ``word group count others log_odds sd z p_value p_holm p_bh
    p_shuffled``. ``p_shuffled``: the share of label shuffles whose largest |z| of all is as large (Westfall and
    Young), which allows for words that come together and, given the images, for several captions of one."""
    estimate: Estimate
    """The largest |z|, against the largest |z| under shuffled labels."""

    def standing_out(self, level: float = 0.05) -> pd.DataFrame:
        """The rows whose ``p_shuffled`` is below ``level``."""
        return self.table[self.table["p_shuffled"] < level]


@metric(
    "word_log_odds",
    takes="captions",
    summary="Words that captions of one group use more than those of the others.",
    citation="Monroe, Colaresi and Quinn, Fightin' Words, Political Analysis 2008",
    formula="z of ln((y + alpha) / (n + alpha_0 - y - alpha)), group minus others",
    range="(-inf, inf)",
    direction="0: used alike; the estimate is the largest |z|",
    chance="labels shuffled over images, largest |z| of all words",
    when_it_lies="The words of the group itself come first: exclude them.",
    unit="z",
)
def word_log_odds(
    tokens: Sequence[Sequence[str]],
    groups: Groups,
    *,
    background: Mapping[str, float] | None = None,
    prior: float | None = None,
    count: Literal["presence", "tokens"] = "presence",
    content: Collection[str] | None = None,
    exclude: Collection[str] = (),
    top: int = 1000,
    images: Sequence[Hashable] | None = None,
    permutations: int = 199,
    seed: int = 0,
    level: float = 0.95,
) -> WordUse:
    """z-scores of the log-odds of each word in the captions of a group against all other groups together.

    With counts y, totals n and prior counts alpha_w that sum to alpha_0:
    delta = ln((y_w + alpha_w) / (n + alpha_0 - y_w - alpha_w)) for the group minus the same for the others,
    variance 1 / (y_w + alpha_w) + 1 / (y'_w + alpha_w), z = delta / sd.

    p-values: normal, Holm and Benjamini-Hochberg over all rows; the prior pulls z towards 0, so they are
    conservative for rare words, but they take words and captions for independent. ``p_shuffled`` does not.

    Args:
        tokens: (n,) the words of each caption.
        groups: (n,) the images' groups (undefined are left out).
        background: counts of words in a larger corpus that shape the prior; those of the captions themselves if None.
        prior: alpha_0, how many words the prior is worth; as many as the group of fewest words has if None.
        count: "presence", a word once per caption; "tokens", every time.
        content: the words that may be reported (None: all). Every word is in the totals.
        exclude: words that are not reported, such as those of the groups themselves.
        top: how many words are reported: the commonest of those that ``content`` and ``exclude`` leave.
        images: (n,) the image of each caption, where one has several: labels are shuffled over whole images.
        permutations: how many times the labels are shuffled.
        seed: which shuffles are drawn.
        level: only recorded in the estimate, which as a maximum has no interval.

    Returns:
        A table of one row per word and group, and the largest |z| with its chance level.

    >>> words = [["red", "tie"], ["red", "tie"], ["red", "hat"], ["red", "hat"]] * 10
    >>> found = word_log_odds(words, Groups.from_values(["m", "m", "f", "f"] * 10))
    >>> row = found.table.iloc[0]
    >>> sorted(found.table.head(4)["word"].unique()), bool(row["p_shuffled"] < 0.01)
    (['hat', 'tie'], True)
    """
    chosen(count, "way to count words", ("presence", "tokens"))
    same_length(tokens, "tokens", groups, "groups")
    as_count(top, "top")
    sizes = groups.counts()
    present = np.flatnonzero(sizes)
    if len(present) < 2:
        raise InputError("word use compares two groups; only one has captions")
    kept = np.flatnonzero(groups.defined)
    labels = np.searchsorted(present, groups.labels[kept])
    if images is not None:
        same_length(images, "images", groups, "groups")
    of_images = ImagesOfCaptions.of(None if images is None else [images[i] for i in kept.tolist()], labels)
    matrix, words = _counted([tokens[i] for i in kept.tolist()], count)
    wanted = _wanted(matrix, words, content, exclude, top)
    if not len(wanted):
        raise InputError("no word is left to compare; check content and exclude")
    lengths = np.asarray(matrix.sum(axis=1)).ravel()
    by_group = np.bincount(labels, lengths, minlength=len(present))
    alpha_0 = float(by_group.min()) if prior is None else float(prior)
    if alpha_0 <= 0:
        raise InputError(f"prior = {prior}: the prior is worth a positive number of words")
    alpha = alpha_0 * _background(matrix, words, background)[wanted]
    columns = matrix[:, wanted].tocsc()

    def scores(labellings: NDArray[Any]) -> tuple[Floats, Floats]:
        """Log-odds and sd (b, A, V) under each row of labels (b, n)."""
        inside = np.stack([(labellings == g).astype(np.float64) for g in range(len(present))], axis=1)
        flat = inside.reshape(-1, inside.shape[2])
        shape = (len(labellings), len(present), -1)
        return _log_odds(np.asarray(flat @ columns).reshape(shape), (flat @ lengths).reshape(shape), alpha, alpha_0)

    odds, sd = (part[0] for part in scores(labels[None]))
    z = odds / sd
    rng = np.random.default_rng(seed)
    largest = []
    for block in of_images.shuffled(as_count(permutations, "permutations"), rng):
        shuffled, spread = scores(block)
        largest.append(np.abs(shuffled / spread).max(axis=(1, 2)))
    null = np.concatenate(largest)
    names = [groups.names[g] for g in present.tolist()]
    counts = np.stack([np.asarray((labels == g).astype(np.float64) @ columns) for g in range(len(present))])
    table = _table([words[i] for i in wanted.tolist()], names, counts, odds, sd, null)
    first = table.iloc[0]
    estimate = Estimate(
        float(np.abs(z).max()),
        n=len(kept),
        n_groups=len(present),
        dropped={"undefined group": groups.n_undefined} if groups.n_undefined else {},
        notes=(f"largest |z| of {len(wanted)} words: {first['word']!r} of {first['group']}", no_interval("a maximum")),
        level=level,
    )
    return WordUse(table, with_chance(estimate, null, rng=rng))


def _counted(tokens: Sequence[Sequence[str]], count: str) -> tuple[Any, list[str]]:
    """Sparse (n, V) counts and the words, in alphabetical order."""
    rows = [Counter(row) for row in tokens]
    words = sorted({word for row in rows for word in row})
    place = {word: index for index, word in enumerate(words)}
    pointers = np.concatenate([[0], np.cumsum([len(row) for row in rows])])
    indices = [place[word] for row in rows for word in row]
    data = np.array([n if count == "tokens" else 1 for row in rows for n in row.values()], dtype=np.float64)
    return sparse.csr_matrix((data, indices, pointers), (len(rows), max(1, len(words)))), words


def _wanted(
    matrix: Any, words: list[str], content: Collection[str] | None, exclude: Collection[str], top: int
) -> NDArray[np.intp]:
    totals = np.asarray(matrix.sum(axis=0)).ravel()
    order = np.argsort(-totals, kind="stable")[: len(words)]
    fit = [i for i in order.tolist() if (content is None or words[i] in content) and words[i] not in exclude]
    return np.array(fit[:top], dtype=np.intp)


def _background(matrix: Any, words: list[str], background: Mapping[str, float] | None) -> Floats:
    """(V,) the share of each word in the background; one that is missing there counts as seen half a time."""
    if background is None:
        totals = np.asarray(matrix.sum(axis=0), dtype=np.float64).ravel()
        return np.asarray(totals / totals.sum())
    seen = np.array([max(float(background.get(word, 0.0)), 0.5) for word in words])
    return np.asarray(seen / max(seen.sum(), float(sum(background.values()))))


def _log_odds(counts: Floats, totals: Floats, alpha: Floats, alpha_0: float) -> tuple[Floats, Floats]:
    """Log-odds and sd (b, A, V) of counts (b, A, V) with totals (b, A, 1), each group against all others."""
    others, rest = counts.sum(axis=1, keepdims=True) - counts, totals.sum(axis=1, keepdims=True) - totals
    ours, theirs = counts + alpha, others + alpha
    # a language of one word has no odds: keep what is left of the total above 0
    left = np.maximum(totals + alpha_0 - ours, 1e-9)
    left_there = np.maximum(rest + alpha_0 - theirs, 1e-9)
    return np.log(ours / left) - np.log(theirs / left_there), np.sqrt(1 / ours + 1 / theirs)


def _table(words: list[str], names: list[str], counts: Floats, odds: Floats, sd: Floats, null: Floats) -> pd.DataFrame:
    z = (odds / sd).ravel()
    p_value = 2 * normal_above(np.abs(z))
    ordered = np.sort(null)
    larger = len(null) - np.searchsorted(ordered, np.abs(z) * (1 - TIE), side="left")
    table = pd.DataFrame(
        {
            "word": np.tile(np.array(words, dtype=object), len(names)),
            "group": np.repeat(np.array(names, dtype=object), len(words)),
            "count": counts.ravel().astype(int),
            "others": (counts.sum(axis=0) - counts).ravel().astype(int),
            "log_odds": odds.ravel(),
            "sd": sd.ravel(),
            "z": z,
            "p_value": p_value,
            "p_holm": holm(p_value),
            "p_bh": benjamini_hochberg(p_value),
            "p_shuffled": (1 + larger) / (1 + len(null)),
        }
    )
    # of the two rows of a word that mirror each other, the group that uses it more comes first
    order = np.lexsort((-table["z"].to_numpy(), -table["z"].abs().round(9).to_numpy()))
    return table.iloc[order].reset_index(drop=True)
