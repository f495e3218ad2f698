"""Caption tokens by the Penn Treebank rules, as the COCO caption evaluation counts them.

The published BLEU, ROUGE, CIDEr, METEOR and SPICE values of captions are of tokens made by Stanford's PTBTokenizer
(3.4.1, lower case) without a fixed list of punctuation marks. This is that in one regular expression and without Java.

Kept as there, although it may surprise: brackets stay as ``-lrb-`` and ``-rrb-`` (the list of removed marks names them
in capitals only), repeated marks stay (``!!!``), a sentence that runs into the next stays one token (``ball.the``), and
an abbreviation keeps its period (``st.``, ``u.s.``).

Known differences:

- a mixed number ("22 3/4") and a telephone number with brackets are one token with a space inside there, several here;
- an address with a path but no ``http://`` ("site.net/x") and a possessive after an e-mail address are cut otherwise;
- words glued by "!", "?" ("yes!no") or to a number with thousands ("1,000people") are cut otherwise;
- the list of abbreviations is shorter: titles, street names, months, states, companies and what captions use;
- the period of a single last letter ("plan B.") is dropped here; there it depends on the word that begins the *next*
  caption of the file, so the same caption can have two forms;
- a period before a comma or semicolon ("road.,") is part of the word there and a mark here;
- smileys (":)") are cut into their marks; a character beyond the basic plane (most pictographs) is dropped silently.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

_ABBREVIATIONS = (
    # titles
    "mr mrs ms messrs mme dr prof rev hon sen rep gov pres gen col maj capt cmdr lt sgt cpl sr jr esq st ste "
    # streets and places
    "ave blvd rd ct sq mt ft bldg "
    # months and days
    "jan feb mar apr jun jul aug sept sep oct nov dec mon tues tue wed thurs thu fri "
    # companies and offices
    "co inc corp ltd bros dept univ assn mfg "
    # states of the US that are shortened in newspapers
    "ala ariz ark calif colo conn dak del fla ga ill ind kan ky la mass md mich minn miss mo mont neb nev okla ore pa "
    "penn tenn tex va vt wash wis wyo "
    # others
    "etc vs est ext tel al"
).split()
# What is a word or a name as well: an abbreviation only with a capital.
_WORDS_TOO = frozenset("ark del ill la mass miss ore pa tex wash".split())
_ALWAYS = "|".join(sorted(set(_ABBREVIATIONS) - _WORDS_TOO, key=len, reverse=True))
_CAPITAL = "|".join(word.capitalize() for word in sorted(_WORDS_TOO, key=len, reverse=True))

_LETTER = r"[^\W\d_]"
_SIGN = r"[^\W_²³]"  # of a word: a letter or a digit
_TOKEN = re.compile(
    rf"""
      (?i:https?://[^\s"<>|()]*[^\s"<>|().,!?;:'])
    | [\w.+-]{{0,64}}\w@\w(?:[\w.-]{{0,64}}\w)?
    | [@\#]{_LETTER}\w*
    | </?[A-Za-z][^<>\s]*>
    | \b\d{{1,2}}:\d\d(?::\d\d)?                                    # a time; "am" after it is another token
    | \b(?:(?i:{_ALWAYS})|{_CAPITAL})\.(?!\w)
    | \b(?i:ph\.d)\.?(?!\w)
    | \b(?i:nos?)\.(?=\s?\d)
    | \b[A-Za-z](?:\.[A-Za-z])+\.(?!\w) | (?<=\d)[ap]\.m\.        # "u.s.", "10:30a.m."
    | \b[A-Za-z]\.(?!\w|\s*$|\s+(?:A|The)\b)                       # "W. 5th", not the end of a sentence
    | \b(?i:can(?=not\b)|gon(?=na\b)|wan(?=na\b)|got(?=ta\b)|gim(?=me\b)|lem(?=me\b)|y'(?=all\b))
    | (?i:(?<!\w)'t(?=(?:is|was)\b))
    | {_SIGN}+(?=(?i:n't)(?!\w))                                    # "ca" of "can't"
    | (?i:n't|'(?:s|m|d|re|ve|ll))(?!\w)
    | (?i:(?:'n'|'(?:n|em|till?|cause|[2-9]0s)(?!\w)))
    | \b(?i:[djlo]'{_LETTER}{{2,}}|c'mon|s'mores|{_LETTER}*[aeiouy]'[aeiou]{_LETTER}*)
    | \b[A-Z]+(?:&[A-Z]+)+\b
    | (?:(?:(?<![\w-])-|\+)?(?<!\w)\.?(?=\d)|\+(?=\d))?{_SIGN}+(?:(?:[-._/]|(?<=\d),(?=\d)){_SIGN}+)*
    | \.+ | -+ | [!?]+ | _+ | \*+ | ``|''
    | [^\s\w\U00010000-\U0010ffff] | [²³]
    """,
    re.VERBOSE,
)
# A caption without these needs none of the rules above: the long way is for one in ten.
_PLAIN = re.compile(r"[A-Za-z ]+[.]? *")
_LAST_PERIOD = re.compile(r"\s*\.\s*$")
_NOT_PLAIN_WORDS = re.compile(r"\b(?i:cannot|gonna|wanna|gotta|gimme|lemme)\b")
_ENDS_IN_ABBREVIATION = re.compile(rf"\b(?:(?i:{_ALWAYS})|{_CAPITAL})\.\s*$")

_STRAIGHT = str.maketrans(
    {
        "’": "'",
        "‘": "'",
        "“": '"',
        "”": '"',
        "…": "...",
        "–": "--",
        "—": "--",
        "½": " 1/2 ",
        "¼": " 1/4 ",
        "¾": " 3/4 ",
        "£": "#",
        "€": "$",
        "¢": " cents ",
        "\u00ad": "",
    }
)
_ENTITIES = re.compile(r"&(amp|lt|gt|quot|apos);", re.IGNORECASE)
_ENTITY = {"amp": "&", "lt": "<", "gt": ">", "quot": '"', "apos": "'"}
_WRITTEN = {
    "(": "-lrb-",
    ")": "-rrb-",
    "[": "-lsb-",
    "]": "-rsb-",
    "{": "-lcb-",
    "}": "-rcb-",
}
# Marks that do not count. Those that stand twice ("!!") or are of another kind ("/") do.
_DROPPED = re.compile(r"''|``|['`\".,:;?!]|\.{2,}|-+")


def ptb_tokens(caption: str) -> list[str]:
    """The tokens of one caption: lower case, contractions cut, punctuation removed.

    >>> ptb_tokens("A man's half-eaten sandwich isn't on the table, is it?")
    ['a', 'man', "'s", 'half-eaten', 'sandwich', 'is', "n't", 'on', 'the', 'table', 'is', 'it']
    >>> ptb_tokens("A bus (no. 5) on Main St. at 10:30am!!")
    ['a', 'bus', '-lrb-', 'no.', '5', '-rrb-', 'on', 'main', 'st.', 'at', '10:30', 'am', '!!']
    """
    if _PLAIN.fullmatch(caption) and not _NOT_PLAIN_WORDS.search(caption):
        if not _ENDS_IN_ABBREVIATION.search(caption):
            caption = _LAST_PERIOD.sub("", caption)
        return caption.lower().split()
    text = caption.translate(_STRAIGHT)
    if "&" in text:
        text = _ENTITIES.sub(lambda tokens: _ENTITY[tokens.group(1).lower()], text)
    tokens = (_WRITTEN.get(token, token) for token in _TOKEN.findall(text))
    return [token.lower() for token in tokens if not _DROPPED.fullmatch(token)]


def ptb_tokenise(captions: Iterable[str]) -> list[list[str]]:
    """The tokens of each of ``captions``.

    >>> ptb_tokenise(["A dog.", "Two cats"])
    [['a', 'dog'], ['two', 'cats']]
    """
    return [ptb_tokens(caption) for caption in captions]
