"""The stem of an English word, by Porter's rules (Porter 1980): "running", "runs" and "run" become one."""

from __future__ import annotations

from functools import lru_cache

_STEP_2 = {
    "ational": "ate",
    "tional": "tion",
    "enci": "ence",
    "anci": "ance",
    "izer": "ize",
    "abli": "able",
    "alli": "al",
    "entli": "ent",
    "eli": "e",
    "ousli": "ous",
    "ization": "ize",
    "ation": "ate",
    "ator": "ate",
    "alism": "al",
    "iveness": "ive",
    "fulness": "ful",
    "ousness": "ous",
    "aliti": "al",
    "iviti": "ive",
    "biliti": "ble",
}
_STEP_3 = {"icate": "ic", "ative": "", "alize": "al", "iciti": "ic", "ical": "ic", "ful": "", "ness": ""}
_STEP_4 = "al ance ence er ic able ible ant ement ment ent ion ou ism ate iti ous ive ize".split()


@lru_cache(maxsize=100_000)
def stem(word: str) -> str:
    """The stem of ``word``, which is in lower case; not a word itself in general.

    >>> [stem(word) for word in ("ponies", "running", "happy", "relational", "skies")]
    ['poni', 'run', 'happi', 'relat', 'ski']
    """
    if len(word) <= 2 or not (word.isascii() and word.isalpha()):
        return word
    word = _without_ending(_without_plural(word))
    if word.endswith("y") and _has_vowel(word[:-1]):
        word = word[:-1] + "i"
    word = _replaced(word, _STEP_2)
    word = _replaced(word, _STEP_3)
    word = _without_suffix(word)
    return _without_last_e(word)


def _shape(word: str) -> str:
    """A ``c`` or a ``v`` for each letter."""
    shape = ""
    for letter in word:
        vowel = letter in "aeiou" or (letter == "y" and shape.endswith("c"))
        shape += "v" if vowel else "c"
    return shape


def _measure(word: str) -> int:
    """How often a vowel is followed by a consonant."""
    return _shape(word).count("vc")


def _has_vowel(word: str) -> bool:
    return "v" in _shape(word)


def _ends_double(word: str) -> bool:
    return len(word) > 1 and word[-1] == word[-2] and _shape(word)[-1] == "c"


def _ends_short(word: str) -> bool:
    """Whether it ends in consonant, vowel, consonant, and the last is not w, x or y ("hop", not "snow")."""
    return _shape(word).endswith("cvc") and word[-1] not in "wxy"


def _without_plural(word: str) -> str:
    if word.endswith(("sses", "ies")):
        return word[:-2]
    if word.endswith("s") and not word.endswith("ss"):
        return word[:-1]
    return word


def _without_ending(word: str) -> str:
    """Without "ed" and "ing", the verb repaired: "hopping" gives "hop", "hoping" gives "hope"."""
    if word.endswith("eed"):
        return word[:-1] if _measure(word[:-3]) > 0 else word
    for ending in ("ed", "ing"):
        rest = word[: -len(ending)]
        if word.endswith(ending) and _has_vowel(rest):
            if rest.endswith(("at", "bl", "iz")):
                return rest + "e"
            if _ends_double(rest) and rest[-1] not in "lsz":
                return rest[:-1]
            return rest + "e" if _measure(rest) == 1 and _ends_short(rest) else rest
    return word


def _replaced(word: str, endings: dict[str, str]) -> str:
    for length in range(7, 2, -1):
        ending = word[-length:]
        if len(word) > length and ending in endings:
            rest = word[:-length]
            return rest + endings[ending] if _measure(rest) > 0 else word
    return word


def _without_suffix(word: str) -> str:
    for length in range(5, 1, -1):
        ending, rest = word[-length:], word[:-length]
        if ending in _STEP_4 and rest:
            if _measure(rest) > 1 and (ending != "ion" or rest[-1] in "st"):
                return rest
            return word
    return word


def _without_last_e(word: str) -> str:
    rest = word[:-1]
    if word.endswith("e") and (_measure(rest) > 1 or (_measure(rest) == 1 and not _ends_short(rest))):
        word = rest
    if word.endswith("ll") and _measure(word) > 1:
        word = word[:-1]
    return word
