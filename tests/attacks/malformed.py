"""Malformed inputs for every command that reads, made from a seed, and what may come of them.

A case is a running number: it decides the kind of input (a dataset for a reader, a run folder, a table, settings,
captions, a checkpoint, the answer of a service, words on the command line), what is damaged, how, and which command
reads it. Whatever it is, the command must end by itself, with one sentence where it fails, and never with a traceback.
Run as a program, ``python malformed.py FIRST COUNT [KIND ...]`` limits the time of each case and prints what came of
them; every hundred cases it says how far it is, and what came of those so far.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import random
import re
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent / "data" / "fuzz"), str(HERE.parent / "models")]
from commands import commands_of, line_of, make_inputs  # noqa: E402
from fuzzing import run_case, valid_targets  # noqa: E402
from malformed_models import BadService, DamagedModels  # noqa: E402
from mutations import BYTES, dumped, junk_in_csv, junk_in_json, junk_in_parquet, re_encoded  # noqa: E402
from server import build_parser_once  # noqa: E402

SECONDS, MOST_SECONDS = 20, 300
"""Of work, and by the clock: the machine may be busy with other things."""
ODD = (
    *("", " ", "-1", "0", "1e999", "nan", "inf", "é\u202e", "\x1b[2J", "a" * 300, "../x", "/dev/null", "/dev/full"),
    *("{}", "[]", "=", ",", "a=b", "a,b", "mini:", "mini:clipp", "hf:", "hf:nowhere", "table:", "api:", "api:x#y", "*"),
    *("open_clip:", "diffusers:/", "\N{GRINNING FACE}", "-", "--", "true", "None", "0.5", "3", "x" * 5000, "{a}", "%s"),
)


TURNS = [*["reader"] * 7, *["run", "table", "settings", "captions", "arguments"] * 2, "arguments", "model", "service"]
"""The kinds of twenty cases: as many of each as its cases are quick, and every kind often."""


class HangError(BaseException):
    """A case took too long; no ``except Exception`` may swallow it."""


class Attack:
    """Valid inputs, damaged one at a time, and the commands that read them."""

    def __init__(self, place: Path, home: Path | None = None) -> None:
        self.home, self.out = place / "home", place / "out"
        os.environ["EQUIPOISE_CACHE"] = str(place / "cache")
        from equipoise.data import Table

        if home is None:
            self.home.mkdir()
            make_inputs(self.home)
        else:
            shutil.copytree(home, self.home)
        runs = place / "runs"
        runs.mkdir()
        lines = commands_of(self.home)
        for name in ("dataset", "captions", "mitigate", "filter", "compare", "render"):
            code, told = called(line_of(lines[name], runs / name))
            assert code == 0, told
        self.runs = {name: runs / name for name in ("dataset", "captions", "mitigate", "filter", "compare")}
        self.runs |= {"one": self.home / "one"}
        self.tables = {"sets": self.home / "sets", "vectors": self.home / "vectors", "render": runs / "render"}
        self.tables |= {"layer": runs / "filter" / "layer"}
        (place / "datasets").mkdir()
        self.targets = valid_targets(place / "datasets")
        (self.home / "activities.txt").write_text("riding a horse\n")
        Table.create(self.home / "few", list(islice(Table.open(self.home / "plain").rows(), 2)), axes=["gender"])
        self.kinds: dict[str, Callable[[random.Random], tuple[list[Any], Callable[[], None]]]] = {
            "run": self.damaged_run,
            "table": self.damaged_table,
            "settings": self.odd_settings,
            "captions": self.damaged_captions,
            "arguments": self.odd_arguments,
            "model": DamagedModels(self.home, self.out, damage).case,
            "service": BadService(self.home, self.out, BYTES).case,
        }

    def case(self, number: int, only: list[str]) -> tuple[str, list[Any], Callable[[], None]]:
        """The kind of a case, the words of its command, and what puts things right again."""
        names = only or TURNS
        kind = names[number % len(names)]
        words, mend = self.kinds[kind](random.Random(f"{kind}:{number}"))
        return kind, words, mend

    def damaged_run(self, rng: random.Random) -> tuple[list[Any], Callable[[], None]]:
        name = rng.choice(list(self.runs))
        folder = self.runs[name]
        files = [path for path in sorted(folder.rglob("*")) if path.is_file() and path.suffix != ".html"]
        json_files = [path for path in files if path.suffix == ".json"]
        kept = {path: path.read_bytes() for path in files}
        damage(rng.choice(json_files if rng.random() < 0.6 else files), rng)
        lines = commands_of(self.home)
        readers: dict[str, list[list[Any]]] = {
            "mitigate": [
                [*line_of(lines["audit"], self.out), "--remedy", folder],
                line_of(lines["mitigate"], folder),
            ],
            "filter": [["report", folder, "-o", self.out], line_of(lines["filter"], folder)],
            "one": [["measure", folder, "-o", self.out], ["compare", folder, self.home / "two", "-o", self.out]],
            "dataset": [line_of(lines["dataset"], folder)],
            "captions": [line_of(lines["captions"], folder)],
            "compare": [line_of(lines["compare"], folder)],
        }
        words = rng.choice([["report", folder, "-o", self.out / "page.html"], *readers[name]])
        self.out.mkdir(exist_ok=True) if "page.html" in str(words[-1]) else None

        def mended() -> None:
            shutil.rmtree(folder)
            for path, data in kept.items():
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(data)

        return words, mended

    def damaged_table(self, rng: random.Random) -> tuple[list[Any], Callable[[], None]]:
        name = rng.choice(list(self.tables))
        folder = self.tables[name]
        files = [path for path in sorted(folder.rglob("*")) if path.is_file()]
        mend = damage(rng.choice([folder / "_table.json", *files]), rng)
        readers: list[list[Any]] = [["table", "info", folder], ["table", "head", folder], ["table", "validate", folder]]
        readers += [["table", "export", "csv", folder, self.out], ["table", "export", "card", folder, self.out]]
        readers += [["table", "diff", folder, self.home / "others"], ["table", "head", folder, "--layer", "all"]]
        if name == "vectors":
            readers.append(line_of(commands_of(self.home)["audit"], self.out))
        if name == "layer":
            readers = [["table", name, self.home / "sets", "--layer", folder] for name in ("info", "head", "validate")]
        if name in ("sets", "render"):
            readers.append(["filter", folder, "-s", "sharpness", "--draws", "19", "-o", self.out])
            readers.append(["dataset", folder, "--draws", "9", "--no-report", "-o", self.out])
        return rng.choice(readers), mend

    def odd_settings(self, rng: random.Random) -> tuple[list[Any], Callable[[], None]]:
        path = self.home / f"settings.{rng.choice(['toml', 'toml', 'json', 'txt'])}"
        path.write_bytes(settings_file(rng))
        audit = ["audit", f"table:{self.home / 'vectors'}", "-s", "intersectional", "-t", self.home / "sets"]
        readers: list[list[Any]] = [
            [*audit, "--no-report", "-o", self.out, "--config", path],
            ["filter", self.home / "sets", "--config", path, "-o", self.out],
            ["world", "preview", self.out / "x.png", "--sample", "1", "--size", "16", "--config", path],
            ["text", "label", self.home / "lines.txt", "--lexicon", path],
            ["captions", self.home / "good.jsonl", "--labels", path, "--no-quality", "-o", self.out],
        ]
        return rng.choice(readers), path.unlink

    def damaged_captions(self, rng: random.Random) -> tuple[list[Any], Callable[[], None]]:
        path = self.home / rng.choice(["good.jsonl", "coco.json", "lines.txt"])
        mend = damage(path, rng)
        readers: list[list[Any]] = [["text", rng.choice(["label", "swap", "mask", "neutralise"]), path]]
        if path.name == "good.jsonl":
            readers.append(line_of(commands_of(self.home)["captions"], self.out))
        if path.name == "coco.json":
            readers.append(["dataset", path, "--draws", "9", "--min-images", "2", "--no-report", "-o", self.out])
            readers.append(line_of(commands_of(self.home)["audit-of-captions"], self.out))
        return rng.choice(readers), mend

    def odd_arguments(self, rng: random.Random) -> tuple[list[Any], Callable[[], None]]:
        path, parameters = rng.choice(leaves())
        valid = [self.home / name for name in ("sets", "vectors", "one", "two", "good.jsonl", "coco.json", "photos")]
        words: list[Any] = list(path)
        for parameter in parameters:
            if parameter.name in ("debug", "help") or (parameter.required is False and rng.random() < 0.75):
                continue
            value: Any = rng.choice(ODD) if rng.random() < 0.6 else rng.choice(valid)
            if parameter.name in ("out", "target"):
                value = rng.choice([self.out, self.out / "a" / "b", self.home / "sets", self.home / "lines.txt", ""])
            if parameter.name in ("n", "per_cell", "sampled", "size", "zoom", "draws", "candidates"):
                value = rng.choice(["-1", "0", "2", "19", "x", ""])
            if parameter.param_type_name == "argument":
                words.append(value)
            elif getattr(parameter, "is_flag", False):
                words.append(parameter.opts[-1])
            else:
                words += [parameter.opts[-1], *[value] * max(1, parameter.nargs)]
        if rng.random() < 0.1:
            words.insert(rng.randrange(len(words) + 1), rng.choice(ODD))
        return [str(word).replace("\0", "") for word in words], lambda: None


LONG = {"demo", "recipe", "mini", "doctor"}
"""Commands that are not called at random: they take minutes, or read no input."""


def leaves() -> list[tuple[tuple[str, ...], list[Any]]]:
    """Every command with its parameters."""
    import typer

    from equipoise.cli.main import app

    def below(command: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], list[Any]]]:
        if hasattr(command, "commands"):
            for name, child in sorted(command.commands.items()):
                if name not in LONG:
                    yield from below(child, (*path, name))
        else:
            yield path, list(command.params)

    return list(below(typer.main.get_command(app), ()))


def damage(path: Path, rng: random.Random) -> Callable[[], None]:
    """Damage a file; what makes it whole again."""
    valid = path.read_bytes()
    how = rng.random()
    if how < 0.03:
        path.unlink()
        path.symlink_to(path.name)
    elif how < 0.06:
        path.unlink()
        path.mkdir()
    else:
        path.write_bytes(damaged(path, valid, rng))

    def mend() -> None:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        path.unlink(missing_ok=True)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(valid)

    return mend


def damaged(path: Path, valid: bytes, rng: random.Random) -> bytes:
    if not valid or rng.random() < 0.02:
        return rng.choice([b"", b"\0" * 100, b"[" * 200_000, b'{"a":' * 100_000, b"null", b"[]", b"7", b'"x"', b"{}"])
    if path.suffix == ".json" and rng.random() < 0.75:
        return dumped(junk_in_json(json.loads(valid), rng))
    if path.suffix == ".jsonl" and rng.random() < 0.6:
        lines = valid.decode().splitlines()
        index = rng.randrange(len(lines))
        lines[index] = dumped(junk_in_json(json.loads(lines[index]), rng)).decode(errors="replace")
        return "\n".join(lines).encode(errors="replace")
    if path.suffix == ".parquet" and rng.random() < 0.5:
        with contextlib.suppress(Exception):  # some damage cannot be done to some columns
            return junk_in_parquet(valid, rng)
    if path.suffix == ".csv" and rng.random() < 0.5 and valid.count(b"\n") > 2:
        return junk_in_csv(valid, rng, ",")[0]
    if path.suffix in (".txt", ".json", ".jsonl") and rng.random() < 0.15:
        return re_encoded(valid, rng)
    return rng.choice(BYTES)(valid, rng)


NAMES = (
    *("axes", "k", "draws", "seed", "level", "prompts", "pair", "margin", "variants", "min_sets", "link", "placebos"),
    *("step", "model", "detector", "axis", "reference", "name", "groups", "gender", "occupation", "age", "words", "x"),
)
VALUES = (
    *("1", "-1", "1e400", "nan", "true", '"text"', '""', "[]", "[1, 2]", '["a", 1]', "{}", "{a = 1}", "[[1]]", "[{}]"),
    *(
        "1979-05-27",
        "07:32:00",
        '"' + "x" * 9000 + '"',
        "99999999999999999999999",
        "[" * 500 + "]" * 500,
        "0x10",
        "'''a'''",
    ),
)


def settings_file(rng: random.Random) -> bytes:
    lines = []
    for _ in range(rng.randint(1, 6)):
        if rng.random() < 0.2:
            lines.append(rng.choice(["[{}]", "[[{}]]", "[a.{}]"]).format(rng.choice(NAMES)))
        lines.append(f"{rng.choice(NAMES)} = {rng.choice(VALUES)}")
    data = "\n".join(lines).encode()
    return rng.choice(BYTES)(data, rng) if rng.random() < 0.3 else data


def called(words: list[Any]) -> tuple[int, str]:
    """The exit code of a command in this process, and what it said; anything but an exit is raised."""
    from equipoise.cli.main import run

    told = io.StringIO()
    sys.argv = ["equipoise", *map(str, words)]
    with contextlib.redirect_stdout(told), contextlib.redirect_stderr(told):
        try:
            run()
        except SystemExit as stopped:
            return (stopped.code if isinstance(stopped.code, int) else 1), told.getvalue()
    raise AssertionError("it did not exit")


def reader_outcome(attack: Attack, number: int) -> str:
    name = sorted(attack.targets)[number // len(TURNS) * 7 % len(attack.targets) - number % len(TURNS)]
    try:
        found = run_case(attack.targets, name, number)
    except HangError:
        raise HangError(f"case {number} (reader): {name} hangs") from None
    except Exception as error:
        raise AssertionError(f"case {number} (reader): {name}\n{traceback.format_exc()[-3000:]}") from error
    return f"reader {'refused' if found in ('refused', 'rejected') else 'read'}"


def outcome_of(attack: Attack, number: int, only: list[str]) -> str:
    """What came of a case; anything that is not in order is raised."""
    if (only or TURNS)[number % len(only or TURNS)] == "reader":
        return reader_outcome(attack, number)
    kind, words, mend = attack.case(number, only)
    try:
        code, told = called(words)
    except HangError:
        raise HangError(f"case {number} ({kind}) hangs: {words}") from None
    except Exception as error:
        raise AssertionError(f"case {number} ({kind}): {words}\n{traceback.format_exc()[-3000:]}") from error
    finally:
        mend()
        shutil.rmtree(attack.out, ignore_errors=True)
        attack.out.unlink(missing_ok=True) if attack.out.exists() else None
    assert "Traceback" not in told, f"case {number} ({kind}): {words}\n{told[-3000:]}"
    assert code in (0, 1, 2), f"case {number} ({kind}): {words} ended with {code}"
    assert code == 0 or told.strip(), f"case {number} ({kind}): {words} failed without a word"
    return f"{kind} {'refused' if code else 'read'}"


def main(arguments: list[str]) -> int:
    """Run cases under limits; print one line of JSON with the outcomes, the failures first on standard error."""

    def stop(*_: Any) -> None:
        raise HangError

    signal.signal(signal.SIGALRM, stop)
    signal.signal(signal.SIGPROF, stop)
    given = argparse.ArgumentParser()
    given.add_argument("first", type=int)
    given.add_argument("count", type=int)
    given.add_argument("only", nargs="*")
    given.add_argument("--home", type=Path, help="valid inputs that are there already; they are copied")
    asked = given.parse_args(arguments)
    first, count, only = asked.first, asked.count, asked.only
    outcomes: Counter[str] = Counter()
    failures, slowest = 0, 0.0

    def found() -> dict[str, Any]:
        # not ru_maxrss, which begins with the memory of the process that started this one
        peak = int(re.findall(r"VmHWM:\s*(\d+)", Path("/proc/self/status").read_text())[0]) // 1024
        return {"outcomes": outcomes, "failures": failures, "peak_mib": peak, "slowest": round(slowest, 1)}

    with tempfile.TemporaryDirectory() as folder:
        build_parser_once()
        attack = Attack(Path(folder), asked.home)
        os.chdir(folder)
        for number in range(first, first + count):
            signal.setitimer(signal.ITIMER_PROF, SECONDS)
            signal.alarm(MOST_SECONDS)
            start = time.process_time()
            try:
                outcomes[outcome_of(attack, number, only)] += 1
            except (AssertionError, HangError) as error:
                failures += 1
                print(f"--- {number} {type(error).__name__}\n{error}", file=sys.stderr, flush=True)
            slowest = max(slowest, time.process_time() - start)
            if number % 100 == 99:
                print(json.dumps(found()), file=sys.stderr, flush=True)
        signal.alarm(0)
        signal.setitimer(signal.ITIMER_PROF, 0)
        os.chdir("/")
    print(json.dumps(found()))
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
