"""Hostile checkpoints, made from a harmless one: each kind is a function that spoils a copy of it.

What they would do if they were believed: run ``evil.py`` or a pickle, both of which leave the file ``ran`` behind, read
``outside``, or ask for sizes that take minutes and gigabytes.
"""

from __future__ import annotations

import json
import os
import pickle
import random
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

Spoil = Callable[[Path, Path], None]
"""Given the folder of a checkpoint and a folder beside it, in which ``ran`` must not appear."""

AUTO_MAP = {name: f"evil.{name}" for name in ("AutoConfig", "AutoModel", "AutoTokenizer", "AutoImageProcessor")}


class Payload:
    """A pickle that leaves a file behind when it is opened."""

    def __init__(self, mark: Path) -> None:
        self.mark = str(mark)

    def __reduce__(self) -> Any:
        return os.mkdir, (self.mark,)


def changed(path: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    content = json.loads(path.read_text()) if path.exists() else {}
    made = change(content)
    path.write_text(json.dumps(content if made is None else made))


def said(file: str, *keys: str, **values: Any) -> Spoil:
    """Settings of ``file``, below ``keys``, that say ``values``."""

    def spoil(folder: Path, beside: Path) -> None:
        def change(content: dict[str, Any]) -> None:
            for key in keys:
                content = content.setdefault(key, {})
            content.update(values)

        changed(folder / file, change)

    return spoil


def code_in(file: str, *keys: str) -> Spoil:
    def spoil(folder: Path, beside: Path) -> None:
        (folder / "evil.py").write_text(f"import os\nos.mkdir({str(beside / 'ran')!r})\n")
        said(file, *keys, auto_map=AUTO_MAP)(folder, beside)

    return spoil


def disguised_code(folder: Path, beside: Path) -> None:
    code_in("config.json")(folder, beside)
    path = folder / "config.json"
    path.write_text(path.read_text().replace('"auto_map"', '"auto\\u005fmap"'))


def linked(file: str, target: str, *, real: bool = True) -> Spoil:
    def spoil(folder: Path, beside: Path) -> None:
        path = folder / file
        if real and path.exists():
            (beside / "outside").write_bytes(path.read_bytes())
        path.unlink(missing_ok=True)
        path.parent.mkdir(exist_ok=True)
        path.symlink_to(target.format(beside=beside, folder=folder))

    return spoil


def piped(file: str) -> Spoil:
    def spoil(folder: Path, beside: Path) -> None:
        (folder / file).unlink(missing_ok=True)
        os.mkfifo(folder / file)

    return spoil


def indexed(value: Any, file: str = "model.safetensors", *, name: str = "") -> Spoil:
    """Weights that an index names as ``value``; the true ones are moved there, where it is a path."""

    def spoil(folder: Path, beside: Path) -> None:
        data = (folder / file).read_bytes()
        (folder / file).unlink()
        if isinstance(value, str):
            where = Path(value.format(beside=beside))
            where = where if where.is_absolute() else folder / where
            where.parent.mkdir(parents=True, exist_ok=True)
            where.write_bytes(data if where.suffix == ".safetensors" else pickle.dumps(Payload(beside / "ran")))
        part = value.format(beside=beside) if isinstance(value, str) else value
        index = {"metadata": {}, "weight_map": {"logit_scale": part}}
        (folder / (name or f"{file}.index.json")).write_text(json.dumps(index))

    return spoil


def bare_index(text: str) -> Spoil:
    def spoil(folder: Path, beside: Path) -> None:
        (folder / "model.safetensors").unlink()
        (folder / "model.safetensors.index.json").write_text(text)

    return spoil


def pickled(file: str, *, instead: str = "model.safetensors") -> Spoil:
    """A pickle under the name ``file``, and no weights besides."""

    def spoil(folder: Path, beside: Path) -> None:
        if instead:
            (folder / instead).unlink()
        (folder / file).write_bytes(pickle.dumps(Payload(beside / "ran")))

    return spoil


def written(file: str, data: bytes) -> Spoil:
    def spoil(folder: Path, beside: Path) -> None:
        (folder / file).write_bytes(data)

    return spoil


def headed(header: dict[str, Any] | bytes, length: int | None = None) -> Spoil:
    head = header if isinstance(header, bytes) else json.dumps(header).encode()
    return written("model.safetensors", struct.pack("<Q", len(head) if length is None else length) + head)


def nested(depth: int) -> bytes:
    return b'{"model_type": "clip", "text_config": ' + b'{"a": ' * depth + b"1" + b"}" * (depth + 1)


HUGE = {
    "a layer for everyone": said("config.json", "vision_config", num_hidden_layers=10**7),
    "layers of text": said("config.json", "text_config", num_hidden_layers=10**7),
    "layers as a float": said("config.json", "text_config", num_hidden_layers=1e9),
    "layers without end": said("config.json", "text_config", num_hidden_layers=float("inf")),
    "labels": said("config.json", num_labels=10**9),
    "positions": said("config.json", "text_config", max_position_embeddings=10**9),
    "one large image": said("config.json", "vision_config", image_size=10**7),
    "beyond all numbers": said("config.json", "text_config", vocab_size=10**30),
    "digits": written("config.json", b'{"model_type": "clip", "projection_dim": ' + b"9" * 6000 + b"}"),
    "depth": written("config.json", nested(100_000)),
    "some depth": written("config.json", nested(200)),
    "a long file": written("config.json", b'{"model_type": "clip", "x": "' + b"x" * (9 << 20) + b'"}'),
    "crop": said("preprocessor_config.json", "crop_size", height=10**6, width=10**6),
    "edge": said("preprocessor_config.json", "size", shortest_edge=10**6),
    "a head longer than the file": headed(b"{}", length=2**63 - 1),
    "a tensor larger than the file": headed(
        {"logit_scale": {"dtype": "F32", "shape": [10**6, 10**6], "data_offsets": [0, 4]}}
    ),
    "a negative shape": headed({"logit_scale": {"dtype": "F32", "shape": [-4], "data_offsets": [0, 4]}}),
    "no shape": headed({"logit_scale": 5}),
    "no head": written("model.safetensors", b""),
}
"""Sizes that are refused before anything is built."""

PRODUCTS = {
    "words times width": said("config.json", "text_config", vocab_size=10**9),
    "width": said("config.json", "text_config", hidden_size=10**6, num_attention_heads=2),
    "inner width": said("config.json", "vision_config", intermediate_size=10**8),
    "projection": said("config.json", projection_dim=10**9),
    "many positions": said("config.json", "text_config", max_position_embeddings=10**7),
    "many patches": said("config.json", "vision_config", image_size=80_000),
    "seventy layers": said("config.json", "text_config", num_hidden_layers=70, intermediate_size=10**6),
}
"""Sizes that are only seen to be too large when they are multiplied."""

KINDS: dict[str, Spoil] = {
    **{
        f"code in {file}": code_in(file)
        for file in (
            "config.json",
            "preprocessor_config.json",
            "processor_config.json",
            "tokenizer_config.json",
            "generation_config.json",
            "video_preprocessor_config.json",
            "feature_extractor_config.json",
            "special_tokens_map.json",
        )
    },
    "code in a nested config": code_in("config.json", "text_config"),
    "code in a config of a config": code_in("config.json", "vision_config", "backbone_config"),
    "code in a subfolder": lambda folder, beside: (
        (folder / "clip").mkdir(),  # type: ignore[func-returns-value]
        code_in("clip/config.json")(folder, beside),  # type: ignore[func-returns-value]
    )[1],
    "disguised code": disguised_code,
    "a kernel": said("config.json", "text_config", _attn_implementation="somebody/kernel"),
    "arguments for the tokenizer": said("tokenizer_config.json", init_inputs=["/etc/hostname"]),
    "a vocabulary elsewhere": lambda folder, beside: (
        (beside / "outside").write_text("secret"),
        said("tokenizer_config.json", vocab_file=str(beside / "outside"))(folder, beside),  # type: ignore[func-returns-value]
    )[1],
    "an adapter": written("adapter_config.json", b'{"base_model_name_or_path": "/elsewhere"}'),
    "settings elsewhere": linked("config.json", "{beside}/outside"),
    "weights elsewhere": linked("model.safetensors", "{beside}/outside"),
    "words elsewhere": linked("tokenizer.json", "{beside}/outside"),
    "a relative way out": linked("model.safetensors", "../beside/outside"),
    "zeros without end": linked("preprocessor_config.json", "/dev/zero", real=False),
    "a folder elsewhere": linked("extra", "/", real=False),
    "a loop": linked("vocab.json", "vocab.json", real=False),
    "a link to nothing": linked("vocab.json", "{beside}/nothing", real=False),
    "a pipe": piped("preprocessor_config.json"),
    "a pipe for weights": piped("model.safetensors"),
    "an index to a pickle": indexed("weights.bin"),
    "an index to a hidden pickle": indexed("weights.safetensors.bin"),
    "an index out of the folder": indexed("../beside/outside.safetensors"),
    "an index to anywhere": indexed("{beside}/outside.safetensors"),
    "an index into a subfolder": indexed("deep/model.safetensors"),
    "an index to a number": indexed(7),
    "an index to a list": indexed(["model.safetensors"]),
    "an index to nothing": bare_index('{"weight_map": {}}'),
    "an index to what is not there": bare_index('{"weight_map": {"a": "b.safetensors"}}'),
    "an index that is a list": bare_index("[]"),
    "an index of another form": bare_index('{"weight_map": ["a.safetensors"]}'),
    "a nested index": bare_index('{"weight_map": ' + "[" * 100_000),
    "an index of pickles to safetensors": indexed("a.safetensors", name="pytorch_model.bin.index.json"),
    **{
        f"a pickle named {name}": pickled(name)
        for name in (
            "pytorch_model.bin",
            "model.pt",
            "model.pth",
            "model.ckpt",
            "model.pkl",
            "model.safetensors.bin",
            "tf_model.h5",
            "flax_model.msgpack",
        )
    },
    "a pickle named model.safetensors": pickled("model.safetensors", instead=""),
    "a pickle named config.json": pickled("config.json", instead=""),
    "a pickle named tokenizer_config.json": pickled("tokenizer_config.json", instead=""),
    "a pickle named preprocessor_config.json": pickled("preprocessor_config.json", instead=""),
    "settings that are a list": written("config.json", b"[]"),
    "a type that is none": said("config.json", model_type=["clip"]),
    "no type": said("config.json", model_type=""),
    "not in Unicode": written("config.json", b'{"model_type": "\xff\xfe"}'),
    **HUGE,
}
"""What is refused before another library sees it."""


def fuzzed(seed: int) -> Spoil:
    """A few settings of the wrong type, in the settings of the model, of its images or of its words."""
    rng = random.Random(seed)
    odd: list[Any] = [
        None,
        "large",
        -1,
        0,
        2.5,
        [],
        {},
        True,
        1e308,
        float("nan"),
        [1, "a"],
        {"a": {}},
        "../x",
        -(10**9),
    ]

    def spoil(folder: Path, beside: Path) -> None:
        for _ in range(rng.randint(1, 3)):
            file = rng.choice(["config.json", "config.json", "preprocessor_config.json", "tokenizer_config.json"])
            content = json.loads((folder / file).read_text())
            place = content
            while True:
                key = rng.choice(sorted(place))
                if not (isinstance(place[key], dict) and place[key] and rng.random() < 0.8):
                    break
                place = place[key]
            place[key] = rng.choice(odd)
            (folder / file).write_text(json.dumps(content))

    return spoil
