"""Biased captions from captions: swapped, filled, and both (Hirota et al., LIBRA, CVPR 2023, section 3).

- *swap*: a caption whose other words are read as another group is said of that group;
- *fill*: some of its content words are replaced such that the others tell its group more surely;
- *merged*: a filled caption whose other words are read as another group is said of that group.

:func:`synthesise_into` writes the pairs into a folder, one per line, with how many of everything there were.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from equipoise.array_types import Flags
from equipoise.data.atomic import write_whole
from equipoise.data.runs import claimed
from equipoise.errors import InputError
from equipoise.measure.captions.masking import MASK, masked, tokens_of
from equipoise.mitigate.libra.classifier import cross_fitted
from equipoise.mitigate.libra.masking import Span, content_spans, filled, is_word, with_masks
from equipoise.mitigate.libra.neighbours import NeighbourFiller, synonyms_by
from equipoise.mitigate.libra.pairs import KINDS, CaptionPair, SynthesisSettings, mix_of, mixed
from equipoise.text import Lexicon
from equipoise.text.english.tagging import is_function_word

LEAST = 20
"""A group with fewer captions teaches a classifier nothing."""
Say = Callable[[str], None]


@dataclass(frozen=True)
class NamedCaptions:
    """The captions that name exactly one group, and why others are left out."""

    texts: tuple[str, ...]
    images: tuple[str, ...]
    labels: NDArray[np.int64]
    groups: tuple[str, ...]
    left_out: Counter[str]


@dataclass(frozen=True)
class Synthesis:
    """The pairs, and how many of everything there were."""

    pairs: tuple[CaptionPair, ...]
    """Those of the mix."""
    found: tuple[CaptionPair, ...]
    """All that passed the filters."""
    counts: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class _Filling:
    row: int
    text: str
    replaced: tuple[tuple[str, str], ...]


def named_captions(captions: Sequence[str], images: Sequence[str], lexicon: Lexicon) -> NamedCaptions:
    """The captions with words of exactly one group, of groups that have at least 20 of them."""
    if not any(len(row.words) > 1 for row in lexicon.rows):
        raise InputError(
            f"the lexicon {lexicon.id!r} has no pairs: no row gives the word of one group beside that of another, so "
            "no word can be exchanged; give one that has, such as equipoise"
        )
    if len(captions) != len(images):
        raise InputError(f"{len(captions):,} captions but {len(images):,} image ids; give one id for each caption")
    left_out: Counter[str] = Counter()
    texts = []
    for text, image, mentioned in zip(captions, images, lexicon.groups_in_all(captions), strict=True):
        if not text.strip():
            left_out["empty"] += 1
        elif len(mentioned) != 1:
            left_out["several groups" if mentioned else "no group word"] += 1
        else:
            texts.append((text, image, next(iter(mentioned))))
    if not texts:
        raise InputError(
            f"none of the {len(captions):,} captions has a word of exactly one group of the lexicon {lexicon.id!r}; "
            "give captions of people, or another lexicon"
        )
    sizes = Counter(group for _, _, group in texts)
    groups = tuple(group for group in lexicon.groups if sizes[group] >= LEAST)
    if len(groups) < 2:
        counts = ", ".join(f"{sizes[group]:,} name {group}" for group in lexicon.groups)
        raise InputError(f"captions of two groups are needed, {LEAST} of each at least; {counts}")
    for group in sizes:
        if group not in groups:
            left_out[f"fewer than {LEAST} captions of {group}"] += sizes[group]
    kept = [row for row in texts if row[2] in groups]
    labels = np.array([groups.index(group) for _, _, group in kept], dtype=np.int64)
    return NamedCaptions(tuple(t for t, _, _ in kept), tuple(i for _, i, _ in kept), labels, groups, left_out)


def synthesise(
    captions: Sequence[str],
    images: Sequence[str],
    settings: SynthesisSettings | None = None,
    *,
    filler: Any = None,
    device: str = "",
    say: Say = lambda _: None,
) -> Synthesis:
    """Pairs of captions and biased versions of them.

    Args:
        captions: texts; those that name exactly one group of the lexicon are used.
        images: the id of the image that each caption is of; no caption is judged by a classifier that was trained on
            captions of its image.
        settings: how words are replaced, fillings judged and kinds of pairs mixed; its ``filler`` is not looked at.
        filler: a :class:`~equipoise.models.protocols.Filler`; without it the words come from the captions.
        device: where a classifier that is a text encoder runs; the processor unless given.
        say: told how many captions name one group, and how many were filled.

    Returns:
        The pairs of the mix, all that passed the filters, and how many of everything there were.
    """
    how = settings or SynthesisSettings()
    lexicon = Lexicon.load(how.lexicon)
    named = named_captions(captions, images, lexicon)
    say(f"{len(named.texts):,} of {len(captions):,} captions name one group")
    synthesiser = _Synthesiser(how, lexicon, named, filler or NeighbourFiller(named.texts), say, device)
    shares = dict(zip(KINDS, mix_of(how.mix), strict=True))
    candidates = synthesiser.swaps() if shares["swap"] else []
    if shares["fill"] or shares["merged"]:
        candidates += synthesiser.fills_and_merged()
    pairs = mixed(candidates, how.mix, count=how.count, seed=how.seed)
    counts = synthesiser.counts(len(captions)) | {
        "found": {kind: sum(pair.kind == kind for pair in candidates) for kind in KINDS if shares[kind]},
        "taken": {kind: sum(pair.kind == kind for pair in pairs) for kind in KINDS if shares[kind]},
    }
    return Synthesis(tuple(pairs), tuple(candidates), counts)


class _Synthesiser:
    """The captions, what their words tell, and what was refused on the way."""

    def __init__(
        self, how: SynthesisSettings, lexicon: Lexicon, named: NamedCaptions, filler: Any, say: Say, device: str
    ) -> None:
        self.how, self.lexicon, self.named, self.filler, self.say = how, lexicon, named, filler, say
        self.device = device
        self.refused: Counter[str] = Counter()
        self.n_filled = 0
        self.n_refused = 0
        """Fillings that were refused before any classifier saw them."""
        self.synonyms, self.synonyms_from = synonyms_by(how.synonyms)
        self.classifier = cross_fitted(
            how.classifier,
            self._hidden(named.texts),
            named.labels,
            named.images,
            folds=how.folds,
            seed=how.seed,
            device=device,
        )
        self.before = self.classifier.probabilities()

    def counts(self, captions: int) -> dict[str, Any]:
        """How many captions there were, what was left out or refused, and how well the classifier does."""
        named, read = self.named, self.before.argmax(axis=1)
        recalls = [float((read[named.labels == group] == group).mean()) for group in range(len(named.groups))]
        return {
            "captions": captions,
            "named": {name: int((named.labels == group).sum()) for group, name in enumerate(named.groups)},
            "left_out": dict(named.left_out),
            "filled": self.n_filled,
            "refused": dict(self.refused),
            "synonyms": self.synonyms_from,
            "classifier": {"balanced_accuracy": float(np.mean(recalls)), "chance": 1 / len(named.groups)},
        }

    def swaps(self) -> list[CaptionPair]:
        """Captions that are read as another group, said of that group."""
        rows = np.flatnonzero(is_misread(self.before, self.named.labels)).tolist()
        pairs = []
        for row in rows:
            text = self.named.texts[row]
            swapped = self._said_of(text, int(self.before[row].argmax()))
            if swapped:
                says = self.named.groups[self.before[row].argmax()]
                p = float(self.before[row, self.named.labels[row]])
                pairs.append(self._pair(row, swapped, "swap", says, p, None, ()))
        return pairs

    def fills_and_merged(self) -> list[CaptionPair]:
        """Filled captions that tell their group more, and those that are read as another, said of that group."""
        fillings = self._fillings()
        self.n_filled = len(fillings)
        if not fillings:
            return []
        self.say(f"{len(fillings):,} captions filled; {self.n_refused:,} fillings refused")
        rows = np.array([filling.row for filling in fillings])
        after = self.classifier.probabilities_of(self._hidden([filling.text for filling in fillings]), rows.tolist())
        p_real = self._authenticity(fillings)
        real = is_authentic(p_real, self.how.authenticity)
        own = self.named.labels[rows]
        more = tells_more(self.before[rows], after, own, self.how.margin)
        misread = is_misread(after, own)
        self.refused["not authentic"] = int((~real).sum())
        self.refused["tells its group no more than before"] = int((real & ~more & ~misread).sum())
        pairs = []
        for place in np.flatnonzero(real & (more | misread)).tolist():
            filling, p = fillings[place], float(after[place, own[place]])
            read = int(after[place].argmax())
            text = filling.text if more[place] else self._said_of(filling.text, read)
            if text:
                kind = "fill" if more[place] else "merged"
                says = self.named.groups[read]
                pairs.append(self._pair(filling.row, text, kind, says, p, float(p_real[place]), filling.replaced))
        return pairs

    def _pair(
        self,
        row: int,
        biased: str,
        kind: Any,
        says: str,
        p_after: float,
        p_authentic: float | None,
        replaced: tuple[tuple[str, str], ...],
    ) -> CaptionPair:
        named, group = self.named, int(self.named.labels[row])
        before = float(self.before[row, group])
        return CaptionPair(
            named.images[row],
            biased,
            named.texts[row],
            kind,
            named.groups[group],
            says,
            before,
            p_after,
            p_authentic,
            replaced,
        )

    def _said_of(self, text: str, group: int) -> str:
        """The caption said of ``group``; empty, and counted, where a word has no counterpart."""
        to = self.named.groups[group]
        swapped = self.lexicon.swap(text, to)
        if self.lexicon.left_by_swap(text, to) or swapped == text:
            self.refused["a word has no counterpart"] += 1
            return ""
        return swapped

    def _hidden(self, texts: Sequence[str]) -> list[list[str]]:
        """The words that the classifier sees; "an" before a hidden word would tell "Asian" from "Black"."""
        hidden = tokens_of(masked(texts, self.lexicon))
        return [
            ["a" if (word, after) == ("an", MASK) else word for word, after in pairwise([*words, ""])]
            for words in hidden
        ]

    def _authenticity(self, fillings: Sequence[_Filling]) -> NDArray[np.float64]:
        """(n,) how likely it is that people wrote each, by classifiers that know other images' captions."""
        rows = sorted({filling.row for filling in fillings})
        texts = [self.named.texts[row] for row in rows] + [filling.text for filling in fillings]
        images = [self.named.images[row] for row in [*rows, *(filling.row for filling in fillings)]]
        labels = np.array([1] * len(rows) + [0] * len(fillings), dtype=np.int64)
        words = tokens_of(text.lower() for text in texts)
        if len(set(images)) < self.how.folds:
            raise InputError(f"captions of {len(set(images))} images could be filled; {self.how.folds} folds need more")
        how = self.how
        judge = cross_fitted(how.classifier, words, labels, images, folds=how.folds, seed=how.seed, device=self.device)
        return judge.probabilities()[len(rows) :, 1]

    def _fillings(self) -> list[_Filling]:
        """Every caption with some of its content words replaced, in each try; the same filling counts once."""
        spans = [content_spans(text, self.lexicon, self.how.tagger) for text in self.named.texts]
        rows = [row for row, content in enumerate(spans) if content]
        self.refused["no content word"] = len(spans) - len(rows)
        fillings: dict[tuple[int, str], _Filling] = {}
        for number in range(self.how.tries):
            seed = self.how.seed * 1_000_003 + number
            masks = [
                with_masks(self.named.texts[row], spans[row], self.how.share, self.filler.mask, seed=seed)
                for row in rows
            ]
            texts = [text for text, _ in masks]
            drawn = self.filler.sample(texts, temperature=self.how.temperature, top_k=self.how.top_k, seed=seed)
            for row, (_, places), words in zip(rows, masks, drawn, strict=True):
                filling = self._filling(row, places, words)
                if filling is not None:
                    fillings.setdefault((filling.row, filling.text), filling)
        return list(fillings.values())

    def _filling(self, row: int, places: Sequence[Span], words: Sequence[str]) -> _Filling | None:
        """The caption with these words; none, and counted, where a word is not one to replace another with."""
        text = self.named.texts[row]
        old = [text[start:end].lower() for start, end in places]
        new = [word.lower() for word in words]
        reason = next(filter(None, self._reasons(old, new)), "")
        changed = "" if reason else filled(text, places, new)
        if not reason and self._named_words(changed) != self._named_words(text):
            reason = "a word of a group"
        if reason:
            self.refused[reason] += 1
            self.n_refused += 1
            return None
        return _Filling(row, changed, tuple(zip(old, new, strict=True)))

    def _reasons(self, old: Sequence[str], new: Sequence[str]) -> Iterator[str]:
        for before, after in zip(old, new, strict=True):
            if after == before:
                yield "the same word"
            elif not is_word(after) or is_function_word(after):
                yield "not a content word"
            elif after in self.synonyms(before):
                yield "a synonym"

    def _named_words(self, text: str) -> list[tuple[str, str]]:
        return [(match.word, match.group) for match in self.lexicon.find(text)]


def is_authentic(p_real: ArrayLike, least: float) -> Flags:
    """(n,) whether people could have written it: its probability is above ``least``.

    >>> is_authentic([0.2, 0.3, 0.4], 0.3).tolist()
    [False, False, True]
    """
    return np.asarray(np.asarray(p_real) > least)


def tells_more(before: ArrayLike, after: ArrayLike, groups: ArrayLike, margin: float) -> Flags:
    """(n,) whether the filled caption is read as its own group, and by more than ``margin`` more surely than before.

    ``before`` and ``after`` (n, groups) are probabilities; ``groups`` (n,) the group that each caption names.

    >>> tells_more([[0.5, 0.5]] * 3, [[0.8, 0.2], [0.6, 0.4], [0.2, 0.8]], [0, 0, 0], 0.2).tolist()
    [True, False, False]
    """
    first, last, own = np.asarray(before), np.asarray(after), np.asarray(groups)
    rows = np.arange(len(own))
    right = last.argmax(axis=1) == own
    return np.asarray(right & (last[rows, own] - first[rows, own] > margin))


def is_misread(probabilities: ArrayLike, groups: ArrayLike) -> Flags:
    """(n,) whether a caption's other words are read as another group than the one it names.

    >>> is_misread([[0.8, 0.2], [0.4, 0.6]], [0, 0]).tolist()
    [False, True]
    """
    return np.asarray(np.asarray(probabilities).argmax(axis=1) != np.asarray(groups))


PAIRS = "pairs.jsonl"


def filler_named(name: str, *, device: str = "") -> Any:
    """The masked language model of this name; none for ``captions``, whose words come from the captions themselves."""
    from equipoise.models import load

    if name == "captions":
        return None
    return load(name, kind="filler", **({"device": device} if device else {}))


def synthesise_into(
    out: str | Path,
    captions: Sequence[str],
    images: Sequence[str],
    settings: SynthesisSettings | None = None,
    *,
    source: str = "",
    device: str = "",
    say: Callable[[str], None] = lambda _: None,
    overwrite: bool = False,
) -> Synthesis:
    """:func:`synthesise` into a folder: ``pairs.jsonl``, and counts and settings in ``run.json``.

    Args:
        out: the folder; pairs that it holds are replaced.
        captions: texts; those that name exactly one group of the lexicon are used.
        images: the id of the image that each caption is of.
        settings: how words are replaced, by which filler, and how fillings are judged and kinds of pairs mixed.
        source: where the captions come from, for ``run.json``.
        device: where the filler and a classifier that is a text encoder run; refused where neither does.
        say: told how many captions name one group, and how many were filled.
        overwrite: take a folder that holds something else too; one with a table is refused all the same.

    Returns:
        What ``synthesise`` gives; no pairs at all are an InputError.
    """
    how = settings or SynthesisSettings()
    if device and how.filler == "captions" and not how.classifier.startswith("bert"):
        raise InputError(
            f"device {device!r}: neither the filler (captions) nor the classifier ({how.classifier}) runs on a device; "
            "leave it out"
        )
    filler = filler_named(how.filler, device=device)
    texts = json.dumps([list(images), list(captions)], ensure_ascii=True).encode()
    of = {"captions": source, "sha256": hashlib.sha256(texts).hexdigest(), "filler": getattr(filler, "key", "captions")}
    with claimed(out, "pairs", of=of, settings=how.plain(), overwrite=overwrite) as home:
        synthesis = synthesise(captions, images, how, filler=filler, device=device, say=say)
        if not synthesis.pairs:
            kinds = ", ".join(f"{n:,} {kind}" for kind, n in synthesis.counts["found"].items())
            raise InputError(
                f"no pairs in the mix {how.mix}: the captions give {kinds}; give more captions, another mix, or milder "
                "filters with --set margin=0.1 or --set authenticity=0.1"
            )
        lines = (json.dumps(pair.plain(), ensure_ascii=False) + "\n" for pair in synthesis.pairs)
        write_whole(home.stage / PAIRS, "".join(lines).encode())
        home.publish(counts=synthesis.counts)
    return synthesis
