"""Killed at random moments, and shared out over two processes: the same training all the same."""

import csv
import os
import random
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from equipoise.train.fitting import fit  # noqa: E402

STEPS, BATCH = 12, 12
GIVEN = ["--init", "mini:clip", "--batch", str(BATCH), "--rate", "1e-4", "--val-share", "0.4", "--device", "cpu"]
GIVEN += ["--save-every", "1", "--steps"]


def command(table, out, *more, steps=STEPS):
    return [
        sys.executable,
        "-m",
        "equipoise",
        "train",
        "clip",
        str(table.path),
        "-o",
        str(out),
        *GIVEN,
        str(steps),
        *more,
    ]


def weights(folder):
    from safetensors.torch import load_file

    return load_file(folder / "model.safetensors")


def losses(folder):
    with (folder / "losses.csv").open() as file:
        return np.array([float(row["loss"]) for row in csv.DictReader(file)])


@pytest.mark.slow
def test_ten_kills_end_at_the_same_weights(world_sets, tmp_path):
    straight = fit(
        "clip", world_sets, tmp_path / "straight", init="mini:clip", steps=40, batch=BATCH, rate=1e-4, val_share=0.4,
        device="cpu", save_every=1, quiet=True,
    )  # fmt: skip
    rng = random.Random(3)
    kills = 0
    while kills < 10:
        process = subprocess.Popen(command(world_sets, tmp_path / "killed", steps=40), stderr=subprocess.DEVNULL)
        work = tmp_path / "killed" / "_work" / "checkpoint.safetensors"
        before = work.stat().st_mtime_ns if work.exists() else 0
        while process.poll() is None and (not work.exists() or work.stat().st_mtime_ns == before):
            time.sleep(0.01)  # it has taken a step since it was started
        time.sleep(rng.random() * 0.3)
        if process.poll() is not None:
            break
        process.send_signal(signal.SIGKILL)
        process.wait()
        kills += 1
    subprocess.run(command(world_sets, tmp_path / "killed", steps=40), check=True, capture_output=True)
    assert kills == 10
    one, other = weights(straight.folder), weights(tmp_path / "killed")
    assert all(torch.equal(one[name], other[name]) for name in one)
    assert (straight.folder / "losses.csv").read_bytes() == (tmp_path / "killed" / "losses.csv").read_bytes()


@pytest.mark.slow
@pytest.mark.parametrize(
    "launch",
    [
        ["accelerate.commands.launch", "--multi_gpu", "--num_processes", "2", "--main_process_port", "0"],
        ["torch.distributed.run", "--standalone", "--nproc-per-node", "2"],
    ],
    ids=["accelerate", "torchrun"],
)
def test_two_processes_take_the_steps_of_one(world_sets, tmp_path, launch):
    pytest.importorskip("accelerate")
    alone = fit(
        "clip", world_sets, tmp_path / "one", init="mini:clip", steps=4, batch=BATCH, rate=1e-4, val_share=0.4,
        device="cpu", save_every=1, quiet=True,
    )  # fmt: skip
    ours = command(world_sets, tmp_path / "two", steps=4)
    started = [ours[0], "-m", *launch, *ours[1:]]
    done = subprocess.run(
        started, env=os.environ | {"OMP_NUM_THREADS": "1"}, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("the model is") == 1
    assert losses(tmp_path / "two") == pytest.approx(losses(tmp_path / "one"), rel=1e-5)
    one, two = weights(alone.folder), weights(tmp_path / "two")
    # AdamW divides by the size of a gradient, so that one which is all rounding still moves a weight by the rate
    far = [float((one[name] - two[name]).abs().max()) for name in one]
    assert max(far) < 4 * 1e-4
    assert np.mean([float((one[name] - two[name]).abs().mean()) for name in one]) < 1e-5
