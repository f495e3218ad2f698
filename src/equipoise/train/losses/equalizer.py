"""The Gender Equalizer (Burns et al., Women also Snowboard, ECCV 2018): losses of a captioner that looks at people.

Where a caption names a group, the captioner should not know it from a picture without the person (*confusion*), and
should be sure of it from the whole picture (*confidence*); everything else should be said without the person too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from equipoise.data.masks import decode, from_box
from equipoise.data.people import box_in_pixels, people_of
from equipoise.errors import InputError
from equipoise.text import Lexicon
from equipoise.train.processes import Processes

WEIGHTS = (10.0, 1.0, 1.0)
"""Of confusion, of confidence, and of the other words of pictures without people."""
EPSILON = 1e-5
"""Added to the divisor of the confident loss; chosen here, for the paper gives no value."""


def group_tokens(words: Any, lexicon: Lexicon) -> list[list[int]]:
    """The tokens that name each group of ``lexicon``: its words that are one token in the middle of a sentence.

    Words that the tokenizer cuts into several tokens are not counted, nor are tokens that name two groups. A group
    without any token is an InputError.
    """
    before = list(words("a", add_special_tokens=False)["input_ids"])
    by_group: list[set[int]] = []
    for group in lexicon.groups:
        own = set()
        for word in sorted(lexicon.words(group)):
            for form in dict.fromkeys((word, word.capitalize())):
                ids = list(words(f"a {form}", add_special_tokens=False)["input_ids"])
                if ids[: len(before)] == before and len(ids) == len(before) + 1:
                    own.add(int(ids[-1]))
        by_group.append(own - {getattr(words, "unk_token_id", None)})
    shared = {token for first, second in combinations(by_group, 2) for token in first & second}
    distinct = [sorted(tokens - shared) for tokens in by_group]
    for group, tokens in zip(lexicon.groups, distinct, strict=True):
        if not tokens:
            raise InputError(
                f"the model's tokenizer has no single token for any word of the group {group!r} of the lexicon "
                f"{lexicon.id!r}, so the Equalizer cannot count them"
            )
    return distinct


def group_shares(logits: Any, members: Any) -> Any:
    """(n, t, groups) the probability of any word of each group; ``members`` (vocabulary, groups) is 0 or 1."""
    return logits.float().softmax(dim=-1) @ members


def appearance_confusion(shares: Any, named: Any) -> Any:
    """The sum of |p(group) - p(other group)| where a group is named, from ``shares`` of pictures without people.

    ``shares`` and ``named`` are (n, t, groups); ``named`` is 1 where the word of the caption names the group. With more
    than two groups it is the mean over pairs of them.

    >>> import torch
    >>> shares = torch.tensor([[[0.5, 0.2], [0.1, 0.9]]])
    >>> round(float(appearance_confusion(shares, torch.tensor([[[1.0, 0.0], [0.0, 0.0]]]))), 6)
    0.3
    """
    pairs = list(combinations(range(shares.shape[-1]), 2))
    apart = sum((shares[..., first] - shares[..., second]).abs() for first, second in pairs) / len(pairs)
    return (apart * named.sum(dim=-1)).sum()


def confidence(shares: Any, named: Any, epsilon: float = EPSILON) -> Any:
    """The sum of p(other groups) / (p(group) + epsilon) where a group is named, from ``shares`` of whole pictures.

    >>> import torch
    >>> shares = torch.tensor([[[0.5, 0.2], [0.1, 0.9]]])
    >>> round(float(confidence(shares, torch.tensor([[[1.0, 0.0], [0.0, 1.0]]]), epsilon=0.0)), 6)
    0.511111
    """
    others = shares.sum(dim=-1, keepdim=True) - shares
    return (named * others / (shares + epsilon)).sum()


@dataclass(frozen=True)
class Equalizer:
    """The three losses beside the cross-entropy of whole pictures; ``groups`` are the tokens that name each group."""

    groups: Sequence[Sequence[int]]
    weights: tuple[float, float, float] = WEIGHTS
    epsilon: float = EPSILON

    def loss(self, whole: Any, hidden: Any, wanted: Any, there: Any, peopled: Any, processes: Processes) -> Any:
        """This process's part of the loss.

        ``whole`` and ``hidden`` (n, t, vocabulary) are what is expected at every place of the caption from the picture
        and from the one without people, ``wanted`` (n, t) the caption's tokens, ``there`` where it has one, and
        ``peopled`` (n,) whether there was anybody to hide: other rows count in the first two terms alone. Confusion and
        confidence are sums over a caption's words and means over captions, as in the paper; both cross-entropies are
        means over words, that of pictures without people over words that name no group.
        """
        from torch.nn.functional import cross_entropy

        members = whole.new_zeros((whole.shape[-1], len(self.groups))).float()
        for place, tokens in enumerate(self.groups):
            members[list(tokens), place] = 1.0
        seen = there.float()
        named = members[wanted] * seen[..., None]
        other = seen * (1 - named.sum(dim=-1)) * peopled[:, None].float()

        def words(logits: Any, counted: Any) -> Any:
            losses = cross_entropy(logits.flatten(0, 1).float(), wanted.flatten(), reduction="none")
            return (losses * counted.flatten()).sum() / max(processes.total(float(counted.sum())), 1.0)

        confused, sure, blind = self.weights
        rows = processes.total(float(len(wanted)))
        masked = max(processes.total(float(peopled.sum())), 1.0)
        asked = named * peopled[:, None, None].float()
        return (
            words(whole, seen)
            + sure * confidence(group_shares(whole, members), named, self.epsilon) / rows
            + confused * appearance_confusion(group_shares(hidden, members), asked) / masked
            + blind * words(hidden, other)
        )


def without_people(image: Any, cell: str | None, colour: tuple[int, int, int]) -> Any:
    """``image`` with its people painted over in ``colour``, by mask or else by box; None if nobody is there.

    >>> from PIL import Image
    >>> white = Image.new("RGB", (2, 1), "white")
    >>> without_people(white, '[{"box": [0, 0, 1, 1]}]', (9, 9, 9)).getpixel((0, 0))
    (9, 9, 9)
    >>> without_people(white, "[]", (9, 9, 9)) is None
    True
    """
    import numpy as np
    from PIL import Image

    where = np.zeros((image.height, image.width), dtype=bool)
    for person in people_of(cell):
        if person.get("mask") is not None:
            where |= decode(person["mask"], image.height, image.width)
        elif person.get("box") is not None:
            where |= from_box(box_in_pixels(person, image.width, image.height), image.height, image.width)
    if not where.any():
        return None
    pixels = np.asarray(image.convert("RGB")).copy()
    pixels[where] = colour
    return Image.fromarray(pixels)
