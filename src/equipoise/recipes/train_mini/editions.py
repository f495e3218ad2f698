"""Captions in other words: tone, age and gender before and after the noun, as prompts for photographs say them.

The world says "an old woman with dark skin who works as a nurse" and nothing else; a generator that read only that
does not know "an elderly darker-skinned nurse who is a woman". Here a caption of the world is said anew, of the same
people: only its noun phrases change. The world's own captions stay what they are.

The editions of the generative miniatures: how fine the grid is that the generators draw on, and what they read.

The second edition is what ships. It has four times as many cells as the first, so that edges come back sharp; its
generators began as those of the first, which is why that is still here. None can read the grid of the other edition.

What generators take over from an edition whose grid is half as fine: a UNet for the finer grid has one level more,
outside, and the levels of the coarser one become its inner levels. What an inpainter, an editor or a biased generator
learnt beyond the ``diffusion`` that it came from is the difference between their weights; added to the new
``diffusion``, it is a start from which far less is left to learn.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from equipoise.errors import InputError, UnknownNameError
from equipoise.recipes.train_mini.batches import SIZE
from equipoise.recipes.train_mini.tokenizer import LENGTH
from equipoise.text.english.articles import with_article
from equipoise.train.schedule import Schedule
from equipoise.world.catalog import BUILDS, GENDERS, OCCUPATIONS, TONE_GROUPS, shipped


@dataclass(frozen=True)
class Edition:
    """One edition: the shape and the schooling of its autoencoder, and the shape of the generators upon it."""

    name: str
    blocks: tuple[int, ...]
    """Channels of the autoencoder's levels; each level after the first halves the sides of the picture."""
    unet_blocks: tuple[int, ...]
    """Channels of the levels of a generator's UNet."""
    unet_reads: tuple[bool, ...]
    """Which of those levels read the prompt; attention over the finest grid would cost more than all else."""
    schedule: Schedule
    crops_until: int
    """Up to this step a batch is of two crops of each picture, a quarter of it each; after it, of whole pictures, half
    as many. Both cost the same.
    """
    decoder: Schedule | None
    """Then the decoder alone learns on, for squared errors: what it is given stays as it is."""
    kl_weight: float
    noise: float
    """How much noise the decoder is given beside the latents, as a share of their spread: what a generator draws is
    never exact, and a decoder that knows this keeps its edges sharp.
    """
    edges: float
    """What an error in the differences of neighbouring pixels counts beside one in the pixels: blur costs extra."""
    phrased: bool
    """Whether generators read the captions in several phrasings."""

    @property
    def factor(self) -> int:
        """Pixels per side of one cell of the latent grid.

        >>> FIRST.factor, SECOND.factor
        (4, 2)
        """
        return int(2 ** (len(self.blocks) - 1))

    @property
    def grid(self) -> int:
        """Cells per side of the latent grid.

        >>> FIRST.grid, SECOND.grid
        (16, 32)
        """
        return SIZE // self.factor


FIRST = Edition(
    name="first",
    blocks=(16, 32, 64),
    unet_blocks=(32, 64, 96),
    unet_reads=(True, True, False),
    schedule=Schedule(steps=6000, batch=48, rate=2e-3, weight_decay=0.0, save_every=250, average=0.998, half=True),
    crops_until=4000,
    decoder=Schedule(steps=800, batch=48, rate=6e-4, warmup=50, weight_decay=0.0, average=0.99, half=True),
    kl_weight=1e-6,
    noise=0.0,
    edges=0.0,
    phrased=False,
)
SECOND = Edition(
    name="second",
    blocks=(16, 32),
    unet_blocks=(32, 32, 64, 96),
    unet_reads=(False, True, True, False),
    schedule=Schedule(steps=2000, batch=16, rate=2e-3, weight_decay=0.0, save_every=50, average=0.995, half=True),
    crops_until=1300,
    decoder=None,
    kl_weight=1e-4,
    noise=0.05,
    edges=1.0,
    phrased=True,
)
EDITIONS = {each.name: each for each in (FIRST, SECOND)}


def edition(name: str) -> Edition:
    """The edition called ``name``.

    >>> edition("second").grid
    32
    """
    if name not in EDITIONS:
        raise UnknownNameError("edition", name, EDITIONS)
    return EDITIONS[name]


def edition_of(vae: Any) -> Edition:
    """The edition that an autoencoder belongs to, by the fineness of its grid."""
    return _by_levels(len(vae.config.block_out_channels))


def edition_in(folder: Path) -> Edition:
    """The edition of the autoencoder, or of the generator that holds one, in ``folder``."""
    path = next(p for p in (folder / "vae" / "config.json", folder / "config.json") if p.is_file())
    return _by_levels(len(json.loads(path.read_text(encoding="utf-8"))["block_out_channels"]))


def _by_levels(levels: int) -> Edition:
    factor = 2 ** (levels - 1)
    fitting = [each for each in EDITIONS.values() if each.factor == factor]
    if not fitting:
        known = " or ".join(f"{each.factor} ({each.name})" for each in EDITIONS.values())
        raise InputError(f"the autoencoder's cells are {factor} pixels wide; those of an edition are {known}")
    return fitting[0]


KEPT = 0.4
"""How many captions stay as the world says them."""
TONE_FIRST = 0.25
"""How often a tone before the noun also stands before the age: "a dark-skinned elderly woman"."""

_TONE_BEFORE = {
    "light": ("light-skinned", "lighter-skinned", "light skinned"),
    "medium": ("medium-skinned", "medium skinned"),
    "dark": ("dark-skinned", "darker-skinned", "dark skinned"),
}
_TONE_AFTER = {
    "light": ("with light skin", "with lighter skin", "with a light skin tone"),
    "medium": ("with medium skin", "with a medium skin tone"),
    "dark": ("with dark skin", "with darker skin", "with a dark skin tone"),
}
_AGE_BEFORE = {
    "child": ("young", "very young", "little"),
    "adult": ("adult", "grown-up"),
    "older": ("old", "older", "elderly", "senior", "aged"),
}
_AGE_AFTER = {"child": (), "adult": (), "older": ("of old age", "who is elderly")}
_NOUNS = {
    "man": ("man", "male person", "gentleman"),
    "woman": ("woman", "female person", "lady"),
    "boy": ("boy", "male child"),
    "girl": ("girl", "female child"),
}
_GENDER_BEFORE = {"male": ("male",), "female": ("female", "woman"), "nonbinary": ("nonbinary",)}
_GENDER_AFTER = {
    "male": ("who is a man", "who is male"),
    "female": ("who is a woman", "who is female"),
    "nonbinary": ("who is nonbinary",),
}


def rephrased(caption: str, rng: np.random.Generator, *, kept: float = KEPT) -> str:
    """``caption`` of the world, its people said in other words; a share ``kept`` of captions is returned as it is.

    So is one whose other wording would not fit the text encoder.

    >>> rng = np.random.default_rng(0)
    >>> [rephrased("an old woman with dark skin", rng, kept=0.0) for _ in range(2)]
    ['an older dark-skinned female person', 'a senior woman with a dark skin tone']
    """
    stays = rng.random() < kept
    other = _phrase().sub(lambda match: _said(match.groupdict(default=""), rng), caption)
    return caption if stays or tokens_of(other) > LENGTH - 2 else other


def tokens_of(text: str) -> int:
    """How many tokens a text of known words has for a CLIP tokenizer: a hyphen is one of its own.

    >>> tokens_of("a dark-skinned woman")
    5
    """
    return len(re.findall(r"[^\W\d_]+|\d|[^\w\s]+", text))


def phrasing_words() -> tuple[str, ...]:
    """Every word that phrasings add to those of the world, sorted.

    >>> {"darker", "skinned", "elderly", "lady"} <= set(phrasing_words())
    True
    """
    tables: tuple[Mapping[str, tuple[str, ...]], ...] = (
        _TONE_BEFORE,
        _TONE_AFTER,
        _AGE_BEFORE,
        _AGE_AFTER,
        _NOUNS,
        _GENDER_BEFORE,
        _GENDER_AFTER,
    )
    texts = [text for table in tables for choices in table.values() for text in choices]
    return tuple(sorted({word for text in texts for word in re.split(r"[\s-]+", text)}))


@cache
def _phrase() -> re.Pattern[str]:
    """A noun phrase of the world's grammar, without what says the work and the traits."""
    grammar = shipped("grammar")
    ages, builds = "|".join(grammar["age"].values()), "|".join(BUILDS)
    genders = "|".join(grammar["gender"][name]["adjective"] for name in GENDERS)
    simple = {"person", "child", *_NOUNS}
    nouns = "|".join(sorted(simple | set(OCCUPATIONS), key=len, reverse=True))
    tones = "|".join(TONE_GROUPS)
    return re.compile(
        rf"(?<!works as )\ban? (?:(?P<age>{ages}) )?(?:(?P<build>{builds}) )?(?:(?P<gender>{genders}) )?"
        rf"(?P<noun>{nouns})\b(?: with (?P<tone>{tones}) skin\b)?"
    )


def _said(person: Mapping[str, str], rng: np.random.Generator) -> str:
    """A noun phrase (age, build, gender, noun, tone) in words that are drawn; what is not said of a person, and empty,
    stays unsaid.
    """
    u = rng.random(6)  # always as many, so that one phrase does not move the draws of the next
    before: list[str] = []
    after: list[str] = []
    age = next((age for age, word in shipped("grammar")["age"].items() if word == person["age"]), "")
    years = _drawn(_AGE_BEFORE.get(age, ()) + _AGE_AFTER.get(age, ()), u[0])
    (after if years.startswith(("of ", "who ")) else before).append(years)
    before.append(person["build"])
    tone = _drawn((_TONE_BEFORE if u[1] < 0.5 else _TONE_AFTER).get(person["tone"], ()), u[2])
    if tone.startswith("with "):
        after.insert(0, tone)
    else:
        before.insert(0 if u[3] < TONE_FIRST else 2, tone)
    # "a nonbinary person" has no other noun; a gender after the noun is said of workers alone
    behind = person["noun"] in OCCUPATIONS and u[4] < 0.4
    gender = _drawn((_GENDER_AFTER if behind else _GENDER_BEFORE).get(person["gender"], ()), u[5])
    if person["noun"] not in OCCUPATIONS:
        gender = person["gender"]
    (after if behind else before).append(gender)
    noun = _drawn(_NOUNS.get(person["noun"], (person["noun"],)), u[5] ** 2)  # the world's own noun most often
    return " ".join(filter(None, (with_article(" ".join(filter(None, [*before, noun]))), *after)))


def _drawn(choices: tuple[str, ...], u: float) -> str:
    return choices[int(u * len(choices))] if choices else ""


Opened = tuple[Any, Any, Any]
"""UNet, text encoder and tokenizer of a pipeline."""


def finer_name(name: str) -> str | None:
    """What a weight of a UNet is called where there is one level more outside it; none for its outermost layers.

    >>> finer_name("down_blocks.0.resnets.0.conv1.weight"), finer_name("conv_in.weight")
    ('down_blocks.1.resnets.0.conv1.weight', None)
    """
    block, _, rest = name.partition(".")
    if block.startswith("conv_"):
        return None
    if block != "down_blocks":
        return name
    number, _, inner = rest.partition(".")
    return f"down_blocks.{int(number) + 1}.{inner}"


def refined(coarse: Any, fine: Any, plan: Edition) -> Any:
    """An untrained UNet ``fine`` of ``plan`` with the levels of ``coarse``, which draws on a grid half as fine."""
    if tuple(coarse.config.block_out_channels) != tuple(plan.unet_blocks[1:]):
        raise InputError(
            f"levels of {tuple(coarse.config.block_out_channels)} channels do not fit inside {plan.unet_blocks}; "
            "start from a generator of the edition before"
        )
    there, weights = fine.state_dict(), {}
    for name, value in coarse.state_dict().items():
        place = finer_name(name)
        if place is not None and there[place].shape == value.shape:
            weights[place] = value
    fine.load_state_dict(there | weights)
    return fine


def with_difference(start: Opened, before: Path, part: str, opened: Callable[[Path], Opened]) -> tuple[Any, Any]:
    """UNet and text encoder of ``start``, plus what ``part`` had learnt beyond ``diffusion`` in the folder ``before``.

    ``opened`` opens a pipeline's folder. Words that ``start`` knows and the ``diffusion`` of before did not keep the
    vectors that the part of before had for them, or else their own.
    """
    unet, text, words = start
    learnt_unet, learnt_text, learnt_words = opened(before / part)
    base_unet, base_text, base_words = opened(before / "diffusion")
    finer = unet.config.sample_size != base_unet.config.sample_size
    weights, base = unet.state_dict(), base_unet.state_dict()
    for name, value in learnt_unet.state_dict().items():
        place = finer_name(name) if finer else name
        if place in weights and base[name].shape == value.shape == weights[place].shape:
            weights[place] = weights[place] + (value - base[name])
    unet.load_state_dict(weights)
    text.load_state_dict(_plus(text.state_dict(), learnt_text.state_dict(), base_text.state_dict()))
    _add_words(text, words, (learnt_text, learnt_words), (base_text, base_words))
    return unet, text


def _plus(weights: dict[str, Any], learnt: dict[str, Any], base: dict[str, Any]) -> dict[str, Any]:
    """The weights, plus the difference wherever it is one of weights and not of words."""
    return {
        name: value + (learnt[name] - base[name])
        if name in learnt and "token_embedding" not in name and value.is_floating_point()
        else value
        for name, value in weights.items()
    }


def _add_words(text: Any, words: Any, learnt: tuple[Any, Any], base: tuple[Any, Any]) -> None:
    table = text.get_input_embeddings().weight.data
    learnt_table, base_table = (encoder.get_input_embeddings().weight.data for encoder, _ in (learnt, base))
    learnt_known, base_known = (tokens.get_vocab() for _, tokens in (learnt, base))
    for token, place in words.get_vocab().items():
        if token in learnt_known and token in base_known:
            table[place] += learnt_table[learnt_known[token]] - base_table[base_known[token]]
        elif token in learnt_known:
            table[place] = learnt_table[learnt_known[token]]
