"""Captioners: vision-encoder-decoders, models that take an image and a prompt (BLIP-2 and newer), and ClipCap.

Each form is one *writer* (images in, texts out) and one line in :data:`CAPTIONERS`; seeds, batches and memory are the
same for all.

ClipCap: CLIP's image vector, mapped to a prefix that GPT-2 goes on from (Mokady et al., 2021).

The folder that :func:`equipoise.models.convert.clipcap` writes: ``config.json`` (model_type clipcap), the mapper's
``model.safetensors``, and two stock folders, ``clip`` (a CLIP image encoder) and ``gpt2``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any, Protocol

from equipoise.errors import InputError, one_line
from equipoise.models.folders import Checkpoint, key_of, open_checkpoint
from equipoise.models.hf.checkpoint import image_processor, placed, reopening, stock_model, tokenizer, writing_settings
from equipoise.models.images import MOST_PIXELS_AT_ONCE, pixels_of, processed, rgb_images
from equipoise.models.runtime import (
    ModelSettings,
    from_transformers,
    in_batches,
    in_one_sentence,
    quiet,
    torch_device,
    torch_dtype,
)
from equipoise.registry import Registry

_MAPPER_HEADS = 8
_CLIPCAP_TOKENS = 67


class ClipCap:
    """Writes a sentence up to its full stop, greedily unless told otherwise."""

    def __init__(self, checkpoint: Checkpoint, device: Any, dtype: Any, decoding: Decoding) -> None:
        from safetensors.torch import load_file

        config = checkpoint.config
        clip, gpt = (open_checkpoint(checkpoint.folder / part) for part in ("clip", "gpt2"))
        clip.needs_images()
        gpt.needs_texts()
        self.processor = image_processor(clip)
        self.words = tokenizer(gpt)
        self.clip = stock_model(clip, "CLIPVisionModelWithProjection").to(device=device, dtype=dtype).eval()
        self.gpt = stock_model(gpt, "GPT2LMHeadModel").to(device=device, dtype=dtype).eval()
        self.mapper = mapper(load_file(checkpoint.weights[0]), self.gpt.config.n_embd).to(device, dtype).eval()
        self.unit = bool(config.get("normalize"))
        self.device, self.dtype = device, dtype
        self.stop = self.words.encode(str(config.get("stop", ".")))[0]
        self.key = key_of(
            "clipcap",
            (*checkpoint.weights, *clip.weights, *gpt.weights),
            config,
            self.processor.to_dict(),
            decoding.options,
            writing_settings(self.gpt, self.words),
            dtype=str(dtype).removeprefix("torch."),
        )

    def write(self, images: Sequence[Any], **options: Any) -> list[str]:
        """One text for each RGB image."""
        import torch

        pixels = processed(self.processor, images)["pixel_values"]
        with torch.inference_mode():
            vectors = self.clip(pixel_values=pixels.to(self.device, self.dtype)).image_embeds
            if self.unit:
                vectors = torch.nn.functional.normalize(vectors, dim=-1)
            prefix = self.mapper(vectors)
            there = torch.ones(prefix.shape[:2], dtype=torch.long, device=self.device)
            ids = self.gpt.generate(
                inputs_embeds=prefix,
                attention_mask=there,
                eos_token_id=self.stop,
                pad_token_id=self.gpt.config.eos_token_id,
                **({"max_new_tokens": _CLIPCAP_TOKENS} | options),
            )
        return [text.strip() for text in self.words.batch_decode(ids, skip_special_tokens=True)]


def mapper(weights: dict[str, Any], width: int) -> Any:
    """The network from CLIP's vector (n, d) to a prefix (n, length, width), whose form the weights' names show."""
    from torch import nn

    if "prefix_const" in weights:
        network: Any = _transformer_mapper(weights, width)
    elif "model.0.weight" in weights:
        hidden, size = weights["model.0.weight"].shape
        layers = nn.Sequential(nn.Linear(size, hidden), nn.Tanh(), nn.Linear(hidden, len(weights["model.2.weight"])))
        network = nn.Sequential()
        network.add_module("model", layers)
        network.add_module("parted", nn.Unflatten(1, (-1, width)))
    elif set(weights) == {"weight", "bias"}:
        linear = nn.Linear(weights["weight"].shape[1], len(weights["weight"]))
        linear.load_state_dict(weights)
        return nn.Sequential(linear, nn.Unflatten(1, (-1, width)))
    else:
        raise InputError(f"a mapper of another form than ClipCap's: {', '.join(sorted(weights)[:4])}")
    with in_one_sentence("the mapper's weights do not fit"):
        network.load_state_dict(weights, strict=True)
    return network


def _transformer_mapper(weights: dict[str, Any], width: int) -> Any:
    import torch
    from torch import nn

    n_layers = 1 + max(int(name.split(".")[2]) for name in weights if name.startswith("transformer.layers."))
    if n_layers > len(weights):
        raise InputError(f"the mapper's weights name a layer {n_layers - 1}, but there are {len(weights)} of them")
    hidden = len(weights["transformer.layers.0.mlp.fc1.weight"])

    class Attention(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.to_queries = nn.Linear(width, width, bias="transformer.layers.0.attn.to_queries.bias" in weights)
            self.to_keys_values = nn.Linear(
                width, 2 * width, bias="transformer.layers.0.attn.to_keys_values.bias" in weights
            )
            self.project = nn.Linear(width, width)

        def forward(self, x: Any) -> Any:
            parts = [self.to_queries(x), *self.to_keys_values(x).chunk(2, dim=-1)]
            q, k, v = (part.unflatten(-1, (_MAPPER_HEADS, -1)).transpose(1, 2) for part in parts)
            out = torch.nn.functional.scaled_dot_product_attention(q, k, v)
            return self.project(out.transpose(1, 2).flatten(-2))

    class Layer(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
            self.attn = Attention()
            self.mlp = nn.ModuleDict({"fc1": nn.Linear(width, hidden), "fc2": nn.Linear(hidden, width)})

        def forward(self, x: Any) -> Any:
            x = x + self.attn(self.norm1(x))
            return x + self.mlp["fc2"](torch.relu(self.mlp["fc1"](self.norm2(x))))

    class Mapper(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            out, size = weights["linear.weight"].shape
            self.linear = nn.Linear(size, out)
            self.prefix_const = nn.Parameter(torch.empty_like(weights["prefix_const"]))
            self.transformer = nn.ModuleDict({"layers": nn.ModuleList(Layer() for _ in range(n_layers))})

        def forward(self, vectors: Any) -> Any:
            seen = self.linear(vectors).unflatten(1, (-1, width))
            x = torch.cat([seen, self.prefix_const.expand(len(vectors), -1, -1)], dim=1)
            for layer in self.transformer["layers"]:
                x = layer(x)
            return x[:, seen.shape[1] :]

    return Mapper()


CAPTIONERS = Registry("captioner")
CAPTIONERS.add(
    "vision-encoder-decoder",
    "equipoise.models.hf.captioners:VisionEncoderDecoder",
    summary="A vision encoder and a text decoder joined by cross-attention; the mini captioner is one.",
    citation="Li et al., TrOCR, AAAI 2023; nlpconnect/vit-gpt2-image-captioning",
    licence="each checkpoint has its own",
    needs="models",
    example="nlpconnect/vit-gpt2-image-captioning",
)
CAPTIONERS.add(
    "clipcap",
    "equipoise.models.hf.captioners:ClipCap",
    summary="CLIP's image vector as a prefix of GPT-2; made by equipoise.models.convert.clipcap.",
    citation="Mokady et al., ClipCap: CLIP Prefix for Image Captioning, 2021, arXiv 2111.09734",
    licence="MIT",
    needs="models",
)
CAPTIONERS.add(
    "image-text-to-text",
    "equipoise.models.hf.captioners:ImageTextToText",
    summary="Models that take an image and a prompt: BLIP, BLIP-2, GIT, LLaVA and newer.",
    citation="Li et al., BLIP-2, ICML 2023",
    licence="each checkpoint has its own",
    needs="models",
    example="Salesforce/blip2-opt-2.7b",
)

_NEW_TOKENS = 40
_QUESTION = "Describe the image in one sentence."


@dataclass(frozen=True)
class Decoding:
    """How captions are written; by default greedily, or as the checkpoint's generation settings say, never sampled."""

    num_beams: int | None = None
    max_new_tokens: int | None = None
    temperature: float | None = None
    """Sample at this temperature; each image with the seed alone, so that a caption does not depend on its batch."""
    prompt: str | None = None
    """What an image-text-to-text model is asked."""

    def __post_init__(self) -> None:
        for name in ("num_beams", "max_new_tokens", "temperature"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise InputError(f"{name} must be above 0, not {value!r}")

    @property
    def options(self) -> dict[str, Any]:
        """What ``generate`` is told."""
        options: dict[str, Any] = {"do_sample": self.temperature is not None}
        for name in ("num_beams", "max_new_tokens", "temperature"):
            if getattr(self, name) is not None:
                options[name] = getattr(self, name)
        return options


class Writer(Protocol):
    """One form of captioner: a loaded model that writes one text for each image."""

    key: str

    def __init__(self, checkpoint: Checkpoint, device: Any, dtype: Any, decoding: Decoding) -> None: ...

    def write(self, images: Sequence[Any], **options: Any) -> list[str]:
        """One text for each RGB image; ``options`` are those of ``generate``."""


def captioner(checkpoint: Checkpoint, *, name: str, **options: Any) -> HuggingFaceCaptioner:
    """The captioner in a checkpoint folder; ``options`` are those of :class:`ModelSettings` and :class:`Decoding`."""
    ours = {field.name for field in fields(Decoding)}
    decoding = Decoding(**{n: value for n, value in options.items() if n in ours})
    settings = ModelSettings(**{n: value for n, value in options.items() if n not in ours})
    return HuggingFaceCaptioner(checkpoint, name=name, settings=settings, decoding=decoding)


class HuggingFaceCaptioner:
    """A captioner of any form; see :class:`~equipoise.models.protocols.Captioner`."""

    def __init__(
        self,
        checkpoint: Checkpoint,
        *,
        name: str,
        settings: ModelSettings | None = None,
        decoding: Decoding | None = None,
    ) -> None:
        self.name = name
        self.checkpoint = checkpoint
        self.settings = settings or ModelSettings()
        self.decoding = decoding or Decoding()
        self.family = _form_of(checkpoint)
        self.device = torch_device(self.settings.device)
        dtype = torch_dtype(self.settings.dtype, self.device)
        form: type[Writer] = CAPTIONERS.load(self.family)
        with quiet():
            self.writer = form(checkpoint, self.device, dtype, self.decoding)
        self.key = self.writer.key

    def caption(self, images: Sequence[Any], *, seed: int = 0) -> list[str]:
        """One caption for each image. The seed matters only where captions are sampled (``temperature``)."""
        wanted = rgb_images(images)
        with quiet():
            if self.decoding.temperature is not None:
                return [self._sampled(image, seed) for image in wanted]
            batches = in_batches(
                lambda batch: self.writer.write(batch, **self.decoding.options),
                wanted,
                self.settings.batch_size,
                weight=pixels_of,
                most=MOST_PIXELS_AT_ONCE,
            )
        return [text for batch in batches for text in batch]

    def _sampled(self, image: Any, seed: int) -> str:
        import torch

        gpus = [self.device] if self.device.type == "cuda" else []
        with torch.random.fork_rng(devices=gpus):
            torch.manual_seed(seed)
            return self.writer.write([image], **self.decoding.options)[0]

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name} ({self.key})>"

    def __reduce__(self) -> Any:
        return reopening(captioner, self.checkpoint, self.name, asdict(self.settings) | asdict(self.decoding))


def _form_of(checkpoint: Checkpoint) -> str:
    kind = checkpoint.model_type
    if kind in CAPTIONERS:
        return kind
    from_transformers("AutoModelForImageTextToText")
    from transformers.models.auto.modeling_auto import MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES

    if kind in MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES:
        return "image-text-to-text"
    raise InputError(
        f"{checkpoint.folder}: a {kind!r} model, which cannot caption; a captioner is a vision-encoder-decoder, a "
        "ClipCap folder, or an image-text-to-text model such as blip-2"
    )


class VisionEncoderDecoder:
    """``VisionEncoderDecoderModel``: pixels to the encoder, tokens from the decoder."""

    def __init__(self, checkpoint: Checkpoint, device: Any, dtype: Any, decoding: Decoding) -> None:
        checkpoint.needs_images()
        checkpoint.needs_texts()
        self.processor = image_processor(checkpoint)
        self.words = tokenizer(checkpoint)
        self.model = stock_model(checkpoint, "VisionEncoderDecoderModel").to(device=device, dtype=dtype).eval()
        self.device, self.dtype = device, dtype
        self.length = _length(self.model)
        self.key = key_of(
            checkpoint.model_type,
            checkpoint.weights,
            checkpoint.config,
            self.processor.to_dict(),
            [decoding.options, self.length],
            writing_settings(self.model, self.words),
            dtype=str(dtype).removeprefix("torch."),
        )

    def write(self, images: Sequence[Any], **options: Any) -> list[str]:
        """One text for each RGB image."""
        import torch

        pixels = processed(self.processor, images)["pixel_values"]
        with torch.inference_mode():
            ids = self.model.generate(pixels.to(self.device, self.dtype), **(self.length | options))
        return [text.strip() for text in self.words.batch_decode(ids, skip_special_tokens=True)]


def _length(model: Any) -> dict[str, int]:
    """How long a caption may become, where the checkpoint does not say so itself."""
    said = model.generation_config
    if said.max_length or said.max_new_tokens:
        return {}
    positions = getattr(model.config.decoder, "max_position_embeddings", None) or _NEW_TOKENS + 1
    return {"max_new_tokens": min(_NEW_TOKENS, positions - 1)}


class ImageTextToText:
    """Any model of ``AutoModelForImageTextToText``: an image, and a prompt where the model is asked in words."""

    def __init__(self, checkpoint: Checkpoint, device: Any, dtype: Any, decoding: Decoding) -> None:
        self.processor = stock_processor(checkpoint)
        words = getattr(self.processor, "tokenizer", None)
        if words is not None:
            words.padding_side = "left"  # a decoder goes on from the right end
        self.model = stock_model(checkpoint, "AutoModelForImageTextToText").to(device=device, dtype=dtype).eval()
        self.device, self.dtype = device, dtype
        self.prompt = _prompt(self.processor, decoding.prompt)
        start = getattr(words, "bos_token", None)
        # a chat's form writes the start token itself; the tokenizer would put a second before it
        self._tells_start = bool(self.prompt and start and self.prompt.startswith(start))
        self.key = key_of(
            checkpoint.model_type,
            checkpoint.weights,
            checkpoint.config,
            self.processor.image_processor.to_dict(),
            [decoding.options, self.prompt, *(["one start"] if self._tells_start else [])],
            writing_settings(self.model, words),
            dtype=str(dtype).removeprefix("torch."),
        )

    def write(self, images: Sequence[Any], **options: Any) -> list[str]:
        """One text for each RGB image."""
        import torch

        asked: dict[str, Any] = {}
        if self.prompt is not None:
            asked = {"text": [self.prompt] * len(images), "padding": True}
        if self._tells_start:
            asked["add_special_tokens"] = False
        try:
            inputs = dict(self.processor(images=list(images), return_tensors="pt", **asked))
        except (TypeError, ValueError, KeyError) as error:
            raise InputError(
                f"{type(self.model).__name__} does not take the prompt {self.prompt!r} "
                f"({' '.join(str(error).split())}); give the one its card shows, as prompt=..."
            ) from error
        given = placed(inputs, self.device, self.dtype)
        with torch.inference_mode():
            ids = self.model.generate(**given, **({"max_new_tokens": _NEW_TOKENS} | options))
        new = _new_tokens(ids, given.get("input_ids"))
        return [text.strip() for text in self.processor.batch_decode(new, skip_special_tokens=True)]


def _new_tokens(ids: Any, asked: Any) -> Any:
    """Without the prompt, which decoders repeat and encoder-decoders do not."""
    if asked is None or ids.shape[1] < asked.shape[1] or not (ids[:, : asked.shape[1]] == asked).all():
        return ids
    return ids[:, asked.shape[1] :]


def stock_processor(checkpoint: Checkpoint) -> Any:
    """The checkpoint's own processor of images and texts, in its Pillow form."""
    auto = from_transformers("AutoProcessor")
    try:
        return auto.from_pretrained(checkpoint.folder, backend="pil", local_files_only=True, trust_remote_code=False)
    except Exception as error:  # processors of many hands fail in many ways; whatever it is, the folder is at fault
        reason = one_line(error, 400)
        raise InputError(f"{checkpoint.folder}: its processor cannot be made: {reason}") from error


def _prompt(processor: Any, wanted: str | None) -> str | None:
    """The text that goes with an image: as a chat where the checkpoint has a form for it, else as it is."""
    if not getattr(processor, "chat_template", None):
        return wanted
    asked = [{"type": "image"}, {"type": "text", "text": wanted or _QUESTION}]
    prompt: str = processor.apply_chat_template([{"role": "user", "content": asked}], add_generation_prompt=True)
    return prompt
