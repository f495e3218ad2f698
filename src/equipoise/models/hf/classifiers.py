"""Classifiers: attributes of images from an image-classification checkpoint.

Labels that carry their attribute in front (``gender:female``) are heads of their own, as in the mini judge: each head
is a softmax, and ``object:<name>`` labels are yes or no each. Labels without are one head, ``label``. A checkpoint
whose settings name ``joint_groups`` guesses values and groups together (``gender:female|light``), and what it says of a
value is added up over the groups (Wang et al., Towards Fairness in Visual Recognition, CVPR 2020).

Encoders of images alone: DINO and other backbones of ``transformers``, for neighbours and distances of pictures.

A backbone is one :class:`Backbone` here (or in another package) and one line in
:data:`equipoise.models.hf.families.FAMILIES`; ``hf:<repo or folder>`` loads it. Texts are refused: it knows no words.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from equipoise.array_types import Vectors
from equipoise.errors import InputError
from equipoise.models.folders import Checkpoint
from equipoise.models.hf.checkpoint import CheckpointAdapter, refuse_others
from equipoise.models.hf.families import family_of
from equipoise.models.images import processed, rgb_images
from equipoise.models.protocols import Answers
from equipoise.models.runtime import ModelSettings, in_batches, refuse_not_finite


@dataclass(frozen=True)
class Backbone:
    """How one family of backbones is loaded and read."""

    model_class: str
    """The class of ``transformers``."""
    pooled: bool = False
    """Read the pooled output; otherwise the first token after the last norm, as DINO's authors do."""
    parts: Mapping[str, Any] = field(default_factory=dict)
    """What to tell the class, such as not to make a pooling layer that most checkpoints have no weights for."""


_PLAIN = {"add_pooling_layer": False}
VIT = Backbone("ViTModel", parts=_PLAIN)
DEIT = Backbone("DeiTModel", parts=_PLAIN)
VIT_MSN = Backbone("ViTMSNModel")
DINOV2 = Backbone("Dinov2Model")
DINOV2_REGISTERS = Backbone("Dinov2WithRegistersModel")
DINOV3 = Backbone("DINOv3ViTModel")
SWIN = Backbone("SwinModel", pooled=True)
CONVNEXT = Backbone("ConvNextModel", pooled=True)
RESNET = Backbone("ResNetModel", pooled=True)


class EncoderAdapter(CheckpointAdapter):
    """What encoders have in common: unit vectors of what ``_image_batch`` and ``_text_batch`` make of a batch."""

    logit_scale = 1.0

    def __init__(self, checkpoint: Checkpoint, how: Any, *, name: str, settings: ModelSettings | None = None) -> None:
        super().__init__(checkpoint, name=name, settings=settings)
        self._how = how

    @classmethod
    def opened(cls, checkpoint: Checkpoint, *, name: str, **options: Any) -> Self:
        """The encoder of a checkpoint of a known family."""
        return cls(checkpoint, family_of(checkpoint), name=name, settings=ModelSettings(**options))

    def encode_images(self, images: Sequence[Any]) -> Vectors:
        """(n, d) unit vectors of n images: Pillow images, or 8-bit arrays (height, width, 3)."""
        return self._vectors(self._image_batch, rgb_images(images))

    def encode_texts(self, texts: Sequence[str]) -> Vectors:
        """(m, d) unit vectors of m texts."""
        if isinstance(texts, str):
            raise InputError(f"texts must be a list of texts, not the one text {texts!r}")
        return self._vectors(self._text_batch, list(texts))

    @property
    def dim(self) -> int:
        """The length of a vector."""
        return int(self.encode_texts(["a"]).shape[1])

    def _vectors(self, run: Callable[[Sequence[Any]], Any], items: Sequence[Any]) -> Vectors:
        batches = self._unit_vectors(run, items)
        return np.concatenate(batches) if batches else np.zeros((0, self.dim), np.float32)

    def _image_batch(self, images: Sequence[Any]) -> Any:
        raise NotImplementedError

    def _text_batch(self, texts: Sequence[str]) -> Any:
        raise NotImplementedError


class BackboneEncoder(EncoderAdapter):
    """A backbone asked for unit vectors of images; see :class:`~equipoise.models.protocols.Encoder`."""

    reads_texts = False

    def __init__(
        self, checkpoint: Checkpoint, how: Backbone, *, name: str, settings: ModelSettings | None = None
    ) -> None:
        super().__init__(checkpoint, how, name=name, settings=settings)
        model = self._loaded(how.model_class, images=True, **how.parts)
        self._take(model, self.processor.to_dict(), how.pooled)

    def encode_texts(self, texts: Sequence[str]) -> Vectors:
        """Refused: the model knows no words."""
        raise InputError(
            f"{self.name} is a {self.family!r} model, which encodes images and no texts; for captions or prompts name "
            "a dual encoder, such as hf:openai/clip-vit-base-patch32"
        )

    @property
    def dim(self) -> int:
        """The length of a vector."""
        return int(self.encode_images([np.zeros((8, 8, 3), np.uint8)]).shape[1])

    def _image_batch(self, images: Sequence[Any]) -> Any:
        pixels = processed(self.processor, images)["pixel_values"]
        outputs = self.model(**self._placed({"pixel_values": pixels}))
        return outputs.pooler_output.flatten(1) if self._how.pooled else outputs.last_hidden_state[:, 0]


INDEPENDENT = ("object",)
"""Heads whose values do not exclude each other; a checkpoint names others as ``independent_heads``."""


class ImageClassifier(CheckpointAdapter):
    """An image classifier of ``transformers``; see :class:`~equipoise.models.protocols.Classifier`."""

    def __init__(self, checkpoint: Checkpoint, *, name: str, settings: ModelSettings | None = None) -> None:
        refuse_others(checkpoint, "MODEL_FOR_IMAGE_CLASSIFICATION_MAPPING_NAMES", "an image classifier")
        super().__init__(checkpoint, name=name, settings=settings)
        model = self._loaded("AutoModelForImageClassification", images=True)
        self.heads = heads_of({int(i): str(label) for i, label in model.config.id2label.items()})
        n_outputs = sum(len(places) for _, places in self.heads.values())
        # one output says how sure it is of its label; a softmax over it alone would always be 1
        self._independent = model.config.problem_type == "multi_label_classification" or n_outputs == 1
        self._apart = {*INDEPENDENT, *(getattr(model.config, "independent_heads", None) or ())}
        self._joint = _joint_of(model.config, self.heads, self._apart, checkpoint)
        self._take(model, self.processor.to_dict(), *(["logistic"] if n_outputs == 1 else []))

    def classify(self, images: Sequence[Any]) -> dict[str, Answers]:
        """What it says of each head: labels (k) and probabilities (n, k)."""
        rows = in_batches(self._logits, rgb_images(images), self.settings.batch_size)
        refuse_not_finite(rows, self, "an answer that is not finite")
        n_labels = sum(len(places) for _, places in self.heads.values())
        logits = np.concatenate(rows) if rows else np.zeros((0, n_labels), np.float32)
        if self._joint is not None:
            return {head: self._joint.answers(head, logits) for head in self.heads}
        return {
            head: Answers(labels, self._probabilities(head, logits[:, places]))
            for head, (labels, places) in self.heads.items()
        }

    def _logits(self, images: Sequence[Any]) -> NDArray[np.float32]:
        import torch

        inputs = self._placed(processed(self.processor, images))
        with self._fitting(), torch.inference_mode():
            logits = self.model(**inputs).logits
        return np.asarray(logits.float().cpu().numpy(), dtype=np.float32)

    def _probabilities(self, head: str, logits: NDArray[np.float32]) -> NDArray[np.float32]:
        if head in self._apart or (self._independent and len(self.heads) == 1):
            return np.asarray((1 + np.tanh(logits / 2)) / 2, dtype=np.float32)  # the logistic, without overflow
        raised = np.exp(logits - logits.max(axis=1, keepdims=True))
        return np.asarray(raised / raised.sum(axis=1, keepdims=True), dtype=np.float32)


@dataclass(frozen=True)
class JointOutputs:
    """Outputs that guess values and groups together: for each head, those of each group one after the other."""

    heads: Mapping[str, tuple[tuple[str, ...], list[int]]]
    independent: frozenset[str]
    """Heads whose outputs in each group are those for yes, then those for no."""
    n_groups: int
    counts: NDArray[np.float64]
    """How often each output was the right one in training; ones where that does not count."""

    def answers(self, head: str, logits: NDArray[np.float32]) -> Answers:
        """What is said of a head: probabilities added up over the groups."""
        labels, places = self.heads[head]
        n_answers = 2 if head in self.independent else 1
        n_values = len(labels) // (self.n_groups * n_answers)
        shifted = logits[:, places].astype(np.float64) - np.log(self.counts[places])
        cells = shifted.reshape(len(logits), self.n_groups, n_answers, n_values)
        together = (1, 2) if head in self.independent else (1, 2, 3)
        raised = np.exp(cells - cells.max(axis=together, keepdims=True))
        shares = (raised / raised.sum(axis=together, keepdims=True)).sum(axis=1)[:, 0]
        return Answers(tuple(label.rpartition("|")[0] for label in labels[:n_values]), shares.astype(np.float32))


def _joint_of(
    config: Any, heads: Mapping[str, tuple[tuple[str, ...], list[int]]], apart: set[str], checkpoint: Checkpoint
) -> JointOutputs | None:
    groups = getattr(config, "joint_groups", None)
    if not groups:
        return None
    n_outputs = sum(len(places) for _, places in heads.values())
    try:
        counts = np.asarray(getattr(config, "joint_counts", None) or [1.0] * n_outputs, dtype=np.float64)
        odd = [len(places) % (len(groups) * (2 if head in apart else 1)) for head, (_, places) in heads.items()]
    except (TypeError, ValueError):
        counts, odd = np.zeros(0), []
    if counts.shape != (n_outputs,) or any(odd) or not (np.isfinite(counts) & (counts > 0)).all():
        raise InputError(f"{checkpoint.folder}: joint_groups and joint_counts do not fit its labels; train it again")
    return JointOutputs(heads, frozenset(apart), len(groups), counts)


def heads_of(labels: dict[int, str]) -> dict[str, tuple[tuple[str, ...], list[int]]]:
    """For each head, its values and their places among the logits.

    >>> heads_of({0: "age:young", 1: "age:old", 2: "people:one"})
    {'age': (('young', 'old'), [0, 1]), 'people': (('one',), [2])}
    >>> heads_of({0: "cat", 1: "dog"})
    {'label': (('cat', 'dog'), [0, 1])}
    """
    parted = all(":" in label for label in labels.values())
    heads: dict[str, tuple[list[str], list[int]]] = {}
    for place, label in sorted(labels.items()):
        head, _, value = label.partition(":") if parted else ("label", "", label)
        values, places = heads.setdefault(head, ([], []))
        values.append(value)
        places.append(place)
    return {head: (tuple(values), places) for head, (values, places) in heads.items()}
