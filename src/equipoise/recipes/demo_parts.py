"""The demonstration's captioner: what it says of clear pictures and of grainy ones, and whom it then takes people for.

Where a picture is clear, the captioner sees who is in it. Where it is grainy, it has to guess, and guesses as the world
it learnt from was: that is how a bias shows that a test on clear pictures misses.

The demonstration's encoders: each looks at a picture once, however many audits ask about it.

The demonstration's made pictures: counterfactual sets by the miniature generator, and what the filters leave.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from PIL import Image

from equipoise.audit.captions.run import CaptionAudit, audit_captions
from equipoise.audit.captions.settings import CaptionSettings
from equipoise.data import Table, read_results, write_results
from equipoise.errors import InputError
from equipoise.filters import FilterRun, Models
from equipoise.filters import run as run_filters
from equipoise.generate import SetsConfig, plan_sets, run, world_sets
from equipoise.measure.notes import codes_of, pair_keys
from equipoise.models import load
from equipoise.recipes.counterfactual_sets import GUIDANCE, filter_steps, spread_subjects
from equipoise.recipes.studies.caption_files import write_lines, write_people
from equipoise.text import Lexicon
from equipoise.world import PLACEBOS, WorldConfig, preset, truth
from equipoise.world.placebos import PREFIX, column_of

if TYPE_CHECKING:
    from equipoise.array_types import Vectors
    from equipoise.models.protocols import Encoder


class Remembering:
    """An encoder that keeps the vectors of the pictures it has seen.

    The same pictures are audited, used to fit a repair, and audited again with and without it; encoding them is the
    costly part. Texts are few and not kept.
    """

    def __init__(self, encoder: Encoder, *, sees_as: Remembering | None = None) -> None:
        """``sees_as`` is one whose images' side is the same, so that what either has seen serves both."""
        self.encoder = encoder
        self.name, self.key, self.logit_scale = encoder.name, encoder.key, encoder.logit_scale
        self.checkpoint = getattr(encoder, "checkpoint", None)
        self._seen: dict[bytes, Vectors] = {} if sees_as is None else sees_as._seen

    def encode_images(self, images: Sequence[Image.Image]) -> Vectors:
        """(n, d) unit vectors of n RGB images."""
        marks = [_mark(image) for image in images]
        new = {mark: image for mark, image in zip(marks, images, strict=True) if mark not in self._seen}
        if new:
            vectors = np.asarray(self.encoder.encode_images(list(new.values())))
            self._seen |= dict(zip(new, vectors, strict=True))
        return np.stack([self._seen[mark] for mark in marks])

    def encode_texts(self, texts: Sequence[str]) -> Vectors:
        """(m, d) unit vectors of m texts."""
        return self.encoder.encode_texts(texts)


def _mark(image: Image.Image) -> bytes:
    return hashlib.blake2b(image.tobytes(), digest_size=16, key=repr((image.mode, image.size)).encode()).digest()


AXES = ("gender", "skin_tone")
SEES_WITH = "mini:clip-fair"


@dataclass(frozen=True)
class GeneratedFound:
    """What was made and what stayed; all ``None`` where there was no generator."""

    table: Table | None = None
    filtered: FilterRun | None = None
    kept: Table | None = None
    """The table with the filters' layer; ``None`` if nothing stayed."""


def make_and_filter(
    folder: Path, generator: Any, *, subjects: int, candidates: int, say: Callable[[str], None]
) -> GeneratedFound:
    """Make ``candidates`` sets of four (two genders, two skin tones) of each of ``subjects``, and put them through
    filters: do pictures fit their captions and each other, and does the fair CLIP recognise subject, gender and tone?
    """
    if generator is None:
        say("   left out, as asked.")
        return GeneratedFound()
    try:
        model = load(generator, kind="generator", device="cpu") if isinstance(generator, str) else generator
    except InputError as error:
        say(f"   left out: {error}")
        return GeneratedFound()
    world = WorldConfig(skin_tone={"light": 0.5, "dark": 0.5}, activity_share=0.0, visible=1.0)
    chosen = spread_subjects(subjects)
    captions = world_sets(world, chosen, AXES, seed=79)
    plan = plan_sets(captions, SetsConfig(candidates=candidates, share=(0.1, 0.9), guidance=GUIDANCE, seed=79))
    say(f"   {plan.n_images} pictures by {model.name}: {len(chosen)} occupations x 4 groups x {candidates} candidates")
    table = run(plan, folder / "generated", model, progress=True)
    models = Models(encoder=SEES_WITH)
    done = run_filters(table, filter_steps(world), folder / "filtered", models=models, axes=AXES, draws=499)
    for line in str(done).splitlines():
        say(f"   {line}")
    stays = bool(done.table.to_pandas(["keep"])["keep"].fillna(False).any())
    if not stays:
        say("   nothing stays, so there is nothing to audit.")
    return GeneratedFound(table, done, done.table if stays else None)


CAPTIONER = "mini:captioner"
GRAIN = 75.0
"""The standard deviation of the noise, of 255."""


@dataclass(frozen=True)
class CaptionsFound:
    """What was measured."""

    audit: CaptionAudit
    """LIC, Ratio, Error and words, on the natural pool."""
    errors: dict[str, float]
    """By model: the share of captions that name the wrong gender, over sets that show both alike."""
    correlations: dict[str, float]
    """By model: of whom captions name too often, with what was put in, over occupations."""


def measure_captioner(folder: Path, natural: Table, sets: Table, say: Callable[[str], None]) -> CaptionsFound:
    """Caption pictures, clear and grainy, measure the captions, and hold them against the injected truth.

    LIC needs a pool as people meet it, so it is measured on ``natural``: in counterfactual sets every caption has a
    twin of the other group, and a classifier learns the opposite. Whom captions name when nothing but the picture can
    tell is asked of ``sets``. The captions are in ``folder/captions``, the results in ``folder/captioner``; among
    them, for each model and subject, ``naming_gap``: how much more often captions name women than men.
    """
    captioner = load(CAPTIONER, kind="captioner")
    names = {"clear": CAPTIONER, "grainy": f"{CAPTIONER}, grainy pictures"}
    ids = natural.to_pandas(["image_id"])["image_id"].tolist()
    said = _said(captioner, natural)
    write_people(folder / "captions" / "people.jsonl", natural)
    for kind, captions in said.items():
        lines = ({"image_id": name, "caption": text} for name, text in zip(ids, captions, strict=True))
        write_lines(folder / "captions" / f"{kind}.jsonl", lines)
    audit = audit_captions(
        [f"{names[kind]}={folder / 'captions' / f'{kind}.jsonl'}" for kind in said],
        folder / "captions" / "people.jsonl",
        "gender",
        folder / "captioner",
        settings=CaptionSettings(lexicon="equipoise", seeds=5, reference_seeds=5, permutations=50, quality=False),
    )
    rows, errors, correlations = [], {}, {}
    columns = [name for name in sets.columns if name.startswith(PREFIX)]
    labels = sets.to_pandas(["subject", "gender", *columns])
    # The pictures as they are drawn, without a placebo.
    base = np.flatnonzero(_unchanged(labels[columns]))
    labels = labels.iloc[base].reset_index(drop=True)
    for kind, captions in _said(captioner, sets, base).items():
        named = _named(labels, captions)
        keys = {"suite": "captions", "pool": "rendered", "model": names[kind], "axis": "gender"}
        gaps = _naming_gaps(named, keys)
        rows += gaps
        errors[names[kind]] = float(named["wrong"].mean())
        put_in = named.groupby("subject", sort=True)["injected"].first().to_numpy(float)
        measured = np.array([row["value"] for row in gaps], dtype=float)
        flat = np.ptp(measured) < 1e-12
        correlations[names[kind]] = 0.0 if flat else float(np.corrcoef(put_in, measured)[0, 1])
        # the rate is that of the page, of the natural pool; the correlation is over the sets, on the page too
        wrong = audit.results[(audit.results["metric"] == "error") & (audit.results["model"] == names[kind])]
        say(
            f"   {kind:6} {100 * wrong['value'].iloc[0]:4.1f}% of captions name the wrong gender; whom they name too "
            f"often in the sets, with what was put in: correlation {correlations[names[kind]]:+.2f}"
        )
    home = folder / "captioner" / "results.parquet"
    write_results(home, pd.concat([read_results(home), pd.DataFrame(rows)], ignore_index=True))
    return CaptionsFound(audit, errors, correlations)


def _unchanged(levels: pd.DataFrame) -> NDArray[np.bool_]:
    """(n,) whether every placebo of a row is at its usual level."""
    unchanged = np.ones(len(levels), dtype=bool)
    for name, (usual, _) in PLACEBOS.items():
        if column_of(name) in levels:
            unchanged &= (levels[column_of(name)] == usual).to_numpy()
    return unchanged


def _said(captioner: Any, table: Table, rows: NDArray[np.int64] | None = None) -> dict[str, list[str]]:
    pictures = [picture for _, picture in table.images()]
    if rows is not None:
        pictures = [pictures[row] for row in rows]
    return {"clear": captioner.caption(pictures, seed=0), "grainy": captioner.caption(grainy(pictures), seed=0)}


def grainy(pictures: list[Image.Image], seed: int = 0, grain: float = GRAIN) -> list[Image.Image]:
    """The same pictures under noise of this standard deviation, so that who is in them has to be guessed."""
    rng = np.random.default_rng(seed)
    noisy_pictures = []
    for picture in pictures:
        pixels = np.asarray(picture, dtype=np.float64)
        noisy = np.clip(pixels + rng.normal(size=pixels.shape) * grain, 0, 255)
        noisy_pictures.append(Image.fromarray(noisy.astype(np.uint8)))
    return noisy_pictures


def _named(frame: pd.DataFrame, captions: list[str]) -> pd.DataFrame:
    """The pictures with the gender that their caption names, whether it is wrong, and where the subject was put."""
    words = Lexicon.load("equipoise")
    known = truth(preset("biased"))
    known = known[(known["kind"] == "occupation") & (known["axis"] == "gender") & (known["group"] == "female")]
    named = frame[["subject", "gender"]].copy()
    named["said"] = pd.Series(words.label_all(captions), index=named.index, dtype=object)
    named["wrong"] = named["said"].isin(["female", "male"]) & (named["said"] != named["gender"])
    return named.assign(injected=named["subject"].map(known.set_index("subject")["log_odds"]))


def _naming_gaps(named: pd.DataFrame, keys: dict[str, str]) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for subject, some in named.groupby("subject", sort=True):
        gap = float((some["said"] == "female").mean() - (some["said"] == "male").mean())
        pair = pair_keys("female", "male")
        pair["codes"] = codes_of((), pair["codes"])
        rows.append({"metric": "naming_gap", **keys, "subject": subject, **pair, "value": gap})
        rows[-1] |= {"n": len(some), "n_groups": 2, "notes": "pictures show both alike; no test of a single subject"}
    return rows
