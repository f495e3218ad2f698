"""Readers of public datasets: one file each, one line each here; a row for each image, a reason for each bad one.

``READERS`` says of each: what it reads, licence, citation, known harms, the revision it was written against, and the
axes and columns that its rows add to a table. :func:`read` gives the rows, :func:`shape_of` the columns.
Nothing is downloaded, and no image is opened to list it.

>>> READERS.get("fairface").info["axes"]
('gender', 'race', 'age')

What a user must know of a reader before using it: its options, its columns, its licence and its harms.
"""

from __future__ import annotations

import inspect
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from equipoise.data.readers.files.records import ReaderShape
from equipoise.data.schema import Rejected, Row
from equipoise.errors import InputError, closest
from equipoise.registry import Registry

__all__ = ["READERS", "About", "Option", "ReaderShape", "about", "read", "shape_of"]


@dataclass(frozen=True)
class Option:
    """One option of a reader, as its signature and its docstring tell it."""

    name: str
    kind: str
    default: str
    text: str


@dataclass(frozen=True)
class About:
    """Facts by name, and the options."""

    facts: dict[str, str]
    options: tuple[Option, ...]

    @property
    def example(self) -> str:
        """The first option as the command line takes it, with a space before it; empty if there is none."""
        return f" --option {self.options[0].name}=..." if self.options else ""


def about(name: str) -> About:
    """What the registry, the signature and the docstring say of the reader ``name``.

    >>> about("coco").options[0]
    Option(name='split', kind='text', default='', text='for example "val2017"; needed when the folder has several.')
    >>> about("fairface").facts["axes"]
    'gender, race, age'
    """
    entry = READERS.get(name)
    by_data = "by the data" if "shape" in entry.info else "none"
    facts = {
        "reader": entry.name,
        "reads": entry.summary,
        "axes": ", ".join(entry.info.get("axes", ())) or by_data,
        "columns": ", ".join(f"{c} ({kind})" for c, kind in entry.info.get("columns", {}).items()) or by_data,
        "licence": entry.licence,
        "harms": str(entry.info.get("harms", "")),
        "citation": entry.citation,
        "written for": str(entry.info.get("revision", "")),
    }
    reader = entry.load()
    texts = _documented(inspect.getdoc(reader) or "")
    options = tuple(
        Option(p.name, _kind(str(p.annotation)), _default(p.default), texts.get(p.name, ""))
        for p in inspect.signature(reader).parameters.values()
        if p.kind is p.KEYWORD_ONLY
    )
    return About({key: value for key, value in facts.items() if value}, options)


def _documented(doc: str) -> dict[str, str]:
    """What follows ````name``:`` in a docstring, up to the next name or the end of the paragraph.

    >>> _documented("Rows.\\n\\n``split``: which part. ``images``: their\\nfolder.")
    {'split': 'which part.', 'images': 'their folder.'}
    """
    documented: dict[str, str] = {}
    for paragraph in doc.split("\n\n"):
        pieces = re.split(r"``(\w+)``: ", " ".join(paragraph.split()))
        documented |= {
            name: text.strip().replace("``", "") for name, text in zip(pieces[1::2], pieces[2::2], strict=True)
        }
    return documented


def _kind(annotation: str) -> str:
    if "Sequence[str]" in annotation or "Iterable[str]" in annotation:
        return "names with commas"
    if "PathLike" in annotation:
        return "path"
    kinds = {"str": "text", "bool": "true or false", "int": "number", "float": "number"}
    return next((kinds[part] for part in annotation.split(" | ") if part in kinds), "JSON")


def _default(value: Any) -> str:
    if value is None or value is inspect.Parameter.empty:
        return ""
    if isinstance(value, (list, tuple)):
        return ",".join(map(str, value))
    return str(value).lower() if isinstance(value, bool) else str(value)


READERS = Registry("reader")

_PERCEIVED = "Attributes are what annotators perceived, not what people say of themselves; "
_PEOPLE = {"people": "json", "objects": "list<string>"}
_SIZE = {"height": "int64", "width": "int64"}
_NONE = "None of its own."


def _add(
    name: str,
    summary: str,
    *,
    licence: str = "that of the data",
    citation: str = "this project",
    harms: str = "Those of the data.",
    revision: str = "1",
    module: str = "",
    shape: bool = False,
    **info: Any,
) -> None:
    """Register ``read`` of a module here, by default that of the reader's name; ``shape``: only the data tells it."""
    home = f"{__name__}.{module or name.replace('-', '_')}"
    told = {"shape": f"{home}:shape"} if shape else {}
    about = {"licence": licence, "citation": citation, "harms": harms, "revision": revision}
    READERS.add(name, f"{home}:read", summary=summary, **about, **told, **info)


_add(
    "coco",
    "COCO 2014 and 2017: captions, people (boxes, masks, keypoints) and objects (names, boxes, masks).",
    licence="annotations CC BY 4.0; images under the Flickr terms of use",
    citation="Lin et al., Microsoft COCO, ECCV 2014; Chen et al., arXiv 1504.00325",
    harms="Captions guess gender from looks and name far more men than women; the people shown were not asked.",
    revision="annotations 2014 and 2017 (version 1.0 of 2017-09-01)",
    names_every_image=True,
    columns={**_PEOPLE, "object_boxes": "json", "release": "string", **_SIZE},
)
_add(
    "coco-gender-skin",
    "Perceived gender and skin tone of people in COCO val2014, as CSV.",
    licence="on request from the authors, for research",
    citation="Zhao, Wang and Russakovsky, Understanding and Evaluating Racial Biases in Image Captioning, ICCV 2021",
    harms=_PERCEIVED + "gender is binary and skin tone is cut into light and dark; nine in ten are light.",
    revision="images_val2014.csv as public code reads it in 2024; the file was not seen",
    axes=("gender", "skin_tone"),
    columns={"mixed": "list<string>"},
)
_add(
    "coco-wholebody",
    "COCO-WholeBody: boxes of face and hands of the people in COCO 2017.",
    licence="CC BY-NC 4.0; images under the Flickr terms of use",
    citation="Jin et al., Whole-Body Human Pose Estimation in the Wild, ECCV 2020",
    harms="Faces and hands of people who were not asked.",
    revision="version 1.0, data_format.md of the authors' repository",
    columns={**_PEOPLE, "object_boxes": "json", "release": "string", **_SIZE},
)
_add(
    "csv", "A list of your own images: CSV, TSV, JSONL or Parquet, with columns of any name.", module="own", shape=True
)
_add("tsv", "The same as csv.", module="own", shape=True)
_add("jsonl", "The same as csv.", module="own", shape=True)
_add(
    "datasets",
    "A folder that Hugging Face datasets wrote with save_to_disk, with columns of any name.",
    module="own",
    shape=True,
)
_add(
    "imagefolder",
    "A folder of images with metadata.csv or metadata.jsonl (Hugging Face convention).",
    citation="Lhoest et al., Datasets: A Community Library, EMNLP 2021",
    revision="datasets 5",
    shape=True,
)
_add(
    "parquet",
    "Hugging Face Parquet by a mapping of columns; preset 'social-counterfactuals'.",
    licence="that of the data (SocialCounterfactuals: MIT)",
    citation="Howard et al., SocialCounterfactuals, CVPR 2024, for its preset",
    harms="SocialCounterfactuals: generated people in stereotyped jobs; its words for bodies and groups are crude.",
    revision="Intel/SocialCounterfactuals of 2024-03, column names as public code reads them",
    shape=True,
)
_add(
    "fairface",
    "FairFace: faces with perceived race, gender and age.",
    licence="CC BY 4.0",
    citation="Kärkkäinen and Joo, FairFace, WACV 2021",
    harms=_PERCEIVED + "race in seven boxes and gender in two; faces from Flickr, the people were not asked.",
    revision="labels of the authors' repository (train and val CSV)",
    axes=("gender", "race", "age"),
    columns={"service_test": "string"},
)
_add(
    "phase",
    "PHASE: perceived gender, ethnicity, age, skin tone of people in Conceptual Captions.",
    licence="research only",
    citation="Garcia et al., Uncurated Image-Text Datasets: Shedding Light on Demographic Bias, CVPR 2023",
    harms=_PERCEIVED + "some groups are tiny (16 images labelled Middle Eastern in val).",
    revision="files of 2022-11-01, keys as public code reads them; the files were not seen",
    axes=("gender", "race", "age", "skin_tone"),
    columns={"people": "json", "mixed": "list<string>", "emotion": "string", "activity": "string"},
)
_add(
    "visogender",
    "VisoGender: occupations with a participant or an object, perceived gender of each.",
    licence="CC BY 4.0 for the annotations; each image has its own",
    citation="Hall et al., VisoGender, NeurIPS 2023",
    harms=_PERCEIVED + "gender is binary; the addresses rot, so results of different years use different images.",
    revision="oxai/visogender, TSV files of 2023-08 to 2025-05",
    axes=("gender",),
    columns=dict.fromkeys(("url", "context", "sector", "specialisation", "other", "other_gender"), "string"),
)
_add(
    "pata",
    "PATA: people in 24 scenes, with flattering and insulting captions for each scene.",
    licence="not stated",
    citation="Seth, Hemani and Agarwal, DeAR, CVPR 2023",
    harms=_PERCEIVED + "the negative captions are slurs and insults; the addresses rot.",
    revision="pata-fairness/pata_dataset@c65a7f34",
    axes=("gender", "race", "age"),
    columns={"url": "string", "positive": "json", "negative": "json"},
)
_add(
    "gab",
    "GAB: generated images of 37 activities, done by a woman or a man, alone or beside the other.",
    licence="not stated",
    citation="Abdollahi et al., GABInsight: Exploring Gender-Activity Binding Bias in Vision-Language Models, 2024",
    harms="Generated people; gender is binary and set by the prompt; the activities were chosen for stereotype.",
    revision="sharif-ml-lab/GABInsight@fc9f97e4, layout as its experiments open it; the archive was not seen",
    axes=("gender",),
    columns=dict.fromkeys(("other_gender", "expected_gender", "cell", "part"), "string"),
)
_add(
    "cc3m",
    "Conceptual Captions 3M: the TSV, or webdataset shards of downloaded images.",
    licence="free to use with acknowledgement for the TSV; each image has its own",
    citation="Sharma et al., Conceptual Captions, ACL 2018",
    harms="Scraped from the web without asking; captions are alt texts; a fifth of the addresses are dead.",
    revision="TSV of 2018; shards as img2dataset 1.47 writes them",
    columns={"url": "string"},
)
_add(
    "laion",
    "LAION metadata as Parquet: addresses, texts, and the flag for unsafe images.",
    licence="CC BY 4.0 for the metadata; each image has its own",
    citation="Schuhmann et al., LAION-400M, arXiv 2111.02114",
    harms="Illegal and abusive images were found behind its addresses; the flag misses much. Download with care.",
    revision="LAION-400M metadata of 2021-08",
    columns={
        "url": "string",
        "nsfw": "string",
        "similarity": "float64",
        "punsafe": "float64",
        "licence": "string",
        **_SIZE,
    },
)
_add(
    "flickr30k",
    "Flickr30k: five captions per image, from Karpathy's JSON (also of COCO, Flickr8k) or the token file.",
    licence="captions for research; images under the Flickr terms of use",
    citation="Young et al., TACL 2014; splits of Karpathy and Fei-Fei, CVPR 2015",
    harms="Captions guess gender, age and origin from looks; the people shown were not asked.",
    revision="dataset_flickr30k.json; results_20130124.token",
)
_add(
    "openimages",
    "Open Images with MIAP: boxes of all people, perceived gender and age presentation, image labels.",
    licence="annotations CC BY 4.0; images listed as CC BY 2.0",
    citation="Schumann et al., A Step Toward More Inclusive People Annotations for Fairness, AIES 2021",
    harms=_PERCEIVED + "presentation is cut into two genders and three ages.",
    revision="MIAP of 2021-05, Open Images V6 and V7 label files",
    axes=("gender", "age"),
    columns={**_PEOPLE, "mixed": "list<string>"},
)
_add(
    "classfolder",
    "One folder per class: ImageNet, Caltech256 and the like.",
    licence="that of the data (ImageNet: research only)",
    citation="Russakovsky et al., ImageNet, IJCV 2015; Griffin, Holub and Perona, Caltech-256, 2007",
    harms="ImageNet's classes of people hold slurs; its images were taken from the web without asking.",
    revision="ILSVRC 2012; Caltech256 of 2007",
    columns={"class_id": "string"},
)
_add(
    "cifar",
    "CIFAR-10 and CIFAR-100, the binary version.",
    licence="not stated",
    citation="Krizhevsky, Learning Multiple Layers of Features from Tiny Images, 2009",
    harms="Taken from 80 Million Tiny Images, which its authors withdrew for slurs among its labels.",
    revision="binary version of 2009",
    columns={"superclass": "string"},
)
_add(
    "embeddings",
    "Vectors computed elsewhere, with an id each: npz, npy and ids, Parquet, safetensors, CSV, JSONL.",
    harms=_NONE,
    shape=True,
)
_add("embeddings-csv", "The same as embeddings.", module="embeddings", harms=_NONE, shape=True)
_add(
    "scores",
    "Scores of images against texts, for a model behind an API: CSV (long or wide), Parquet, npz.",
    harms=_NONE,
    kind="scores",
)
_add("scores-csv", "The same as scores.", module="scores", harms=_NONE, kind="scores")


def read(name: str, path: str | os.PathLike[str], **options: Any) -> Iterator[Row | Rejected]:
    """The rows of a dataset.

    Args:
        name: of the reader, one of ``READERS``.
        path: the file or folder of the dataset.
        **options: the reader's own, as :func:`about` tells them.

    Returns:
        The rows one by one, and a ``Rejected`` with the reason in place of each that cannot be used.

    >>> next(read("coco", "/no/such/folder"))
    Traceback (most recent call last):
        ...
    equipoise.errors.InputError: there is nothing at '/no/such/folder'; give the folder or file of the dataset
    """
    reader = READERS.load(name)
    _check_options(name, reader, options)
    rows: Iterator[Row | Rejected] = reader(path, **options)
    return rows


def shape_of(name: str, path: str | os.PathLike[str], **options: Any) -> ReaderShape:
    """The shape of the table that the rows of a dataset make.

    Args:
        name: of the reader, one of ``READERS``.
        path: the file or folder of the dataset, looked at only where the data alone tells its columns.
        **options: the reader's own, as for :func:`read`.

    Returns:
        The kind, axes and further columns of the table.

    >>> shape_of("pata", ".").columns["positive"]
    'json'
    """
    entry = READERS.get(name)
    _check_options(name, entry.load(), options)
    if "shape" in entry.info:
        module, _, attribute = entry.info["shape"].partition(":")
        shape: ReaderShape = getattr(import_module(module), attribute)(path, **options)
        return shape
    info = entry.info
    return ReaderShape(tuple(info.get("axes", ())), dict(info.get("columns", {})), info.get("kind", "images"))


def _check_options(name: str, reader: Any, options: dict[str, Any]) -> None:
    known = [p.name for p in inspect.signature(reader).parameters.values() if p.kind is p.KEYWORD_ONLY]
    for option in options:
        if option not in known:
            near = closest(option, known, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"it has: {', '.join(known) or 'none'}"
            raise InputError(f"the reader {name!r} has no option {option!r}; {hint}")
