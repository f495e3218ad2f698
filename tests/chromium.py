"""A real browser driven over its DevTools pipe."""

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
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

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

    def open(self, page: Path | str, *, width: int = 1280, height: int = 900, dark: bool = False) -> Tab:
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable", session)
        tab = Tab(self, session, target)
        tab.resize(width, height)
        scheme = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        self.call("Emulation.setEmulatedMedia", session, features=scheme)
        self.call("Page.navigate", session, url=page if isinstance(page, str) else page.resolve().as_uri())
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

    def until(self, script: str, seconds: float = 15) -> Any:
        """What ``script`` gives as soon as it gives something."""
        end = time.monotonic() + seconds
        while not (found := self.run(script)):
            assert time.monotonic() < end, f"still not: {script}; {self.run('document.body.innerText')[:600]}"
            time.sleep(0.02)
        return found

    def tap(self, selector: str) -> None:
        """A finger on the middle of an element."""
        script = (
            "(e => { e.scrollIntoView({block: 'center'}); const b = e.getBoundingClientRect();"
            " return [b.x + b.width / 2, b.y + b.height / 2]; })"
        )
        place = self.run(f"{script}(document.querySelector({json.dumps(selector)}))")
        points = [{"x": place[0], "y": place[1]}]
        self.browser.call("Input.dispatchTouchEvent", self.session, type="touchStart", touchPoints=points)
        self.browser.call("Input.dispatchTouchEvent", self.session, type="touchEnd", touchPoints=[])

    def close(self) -> None:
        self.browser.call("Target.closeTarget", targetId=self.target)

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
