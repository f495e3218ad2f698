"""The indefinite article: which of "a" and "an" goes before a phrase.

The choice follows the *sound* of the first word, so "an hour" and "a university student". A template writes
``a/an`` (or ``A/An``) where the article is not known yet and :func:`agreed` resolves it.
"""

from __future__ import annotations

import re
import unicodedata

_FIRST_WORD = re.compile(r"[^\W_]+(?:[.'’][^\W_]+)*")
_OPEN_ARTICLE = re.compile(r"\b([Aa])/[Aa]n\s+(?=\S)")

# Letters whose name begins with a vowel sound ("an F"), as they are said in abbreviations.
_VOWEL_NAMED = frozenset("aefhilmnorsx")

# Words that begin with a vowel letter and a consonant sound ("you", "wun") …
_CONSONANT_SOUND = re.compile(
    r"""
    eu | ew | ouija
    | one (?: s?$ | ['’] | self | ness) | once
    | us[aeu] | ut[aeio] | ur[aeiou] | ubiq | ugand | uk | uvul | uyg
    | uni (?! m(?!od) | n | r | ss | dea | dent | dio | gn | tal )  # "unique", but "unimportant", "unidentified"
    """,
    re.VERBOSE,
)
# … and words that begin with a silent h, or with a y that is said as a vowel.
_VOWEL_SOUND = re.compile(r"hour(?!i) | honest | honou?r | heir | hors$ | y(?![aeiou])", re.VERBOSE)

# Abbreviations that are said as words, so that the sound of the first letter counts and not its name.
_SAID_AS_WORDS = frozenset("fema fifa hud lan nafta nasa nascar nato ram rem rom sars scuba seal swat sim".split())
# Abbreviations that are spelled out although they could be read as words, or stand in small letters.
_SPELLED = frozenset(
    "emt faa fbi fda hiv hvac imf irs isp lapd lgbtqia mba mma mri naacp nba ngo nsa nyu seo suv uae ui ux".split()
)
# Ordinary short words that a text in capitals may hold ("A MAN"): no abbreviations.
_SHORT_WORDS = frozenset(
    "fan far fat few fit fox fun hat he hen her hip his hot lad law low mad man map me men mom mum my new no nun "
    "raw red sad sea she shy six sky so son use".split()
)
_TITLES = frozenset("mr mrs ms mx st".split())


def article(phrase: str) -> str:
    """The indefinite article, ``"a"`` or ``"an"``, that fits the first word of ``phrase``.

    >>> [article(w) for w in ("hour", "university student", "MRI technician", "European", "one-armed person")]
    ['an', 'a', 'an', 'a', 'a']
    >>> [article(w) for w in ("umpire", "X-ray technician", "8-year-old", "US senator", "NASA engineer")]
    ['an', 'an', 'an', 'a', 'a']
    """
    first_word = _FIRST_WORD.search(_without_accents(phrase))
    if first_word is None:
        return "a"
    word = first_word.group()
    return "an" if _starts_with_vowel_sound(word) else "a"


def with_article(phrase: str) -> str:
    """``phrase`` behind its indefinite article.

    >>> with_article("honest baker")
    'an honest baker'
    """
    return f"{article(phrase)} {phrase}"


def agreed(text: str) -> str:
    """``text`` with every open article (``a/an``, ``A/An``) resolved by the word that follows it.

    >>> agreed("A/An orange cat and a/an union member")
    'An orange cat and a union member'
    """
    # From the right, so that the text behind each article is final when the article is chosen.
    for match in reversed(list(_OPEN_ARTICLE.finditer(text))):
        chosen = article(text[match.end() :])
        if match.group(1) == "A":
            chosen = chosen.capitalize()
        text = f"{text[: match.start()]}{chosen} {text[match.end() :]}"
    return text


def _starts_with_vowel_sound(word: str) -> bool:
    number = re.match(r"[0-9]+", word)
    if number:
        return _number_starts_with_vowel_sound(number.group())
    lower = word.lower()
    if _is_spelled_out(word):
        return lower[0] in _VOWEL_NAMED
    if _VOWEL_SOUND.match(lower):
        return True
    return lower[0] in "aeiou" and not _CONSONANT_SOUND.match(lower)


def _number_starts_with_vowel_sound(number: str) -> bool:
    """Eight, eleven and eighteen, and what begins with them (80, 11,000, 1800s) begin with a vowel sound."""
    # Thousands are read in threes from the right, but a bare four-digit number in hundreds: "eighteen hundred".
    leading = number[: (len(number) - 1) % 3 + 1] if len(number) != 4 else number[:2]
    return number[0] == "8" or leading in ("11", "18")


def _is_spelled_out(word: str) -> bool:
    """Whether the word is said letter by letter: a lone letter (X-ray), U.S., HR, MRI, mri."""
    letters = re.sub(r"[\d.]", "", word)
    lower = letters.lower()
    if len(letters) == 1 or re.fullmatch(r"(?:[^\W\d_]\.)+[^\W\d_]", word):
        return True
    if lower in _TITLES or lower in _SAID_AS_WORDS:
        return False
    if lower in _SPELLED or not re.search(r"[aeiouy]", lower):
        return True
    return word.isupper() and len(letters) <= 3 and lower not in _SHORT_WORDS


def _without_accents(text: str) -> str:
    return "".join(c for c in unicodedata.normalize("NFD", text) if not unicodedata.combining(c))
