"""The api: generator against a server on this machine."""

from __future__ import annotations

import base64
import contextlib
import io
import json
import pickle
import socket
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from equipoise.data import Table
from equipoise.engine import JobError
from equipoise.errors import InputError, UnknownNameError
from equipoise.generate import ScenesConfig, plan_scenes, plan_substitute, run
from equipoise.generate.rewriting import rewriter, writer
from equipoise.models.image_api import from_api
from equipoise.models.protocols import Generator
from equipoise.models.services import Service


def png(colour: str) -> bytes:
    target = io.BytesIO()
    Image.new("RGB", (8, 8), colour).save(target, "PNG")
    return target.getvalue()


class Server(ThreadingHTTPServer):
    """Answers as it is told to: ``script`` holds (status, headers, body) in order; then images."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Answering)
        self.script: list[tuple[int, dict[str, str], bytes]] = []
        self.asked: list[dict[str, Any]] = []
        self.keys: list[str | None] = []
        self.by_address = False

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/v1"


class Answering(BaseHTTPRequestHandler):
    server: Server

    def log_message(self, *_: Any) -> None:
        pass

    def do_GET(self) -> None:
        self.server.keys.append(self.headers.get("Authorization"))
        self._send(200, {}, png("green"))

    def do_POST(self) -> None:
        content = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.asked.append({"path": self.path, **content})
        self.server.keys.append(self.headers.get("Authorization"))
        if self.server.script:
            self._send(*self.server.script.pop(0))
        elif self.path.endswith("/chat/completions"):
            said = f"temperature {content['temperature']}: {content['messages'][0]['content']}"
            self._send(200, {}, json.dumps({"choices": [{"message": {"content": said}}]}).encode())
        elif "forbidden" in content["prompt"]:
            self._send(400, {}, json.dumps({"error": {"message": "This prompt is against\nour rules."}}).encode())
        else:
            made = (
                {"url": f"{self.server.url}/file"}
                if self.server.by_address
                else {"b64_json": base64.b64encode(png("red")).decode()}
            )
            self._send(200, {}, json.dumps({"data": [made]}).encode())

    def _send(self, status: int, headers: dict[str, str], body: bytes) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    with Server() as made:
        thread = threading.Thread(target=made.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        yield made
        made.shutdown()
        thread.join()


@pytest.fixture
def waits() -> list[float]:
    return []


def test_one_image_a_prompt(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "secret")
    made = from_api(f"{server.url}#pictures", size="8x8", quality="hd")
    assert isinstance(made, Generator)
    images = made.generate(["a nurse", "a chef"], seed=1)
    assert [image.getpixel((0, 0)) for image in images] == [(255, 0, 0)] * 2
    assert server.asked[1] == {
        "path": "/v1/images/generations",
        "model": "pictures",
        "prompt": "a chef",
        "n": 1,
        "size": "8x8",
        "quality": "hd",
    }
    assert server.keys == ["Bearer secret"] * 2


def test_an_image_by_address_is_fetched_without_the_key(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "secret")
    server.by_address = True
    image = from_api(f"{server.url}#pictures").generate(["a nurse"], seed=1)[0]
    assert image.getpixel((0, 0)) == (0, 128, 0)
    assert server.keys == ["Bearer secret", None]


@pytest.mark.parametrize("status", [301, 302, 303])
def test_the_key_does_not_follow_a_redirect(server: Server, monkeypatch: pytest.MonkeyPatch, status: int) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "secret")
    server.script = [(status, {"Location": f"http://localhost:{server.server_address[1]}/elsewhere"}, b"")]
    with pytest.raises(InputError, match="did not answer with JSON"):
        from_api(f"{server.url}#pictures").generate(["a nurse"], seed=1)
    assert server.keys == ["Bearer secret", None]


def test_a_busy_service_is_asked_again(server: Server, waits: list[float]) -> None:
    server.script = [(429, {"Retry-After": "7"}, b""), (503, {}, b""), (500, {}, b"")]
    made = from_api(f"{server.url}#pictures", sleep=waits.append, first_wait=1.0)
    assert made.generate(["a nurse"], seed=1)[0].size == (8, 8)
    assert waits == [7.0, 14.0, 28.0], "as long as the service says, then twice as long each time"
    assert len(server.asked) == 4


def test_a_service_that_stays_down_is_given_up(server: Server, waits: list[float]) -> None:
    server.script = [(503, {}, b"")] * 9
    made = from_api(f"{server.url}#pictures", sleep=waits.append, tries=3)
    with pytest.raises(ConnectionError, match="3 tries; the last said: 503"):
        made.generate(["a nurse"], seed=1)
    assert waits == [1.0, 2.0]


def test_nobody_there(waits: list[float]) -> None:
    made = from_api("http://127.0.0.1:9/v1#pictures", sleep=waits.append, tries=2)
    with pytest.raises(ConnectionError, match="2 tries"):
        made.generate(["a nurse"], seed=1)


def test_a_refusal_is_told_in_the_services_words_and_not_repeated(server: Server, waits: list[float]) -> None:
    made = from_api(f"{server.url}#pictures", sleep=waits.append)
    with pytest.raises(InputError, match=r"refused: 400 This prompt is against our rules\."):
        made.generate(["a forbidden thing"], seed=1)
    assert len(server.asked) == 1
    assert waits == []


def test_requests_keep_to_the_rate(server: Server, waits: list[float]) -> None:
    made = from_api(f"{server.url}#pictures", sleep=waits.append, per_minute=30)
    made.generate(["a", "b", "c"], seed=1)
    # Nothing really sleeps here, so the second waits for its turn 2 s after the first, the third 4 s.
    assert len(waits) == 2
    assert 1 < waits[0] <= 2 < waits[1] <= 4


@pytest.mark.parametrize("body", [b"no json", b"[]", b'{"data": []}', b'{"data": [{"b64_json": "AAAA"}]}', b"{}"])
def test_nonsense_is_refused(server: Server, body: bytes) -> None:
    server.script = [(200, {}, body)]
    with pytest.raises(InputError):
        from_api(f"{server.url}#pictures").generate(["a nurse"], seed=1)


@pytest.mark.parametrize(
    ("rest", "options", "words"),
    [
        ("https://service.invalid/v1", {}, "must be api:<url>#<model>"),
        ("service#pictures", {}, "must be api:<url>#<model>"),
        ("http://service.invalid/v1#pictures", {}, "use https"),
        ("https://service.invalid/v1#pictures", {"size": "large"}, "size='large'"),
        ("https://service.invalid/v1#pictures", {"price": -1}, "price=-1"),
        ("https://service.invalid/v1#pictures", {"per_minute": 0}, "per_minute=0"),
    ],
)
def test_specs_that_cannot_be(rest: str, options: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        from_api(rest, **options)


def test_a_key_is_needed_away_from_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with pytest.raises(InputError, match="OPENAI_API_KEY"):
        from_api("https://service.invalid/v1#pictures").generate(["a"], seed=0)
    with pytest.raises(UnknownNameError, match="first_wait"):
        Service.named("https://service.invalid/v1#pictures", first_wai=3)


def test_what_a_service_cannot_do(server: Server) -> None:
    made = from_api(f"{server.url}#pictures")
    for call in (
        lambda: made.generate_set(["a"], seed=0, share=0.5),
        lambda: made.edit([], [], seed=0),
        lambda: made.inpaint([], [], [], seed=0),
        lambda: made.generate(["a"], seed=0, steps=20),
    ):
        with pytest.raises(InputError, match=r"cannot|takes none"):
            call()
    assert pickle.loads(pickle.dumps(made)).name == made.name, "workers elsewhere get a copy"


def test_a_whole_job_with_one_refused_prompt(server: Server, tmp_path: Path) -> None:
    def forbid(prompt: str, earlier: Any, seed: int) -> str:
        return "a forbidden thing" if "woman is drinking" in prompt else prompt

    plan = plan_scenes(["drinking_beer"], ScenesConfig(per_cell=1, groups=("E1", "U1")), rewrite=forbid)
    table = run(plan, tmp_path / "out", from_api(f"{server.url}#pictures"), progress=False)
    assert table.to_pandas()["cell"].tolist() == ["E1"]
    assert "against our rules" in table.errors()["reason"][0]
    before = len(server.asked)
    again = run(plan, tmp_path / "out", from_api(f"{server.url}#pictures"), progress=False)
    assert len(again) == 1
    assert len(server.asked) == before, "what is there is not paid for twice"


def test_no_image_is_paid_twice_because_another_was_refused(server: Server, tmp_path: Path) -> None:
    rows = [{"image_id": str(i), "caption": "a forbidden thing" if i == 2 else f"thing {i}"} for i in range(6)]
    real = Table.create(tmp_path / "real", rows)
    made = run(plan_substitute(real), tmp_path / "generated", from_api(f"{server.url}#pictures"), progress=False)
    assert (len(made), made.errors()["where"].tolist()) == (5, ["2"])
    assert sorted(call["prompt"] for call in server.asked) == sorted(row["caption"] for row in rows)


def test_a_service_that_goes_down_stops_the_run_and_costs_no_prompt(
    server: Server, waits: list[float], tmp_path: Path
) -> None:
    plan = plan_scenes(["drinking_beer"], ScenesConfig(per_cell=1))
    image = json.dumps({"data": [{"b64_json": base64.b64encode(png("red")).decode()}]}).encode()
    server.script = [(200, {}, image), *[(503, {}, b"")] * 6]
    service = {"sleep": waits.append, "tries": 6}
    with pytest.raises(JobError, match=r"did not answer in 6 tries.*run it again"):
        run(plan, tmp_path / "out", from_api(f"{server.url}#pictures", **service), tasks_per_shard=1, progress=False)
    table = run(plan, tmp_path / "out", from_api(f"{server.url}#pictures"), tasks_per_shard=1, progress=False)
    assert (len(table), table.n_errors) == (4, 0)
    assert len(server.asked) == 1 + 6 + 3, "what was there is not asked for again"


def test_the_same_service_writes_and_what_it_wrote_is_kept(server: Server, tmp_path: Path) -> None:
    for _ in range(2):
        assert writer(f"api:{server.url}#words", kept_in=tmp_path)("hello", 0.5, 3) == "temperature 0.5: hello"
    assert len(server.asked) == 1, "paid for once"
    next(tmp_path.iterdir()).write_text("{")
    assert writer(f"api:{server.url}#words", kept_in=tmp_path)("hello", 0.5, 3) == "temperature 0.5: hello"
    with pytest.raises(InputError, match="must be api:"):
        writer("gpt")


def test_a_writer_that_goes_down_stops_the_plan_in_a_sentence_and_goes_on_from_there(
    server: Server, waits: list[float], tmp_path: Path
) -> None:
    def planned() -> Any:
        service = {"sleep": waits.append, "tries": 3, "kept_in": tmp_path}
        write = rewriter(writer(f"api:{server.url}#words", **service), least=5)
        return plan_scenes(["drinking_beer"], ScenesConfig(per_cell=1), rewrite=write)

    words = json.dumps({"choices": [{"message": {"content": "a nurse at dawn"}}]}).encode()
    server.script = [(200, {}, words), *[(503, {}, b"")] * 3]
    with pytest.raises(JobError, match=r"did not answer in 3 tries.*run it again"):
        planned()
    first = [task["prompt"] for task in planned().tasks()]
    assert first[0] == "a nurse at dawn"
    assert len(server.asked) == 1 + 3 + 3, "the prompt that was there is not asked for again"
    assert [task["prompt"] for task in planned().tasks()] == first
    assert len(server.asked) == 7


class Raw:
    """A server that sends what it is told to, byte by byte if need be, and closes: ``script`` holds lists of pieces."""

    def __init__(self, script: list[list[bytes]], pause: float = 0.0) -> None:
        self.script, self.pause, self.asked = script, pause, 0
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.socket.getsockname()[1]}/v1"
        self.thread = threading.Thread(target=self._serve, daemon=True)
        self.thread.start()

    def _serve(self) -> None:
        while True:
            try:
                client, _ = self.socket.accept()
            except OSError:
                return
            with client, contextlib.suppress(OSError):
                client.recv(1 << 16)
                pieces = self.script[min(self.asked, len(self.script) - 1)]
                self.asked += 1
                for piece in pieces:
                    client.sendall(piece)
                    time.sleep(self.pause)

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self.socket.shutdown(socket.SHUT_RDWR)
        self.socket.close()
        self.thread.join(5)


@contextlib.contextmanager
def raw(monkeypatch: pytest.MonkeyPatch, *script: list[bytes], pause: float = 0.0) -> Iterator[Raw]:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    made = Raw(list(script), pause)
    try:
        yield made
    finally:
        made.close()


HEAD = b"HTTP/1.1 200 OK\r\n"
WHOLE = json.dumps({"choices": [{"message": {"content": "hello"}}]}).encode()
GOOD = [HEAD + b"Content-Length: %d\r\n\r\n" % len(WHOLE) + WHOLE]


@pytest.mark.parametrize(
    "dripping",
    [
        [bytes([byte]) for byte in HEAD * 100],
        [HEAD, *[b"X-Wait: 1\r\n"] * 500],
        [HEAD + b"Content-Length: 1000\r\n\r\n", *[b" "] * 500],
        [HEAD + b"\r\n", *[b" "] * 500],
        [HEAD + b"Transfer-Encoding: chunked\r\n\r\n", *[b"1\r\n \r\n"] * 500],
        [b"HTTP/1.1 503 No\r\nContent-Length: 1000\r\n\r\n", *[b" "] * 500],
    ],
    ids=["status", "head", "body", "body of no length", "chunks", "error"],
)
def test_a_service_that_drips_is_given_up(monkeypatch: pytest.MonkeyPatch, dripping: list[bytes]) -> None:
    start = time.monotonic()
    with raw(monkeypatch, dripping, pause=0.05) as slow:
        service = Service.named(f"{slow.url}#words", timeout=5.0, deadline=0.3, first_wait=0.01, tries=9)
        with pytest.raises(ConnectionError, match=r"within 0\.3 seconds, in \d tries"):
            service.chat("hello", temperature=0.5, seed=1)
    assert time.monotonic() - start < 10, "the pieces alone take 25 seconds per try"


@pytest.mark.parametrize(
    "broken",
    [
        [b"HTTP/1.1 2"],
        [b"nonsense\r\n\r\n"],
        [b"HTTP/1.1 abc OK\r\n\r\n"],
        [b""],
        [b"\x00" * 70_000],
        [HEAD + b"Content-Length: 900\r\n\r\n" + WHOLE],
        [HEAD + b"\r\n" + WHOLE[:-3]],
        [HEAD + b"Transfer-Encoding: chunked\r\n\r\nff\r\n{"],
        [HEAD + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n{"],
    ],
    ids=["status", "nonsense", "no number", "nothing", "long", "length", "no length", "chunk", "chunk size"],
)
def test_an_answer_that_breaks_off_is_asked_for_again(monkeypatch: pytest.MonkeyPatch, broken: list[bytes]) -> None:
    waits: list[float] = []
    with raw(monkeypatch, broken, broken, GOOD) as server:
        service = Service.named(f"{server.url}#words", timeout=5.0, sleep=waits.append)
        assert service.chat("hello", temperature=0.5, seed=1) == "hello"
        assert server.asked == 3
    assert len(waits) == 2


@pytest.mark.parametrize("status", [401, 503, 200])
def test_a_key_that_the_service_repeats_is_not_printed(
    server: Server, monkeypatch: pytest.MonkeyPatch, waits: list[float], status: int
) -> None:
    key = "sk-very-secret/0123456789"
    monkeypatch.setenv("OPENAI_API_KEY", f"  {key}\n")
    for body in (
        json.dumps({"error": {"message": f"Incorrect key {key}."}}),
        json.dumps({"error": {"message": "x" * 290 + key}}),
        f"Bearer {key}",
        "y" * 60 + key,
        json.dumps({"data": [{"url": f"ftp://127.0.0.1/{key}"}]}),
        json.dumps([key]),
    ):
        server.script = [(status, {}, body.encode())] * 3
        made = from_api(f"{server.url}#pictures", sleep=waits.append, tries=3)
        with pytest.raises((InputError, ConnectionError)) as caught:
            made.generate(["a nurse"], seed=1)
        assert "secret" not in str(caught.value)
        server.script = []
    assert set(server.keys) == {f"Bearer {key}"}


def test_keys_and_addresses_that_cannot_be_are_not_printed_either(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    for key in ("sk-secret\nX-Other: 1", "sk-secr\u00e9t", "sk-secret\x07"):
        monkeypatch.setenv("OPENAI_API_KEY", key)
        with pytest.raises(InputError, match="characters that no key has") as caught:
            from_api(f"{server.url}#pictures").generate(["a nurse"], seed=1)
        assert "sk-" not in str(caught.value)
    with pytest.raises(InputError, match="password") as caught:
        from_api("https://ann:secret@service.invalid/v1#pictures")
    assert "secret" not in str(caught.value)
    for url in ("http://[::1/v1#x", "https://host:port/v1#x"):
        with pytest.raises(InputError, match="must be api:"):
            from_api(url)
