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

    Args:
        text: a caption, or any other text.
        lexicon: whose words tell the groups; a :class:`Lexicon`, a name in :data:`LEXICONS`, or a TOML file's path.
        compat: ``gensynth``, ``lic`` or ``dba`` to read words exactly as that published code does.

    Returns:
        The name of the group; ``None`` where the text speaks of none or of several.

    >>> label("A girl with a kite"), label("A kite")
    ('female', None)
    """
    return _lexicon(lexicon).label(text, compat=compat)


def label_image(
    captions: Iterable[str], *, lexicon: str | Path | Lexicon = DEFAULT, compat: str | None = None
) -> str | None:
    """The one group that all captions of an image together speak of, or ``None``.

    Args:
        captions: all captions of the one image.
        lexicon: whose words tell the groups; a :class:`Lexicon`, a name in :data:`LEXICONS`, or a TOML file's path.
        compat: ``gensynth``, ``lic`` or ``dba`` to read words exactly as that published code does.

    Returns:
        The name of the group; ``None`` where the captions speak of none, or of several, be it in a single caption.

    >>> label_image(["A girl with a kite", "A child on a beach"])
    'female'
    """
    return _lexicon(lexicon).label_image(captions, compat=compat)


def neutralise(
    text: str, *, agree: bool = False, lexicon: str | Path | Lexicon = DEFAULT, compat: str | None = None
) -> str:
    """``text`` without saying who.

    Args:
        text: a caption, or any other text.
        agree: whether verbs follow a subject that became "they"; refused together with ``compat``.
        lexicon: whose words are rewritten; a :class:`Lexicon`, a name in :data:`LEXICONS`, or a TOML file's path.
        compat: ``gensynth``, ``lic`` or ``dba`` to write exactly what that published code does, all in lower case.

    Returns:
        The text with each word of a group replaced by the word for anyone, and "a" or "an" before it made to fit.

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

    Args:
        text: a caption, or any other text.
        to: the group to speak of; ``None`` only with a lexicon of two groups, which are then exchanged.
        lexicon: whose words are rewritten; a :class:`Lexicon`, a name in :data:`LEXICONS`, or a TOML file's path.
        compat: ``gensynth``, ``lic`` or ``dba`` to write exactly what that published code does, all in lower case.

    Returns:
        The rewritten text, in which a word without a counterpart stays as it is.

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

    Args:
        text: a caption, or any other text.
        token: what is put in for each word; ``None`` for the axis, as in ``<gender>``, or for the mask of ``compat``.
        lexicon: whose words are masked; a :class:`Lexicon`, a name in :data:`LEXICONS`, or a TOML file's path.
        compat: ``gensynth``, ``lic`` or ``dba`` to write exactly what that published code does, all in lower case.

    Returns:
        The text with every word of any group masked.

    >>> mask("The queen's hat", token="[MASK]")
    "The [MASK]'s hat"
    """
    return _lexicon(lexicon).mask(text, token, compat=compat)


def _lexicon(lexicon: str | Path | Lexicon) -> Lexicon:
    return lexicon if isinstance(lexicon, Lexicon) else Lexicon.load(lexicon)
