"""The words of BA from the captions that captioners learned from, as the paper chooses them."""

from __future__ import annotations

from pathlib import Path

from equipoise.audit.captions.inputs import HumanCaptions
from equipoise.audit.captions.reading import read_records
from equipoise.errors import InputError
from equipoise.measure.captions.amplification import select_words
from equipoise.text import Lexicon

__all__ = ["training_words"]


def training_words(path: str | Path, lexicon: Lexicon, least: int) -> tuple[str, ...]:
    """Content words among the thousand commonest of these captions, at least ``least`` times with each group.

    Hirota et al. (CVPR 2022) have 290 of them from COCO's training captions, with ``least`` = 100.
    """
    captions = [(record.image_id, text) for record in read_records(path) for text in record.captions]
    human = HumanCaptions(tuple(name for name, _ in captions), tuple(text for _, text in captions), lexicon)
    chosen = select_words(human.tokens, human.named, content=human.content, exclude=lexicon.words(), least=least)
    if not chosen.words:
        raise InputError(
            f"{path}: no word stands in {least} training captions of each group; lower --ba-least, or leave it out"
        )
    return chosen.words
