"""Words: who a caption says is in the picture, the same said of nobody in particular, the same said of someone else.

A :class:`Lexicon` holds the words of one axis (gender, age, race, or one of your own) by group; the functions here use
the default one, or any other by name or path. :mod:`equipoise.text.templates` writes counterfactual caption sets, edit
instructions and prompts.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from equipoise.text.lexicon import DEFAULT, LEXICONS, Lexicon, Match

__all__ = ["LEXICONS", "Lexicon", "Match", "label", "label_image", "mask", "neutralise", "swap"]


def label(text: str, *, lexicon: str | Path | Lexicon = DEFAULT, compat: str | None = None) -> str | None:
    """The one group that ``text`` speaks of, or ``None``.

    >>> label("A girl with a kite"), label("A kite")
    ('female', None)
    """
    return _lexicon(lexicon).label(text, compat=compat)


def label_image(
    captions: Iterable[str], *, lexicon: str | Path | Lexicon = DEFAULT, compat: str | None = None
) -> str | None:
    """The one group that all captions of an image together speak of, or ``None``.

    >>> label_image(["A girl with a kite", "A child on a beach"])
    'female'
    """
    return _lexicon(lexicon).label_image(captions, compat=compat)


def neutralise(
    text: str, *, agree: bool = False, lexicon: str | Path | Lexicon = DEFAULT, compat: str | None = None
) -> str:
    """``text`` without saying who.

    >>> neutralise("He waves to his sister")
    'They waves to their sibling'
    >>> neutralise("He waves to his sister", agree=True)
    'They wave to their sibling'
    """
    return _lexicon(lexicon).neutralise(text, agree=agree, compat=compat)


def swap(
    text: str, to: str | None = None, *, lexicon: str | Path | Lexicon = DEFAULT, compat: str | None = None
) -> str:
    """``text`` said of group ``to``, or with two groups exchanged.

    >>> swap("The groom kisses his bride", to="female")
    'The bride kisses her bride'
    """
    return _lexicon(lexicon).swap(text, to, compat=compat)


def mask(
    text: str,
    token: str | None = None,
    *,
    lexicon: str | Path | Lexicon = DEFAULT,
    compat: str | None = None,
) -> str:
    """``text`` with the words that say who replaced by ``token``.

    >>> mask("The queen's hat", token="[MASK]")
    "The [MASK]'s hat"
    """
    return _lexicon(lexicon).mask(text, token, compat=compat)


def _lexicon(lexicon: str | Path | Lexicon) -> Lexicon:
    return lexicon if isinstance(lexicon, Lexicon) else Lexicon.load(lexicon)
