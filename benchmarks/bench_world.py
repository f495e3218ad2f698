"""How fast the world is drawn, and whether its promises hold: counterfactual identity and pictures told apart."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

N_COLD, N_ANEW = 10_000, 200

_COLD = f"""
import time
from equipoise import world
from equipoise.world.layers import clear_cache

def seconds(n, before):
    start = time.process_time()
    for scene in world.sample(world.preset("biased"), n, seed=0):
        before()
        world.render(scene, 64)
        scene.captions(5)
    return (time.process_time() - start) / n

kept = seconds({N_COLD}, lambda: None)
print(1 / kept, kept / seconds({N_ANEW}, clear_cache))
"""


def run() -> list[dict[str, Any]]:
    from equipoise import world

    rate, ratio = _cold_start()
    rows = [
        {
            "name": "a picture at 64 px with five captions, cold start, over one of layers drawn anew",
            "value": ratio,
            "limit": 0.25,
            "unit": "times",
            "ok": ratio <= 0.25,
            "note": f"{N_COLD:,} pictures, {rate:,.0f} per CPU-second",
        }
    ]
    scenes = world.sample(world.preset("biased"), 5000, seed=1)
    pictures = list(scenes)
    for scene in pictures:
        world.render(scene, 64)
    rows.append(_row("images per CPU-second, layers cached", _rate(pictures, _with_captions), None, "img/s"))
    rows.append(_row("images per CPU-second at 512 px, no captions", _rate(pictures[:300], _large), None, "img/s"))
    rows.append(_row("scenes drawn per CPU-second", _draws(), None, "scene/s"))
    rows.append(_row("table rows per CPU-second (PNG, masks, 15 captions)", _table_rate(), None, "rows/s"))
    differing, n = _pixels_changed_outside(10_000)
    rows.append(
        {
            "name": "pixels that change outside the persons, counterfactual pairs",
            "value": differing,
            "limit": 0,
            "unit": "pixels",
            "ok": differing == 0,
            "note": f"{n} pairs",
        }
    )
    rows.append(_row("occupations told by a linear classifier, unseen scenes", _told_apart(), 0.98, "share"))
    return rows


def _row(name: str, value: float, least: float | None, unit: str) -> dict[str, Any]:
    ok = None if least is None else bool(value >= least)
    return {
        "name": name,
        "value": float(value),
        "limit": least,
        "unit": unit,
        "ok": ok,
        "note": "at least" if least else "",
    }


def _cold_start() -> tuple[float, float]:
    """Pictures per CPU-second of a new process, and its time per picture over that of drawing every layer anew."""
    done = subprocess.run([sys.executable, "-c", _COLD], capture_output=True, text=True, check=True)
    rate, ratio = map(float, done.stdout.split())
    return rate, ratio


def _with_captions(scene: Any) -> None:
    from equipoise import world

    world.render(scene, 64)
    scene.captions(5)


def _large(scene: Any) -> None:
    from equipoise import world

    world.render(scene, 512)


def _rate(scenes: list[Any], work: Any) -> float:
    start = time.process_time()
    for scene in scenes:
        work(scene)
    return len(scenes) / (time.process_time() - start)


def _draws() -> float:
    from equipoise import world

    start = time.process_time()
    world.sample(world.preset("biased"), 200_000, seed=2)
    return 200_000 / (time.process_time() - start)


def _table_rate() -> float:
    from equipoise import world

    with tempfile.TemporaryDirectory() as folder:
        start = time.process_time()
        world.write_table(Path(folder) / "t", world.preset("biased"), 1000, seed=3)
        return 1000 / (time.process_time() - start)


def _pixels_changed_outside(n: int) -> tuple[int, int]:
    from equipoise import world
    from equipoise.world.catalog import AGES, GENDERS

    rng = np.random.default_rng(0)
    config = world.WorldConfig(gender={"male": 1, "female": 1, "neutral": 1}, activity_share=0.4, trait=0.4, unsafe=0.2)
    changed = 0
    for scene in world.sample(config, n, seed=4):
        who = int(rng.integers(len(scene.people)))
        other = scene.counterfactual(
            person=who, gender=str(rng.choice(GENDERS)), tone=int(rng.integers(1, 11)), age=str(rng.choice(AGES))
        )
        outside = ~(world.what_is_where(scene).people[who] | world.what_is_where(other).people[who])
        changed += int((world.render(scene) != world.render(other)).any(axis=2)[outside].sum())
    return changed, n


def _told_apart() -> float:
    from sklearn.decomposition import PCA
    from sklearn.linear_model import LogisticRegression

    from equipoise import world

    scenes = list(world.sample(world.preset("fair").changed(visible=1.0, activity_share=0.0), 4000, seed=5))
    pixels = np.stack([world.render(scene, 64) for scene in scenes])
    # Half of them face left; a person reads a mirrored picture without effort, a linear classifier cannot.
    left = np.array([scene.people[0].facing < 0 for scene in scenes])
    pixels[left] = pixels[left][:, :, ::-1]
    small = pixels.reshape(len(scenes), 32, 2, 32, 2, 3).mean(axis=(2, 4)).reshape(len(scenes), -1) / 255
    features = PCA(250, svd_solver="randomized", random_state=0).fit_transform(small)
    names = np.array([scene.subject for scene in scenes])
    model = LogisticRegression(max_iter=300).fit(features[:3000], names[:3000])
    return float(np.mean(model.predict(features[3000:]) == names[3000:]))
