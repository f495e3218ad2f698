"""Malformed inputs for every reader and for the image decoder, made from a seed, and what may come of them.

A case is a name and a number. Its input is a valid file, mutated; what comes of it must be an InputError, or rows and
Rejected of the right form in which no row that the mutation did not touch has changed. Run as a program,
``python fuzzing.py FIRST COUNT`` (or ``python fuzzing.py bits``, which damages every byte of the Parquet files), it
limits its own memory and the time of each case, and prints what came of them.
"""

from __future__ import annotations

import io
import json
import math
import random
import resource
import signal
import struct
import sys
import tarfile
import tempfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

MEMORY = 2 * 2**30
SECONDS = 5.0

JUNK: tuple[Any, ...] = (
    None,
    True,
    -1,
    0,
    1.5,
    10**30,
    -(10**400),
    float("nan"),
    float("inf"),
    1e308,
    "",
    " \t",
    "\ud800",
    "a\x00b",
    "../../etc/passwd",
    "x" * 200_000,
    [],
    {},
    [[[[[[[[[[1]]]]]]]]]],
    {"size": [10**9, 10**9], "counts": [1]},
    {"size": [4, 6], "counts": "~~~~"},
    [1, 2, 3],
    ["a", None],
)


class HangError(BaseException):
    """A case took too long; no ``except Exception`` may swallow it."""


@dataclass
class Target:
    """A valid dataset on disk, and the file of it that is mutated."""

    reader: str
    path: Path
    file: Path
    options: dict[str, Any] = field(default_factory=dict)
    kind: str = "text"
    valid: bytes = b""
    rows: list[Any] = field(default_factory=list)


# --- valid datasets ---------------------------------------------------------------------------------------------


def picture(form: str, size: tuple[int, int] = (24, 16)) -> bytes:
    from PIL import Image

    rng = random.Random(form)
    image = Image.frombytes("RGB", size, bytes(rng.randrange(256) for _ in range(3 * size[0] * size[1])))
    target = io.BytesIO()
    image.save(target, form)
    return target.getvalue()


def coco_documents(n: int = 6) -> tuple[dict[str, Any], dict[str, Any]]:
    images = [{"id": i, "file_name": f"{i:012d}.jpg", "height": 4, "width": 6} for i in range(1, n + 1)]
    captions = [
        {"id": 10 * i + k, "image_id": i, "caption": f"caption {k} of {i}"} for i in range(1, n + 1) for k in (0, 1)
    ]
    people = [
        {
            "id": 100 + i,
            "image_id": i,
            "category_id": 1,
            "bbox": [1, 0, 2, 4],
            "area": 8.0,
            "iscrowd": i % 2,
            "segmentation": [[1, 0, 3, 0, 3, 4, 1, 4]] if i % 2 == 0 else {"size": [4, 6], "counts": [4, 8, 12]},
            "keypoints": [1, 2, 2] * 17,
        }
        for i in range(1, n + 1)
    ]
    categories = [{"id": 1, "name": "person"}, {"id": 2, "name": "oven"}]
    return (
        {"images": images, "annotations": captions},
        {"images": images, "annotations": people, "categories": categories},
    )


def valid_targets(root: Path) -> dict[str, Target]:
    """All targets by name, written below ``root`` and read once."""
    targets: dict[str, Target] = {}

    def folder(name: str) -> Path:
        (root / name).mkdir(parents=True, exist_ok=True)
        return root / name

    def add(name: str, reader: str, file: Path, content: str | bytes, path: Path | None = None, **options: Any) -> None:
        kind = options.pop("kind", "text")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content if isinstance(content, bytes) else content.encode())
        targets[name] = Target(reader, path or file, file, options, kind)

    captions, instances = coco_documents()
    for part in ("captions", "instances"):
        base = folder(f"coco-{part}")
        for i in range(1, 7):
            (base / "val2017").mkdir(exist_ok=True)
            (base / "val2017" / f"{i:012d}.jpg").write_bytes(b"x")
        (base / "annotations").mkdir(exist_ok=True)
        for name, document in (("captions", captions), ("instances", instances)):
            (base / "annotations" / f"{name}_val2017.json").write_text(json.dumps(document))
        file = base / "annotations" / f"{part}_val2017.json"
        add(f"coco-{part}", "coco", file, file.read_bytes(), base, split="val2017", kind="json")

    parts = {
        f"{p}_{k}": v for p in ("face", "lefthand", "righthand") for k, v in (("box", [1, 1, 2, 2]), ("valid", True))
    }
    whole = instances | {"annotations": [a | parts for a in instances["annotations"]]}
    add("wholebody", "coco-wholebody", folder("whole") / "coco_wholebody_val_v1.0.json", json.dumps(whole), kind="json")

    labels = {"age": "adult", "gender": "female", "skintone": "lighter", "ethnicity": "white", "emotion": "fear"}
    region = {"region": [1, 2, 5, 9], "annotations": labels | {"activity": "work"}}
    phase = {str(i): {"caption": f"c {i}", "person1": region, "person2": region} for i in range(6)}
    add("phase", "phase", folder("phase") / "phase_gcc_val_regions_20221101.json", json.dumps(phase), kind="json")

    flickr = [{"filename": f"{i}.jpg", "split": "train", "sentences": [{"raw": f"a dog {i}"}] * 2} for i in range(6)]
    add(
        "flickr-json", "flickr30k", folder("fj") / "dataset_flickr30k.json", json.dumps({"images": flickr}), kind="json"
    )
    tokens = "".join(f"{i}.jpg#{k}\tcaption {k} of {i}\n" for i in range(6) for k in range(2))
    add("flickr-token", "flickr30k", folder("ft") / "results_20130124.token", tokens)

    scenes = [
        {
            "short": "gym",
            "pos": {"races": ["a"], "gender": [], "age": []},
            "neg": {"races": ["b"], "gender": [], "age": []},
        }
    ]
    listing = "".join(f"gym_black_male_young|http://x/{i}.jpg\n" for i in range(6))
    for name in ("pata-captions", "pata-list"):
        base = folder(name)
        (base / "pata_fairness.captions.json").write_text(json.dumps(scenes))
        (base / "pata_fairness.files.lst").write_text(listing)
    add("pata-captions", "pata", root / "pata-captions" / "pata_fairness.captions.json", json.dumps(scenes),
        root / "pata-captions", kind="json")  # fmt: skip
    add("pata-list", "pata", root / "pata-list" / "pata_fairness.files.lst", listing, root / "pata-list")

    for name in ("imagefolder-jsonl", "imagefolder-csv"):
        for i in range(6):
            (folder(name) / f"{i}.jpg").write_bytes(b"x")
    lines = [{"file_name": f"{i}.jpg", "gender": "f", "caption": f"c{i}", "n": i, "tags": ["a"]} for i in range(6)]
    add("imagefolder-jsonl", "imagefolder", root / "imagefolder-jsonl" / "metadata.jsonl",
        "".join(json.dumps(line) + "\n" for line in lines), root / "imagefolder-jsonl", kind="jsonl")  # fmt: skip
    table = "file_name,gender,caption\n" + "".join(f'{i}.jpg,f,"a, b {i}"\n' for i in range(6))
    add("imagefolder-csv", "imagefolder", root / "imagefolder-csv" / "metadata.csv", table,
        root / "imagefolder-csv", kind="csv")  # fmt: skip

    zhao = "id,bb_gender,bb_skin,split\n" + "".join(f"{i},Female,Light,val\n" for i in range(6))
    add("zhao", "coco-gender-skin", folder("zhao") / "images_val2014.csv", zhao, kind="csv")
    faces = "file,age,gender,race,service_test\n" + "".join(f"val/{i}.jpg,3-9,Male,White,True\n" for i in range(6))
    add("fairface", "fairface", folder("faces") / "fairface_label_val.csv", faces, kind="csv")
    head = "ImageID,LabelName,XMin,XMax,YMin,YMax,IsGroupOf,GenderPresentation,AgePresentation\n"
    boxes = head + "".join(f"{i:016x},/m/01,0.1,0.5,0.25,1,0,Predominantly Feminine,Young\n" for i in range(6))
    add("miap", "openimages", folder("miap") / "open_images_extended_miap_boxes_val.csv", boxes, kind="csv")
    wide = "id,0,1,2\n" + "".join(f"e{i},{i}.5,-1,1e-3\n" for i in range(6))
    add("embeddings-wide", "embeddings-csv", folder("ew") / "e.csv", wide, model="m", kind="csv")
    narrow = "id,vector,model\n" + "".join(f'e{i},"[1, 2, {i}]",m\n' for i in range(6))
    add("embeddings-narrow", "embeddings-csv", folder("en") / "e.csv", narrow, kind="csv")
    scores = "image_id,text_id,score\n" + "".join(f"{i},t,0.{i}\n" for i in range(6))
    add("scores-long", "scores-csv", folder("sl") / "s.csv", scores, kind="csv")
    matrix = "image_id,a,b\n" + "".join(f"{i},0.{i},1\n" for i in range(6))
    add("scores-wide", "scores-csv", folder("sw") / "s.csv", matrix, kind="csv")
    cc3m = "".join(f"a caption no {i}\thttp://x/{i}\n" for i in range(6))
    add("cc3m-tsv", "cc3m", folder("cc") / "Train_GCC-training.tsv", cc3m)
    viso = "IDX\tOccupation\tObject\tURL type\tOccupation_perceived_gender\n"
    viso += "".join(f"OO_{i}\tnurse\tdesk\thttp://x/{i}\tfeminine\n" for i in range(6))
    add("visogender", "visogender", folder("viso") / "OO_Visogender_1.tsv", viso, kind="tsv")

    add("cc3m-tar", "cc3m", folder("tar") / "train.tar", _tar(), kind="bytes")
    pixels = b"".join(bytes([i % 2]) + bytes(3072) for i in range(4))
    (folder("cifar") / "batches.meta.txt").write_text("cat\ndog\n")
    add("cifar", "cifar", root / "cifar" / "data_batch_1.bin", pixels, root / "cifar", kind="bytes")
    for name, reader, content, options in _parquets():
        add(name, reader, folder(name) / "train-0.parquet", content, kind="parquet", **options)
    for form in ("JPEG", "PNG", "GIF", "WEBP"):
        add(form.lower(), "", folder("images") / form.lower(), picture(form), kind="image")
    for target in targets.values():
        target.valid = target.file.read_bytes()
        target.rows = outcome_of(target)[0]
        assert target.rows, f"the valid {target.reader} dataset gives no rows"
    return targets


def _tar() -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for i in range(4):
            about = json.dumps({"caption": f"c {i}", "url": f"http://x/{i}", "status": "success"}).encode()
            for suffix, data in (("jpg", b"JPEG %d" % i), ("json", about), ("txt", b"c %d" % i)):
                info = tarfile.TarInfo(f"{i:09d}.{suffix}")
                info.size = len(data)
                archive.addfile(info, io.BytesIO(data))
    return buffer.getvalue()


def _parquets() -> Iterator[tuple[str, str, bytes, dict[str, Any]]]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    cell = pa.struct([("bytes", pa.binary()), ("path", pa.string())])

    def written(table: Any, **how: Any) -> bytes:
        buffer = io.BytesIO()
        pq.write_table(table, buffer, write_page_checksum=True, **how)
        return buffer.getvalue()

    n = 8
    social = {
        "image": pa.array([{"bytes": b"JPEG %d" % i, "path": None} for i in range(n)], cell),
        "caption": [f"A picture of a White male cook {i}" for i in range(n)],
        "counterfactual_set": [f"set {i}" for i in range(n)],
        "a1_type": ["race"] * n,
        "a1": ["White"] * n,
        "a2_type": ["gender"] * n,
        "a2": ["male"] * n,
    }
    yield "parquet-social", "parquet", written(pa.table(social)), {"preset": "social-counterfactuals"}
    features = {"sex": {"_type": "ClassLabel", "names": ["Male", "Female"]}}
    schema = pa.schema(
        [("image_id", pa.string()), ("sex", pa.int64()), ("tags", pa.list_(pa.string())), ("x", pa.float32())],
        metadata={"huggingface": json.dumps({"info": {"features": features}})},
    )
    rows = [{"image_id": f"i{i}", "sex": i % 2, "tags": ["a", "b"], "x": 0.5} for i in range(n)]
    options = {"columns": "gender=sex", "axes": "gender", "extra": "tags,x"}
    plain = written(pa.Table.from_pylist(rows, schema=schema), compression="none", use_dictionary=False)
    yield "parquet-classes", "parquet", plain, options
    laion = pa.table(
        {
            "SAMPLE_ID": [float(i) for i in range(n)],
            "URL": [f"http://x/{i}" for i in range(n)],
            "TEXT": [f"text {i}" for i in range(n)],
            "NSFW": ["UNLIKELY"] * n,
            "similarity": [0.3] * n,
            "WIDTH": [10] * n,
        }
    )
    yield "laion", "laion", written(laion, data_page_version="2.0"), {}


# --- what comes of a file ---------------------------------------------------------------------------------------


def outcome_of(target: Target) -> tuple[list[Any], int, str]:
    """Rows (or the decoded image), how many were rejected, and the error if the whole file was refused."""
    from equipoise.data.images import decode
    from equipoise.data.readers import read
    from equipoise.data.schema import Rejected
    from equipoise.errors import InputError

    if target.kind == "image":
        try:
            image = decode(target.file.read_bytes())
        except InputError as error:
            _check_sentence(str(error))
            return [], 0, str(error)
        assert image.mode == "RGB"
        assert image.width * image.height <= 64_000_000
        return [(image.size, zlib.crc32(image.tobytes()))], 0, ""
    try:
        found = list(read(target.reader, target.path, **target.options))
        rows = [item for item in found if not isinstance(item, Rejected)]
        _check_rows(target, rows)
    except InputError as error:
        _check_sentence(str(error))
        return [], 0, str(error)
    for item in found:
        if isinstance(item, Rejected):
            _check_sentence(item.reason)
            _check_sentence(item.where)
            json.dumps(dict(item.row)).encode()
    return rows, len(found) - len(rows), ""


def _check_sentence(text: str) -> None:
    assert text.strip(), "an empty reason"
    assert len(text) < 2000, f"a reason of {len(text)} characters"
    text.encode()  # and so it can be printed
    assert "Traceback" not in text


def _check_rows(target: Target, rows: list[Any]) -> None:
    from equipoise.data.arrays import checked_row
    from equipoise.data.readers import READERS, shape_of
    from equipoise.data.schema import schema_for

    if not rows:
        return
    shape = shape_of(target.reader, target.path, **target.options)
    schema = schema_for(shape.kind, axes=shape.axes, columns=dict(shape.columns), dim=shape.dim)
    module = sys.modules[READERS.load(target.reader).__module__]
    keys = set()
    for row in rows:
        checked_row(row, schema)
        _check_finite(row)
        key = tuple(row[name] for name in schema.key)
        assert key not in keys, f"{key} was given twice"
        keys.add(key)
        for axis in shape.axes if hasattr(module, "GROUPS") else ():
            known = module.GROUPS[axis] if isinstance(module.GROUPS, dict) else module.GROUPS
            assert row[axis] is None or row[axis] in known, f"{axis} is {row[axis]!r}"
        path = (row.get("image") or {}).get("path")
        if path and not (row["image"]["bytes"]):
            assert Path(path).is_file()
            assert Path(path).resolve().is_relative_to(target.file.parents[1].resolve())


def _check_finite(value: Any) -> None:
    if isinstance(value, float):
        assert math.isfinite(value), "a number that is not finite"
    elif isinstance(value, dict):
        for item in value.values():
            _check_finite(item)
    elif isinstance(value, list):
        for item in value:
            _check_finite(item)


# --- mutations --------------------------------------------------------------------------------------------------


def truncated(data: bytes, rng: random.Random) -> bytes:
    return data[: rng.randrange(len(data))]


def flipped(data: bytes, rng: random.Random) -> bytes:
    made = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 5, 20))):
        made[rng.randrange(len(made))] ^= 1 << rng.randrange(8)
    return bytes(made)


def cut_out(data: bytes, rng: random.Random) -> bytes:
    start = rng.randrange(len(data))
    return data[:start] + data[start + rng.randrange(1, 40) :]


def doubled(data: bytes, rng: random.Random) -> bytes:
    start = rng.randrange(len(data))
    part = data[start : start + rng.randrange(1, 60)]
    return data[:start] + part * rng.choice((2, 3, 50)) + data[start + len(part) :]


def inserted(data: bytes, rng: random.Random) -> bytes:
    start = rng.randrange(len(data) + 1)
    junk = rng.choice((b"\x00", b"\xff\xfe", b'"', b"\r", b"\n\n", b",", b"\t", b"\xe9", b"{" * 2000, rng.randbytes(9)))
    return data[:start] + junk + data[start:]


def overwritten(data: bytes, rng: random.Random) -> bytes:
    start, length = rng.randrange(len(data)), rng.randrange(1, 30)
    return data[:start] + rng.choice((b"\x00", b"\xff", b" ", b"9")) * length + data[start + length :]


def re_encoded(data: bytes, rng: random.Random) -> bytes:
    how = rng.choice(("utf-16", "utf-32", "utf-8-sig", "latin-1-é", "crlf", "cr", "nul"))
    text = data.decode("utf-8", "replace")
    if how == "latin-1-é":
        return text.replace("a", "é").encode("latin-1", "replace")
    if how in ("crlf", "cr"):
        return data.replace(b"\n", b"\r\n" if how == "crlf" else b"\r")
    return b"\x00".join(bytes([b]) for b in data) if how == "nul" else text.encode(how)


BYTES = (truncated, flipped, cut_out, doubled, inserted, overwritten)


def junk_in_json(document: Any, rng: random.Random) -> Any:
    """The document with one node replaced, removed, doubled or renamed."""
    places = list(_places(document))
    holder, key = rng.choice(places)
    how = rng.randrange(10)
    if how < 7:
        holder[key] = rng.choice(JUNK)
    elif how == 7:
        del holder[key]
    elif how == 8 and isinstance(holder, list):
        holder.append(holder[key])
    elif isinstance(holder, dict):
        holder[f"{key}_"] = holder.pop(key)
    if how < 7 and rng.random() < 0.03:
        nested: Any = []
        for _ in range(3000):
            nested = [nested]
        holder[key] = nested
    return document


def _places(node: Any) -> Iterator[tuple[Any, Any]]:
    items = list(node.items()) if isinstance(node, dict) else list(enumerate(node)) if isinstance(node, list) else []
    for key, value in items:
        yield node, key
        yield from _places(value)


def dumped(document: Any) -> bytes:
    limit = sys.getrecursionlimit()
    digits = sys.get_int_max_str_digits()
    sys.setrecursionlimit(20_000)
    sys.set_int_max_str_digits(0)
    try:
        return json.dumps(document).encode()
    finally:
        sys.setrecursionlimit(limit)
        sys.set_int_max_str_digits(digits)


def junk_in_csv(data: bytes, rng: random.Random, separator: str) -> tuple[bytes, int]:
    """One line with a wrong field, and which line it is."""
    lines = data.decode().split("\n")
    number = rng.randrange(1, len(lines) - 1)
    fields = lines[number].split(separator)
    how = rng.randrange(8)
    position = rng.randrange(len(fields))
    junk = str(rng.choice([j for j in JUNK if not isinstance(j, int) or abs(j) < 10**31]))
    if how < 4:
        fields[position] = junk
    elif how == 4:
        del fields[position]
    elif how == 5:
        fields.insert(position, "extra")
    elif how == 6:
        fields[position] = rng.choice(('"', '"open', 'a"b', '"a"b', "'", "\r", "1e999", "-inf", "0x10", "1_000"))
    else:
        fields[position] = "y" * 2_000_000
    lines[number] = separator.join(fields)
    return "\n".join(lines).encode("utf-8", "surrogatepass"), number


def junk_in_png(data: bytes, rng: random.Random) -> bytes:
    """A chunk with a wrong length, type or content, its checksum put right."""
    made, position = bytearray(data[:8]), 8
    chunks = []
    while position < len(data):
        (length,) = struct.unpack(">I", data[position : position + 4])
        chunks.append((data[position + 4 : position + 8], data[position + 8 : position + 8 + length]))
        position += 12 + length
    index = rng.randrange(len(chunks))
    kind, content = chunks[index]
    how = rng.randrange(5)
    if how == 0:
        kind, content = b"IHDR", struct.pack(">IIBBBBB", rng.choice((0, 1, 2**31 - 1, 60_000)), 60_000, 8, 2, 0, 0, 0)
    elif how == 1:
        content = flipped(content, rng) if content else b"x"
    elif how == 2:
        kind = rng.choice((b"IDAT", b"PLTE", b"tRNS", b"iCCP", b"eXIf", b"acTL", b"zTXt"))
    elif how == 3:
        content = zlib.compress(b"\0" * rng.choice((10, 10**7)))
    else:
        chunks.insert(index, (kind, content))
    chunks[index] = (kind, content)
    for name, body in chunks:
        made += struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))
    return bytes(made)


def junk_in_parquet(data: bytes, rng: random.Random) -> bytes:
    """A column of another type, missing, null, or with values that are not text."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pq.read_table(io.BytesIO(data))
    position = rng.randrange(table.num_columns)
    name, n = table.column_names[position], len(table)
    columns: list[Callable[[], Any]] = [
        lambda: pa.array([None] * n, pa.string()),
        lambda: pa.array([float("nan")] * n),
        lambda: pa.array([b"caf\xe9"] * n),
        lambda: pa.array([b"caf\xe9"] * n).view(pa.string()),
        lambda: pa.array([2**64 - 1] * n, pa.uint64()),
        lambda: pa.array([["x"]] * n),
        lambda: pa.array([{"bytes": b"", "path": "../../etc/passwd"}] * n),
        lambda: pa.array([2**60] * n, pa.timestamp("us")),
        lambda: pa.array([rng.choice(("", " ", "a\x00", "x" * 200_000))] * n),
        lambda: pa.array(["same"] * n),
    ]
    if rng.random() < 0.15:
        table = table.drop_columns([name])
    elif rng.random() < 0.15:
        table = table.rename_columns([f"{c}_" if c == name else c for c in table.column_names])
    else:
        table = table.set_column(position, name, rng.choice(columns)())
    buffer = io.BytesIO()
    pq.write_table(table, buffer)
    return buffer.getvalue()


# --- cases ------------------------------------------------------------------------------------------------------


Check = Callable[[list[Any], int], None]
"""What must hold for the rows of a mutated file and the number of rejected ones."""


def mutate(target: Target, rng: random.Random) -> tuple[bytes, Check]:
    """A malformed file, and a check that rows which the mutation did not touch are as they were."""

    def nothing(rows: list[Any], n_rejected: int) -> None:
        pass

    special = rng.random() < 0.6
    if target.kind == "json" and special:
        return _mutated_json(target, rng)
    if target.kind == "jsonl" and special:
        lines = target.valid.decode().splitlines()
        index = rng.randrange(len(lines))
        lines[index] = dumped(junk_in_json(json.loads(lines[index]), rng)).decode()
        return "\n".join(lines).encode(), nothing
    if target.kind in ("csv", "tsv") and special:
        data, _ = junk_in_csv(target.valid, rng, "\t" if target.kind == "tsv" else ",")
        return data, lambda rows, n_rejected: _check_one_line(target, rows, n_rejected)
    if target.kind == "parquet" and special:
        return junk_in_parquet(target.valid, rng), nothing
    if target.kind == "parquet" or target.file.suffix == ".tar":
        data = rng.choice(BYTES)(target.valid, rng)
        return data, lambda rows, n_rejected: _check_loss(target, rows, n_rejected)
    if target.file.name == "png" and special:
        return junk_in_png(target.valid, rng), nothing
    if target.kind in ("text", "csv", "tsv", "jsonl", "json") and rng.random() < 0.2:
        return re_encoded(target.valid, rng), nothing
    return rng.choice(BYTES)(target.valid, rng), nothing


def _mutated_json(target: Target, rng: random.Random) -> tuple[bytes, Check]:
    document = json.loads(target.valid)
    collection = document.get(rng.choice(("images", "annotations"))) if isinstance(document, dict) else None
    if target.reader == "coco" and collection and rng.random() < 0.8:
        record = rng.choice(collection)
        touched = str(record.get("image_id", record.get("id")))
        junk_in_json(record, rng)
        untouched = [row for row in target.rows if row["image_id"] != touched]

        def check(rows: list[Any], n_rejected: int) -> None:
            # a damaged record costs its own image and no other
            assert all(row in rows for row in untouched), "a row that was not touched has changed"

        return dumped(document), check
    return dumped(junk_in_json(document, rng)), lambda rows, n_rejected: None


def _check_one_line(target: Target, rows: list[Any], n_rejected: int) -> None:
    """One wrong line changes its own rows and no other, and is not lost without a word."""
    if "embeddings" in target.reader and rows and len(rows[0]["vector"]) != len(target.rows[0]["vector"]):
        return  # the first line says how long the vectors are
    per_line = 2 if target.path.parent.name == "sw" else 1
    new = [row for row in rows if row not in target.rows]
    assert len(new) <= per_line, f"one wrong line changed {len(new)} rows"
    if per_line == 1:  # in a matrix an empty cell is no score
        _check_loss(target, rows, n_rejected)


def _check_loss(target: Target, rows: list[Any], n_rejected: int) -> None:
    assert n_rejected or len(rows) >= len(target.rows), "rows were lost without a word"


def run_case(targets: dict[str, Target], name: str, number: int) -> str:
    """What came of a case: "same", "changed", "rejected" or "refused"; anything else raises."""
    target = targets[name]
    rng = random.Random(f"{name}:{number}")
    data, check = mutate(target, rng)
    target.file.write_bytes(data)
    try:
        rows, n_rejected, error = outcome_of(target)
        if not error:
            check(rows, n_rejected)
    finally:
        target.file.write_bytes(target.valid)
    if error:
        return "refused"
    if n_rejected:
        return "rejected"
    return "same" if rows == target.rows else "changed"


def case_names(targets: dict[str, Target], first: int, count: int) -> Iterator[tuple[str, int]]:
    """Cases by running number: the targets in turn."""
    names = sorted(targets)
    for number in range(first, first + count):
        yield names[number % len(names)], number


def damaged_bytes(targets: dict[str, Target]) -> Iterator[str]:
    """What comes of each Parquet file with one bit of one byte flipped, for every byte.

    In the pages, which have checksums, no flip may give a wrong row or lose one without a word; in the footer a flip
    can rename a column or a class, which nothing can tell.
    """
    for target in (t for t in targets.values() if t.kind == "parquet"):
        (length,) = struct.unpack("<I", target.valid[-8:-4])
        pages_end = len(target.valid) - 8 - length
        for position in range(len(target.valid)):
            for bit in (0, 3, 6):
                data = bytearray(target.valid)
                data[position] ^= 1 << bit
                target.file.write_bytes(data)
                rows, n_rejected, error = outcome_of(target)
                if position < pages_end and not error:
                    _check_loss(target, rows, n_rejected)
                    assert all(row in target.rows for row in rows), f"byte {position} bit {bit} gave a wrong row"
                yield "refused" if error else "rejected" if n_rejected else "same" if rows == target.rows else "changed"
        target.file.write_bytes(target.valid)


def main(arguments: list[str]) -> int:
    """Run cases under limits; print one JSON line, or the case that broke."""
    import_module("equipoise.data.importing")  # the imports come before the limits
    import_module("equipoise.data.readers.parquet")

    def stop(*_: Any) -> None:
        raise HangError

    signal.signal(signal.SIGALRM, stop)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    outcomes: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as folder:
        targets = valid_targets(Path(folder))
        for outcome in _outcomes(targets, arguments):
            signal.setitimer(signal.ITIMER_REAL, SECONDS)
            outcomes[outcome] += 1
        signal.setitimer(signal.ITIMER_REAL, 0)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(json.dumps({"outcomes": outcomes, "peak_mib": peak // 1024}))
    return 0


def _outcomes(targets: dict[str, Target], arguments: list[str]) -> Iterator[str]:
    if arguments == ["bits"]:
        yield from damaged_bytes(targets)
        return
    for name, number in case_names(targets, int(arguments[0]), int(arguments[1])):
        print(f"case {name} {number}", file=sys.stderr, flush=True)
        yield run_case(targets, name, number)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
