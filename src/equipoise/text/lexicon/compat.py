"""The tokenisations and rules of published code, kept as they are so that published numbers can be met.

- ``gensynth``: labels come from a lower-case, white-space split, so "man." and "woman's" are missed; neutral and
  swapped text is lower-case, replaced at word boundaries, and its spaces are collapsed.
- ``lic``: lower-case Penn-Treebank-style tokens joined by spaces; masks are the word "genderword".
- ``dba``: lower-case, every punctuation mark deleted (so "man's" is "mans"), split at white space.
"""

from __future__ import annotations

import re
import string
from collections.abc import Mapping
from functools import cache

from equipoise.errors import UnknownNameError

COMPATS = ("gensynth", "lic", "dba")
MASKS = {"gensynth": "[MASK]", "lic": "genderword", "dba": "[MASK]"}

_PUNCTUATION = str.maketrans("", "", string.punctuation)

# Treebank tokens. A period is its own token at the end of a sentence and stays inside abbreviations and numbers.
_TREEBANK = re.compile(
    r"""
    \.\.\.+                                        # ellipsis
  | (?:[a-z]\.){2,}                                # u.s.
  | (?:mr|mrs|ms|dr|st|jr|sr|vs|no|etc|prof|gen|ft|mt|inc|co|corp|ave|blvd)\.(?=\s)
  | (?:can(?=not\b) | gon(?=na\b) | got(?=ta\b) | wan(?=na\b) | gim(?=me\b) | lem(?=me\b))
  | n['’]t\b | ['’](?:s|m|d|ll|re|ve)\b            # contractions
  | [^\W_](?:[\w\-./&+\\*=~^|]|(?<=\d)[,:](?=\d)|['’](?!(?:s|m|d|ll|re|ve)\b)(?=\w))*?(?=n['’]t\b)
  | [^\W_](?:[\w\-/+\\*=~^|]|\.(?=\w)|(?<=\d)[,:](?=\d)|['’](?!(?:s|m|d|ll|re|ve)\b)(?=\w))*
  | ``|''|--+ | \S
    """,
    re.VERBOSE,
)


def tokens(text: str, compat: str) -> list[str]:
    """The tokens that ``compat``'s code would see.

    >>> tokens("A man. The woman's dog", "gensynth")
    ['a', 'man.', 'the', "woman's", 'dog']
    >>> tokens("A man. The woman's dog", "lic")
    ['a', 'man', '.', 'the', 'woman', "'s", 'dog']
    >>> tokens("A man. The woman's dog", "dba")
    ['a', 'man', 'the', 'womans', 'dog']
    """
    if compat == "gensynth":
        return text.lower().split()
    if compat == "lic":
        return _TREEBANK.findall(text.lower())
    if compat == "dba":
        return text.lower().translate(_PUNCTUATION).split()
    raise UnknownNameError("compat mode", compat, COMPATS)


def rewrite(text: str, compat: str, replace: Mapping[str, str]) -> str:
    """``text`` with each word that is a key of ``replace`` rewritten in ``compat``'s way."""
    if compat == "gensynth":
        return _gensynth_rewrite(text, replace)
    return " ".join(replace.get(token, token) for token in tokens(text, compat))


def _gensynth_rewrite(text: str, replace: Mapping[str, str]) -> str:
    # The released code replaces word after word; none of its replacements is itself a key, so one pass is the same.
    replaced = _boundary_pattern(tuple(sorted(replace))).sub(lambda found: replace[found.group()], text.lower())
    single = re.sub(r"\s+", " ", replaced)
    return re.sub(r'\s([?.!,"](?:\s|$))', r"\1", single).strip()


@cache
def _boundary_pattern(words: tuple[str, ...]) -> re.Pattern[str]:
    longest_first = sorted(words, key=lambda word: (-len(word), word))
    return re.compile(rf"\b(?:{'|'.join(map(re.escape, longest_first))})\b")
