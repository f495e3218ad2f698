"""Damaged checkpoints, and a service on this machine that answers with whatever it likes."""

from __future__ import annotations

import base64
import io
import json
import random
import shutil
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from hostile import KINDS, PRODUCTS, fuzzed

MINIATURES = Path(__file__).parents[2] / "src" / "equipoise" / "models" / "mini"


class DamagedModels:
    """Copies of miniatures with files that are damaged, missing or of another shape, and commands that load them."""

    def __init__(self, home: Path, out: Path, damage: Callable[[Path, random.Random], Any]) -> None:
        self.home, self.out, self.damage = home, out, damage
        self.place = home / "checkpoints"
        self.place.mkdir()
        (self.place / "beside").mkdir()
        from safetensors.numpy import load_file, save_file

        self.tokens = self.place / "tokens.safetensors"
        width = load_file(MINIATURES / "clip" / "model.safetensors")["text_model.final_layer_norm.weight"]
        save_file({"tokens": width[None].repeat(2, 0)}, self.tokens)

    def case(self, rng: random.Random) -> tuple[list[Any], Callable[[], None]]:
        part = rng.choice(["clip", "clip", "clip", "captioner", "text", "diffusion"])
        folder = self.place / "model"
        shutil.copytree(MINIATURES / part, folder)
        how = rng.random()
        if part == "clip" and how < 0.3:
            fuzzed(rng.randrange(10**9))(folder, self.place / "beside")
        elif part == "clip" and how < 0.5:
            rng.choice(list({**KINDS, **PRODUCTS}.values()))(folder, self.place / "beside")
        else:
            files = sorted(path for path in folder.rglob("*") if path.is_file() and path.name != "README.md")
            for path in rng.sample(files, rng.choice([1, 1, 2])):
                if rng.random() < 0.15:
                    path.unlink()
                else:
                    self.damage(path, rng)
        return rng.choice(self.readers(part, folder)), self.mended

    def readers(self, part: str, folder: Path) -> list[list[Any]]:
        cpu = ["--device", "cpu"]
        if part == "clip":
            tokens = ["models", "convert", "debias-clip", self.tokens, self.out, "--clip", folder]
            audit = ["-s", "intersectional", "-t", self.home / "sets", "--draws", "9", "--k", "4", "--no-report"]
            audited = ["audit", f"hf:{folder}", *audit, "--no-cache", "-o", self.out]
            return [
                ["embed", f"hf:{folder}", self.home / "others", "--no-cache", *cpu, "-o", self.out],
                audited,
                tokens,
            ]
        if part == "captioner":
            return [["caption", f"hf:{folder}", self.home / "few", "--no-cache", *cpu, "-o", self.out]]
        if part == "text":
            return [["text", "activities", self.home / "activities.txt", "-f", f"hf:{folder}", "-o", self.out]]
        scenes = ["--world", "fair", "--activities", "reading_book", "-n", "1", "--steps", "1", *cpu]
        return [["generate", "scenes", self.out, "-g", f"diffusers:{folder}", *scenes, "--dry-run"]]

    def mended(self) -> None:
        shutil.rmtree(self.place / "model", ignore_errors=True)
        assert not (self.place / "beside" / "ran").exists(), "code of the checkpoint was run"
        for path in (self.place / "beside").iterdir():
            path.unlink() if not path.is_dir() else shutil.rmtree(path)


def _picture() -> str:
    from PIL import Image

    target = io.BytesIO()
    Image.new("RGB", (8, 8), "red").save(target, "PNG")
    return base64.b64encode(target.getvalue()).decode()


class BadService:
    """A server that sends the bytes of a case to whoever connects: cut off, dripped, of odd status or nonsense."""

    def __init__(self, home: Path, out: Path, mutations: tuple[Callable[[bytes, random.Random], bytes], ...]) -> None:
        self.home, self.out, self.mutations = home, out, mutations
        self.parts: list[bytes] = []
        self.listening = socket.create_server(("127.0.0.1", 0))
        self.image = json.dumps({"data": [{"b64_json": _picture()}]}).encode()
        self.words = json.dumps({"choices": [{"message": {"content": "a man drinks beer"}}]}).encode()
        threading.Thread(target=self.serve, daemon=True).start()
        self.hurry()

    @staticmethod
    def hurry() -> None:
        """As usual, but with less patience: a case is not worth a quarter of an hour."""
        from equipoise.models.services import Service

        named = Service.named.__func__  # type: ignore[attr-defined]
        less = {"tries": 2, "first_wait": 0.001, "timeout": 0.2, "deadline": 0.3}
        Service.named = classmethod(lambda cls, rest, **options: named(cls, rest, **less | options))  # type: ignore[method-assign,assignment]

    def serve(self) -> None:
        while True:
            connection, _ = self.listening.accept()
            with connection, suppress(OSError):
                connection.settimeout(0.5)
                connection.recv(65536)
                for part in self.parts:
                    connection.sendall(part)
                    if len(self.parts) > 1:
                        time.sleep(0.02)

    def case(self, rng: random.Random) -> tuple[list[Any], Callable[[], None]]:
        self.parts = self.answer(rng)
        address = f"api:http://127.0.0.1:{self.listening.getsockname()[1]}/v1#model"
        scenes = ["generate", "scenes", self.out, "--activities", "drinking_beer", "-n", "1", "-g", address]
        some = ["generate", "substitute", self.home / "sets", self.out, "--alpha", "0.1", "-g", address]
        return rng.choice([scenes, [*scenes, "--writer", address], some]), lambda: None

    def answer(self, rng: random.Random) -> list[bytes]:
        body = rng.choice([self.image, self.image, self.words, b"", b"[]", b"null", b"[" * 100_000, b'{"data": 7}'])
        if rng.random() < 0.4 and body:
            body = rng.choice(self.mutations)(body, rng)
        status = rng.choice(
            ["200 OK", "200 OK", "200 OK", "200", "404 No", "429 Slow", "500 Oh", "302 Go", "999 x", "x"]
        )
        length = rng.choice([len(body), len(body), len(body), len(body) + 7, 3, -1, 10**12, "many"])
        heads = [f"HTTP/1.1 {status}", f"Content-Length: {length}"]
        if rng.random() < 0.3:
            odd = ["Location: /v1", "Location: file:///etc/hostname", "Transfer-Encoding: chunked", "Retry-After: x"]
            odd += ["Content-Encoding: gzip", "X: " + "x" * 70_000, "X", "\0", "Retry-After: 0.001"]
            heads.append(rng.choice(odd))
        data = "\r\n".join(heads).encode() + b"\r\n\r\n" + body
        if rng.random() < 0.2:
            data = rng.choice(self.mutations)(data, rng)
        if rng.random() < 0.1:  # so slowly that it would take minutes
            return [data[i : i + 1] for i in range(min(len(data), 500))]
        return [data]
