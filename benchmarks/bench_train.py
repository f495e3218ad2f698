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

STEPS, BATCH, ROUNDS = 8, 32, 5


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


def _seconds(training, twin, folder):
    """CPU seconds of bare steps and of ours, which take turns: a slow second of the machine falls on both.

    A bare step is what any training must do: forward, backward and the optimiser's step, on inputs that are ready. It
    runs in this thread after each of ours; the rest of what the process takes, its reading thread too, is ours.
    """
    ready = [placed(twin.inputs_at(step), twin.processes.device) for step in range(STEPS)]
    schedule = training.settings.schedule(STEPS)
    optimiser = loop.optimiser_of([p for p in twin.model.parameters() if p.requires_grad], schedule)
    twin.model.train()
    bare = []

    def bare_step(done):
        start = time.thread_time()
        optimiser.zero_grad(set_to_none=True)
        twin.task.loss(twin.model, ready[done - 1], twin.processes).backward()
        optimiser.step()
        bare.append(time.thread_time() - start)

    start = time.process_time()
    with ReadAheadSteps(training.inputs_at, STEPS, readers=1) as inputs:
        loop.run(
            training.model, lambda m, s: training.loss(m, inputs[s]), schedule, folder, None, seed=0, after=bare_step
        )
    return sum(bare), time.process_time() - start - sum(bare)


def run():
    import torch

    torch.set_num_threads(1)
    home = Path(tempfile.mkdtemp(prefix="equipoise-bench-"))
    try:
        table = write_table(home / "pairs", preset("biased"), STEPS * BATCH // 2, seed=1)
        for number, (name, what) in enumerate(TASKS.items()):
            pairs = [
                _seconds(_training(table, *what), _training(table, *what), home / f"work-{number}-{i}")
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
