"""One body part of each photograph drawn anew with the photograph's own caption: what does the drawing itself do?

The artefact test of Hirota et al. (EMNLP 2024; thesis, Table 4.3). Nobody becomes somebody else: one random body part
(a head, a hand) of the largest person is drawn once, and every label, caption and group stays. A classifier whose
predictions move has learnt to see that a picture was drawn on; ``equipoise classify-audit --inpainted`` says how far.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from equipoise.data.people import people_of
from equipoise.data.table import Table
from equipoise.errors import InputError
from equipoise.generate.inpaint import TEXTS, TOGETHER, check_choices, make_inpaints, person_in_scene, world_prompt
from equipoise.generate.keeping import Kept, scene_in
from equipoise.generate.persons import SECOND_OVER, people_in, placed_rows, targets
from equipoise.generate.plans import Task, WorkPlan, drawn, examples_of, seed_of, settings_of
from equipoise.text.templates import shipped_wording

_SAID = ("captions", "label_source")
"""Columns of every table that stay as they are, beside those that :class:`Kept` keeps."""


@dataclass(frozen=True)
class PartsConfig:
    """How a body part is drawn anew.

    >>> PartsConfig(guidance=0)
    Traceback (most recent call last):
        ...
    equipoise.errors.InputError: guidance=0: a guidance scale above 0 is expected
    """

    guidance: float = 7.5
    """The least of the three scales at which persons are drawn."""
    dilation: float = 8.0
    """Pixels around the mask that are drawn anew too."""
    second_over: float = SECOND_OVER
    by: str = "segment"
    """``segment`` (the box where there is none), ``box``, or ``finder``: a segmenter (such as SAM) outlines the box."""
    caption: str = "first"
    """``first``: the first caption with a word for a gender, else the first; ``seed``: one of them at random."""
    steps: int | None = 50
    seed: int = 0

    def __post_init__(self) -> None:
        check_choices(self.by, self.caption)
        if not self.guidance > 0:
            raise InputError(f"guidance={self.guidance!r}: a guidance scale above 0 is expected")


def plan_parts(source: Table, config: PartsConfig | None = None) -> WorkPlan:
    """The plan of one image for each photograph with a caption and a person with boxes of body parts.

    Each new row has all that its photograph's row says. A photograph of the pictogram world is spoken of in the world's
    grammar, with every group of the person named.

    Args:
        source: photographs with the columns ``people`` (with ``parts``) and ``captions``.
        config: how a body part is drawn anew; from the first caption, inside its outline, unless given.

    Returns:
        A plan of one task per photograph.
    """
    settings = config or PartsConfig()
    keeps = Kept(source, made={"drawn_mask": "json"})
    names = [*(name for name in _SAID if name in source.columns), *keeps.names]
    chosen: list[tuple[list[int], dict[str, Any], str]] = []
    left_out: Counter[str] = Counter()
    texts = [name for name in TEXTS if name in source.columns]
    for place, row in placed_rows(source, ["image_id", "people", *texts]):
        people = people_in(people_of(row["people"]))
        prompt = _prompt(row, people, settings) if people else None
        if not people:
            left_out["no single person"] += 1
        elif not any(p.get("parts") for p in _meant(people, settings)):
            left_out["no boxes of body parts"] += 1
        elif prompt is None:
            left_out["no caption"] += 1
        else:
            chosen.append((place, {"id": row["image_id"], "people": people}, prompt))

    def tasks() -> Iterator[Task]:
        for place, about, prompt in chosen:
            yield {
                **about,
                "place": place,
                "prompts": [[{}, prompt]],
                "keeps": names,
                "words": None,
                "seed": seed_of(settings.seed, "part", about["id"]),
                "area": "part",
                "per_group": 1,
                "guidance": (settings.guidance,),
                **{key: getattr(settings, key) for key in ("dilation", "second_over", "by", "steps")},
            }

    return WorkPlan(
        kind="inpaint",
        tasks=tasks,
        n_tasks=len(chosen),
        n_images=len(chosen),
        make=make_inpaints,
        config={"area": "part", **settings_of(settings)},
        needs=("inpaint",),
        axes=keeps.axes,
        columns=keeps.columns,
        source=source,
        together=TOGETHER,
        examples=examples_of(tasks(), lambda task: [text for _, text in task["prompts"]]),
        left_out=dict(left_out),
    )


def _meant(people: Sequence[Mapping[str, Any]], config: PartsConfig) -> Sequence[Mapping[str, Any]]:
    """Those of whom a part is drawn; everyone where that hangs on the size of the image, which is not known yet."""
    if all(p.get("box") is not None and p.get("unit", "pixel") == "pixel" for p in people):
        return targets(people, 0, 0, second_over=config.second_over)
    return people


def _prompt(row: Mapping[str, Any], people: Sequence[Mapping[str, Any]], config: PartsConfig) -> str | None:
    """A caption of the photograph as it is."""
    captions = [str(c) for c in (row.get("captions") or [row.get("caption")]) if c]
    if not captions:
        return None
    order = list(range(len(captions)))
    if config.caption == "seed":
        order = [int(i) for i in drawn(config.seed, "caption", row["image_id"]).permutation(len(captions))]
    scene = scene_in(row)
    if scene is not None:
        return world_prompt(scene, {}, order[0], person_in_scene(people, scene))
    names_one = shipped_wording().replacer("gender").groups_in
    return next((captions[k] for k in order if names_one(captions[k])), captions[order[0]])
