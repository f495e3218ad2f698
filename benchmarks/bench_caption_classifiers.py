"""LIC's classifiers: the LSTM against a plain one and its own arithmetic, the linear screen against the LSTM."""

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np

DATA = Path(__file__).resolve().parents[2] / "shared" / "data" / "lic"
BATCH, EPOCHS, SEEDS = 64, 20, 10


def run() -> Iterator[dict[str, Any]]:
    """Rows: name, value, unit, limit, ok."""
    import torch

    from equipoise.models.caption_classifiers.lstm import LstmSettings, lstm_probabilities

    torch.set_num_threads(1)
    captions, labels, source = _captions()
    tokens, truth = captions[:5966], labels[:5966]
    words = sum(map(len, tokens))
    plain = _cpu(lambda: plain_epoch(tokens, truth))
    times = {}
    for precision in ("float32", "auto"):
        settings = LstmSettings(epochs=1, precision=precision)
        times[precision] = _cpu(lambda s=settings: lstm_probabilities(tokens, truth, tokens[:2], 2, 0, s))
    # The limit over the plain one is for what runs by default. torch's own products are MKL's, those of torch.nn.LSTM
    # are oneDNN's, which on some processors are twice as fast in float32; so float32 is held against its products.
    name = str(LstmSettings().dtype).removeprefix("torch.")
    yield _row("LSTM epoch over a plain one, float32 products", times["float32"] / plain, None, source)
    yield _row(f"LSTM epoch over a plain one, {name} products (the default here)", times["auto"] / plain, 0.8, source)
    for dtype, limit in {LstmSettings().dtype: None, torch.float32: 1.5}.items():
        least = words * 13.8e6 / _products_a_second(dtype)
        spent = times["float32" if dtype is torch.float32 else "auto"]
        kind = str(dtype).removeprefix("torch.")
        yield _row(f"LSTM epoch over its bare matrix products, {kind}", spent / least, limit)
    lstm = times["auto"] * EPOCHS * SEEDS
    yield _row("linear screen, 10 splits, over the LSTM's 10 (from one epoch)", _fast(captions, labels) / lstm, 0.02)
    if DATA.is_dir():
        files = sorted([*DATA.glob("gender_*.jsonl"), *DATA.glob("skin_*.jsonl")])
        with _bare_fits() as fits:
            spent = _cpu(lambda: [_screen(path) for path in files])
        note = f"{len(files)} files of 10,780 captions, {spent:.0f} CPU-seconds"
        yield _row("linear screen with 200 shuffles, over its bare fits by liblinear", spent / sum(fits), 2.0, note)


def plain_epoch(tokens: list[list[str]], labels: np.ndarray) -> None:
    """What one would write first: file order, padding to the longest of the batch, ``torch.nn.LSTM``."""
    import torch
    from torch import nn

    index = {word: i + 2 for i, word in enumerate(sorted({w for caption in tokens for w in caption}))}
    embedding = nn.Embedding(len(index) + 2, 100, padding_idx=1)
    lstm = nn.LSTM(100, 256, num_layers=2, bidirectional=True, dropout=0.5)
    last, drop = nn.Linear(512, 1), nn.Dropout(0.5)
    modules = nn.ModuleList([embedding, lstm, last])
    optimiser = torch.optim.Adam(modules.parameters(), lr=5e-5)
    loss_of = nn.BCEWithLogitsLoss()
    for start in range(0, len(tokens), BATCH):
        batch = tokens[start : start + BATCH]
        longest = max(map(len, batch))
        ids = torch.tensor([[index[w] for w in caption] + [1] * (longest - len(caption)) for caption in batch]).T
        _, (hidden, _) = lstm(drop(embedding(ids)))
        logits = last(drop(torch.cat([hidden[-2], hidden[-1]], dim=1)))[:, 0]
        loss = loss_of(logits, torch.tensor(labels[start : start + BATCH]).float())
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()


def _captions() -> tuple[list[list[str]], np.ndarray, str]:
    from equipoise.measure.captions.masking import masked, tokens_of
    from equipoise.text import Lexicon

    path = DATA / "gender_transformer.jsonl"
    if path.exists():
        rows = [json.loads(line) for line in path.open(encoding="utf-8")]
        texts, groups = [row["caption"] for row in rows], [row["gender"] for row in rows]
        source = "captions of the LIC release"
    else:
        from equipoise.world import captions, preset, sample

        scenes = sample(preset("biased"), 10_780, seed=4)
        texts, groups = [captions(scene)[0] for scene in scenes], scenes.labels("gender").tolist()
        source = "captions of the pictogram world"
    made = tokens_of(masked(texts, Lexicon.load("lic")))
    return made, np.array([group == "female" for group in groups]).astype(np.int64), source


def _products_a_second(dtype: Any) -> float:
    import torch

    a, b = torch.randn(704, 512).to(dtype), torch.randn(512, 2048).to(dtype)
    a @ b
    return 50 * 2 * 704 * 512 * 2048 / _cpu(lambda: [a @ b for _ in range(50)])


def _fast(captions: list[list[str]], labels: np.ndarray) -> float:
    from equipoise.measure.captions.splits import balanced_split
    from equipoise.models.caption_classifiers import classifier

    def work() -> None:
        reader = classifier("fast").read(captions)
        for seed in range(SEEDS):
            split = balanced_split(labels, seed)
            reader.probabilities(split.train, labels[split.train], split.test, 2, seed)

    return _cpu(work)


def _screen(path: Path) -> float:
    from equipoise.audit.captions.lic import measure_lic

    axis = path.name.split("_")[0]
    rows = [json.loads(line) for line in path.open(encoding="utf-8")]
    label = next(name for name in rows[0] if name not in ("image_id", "caption"))
    said = {row["image_id"]: row["caption"] for row in rows}
    groups = {row["image_id"]: row[label] for row in rows}
    return measure_lic(said, groups, mask="lic" if axis == "gender" else None).lic_m.value


@contextmanager
def _bare_fits() -> Iterator[list[float]]:
    """What each call of liblinear takes, while the block is open."""
    from sklearn.linear_model import _logistic

    fit, seconds = _logistic._fit_liblinear, []

    def timed(*arguments: Any, **named: Any) -> Any:
        began = time.process_time()
        try:
            return fit(*arguments, **named)
        finally:
            seconds.append(time.process_time() - began)

    with patch.object(_logistic, "_fit_liblinear", timed):
        yield seconds


def _cpu(work: Any) -> float:
    began = time.process_time()
    work()
    return time.process_time() - began


def _row(name: str, value: float, limit: float | None = None, note: str = "") -> dict[str, Any]:
    ok = None if limit is None else value <= limit
    return {"name": name, "value": value, "unit": "times", "limit": limit, "ok": ok, "note": note}
