"""Objects that images hold, and objects that captions speak of.

A name is found as whole words, singular or plural, the longest name first: "carrot" is no car, "hot dog" no dog,
"teddy bear" no bear, and "an orange shirt" no orange.

What masking a part of the images changes: LIC_M of their captions against LIC_M of the original's.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from equipoise.audit.captions.folds import HALVES, half_gaps, half_table, over_folds, over_splits
from equipoise.audit.captions.lic import Lic
from equipoise.audit.captions.reading import USUAL, CaptionColumns, image_name, read_records, suffix_of
from equipoise.errors import InputError
from equipoise.measure import captions as measure
from equipoise.measure.notes import no_interval
from equipoise.measure.stats.estimate import Estimate
from equipoise.text.lexicon.positions import WordFinder, fold_phrase, lower


def change_of_lic_m(found: Lic, original: Lic) -> Estimate:
    """LIC_M of ``found`` less that of ``original``, in points: image by image when cross-fitted, else split by split.

    Give both of the same images: fewer captions to train on alone lower LIC_M. Then the same seeds made the same
    splits, and what the splits have in common falls out of the difference. Cross-fitted, it is taken over the images
    that both were tested on.
    """
    how: dict[str, Any] = {"null_value": 0.0, "bounds": (-1.0, 1.0), "alternative": "two-sided"}
    if found.out_of_fold is not None and original.out_of_fold is not None:
        keys = ["image_id", "group", "turn"]
        tables = [
            frame.assign(turn=frame.groupby("image_id").cumcount())
            for frame in (found.out_of_fold, original.out_of_fold)
        ]
        both = tables[0].merge(tables[1], on=keys, suffixes=("", "_original"))
        if both.empty:
            raise InputError("no image was tested in both sets of captions: there is no change to measure")
        gaps = both["score"] - both["score_original"]
        same = set(tables[0]["image_id"]) == set(tables[1]["image_id"])  # then the folds are the same too
        refitted = zip(found.refitted, original.refitted, strict=True) if same else ()
        change = over_folds(
            gaps.to_numpy(float),
            both["image_id"],
            np.unique(both["group"], return_inverse=True)[1],
            [a["value"] - b["value"] for a, b in refitted],
            folds=int(found.runs.loc[found.runs["side"] == "model", "split"].max()) + 1,
            **how,
        )
    else:
        ours = [lic.runs[lic.runs["side"] == "model"] for lic in (found, original)]
        runs = [of.set_index(["seed", "split"])["value"] for of in ours]
        halves = [half_table(lic.runs[lic.runs["side"] == "model" + HALVES]) for lic in (found, original)]
        values = (runs[0] - runs[1]).dropna().to_numpy(float)
        change = over_splits(values, half_gaps(*halves), n=len(found.per_caption), **how)
    if change.ci_low == change.ci_high:  # no score moved; an interval without width would pass for certainty
        change = replace(change, ci_low=None, ci_high=None).with_notes(no_interval("the same change everywhere"))
    return measure.in_points(change)


PERSON = "person"
"""Left out everywhere: every picture with a label shows one."""

_IRREGULAR = {"mouse": "mice", "knife": "knives", "sheep": "sheep", "skis": "skis", "scissors": "scissors"}
_IRREGULAR |= {
    "person": "people",
    "man": "men",
    "woman": "women",
    "child": "children",
    "foot": "feet",
    "leaf": "leaves",
}

# Other words for the objects of COCO; only words that mean nothing else in a caption.
_SYNONYMS: dict[str, tuple[str, ...]] = {
    "airplane": ("plane", "aeroplane", "jet", "airliner"),
    "baseball bat": ("bat",),
    "baseball glove": ("mitt",),
    "bicycle": ("bike",),
    "cell phone": ("cellphone", "mobile phone", "smartphone", "smart phone"),
    "couch": ("sofa",),
    "cup": ("mug",),
    "donut": ("doughnut",),
    "fire hydrant": ("hydrant",),
    "frisbee": ("flying disc",),
    "hair drier": ("hair dryer", "hairdryer", "blow dryer"),
    "handbag": ("purse",),
    "hot dog": ("hotdog",),
    "laptop": ("laptop computer",),
    "motorcycle": ("motorbike", "moped"),
    "potted plant": ("house plant", "houseplant"),
    "refrigerator": ("fridge",),
    "remote": ("remote control", "wii remote"),
    "skis": ("ski",),
    "snowboard": ("snow board",),
    "suitcase": ("luggage",),
    "surfboard": ("surf board",),
    "teddy bear": ("stuffed bear",),
    "tennis racket": ("tennis racquet", "racket", "racquet"),
    "traffic light": ("stop light", "stoplight"),
    "tv": ("television", "tv set", "flat screen"),
    "wine glass": ("wineglass",),
}

# Phrases in which a word does not stand for the object: found first, and thrown away.
_NOT_MEANT = (
    "hot dog",
    "teddy bear",
    "cable car",
    "train car",
    "rail car",
    "street car",
    "side car",
    "car seat",
    "dog house",
    "cat walk",
    "bus stop",
    "bus station",
    "train station",
    "train track",
    "train tracks",
    "boat house",
    "computer mouse pad",
    "mouse pad",
    "book shelf",
    "book case",
    "clock tower",
    "fork in the road",
    "toy train",
    "toilet paper",
    "sink hole",
    "baseball",
)
_COLOURS = frozenset({"orange"})
"""Also the name of a colour: counts only where no noun follows."""
_AFTER_A_FRUIT = frozenset(
    "a an and are as at beside by for from has in inside into is its lies lying next of on or over sits sitting slices "
    "slice that the to tree trees under which while with juice peel".split()
)


def plural(name: str) -> str:
    """The plural of a name, of its last word.

    >>> [plural(w) for w in ("bus", "wine glass", "knife", "puppy", "sheep", "toothbrush", "toy", "dining table")]
    ['buses', 'wine glasses', 'knives', 'puppies', 'sheep', 'toothbrushes', 'toys', 'dining tables']
    """
    *before, last = name.split(" ")
    if last in _IRREGULAR:
        many = _IRREGULAR[last]
    elif last.endswith(("s", "x", "z", "ch", "sh")):
        many = last + "es"
    elif last.endswith("y") and last[-2:-1] not in "aeiou":
        many = last[:-1] + "ies"
    else:
        many = last + "s"
    return " ".join([*before, many])


class ObjectMatcher:
    """Which of ``names`` a caption mentions.

    ``more`` gives further words for a name; the objects of COCO have some built in.

    >>> objects = ObjectMatcher(["car", "dog", "hot dog", "bear", "teddy bear", "orange", "carrot", "wine glass"])
    >>> [sorted(objects.found(t)) for t in ("Carrots and two hotdogs", "a teddy-bear in cars", "an orange cat")]
    [['carrot', 'hot dog'], ['car', 'teddy bear'], []]
    """

    def __init__(self, names: Iterable[str], more: Mapping[str, Sequence[str]] | None = None) -> None:
        self.names = tuple(dict.fromkeys(names))
        self._of: dict[str, str] = {}
        given = {name: (*_SYNONYMS.get(name, ()), *(more or {}).get(name, ())) for name in self.names}
        own = {form for name in self.names for form in (name.lower(), plural(name.lower()))}
        for name, others in given.items():
            for form in (name.lower(), *(o.lower() for o in others)):
                for written in (form, plural(form)):
                    # a name of its own beats another object's synonym
                    if written in own and form != name.lower():
                        continue
                    self._of.setdefault(written, name)
        self._finder = WordFinder([*self._of, *(phrase for phrase in _NOT_MEANT if phrase not in self._of)])

    def found(self, caption: str) -> frozenset[str]:
        """The names of the objects that ``caption`` mentions."""
        low = lower(caption)
        hits = set()
        for start, end in self._finder.spans(low):
            word = fold_phrase(low[start:end])
            if word in self._of and (word not in _COLOURS or _stands_alone(low[end:])):
                hits.add(self._of[word])
        return frozenset(hits)


def _stands_alone(rest: str) -> bool:
    """Whether no noun follows: the end, a comma, or a word that cannot be one."""
    words = rest.split(maxsplit=1)
    if not words or not rest[:1].isspace():
        return True
    return words[0].strip(".,;:!?") in _AFTER_A_FRUIT


def read_objects(path: str | Path, columns: CaptionColumns = USUAL) -> dict[str, frozenset[str]]:
    """The objects of each image, without persons.

    ``path`` is a COCO instances file, or JSONL or a table with a list ``objects``; an image that the file knows and
    that holds nothing has an empty set, one of several rows what they list together. ``columns`` names the column of
    image ids where it has another name than usual.
    """
    if suffix_of(path) == ".json" and not Path(path).is_dir():
        return _instances(Path(path))
    by_image: dict[str, frozenset[str]] = {}
    for record in read_records(path, need_captions=False, columns=columns):
        objects = record.fields.get("objects")
        if not isinstance(objects, list) or not all(isinstance(name, str) for name in objects):
            raise InputError(f"{record.where}: no list of names in 'objects'")
        by_image[record.image_id] = by_image.get(record.image_id, frozenset()) | frozenset(objects) - {PERSON}
    return by_image


def _instances(path: Path) -> dict[str, frozenset[str]]:
    try:
        data = json.loads(path.read_bytes().decode("utf-8-sig"))
    except OSError as error:
        raise InputError(f"{path}: {(error.strerror or 'cannot be read').lower()}") from None
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: not valid JSON: {error}") from None
    if not isinstance(data, dict) or not all(isinstance(data.get(k), list) for k in ("annotations", "categories")):
        raise InputError(f"{path}: not a COCO instances file: it lacks a list of 'annotations' or 'categories'")
    names = {}
    for number, category in enumerate(data["categories"]):
        if not isinstance(category, dict) or not isinstance(category.get("name"), str) or "id" not in category:
            raise InputError(f"{path}: category {number} has no id or no name")
        names[category["id"]] = category["name"]
    held: dict[str, set[str]] = {}
    for number, image in enumerate(data.get("images") or []):
        if isinstance(image, dict) and "id" in image:
            held.setdefault(image_name(image["id"], f"{path}: image {number}"), set())
    for number, annotation in enumerate(data["annotations"]):
        where = f"{path}: annotation {number}"
        if not isinstance(annotation, dict) or "image_id" not in annotation:
            raise InputError(f"{where}: has no image_id")
        key: Any = annotation.get("category_id")
        if not isinstance(key, int | str) or key not in names:
            raise InputError(f"{where}: category_id {key!r} is not among the categories")
        held.setdefault(image_name(annotation["image_id"], where), set()).add(names[key])
    return {image: frozenset(objects) - {PERSON} for image, objects in held.items()}
