"""METEOR and SPICE of captions through the Java programs that pycocoevalcap brings (the ``java-metrics`` extra).

Java runs as a process of its own with a list of arguments (no shell), in a temporary folder of its own, and is ended
when it takes longer than ``timeout``. Nothing is downloaded: SPICE needs Stanford CoreNLP's models beside it, and where
they are absent the error says how to get them.
"""

from __future__ import annotations

import json
import math
import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from equipoise.array_types import Floats
from equipoise.errors import InputError, MissingExtraError
from equipoise.measure.captions.quality.tokens import Caption, CaptionPairs, pair_captions
from equipoise.measure.captions.splits import estimates_of_sums
from equipoise.measure.stats.shares import ItemScores

TIMEOUT = 3600.0
"""Seconds that one run of a Java program may take."""

_STAGE_WEIGHTS = np.array([1.0, 0.6, 0.8, 0.6])  # of equal words, stems, synonyms, paraphrases: METEOR 1.5, English
_ALPHA, _BETA, _GAMMA, _DELTA = 0.85, 0.2, 0.6, 0.75
_CORENLP = ("stanford-corenlp-3.6.0.jar", "stanford-corenlp-3.6.0-models.jar")
# Newer Java closes its inner classes, which SPICE's old libraries read; Java 8 does not know this variable.
_OPENED = " ".join(
    f"--add-opens=java.base/{package}=ALL-UNNAMED"
    for package in ("java.lang", "java.math", "java.util", "java.util.concurrent", "java.net", "java.text")
)


def java_is_ready() -> bool:
    """Whether METEOR can be had here: Java and pycocoevalcap are installed."""
    return _package() is not None and shutil.which("java") is not None


def spice_is_ready() -> bool:
    """Whether SPICE can be had here: Java, pycocoevalcap and the models of Stanford CoreNLP are installed."""
    package = _package()
    return java_is_ready() and package is not None and all((package / "spice" / "lib" / n).exists() for n in _CORENLP)


def meteor(
    candidates: Sequence[Caption] | CaptionPairs,
    references: Sequence[Sequence[Caption]] | None = None,
    *,
    clusters: ArrayLike | None = None,
    level: float = 0.95,
    replicates: int = 1000,
    seed: int = 0,
    timeout: float = TIMEOUT,
) -> ItemScores:
    """METEOR 1.5 of ``candidates`` (n,) against their ``references``, in [0, 1] (Denkowski 2014).

    Java counts what matches (words, stems, synonyms, paraphrases); ``values`` (n,) and the score of the whole, which is
    of the summed counts, follow from the counts. The interval is a bootstrap over captions or whole ``clusters``.
    """
    pairs = pair_captions(candidates, references)
    jar = _program("METEOR", "meteor", "meteor-1.5.jar")
    lines = [
        " ||| ".join(["SCORE", *map(_line, several), _line(caption)])
        for caption, several in zip(pairs.candidates, pairs.references, strict=True)
    ]
    command = ["-Xmx2G", "-jar", str(jar), "-", "-", "-stdio", "-l", "en", "-norm"]
    answered = _run("METEOR", command, "\n".join(lines) + "\n", timeout=timeout).splitlines()
    counts = _counts(answered, len(lines))
    values = _meteor_of_sums(counts)[:, 0]
    estimate = estimates_of_sums(
        counts,
        _meteor_of_sums,
        clusters=clusters,
        level=level,
        replicates=replicates,
        seed=seed,
        notes=pairs.notes,
    )[0]
    return ItemScores(values, estimate, np.ones(len(values), dtype=bool))


def spice(
    candidates: Sequence[Caption] | CaptionPairs,
    references: Sequence[Sequence[Caption]] | None = None,
    *,
    clusters: ArrayLike | None = None,
    level: float = 0.95,
    timeout: float = TIMEOUT,
) -> ItemScores:
    """SPICE of ``candidates`` (n,) against their ``references``, in [0, 1] (Anderson 2016): F of what they state.

    A caption without any statement on either side has no value; it is left out of ``values`` and counted as dropped.
    """
    pairs = pair_captions(candidates, references)
    jar = _program("SPICE", "spice", "spice-1.0.jar")
    absent = [name for name in _CORENLP if not (jar.parent / "lib" / name).exists()]
    if absent:
        raise InputError(
            f"SPICE needs {absent[0]} in {jar.parent / 'lib'}, which pycocoevalcap downloads and which is not "
            "there; on a machine with access to the internet run: python -c "
            "'from pycocoevalcap.spice.get_stanford_models import get_stanford_models as get; get()'"
        )
    asked = [
        {"image_id": i, "test": _line(caption), "refs": [_line(r) for r in several]}
        for i, (caption, several) in enumerate(zip(pairs.candidates, pairs.references, strict=True))
    ]
    with tempfile.TemporaryDirectory(prefix="equipoise-spice-") as folder:
        given, written = Path(folder) / "captions.json", Path(folder) / "scores.json"
        given.write_text(json.dumps(asked), encoding="utf-8")
        command = ["-Xmx8G", "-jar", str(jar), str(given), "-out", str(written), "-silent"]
        _run("SPICE", command, "", timeout=timeout)
        values = _spice_values(written, len(asked))
    kept = np.isfinite(values)
    if not kept.any():
        raise InputError("SPICE found no statement in any caption; there is nothing to score")
    groups = None if clusters is None else np.asarray(clusters)[kept]
    dropped = {"no statement in caption and references": int((~kept).sum())}
    return ItemScores.of(values[kept], clusters=groups, kept=kept, dropped=dropped, level=level, notes=pairs.notes)


def _package() -> Path | None:
    """Where pycocoevalcap is, without importing it."""
    spec = find_spec("pycocoevalcap")
    places = list(spec.submodule_search_locations or ()) if spec is not None else []
    return Path(places[0]) if places else None


def _program(name: str, folder: str, jar: str) -> Path:
    package = _package()
    if package is None:
        raise MissingExtraError(name, "java-metrics")
    if shutil.which("java") is None:
        raise InputError(
            f"{name} needs Java, and there is no 'java' on the PATH; install a Java runtime (8 or newer), or use the "
            "metrics that need none"
        )
    path = package / folder / jar
    if not path.exists():
        raise InputError(f"{name} needs {path}, which is not there; install pycocoevalcap again")
    return path


def _line(tokens: Sequence[str]) -> str:
    """A caption on one line, without the mark that parts captions."""
    return " ".join(" ".join(tokens).replace("|||", " ").split())


def _run(name: str, arguments: Sequence[str], text: str, *, timeout: float) -> str:
    """What Java prints for ``text``; its failure as one sentence."""
    java = shutil.which("java") or "java"
    with tempfile.TemporaryDirectory(prefix="equipoise-java-") as folder:
        environment = {**os.environ, "JDK_JAVA_OPTIONS": _OPENED}
        try:
            done = subprocess.run(
                [java, f"-Djava.io.tmpdir={folder}", *arguments],
                input=text,
                capture_output=True,
                encoding="utf-8",
                errors="replace",
                cwd=folder,
                env=environment,
                timeout=timeout,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise InputError(
                f"{name} took longer than timeout = {timeout:g} s; give it more, or fewer captions"
            ) from None
        except OSError as error:
            raise InputError(f"{name}: Java could not be started ({error})") from None
    if done.returncode != 0:
        said = [line for line in done.stderr.splitlines() if line.strip() and not line.startswith("NOTE:")]
        raise InputError(f"{name} failed in Java with code {done.returncode}: {said[0] if said else 'no message'}")
    return done.stdout


def _counts(lines: Sequence[str], n: int) -> Floats:
    """(n, 23) METEOR's counts of each caption: lengths, function words, matches by stage, chunks, matched words."""
    try:
        rows = [[float(number) for number in line.split()] for line in lines if line.strip()]
    except ValueError:
        raise InputError(f"METEOR answered {lines[0]!r} where counts were expected; is it version 1.5?") from None
    if len(rows) != n or any(len(row) != 23 for row in rows):
        raise InputError(f"METEOR answered {len(rows)} lines for {n} captions; is it version 1.5?")
    counts = np.array(rows)
    # METEOR counts no chunk where the whole caption is one run, also in the sums.
    length, other_length, chunks, matched, other_matched = counts[:, [0, 1, 20, 21, 22]].T
    counts[(chunks == 1) & (matched == length) & (other_matched == other_length), 20] = 0.0
    return counts


def _meteor_of_sums(sums: Floats) -> Floats:
    """(b, 1) METEOR of (b, 23) summed counts."""
    length, other_length, functional, other_functional = sums[:, :4].T
    stages = sums[:, 4:20].reshape(len(sums), 4, 4)  # stage by (content, its reference's, function, its reference's)
    content, other_content, function, other_function = np.moveaxis(stages, 2, 0)
    chunks, matched, other_matched = sums[:, 20:].T

    def share(in_content: Floats, in_function: Floats, all_words: Floats, all_function: Floats) -> Floats:
        weighted = (_DELTA * in_content + (1 - _DELTA) * in_function) @ _STAGE_WEIGHTS
        total = _DELTA * (all_words - all_function) + (1 - _DELTA) * all_function
        return np.asarray(np.divide(weighted, total, out=np.zeros_like(weighted), where=total > 0))

    precision = share(content, function, length, functional)
    recall = share(other_content, other_function, other_length, other_functional)
    below = _ALPHA * precision + (1 - _ALPHA) * recall
    mean = np.divide(precision * recall, below, out=np.zeros_like(below), where=below > 0)
    words = (matched + other_matched) / 2
    spread = np.divide(chunks, words, out=np.zeros_like(words), where=words > 0)
    return np.asarray(mean * (1 - _GAMMA * spread**_BETA))[:, None]


def _spice_values(path: Path, n: int) -> Floats:
    """(n,) F of each caption, NaN where SPICE gives none."""
    try:
        rows: list[Mapping[str, Any]] = json.loads(path.read_text(encoding="utf-8"))
        scores = {int(row["image_id"]): row["scores"]["All"]["f"] for row in rows}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(f"SPICE wrote no scores that can be read ({error})") from None
    if set(scores) != set(range(n)):
        raise InputError(f"SPICE scored {len(scores)} of {n} captions")
    values = [scores[i] for i in range(n)]
    return np.array([float(v) if isinstance(v, int | float) else math.nan for v in values])
