"""Encoders of ``transformers``: images and texts as vectors of one space, or texts alone.

Text encoders are BERT, RoBERTa, MiniLM, MPNet and others. The vector of a text is the mean over its tokens, or the
first token's where the checkpoint's own pooling file says so (``1_Pooling/config.json``, as sentence-transformers
writes it), of unit length. The length of texts, lower case and a default prompt are taken from its files, too; other
poolings and further layers are refused.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from equipoise.array_types import Vectors
from equipoise.errors import InputError
from equipoise.models.folders import Checkpoint
from equipoise.models.hf.checkpoint import (
    image_processor,
    stock_model,
    tokenizer,
    tokenizer_settings,
)
from equipoise.models.hf.classifiers import Backbone, BackboneEncoder, EncoderAdapter
from equipoise.models.hf.families import EncoderFamily, TokenIds, context_length, family_of
from equipoise.models.images import processed
from equipoise.models.runtime import ModelSettings, quiet
from equipoise.models.trust import read_settings


def encoder(
    checkpoint: Checkpoint, *, name: str, **options: Any
) -> HuggingFaceEncoder | BackboneEncoder | SentenceEncoder:
    """The encoder in a checkpoint folder: of images and texts, or of one of them, as its ``model_type`` says."""
    family = family_of(checkpoint)
    if isinstance(family, SentenceFamily):
        return SentenceEncoder.opened(checkpoint, name=name, **options)
    adapter = BackboneEncoder if isinstance(family, Backbone) else HuggingFaceEncoder
    return adapter.opened(checkpoint, name=name, **options)


class HuggingFaceEncoder(EncoderAdapter):
    """A dual encoder of ``transformers``, asked for unit vectors; see :class:`~equipoise.models.protocols.Encoder`.

    Images go through the checkpoint's own processor once, in its Pillow form. Texts longer than ``context`` tokens
    lose their tail and keep their end token; ``tokens.n_cut`` counts them.
    """

    def __init__(
        self, checkpoint: Checkpoint, how: EncoderFamily, *, name: str, settings: ModelSettings | None = None
    ) -> None:
        checkpoint.needs_images()
        checkpoint.needs_texts()
        super().__init__(checkpoint, how, name=name, settings=settings)
        with quiet():
            self.processor = image_processor(checkpoint)
            words = how.tokenizer(tokenizer(checkpoint))
            model = (
                how.build(checkpoint)
                if how.build
                else stock_model(checkpoint, how.model_class, attention=how.attention)
            )
        self.logit_scale = how.scale(model)  # before 16 bits round it
        self.tokens = TokenIds(words, context_length(words, model.config, how.context), how.padding, how.masked)
        reading = [self.tokens.context, how.padding, how.masked]
        self._take(model, self.processor.to_dict(), tokenizer_settings(words), reading)

    @property
    def context(self) -> int:
        """The most tokens of a text, start and end included."""
        return self.tokens.context

    def _image_batch(self, images: Sequence[Any]) -> Any:
        # The processor alone, and with one size: its processor class may carry defaults of other checkpoints.
        inputs = processed(self.processor, images)
        return self._how.images(self.model, self._placed(inputs))

    def _text_batch(self, texts: Sequence[str]) -> Any:
        return self._how.texts(self.model, self._placed(self.tokens(texts)))


_POOLING = "1_Pooling/config.json"
_MODULES = "modules.json"
_KNOWN_MODULES = ("Transformer", "Pooling", "Normalize", "Dropout")
_POOLED = {
    "cls": "pooling_mode_cls_token",
    "mean": "pooling_mode_mean_tokens",
    "max": "pooling_mode_max_tokens",
    "mean_sqrt_len_tokens": "pooling_mode_mean_sqrt_len_tokens",
    "weightedmean": "pooling_mode_weightedmean_tokens",
    "lasttoken": "pooling_mode_lasttoken",
}
"""The ways of pooling, and the flags that say so."""
_OFFSET = ("RobertaModel", "XLMRobertaModel", "MPNetModel")


@dataclass(frozen=True)
class SentenceFamily:
    """How one family of text encoders is loaded."""

    model_class: str
    parts: Mapping[str, Any] = field(default_factory=dict)
    """What to tell the class, such as not to make a pooling layer that most checkpoints have no weights for."""


_PLAIN = {"add_pooling_layer": False}
BERT = SentenceFamily("BertModel", _PLAIN)
ROBERTA = SentenceFamily("RobertaModel", _PLAIN)
XLM_ROBERTA = SentenceFamily("XLMRobertaModel", _PLAIN)
MPNET = SentenceFamily("MPNetModel", _PLAIN)
ALBERT = SentenceFamily("AlbertModel", _PLAIN)
DISTILBERT = SentenceFamily("DistilBertModel")


class SentenceEncoder(EncoderAdapter):
    """A text encoder asked for unit vectors of texts; see :class:`~equipoise.models.protocols.Encoder`."""

    def __init__(
        self, checkpoint: Checkpoint, how: SentenceFamily, *, name: str, settings: ModelSettings | None = None
    ) -> None:
        super().__init__(checkpoint, how, name=name, settings=settings)
        model = self._loaded(how.model_class, texts=True, **how.parts)
        longest = int(getattr(model.config, "max_position_embeddings", 512))
        # these count positions from behind their padding index
        longest -= int(getattr(model.config, "pad_token_id", 0) or 0) + 1 if how.model_class in _OFFSET else 0
        self.reading = reading_of(checkpoint)
        self.context = min(int(self.words.model_max_length), longest, self.reading.longest or longest)
        self._take(model, tokenizer_settings(self.words), self.context, asdict(self.reading))

    def encode_images(self, images: Sequence[Any]) -> Vectors:
        """Refused: the model sees nothing."""
        raise InputError(
            f"{self.name} is a {self.family!r} model, which encodes texts and no images; for images name a dual "
            "encoder, such as hf:openai/clip-vit-base-patch32"
        )

    def _text_batch(self, texts: Sequence[str]) -> Any:
        read = [self.reading.prefix + text for text in texts]
        read = [text.lower() for text in read] if self.reading.lower_case else read
        tokens = self.words(read, padding=True, truncation=True, max_length=self.context, return_tensors="pt")
        outputs = self.model(**self._placed(dict(tokens))).last_hidden_state
        if self.reading.first_token:
            return outputs[:, 0]
        there = tokens["attention_mask"].to(outputs.device).unsqueeze(-1).to(outputs.dtype)
        return (outputs * there).sum(dim=1) / there.sum(dim=1).clamp(min=1)


@dataclass(frozen=True)
class SentenceReading:
    """How a checkpoint's own files say that texts are read, as ``sentence-transformers`` writes them."""

    first_token: bool = False
    """Read the first token instead of the mean over all."""
    longest: int | None = None
    lower_case: bool = False
    prefix: str = ""
    """What is put before every text."""


def reading_of(checkpoint: Checkpoint) -> SentenceReading:
    """What the files of ``sentence-transformers`` beside a checkpoint say; refuses what is not done here.

    Vectors that are pooled otherwise, or that go through a further layer, would be those of no one's model.
    """
    folder = checkpoint.folder
    modules = read_settings(folder / _MODULES) if (folder / _MODULES).is_file() else []
    kinds = [str(m.get("type", "")).rpartition(".")[2] for m in modules if isinstance(m, dict)]
    strange = [kind for kind in kinds if kind not in _KNOWN_MODULES]
    if strange:
        raise InputError(
            f"{folder / _MODULES}: its vectors go through a {strange[0]} layer, which is not read here; take a model "
            "whose modules are Transformer, Pooling and Normalize"
        )
    pooling = _settings_in(folder / _POOLING)
    texts = next((found for path in sorted(folder.glob("sentence_*_config.json")) if (found := _settings_in(path))), {})
    prompts = _settings_in(folder / "config_sentence_transformers.json")
    prefix = (prompts.get("prompts") or {}).get(prompts.get("default_prompt_name") or "", "")
    if prefix and pooling.get("include_prompt") is False:
        raise InputError(f"{folder / _POOLING}: it leaves the tokens of the prompt out (include_prompt), not done here")
    longest = texts.get("max_seq_length")
    return SentenceReading(
        first_token=_pooled_by(folder / _POOLING, pooling) == "cls",
        longest=int(longest) if longest else None,
        lower_case=bool(texts.get("do_lower_case")),
        prefix=str(prefix),
    )


def _pooled_by(path: Path, pooling: Mapping[str, Any]) -> str:
    """``cls`` or ``mean``; the mean over the root of the length has the same direction as the mean."""
    named = pooling.get("pooling_mode")
    modes = {named} if isinstance(named, str) else {mode for mode, flag in _POOLED.items() if pooling.get(flag)}
    modes = {"mean" if mode == "mean_sqrt_len_tokens" else mode for mode in modes} or {"mean"}
    if modes not in ({"cls"}, {"mean"}):
        raise InputError(
            f"{path}: its tokens are pooled by {' and '.join(sorted(modes))}, which is not done here; take a model "
            "that reads the first token or the mean over tokens"
        )
    return modes.pop()


def _settings_in(path: Path) -> dict[str, Any]:
    content = read_settings(path) if path.is_file() else {}
    return content if isinstance(content, dict) else {}
