"""Malformed inputs for every reader and for the image decoder, made from a seed, and what may come of them.

A case is a name and a number. Its input is a valid file, mutated; what comes of it must be an InputError, or rows and
Rejected of the right form in which no row that the mutation did not touch has changed. Run as a program,
``python fuzzing.py FIRST COUNT`` (or ``python fuzzing.py bits``, which damages every byte of the Parquet files), it
limits its own memory and the time of each case, and prints what came of them.
"""

from __future__ import annotations

import json
import math
import random
import resource
import signal
import struct
import sys
import tempfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))  # run as a program and loaded by path alike
from inputs import Target, datasets
from mutations import BYTES, dumped, junk_in_csv, junk_in_json, junk_in_parquet, junk_in_png, re_encoded

MEMORY = 2 * 2**30
SECONDS = 5.0


class HangError(BaseException):
    """A case took too long; no ``except Exception`` may swallow it."""


# --- what comes of a file ---------------------------------------------------------------------------------------


def valid_targets(root: Path) -> dict[str, Target]:
    """Every dataset, with what its reader gives for it as it is."""
    targets = datasets(root)
    for target in targets.values():
        target.valid = target.file.read_bytes()
        target.rows = outcome_of(target)[0]
        assert target.rows, f"the valid {target.reader} dataset gives no rows"
    return targets


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


def _peak_kib() -> int:
    """The most memory this program has had; ``ru_maxrss`` begins with that of the process that started it."""
    status = Path("/proc/self/status")
    if not status.exists():
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return next(int(line.split()[1]) for line in status.read_text().splitlines() if line.startswith("VmHWM:"))


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
    print(json.dumps({"outcomes": outcomes, "peak_mib": _peak_kib() // 1024}))
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
