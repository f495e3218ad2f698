"""The models of the study: one common start, and a CLIP or a captioner trained from it on each D(alpha).

A CLIP that begins from nothing would need hours to see. Here all of them begin alike: the eyes of ``mini:clip-fair``,
which stay as they are, and a text tower that has read captions of activities in the fair world, where nothing leans. It
knows women and men, ages, tones and places, and no word for any work: what a nurse looks like it learns from D(alpha)
alone (a locked image tower, as in Zhai et al., LiT, CVPR 2022). Captioners begin as ``mini:captioner``, which learnt
from the biased world, and only their decoder learns.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from equipoise.data import Table
from equipoise.data.shard_writer import is_finished
from equipoise.measure.arrays import unit_rows
from equipoise.models.hf.checkpoint import image_processor, stock_model, tokenizer
from equipoise.models.images import processed
from equipoise.models.runtime import quiet
from equipoise.recipes.train_mini.evaluate import ClipFolder
from equipoise.train import TrainSettings
from equipoise.train.fitting import carried_out, prepared_training
from equipoise.train.rows import Parts, TrainingRows
from equipoise.train.task import Inputs, Row, checkpoint_of, drawn_texts, fresh_model, save_stock
from equipoise.train.tasks.captioner import CaptionerTask
from equipoise.train.tasks.clip import ClipTask, codes_of
from equipoise.world import preset
from equipoise.world.tables import write_table

EYES = "mini:clip-fair"
_TALKATIVE = {"gender": 0.8, "skin_tone": 0.4, "age": 0.4}
_SCALE = 2.6592
"""ln (1 / 0.07), where CLIP begins."""
_SEEN: dict[bytes, Any] = {}
"""What the eyes make of pictures, by a fingerprint of the picture: no model moves them, so one look is enough."""


def _looked_at(rows: TrainingRows, look: Callable[[Any], Any], whose: bytes = b"") -> dict[str, Any]:
    """What ``look`` makes of the picture of every row, by image id; ``whose`` eyes they are is part of the name."""
    import torch

    seen: dict[str, Any] = {}
    with torch.no_grad():
        for row in rows.rows(range(len(rows))):
            key = blake2b(row["image"].tobytes(), digest_size=16, person=whose).digest()
            if key not in _SEEN:
                _SEEN[key] = look(row["image"])
            seen[row["image_id"]] = _SEEN[key]
    return seen


class LockedClipTask(ClipTask):
    """The task ``clip`` for models whose image tower stays as it is: each picture is looked at once, and alone, so that
    what is seen does not depend on the pictures beside it. The projection of what is seen learns.
    """

    name = "locked-clip"
    looks = False

    def open(self, checkpoint: Any, rows: TrainingRows, *, fresh: bool = False) -> Any:
        """The dual encoder in ``checkpoint``, and what it sees in every row."""
        model = super().open(checkpoint, rows, fresh=fresh)
        self._seen = _looked_at(
            rows, lambda image: model.vision_model(**processed(self.processor, [image])).pooler_output[0]
        )
        return model

    def inputs(self, rows: Sequence[Row], step: int) -> Inputs:
        """What the tower sees in the pictures, tokens, and a number for each caption."""
        import torch

        texts = drawn_texts(rows, self.caption, step)
        seen = torch.stack([self._seen[row["image_id"]] for row in rows])
        return {"seen": seen, "texts": self.tokens(texts), "codes": codes_of(texts)}

    def vectors(self, model: Any, inputs: Inputs) -> tuple[Any, Any]:
        """(n, d) unit vectors of the images and of the texts."""
        from torch.nn.functional import normalize

        images = normalize(model.visual_projection(inputs["seen"]).float(), dim=-1)
        return images, normalize(self.how.texts(model, inputs["texts"]).float(), dim=-1)


class LockedCaptionerTask(CaptionerTask):
    """The task ``captioner`` for a vision-encoder-decoder whose encoder stays as it is: each picture is looked at once,
    and alone.
    """

    name = "locked-captioner"
    looks = False

    def open(self, checkpoint: Any, rows: TrainingRows, *, fresh: bool = False) -> Any:
        """The captioner in ``checkpoint``, and what it sees in every row."""
        model = super().open(checkpoint, rows, fresh=fresh)

        def look(image: Any) -> Any:
            shown = processed(self.processor, [image])["pixel_values"]
            return model.encoder(pixel_values=shown).last_hidden_state[0]

        self._seen = _looked_at(rows, look, b"captioner")
        return model

    def inputs(self, rows: Sequence[Row], step: int) -> Inputs:
        """What the encoder sees in the pictures, and the tokens of each caption between its start and its end."""
        import torch

        seen = torch.stack([self._seen[row["image_id"]] for row in rows])
        return {"seen": seen, **self.token_inputs(drawn_texts(rows, self.caption, step))}

    def logits(self, model: Any, inputs: Inputs) -> Any:
        """(n, length - 1, vocabulary) what the decoder expects at every place."""
        return model(encoder_outputs=(inputs["seen"],), decoder_input_ids=inputs["tokens"][:, :-1]).logits


class LockedClip(ClipFolder):
    """A CLIP folder with the common eyes, asked for unit vectors; a batch of scenes is looked at once for all models.

    Only for models whose image tower is that of all others.
    """

    def of_pixels(self, shown: Any) -> NDArray[np.float64]:
        """Of pictures as the model sees them."""
        import torch

        key = blake2b(shown.numpy().tobytes(), digest_size=16).digest()
        with torch.no_grad():
            if key not in _SEEN:
                _SEEN[key] = self.model.vision_model(pixel_values=shown).pooler_output
            vectors = self.model.visual_projection(_SEEN[key]).numpy().astype(np.float64)
        return unit_rows(vectors, "vectors")


def start_clip(out: Path, *, pictures: int, steps: int, rate: float) -> None:
    """The CLIP that all arms begin from, in ``out/start``."""
    blank = out / "blank"
    if not blank.is_dir():
        saving = out / "_saving"
        shutil.rmtree(saving, ignore_errors=True)
        _without_words(saving)
        saving.replace(blank)
    world = preset("fair").changed(name="words", activity_share=1.0, two_people=0.0, mention=_TALKATIVE)
    place = out / "pictures"
    table = Table.open(place) if is_finished(place) else write_table(place, world, pictures, n_captions=1)
    settings = TrainSettings(
        steps=steps, rate=rate, batch=32, weight_decay=0.0, val_share=0.0, freeze=("vision_model",), save_every=50
    )
    training = prepared_training(LockedClipTask(), table, init=f"hf:{blank}", settings=settings, device="cpu")
    carried_out(training, out / "start", quiet=True, readers=0)


def _without_words(folder: Path) -> None:
    """``mini:clip-fair`` with a text tower that knows nothing."""
    import torch

    checkpoint = checkpoint_of(EYES)
    with quiet():
        model = stock_model(checkpoint, "CLIPModel").float()
        words, processor = tokenizer(checkpoint), image_processor(checkpoint)
    fresh = fresh_model(model)
    for name in ("text_model", "text_projection"):
        getattr(model, name).load_state_dict(getattr(fresh, name).state_dict())
    model.logit_scale.data = torch.full_like(model.logit_scale.data, _SCALE)
    folder.mkdir(parents=True, exist_ok=True)
    save_stock(model, folder, words, processor)


def by_source(sources: Sequence[str]) -> Any:
    """Rows in the order of the real images that they are or replace: row i of every D(alpha) has the same caption, and
    every step of every model learns from the same captions.
    """

    def choose(rows: TrainingRows) -> Parts:
        labels = rows.labels
        of = labels["source_id"] if "source_id" in labels else labels["image_id"]
        place = {name: i for i, name in enumerate(of.fillna(labels["image_id"]).tolist())}
        return Parts(np.array([place[name] for name in sources], dtype=np.int64), np.zeros(0, dtype=np.int64))

    return choose


def paired_training(
    task: str,
    table: Table,
    sources: Sequence[str],
    out: Path,
    *,
    init: str,
    freeze: str,
    steps: int,
    batch: int,
    rate: float,
    seed: int,
) -> None:
    """Train ``task`` on D(alpha); the batches of a step hold the captions of the same real images at every alpha."""
    settings = TrainSettings(
        steps=steps,
        batch=batch,
        rate=rate,
        seed=seed,
        weight_decay=0.0,
        val_share=0.0,
        freeze=(freeze,),
        save_every=50,
    )
    learner = LockedClipTask() if task == "clip" else LockedCaptionerTask()
    training = prepared_training(learner, table, init=init, settings=settings, choose=by_source(sources), device="cpu")
    carried_out(training, out, quiet=True, readers=0)
