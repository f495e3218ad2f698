"""A self-test of a model: does its adapter keep the promises that everything else builds on?"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from equipoise.errors import InputError, one_line
from equipoise.models.protocols import (
    KINDS,
    Captioner,
    Classifier,
    Detector,
    Encoder,
    Filler,
    Generator,
    Precomputed,
    Reviser,
)

if TYPE_CHECKING:
    from PIL import Image

_TEXTS = ("a photo of a person", "a doctor at the market", "a", "two people in a park, one with a red hat")
_FULL, _HALF = 1e-4, 2e-2
"""How far a vector may move with its batch: in float32, and in 16 bits."""


@dataclass(frozen=True)
class Check:
    """One promise, and whether it was kept."""

    name: str
    ok: bool
    detail: str


@dataclass(frozen=True)
class CheckReport:
    """All promises of one model."""

    model: str
    checks: tuple[Check, ...]

    @property
    def ok(self) -> bool:
        """Whether every promise was kept."""
        return all(check.ok for check in self.checks)

    def __str__(self) -> str:
        width = max(len(check.name) for check in self.checks)
        lines = [f"{'ok  ' if c.ok else 'FAIL'} {c.name:<{width}}  {c.detail}" for c in self.checks]
        return "\n".join(lines)


def check(model: Any) -> CheckReport:
    """Ask ``model``, of any kind, small questions whose answers are known.

    An encoder must give unit vectors of one length for images and texts, the same ones each time, in any batch and
    order; read greyscale as grey colours; refuse pixels that were scaled already; and cut a text that is too long. One
    of images alone must keep what concerns images, and refuse texts.
    """
    if isinstance(model, Precomputed):
        raise InputError(f"{model.name} holds vectors computed earlier; there is no model to check")
    if isinstance(model, Encoder):
        asked: Sequence[Callable[[Any], Check]] = _ENCODER if _reads_texts(model) else _IMAGE_ENCODER
    elif isinstance(model, Captioner):
        asked = (_captions, _captions_again)
    elif isinstance(model, Classifier):
        asked = (_answers, _answers_apart)
    elif isinstance(model, Generator):
        asked = tuple(_GENERATOR[what] for what in _GENERATOR if what in model.can)
    elif isinstance(model, Detector):
        asked = (_boxes,)
    elif isinstance(model, Filler):
        asked = (_words, _drawn_words)
    elif isinstance(model, Reviser):
        asked = (_revisions, _revisions_again)
    else:
        raise InputError(f"a {type(model).__name__} is no {', '.join(KINDS[:-1])} or {KINDS[-1]}")
    return CheckReport(model.name, tuple(_asked(question, model) for question in asked))


def _asked(question: Callable[[Any], Check], model: Any) -> Check:
    try:
        return question(model)
    except Exception as error:  # the adapter under test may be anybody's
        reason = one_line(error)
        return Check(question.__name__.strip("_").replace("_", " "), False, f"{type(error).__name__}: {reason}")


def pictures() -> list[Image.Image]:
    """Five plain pictures of different sizes and colours, always the same."""
    from PIL import Image

    rng = np.random.default_rng(0)
    sizes = [(64, 64), (80, 60), (48, 90), (200, 120), (33, 33)]
    small = [Image.fromarray(rng.integers(0, 255, (5, 5, 3), dtype=np.uint8)) for _ in sizes]
    return [image.resize(size, Image.Resampling.BICUBIC) for image, size in zip(small, sizes, strict=True)]


def _limit(model: Any) -> float:
    return _HALF if "16" in str(getattr(model, "dtype", "")) else _FULL


def _within(name: str, model: Any, difference: float, what: str) -> Check:
    return Check(name, bool(difference <= _limit(model)), f"{what} {difference:.1e}, limit {_limit(model):.0e}")


def _reads_texts(model: Any) -> bool:
    return bool(getattr(model, "reads_texts", True))


def _encoded(model: Encoder) -> list[Any]:
    """The vectors of the pictures, and those of the texts where it reads any."""
    texts = [model.encode_texts(list(_TEXTS))] if _reads_texts(model) else []
    return [model.encode_images(pictures()), *texts]


def _encoded_apart(model: Encoder) -> list[Any]:
    """The same, asked one at a time."""
    texts = [model.encode_texts([text]) for text in _TEXTS] if _reads_texts(model) else []
    return [*(model.encode_images([image]) for image in pictures()), *texts]


def _image_vectors(model: Encoder) -> Check:
    images = model.encode_images(pictures())
    lengths = np.linalg.norm(images.astype(np.float64), axis=1)
    worst = float(np.abs(lengths - 1).max())
    ok = images.shape[0] == 5 and images.dtype == np.float32 and worst <= 1e-3
    return Check("unit vectors", ok, f"{images.dtype} of {images.shape}; lengths are off by at most {worst:.1e}")


def _texts_refused(model: Encoder) -> Check:
    try:
        model.encode_texts(list(_TEXTS))
    except InputError:
        return Check("texts", True, "refused: it encodes images alone")
    return Check("texts", False, "it says that it reads no texts, and gives vectors of them")


def _unit_vectors(model: Encoder) -> Check:
    images, texts = _encoded(model)
    name = "unit vectors"
    if images.shape != (5, texts.shape[1]) or texts.shape[0] != len(_TEXTS):
        return Check(name, False, f"5 images gave {images.shape}, {len(_TEXTS)} texts gave {texts.shape}")
    if images.dtype != np.float32 or texts.dtype != np.float32:
        return Check(name, False, f"numbers of type {images.dtype} and {texts.dtype}, not float32")
    lengths = np.linalg.norm(np.concatenate([images, texts]).astype(np.float64), axis=1)
    worst = float(np.abs(lengths - 1).max())
    return Check(name, worst <= 1e-3, f"{images.shape[1]} numbers each; lengths are off by at most {worst:.1e}")


def _determinism(model: Encoder) -> Check:
    def once() -> Any:
        return np.concatenate(_encoded(model))

    return _within("determinism", model, float(np.abs(once() - once()).max()), "the second time differs by")


def _batch_independence(model: Encoder) -> Check:
    together, apart = np.concatenate(_encoded(model)), np.concatenate(_encoded_apart(model))
    return _within("batch independence", model, float(np.abs(together - apart).max()), "alone, a vector differs by")


def _order(model: Encoder) -> Check:
    images = pictures()
    turned = model.encode_images(images[::-1])[::-1]
    return _within("image order", model, float(np.abs(model.encode_images(images) - turned).max()), "reversed, by")


def _tells_apart(model: Encoder) -> Check:
    nearest = max(float(np.sort((v @ v.T)[~np.eye(len(v), dtype=bool)])[-1]) for v in _encoded(model))
    apart = 1 - nearest
    return Check("tells apart", apart > 1e-6, f"the two most alike of different inputs differ by {apart:.1e} in cosine")


def _odd_images(model: Encoder) -> Check:
    from PIL import Image

    grey = pictures()[1].convert("L")
    same = model.encode_images([grey, grey.convert("RGB")])
    model.encode_images([Image.new("RGB", (1, 1), "red"), Image.new("L", (3, 40)), Image.new("RGBA", (7, 5))])
    return _within(
        "odd images", model, float(np.abs(same[0] - same[1]).max()), "greyscale differs from grey colours by"
    )


def _scaled_pixels(model: Encoder) -> Check:
    scaled: Any = [np.asarray(pictures()[0], dtype=np.float32) / 255]
    try:
        model.encode_images(scaled)
    except InputError:
        return Check("scaled pixels", True, "refused")
    return Check("scaled pixels", False, "pixels scaled to 0..1 were taken and scaled again")


def _long_texts(model: Encoder) -> Check:
    name = "long texts"
    long = "a photo of a person with a hat " * 200
    first, other = model.encode_texts([long + "in a park", long + "at the market"])
    difference = float(np.abs(first - other).max())
    context = getattr(model, "context", None)
    counted = getattr(getattr(model, "tokens", None), "n_cut", None)
    detail = f"cut to {context} tokens" if context else "taken"
    detail += f", {counted} counted so far" if counted is not None else ""
    if context and difference > _limit(model):
        return Check(name, False, f"vectors of texts alike for 1,600 words differ by {difference:.1e}")
    return Check(name, True, detail)


_BOTH = (_determinism, _batch_independence, _order, _tells_apart, _odd_images, _scaled_pixels)
_ENCODER = (_unit_vectors, *_BOTH, _long_texts)
_IMAGE_ENCODER = (_image_vectors, *_BOTH, _texts_refused)


def _captions(model: Captioner) -> Check:
    said = model.caption(pictures(), seed=0)
    ok = len(said) == 5 and all(isinstance(text, str) for text in said) and any(text.strip() for text in said)
    longest = max(said, key=len, default="")
    return Check("captions", ok, f"{len(said)} for 5 images, such as {longest!r}")


def _captions_again(model: Captioner) -> Check:
    images = pictures()
    together = model.caption(images, seed=3)
    apart = [model.caption([image], seed=3)[0] for image in images]
    same = sum(a == b for a, b in zip(together, apart, strict=True))
    return Check("seed and batch", same == len(images), f"{same} of {len(images)} captions are the same alone")


_SAID = ("a man with a dog", "a woman at work", "a person", "two people in a park", "someone reads a book")


def _revisions(model: Reviser) -> Check:
    revised = model.revise(pictures(), _SAID, seed=0)
    ok = len(revised) == 5 and all(isinstance(text, str) for text in revised)
    return Check("revisions", ok, f"{len(revised)} for 5 captions, such as {max(revised, key=len, default='')!r}")


def _revisions_again(model: Reviser) -> Check:
    images = pictures()
    together = model.revise(images, _SAID, seed=3)
    apart = [model.revise([image], [text], seed=3)[0] for image, text in zip(images, _SAID, strict=True)]
    same = sum(a == b for a, b in zip(together, apart, strict=True))
    return Check("seed and batch", same == len(images), f"{same} of {len(images)} revisions are the same alone")


def _answers(model: Classifier) -> Check:
    heads = model.classify(pictures())
    for head, answers in heads.items():
        values = answers.probabilities
        if values.shape != (5, len(answers.labels)) or not ((values >= 0) & (values <= 1)).all():
            return Check("answers", False, f"{head}: {values.shape} for 5 images and {len(answers.labels)} values")
    return Check("answers", bool(heads), f"{len(heads)} attributes: {', '.join(heads)}")


def _answers_apart(model: Classifier) -> Check:
    images = pictures()
    together = model.classify(images)
    apart = [model.classify([image]) for image in images]
    worst = max(
        float(np.abs(answers.probabilities[i] - apart[i][head].probabilities[0]).max())
        for head, answers in together.items()
        for i in range(len(images))
    )
    return _within("batch independence", model, worst, "alone, a probability differs by")


def _drawn(name: str, once: Callable[[], list[Any]], size: tuple[int, int], n: int) -> Check:
    """``n`` pictures of a size, and the same ones when asked again."""
    first, second = once(), once()
    sizes = [image.size for image in first]
    if sizes != [size] * n:
        return Check(name, False, f"pictures of {sizes} where {n} of {size} were asked for")
    differences = [
        np.abs(np.asarray(a, dtype=int) - np.asarray(b, dtype=int)) for a, b in zip(first, second, strict=True)
    ]
    worst = max(int(d.max()) for d in differences)
    return Check(name, worst <= 1, f"{n} of {size[0]} x {size[1]} pixels; the second time a pixel differs by {worst}")


def _generates(model: Generator) -> Check:
    return _drawn("generate", lambda: model.generate(list(_TEXTS[:2]), seed=1, steps=2), model.size, 2)


def _sets(model: Generator) -> Check:
    texts = [_TEXTS[0], _TEXTS[0], _TEXTS[1]]
    images = _drawn("generate set", lambda: model.generate_set(texts, seed=1, share=0.5, steps=2), model.size, 3)
    first, same, _ = (np.asarray(image) for image in model.generate_set(texts, seed=1, share=0.5, steps=2))
    if not np.array_equal(first, same):
        return Check("generate set", False, "the same words from the same noise gave two pictures")
    return images


def _edits(model: Generator) -> Check:
    image = pictures()[1]
    return _drawn("edit", lambda: model.edit([image], ["make it red"], seed=1, steps=2), image.size, 1)


def _inpaints(model: Generator) -> Check:
    image = pictures()[1]
    mask = np.zeros((image.height, image.width), dtype=bool)
    mask[10:30, 10:30] = True
    return _drawn("inpaint", lambda: model.inpaint([image], [mask], [_TEXTS[0]], seed=1, steps=2), image.size, 1)


_GENERATOR = {"generate": _generates, "generate_set": _sets, "edit": _edits, "inpaint": _inpaints}


def _boxes(model: Detector) -> Check:
    images = pictures()
    for image, detections in zip(images, model.detect(images, threshold=0.0), strict=True):
        edges = [image.width, image.height, image.width, image.height]
        inside = bool((detections.boxes >= 0).all() and (detections.boxes <= edges).all())
        if not inside or not len(detections.boxes) == len(detections.labels) == len(detections.scores):
            return Check(
                "boxes", False, f"{len(detections.labels)} labels for {detections.boxes.tolist()} in {image.size}"
            )
        if (np.diff(detections.scores) > 0).any() or not set(detections.labels) <= set(model.labels):
            return Check("boxes", False, "not the surest first, or labels that it does not list")
    return Check("boxes", True, f"{len(model.labels)} labels; inside the picture, the surest first")


def _words(model: Filler) -> Check:
    rows = model.fill([f"a photo of a {model.mask}", f"{model.mask} is a doctor"], top=3)
    shares = [share for row in rows for _, share in row]
    ok = [len(row) for row in rows] == [3, 3] and all(0 <= share <= 1 for share in shares)
    return Check("words", ok, f"such as {[word for word, _ in rows[0]]}")


def _drawn_words(model: Filler) -> Check:
    texts = [f"a {model.mask} and a {model.mask}", f"{model.mask} is a doctor"]
    rows = model.sample(texts, top_k=5, seed=1)
    alone = model.sample(texts[1:], top_k=5, seed=1)
    ok = [len(row) for row in rows] == [2, 1] and all(word for row in rows for word in row) and alone == rows[1:]
    return Check("drawn words", ok, f"such as {rows[0]}; the same whichever texts are beside")
