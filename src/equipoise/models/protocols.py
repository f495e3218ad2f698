"""What the rest of Equipoise expects of a model: small protocols, not base classes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from PIL import Image

from equipoise.array_types import Vectors

KINDS = ("encoder", "captioner", "classifier", "generator", "detector", "filler", "reviser")
"""What a model can be asked to be; the ``kind`` of :func:`equipoise.models.load`."""


@runtime_checkable
class Encoder(Protocol):
    """Turns images and texts into vectors of one space."""

    name: str
    """What results call it: the spec it was loaded by."""
    key: str
    """Fingerprint of weights and preprocessing: the cache's name for it."""
    logit_scale: float
    """What a cosine is multiplied with before a softmax."""

    def encode_images(self, images: Sequence[Image.Image]) -> Vectors:
        """(n, d) unit vectors of n RGB images."""

    def encode_texts(self, texts: Sequence[str]) -> Vectors:
        """(m, d) unit vectors of m texts."""


@runtime_checkable
class Captioner(Protocol):
    """Says in words what images show."""

    name: str
    key: str

    def caption(self, images: Sequence[Image.Image], *, seed: int) -> list[str]:
        """One caption for each image; the same image and seed give the same caption, in any batch."""


@dataclass(frozen=True)
class Answers:
    """What a classifier says about one attribute of n images."""

    labels: tuple[str, ...]
    """The k values that the attribute can take."""
    probabilities: NDArray[np.float32]
    """(n, k) how likely each is; rows sum to one, unless the values do not exclude each other."""

    @property
    def best(self) -> list[str]:
        """The likeliest value of each image.

        >>> Answers(("indoors", "outdoors"), np.float32([[0.2, 0.8]])).best
        ['outdoors']
        """
        return [self.labels[i] for i in self.probabilities.argmax(axis=1)]


@runtime_checkable
class Classifier(Protocol):
    """Names attributes of images."""

    name: str
    key: str

    def classify(self, images: Sequence[Image.Image]) -> Mapping[str, Answers]:
        """What it says of each attribute it knows, by the attribute's name."""


@runtime_checkable
class Precomputed(Protocol):
    """Vectors or scores that someone computed before: a closed model behind an API, or a machine with a GPU."""

    name: str
    key: str

    def image_vectors(self, ids: Sequence[str]) -> Vectors:
        """(n, d) vectors of the images with these ids, as they were given."""

    def text_vectors(self, texts: Sequence[str]) -> Vectors:
        """(m, d) vectors of these texts, as they were given."""


@runtime_checkable
class Generator(Protocol):
    """Makes images from words: some of ``generate``, ``generate_set``, ``edit`` and ``inpaint``, as ``can`` says.

    The same arguments and seed give the same images on the same machine and versions. ``guidance`` and ``steps`` are
    the model's own where they are ``None``; a generator that knows these says so as ``own``, a mapping, and they are
    recorded with its images. One that is asked over the network has a ``price`` (US dollars per image, or ``None``).
    """

    name: str
    key: str
    can: frozenset[str]
    """Which of the four methods work; the others raise an error that says what can."""
    size: tuple[int, int]
    """Width and height of what it makes unless asked otherwise."""

    def generate(
        self, prompts: Sequence[str], *, seed: int, guidance: float | None = None, steps: int | None = None
    ) -> list[Image.Image]:
        """One image per prompt, each from noise of its own."""

    def generate_set(
        self,
        prompts: Sequence[str],
        *,
        seed: int,
        share: float,
        inject: str = "self",
        guidance: float | None = None,
        steps: int | None = None,
        blend: bool = False,
        sampler: str | None = None,
    ) -> list[Image.Image]:
        """One image per prompt from the same noise; the first prompt's attention is given to the others for a ``share``
        of the steps (``inject``: ``self``, ``cross`` or ``both``; share 0 gives none).

        ``blend`` keeps the first image where other words change little of what attention gives; ``sampler`` is
        ``euler-ancestral`` or ``ddim``, or the model's own.
        """

    def edit(
        self,
        images: Sequence[Image.Image],
        instructions: Sequence[str],
        *,
        seed: int,
        guidance: float | None = None,
        image_guidance: float | None = None,
        steps: int | None = None,
    ) -> list[Image.Image]:
        """Each image changed as its instruction says, at its own size."""

    def inpaint(
        self,
        images: Sequence[Image.Image],
        masks: Sequence[NDArray[np.bool_]],
        prompts: Sequence[str],
        *,
        seed: int,
        guidance: float | None = None,
        steps: int | None = None,
    ) -> list[Image.Image]:
        """Each image drawn anew where its mask is true, at its own size; the caller composites."""


@dataclass(frozen=True)
class Detections:
    """What a detector found in one image."""

    boxes: NDArray[np.float32]
    """(k, 4) left, top, right, bottom in pixels."""
    labels: tuple[str, ...]
    scores: NDArray[np.float32]
    masks: NDArray[np.bool_] | None = None
    """(k, height, width) where the detector gives them."""


@runtime_checkable
class Detector(Protocol):
    """Finds things in images."""

    name: str
    key: str
    labels: tuple[str, ...]
    """Every label that it can give."""

    def detect(self, images: Sequence[Image.Image], *, threshold: float = 0.5) -> list[Detections]:
        """What is in each image, the surest first."""


@runtime_checkable
class Outliner(Protocol):
    """Outlines what is in a box; such a model need not find anything by itself."""

    name: str
    key: str

    def outline(self, image: Image.Image, boxes: Sequence[Sequence[float]]) -> NDArray[np.bool_]:
        """(k, height, width): the pixels of what is in each of k boxes (left, top, right, bottom)."""


@runtime_checkable
class Filler(Protocol):
    """A masked language model."""

    name: str
    key: str
    mask: str
    """What stands for the word that is asked for."""

    def fill(self, texts: Sequence[str], *, top: int = 5) -> list[list[tuple[str, float]]]:
        """For each text, which holds ``mask`` once, the likeliest words with their probabilities."""
        ...

    def sample(
        self, texts: Sequence[str], *, temperature: float = 1.0, top_k: int = 50, seed: int = 0
    ) -> list[list[str]]:
        """For each text, which holds ``mask`` once or more, a word for each, drawn from its ``top_k`` likeliest.

        A draw depends on the text and the seed alone, not on the texts beside it.
        """


@runtime_checkable
class Reviser(Protocol):
    """Rewrites captions after a look at their images."""

    name: str
    key: str

    def revise(self, images: Sequence[Image.Image], captions: Sequence[str], *, seed: int = 0) -> list[str]:
        """One caption for each image and its caption; the same three and seed give the same one, in any batch."""
        ...
