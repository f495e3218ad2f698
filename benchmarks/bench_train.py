"""Training from a table against the bare forward and backward pass on the same batches.

Both sides in CPU seconds of one thread, in one run: reading, decoding, scaling, tokenising, the optimiser, the loss
curve and a checkpoint are what ours does besides.
"""

import shutil
import tempfile
import time
from pathlib import Path

from equipoise.train import loop
from equipoise.train.batches import ReadAheadSteps
from equipoise.train.fitting import placed, prepared_training
from equipoise.train.settings import TrainSettings
from equipoise.world import preset
from equipoise.world.tables import write_table

STEPS, BATCH, ROUNDS = 8, 32, 3


def run_once(work):
    start = time.process_time()
    work()
    return time.process_time() - start


TASKS = {
    "training step of mini:clip, 32 pairs": ("clip", "mini:clip", {}),
    "training step of mini:judge by multilabel, 32 pictures": (
        "multilabel",
        "mini:judge",
        {"labels": ["gender", "objects"]},
    ),
}


def _training(table, task, init, options):
    settings = TrainSettings(steps=STEPS, batch=BATCH, val_share=0.0, save_every=STEPS)
    return prepared_training(task, table, init=init, options=options, device="cpu", settings=settings)


def _bare(training):
    """What any training must do: forward, backward and the optimiser's step, on inputs that are ready."""
    inputs = [placed(training.inputs_at(step), training.processes.device) for step in range(STEPS)]
    parameters = [p for p in training.model.parameters() if p.requires_grad]
    optimiser = loop.optimiser_of(parameters, training.settings.schedule(STEPS))
    training.model.train()

    def work():
        for step in range(STEPS):
            optimiser.zero_grad(set_to_none=True)
            training.task.loss(training.model, inputs[step], training.processes).backward()
            optimiser.step()

    return run_once(work)


def _ours(training, folder):
    def work():
        with ReadAheadSteps(training.inputs_at, STEPS, readers=1) as inputs:
            schedule = training.settings.schedule(STEPS)
            loop.run(training.model, lambda m, s: training.loss(m, inputs[s]), schedule, folder, None, seed=0)

    return run_once(work)


def run():
    import torch

    torch.set_num_threads(1)
    home = Path(tempfile.mkdtemp(prefix="equipoise-bench-"))
    try:
        table = write_table(home / "pairs", preset("biased"), STEPS * BATCH // 2, seed=1)
        for number, (name, what) in enumerate(TASKS.items()):
            pairs = [
                (_bare(_training(table, *what)), _ours(_training(table, *what), home / f"work-{number}-{i}"))
                for i in range(ROUNDS)
            ]
            ratio = sorted(ours / bare for bare, ours in pairs)[ROUNDS // 2]
            bare, ours = min(b for b, _ in pairs), min(o for _, o in pairs)
            yield {
                "name": f"{name}: cost over bare forward and backward",
                "value": ratio,
                "limit": "<= 1.15",
                "unit": "x",
                "ok": ratio <= 1.15,
                "note": f"{1e3 * ours / STEPS:.0f} ms against {1e3 * bare / STEPS:.0f} ms per step",
            }
    finally:
        shutil.rmtree(home)
