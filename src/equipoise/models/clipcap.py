"""ClipCap: CLIP's image vector, mapped to a prefix that GPT-2 goes on from (Mokady et al., 2021).

The folder that :func:`equipoise.models.convert.clipcap` writes: ``config.json`` (model_type clipcap), the mapper's
``model.safetensors``, and two stock folders, ``clip`` (a CLIP image encoder) and ``gpt2``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from equipoise.errors import InputError
from equipoise.models.captioners import Decoding
from equipoise.models.fingerprints import key_of
from equipoise.models.folders import Checkpoint, open_checkpoint
from equipoise.models.hugging_face import image_processor, stock_model, tokenizer
from equipoise.models.images import processed

__all__ = ["ClipCap", "mapper"]

_MAPPER_HEADS = 8
_NEW_TOKENS = 67


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
                **({"max_new_tokens": _NEW_TOKENS} | options),
            )
        return [text.strip() for text in self.words.batch_decode(ids, skip_special_tokens=True)]


def mapper(weights: dict[str, Any], width: int) -> Any:
    """The network from CLIP's vector (n, d) to a prefix (n, length, width), whose form the weights' names show."""
    import torch
    from torch import nn

    if "prefix_const" in weights:
        made: Any = _transformer_mapper(weights, width)
    elif "model.0.weight" in weights:
        hidden, size = weights["model.0.weight"].shape
        layers = nn.Sequential(nn.Linear(size, hidden), nn.Tanh(), nn.Linear(hidden, len(weights["model.2.weight"])))
        made = nn.Sequential()
        made.add_module("model", layers)
        made.add_module("parted", nn.Unflatten(1, (-1, width)))
    elif set(weights) == {"weight", "bias"}:
        linear = nn.Linear(weights["weight"].shape[1], len(weights["weight"]))
        linear.load_state_dict(weights)
        return nn.Sequential(linear, nn.Unflatten(1, (-1, width)))
    else:
        raise InputError(f"a mapper of another form than ClipCap's: {', '.join(sorted(weights)[:4])}")
    try:
        with torch.no_grad():
            made.load_state_dict(weights, strict=True)
    except RuntimeError as error:
        raise InputError(f"the mapper's weights do not fit: {' '.join(str(error).split())[:300]}") from error
    return made


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
