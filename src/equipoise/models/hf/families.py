"""The families of encoders: for each, which class loads it and where its vectors come out.

A family of dual encoders is one :class:`EncoderFamily` here (or in another package) and one line in :data:`FAMILIES`,
under the ``model_type`` that its ``config.json`` says; a backbone that encodes images alone is one
:class:`~equipoise.models.hf.classifiers.Backbone` and such a line.

Texts into tokens: cut to the model's length with the end token kept, padded as the family was trained.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from equipoise.errors import InputError
from equipoise.models.folders import Checkpoint
from equipoise.registry import Registry

_NO_LIMIT = 100_000  # tokenizers without a limit say 1e30
# Position embeddings of these begin after the padding token's number.
_SHIFTED_POSITIONS = {"roberta", "xlm-roberta", "camembert", "altclip_text_model", "xlm-roberta-xl"}

logger = logging.getLogger(__name__)


@dataclass
class TokenIds:
    """Makes the text inputs of a model, and counts the texts that were too long."""

    tokenizer: Any
    context: int
    """The most tokens of a text, start and end included."""
    padding: str = "longest"
    """``"max_length"`` where the family was trained on texts padded to its full length."""
    masked: bool = True
    """Whether the model is told which tokens are padding."""
    n_texts: int = field(default=0, init=False)
    n_cut: int = field(default=0, init=False)

    def __call__(self, texts: Sequence[str]) -> dict[str, Any]:
        """The inputs as torch tensors (n, length)."""
        for i, text in enumerate(texts):
            if not isinstance(text, str):
                raise InputError(f"text {i} is a {type(text).__name__}, not a text: {text!r}")
        rows = dict(self.tokenizer(list(texts), padding=False, truncation=False, verbose=False))
        too_long = [i for i, ids in enumerate(rows["input_ids"]) if len(ids) > self.context]
        for i in too_long:
            self._cut(rows, i)
        self._count(len(texts), too_long, texts)
        padded = self.tokenizer.pad(
            rows, padding=self.padding, max_length=self.context, return_tensors="pt", verbose=False
        )
        inputs = dict(padded)
        if not self.masked:
            inputs.pop("attention_mask", None)
        return inputs

    def _cut(self, rows: dict[str, Any], i: int) -> None:
        """Cut text ``i`` in the middle of nowhere but before its end token, which the read-out needs."""
        ids = rows["input_ids"][i]
        keeps_end = ids[-1] in self.tokenizer.all_special_ids
        for name, values in rows.items():
            if keeps_end:
                values[i] = [*values[i][: self.context - 1], values[i][-1]]
            else:
                rows[name][i] = values[i][: self.context]

    def _count(self, n: int, too_long: list[int], texts: Sequence[str]) -> None:
        if too_long and not self.n_cut:
            logger.warning(
                "texts are cut to the model's %d tokens, such as: %s", self.context, texts[too_long[0]][:80] + "…"
            )
        self.n_texts += n
        self.n_cut += len(too_long)


def context_length(tokenizer: Any, config: Any, most: int | None = None) -> int:
    """How many tokens a text may have: the least of what tokenizer, position embeddings and family allow."""
    text = getattr(config, "text_config", None) or config
    limits = [most, getattr(tokenizer, "model_max_length", None)]
    positions = getattr(text, "max_position_embeddings", None)
    if positions and getattr(text, "model_type", "") in _SHIFTED_POSITIONS:
        positions -= (getattr(text, "pad_token_id", None) or 0) + 1
    limits.append(positions)
    known = [int(limit) for limit in limits if limit and limit < _NO_LIMIT]
    if not known:
        raise InputError("neither the tokenizer nor config.json says how long a text may be (model_max_length)")
    return min(known)


Read = Callable[[Any, dict[str, Any]], Any]
"""From a model and its inputs to (n, d) vectors, not yet of unit length."""


def pooled_images(model: Any, inputs: dict[str, Any]) -> Any:
    """The projected image vectors of most families."""
    return model.get_image_features(**inputs).pooler_output


def pooled_texts(model: Any, inputs: dict[str, Any]) -> Any:
    """The projected text vectors of most families."""
    return model.get_text_features(**inputs).pooler_output


def unchanged(words: Any) -> Any:
    """The tokenizer as the checkpoint has it."""
    return words


def in_lower_case(words: Any) -> Any:
    """A Gemma tokenizer that reads lower case, as SigLIP 2 was trained; any other as it is.

    Checkpoints of a fixed size call themselves ``siglip`` and their tokenizer Gemma's, which keeps capital letters.
    """
    if type(words).__name__.startswith("Gemma"):
        from tokenizers import normalizers

        backend = words.backend_tokenizer
        parts = [normalizers.Lowercase(), *([backend.normalizer] if backend.normalizer is not None else [])]
        backend.normalizer = normalizers.Sequence(parts)
    return words


def exponential_scale(model: Any) -> float:
    """What most families learn: the logarithm of the scale."""
    return math.exp(model.logit_scale.item())


@dataclass(frozen=True)
class EncoderFamily:
    """How one family of checkpoints is loaded and read."""

    model_class: str
    """The class of ``transformers``."""
    images: Read = pooled_images
    texts: Read = pooled_texts
    scale: Callable[[Any], float] = exponential_scale
    padding: str = "longest"
    """``"max_length"``: trained on texts padded to the full length, and only right with them."""
    masked: bool = True
    """Whether the text encoder is told which tokens are padding; some were trained without."""
    context: int | None = None
    """A length of texts that neither tokenizer nor configuration says."""
    attention: str | None = None
    """The implementation of attention, where the default one is wrong."""
    tokenizer: Callable[[Any], Any] = unchanged
    """What is done to the checkpoint's tokenizer, where it reads otherwise than the family was trained."""
    build: Callable[[Any], Any] | None = None
    """From a checkpoint to the model, where no class of ``transformers`` can load it."""


def _flava_images(model: Any, inputs: dict[str, Any]) -> Any:
    # FLAVA projects every patch and token; the contrastive loss uses the first, the class token.
    return model.get_image_features(**inputs).pooler_output[:, 0]


def _flava_texts(model: Any, inputs: dict[str, Any]) -> Any:
    return model.get_text_features(**inputs).pooler_output[:, 0]


def _blip_images(model: Any, inputs: dict[str, Any]) -> Any:
    return model.vision_proj(model.vision_model(**inputs).last_hidden_state[:, 0])


def _blip_texts(model: Any, inputs: dict[str, Any]) -> Any:
    inputs = {name: inputs[name] for name in ("input_ids", "attention_mask")}
    return model.text_proj(model.text_encoder(**inputs).last_hidden_state[:, 0])


def _still_video(model: Any, inputs: dict[str, Any]) -> Any:
    """An image as a video that does not move."""
    frames = model.config.vision_config.num_frames
    pixels = inputs["pixel_values"][:, None]
    return model.get_video_features(pixel_values=pixels.expand(-1, frames, -1, -1, -1)).pooler_output


CLIP = EncoderFamily("CLIPModel")
SIGLIP = EncoderFamily("SiglipModel", padding="max_length", masked=False, tokenizer=in_lower_case)
SIGLIP2 = EncoderFamily("Siglip2Model", padding="max_length", masked=False, tokenizer=in_lower_case)
ALIGN = EncoderFamily("AlignModel", scale=lambda model: 1 / model.temperature.item(), padding="max_length", context=64)
ALTCLIP = EncoderFamily("AltCLIPModel")
FLAVA = EncoderFamily("FlavaModel", images=_flava_images, texts=_flava_texts)
BLIP = EncoderFamily(
    "BlipForImageTextRetrieval",
    images=_blip_images,
    texts=_blip_texts,
    scale=lambda model: 1 / 0.07,  # where its training starts; the trained temperature is not in the checkpoints
)
CHINESE_CLIP = EncoderFamily("ChineseCLIPModel")
GROUPVIT = EncoderFamily("GroupViTModel")
X_CLIP = EncoderFamily("XCLIPModel", images=_still_video)
METACLIP_2 = EncoderFamily("MetaClip2Model")
CLIPSEG = EncoderFamily("CLIPSegModel")
AIMV2 = EncoderFamily(
    "Aimv2Model",
    # With the default attention a batch without padding loses its causal mask, and a text its answer.
    attention="eager",
    scale=lambda model: math.exp(min(max(model.logit_scale.item(), 0.0), model.max_log_logit_scale)),
)
DUAL = EncoderFamily("VisionTextDualEncoderModel")

FAMILIES = Registry("encoder")
_Row = tuple[str, str, str, str, str]
"""``model_type``, the name of the family in its module, summary, citation, and an example where there is one."""

_DUAL: tuple[_Row, ...] = (
    (
        "clip",
        "CLIP",
        "CLIP, and everything trained in its form.",
        "Radford et al., Learning Transferable Visual Models From Natural Language Supervision, ICML 2021",
        "openai/clip-vit-base-patch32",
    ),
    (
        "siglip",
        "SIGLIP",
        "SigLIP, and SigLIP 2 at a fixed size.",
        "Zhai et al., Sigmoid Loss for Language Image Pre-Training, ICCV 2023",
        "google/siglip-base-patch16-224",
    ),
    (
        "siglip2",
        "SIGLIP2",
        "SigLIP 2 at any size and aspect (NaFlex).",
        "Tschannen et al., SigLIP 2, 2025, arXiv 2502.14786",
        "google/siglip2-base-patch16-naflex",
    ),
    (
        "align",
        "ALIGN",
        "ALIGN: EfficientNet and BERT.",
        "Jia et al., Scaling Up Visual and Vision-Language Representation Learning, ICML 2021",
        "kakaobrain/align-base",
    ),
    (
        "altclip",
        "ALTCLIP",
        "AltCLIP: CLIP with a multilingual text encoder.",
        "Chen et al., AltCLIP, 2022, arXiv 2211.06679",
        "BAAI/AltCLIP",
    ),
    (
        "flava",
        "FLAVA",
        "FLAVA, read at its contrastive projections.",
        "Singh et al., FLAVA, CVPR 2022",
        "facebook/flava-full",
    ),
    (
        "blip",
        "BLIP",
        "BLIP for retrieval, read at its contrastive projections, not its matching head.",
        "Li et al., BLIP, ICML 2022",
        "Salesforce/blip-itm-base-coco",
    ),
    (
        "chinese_clip",
        "CHINESE_CLIP",
        "Chinese-CLIP.",
        "Yang et al., Chinese CLIP, 2022, arXiv 2211.01335",
        "OFA-Sys/chinese-clip-vit-base-patch16",
    ),
    ("groupvit", "GROUPVIT", "GroupViT.", "Xu et al., GroupViT, CVPR 2022", "nvidia/groupvit-gcc-yfcc"),
    (
        "xclip",
        "X_CLIP",
        "X-CLIP, shown an image as a still video; texts without its video-specific prompts.",
        "Ni et al., Expanding Language-Image Pretrained Models for General Video Recognition, ECCV 2022",
        "microsoft/xclip-base-patch32",
    ),
    (
        "metaclip_2",
        "METACLIP_2",
        "MetaCLIP 2.",
        "Chuang et al., MetaCLIP 2, 2025, arXiv 2507.22062",
        "facebook/metaclip-2-worldwide-huge-quickgelu",
    ),
    (
        "clipseg",
        "CLIPSEG",
        "The CLIP inside CLIPSeg.",
        "Lüddecke and Ecker, Image Segmentation Using Text and Image Prompts, CVPR 2022",
        "CIDAS/clipseg-rd64-refined",
    ),
    (
        "aimv2",
        "AIMV2",
        "AIMv2 tuned with a text encoder (LiT).",
        "Fini et al., Multimodal Autoregressive Pre-training of Large Vision Encoders, CVPR 2025",
        "apple/aimv2-large-patch14-224-lit",
    ),
    (
        "vision-text-dual-encoder",
        "DUAL",
        "Any vision and any text encoder joined by projections; converted SLIP models are of this form.",
        "Zhai et al., LiT, CVPR 2022; Mu et al., SLIP, ECCV 2022",
        "",
    ),
)
_CONVERTED: tuple[_Row, ...] = (
    (
        "laclip",
        "LACLIP",
        "LaCLIP as equipoise.models.convert writes it.",
        "Fan et al., Improving CLIP Training with Language Rewrites, NeurIPS 2023",
        "",
    ),
    (
        "debias-clip",
        "DEBIAS_CLIP",
        "DebiasCLIP (learned tokens before the text) as equipoise.models.convert writes it.",
        "Berg et al., A Prompt Array Keeps the Bias Away, AACL 2022",
        "",
    ),
)
_BACKBONES: tuple[_Row, ...] = (
    (
        "vit",
        "VIT",
        "Vision transformers, DINO's among them",
        "Caron et al., Emerging Properties in Self-Supervised Vision Transformers, ICCV 2021",
        "facebook/dino-vitb16",
    ),
    ("dinov2", "DINOV2", "DINOv2", "Oquab et al., DINOv2, TMLR 2024", "facebook/dinov2-base"),
    (
        "dinov2_with_registers",
        "DINOV2_REGISTERS",
        "DINOv2 with registers",
        "Darcet et al., Vision Transformers Need Registers, ICLR 2024",
        "facebook/dinov2-with-registers-base",
    ),
    (
        "dinov3_vit",
        "DINOV3",
        "DINOv3",
        "Siméoni et al., DINOv3, 2025, arXiv 2508.10104",
        "facebook/dinov3-vitb16-pretrain-lvd1689m",
    ),
    (
        "deit",
        "DEIT",
        "DeiT",
        "Touvron et al., Training Data-Efficient Image Transformers, ICML 2021",
        "facebook/deit-base-distilled-patch16-224",
    ),
    (
        "vit_msn",
        "VIT_MSN",
        "Masked siamese networks",
        "Assran et al., Masked Siamese Networks, ECCV 2022",
        "facebook/vit-msn-base",
    ),
    (
        "swin",
        "SWIN",
        "Swin transformers",
        "Liu et al., Swin Transformer, ICCV 2021",
        "microsoft/swin-tiny-patch4-window7-224",
    ),
    (
        "convnext",
        "CONVNEXT",
        "ConvNeXt",
        "Liu et al., A ConvNet for the 2020s, CVPR 2022",
        "facebook/convnext-base-224",
    ),
    (
        "resnet",
        "RESNET",
        "ResNet",
        "He et al., Deep Residual Learning for Image Recognition, CVPR 2016",
        "microsoft/resnet-50",
    ),
)
_TEXTS: tuple[_Row, ...] = (
    ("bert", "BERT", "BERT and MiniLM", "Devlin et al., BERT, NAACL 2019", "bert-base-uncased"),
    ("roberta", "ROBERTA", "RoBERTa", "Liu et al., RoBERTa, arXiv 1907.11692", "roberta-base"),
    (
        "xlm-roberta",
        "XLM_ROBERTA",
        "XLM-RoBERTa",
        "Conneau et al., Unsupervised Cross-lingual Representation Learning, ACL 2020",
        "xlm-roberta-base",
    ),
    ("mpnet", "MPNET", "MPNet", "Song et al., MPNet, NeurIPS 2020", "sentence-transformers/all-mpnet-base-v2"),
    ("albert", "ALBERT", "ALBERT", "Lan et al., ALBERT, ICLR 2020", "albert/albert-base-v2"),
    ("distilbert", "DISTILBERT", "DistilBERT", "Sanh et al., DistilBERT, arXiv 1910.01108", "distilbert-base-uncased"),
)
for _home, _rows, _ending in (
    ("hf.families", _DUAL, ""),
    ("convert.encoders", _CONVERTED, ""),
    ("hf.classifiers", _BACKBONES, "; images alone."),
    ("hf.encoder", _TEXTS, "; texts alone."),
):
    for _kind, _name, _title, _citation, _example in _rows:
        FAMILIES.add(
            _kind,
            f"equipoise.models.{_home}:{_name}",
            summary=f"{_title}{_ending}",
            citation=_citation,
            licence="each checkpoint has its own",
            needs="models",
            example=_example,
        )


def family_of(checkpoint: Checkpoint) -> Any:
    """How checkpoints of this ``model_type`` are loaded and read; one that is no encoder is an InputError."""
    kind = checkpoint.model_type
    if kind not in FAMILIES:
        known = ", ".join(FAMILIES.names())
        raise InputError(
            f"{checkpoint.folder}: a {kind!r} model, which is not an encoder that is known here ({known}); a "
            "captioner is loaded with kind='captioner', a classifier with kind='classifier'"
        )
    return FAMILIES.load(kind)
