"""Who does a text say is in the picture; say it of nobody in particular; say it of someone else; do not say it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cache, cached_property, partial
from importlib.resources import files
from itertools import islice
from pathlib import Path

from equipoise.errors import InputError, UnknownNameError
from equipoise.registry import Registry
from equipoise.text.english.recognising import other_language
from equipoise.text.lexicon import compat as compat_rules
from equipoise.text.lexicon import file as lexicon_file
from equipoise.text.lexicon.agreement import NEUTRAL, agreed, telltales
from equipoise.text.lexicon.file import LexiconContents, Row
from equipoise.text.lexicon.index import Match, WordIndex, checked
from equipoise.text.lexicon.positions import lower
from equipoise.text.lexicon.rewriting import apply_edits

__all__ = ["LEXICONS", "Lexicon", "Match"]

DEFAULT = "equipoise"
# Numbers of their papers were met with what these write; it stays as it is, clumsy possessives and commas included.
_PUBLISHED = frozenset(("gensynth_paper", "gensynth_code", "lic", "libra", "dba"))
LEXICONS = Registry("lexicon")
for _id, _summary, _citation, _licence in (
    (
        "equipoise",
        "The default: the union of the published gender lists, made consistent.",
        "Equipoise",
        "Apache-2.0",
    ),
    ("gensynth_paper", "Fourteen gender rows, as printed.", "GenSynth (arXiv 2305.15407), Table 3", "facts"),
    ("gensynth_code", "22 + 22 gender words, as released.", "GenSynth (arXiv 2305.15407), code", "facts"),
    ("lic", "27 + 23 gender words, as released.", "LIC (CVPR 2022), code", "facts"),
    ("libra", "31 + 27 gender words, as released.", "LIBRA (CVPR 2023), code", "facts"),
    ("dba", "5 + 5 gender words, as released.", "Wang and Russakovsky (ICML 2021), code", "facts"),
    ("age", "Words for perceived age, for masking and prompts.", "Equipoise", "Apache-2.0"),
    ("race", "Words for perceived race, for masking and prompts.", "Equipoise", "Apache-2.0"),
    ("skin_tone", "Words for perceived skin tone, for masking.", "Equipoise", "Apache-2.0"),
):
    LEXICONS.add(_id, "equipoise.text.lexicon:built_in", summary=_summary, citation=_citation, licence=_licence)


@dataclass(frozen=True)
class Lexicon:
    """Words by group on one axis (gender, age, race, …), and what can be done with them.

    >>> words = Lexicon.load("equipoise")
    >>> words.label("A woman and her dog")
    'female'
    >>> words.neutralise("A woman and her dog")
    'A person and their dog'
    >>> words.swap("A woman and her dog", to="male")
    'A man and his dog'
    >>> words.mask("A woman and her dog")
    'A <gender> and <gender> dog'
    """

    contents: LexiconContents

    @staticmethod
    def load(id_or_path: str | Path) -> Lexicon:
        """The lexicon with this id, or the one in a TOML file of your own.

        >>> Lexicon.load("agee")
        Traceback (most recent call last):
            ...
        equipoise.errors.UnknownNameError: there is no lexicon named 'agee'; did you mean 'age'?
        """
        name = str(id_or_path)
        if isinstance(id_or_path, Path) or name.endswith(".toml") or "/" in name or "\\" in name:
            return Lexicon(lexicon_file.read(Path(name)))
        return _load_by_id(name)

    @property
    def id(self) -> str:
        """The lexicon's name, to be recorded with every result."""
        return self.contents.id

    @property
    def axis(self) -> str:
        """What the groups are groups of: gender, age, race, …"""
        return self.contents.axis

    @property
    def groups(self) -> tuple[str, ...]:
        """The names of the groups."""
        return self.contents.groups

    @property
    def rows(self) -> tuple[Row, ...]:
        """The rows, as in the file."""
        return self.contents.rows

    def words(self, group: str | None = None) -> frozenset[str]:
        """All words, or those of one group.

        >>> len(Lexicon.load("lic").words("male")), len(Lexicon.load("lic").words("female"))
        (27, 23)
        """
        if group is not None:
            self._check_group(group)
        return frozenset(w for w, e in self._index.entries.items() if e.group is not None and group in (None, e.group))

    @cached_property
    def reversible(self) -> frozenset[str]:
        """The words that come back when a text is swapped there and back: those with a counterpart of their own.

        The pronoun "her" is in the list, but which "her" it was (object or determiner) is read from its position
        and can be misread; "mrs" is not, because it becomes "mr" and that becomes "ms". The bare apostrophe of "the
        ladies'" at the end of a clause is read as a closing quotation mark and does not come back as "gentlemen's".
        """
        pairs = [row for row in self.rows if len(row.words) == len(self.groups) > 1]
        return frozenset(words[0] for row in pairs for words in row.words.values())

    # One text

    def find(self, text: str) -> list[Match]:
        """Every word of the lexicon in ``text``, in order, each read by its position.

        >>> [(m.word, m.group, m.row.role) for m in Lexicon.load("equipoise").find("His dog likes her")]
        [('his', 'male', 'determiner'), ('her', 'female', 'object')]
        """
        low = lower(checked(text))
        hits = (self._index.read(text, low, start, end) for start, end in self._index.finder.spans(low))
        return [match for match in hits if match is not None]

    def groups_in(self, text: str, *, compat: str | None = None) -> frozenset[str]:
        """The groups that ``text`` speaks of; a word said of an animal ("mother elephant") does not count.

        >>> sorted(Lexicon.load("equipoise").groups_in("A man hugs his mother"))
        ['female', 'male']
        """
        if compat is not None:
            by_word = self._index.group_of
            return frozenset(by_word[t] for t in compat_rules.tokens(checked(text), compat) if t in by_word)
        return self._index.groups_in(checked(text))

    def label(self, text: str, *, compat: str | None = None) -> str | None:
        """The one group that ``text`` speaks of; ``None`` when it speaks of none or of several.

        >>> Lexicon.load("gensynth_code").label("The woman's bag")
        'female'
        >>> Lexicon.load("gensynth_code").label("The woman's bag", compat="gensynth") is None
        True
        """
        return _only(self.groups_in(text, compat=compat))

    def label_image(self, captions: Iterable[str], *, compat: str | None = None) -> str | None:
        """The one group that an image's captions speak of, all together; ``None`` for none or several.

        One caption that names two groups makes the image undefined, as in GenSynth's rule.

        >>> Lexicon.load("equipoise").label_image(["A man rides.", "Someone on a horse"])
        'male'
        """
        return self.label_images([captions], compat=compat)[0]

    def neutralise(self, text: str, *, agree: bool = False, compat: str | None = None) -> str:
        """``text`` without saying who: each word of a group becomes the word for anyone.

        Case, punctuation and everything else stay; only "a"/"an" before a rewritten word follows it. With
        ``agree`` the verb follows a subject that became "they".

        >>> words = Lexicon.load("equipoise")
        >>> words.neutralise("She is an actress; a man sees her.", agree=True)
        'They are a performer; a person sees them.'
        """
        _refuse_agreement(agree, compat)
        if compat is not None:
            return compat_rules.rewrite(checked(text), compat, self._index.neutral_of)
        return self.neutralise_all([text], agree=agree)[0]

    def swap(self, text: str, to: str | None = None, *, compat: str | None = None) -> str:
        """``text`` said of group ``to``: each word of another group becomes ``to``'s word.

        Without ``to``, a lexicon of two groups exchanges them. A word without a counterpart takes that of the default
        lexicon ("guy" of ``libra``); where that has none either it stays: see :meth:`left_by_swap`. Swapping there and
        back gives the text again for the words in :attr:`reversible`.

        >>> words = Lexicon.load("equipoise")
        >>> words.swap("He gave her his umbrella.")
        'She gave him her umbrella.'
        """
        self._check_target(to)
        if compat is not None:
            return compat_rules.rewrite(checked(text), compat, self._index.swap_of(to))
        return self.swap_all([text], to)[0]

    def left_by_swap(self, text: str, to: str | None = None) -> list[str]:
        """The words that a swap cannot say of another group, so that its text would be half swapped.

        >>> words = Lexicon.load("libra")
        >>> words.swap("A guy riding his bike"), words.left_by_swap("A guy riding his bike")
        ('A gal riding her bike', [])
        >>> words.left_by_swap("A pregnant woman and her dog")
        ['pregnant']
        """
        self._check_target(to)
        return [match.word for match in self.find(text) if self._index.stays(match, to)]

    def mask(self, text: str, token: str | None = None, *, compat: str | None = None) -> str:
        """``text`` with each word of any group replaced by ``token`` (``"<axis>"`` unless given).

        >>> Lexicon.load("lic").mask("A woman's hat.", compat="lic")
        "a genderword 's hat ."
        """
        if compat is not None:
            masked = compat_rules.MASKS.get(compat, "") if token is None else token
            return compat_rules.rewrite(checked(text), compat, dict.fromkeys(self._index.group_of, masked))
        with_token = f"<{self.axis}>" if token is None else token
        if self.groups_in(with_token):
            raise InputError(f"the mask {with_token!r} is itself a word of lexicon {self.id!r}; choose another")
        return apply_edits(text, [(m.start, m.end, with_token) for m in self.find(text)])

    # Many texts at a time

    def groups_in_all(self, texts: Iterable[str], *, compat: str | None = None) -> list[frozenset[str]]:
        """:meth:`groups_in` of each text."""
        if compat is not None:
            return [self.groups_in(text, compat=compat) for text in texts]
        return self._index.groups_in_all(_many(texts))

    def label_all(self, texts: Iterable[str], *, compat: str | None = None) -> list[str | None]:
        """:meth:`label` of each text.

        >>> Lexicon.load("equipoise").label_all(["A man", "A dog", "Two women"])
        ['male', None, 'female']
        """
        return [_only(groups) for groups in self.groups_in_all(texts, compat=compat)]

    def label_images(self, images: Iterable[Iterable[str]], *, compat: str | None = None) -> list[str | None]:
        """:meth:`label_image` of each image's captions.

        >>> Lexicon.load("equipoise").label_images([["A man", "A dog"], [], ["A man", "A woman"]])
        ['male', None, None]
        """
        sizes: list[int] = []
        groups = iter(self.groups_in_all(_counted(images, sizes), compat=compat))
        return [_only(frozenset().union(*islice(groups, size))) for size in sizes]

    def neutralise_all(self, texts: Iterable[str], *, agree: bool = False, compat: str | None = None) -> list[str]:
        """:meth:`neutralise` of each text."""
        _refuse_agreement(agree, compat)
        if compat is not None:
            return [self.neutralise(text, compat=compat) for text in texts]
        index = self._index
        texts = self._agreed(texts, NEUTRAL)
        plain = index.plain_neutral_but_subjects if agree else index.plain_neutral
        neutral = index.rewrite_all(_many(texts), plain, index.neutral_edits, agree)
        # Words that count only before some nouns ("black", "old") may come to stand before one when others are taken
        # out. Each round takes words out and writes none of the lexicon's, so it ends.
        while index.has_context_words and any(index.groups_in_all(neutral)):
            neutral = index.rewrite_all(neutral, plain, index.neutral_edits, agree)
        return neutral

    def swap_all(self, texts: Iterable[str], to: str | None = None, *, compat: str | None = None) -> list[str]:
        """:meth:`swap` of each text."""
        self._check_target(to)
        if compat is not None:
            return [self.swap(text, to, compat=compat) for text in texts]
        index = self._index
        if self.contents.agreement or self.contents.endings:
            texts = [self._swapped_agreement(text, to) for text in _many(texts)]
        return index.rewrite_all(_many(texts), index.plain_swap(to), partial(index.swap_edits, to), agree=False)

    def mask_all(self, texts: Iterable[str], token: str | None = None, *, compat: str | None = None) -> list[str]:
        """:meth:`mask` of each text."""
        return [self.mask(text, token, compat=compat) for text in _many(texts)]

    @property
    def language(self) -> str:
        """The code of its language; English unless a file of one's own says another, empty if it says none."""
        return self.contents.language

    @property
    def warning(self) -> str:
        """What neutral captions may still say, where the language has no rules here; empty for English."""
        contents = self.contents
        if contents.language == "en" or contents.agreement or contents.endings:
            return ""
        named = f"of language {contents.language!r}" if contents.language else "of a language that it does not name"
        return (
            f"the lexicon {self.id!r} is {named} and declares no agreement words: articles and endings stay as they "
            "are and may tell the group; declare `language`, and if it needs them `agreement` and `endings`"
        )

    def unfit_for(self, texts: Iterable[str]) -> str:
        """Why an English lexicon finds nobody in these texts, in a sentence; empty where they may well be English."""
        language = other_language(texts) if self.language == "en" else ""
        if not language:
            return ""
        return (
            f"the captions seem to be {language}, and the lexicon {self.id!r} is English: words that name a group, "
            "articles and endings stay in them and tell the group; write a lexicon of their language "
            "(docs/adding-a-lexicon.md) and give it with --lexicon FILE"
        )

    def still_told(self, neutral: Iterable[str], groups: Iterable[str | None]) -> str:
        """The words by which neutral captions still tell a group, in a sentence; empty for English, or if none do."""
        if self.language == "en":
            return ""
        words = telltales(neutral, groups)
        if not words:
            return ""
        shown = ", ".join(f"{word!r} ({group})" for word, group in list(words.items())[:6])
        return f"neutral captions still tell the group, by {shown}; declare such words as `agreement` in the lexicon"

    def _agreed(self, texts: Iterable[str], to: str) -> Iterable[str]:
        contents = self.contents
        if not contents.agreement and not contents.endings:
            return texts
        return [agreed(text, self.find(text), contents.agreement, contents.endings, to) for text in _many(texts)]

    def _swapped_agreement(self, text: str, to: str | None) -> str:
        """The words that agree in the form of the group that the text will speak of."""
        matches = self.find(text)
        groups = {match.group for match in matches}
        if len(groups) != 1:  # of several people nothing tells which word agrees with whom
            return text
        here = groups.pop()
        other = to or next(group for group in self.groups if group != here)
        return agreed(text, matches, self.contents.agreement, self.contents.endings, other)

    @cached_property
    def _index(self) -> WordIndex:
        fits_english = self.language == "en" and self.id not in _PUBLISHED
        return WordIndex(self.contents, self._completions(), fits_english)

    def _completions(self) -> dict[tuple[str, str], str]:
        """Counterparts in the default lexicon of words that have none here, where it speaks of the same groups."""
        if self.id == DEFAULT or self.language != "en":
            return {}
        lonely = [(row, group, to) for row in self.rows for group in row.words for to in self.groups]
        lonely = [(row, group, to) for row, group, to in lonely if to not in row.words]
        default = _load_by_id(DEFAULT) if lonely else None
        if default is None or (default.axis, set(default.groups)) != (self.axis, set(self.groups)):
            return {}
        return {
            (row.words[group][0], to): known.words[to][0]
            for row, group, to in lonely
            for known in reversed(default.rows)
            if row.words[group][0] in known.words.get(group, ()) and to in known.words
        }

    def _check_target(self, to: str | None) -> None:
        if to is not None:
            self._check_group(to)
        elif len(self.groups) != 2:
            raise InputError(f"swap needs `to`: lexicon {self.id!r} has {len(self.groups)} groups")

    def _check_group(self, group: str) -> None:
        if group not in self.groups:
            raise UnknownNameError(f"group in lexicon {self.id!r}", group, self.groups)


def _many(texts: Iterable[str]) -> Iterable[str]:
    if isinstance(texts, str):
        raise InputError("expected a list of texts, not one text")
    return texts


def _refuse_agreement(agree: bool, compat: str | None) -> None:
    if agree and compat is not None:
        raise InputError(f"agree was asked for with compat={compat!r}, whose published code has no such rule; drop one")


def _counted(images: Iterable[Iterable[str]], sizes: list[int]) -> Iterator[str]:
    """The captions of all images in one stream; how many each image has goes into ``sizes``."""
    for captions in images:
        before = list(_many(captions))
        sizes.append(len(before))
        yield from before


def _only(groups: frozenset[str]) -> str | None:
    return next(iter(groups)) if len(groups) == 1 else None


@cache
def _load_by_id(name: str) -> Lexicon:
    loaded = LEXICONS.load(name)(name)
    if not isinstance(loaded, Lexicon):
        raise InputError(f"the lexicon {name!r} was registered with a function that returns no Lexicon")
    return loaded


def built_in(name: str) -> Lexicon:
    """The lexicon of this id that comes with Equipoise."""
    source = files("equipoise.text") / "lexicons" / f"{name}.toml"
    contents = lexicon_file.parse(source.read_text(encoding="utf-8"), f"{name}.toml")
    return Lexicon(replace(contents, language="en"))
