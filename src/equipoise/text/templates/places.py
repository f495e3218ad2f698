"""Where a prompt names its subject: ``{}`` is the bare subject, ``{a}`` the subject with its article.

``{A}`` is ``{a}`` with a capital, for the beginning of a prompt. Capitals are otherwise as the prompt has them. Behind
a written "a", "an" or "a/an" the article that fits the subject is chosen, so "a photo of a {}" asks for "a photo of an
artist".
"""

from __future__ import annotations

import re

from equipoise.errors import InputError
from equipoise.text.english.articles import article, with_article

_PLACE = re.compile(r"(?:(?<![\w'’-])(?P<written>a/an|an|a)(?P<space>\s+))?\{(?P<form>[^{}]*)\}", re.IGNORECASE)
_FORMS = ("", "a", "A")


def with_subject(template: str, subject: str) -> str:
    """``template`` with ``subject`` in its places.

    >>> with_subject("a photo of {}", "artist"), with_subject("{A} at work", "artist"), with_subject("the {}", "artist")
    ('a photo of artist', 'An artist at work', 'the artist')
    >>> with_subject("a photo of a {}", "artist"), with_subject("An {}", "nurse")
    ('a photo of an artist', 'A nurse')
    """
    check_places(template)

    def placed(match: re.Match[str]) -> str:
        written, space, form = match["written"], match["space"] or "", match["form"]
        if form:
            return _capital(with_article(subject), form == "A")
        if written is None:
            return subject
        return f"{_capital(article(subject), written[0] == 'A')}{space}{subject}"

    return _PLACE.sub(placed, template)


def check_places(template: str) -> None:
    """Refuse a prompt that names its subject nowhere, or that has braces which mean nothing.

    >>> check_places("a {b}")
    Traceback (most recent call last):
        ...
    equipoise.errors.InputError: the prompt 'a {b}' has {b}; write {} for the subject, or {a} for it with its article
    """
    if not isinstance(template, str):
        raise InputError(f"the prompt {template!r} is not a text; give a text with {{}} where the subject goes")
    forms = [match["form"] for match in _PLACE.finditer(template)]
    wrong = next((form for form in forms if form not in _FORMS), None)
    hint = "write {} for the subject, or {a} for it with its article"
    if wrong is not None:
        raise InputError(f"the prompt {template!r} has {{{wrong}}}; {hint}")
    stray = re.search(r"[{}]", _PLACE.sub("", template))
    if stray:
        raise InputError(f"the prompt {template!r} has a stray {stray.group()}; {hint}")
    if not forms:
        raise InputError(
            f"the prompt {template!r} has no {{}} where the subject goes; {hint}; to ask it as it stands, take "
            "--suite prompts"
        )
    twice = next((match for match in _PLACE.finditer(template) if match["form"] and match["written"]), None)
    if twice is not None:
        raise InputError(
            f"the prompt {template!r} has two articles, {twice['written']!r} and that of {{{twice['form']}}}; leave "
            "out one"
        )


def _capital(text: str, wanted: bool) -> str:
    return text[:1].upper() + text[1:] if wanted else text
