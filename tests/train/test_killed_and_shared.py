"""Killed at random moments, and shared out over two processes: the same training all the same."""

import csv
import os
import random
import signal
import socket
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


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


@pytest.mark.slow
def test_two_processes_take_the_steps_of_one(world_sets, tmp_path):
    pytest.importorskip("accelerate")
    alone = fit(
        "clip", world_sets, tmp_path / "one", init="mini:clip", steps=4, batch=BATCH, rate=1e-4, val_share=0.4,
        device="cpu", save_every=1, quiet=True,
    )  # fmt: skip
    given = os.environ | {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
    given |= {"ACCELERATE_USE_CPU": "true", "OMP_NUM_THREADS": "1"}
    both = [
        subprocess.Popen(
            command(world_sets, tmp_path / "two", steps=4),
            env=given | {"RANK": str(rank), "LOCAL_RANK": str(rank)},
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]
    for process in both:
        _, told = process.communicate(timeout=300)
        assert process.returncode == 0, told
    assert losses(tmp_path / "two") == pytest.approx(losses(tmp_path / "one"), rel=1e-5)
    one, two = weights(alone.folder), weights(tmp_path / "two")
    # AdamW divides by the size of a gradient, so that one which is all rounding still moves a weight by the rate
    far = [float((one[name] - two[name]).abs().max()) for name in one]
    assert max(far) < 4 * 1e-4
    assert np.mean([float((one[name] - two[name]).abs().mean()) for name in one]) < 1e-5
