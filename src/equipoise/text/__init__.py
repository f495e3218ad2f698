"""Words: who a caption says is in the picture, the same said of nobody in particular, the same said of someone else.

A :class:`Lexicon` holds the words of one axis (gender, age, race, or one of your own) by group; the functions here use
the default one. :mod:`equipoise.text.templates` writes counterfactual caption sets, edit instructions and prompts.
"""

from equipoise.text.functions import label, label_image, mask, neutralise, swap
from equipoise.text.lexicon import LEXICONS, Lexicon, Match

__all__ = ["LEXICONS", "Lexicon", "Match", "label", "label_image", "mask", "neutralise", "swap"]
