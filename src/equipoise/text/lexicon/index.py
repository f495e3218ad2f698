"""A lexicon's words ready for use: one pattern for all of them, each found word read by its position."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate, islice

from equipoise.errors import InputError
from equipoise.text.lexicon.agreement import agreed_verb
from equipoise.text.lexicon.describing import begins_list, describes
from equipoise.text.lexicon.file import LexiconContents, Row
from equipoise.text.lexicon.positions import (
    SEPARATOR,
    WordFinder,
    fold_phrase,
    is_before_name,
    is_said_of,
    lower,
    pronoun_role,
    stands_alone,
)
from equipoise.text.lexicon.rewriting import (
    Edit,
    Runs,
    apply_edits,
    article_edit,
    comma_edit,
    drop_edits,
    in_case_of,
    possessive_edit,
    same_article,
)

Span = tuple[int, int]


@dataclass
class TextSoFar:
    """What was found out about one text while it was read from left to right."""

    spans: list[Span] = field(default_factory=list)
    """The words of the lexicon up to here."""
    runs: Runs = field(default_factory=dict)


EditsFor = Callable[[str, str, int, int, TextSoFar], list[Edit]]

_CHUNK = 2048
_NONE: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Match:
    """One word of the lexicon in a text: where it stands, its group, and the row it was read as."""

    start: int
    end: int
    word: str
    group: str
    row: Row


@dataclass(frozen=True)
class _Entry:
    """What a matched word or phrase can be: a group's word in one row or more, or a phrase that is no one's."""

    group: str | None
    rows: tuple[Row, ...] = ()
    neutral: str | None = None

    @cached_property
    def is_plain(self) -> bool:
        """Whether the word means the same everywhere, so that nothing around it need be read."""
        row = self.rows[0] if self.rows else None
        return (
            row is not None
            and len(self.rows) == 1
            and row.role in ("noun", "subject", "object", "determiner", "possessive", "reflexive")
            and not row.before
            and not row.not_before
        )


@dataclass(frozen=True)
class WordIndex:
    """Everything that is compiled from a lexicon's contents, once."""

    contents: LexiconContents
    completions: Mapping[tuple[str, str], str] = field(default_factory=dict)
    """Counterparts of words that have none in the lexicon itself, by word and target group."""
    fits_english: bool = False
    """Whether an English possessive behind a noun follows the word that is written for it, and a comma goes with what
    it parted from the noun."""

    @cached_property
    def entries(self) -> Mapping[str, _Entry]:
        """Every word and phrase, with what it can be."""
        entries = {text: _Entry(None, (), neutral) for text, neutral in self.contents.phrases.items()}
        for row in self.contents.rows:
            for group, words in row.words.items():
                for word in map(str.lower, words):
                    earlier = entries.get(word)
                    entries[word] = _Entry(group, (*earlier.rows, row) if earlier else (row,))
        return entries

    @cached_property
    def finder(self) -> WordFinder:
        """Finds any of the words and phrases in lower-case text."""
        return WordFinder(self.entries)

    @cached_property
    def _plain(self) -> list[tuple[str, str, Row]]:
        """Word, group and row of each word that means the same wherever it stands."""
        return [(word, e.group, e.rows[0]) for word, e in self.entries.items() if e.group and e.is_plain]

    @cached_property
    def plain_group(self) -> dict[str, str]:
        """The group of each word that says it wherever it stands."""
        return {word: group for word, group, _ in self._plain}

    @cached_property
    def plain_neutral(self) -> dict[str, str]:
        """The neutral form of each word that needs no look around it, article included."""
        return {w: row.neutral[group] for w, group, row in self._plain if same_article(w, row.neutral[group])}

    @cached_property
    def plain_neutral_but_subjects(self) -> dict[str, str]:
        """The same without "he" and "she", whose verb must follow."""
        subjects = {word for word, _, row in self._plain if row.role == "subject"}
        return {word: neutral for word, neutral in self.plain_neutral.items() if word not in subjects}

    @cached_property
    def has_context_words(self) -> bool:
        """Whether some words count only before words of a list."""
        return any(row.before in self.contents.lists for row in self.contents.rows)

    def nouns_for(self, name: str) -> frozenset[str]:
        """The list ``name`` and the lexicon's own nouns: "elderly" counts before "people" and before "seniors"."""
        if name not in self._nouns:
            own = [w for row in self.contents.rows if row.role == "noun" for words in row.words.values() for w in words]
            own += [n for row in self.contents.rows if row.role == "noun" for n in row.neutral.values()]
            self._nouns[name] = self.contents.lists[name] | {w.lower().split()[-1] for w in own}
        return self._nouns[name]

    @cached_property
    def _nouns(self) -> dict[str, frozenset[str]]:
        return {}

    @cached_property
    def _nouns_alone(self) -> frozenset[str]:
        """The words that are nouns wherever they stand, so that an apostrophe behind them may be a possessive."""
        return frozenset(w for w, e in self.entries.items() if e.rows and all(row.role == "noun" for row in e.rows))

    def _possessive_edits(self, text: str, low: str, start: int, end: int, new: str) -> list[Edit]:
        if not self.fits_english or fold_phrase(low[start:end]) not in self._nouns_alone:
            return []
        fitted = possessive_edit(text, low, start, end, new)
        return [] if fitted is None else [fitted]

    @cached_property
    def adjectives(self) -> frozenset[str]:
        """The words that are dropped before a noun."""
        return frozenset(w for w, e in self.entries.items() if e.rows and e.rows[0].role == "adjective")

    def plain_swap(self, to: str | None) -> dict[str, str]:
        """The counterpart of each word that needs no look around it; empty where there is none."""
        if to not in self._swap_cache:
            pairs = ((word, self._counterpart(row, group, to)) for word, group, row in self._plain)
            self._swap_cache[to] = {word: new for word, new in pairs if same_article(word, new)}
        return self._swap_cache[to]

    @cached_property
    def _swap_cache(self) -> dict[str | None, dict[str, str]]:
        return {}

    def _counterpart(self, row: Row, group: str, to: str | None) -> str:
        """What a word of ``group`` in ``row`` becomes on a swap; empty if it stays as it is."""
        target = to if to is not None else next(g for g in self.contents.groups if g != group)
        if target == group:
            return ""
        if target not in row.words:
            return self.completions.get((row.words[group][0], target), "")
        return row.words[target][0]

    def stays(self, match: Match, to: str | None) -> bool:
        """Whether the word should be said of another group on a swap, and has no counterpart."""
        return match.group != to and not self._counterpart(match.row, match.group, to)

    def read(self, text: str, low: str, start: int, end: int) -> Match | None:
        """The word at ``text[start:end]`` read by its position; ``None`` if there it is no word of the lexicon."""
        entry = self._entry(low[start:end])
        if entry.group is None:
            return None
        row = entry.rows[0]
        if len(entry.rows) > 1:
            role = pronoun_role(low, start, end, {r.role for r in entry.rows})
            row = next(r for r in entry.rows if r.role == role)
        if row.before == "name":
            if not is_before_name(text, start, end):
                return None
        elif row.before and not self._describes(row.before, low, start, end):
            return None
        return Match(start, end, low[start:end], entry.group, row)

    def _describes(self, kind: str, low: str, start: int, end: int) -> bool:
        """Whether the adjective at ``low[start:end]`` is said of one of the nouns of this kind."""
        nouns = self.nouns_for(kind)
        if describes(low, end, nouns, self.adjectives):
            return True
        listed = "," in low[end : end + 3] and begins_list(low, start, self.adjectives)
        return listed and describes(low, end, nouns, self.adjectives, commas=True)

    def _entry(self, word: str) -> _Entry:
        return self.entries.get(word) or self.entries[fold_phrase(word)]

    def is_of_another_kind(self, match: Match, low: str) -> bool:
        """Whether the word is said of something that is no person ("mother elephant")."""
        return bool(match.row.not_before) and is_said_of(low, match.end, self.contents.lists[match.row.not_before])

    def rewrite(self, text: str, plain: Mapping[str, str], edits_for: EditsFor, agree: bool) -> str:
        """``text`` with ``plain`` words replaced at once and the others by ``edits_for``."""
        low = lower(text)
        edits: list[Edit] = []
        seen = TextSoFar()
        done = 0
        for start, end in self.finder.spans(low):
            if start < done:  # a run of adjectives went out whole
                continue
            word = low[start:end]
            new = plain.get(word)
            if new is None:
                edits_here = edits_for(text, low, start, end, seen)
                done = edits_here[-1][1] if edits_here else done
                edits += edits_here
                seen.spans.append((start, end))
                new = edits_here[-1][2] if edits_here and edits_here[-1][:2] == (start, end) else ""
            elif new:
                old = text[start:end]
                edits.append((start, end, new if old == word else in_case_of(old, new)))
            if new and low[end : end + 1] in ("'", "’"):
                edits += self._possessive_edits(text, low, start, end, lower(new))
            if agree:
                edits += self._agreement_edits(text, low, start, end)
        return apply_edits(text, edits) if edits else text

    def rewrite_all(
        self, texts: Iterable[str], plain: Mapping[str, str], edits_for: EditsFor, agree: bool
    ) -> list[str]:
        """:meth:`rewrite` of each text, thousands in one go: the pattern runs over them joined."""
        rewritten: list[str] = []
        for chunk, joined in _joined(texts):
            if joined is None:
                rewritten += [self.rewrite(text, plain, edits_for, agree) for text in chunk]
            else:
                rewritten += self.rewrite(joined, plain, edits_for, agree).split(SEPARATOR)
        return rewritten

    def groups_in(self, text: str) -> frozenset[str]:
        """The groups that ``text`` speaks of."""
        return frozenset(group for _, group in self._group_hits(text))

    def groups_in_all(self, texts: Iterable[str]) -> list[frozenset[str]]:
        """:meth:`groups_in` of each text, thousands in one go."""
        by_text: list[frozenset[str]] = []
        for chunk, joined in _joined(texts):
            if joined is None:
                by_text += [self.groups_in(text) for text in chunk]
                continue
            ends = list(accumulate(len(text) + 1 for text in chunk))
            groups = [_NONE] * len(chunk)
            for start, group in self._group_hits(joined):
                at = bisect_right(ends, start)
                if group not in groups[at]:
                    groups[at] |= {group}
            by_text += groups
        return by_text

    def _group_hits(self, text: str) -> Iterator[tuple[int, str]]:
        low = lower(text)
        plain = self.plain_group
        for start, end in self.finder.spans(low):
            group = plain.get(low[start:end])
            if group is None:
                match = self.read(text, low, start, end)
                if match is None or self.is_of_another_kind(match, low):
                    continue
                group = match.group
            yield start, group

    def neutral_edits(self, text: str, low: str, start: int, end: int, seen: TextSoFar) -> list[Edit]:
        """The edits that say the word at ``text[start:end]`` of anyone."""
        entry = self._entry(low[start:end])
        if entry.group is None:
            return [] if entry.neutral is None else [(start, end, in_case_of(text[start:end], entry.neutral))]
        match = self.read(text, low, start, end)
        if match is None:
            return []
        neutral = match.row.neutral[match.group]
        if match.row.role == "adjective" and not (neutral and stands_alone(low, end)):
            first = self._run_start(low, match, seen.spans) if match.row.before else start
            listed = bool(match.row.before)
            dropped = drop_edits(text, low, first, end, self.adjectives, seen.runs, commas=listed)
            if dropped is not None:
                comma = comma_edit(low, first) if self.fits_english else None
                return dropped if comma is None else [comma, *dropped]
        return _replacement(text, low, start, end, neutral or "person")

    def _run_start(self, low: str, match: Match, before: Sequence[Span]) -> int:
        """Where the adjectives right before ``match`` begin, of the words found ``before`` it, that go when it goes.

        Each of them counts only near a noun of its list; taken out one by one, a thousand would be a thousand rounds.
        """
        first, alone = match.start, stands_alone(low, match.end)
        for start, end in reversed(before):
            entry = self._entry(low[start:end])
            row = entry.rows[0] if entry.rows else None
            if row is None or row.role != "adjective" or low[end:first].strip() not in ("", "and", "or"):
                break
            nouns = self.nouns_for(row.before) if row.before in self.contents.lists else _NONE
            if not describes(low, match.end, nouns, self.adjectives):
                break
            if entry.group is None or (row.neutral[entry.group] and alone):
                break
            first = start
        return first

    def swap_edits(self, to: str | None, text: str, low: str, start: int, end: int, seen: TextSoFar) -> list[Edit]:
        """The edits that say the word at ``text[start:end]`` of group ``to``."""
        match = self.read(text, low, start, end)
        if match is None:
            return []
        new = self._counterpart(match.row, match.group, to)
        if match.row.before in self.contents.lists and seen.spans:
            before, behind = seen.spans[-1]
            joined = low[behind:start].strip() in ("and", "or", ",", ", and", ", or")
            earlier = self.read(text, low, before, behind) if joined else None
            if earlier is not None and earlier.row is match.row:
                written = self._counterpart(earlier.row, earlier.group, to)
                if (new or written) and (new or match.word).lower() == (written or earlier.word).lower():
                    return [(behind, end, "")]  # "white and Asian men" said of Black ones: not "Black and Black men"
        return _replacement(text, low, start, end, new) if new else []

    def _agreement_edits(self, text: str, low: str, start: int, end: int) -> list[Edit]:
        entry = self._entry(low[start:end])
        is_subject = entry.rows[0].role == "subject" if entry.rows else entry.neutral == "they"
        if not is_subject:
            return []
        return [
            (a, b, in_case_of(text[a:b], verb))
            for a, b, verb in agreed_verb(low, start, end)
            if low[a:b] not in self.entries
        ]

    @cached_property
    def group_of(self) -> dict[str, str]:
        """The group of each word, as published code looks it up."""
        return {word: entry.group for word, entry in self.entries.items() if entry.group is not None}

    @cached_property
    def neutral_of(self) -> dict[str, str]:
        """The neutral form of each word by its first row, as published code writes it."""
        return {w: e.rows[0].neutral[e.group] for w, e in self.entries.items() if e.group is not None}

    def swap_of(self, to: str | None) -> dict[str, str]:
        """The swap as published code would write it: the first row of a word, typing errors included."""
        swaps = {}
        for word, group in self.group_of.items():
            row = self.entries[word].rows[0]
            new = self._counterpart(row, group, to)
            target = next((g for g, words in row.words.items() if words[0] == new and g != group), None)
            if new and target is not None:
                swaps[word] = row.typo.get(target, new)
        return swaps


def _replacement(text: str, low: str, start: int, end: int, new: str) -> list[Edit]:
    edit = (start, end, in_case_of(text[start:end], new))
    fitted = article_edit(text, low, start, low[start:end], new)
    return [edit] if fitted is None else [fitted, edit]


def _joined(texts: Iterable[str]) -> Iterator[tuple[list[str], str | None]]:
    """Texts in chunks, each with its texts joined; ``None`` where a text holds the separator itself."""
    rest = iter(texts)
    while chunk := list(islice(rest, _CHUNK)):
        try:
            joined = SEPARATOR.join(chunk)
        except TypeError:
            for text in chunk:
                checked(text)
            raise
        yield chunk, (joined if joined.count(SEPARATOR) == len(chunk) - 1 else None)


def checked(text: str) -> str:
    """``text`` if it is one; captions read from tables are sometimes missing (NaN)."""
    if not isinstance(text, str):
        raise InputError(f"a caption must be text, not {type(text).__name__} ({text!r}); drop or fill missing captions")
    return text
