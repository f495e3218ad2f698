"""What a filter looks at: labels, vectors, detections, answers, pictures of the images that are still there.

Whatever a model must say is computed over the table by the engine, in a folder of its own, and found again when the run
is resumed; whatever was computed elsewhere (embeddings tables, detections, a column) is taken as it is.
"""

from __future__ import annotations

import hashlib
import shutil
import tempfile
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, cast

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from equipoise.array_types import Vectors
from equipoise.data import Table
from equipoise.data.labels import set_numbers, with_joined_labels
from equipoise.data.schema import schema_for
from equipoise.data.shard_writer import is_finished
from equipoise.engine import Asking
from equipoise.engine import vectors as vectors_of
from equipoise.engine.ray_engine import needs_of
from equipoise.engine.unreadable import MOST, Unreadable
from equipoise.errors import InputError, UnknownNameError
from equipoise.filters.detecting import (
    PersonVectors,
    check_finds_faces,
    from_annotations,
    from_json,
    looked_at,
    n_crowds,
    person_in,
    sure,
)
from equipoise.filters.stored import StoredVectors
from equipoise.measure.arrays import unit_vectors
from equipoise.models.protocols import Classifier, Detections, Detector, Encoder, Precomputed

CROPS = ("none", "person")
BOXES = ("people", "detections")
"""Columns that say where a person is."""
ANY_SIZE = (2**31, 2**31)
"""Larger than any image: whether there is a box does not depend on the pixels."""
LIGHT = ("image_id", "source_id", "set_id", "subject", "caption")
"""Columns every filter may look at."""


@dataclass(frozen=True)
class Models:
    """What filters see with, unless a step names its own: names of models, or the adapters themselves."""

    encoder: Any = ""
    detector: Any = "annotations"
    """``annotations`` (the columns ``people``, ``objects``), ``detections`` (a column), or a detector."""
    faces: Any = ""
    """A detector of faces; what filters of faces use."""
    classifier: Any = ""
    reference: Any = None
    """A table of real images, where they are not rows of the table itself."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """For :func:`equipoise.models.load`: device, dtype, batch_size."""
    batch_size: int = 32
    progress: bool = False
    engine: str = "local"
    """Where models are asked: ``local``, or ``ray`` with so many ``workers``."""
    workers: int | None = None
    cache: bool = True
    """Whether embeddings are kept, and looked up, beyond this run."""
    max_broken: float = MOST
    """The share of images that may be unreadable, or fail in a model, before the run stops."""

    @property
    def asking(self) -> Asking:
        """How encoders are asked about texts."""
        return Asking(keep=self.cache, progress=False)

    def running(self, model: Any) -> dict[str, Any]:
        """How the engine maps a function that asks ``model``, or none, over a table."""
        return {
            "resources": needs_of(model),
            "batch_size": self.batch_size,
            "progress": self.progress,
            "engine": self.engine,
            "workers": self.workers,
            "max_failures": None,
        }


@dataclass
class RemainingImages:
    """The images of ``table`` that are still there: n rows, those where ``alive`` (all rows) is true."""

    table: Table
    alive: NDArray[np.bool_] | None = None
    models: Models = field(default_factory=Models)
    axes: tuple[str, ...] = ()
    folder: Path | None = None
    seed: int = 0
    only_kept: bool = False
    """Whether the table's layers already say what ``alive`` says, so that the engine may leave the rest out."""
    _loaded: dict[tuple[str, str], Any] = field(default_factory=dict, repr=False)
    seen_by: dict[str, str] = field(default_factory=dict, repr=False)
    """The key of every model that was asked for by name: ``kind name`` to key."""
    unreadable: list[str] = field(default_factory=list, repr=False)
    """Notes on images that could not be read, or failed in a model."""
    _temporary: Any = field(default=None, repr=False)

    def __post_init__(self) -> None:
        self.axes = self.axes or self.table.axes
        for axis in self.axes:
            if axis not in self.table.types:
                raise UnknownNameError(f"axis of {self.table.path}", axis, self.table.axes)

    @cached_property
    def frame(self) -> pd.DataFrame:
        """Ids, subject, caption and axes of the n images."""
        names = [name for name in (*LIGHT, *self.axes) if name in self.table.types]
        frame, notes = with_joined_labels(self.table.to_pandas(list(dict.fromkeys(names))), self.axes)
        frame.attrs["label_notes"] = notes
        return self._alive_rows(frame)

    def __len__(self) -> int:
        return len(self.frame)

    def labelled(self, axis: str) -> pd.DataFrame:
        """``frame`` with the groups of ``axis``, also where the run counts by other axes."""
        if axis in self.frame:
            return self.frame
        return with_joined_labels(self.frame.assign(**{axis: self.column(axis)}), [axis])[0]

    @cached_property
    def sets(self) -> NDArray[np.int64]:
        """(n,) the number of each image's set; an image without a set is one of its own."""
        names = [name for name in ("set_id", "subject") if name in self.table.types]
        numbers = set_numbers(self.table.to_pandas(names))  # of all rows, so that a set stays the same in every step
        numbers = numbers if self.alive is None else numbers[self.alive]
        alone = numbers < 0
        numbers[alone] = len(self.table) + np.arange(int(alone.sum()))
        return np.unique(numbers, return_inverse=True)[1].astype(np.int64)

    def column(self, name: str) -> pd.Series[Any]:
        """One column of the n images; a column the table lacks is an InputError."""
        if name in self.frame:
            return self.frame[name]
        if name not in self.table.types:
            raise UnknownNameError(f"column in {self.table.path}", name, self.table.types)
        return self._alive_rows(self.table.to_pandas([name]))[name]

    def captions(self) -> pd.Series[Any]:
        """The caption of each image; one without is an InputError."""
        captions = self.column("caption")
        if captions.isna().any():
            image = self.frame["image_id"][captions.isna()].iloc[0]
            raise InputError(f"{self.table.path}: image {image!r} has no caption, which this filter compares it with")
        return captions

    def stored_vectors(self, model: Any = "", *, crop: str = "none") -> StoredVectors:
        """Where the vectors of the images lie: in the tables of a precomputed model, or computed now.

        ``crop="person"`` encodes the largest person of each image (a precomputed table holds those already).
        """
        adapter = self.encoder(model)
        tables = getattr(adapter, "tables", None)
        if tables is None and isinstance(adapter, Precomputed):
            raise InputError(f"{adapter.name} gives no table of vectors; use table:<folder>")
        ids = self.frame["image_id"]
        if tables is None:
            return StoredVectors.of([self._encoded(cast(Encoder, adapter), crop)], ids)
        return _all_stored(tables, ids, adapter.name, "images")

    def image_vectors(self, model: Any = "", *, crop: str = "none") -> Vectors:
        """(n, d) unit vectors of the images; NaN rows for images that could not be encoded."""
        return unit_vectors(self.stored_vectors(model, crop=crop).matrix(), "images", unseen=True)

    def text_vectors(self, texts: Sequence[str], model: Any = "") -> Vectors:
        """(m, d) unit vectors of these texts."""
        adapter = self.encoder(model)
        tables = getattr(adapter, "tables", None)
        if tables is not None:
            return unit_vectors(_all_stored(tables, texts, adapter.name, "texts").matrix(), "texts", texts)
        vectors = vectors_of(adapter, list(texts), self.models.asking)
        return unit_vectors(vectors, "texts", texts)

    def encoder(self, model: Any = "") -> Encoder | Precomputed:
        """The encoder of a step, or that of the run."""
        return cast(Encoder, self._adapter(model or self.models.encoder, "encoder"))

    def classifier(self, model: Any = "") -> Classifier:
        """The classifier of a step, or that of the run."""
        return cast(Classifier, self._adapter(model or self.models.classifier, "classifier"))

    def face_detector(self, model: Any = "") -> Detector:
        """The detector of faces of a step, or that of the run; one of other things is an InputError."""
        adapter: Detector = self._adapter(model or self.models.faces, "detector")
        check_finds_faces(adapter)
        return adapter

    def detections(self, detector: Any = "", *, threshold: float = 0.5) -> list[Detections | None]:
        """What is in each image, at least so sure; ``None`` where the image could not be looked at.

        ``annotations`` takes what the table says (``people``, ``objects``), ``detections`` its column of that name.
        """
        chosen = detector or self.models.detector
        if chosen == "annotations":
            return from_annotations(self.table, self.column, len(self))
        if chosen == "detections":
            return [sure(from_json(cell), threshold) for cell in self.column("detections")]
        adapter: Detector = self._adapter(chosen, "detector")
        name = f"detections-{_short(adapter.key, threshold)}"
        looked = looked_at(adapter, threshold, cache=self.models.cache)
        cells = self.measured(name, looked, {"detections": "json"}, model=adapter)
        return [from_json(cell) for cell in cells["detections"]]

    def n_uncropped(self, model: Any = "") -> int:
        """How many images have no box of a person, so that their "crop" is the whole image.

        None of a table of vectors, where whoever computed it has cropped.
        """
        if getattr(self.encoder(model), "tables", None) is not None:
            return 0
        columns = [self.column(name) if name in self.table.types else [None] * len(self) for name in BOXES]
        cells = zip(*columns, strict=True)
        return sum(person_in(people, detections, ANY_SIZE) is None for people, detections in cells)

    def crowds(self, detector: Any = "") -> NDArray[np.int64]:
        """(n,) how many groups of people, each drawn as one, the annotations name; 0 where a detector looks."""
        if (detector or self.models.detector) != "annotations" or "people" not in self.table.types:
            return np.zeros(len(self), dtype=np.int64)
        return np.array([n_crowds(cell) for cell in self.column("people")], dtype=np.int64)

    def measured(
        self,
        name: str,
        fn: Callable[..., Any],
        columns: Mapping[str, str],
        *,
        reads: Iterable[str] = (),
        decode: bool = True,
        model: Any = None,
    ) -> pd.DataFrame:
        """``fn``, which asks ``model`` if any, mapped over the images once, resumably; null where an image failed."""
        from equipoise.engine import map as map_table

        place = self._place(name)
        if is_finished(place):  # an earlier step asked, when more images were there
            layer = Table.open(place)
        else:
            layer = map_table(
                fn,
                self.table,
                place,
                schema=schema_for("layer", columns=columns),
                columns=list(reads),
                decode=decode,
                only_kept=self.only_kept,
                **self.models.running(model),
            )
        frame = self._checked(layer).to_pandas().set_index("image_id")
        return frame.reindex(self.frame["image_id"]).reset_index()

    def reference(self) -> RemainingImages:
        """The table of real images, all of them, looked at by the same models."""
        if self.models.reference is None:
            raise InputError("this filter compares with real images; give their table as reference")
        table = as_table(self.models.reference)
        axes = tuple(axis for axis in self.axes if axis in table.types)
        folder = self._place("reference")
        return RemainingImages(
            table, None, self.models, axes, folder, self.seed, _loaded=self._loaded, seen_by=self.seen_by
        )

    def _alive_rows(self, frame: pd.DataFrame) -> pd.DataFrame:
        return frame if self.alive is None else frame[self.alive].reset_index(drop=True)

    def _encoded(self, encoder: Encoder, crop: str) -> Table:
        from PIL import Image

        from equipoise.engine import embed_images
        from equipoise.engine import map as map_table

        options: dict[str, Any] = {"only_kept": self.only_kept, **self.models.running(encoder)}
        place = self._place(f"vectors-{crop}-{_short(encoder.key)}")
        if is_finished(place):  # an earlier step asked, when more images were there
            return self._checked(Table.open(place))
        if crop not in CROPS:
            raise UnknownNameError("crop", crop, CROPS)
        if crop == "none" and getattr(encoder, "reads_texts", True):
            return self._checked(embed_images(self.table, encoder, place, keep=self.models.cache, **options))
        reads = [name for name in BOXES if crop == "person" and name in self.table.types]
        blank = encoder.encode_images([Image.new("RGB", (32, 32))])
        schema = schema_for("embeddings", dim=int(np.shape(blank)[1]))
        return self._checked(
            map_table(PersonVectors(encoder), self.table, place, columns=reads, schema=schema, decode=True, **options)
        )

    def _checked(self, answers: Table) -> Table:
        """What a model gave, unless too many images failed; the others have no answer and are counted as failed."""
        if answers.n_errors:
            failed = Unreadable(self.table.path, len(answers) + answers.n_errors, self.models.max_broken)
            for where, reason in answers.errors()[["where", "reason"]].itertuples(index=False):
                failed.add(where, reason)
            self.unreadable += [note for note in failed.notes() if note not in self.unreadable]
        return answers

    def _adapter(self, model: Any, kind: str) -> Any:
        from equipoise.models import load

        if not model:
            raise InputError(f"no {kind} is named; give one, such as {_EXAMPLES[kind]}")
        if not isinstance(model, str):
            _refuse_judge(getattr(model, "name", ""))
            return model
        if kind == "classifier":
            _refuse_judge(model)
        if (kind, model) not in self._loaded:
            self._loaded[kind, model] = load(model, kind=kind, **self.models.options)
        adapter = self._loaded[kind, model]
        self.seen_by[f"{kind} {model}"] = str(adapter.key)
        return adapter

    def key_of(self, name: str) -> str:
        """The key that a model of ``seen_by`` has now."""
        kind, _, model = name.partition(" ")
        return str(self._adapter(model, kind).key) if kind in _EXAMPLES else ""

    def _place(self, name: str) -> Path:
        if self.folder is None:
            self.folder = Path(tempfile.mkdtemp(prefix="equipoise-filter-"))
            self._temporary = weakref.finalize(self, shutil.rmtree, self.folder, ignore_errors=True)
        return self.folder / name


_EXAMPLES = {
    "encoder": "hf:openai/clip-vit-base-patch32 or table:<folder of embeddings>",
    "classifier": "hf:Falconsai/nsfw_image_detection",
    "detector": "annotations, or hf:<detector>",
}


def _all_stored(tables: Sequence[Table], ids: Any, model: str, what: str) -> StoredVectors:
    """Where the vectors of these images or texts lie; that one has none is an InputError."""
    stored = StoredVectors.of(tables, ids)
    if stored.missing.any():
        example = list(ids)[int(np.argmax(stored.missing))]
        raise InputError(
            f"{model} lacks {int(stored.missing.sum())} of {len(ids)} {what}, for example {example!r}; compute their "
            "embeddings and add them to the table"
        )
    return stored


def _refuse_judge(name: str) -> None:
    if name in ("mini", "mini:judge"):
        raise InputError(
            f"{name!r} is the judge, which says how good a filter was; a filter that used it would judge itself: "
            "name another classifier"
        )


def as_table(given: Table | str | Path) -> Table:
    """The table itself, or that of a folder."""
    return given if isinstance(given, Table) else Table.open(given)


def _short(*parts: Any) -> str:
    return hashlib.sha256("|".join(map(str, parts)).encode()).hexdigest()[:12]
