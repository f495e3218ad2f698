"""A real browser driven over its DevTools pipe, and result folders to make pages from."""

from __future__ import annotations

import base64
import contextlib
import itertools
import json
import os
import select
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from equipoise.data import Table
from equipoise.data.images import encode

CHROMIUM = shutil.which("chromium")
FLAGS = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync --disable-extensions --hide-scrollbars --remote-debugging-pipe"
).split()


class Browser:
    """Chromium on two pipes: commands as JSON, each ended by a null byte; no port, no network, no package."""

    def __init__(self, home: Path) -> None:
        to_read, self._write = os.pipe()
        self._read, to_write = os.pipe()

        def place() -> None:  # the browser reads from 3 and writes to 4; neither source may lie on the other's place
            high_read, high_write = os.dup(to_read), os.dup(to_write)
            while high_read < 5 or high_write < 5:
                high_read, high_write = os.dup(high_read), os.dup(high_write)
            os.dup2(high_read, 3)
            os.dup2(high_write, 4)

        self.process = subprocess.Popen(
            [CHROMIUM or "chromium", *FLAGS, f"--user-data-dir={home}", "about:blank"],
            preexec_fn=place,
            close_fds=False,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(to_read)
        os.close(to_write)
        self._ids = itertools.count(1)
        self._buffer = b""
        self.events: list[dict[str, Any]] = []

    def call(self, method: str, session: str | None = None, **params: Any) -> dict[str, Any]:
        number = next(self._ids)
        message: dict[str, Any] = {"id": number, "method": method, "params": params}
        if session:
            message["sessionId"] = session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next(60)
            if answer.get("id") == number:
                assert "error" not in answer, answer["error"]
                return answer.get("result", {})
            self.events.append(answer)

    def _next(self, seconds: float) -> dict[str, Any]:
        end = time.monotonic() + seconds
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._read], [], [], max(0.0, end - time.monotonic()))
            assert ready, "the browser does not answer"
            piece = os.read(self._read, 1 << 20)
            assert piece, "the browser has gone"
            self._buffer += piece
        message, self._buffer = self._buffer.split(b"\0", 1)
        return json.loads(message)

    def wait_for(self, method: str, session: str) -> None:
        while not any(e.get("method") == method and e.get("sessionId") == session for e in self.events):
            self.events.append(self._next(60))

    def open(self, page: Path, *, width: int = 1280, height: int = 900, dark: bool = False) -> Tab:
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable", session)
        tab = Tab(self, session, target)
        tab.resize(width, height)
        scheme = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        self.call("Emulation.setEmulatedMedia", session, features=scheme)
        self.call("Page.navigate", session, url=page.resolve().as_uri())
        self.wait_for("Page.loadEventFired", session)
        return tab

    def close(self) -> None:
        with contextlib.suppress(AssertionError, OSError):
            self.call("Browser.close")
        os.close(self._write)
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        os.close(self._read)


class Tab:
    """One page in the browser."""

    def __init__(self, browser: Browser, session: str, target: str) -> None:
        self.browser, self.session, self.target = browser, session, target

    def run(self, script: str) -> Any:
        found = self.browser.call(
            "Runtime.evaluate", self.session, expression=script, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in found, found["exceptionDetails"]
        return found["result"].get("value")

    def key(self, name: str, code: int, text: str = "") -> None:
        for kind in ("keyDown", "keyUp"):
            more = {"text": text} if text and kind == "keyDown" else {}
            self.browser.call(
                "Input.dispatchKeyEvent", self.session, type=kind, key=name, windowsVirtualKeyCode=code, **more
            )

    def resize(self, width: int, height: int) -> None:
        self.browser.call(
            "Emulation.setDeviceMetricsOverride",
            self.session,
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=width < 600,
        )

    def screenshot(self, path: Path, *, whole: bool = False) -> Path:
        found = self.browser.call("Page.captureScreenshot", self.session, format="png", captureBeyondViewport=whole)
        if whole:
            size = self.browser.call("Page.getLayoutMetrics", self.session)["cssContentSize"]
            clip = {"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1}
            found = self.browser.call(
                "Page.captureScreenshot", self.session, format="png", captureBeyondViewport=True, clip=clip
            )
        path.write_bytes(base64.b64decode(found["data"]))
        return path

    def messages(self) -> list[str]:
        """Everything that went to the console, and every exception."""
        mine = [e for e in self.browser.events if e.get("sessionId") == self.session]
        told = [json.dumps(e["params"]) for e in mine if e["method"] in ("Runtime.exceptionThrown", "Log.entryAdded")]
        return told + [json.dumps(e["params"]) for e in mine if e["method"] == "Runtime.consoleAPICalled"]

    def requests(self) -> list[str]:
        """Every address that the page asked for, data inside the page aside."""
        mine = [e for e in self.browser.events if e.get("sessionId") == self.session]
        asked = [e["params"]["request"]["url"] for e in mine if e["method"] == "Network.requestWillBeSent"]
        return [url for url in asked if not url.startswith(("data:", "about:"))]


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    if CHROMIUM is None or os.name != "posix":
        pytest.skip("no chromium on this machine")
    started = Browser(tmp_path_factory.mktemp("chromium"))
    yield started
    started.close()


SUBJECTS = ("builder", "nurse", "pilot", "teacher", "chef", "judge", "web developer", "developer")
LEANING = {"nurse": 1.0, "teacher": 0.7, "chef": 0.4, "judge": -0.4, "pilot": -0.7, "builder": -1.0}
"""How strongly each subject leans to "female" in the biased model; the others do not."""


def toy_rows(subjects: tuple[str, ...] = SUBJECTS, sets: int = 6) -> list[dict]:
    rows = []
    for number, subject in enumerate(subjects):
        for place in range(sets):
            for gender in ("female", "male"):
                for tone in ("dark", "light"):
                    shade = 200 if tone == "light" else 60
                    colour = (shade, 40 * (gender == "male") + 20, (37 * number) % 255)
                    image = {"bytes": encode(Image.new("RGB", (48, 48), colour)), "path": None}
                    name = f"{subject}-{place}-{gender}-{tone}"
                    rows.append(
                        {
                            "image_id": name,
                            "set_id": f"{subject}-{place}",
                            "subject": subject,
                            "gender": gender,
                            "skin_tone": tone,
                            "label_source": "world",
                            "image": image,
                        }
                    )
    return rows


def toy_scores(rows: list[dict], strength: float, seed: int) -> list[dict]:
    """Scores of "A photo of …": noise, what the subject leans to, and the subject itself."""
    from equipoise.text.english.articles import with_article

    rng = np.random.default_rng(seed)
    subjects = sorted({row["subject"] for row in rows})
    made = []
    for subject in subjects:
        text = f"A photo of {with_article(subject)}"
        for row in rows:
            lean = LEANING.get(row["subject"], 0.0) * (1 if row["gender"] == "female" else -1)
            score = float(rng.normal()) * 0.3 + strength * lean + (row["subject"] == subject)
            made.append({"image_id": row["image_id"], "text_id": text, "score": score})
    return made


@pytest.fixture(scope="session")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table of sets, the audit of a biased model and of a repaired one beside it, and a filter's funnel."""
    from equipoise.audit import run

    home = tmp_path_factory.mktemp("runs")
    rows = toy_rows()
    table = Table.create(home / "sets", rows, axes=["gender", "skin_tone"])
    for name, strength in (("biased", 0.6), ("repaired", 0.02)):
        scores = Table.create(home / f"{name}-scores", toy_scores(rows, strength, seed=len(name)), kind="scores")
        settings = {"prompts": ("A photo of {a}",), "k": (6,), "draws": 300}
        run(f"{name} model", "intersectional", table, home / name, config=settings, scores=scores)
    (home / "filters").mkdir()
    (home / "filters" / "funnel.csv").write_text(
        "step,group,subject,kept,dropped\n"
        "sharp,female & dark,nurse,90,10\nsharp,male & light,nurse,99,1\n"
        "person,female & dark,nurse,60,30\nperson,male & light,nurse,95,4\n"
    )
    return home


@pytest.fixture(scope="session")
def truth() -> pd.DataFrame:
    """What was put into the biased model."""
    rows = [
        {"subject": s, "axis": "gender", "group": group, "log_odds": sign * LEANING.get(s, 0.0)}
        for s in SUBJECTS
        for group, sign in (("female", 1), ("male", -1))
    ]
    return pd.DataFrame(rows)


@pytest.fixture(scope="session")
def captions_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of ``equipoise captions``: a captioner that gives the group away."""
    from equipoise.audit.captions.run import CaptionSettings, audit_captions

    home = tmp_path_factory.mktemp("captions")
    rng = np.random.default_rng(0)
    captions, human = [], []
    for i in range(300):
        group = ("male", "female")[int(rng.random() < 0.5)]
        telling = "red" if (group == "female") == (rng.random() < 0.85) else "blue"
        neutral = ("red", "blue")[int(rng.random() < 0.5)]
        captions.append({"image_id": i, "caption": f"a person with a {telling} umbrella"})
        human.append({"image_id": i, "captions": [f"a person with a {neutral} umbrella"], "gender": group})
    (home / "model.json").write_text(json.dumps(captions))
    (home / "human.jsonl").write_text("".join(json.dumps(row) + "\n" for row in human))
    settings = CaptionSettings(seeds=2, permutations=10, quality=False, ba_least=5)
    audit_captions([str(home / "model.json")], home / "human.jsonl", "gender", home / "out", settings=settings)
    return home / "out"


@pytest.fixture(scope="session")
def page(runs: Path, truth: pd.DataFrame, captions_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A page with everything on it."""
    from equipoise.report import write

    out = tmp_path_factory.mktemp("page") / "report.html"
    folders = [runs / "biased", runs / "repaired", captions_folder, runs / "filters"]
    pair = runs / "biased", runs / "repaired"
    return write(folders, out, truth=truth, before_after=pair, naive=pair)


@pytest.fixture
def results_folder(tmp_path: Path) -> Callable[..., Path]:
    """A result folder from rows: no audit, only numbers."""
    from equipoise.data.results import write_results

    def make(rows: list[dict[str, Any]], name: str = "results") -> Path:
        write_results(tmp_path / name / "results.parquet", rows)
        return tmp_path / name

    return make
