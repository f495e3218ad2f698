"""Families that no class of ``transformers`` can read, as :mod:`equipoise.models.convert` writes them.

Their ``config.json`` names a ``model_type`` of its own, so that stock ``transformers`` refuses the folder instead of
loading half of the model.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from equipoise.errors import InputError
from equipoise.models.families import Family
from equipoise.models.folders import Checkpoint
from equipoise.models.runtime import from_transformers
from equipoise.models.sizes import check_built, on_disk

__all__ = ["DEBIAS_CLIP", "LACLIP", "add_head_norms", "add_learned_tokens"]


def add_head_norms(model: Any) -> None:
    """Give each attention of a ViT a layer norm over every head's queries and keys, as LaCLIP has."""
    from torch import nn

    class HeadNorm(nn.LayerNorm):  # type: ignore[misc]
        """A layer norm over each head alone; (n, tokens, heads * width) in and out."""

        def forward(self, input: Any) -> Any:
            parted = input.unflatten(-1, (-1, self.normalized_shape[0]))
            return super().forward(parted).flatten(-2)

    for layer in model.vision_model.layers:
        attention = layer.attention
        for name in ("q_proj", "k_proj"):
            normed = nn.Sequential(getattr(attention, name), HeadNorm(attention.head_dim, eps=1e-6))
            setattr(attention, name, normed)


def add_learned_tokens(model: Any, n: int) -> None:
    """Give a CLIP ``n`` learned tokens, as DebiasCLIP puts before each text."""
    from torch import nn

    model.learned_tokens = nn.Embedding(n, model.config.text_config.hidden_size)


def _laclip(checkpoint: Checkpoint) -> Any:
    config, model = from_transformers("VisionTextDualEncoderConfig", "VisionTextDualEncoderModel")
    made = _bounded(checkpoint, lambda: model(config.from_dict(_base(checkpoint))))
    add_head_norms(made)
    return _filled(made, checkpoint)


def _debias_clip(checkpoint: Checkpoint) -> Any:
    config, model = from_transformers("CLIPConfig", "CLIPModel")
    made = _bounded(checkpoint, lambda: model(config.from_dict(_base(checkpoint))))
    n_tokens = checkpoint.config.get("learned_tokens")
    if not isinstance(n_tokens, int) or not 0 <= n_tokens <= made.config.text_config.max_position_embeddings:
        raise InputError(f"{checkpoint.folder / 'config.json'}: learned_tokens must be a whole number that fits a text")
    add_learned_tokens(made, n_tokens)
    return _filled(made, checkpoint)


def _bounded(checkpoint: Checkpoint, build: Callable[[], Any]) -> Any:
    """What ``build`` makes, once it is known to be no larger than its weights."""
    try:
        check_built(checkpoint.folder, build, on_disk(checkpoint.weights))
        return build()
    except (InputError, MemoryError):
        raise
    except Exception as error:  # settings of the wrong type fail in every way there is
        reason = " ".join(str(error).split())[:300] or type(error).__name__
        raise InputError(f"{checkpoint.folder}: its base cannot be built: {reason}") from error


def _base(checkpoint: Checkpoint) -> dict[str, Any]:
    base = checkpoint.config.get("base")
    if not isinstance(base, dict):
        raise InputError(f"{checkpoint.folder / 'config.json'}: does not say its base; convert the checkpoint again")
    return base


def _filled(model: Any, checkpoint: Checkpoint) -> Any:
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    weights: dict[str, Any] = {}
    try:
        for path in checkpoint.weights:
            weights |= load_file(path)
        model.load_state_dict(weights, strict=True)
    except (SafetensorError, RuntimeError) as error:
        reason = " ".join(str(error).split())[:300]
        raise InputError(f"{checkpoint.folder}: not the weights that config.json promises ({reason})") from error
    return model.float()


def _texts_after_learned_tokens(model: Any, inputs: dict[str, Any]) -> Any:
    """DebiasCLIP's text vectors.

    The learned tokens stand before the start token and have no position; the text keeps its own positions; what does
    not fit any more at the end is cut; the read-out moves along (Berg et al., 2022).
    """
    import torch

    ids, text = inputs["input_ids"], model.text_model
    learned = model.learned_tokens.weight
    most = text.embeddings.position_embedding.num_embeddings
    rows = torch.cat([learned.expand(len(ids), -1, -1), text.embeddings(input_ids=ids)], dim=1)[:, :most]
    length = rows.shape[1]
    later = torch.full((length, length), torch.finfo(rows.dtype).min, device=rows.device, dtype=rows.dtype).triu(1)
    states = text.encoder(inputs_embeds=rows, attention_mask=later[None, None].expand(len(ids), -1, -1, -1))
    end = (ids == model.config.text_config.eos_token_id).int().argmax(dim=1) + len(learned)
    states = text.final_layer_norm(states.last_hidden_state)
    return model.text_projection(states[torch.arange(len(ids), device=ids.device), end.clamp(max=length - 1)])


LACLIP = Family("VisionTextDualEncoderModel", build=_laclip)
DEBIAS_CLIP = Family("CLIPModel", texts=_texts_after_learned_tokens, build=_debias_clip)
