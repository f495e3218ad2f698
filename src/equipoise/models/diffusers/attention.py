"""Attention control: images of several prompts that share the layout of the first.

All images of a set start from the same noise. For the first steps (a *share* of them) the first prompt, the source,
also lends its attention maps to the others:

- ``self``: where each pixel looks in the picture. This is what the released code of SocialCounterfactuals
  (CVPR 2024) and InstructPix2Pix does, in both halves of classifier-free guidance.
- ``cross``: where each word is in the picture, word by word, in the conditional half: Prompt-to-Prompt (Hertz et al.,
  arXiv 2208.01626). Words that only the other prompt has keep their own maps.
- ``both``.

A map times values is what attention gives, so a target takes the source's queries and keys and keeps its own values:
no map is ever held in memory, and sharing costs what plain attention costs. The pipeline itself is the stock one; with
nothing to share its own processors do all the work.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Any

import numpy as np
from numpy.typing import NDArray

from equipoise.errors import InputError, UnknownNameError

INJECTIONS = ("self", "cross", "both")
SAMPLERS = {"euler-ancestral": "EulerAncestralDiscreteScheduler", "ddim": "DDIMScheduler"}
"""Samplers that can be asked for by name, with their classes in diffusers."""
BLEND_AFTER = 0.2
"""The local blend begins after this share of the steps, when attention maps mean something (Prompt-to-Prompt)."""
BLEND_ABOVE = 0.75
"""Of the way from the smallest to the largest change by other words; a pixel above it may change."""

Words = Sequence[tuple[str, int]]
"""Words with the number of tokens of each."""


def shared_steps(share: float, steps: int) -> int:
    """In how many of ``steps`` the source lends its maps: step i of 0 ... n - 1 while share > i / (n - 1).

    >>> [shared_steps(p, 100) for p in (0, 0.1, 0.5, 0.9)]
    [0, 10, 50, 90]
    """
    return sum(_is_shared(share, step, steps) for step in range(steps))


def _is_shared(share: float, step: int, steps: int) -> bool:
    return share > step / max(1, steps - 1)


@dataclass(frozen=True)
class Alignment:
    """Which token of the source each token of a target takes its map from."""

    weights: NDArray[np.float32]
    """(tokens, tokens): the target's map of token t is the sum over s of ``weights[s, t]`` times the source's."""
    own: NDArray[np.bool_]
    """Tokens of the target that keep their own map."""


def aligned(source: Words, target: Words, length: int) -> Alignment:
    """Align two prompts of at most ``length`` tokens, a start and an end among them, word by word.

    The same word takes the same map. A word in another's place takes its map, spread evenly over its own tokens; runs
    of different numbers of words are taken as one. A word that was added keeps its own map. The padding follows the
    end.

    >>> both = aligned([("a", 1), ("man", 1)], [("a", 1), ("tall", 1), ("woman", 3)], 8)
    >>> both.weights[2].tolist()
    [0.0, 0.0, 0.25, 0.25, 0.25, 0.25, 0.0, 0.0]
    >>> added = aligned([("a", 1), ("man", 1)], [("a", 1), ("tall", 1), ("man", 1)], 6)
    >>> added.own.tolist(), added.weights[2].tolist()
    ([False, False, True, False, False, False], [0.0, 0.0, 0.0, 1.0, 0.0, 0.0])
    """
    weights = np.zeros((length, length), np.float32)
    weights[0, 0] = 1
    here, there = _places(source, length), _places(target, length)
    for _, i1, i2, j1, j2 in _changes(source, target):
        pairs = [(here[i1:i2], there[j1:j2])]
        if i2 - i1 == j2 - j1:
            pairs = [([a], [b]) for a, b in zip(here[i1:i2], there[j1:j2], strict=True)]
        for sources, targets in pairs:
            s, t = [p for run in sources for p in run], [p for run in targets for p in run]
            if s and t:
                weights[np.ix_(s, t)] = np.eye(len(s)) if len(s) == len(t) else 1 / len(t)
    ends = (_end(here, length), _end(there, length))
    for k in range(length - max(ends)):
        weights[ends[0] + k, ends[1] + k] = 1
    return Alignment(weights, weights.sum(axis=0) == 0)


def _changes(source: Words, target: Words) -> list[tuple[str, int, int, int, int]]:
    before, after = [[word.casefold() for word, _ in words] for words in (source, target)]
    return list(SequenceMatcher(None, before, after, autojunk=False).get_opcodes())


def _places(words: Words, length: int) -> list[list[int]]:
    """The positions of each word's tokens; what does not fit is cut off, as the tokenizer does."""
    places, start = [], 1
    for _, n in words:
        places.append([p for p in range(start, start + n) if p < length - 1])
        start += n
    return places


def _end(places: list[list[int]], length: int) -> int:
    return min(1 + sum(map(len, places)), length - 1)


def words_of(tokenizer: Any, prompt: str) -> list[tuple[str, int]]:
    """The words of ``prompt`` and how many tokens each has; single tokens where words and tokens do not go together."""
    whole = tokenizer(prompt, add_special_tokens=False).input_ids
    pieces = [(word, tokenizer(word, add_special_tokens=False).input_ids) for word in prompt.split()]
    if [token for _, ids in pieces for token in ids] == whole:
        return [(word, len(ids)) for word, ids in pieces]
    return [(str(token), 1) for token in whole]


def run_set(
    pipeline: Any,
    prompts: Sequence[str],
    *,
    seed: int,
    share: float,
    inject: str = "self",
    guidance: float | None = None,
    steps: int | None = None,
    blend: bool = False,
    sampler: str | None = None,
    **call: Any,
) -> list[Any]:
    """One Pillow image per prompt from ``pipeline`` (a Stable Diffusion of diffusers), all from the noise of ``seed``.

    The first prompt lends its attention (``inject``) to the others for a ``share`` of the steps; 0 is the stock call.
    ``blend`` keeps the source's picture wherever other words change little of what the model's attention gives.
    ``sampler``: one of :data:`SAMPLERS`, or the pipeline's own. ``guidance``, ``steps`` and ``call`` (height, width,
    ...) go to the pipeline, which has defaults for what is left out.
    """
    import torch

    texts = list(prompts)
    _check(pipeline, texts, share, inject)
    if guidance is not None:
        call["guidance_scale"] = guidance
    if steps is not None:
        call["num_inference_steps"] = steps
    # One generator per image, all alike: the first noise and that of every step are the same for the whole set.
    noise = [torch.Generator("cpu").manual_seed(seed) for _ in texts]
    with sampled_by(pipeline, sampler):
        if share > 0 or blend:
            control = _Control(pipeline, texts, share, inject, blend)
            with control:
                return list(pipeline(texts, generator=noise, callback_on_step_end=control.after_step, **call).images)
        return list(pipeline(texts, generator=noise, **call).images)


def _check(pipeline: Any, prompts: list[str], share: float, inject: str) -> None:
    if inject not in INJECTIONS:
        raise UnknownNameError("kind of attention to share", inject, INJECTIONS)
    if not 0 <= share <= 1:
        raise InputError(f"share={share!r} must be from 0 (no step) to 1")
    if not prompts or not all(isinstance(prompt, str) and prompt.strip() for prompt in prompts):
        raise InputError("prompts must be one text or more, none of them empty")
    if getattr(pipeline, "unet", None) is None or getattr(pipeline, "tokenizer", None) is None:
        raise InputError(
            f"{type(pipeline).__name__} has no U-Net with a tokenizer, so its attention cannot be shared; use a "
            "Stable Diffusion pipeline, or share=0"
        )


@contextmanager
def sampled_by(pipeline: Any, name: str | None) -> Iterator[None]:
    """``pipeline`` with the sampler ``name`` instead of its own, on the same noise schedule."""
    if name is None:
        yield
        return
    if name not in SAMPLERS:
        raise UnknownNameError("sampler", name, SAMPLERS)
    import diffusers

    before = pipeline.scheduler
    pipeline.scheduler = getattr(diffusers, SAMPLERS[name]).from_config(before.config)
    try:
        yield
    finally:
        pipeline.scheduler = before


class _Control:
    """What the processors of one call share: which step it is, whose maps are lent, and how words are aligned."""

    def __init__(self, pipeline: Any, prompts: list[str], share: float, inject: str, blend: bool) -> None:
        self.n = len(prompts)
        self.step = 0
        self.blend = _Blend() if blend else None
        self._pipeline = pipeline
        self._share = share
        self._inject = inject
        self._stock = dict(pipeline.unet.attn_processors)
        if inject != "self":
            self._align(prompts)

    def _align(self, prompts: list[str]) -> None:
        import torch

        tokenizer = self._pipeline.tokenizer
        words = [words_of(tokenizer, prompt) for prompt in prompts]
        alignments = [aligned(words[0], target, tokenizer.model_max_length) for target in words]

        def stacked(name: str) -> Any:
            parts = np.stack([getattr(alignment, name) for alignment in alignments])
            return torch.from_numpy(parts).to(self._pipeline.unet.device, self._pipeline.unet.dtype)

        self.weights, self.own = stacked("weights"), stacked("own")
        self.any_own = bool(self.own.any())

    def __enter__(self) -> None:
        mine = {".attn1.": "self", ".attn2.": "cross"}
        changed = dict(self._stock)
        for name, stock in self._stock.items():
            kind = next((kind for part, kind in mine.items() if part in name), None)
            wanted = self._share > 0 and self._inject in (kind, "both")
            if kind is not None and (wanted or (kind == "cross" and self.blend is not None)):
                changed[name] = _Processor(self, stock, kind)
        self._pipeline.unet.set_attn_processor(changed)

    def __exit__(self, *_: object) -> None:
        self._pipeline.unet.set_attn_processor(dict(self._stock))

    def shares(self, kind: str) -> bool:
        """Whether the source's maps of this kind are lent in the present step."""
        steps = self._pipeline.num_timesteps
        return self._inject in (kind, "both") and _is_shared(self._share, self.step, steps)

    def after_step(self, pipeline: Any, step: int, _: Any, tensors: dict[str, Any]) -> dict[str, Any]:
        """Count the step; give the pipeline its own processors back as soon as nothing more is shared."""
        self.step = step + 1
        if self.blend is None:
            if not _is_shared(self._share, self.step, pipeline.num_timesteps):
                pipeline.unet.set_attn_processor(dict(self._stock))
        elif self.step > BLEND_AFTER * pipeline.num_timesteps:
            tensors["latents"] = self.blend.blended(tensors["latents"])
        return tensors


class _Processor:
    """One attention layer whose targets may look where the source looks."""

    def __init__(self, control: _Control, stock: Any, kind: str) -> None:
        self._control = control
        self._stock = stock
        self._kind = kind

    def __call__(
        self,
        attn: Any,
        hidden_states: Any,
        encoder_hidden_states: Any = None,
        attention_mask: Any = None,
        temb: Any = None,
        **others: Any,
    ) -> Any:
        control = self._control
        shared = control.shares(self._kind)
        blend = control.blend if self._kind == "cross" else None
        if not shared and blend is None:
            return self._stock(attn, hidden_states, encoder_hidden_states, attention_mask, temb, **others)
        if attention_mask is not None or hidden_states.ndim != 3:
            raise InputError("this pipeline masks its attention, so it cannot be shared; use share=0")
        query, key, value = _heads(attn, hidden_states, encoder_hidden_states)
        if blend is not None:
            blend.note(query[-control.n :], key[-control.n :], value[-control.n :])
        if not shared:
            mixed = _attention(query, key, value)
        elif self._kind == "self":
            mixed = _attention(_source_of(query, control.n), _source_of(key, control.n), value)
        else:
            mixed = _cross(control, query, key, value)
        return _merged(attn, mixed, hidden_states)


def _cross(control: _Control, query: Any, key: Any, value: Any) -> Any:
    """Cross-attention whose conditional half has the source's maps, carried over by the alignment of words.

    ``(map @ weights) @ value = map @ (weights @ value)``: aligning the values is the same as aligning the map.
    """
    import torch

    n = control.n
    plain, asked = slice(0, len(query) - n), slice(len(query) - n, None)
    carried = control.weights[:, None] @ value[asked]
    lent = _attention(_source_of(query[asked], n), _source_of(key[asked], n), carried)
    if control.any_own:
        lent = lent + _attention(query[asked], key[asked], control.own[:, None, :, None] * value[asked])
    if not len(query[plain]):
        return lent
    return torch.cat([_attention(query[plain], key[plain], value[plain]), lent])


def _source_of(states: Any, n: int) -> Any:
    """The first of each run of ``n`` in the place of all of them."""
    runs = states.view(-1, n, *states.shape[1:])
    return runs[:, :1].expand_as(runs).reshape(states.shape)


def _attention(query: Any, key: Any, value: Any) -> Any:
    from torch.nn import functional

    return functional.scaled_dot_product_attention(query, key, value)


def _heads(attn: Any, hidden: Any, text: Any) -> tuple[Any, Any, Any]:
    """Queries, keys and values, each (batch, heads, tokens, width)."""
    about = hidden if text is None else text
    if text is not None and attn.norm_cross:
        about = attn.norm_encoder_hidden_states(about)
    parts = [attn.to_q(hidden), attn.to_k(about), attn.to_v(about)]
    query, key, value = (part.unflatten(-1, (attn.heads, -1)).transpose(1, 2) for part in parts)
    query = query if attn.norm_q is None else attn.norm_q(query)
    key = key if attn.norm_k is None else attn.norm_k(key)
    return query, key, value


def _merged(attn: Any, mixed: Any, before: Any) -> Any:
    after = attn.to_out[1](attn.to_out[0](mixed.transpose(1, 2).flatten(2)))
    return (after + before if attn.residual_connection else after) / attn.rescale_output_factor


class _Blend:
    """Where other words change the picture, by the model's own cross-attention, over layers and steps.

    Prompt-to-Prompt takes the maps of the words that differ. But a text encoder that reads from left to right says a
    word again in everything after it, padding included, so maps of the words alone may lie beside what they change.
    Here it is what attention *gives*: how far the values that a pixel takes from the target's text are from those that
    it takes from the source's.
    """

    def __init__(self) -> None:
        self._seen: dict[int, Any] = {}

    def note(self, query: Any, key: Any, value: Any) -> None:
        """Add one layer's differences: (2, prompts, pixels), as the source's pixels and as the target's see them."""
        import torch

        maps = []
        for asked in (query[:1].expand_as(query), query):
            own = _attention(asked, key, value)
            lent = _attention(asked, key[:1].expand_as(key), value[:1].expand_as(value))
            maps.append((own - lent).square().sum(dim=(1, 3)).sqrt())
        total = torch.stack(maps).float()
        pixels = total.shape[-1]
        self._seen[pixels] = self._seen[pixels] + total if pixels in self._seen else total

    def blended(self, latents: Any) -> Any:
        """The targets where other words change the picture, the source elsewhere."""
        mask = self.mask(*latents.shape[-2:]).to(latents.dtype)
        return latents[:1] + mask * (latents - latents[:1])

    def mask(self, height: int, width: int) -> Any:
        """(prompts, 1, height, width): 1 where a target may differ from the source."""
        from torch.nn import functional

        total: Any = 0
        for pixels, seen in self._seen.items():
            rows = round((pixels * height / width) ** 0.5)
            maps = seen.unflatten(-1, (rows, pixels // rows))
            maps = functional.interpolate(maps, size=(height, width), mode="bilinear")
            low, high = maps.amin((-2, -1), keepdim=True), maps.amax((-2, -1), keepdim=True)
            total = total + (maps - low) / (high - low).clamp(min=1e-12)
        total = functional.max_pool2d(total, 3, stride=1, padding=1)
        return (total > BLEND_ABOVE * total.amax((-2, -1), keepdim=True)).any(0)[:, None]
