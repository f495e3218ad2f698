"""Revisers of captions: an encoder of image and text with a language model that writes the caption anew.

The form is that of LIBRA's debiasing caption generator (Hirota et al., CVPR 2023): ViLT reads the picture and the
caption, some of whose words are hidden, and a GPT-2 with cross-attention writes. A folder holds one stock
``EncoderDecoderModel`` (ViLT and GPT-2), ViLT's image processor and tokenizer, and in ``decoder`` the tokenizer of
GPT-2; :func:`join` makes one of a ViLT and a GPT-2.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from equipoise.errors import InputError
from equipoise.models.folders import Checkpoint, find_checkpoint, key_of
from equipoise.models.hf.checkpoint import (
    image_processor,
    placed,
    reopening,
    stock_model,
    tokenizer,
    tokenizer_settings,
    writing_settings,
)
from equipoise.models.hf.fillers import generator_for
from equipoise.models.images import MOST_PIXELS_AT_ONCE, pixels_of, processed, rgb_images
from equipoise.models.runtime import ModelSettings, from_transformers, in_batches, quiet, torch_device, torch_dtype
from equipoise.text.english.hiding import with_hidden_words

DECODER = "decoder"
"""The folder inside a reviser's where the tokenizer of the language model is."""
SHARE = "hidden_share"
"""The setting in ``config.json`` that says which share of the words is hidden."""
FORM = "encoder-decoder"
USUAL_SHARE = 0.2


@dataclass(frozen=True)
class Revising:
    """How captions are written: the settings of LIBRA unless told otherwise."""

    num_beams: int = 5
    no_repeat: int = 4
    """No so many tokens in a row come twice; 0 lets them."""
    min_tokens: int = 3
    max_tokens: int = 33
    share: float | None = None
    """The share of the caption's words that are hidden; what the model was trained with unless given."""

    def __post_init__(self) -> None:
        if self.num_beams < 1 or self.no_repeat < 0 or not 0 <= self.min_tokens <= self.max_tokens:
            raise InputError("give at least one beam, and min_tokens no greater than max_tokens")
        if self.share is not None and not 0 <= self.share <= 1:
            raise InputError(f"share = {self.share}: give a share of the words from 0 to 1")


def reviser(checkpoint: Checkpoint, *, name: str, **options: Any) -> HuggingFaceReviser:
    """The reviser in a checkpoint folder; ``options`` are those of :class:`ModelSettings` and :class:`Revising`."""
    ours = {field.name for field in fields(Revising)}
    revising = Revising(**{n: value for n, value in options.items() if n in ours})
    settings = ModelSettings(**{n: value for n, value in options.items() if n not in ours})
    return HuggingFaceReviser(checkpoint, name=name, settings=settings, revising=revising)


class HuggingFaceReviser:
    """ViLT and GPT-2 as one reviser; see :class:`~equipoise.models.protocols.Reviser`."""

    def __init__(
        self,
        checkpoint: Checkpoint,
        *,
        name: str,
        settings: ModelSettings | None = None,
        revising: Revising | None = None,
    ) -> None:
        self.name, self.checkpoint = name, checkpoint
        self.settings, self.revising = settings or ModelSettings(), revising or Revising()
        self.device = torch_device(self.settings.device)
        self.dtype = torch_dtype(self.settings.dtype, self.device)
        with quiet():
            self.processor, self.words, self.tongue, model = parts_of(checkpoint)
        self.model = model.to(device=self.device, dtype=self.dtype).eval()
        said = self.revising.share
        self.share = float(checkpoint.config.get(SHARE, USUAL_SHARE)) if said is None else said
        self.key = key_of(
            "reviser",
            checkpoint.weights,
            checkpoint.config,
            self.processor.to_dict(),
            tokenizer_settings(self.words),
            writing_settings(self.model, self.tongue),
            asdict(self.revising) | {"share": self.share},
            dtype=str(self.dtype).removeprefix("torch."),
        )

    def revise(self, images: Sequence[Any], captions: Sequence[str], *, seed: int = 0) -> list[str]:
        """One caption for each image and its caption; the seed and the caption decide which words are hidden."""
        if isinstance(captions, str):
            raise InputError(f"captions must be a list of texts, not the one text {captions!r}")
        wanted = rgb_images(images)
        if len(wanted) != len(captions):
            raise InputError(f"{len(captions):,} captions but {len(wanted):,} images; give one image for each caption")
        empty = next((place for place, text in enumerate(captions) if not text.strip()), None)
        if empty is not None:
            raise InputError(f"caption {empty} is empty; there is nothing to revise")
        pairs = list(zip(wanted, captions, strict=True))
        with quiet():
            batches = in_batches(
                lambda batch: self._revised(batch, seed),
                pairs,
                self.settings.batch_size,
                weight=lambda pair: pixels_of(pair[0]),
                most=MOST_PIXELS_AT_ONCE,
            )
        return [text for batch in batches for text in batch]

    def _revised(self, pairs: Sequence[tuple[Any, str]], seed: int) -> list[str]:
        import torch

        hidden = [
            with_hidden_words(text, self.share, self.words.mask_token, generator_for(text, seed)) for _, text in pairs
        ]
        inputs = inputs_of(self.processor, self.words, [image for image, _ in pairs], hidden, self.model.config.encoder)
        given = placed(inputs, self.device, self.dtype)
        how = self.revising
        gpus = [self.device] if self.device.type == "cuda" else []
        with torch.inference_mode(), torch.random.fork_rng(devices=gpus):
            torch.manual_seed(seed)  # ViLT takes the patches in an order that it draws
            seen, there = encoded(self.model, given)
            most = min(how.max_tokens, self.model.config.decoder.max_position_embeddings)
            ids = self.model.generate(
                encoder_outputs=seen,
                attention_mask=there,
                do_sample=False,
                num_beams=how.num_beams,
                no_repeat_ngram_size=how.no_repeat,
                min_length=min(how.min_tokens, most),
                max_length=most,
            )
        return [first_sentence(text) for text in self.tongue.batch_decode(ids, skip_special_tokens=True)]

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name} ({self.key})>"

    def __reduce__(self) -> Any:
        return reopening(reviser, self.checkpoint, self.name, asdict(self.settings) | asdict(self.revising))


def parts_of(checkpoint: Checkpoint) -> tuple[Any, Any, Any, Any]:
    """The image processor, the reader's tokenizer, the writer's tokenizer and the model of a reviser's folder."""
    encoder = checkpoint.config.get("encoder") or {}
    kind = encoder.get("model_type") if isinstance(encoder, dict) else None
    if checkpoint.model_type != FORM or kind != "vilt":
        raise InputError(
            f"{checkpoint.folder}: a {checkpoint.model_type!r} model, which cannot revise captions; a reviser is an "
            "EncoderDecoderModel of ViLT and a language model, as equipoise libra fit writes"
        )
    checkpoint.needs_images()
    checkpoint.needs_texts()
    inner = checkpoint.folder / DECODER
    if not inner.is_dir():
        raise InputError(f"{checkpoint.folder}: the folder {DECODER!r} with the language model's tokenizer is missing")
    words = tokenizer(checkpoint)
    if words.mask_token is None:
        raise InputError(f"{checkpoint.folder}: its tokenizer has no mask token, so no word can be hidden")
    tongue = tokenizer(Checkpoint(inner, {}, ()))
    return image_processor(checkpoint), words, tongue, stock_model(checkpoint, "EncoderDecoderModel")


def inputs_of(processor: Any, words: Any, images: Sequence[Any], texts: Sequence[str], encoder: Any) -> dict[str, Any]:
    """What ViLT reads: tokens, pixels and which of both are there."""
    limit = min(int(words.model_max_length), int(encoder.max_position_embeddings))
    tokens = dict(words(list(texts), padding=True, truncation=True, max_length=limit, return_tensors="pt"))
    return tokens | processed(processor, images)


def encoded(model: Any, inputs: dict[str, Any]) -> tuple[Any, Any]:
    """What ViLT makes of image and text, and which of its places are there and not padding."""
    import torch

    seen = model.encoder(**inputs, return_dict=True)
    texts = inputs["attention_mask"]
    places = seen.last_hidden_state.shape[1] - texts.shape[1]
    if "pixel_mask" in inputs:
        images = _patches_there(inputs["pixel_mask"], model.encoder, places).to(texts)
    else:
        images = texts.new_ones(len(texts), places)
    return seen, torch.cat([texts, images], dim=1)


def _patches_there(pixel_mask: Any, reader: Any, places: int) -> Any:
    """(n, places) 1 for the class token and the patches of each image, which ViLT puts before the padding."""
    import torch

    side = reader.embeddings.patch_embeddings.projection.weight.shape[-1]
    grid = (pixel_mask.shape[-2] // side, pixel_mask.shape[-1] // side)
    small = torch.nn.functional.interpolate(pixel_mask[:, None].float(), size=grid)[:, 0]
    counts = small.sum(dim=(1, 2)).long() + 1
    return (torch.arange(places, device=pixel_mask.device)[None] < counts[:, None]).long()


def first_sentence(text: str) -> str:
    """``text`` up to its first full stop that ends a word.

    >>> first_sentence(" a man rides a bike. he smiles."), first_sentence("a 2.5 m wave")
    ('a man rides a bike.', 'a 2.5 m wave')
    """
    return re.split(r"(?<=\.)\s", text.strip(), maxsplit=1)[0].strip()


def join(encoder: str, decoder: str, folder: Path, *, share: float = USUAL_SHARE, seed: int = 0) -> Path:
    """Write a reviser that has learnt nothing yet into ``folder``: a ViLT and a GPT-2 by name or folder.

    The weights of the cross-attention, by which the language model looks at what ViLT has read, are new.
    """
    import torch

    eyes, voice = find_checkpoint(encoder), find_checkpoint(decoder)
    for checkpoint, kind, what in ((eyes, "vilt", "encoder"), (voice, "gpt2", "decoder")):
        if checkpoint.model_type != kind:
            raise InputError(f"{checkpoint.folder}: a {checkpoint.model_type!r} model; the {what} must be a {kind}")
    eyes.needs_images()
    eyes.needs_texts()
    voice.needs_texts()
    torch.manual_seed(seed)
    with quiet():
        reader = _with_pooler(stock_model(eyes, "ViltModel", add_pooling_layer=False))
        config = from_transformers("GPT2Config").from_pretrained(
            voice.folder, local_files_only=True, trust_remote_code=False
        )
        config.add_cross_attention = config.is_decoder = True
        writer = from_transformers("GPT2LMHeadModel")(config)
        weights = stock_model(voice, "GPT2LMHeadModel").state_dict()
        writer.load_state_dict(weights, strict=False)  # all but the cross-attention, which is new
        processor, words, tongue = image_processor(eyes), tokenizer(eyes), tokenizer(voice)
        save_reviser(joined_model(reader, writer, tongue, share=share), folder, processor, words, tongue)
    return folder


def _with_pooler(reader: Any) -> Any:
    """The same ViLT with a pooling layer, which nothing reads but which the stock class expects."""
    whole = type(reader)(reader.config)
    whole.load_state_dict(reader.state_dict(), strict=False)
    return whole


def joined_model(reader: Any, writer: Any, tongue: Any, *, share: float = USUAL_SHARE) -> Any:
    """A stock ``EncoderDecoderModel`` whose captions begin and end as the writer's tokenizer says."""
    model = from_transformers("EncoderDecoderModel")(encoder=reader, decoder=writer)
    start = tongue.bos_token_id if tongue.bos_token_id is not None else tongue.eos_token_id
    end = tongue.eos_token_id
    setattr(model.config, SHARE, share)
    model.config.decoder_start_token_id, model.config.pad_token_id, model.config.eos_token_id = start, end, end
    model.generation_config.update(decoder_start_token_id=start, bos_token_id=start, eos_token_id=end, pad_token_id=end)
    return model


def save_reviser(model: Any, folder: Path, processor: Any, words: Any, tongue: Any) -> None:
    """Write a reviser so that stock ``transformers`` loads it: the model, both tokenizers, the image processor."""
    folder.mkdir(parents=True, exist_ok=True)
    with quiet():
        model.save_pretrained(folder)
        words.save_pretrained(folder)
        processor.save_pretrained(folder)
        tongue.save_pretrained(folder / DECODER)
