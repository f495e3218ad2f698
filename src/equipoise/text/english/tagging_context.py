"""What a word of a caption is: by itself where it can be one thing only, else by its neighbours."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from equipoise.text.english.tagging_words import (
    ADJECTIVES,
    ADJECTIVES_OR_NOUNS,
    ADVERBS,
    ADVERBS_OR_ADJECTIVES,
    ADVERBS_OR_FUNCTION,
    BE,
    COMPOUND_HEADS,
    COMPOUND_NOUNS,
    DETERMINERS,
    FUNCTION_WORDS,
    GERUND_NOUNS,
    HELPERS,
    ING_NOUNS,
    NOUN_FIRST,
    NOUNS,
    PARTICIPLE_ADJECTIVES,
    PLURALS,
    PREPOSITIONS,
    PRONOUNS,
    SUBJECTS,
    VERB_FORMS,
)

FUNCTION, NOUN, VERB, ADJECTIVE, ADVERB = "function", "noun", "verb", "adjective", "adverb"
_MODALS = HELPERS - {"has", "have", "had", "having", "done"}
_POSSESSIVES = frozenset("his her its their my your our 's".split())
_BEFORE_NOUN = DETERMINERS | _POSSESSIVES
_COLOURS = frozenset("red blue green yellow white black brown gray grey pink purple orange silver gold violet".split())

_ADJECTIVE_ENDINGS = ("ous", "ful", "ive", "less", "able", "ible", "ish", "esque", "ical", "ary", "ic", "al", "most")
_DIRECTIONS = frozenset(("left", "right", "back"))
_LIGHTS = frozenset("fixture fixtures pole poles bulb bulbs switch post posts".split())
_NOT_COMPARED = frozenset("owner dryer cooler opener cleaner loser freezer".split())
_ADJECTIVE_PARTS = frozenset(
    "old sized colored coloured shaped style looking like eyed haired legged handed sleeved story tiered type free "
    "long high deep wide tall white black red blue green brown gray grey yellow pink orange lit made themed".split()
)
_NOT_LY = frozenset(
    "friendly lovely elderly curly lonely lively daily weekly ugly silly early likely hilly smelly".split()
)


@lru_cache(maxsize=200_000)
def word_tags(word: str) -> tuple[str, ...]:
    """The tags that ``word`` can have, most likely first; more than one means that its neighbours decide.

    >>> word_tags("the"), word_tags("quickly"), word_tags("rides"), word_tags("parked")
    (('function',), ('adverb',), ('verb', 'noun'), ('verb', 'adjective'))
    """
    if word in ADVERBS_OR_FUNCTION:
        return (ADVERB, FUNCTION)
    if word == "there":
        return (FUNCTION, ADVERB)
    if word == "next":
        return (FUNCTION, ADJECTIVE)
    if word == "like":
        return (FUNCTION, VERB)
    if word in FUNCTION_WORDS or not any(letter.isalpha() for letter in word):
        return (FUNCTION,)
    if word[0].isdigit():
        return (ADJECTIVE,) if "-" in word else (FUNCTION,)
    if word in ADVERBS:
        return (ADVERB,)
    if word in ADVERBS_OR_ADJECTIVES:
        return (ADVERB, ADJECTIVE)
    kinds = VERB_FORMS.get(word, frozenset())
    if word in ADJECTIVES_OR_NOUNS:
        return (ADJECTIVE, NOUN, VERB) if kinds else (ADJECTIVE, NOUN)
    if word in ADJECTIVES:
        return (ADJECTIVE, VERB) if kinds & {"base", "s"} else (ADJECTIVE,)
    if word in ING_NOUNS or (word.endswith("s") and word[:-1] in ING_NOUNS):
        return (NOUN, VERB) if kinds & {"ing"} else (NOUN,)
    if kinds:
        return _of_verb(kinds)
    if "-" in word:
        return _of_hyphenated(word)
    return _of_ending(word)


def _of_verb(kinds: frozenset[str]) -> tuple[str, ...]:
    if "ing" in kinds:
        return (VERB, ADJECTIVE, NOUN)
    if kinds == {"past"}:
        return (VERB, ADJECTIVE)
    return (VERB, NOUN)


def _of_hyphenated(word: str) -> tuple[str, ...]:
    first, last = word.split("-", 1)[0], word.rsplit("-", 1)[1]
    if last in _ADJECTIVE_PARTS or last.endswith("ed") or "past" in VERB_FORMS.get(last, ()) or last in ADJECTIVES:
        return (ADJECTIVE,)
    if last.endswith("ing") and last in VERB_FORMS:
        return (VERB, ADJECTIVE, NOUN)
    if first in DETERMINERS or first in ("multi", "semi", "mid", "all", "high", "low"):
        return (ADJECTIVE,)
    return (NOUN,)


def _of_ending(word: str) -> tuple[str, ...]:
    if word in NOUNS or word in PLURALS or len(word) < 4:
        return (NOUN,)
    if word.endswith("ly"):
        return (ADJECTIVE,) if word in _NOT_LY else (ADVERB,)
    if word.endswith("ing") and any(letter in "aeiouy" for letter in word[:-3]):
        return (VERB, ADJECTIVE, NOUN)
    if word.endswith("ed"):
        return (VERB, ADJECTIVE)
    if word.endswith(_ADJECTIVE_ENDINGS) and len(word) > 5:
        return (ADJECTIVE,)
    if word.endswith(("er", "est")) and _is_compared(word):
        return (ADJECTIVE,)
    if word.endswith("s") and not word.endswith(("ss", "us", "is", "ics")):
        return (NOUN, VERB)
    return (NOUN,)


def _is_compared(word: str) -> bool:
    """Whether it is an adjective with -er or -est ("bigger", "largest")."""
    if word in _NOT_COMPARED:
        return False
    cut = word[: -2 if word.endswith("er") else -3]
    bases = [cut, cut + "e"]
    if cut[-1:] == "i":
        bases.append(cut[:-1] + "y")
    if cut[-1:] == cut[-2:-1]:
        bases.append(cut[:-1])
    return any(b in ADJECTIVES or b in ADVERBS_OR_ADJECTIVES or b in _COLOURS for b in bases)


def tag_at(i: int, words: Sequence[str], tags: Sequence[str]) -> str:
    """The tag of ``words[i]``, which can have several, given the ``tags`` of the words before it."""
    word = words[i]
    known = word_tags(word)
    if known == (FUNCTION, ADVERB):
        return FUNCTION if _word(words, i + 1) in BE | HELPERS | {"appears", "seems"} else ADVERB
    if word == "next":
        return FUNCTION if _word(words, i + 1) == "to" else ADJECTIVE
    if word == "like":
        return VERB if i and (words[i - 1] in _MODALS or words[i - 1] == "to") else FUNCTION
    if known == (ADVERB, FUNCTION):
        if i and words[i - 1] in ("the", "its", "their"):
            return NOUN
        return FUNCTION if _begins_phrase(words, i + 1) or _word(words, i + 1) == "of" else ADVERB
    if known == (ADVERB, ADJECTIVE):
        return _adverb_or_adjective(i, words, tags)
    if known[0] == ADJECTIVE:
        return _adjective_or_other(i, words, tags, known)
    kinds = VERB_FORMS.get(word, frozenset())
    if not kinds and known == (NOUN, VERB):
        # A word that is not known: a plural, but for "a man straightens his tie".
        j = _before_adverbs(i, tags)
        alone = j >= 0 and tags[j] == NOUN and not _is_plural(words[j]) and VERB not in tags
        return VERB if alone and _word(words, i + 1) in _BEFORE_NOUN | {"as", "while"} else NOUN
    if word.endswith("ing") and "base" not in kinds:
        return _ing(i, words, tags)
    if known == (VERB, ADJECTIVE):
        return _participle(i, words)
    return _noun_or_verb(i, words, tags, kinds)


def _before_adverbs(i: int, tags: Sequence[str]) -> int:
    """The last position before ``i`` that holds no adverb; -1 or 0 at the beginning."""
    j = i - 1
    while j > 0 and tags[j] == ADVERB:
        j -= 1
    return j


def _word(words: Sequence[str], i: int) -> str:
    return words[i] if 0 <= i < len(words) else ""


def _begins_phrase(words: Sequence[str], i: int) -> bool:
    """Whether a noun phrase begins at ``i``."""
    word = _word(words, i)
    return bool(word) and (word in _BEFORE_NOUN or word in PRONOUNS or _can_be_noun(word) or word[0].isdigit())


def _can_be_noun(word: str) -> bool:
    """Whether ``word`` is, or describes, a noun."""
    if not word:
        return False
    tags = word_tags(word)
    return tags[0] in (NOUN, ADJECTIVE) or (tags == (VERB, NOUN) and word in NOUN_FIRST | _plural_nouns())


@lru_cache(maxsize=1)
def _plural_nouns() -> frozenset[str]:
    return frozenset(form for form, kinds in VERB_FORMS.items() if "s" in kinds and _base_of_s(form) in NOUN_FIRST)


def _base_of_s(form: str) -> str:
    for base in (form[:-1], form[:-2], form[:-3] + "y"):
        if "base" in VERB_FORMS.get(base, ()):
            return base
    return ""


def _reaches_noun(words: Sequence[str], i: int) -> bool:
    """Whether a noun stands at ``i``, or adjectives and then a noun."""
    while word_tags(_word(words, i) or "the")[0] == ADJECTIVE:
        i += 2 if _word(words, i + 1) in ("and", "or", ",") else 1
    return _can_be_noun(_word(words, i))


def _adverb_or_adjective(i: int, words: Sequence[str], tags: Sequence[str]) -> str:
    before = _word(words, i - 1)
    if _can_be_noun(_word(words, i + 1)) and (i == 0 or before in _BEFORE_NOUN or tags[-1] in (ADJECTIVE, FUNCTION)):
        return ADJECTIVE
    if before in BE or before in ("very", "too", "so", "how") or before in _BEFORE_NOUN:
        return ADJECTIVE
    return ADVERB


def _adjective_or_other(i: int, words: Sequence[str], tags: Sequence[str], known: tuple[str, ...]) -> str:
    word, before, after = words[i], _word(words, i - 1), _word(words, i + 1)
    if VERB in known:
        kinds = VERB_FORMS[word]
        if _is_verb_place(i, words, tags, kinds) and not _can_be_noun(after) and before not in BE:
            return VERB
    if NOUN not in known:
        return ADJECTIVE
    if tags and tags[-1] == NOUN and word not in _COLOURS and i and before not in _BEFORE_NOUN:
        return NOUN  # "a traffic light"
    if word == "light" and after in _LIGHTS:
        return NOUN
    j = i + 1
    while _word(words, j) in ("and", "or", ",", "&") and word_tags(_word(words, j + 1) or "the")[0] == ADJECTIVE:
        j += 2
    if _can_be_noun(_word(words, j)) or (_word(words, j).endswith("ed") and _can_be_noun(_word(words, j + 1))):
        return ADJECTIVE
    if word_tags(_word(words, j) or "the")[0] == VERB and before in _BEFORE_NOUN and _can_be_noun(_word(words, j + 1)):
        return ADJECTIVE
    if tags and tags[-1] == ADJECTIVE and (word in _COLOURS and before not in _COLOURS):
        return ADJECTIVE
    if word in _DIRECTIONS and tags and tags[-1] == VERB:
        return ADVERB
    if before in BE or (tags and tags[-1] in (ADVERB, VERB)):
        return ADJECTIVE
    if before in ("and", "or") and i >= 2:
        return tags[i - 2] if tags[i - 2] in (ADJECTIVE, NOUN) else NOUN
    return NOUN


def _ing(i: int, words: Sequence[str], tags: Sequence[str]) -> str:
    word, before, after = words[i], _word(words, i - 1), _word(words, i + 1)
    if word in GERUND_NOUNS and after in COMPOUND_HEADS and before not in BE:
        return NOUN
    described = _can_be_noun(after)
    if word in ING_NOUNS:
        acted = after in _BEFORE_NOUN or (described and word in VERB_FORMS and word != "building")
        return VERB if before in BE or (tags and tags[-1] == NOUN and acted) else NOUN
    if before in BE:
        return VERB
    if before in _BEFORE_NOUN or (tags and tags[-1] == ADJECTIVE and i >= 2 and words[i - 2] in _BEFORE_NOUN):
        if described:
            return ADJECTIVE
        if before in ("one", "another") or (before == "other" and tags[-1] == ADJECTIVE):
            return VERB
        return NOUN if not after or after in PREPOSITIONS | BE or after in ("and", "or") else VERB
    if described and word in PARTICIPLE_ADJECTIVES and (i == 0 or before in PREPOSITIONS or before == "and"):
        return ADJECTIVE
    return VERB


def _participle(i: int, words: Sequence[str]) -> str:
    before, j = _word(words, i - 1), i + 1
    while _word(words, j) in ("and", "or") and word_tags(_word(words, j + 1) or "the")[0] in (VERB, ADJECTIVE):
        j += 2
    after = _word(words, j)
    if before in BE or before in HELPERS or before in SUBJECTS - DETERMINERS:
        return VERB
    if not _reaches_noun(words, j):
        gerund = after in GERUND_NOUNS and before in _BEFORE_NOUN
        chained = word_tags(after or "the") == (VERB, ADJECTIVE) and before in _BEFORE_NOUN
        if gerund or chained:
            return ADJECTIVE
        return NOUN if before in _BEFORE_NOUN and not words[i].endswith("ed") else VERB  # "the shot"
    return ADJECTIVE


def _noun_or_verb(i: int, words: Sequence[str], tags: Sequence[str], kinds: frozenset[str]) -> str:
    word = words[i]
    if _is_verb_place(i, words, tags, kinds):
        return VERB
    noun_first = word in NOUN_FIRST or _base_of_s(word) in NOUN_FIRST
    if noun_first or (tags and (tags[-1] == ADJECTIVE or words[i - 1] in _BEFORE_NOUN | PREPOSITIONS)):
        return NOUN
    return VERB


def _is_verb_place(i: int, words: Sequence[str], tags: Sequence[str], kinds: frozenset[str]) -> bool:
    """Whether a verb of these forms can stand here, and a noun can hardly."""
    word, before, after = words[i], _word(words, i - 1), _word(words, i + 1)
    if i == 0:
        return False
    if before in _MODALS or before in ("n't", "not"):
        return "base" in kinds
    if before == "to":
        return "base" in kinds and _word(words, i - 2) not in ("next", "close", "up", "attached", "due")
    if before == "that" and word in NOUN_FIRST:
        return _ends_clause(after)
    if before in SUBJECTS and before != "there":
        return True
    j = _before_adverbs(i, tags)
    if tags[j] == NOUN:
        return _agrees(j, words, tags, word, kinds, after)
    if before == "and" and VERB in tags:
        finite = next(k for k in range(len(tags) - 1, -1, -1) if tags[k] == VERB)
        return bool(kinds & VERB_FORMS.get(words[finite], frozenset()) & {"base", "s", "past"})
    return False


def _agrees(j: int, words: Sequence[str], tags: Sequence[str], word: str, kinds: frozenset[str], after: str) -> bool:
    """Whether ``word`` after the noun ``words[j]`` is its verb and not the second part of a compound."""
    if "past" in kinds and not kinds & {"base", "s"}:
        return True
    plural = _is_plural(words[j]) or _is_joined(j, words, tags)
    if "base" in kinds:
        return plural and (word not in COMPOUND_NOUNS or _is_plural(words[j]) or _ends_clause(after))
    if plural:
        return _ends_clause(after) or after in ("and", "as", "while")
    if _base_of_s(word) not in COMPOUND_NOUNS or _ends_clause(after):
        return True
    # "An elephant sprays water": with no other verb, and something that it is done to.
    return _can_be_noun(after) and VERB not in tags and not any(map(_is_clear_verb, words[len(tags) + 1 :]))


def _is_clear_verb(word: str) -> bool:
    return word in BE or word in HELPERS or (word_tags(word)[0] == VERB and word not in NOUN_FIRST | _plural_nouns())


def _is_plural(noun: str) -> bool:
    return noun in PLURALS or (noun.endswith("s") and not noun.endswith(("ss", "'s")) and noun not in NOUNS)


def _is_joined(j: int, words: Sequence[str], tags: Sequence[str]) -> bool:
    """Whether the noun at ``j`` is the second of two ("a man and a woman")."""
    k = j - 1
    while k > 0 and (tags[k] in (NOUN, ADJECTIVE) or words[k] in _BEFORE_NOUN):
        k -= 1
    return k > 0 and words[k] == "and" and tags[k - 1] == NOUN and VERB not in tags


def _ends_clause(after: str) -> bool:
    """Whether what follows is the rest of a clause: a phrase, a preposition, an adverb."""
    return bool(after) and (after in _BEFORE_NOUN or after in PREPOSITIONS or word_tags(after)[0] == ADVERB)
