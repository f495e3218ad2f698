"""Runs command lines in child processes that can be killed, starved and cut short; one server for many of them.

Imports cost more than most commands, so this process imports everything and then forks a child for each line of JSON
on standard input: ``{"words": [...], "cache": ..., "kill_at_rename": n, "kill_after": seconds, "told": file, ...}``;
for each order of a list of them at the same time. A ``program`` instead of words is a module beside this one.
Whatever a child had to import besides, this process imports as well, so that the next one starts with it.
It answers with one line of JSON: the exit code (negative for a signal, ``null`` for a hang), seconds, peak memory, how
many files were renamed, and the least room there was on a ``disk``. What the command says goes to the file ``told``.
It starts no thread, so it may fork.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import json
import math
import os
import resource
import select
import signal
import sys
import tempfile
import time
import warnings
from importlib import import_module
from pathlib import Path
from typing import Any

SECONDS, BUSY = 20.0, 15
"""Of work before a command counts as a hang, and how often that by the clock: the machine may be busy."""
_COUNTED = ("replace", "rename")


def dying_at_rename(number: int, count: str) -> None:
    """From now on count every rename of this process in the file ``count``, and die before that of this ``number``."""
    n_renamed = 0

    def counted(rename: Any) -> Any:
        def renamed(*places: Any, **options: Any) -> Any:
            nonlocal n_renamed
            n_renamed += 1
            if n_renamed == number:
                os.kill(os.getpid(), signal.SIGKILL)
            with open(count, "w") as file:
                file.write(str(n_renamed))
            return rename(*places, **options)

        return renamed

    for name in _COUNTED:
        setattr(os, name, counted(getattr(os, name)))


def limit_of(order: dict[str, Any]) -> int:
    """Seconds of work after which a command is ended."""
    return math.ceil(order.get("seconds", SECONDS))


def child(order: dict[str, Any]) -> None:
    """Run the command of ``order`` as the shell would; never returns."""
    before = len(sys.modules)
    if "kill_after" not in order:
        resource.setrlimit(resource.RLIMIT_CPU, (limit_of(order), limit_of(order)))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    told = os.open(order["told"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    out = told if "out" not in order else os.open(order["out"], os.O_WRONLY)
    os.dup2(out, 1)
    os.dup2(told, 2)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.environ["EQUIPOISE_CACHE"] = order["cache"]
    if "temporary" in order:
        os.environ["TMPDIR"], tempfile.tempdir = order["temporary"], None
    os.environ.update(order.get("environment", {}))
    encoding = order.get("encoding", "utf-8")
    streams = [open(number, how, encoding=encoding, closefd=False) for number, how in enumerate("rww")]  # noqa: SIM115
    sys.stdin, sys.stdout, sys.stderr = streams
    sys.stderr.reconfigure(errors="backslashreplace", line_buffering=True)
    if order.get("no_input"):
        sys.stdin = None  # type: ignore[assignment]
    dying_at_rename(order.get("kill_at_rename", 0), f"{order['told']}.renames")
    sys.argv = ["equipoise", *order["words"]]
    code = 1
    try:
        if "program" in order:
            sys.exit(import_module(order["program"]).main(order["words"]))
        import_module("equipoise.cli.main").run()
    except SystemExit as stopped:
        code = stopped.code if isinstance(stopped.code, int) else 1
    except BaseException:
        import traceback

        traceback.print_exc()
    try:
        sys.stdout.flush()
    except OSError:
        print("Traceback: standard output was not flushed", file=sys.stderr)
    Path(f"{order['told']}.modules").write_text("\n".join(list(sys.modules)[before:]))
    os._exit(code)


def wait_for(pid: int, seconds: float) -> None:
    """Until the child has ended, or so many seconds.

    Looking every two milliseconds whether it has ended costs as much as the child does where the machine is busy.
    """
    if not hasattr(os, "pidfd_open"):
        time.sleep(0.002)
        return
    child_ends = os.pidfd_open(pid)
    watched = select.poll()
    watched.register(child_ends, select.POLLIN)
    watched.poll(max(0.0, seconds) * 1000 + 1)
    os.close(child_ends)


def ended(pid: int, order: dict[str, Any]) -> dict[str, Any]:
    """Wait for the child; kill it where it was ordered, or where it hangs."""
    started, room = time.monotonic(), math.inf
    disk = os.open(order["disk"], os.O_RDONLY) if "disk" in order else None
    killing_after = order.get("kill_after", BUSY * order.get("seconds", SECONDS))
    while True:
        found, status, used = os.wait4(pid, os.WNOHANG)
        seconds = time.monotonic() - started
        if found:
            break
        if seconds > killing_after:
            os.kill(pid, signal.SIGKILL)
            found, status, used = os.wait4(pid, 0)
            break
        if disk is not None:
            state = os.fstatvfs(disk)
            room = min(room, state.f_bavail * state.f_frsize)
        wait_for(pid, killing_after - seconds if disk is None else 0.001)
    if disk is not None:
        os.close(disk)
    code: int | None = os.waitstatus_to_exitcode(status)
    by_us = code == -signal.SIGKILL and "kill_after" not in order and seconds > killing_after
    if by_us or (code in (-signal.SIGKILL, -signal.SIGXCPU) and used.ru_utime + used.ru_stime >= limit_of(order)):
        code = None
    count = Path(f"{order['told']}.renames")
    renames = int(count.read_text() or 0) if count.exists() else 0
    count.unlink(missing_ok=True)
    least = None if math.isinf(room) else int(room)
    return {
        "code": code,
        "seconds": seconds,
        "peak_mib": used.ru_maxrss // 1024,
        "renames": renames,
        "least_room": least,
    }


MODULES = (
    "audit.running audit.captions.run audit.dataset audit.comparison audit.suites.intersectional audit.suites.marginal "
    "audit.suites.captions_tfidf cli.main data.exports data.exports.card data.exports.csv data.exports.folder "
    "data.exports.hugging_face data.exports.webdataset data.importing data.summary data.validation engine.answers "
    "engine.embedding engine.mapping filters.running filters.rules.similarity filters.rules.sharpness generate "
    "mitigate.fitting mitigate.projection models.loading models.precomputed report.writing world.tables world.sheets"
)


def build_parser_once() -> None:
    """Let every command of this process, and of its children, use one parser: building it costs a tenth of a second."""
    import typer.main

    from equipoise.cli.main import app

    typer.main.get_command = functools.cache(typer.main.get_command)
    typer.main.get_command(app)


def learn(names: Path) -> None:
    """Import what a child had imported."""
    for name in names.read_text().splitlines() if names.exists() else ():
        with contextlib.suppress(Exception), warnings.catch_warnings(action="ignore"):
            import_module(name)
    names.unlink(missing_ok=True)


def serve() -> None:
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    for name in MODULES.split():
        import_module(f"equipoise.{name}")
    for name in (
        "sklearn.linear_model",
        "sklearn.manifold",
        "sklearn.decomposition",
        "sklearn.feature_extraction.text",
    ):
        import_module(name)
    build_parser_once()
    for line in sys.stdin:
        orders = json.loads(line)
        gc.freeze()  # or the child's collector would copy what it only looks at
        pids = []
        for order in orders:
            pids.append(os.fork())
            if pids[-1] == 0:
                child(order)
        answers = [ended(pid, order) for pid, order in zip(pids, orders, strict=True)]
        for order in orders:
            learn(Path(f"{order['told']}.modules"))
        print(json.dumps(answers), flush=True)


if __name__ == "__main__":
    serve()
