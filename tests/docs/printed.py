"""What the README and the pages print: every command, in the order of the page, and the program that each calls."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product, takewhile
from pathlib import Path
from typing import Any

from typer.main import get_command

from equipoise.cli.main import app

__all__ = ["MODEL", "PAGES", "ROOT", "Part", "calls_of", "is_whole", "mentions_of", "parts_of", "resolved", "words_of"]

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
"""A page that is added to docs is among them by itself; those of docs/tutorials are run by test_tutorials.py."""

PART = re.compile(
    r"^ *(?P<mark>`{3,})(?P<kind>[\w-]*)[^\n]*\n(?P<code>.*?)^ *(?P=mark)|`(?P<prose>equipoise [^`]+)`", re.M | re.S
)
CALL = re.compile(
    r"^(?:[#-] )?(?:run: )?(?:\$ )?(?P<call>(?:echo .+ \| )?(?:[A-Z_]+=\S+ )*"
    r"(?:(?:accelerate launch|torchrun) .*-m )?equipoise .+?)(?: \|\| .*)?$"
)
PLACEHOLDER = re.compile(r"…|\||\b[A-Z]{2,}\b")
MODEL = re.compile(r"(?<![\w-])(?:hf|diffusers|open_clip):(?=[^\s,])([^\s,'\"]+)")
PROGRAM = get_command(app)


@dataclass(frozen=True)
class Part:
    """A fenced block (``kind`` is its language, or empty) or, with the kind ``prose``, a command in a sentence."""

    kind: str
    text: str

    def calls(self) -> list[str]:
        """The command lines that it prints and that a reader could type as they are."""
        if self.kind == "prose":
            return [self.text] if is_whole(self.text) else []
        if self.kind == "python":
            return []
        found = (CALL.match(line.strip()) for line in re.sub(r"\\\n\s*", " ", self.text).splitlines())
        return [re.sub(r"\s+# .*$", "", match["call"]) for match in found if match]


def parts_of(page: Path) -> list[Part]:
    """Blocks and commands of a page, from top to bottom."""
    found = PART.finditer(page.read_text(encoding="utf-8"))
    return [Part("prose", " ".join(m["prose"].split())) if m["prose"] else Part(m["kind"], m["code"]) for m in found]


def calls_of(page: Path) -> list[str]:
    """All command lines of a page."""
    return [line for part in parts_of(page) for line in part.calls()]


def mentions_of(page: Path) -> list[str]:
    """Commands that a sentence names without all their arguments, such as ``equipoise table info TABLE``."""
    return [part.text for part in parts_of(page) if part.kind == "prose" and not is_whole(part.text)]


def resolved(words: list[str]) -> tuple[Any, list[str]]:
    """The command that the first words name, and the other words; an unknown command raises."""
    command, context = PROGRAM, PROGRAM.context_class(PROGRAM, info_name="equipoise")
    while words and hasattr(command, "resolve_command") and not words[0].startswith("-"):
        if words[0] not in command.commands and "serve" in command.commands:
            words = ["serve", *words]  # the first command of a review need not be named
        name, command, words = command.resolve_command(context, words)
        context = command.context_class(command, info_name=name, parent=context)
    return command, words


def is_whole(text: str) -> bool:
    """Whether a command in a sentence can be typed as it stands: no placeholder, and something beside its name."""
    if PLACEHOLDER.search(text):
        return False
    command, rest = resolved(shlex.split(text)[1:])
    needs = sum(p.required and p.param_type_name == "argument" for p in command.params)
    given = len(list(takewhile(lambda word: not word.startswith("-"), rest)))
    takes = {name for p in command.params for name in p.opts if not getattr(p, "is_flag", False)}
    return bool(rest) and rest[-1] not in takes and given >= needs


def words_of(line: str) -> list[str]:
    """The words that the program is given, once a shell has opened braces and globs."""
    call = re.sub(r"^.*?(?=\bequipoise )", "", line, count=1)
    words = shlex.split(re.sub(r"\s>\s*\S+", "", call))[1:]
    return [one for word in words for braced in _braces(word) for one in _files(braced)]


def _braces(word: str) -> Iterator[str]:
    parts = re.split(r"\{([^{}]*,[^{}]*)\}", word)
    for chosen in product(*(part.split(",") if at % 2 else [part] for at, part in enumerate(parts))):
        yield "".join(chosen)


def _files(word: str) -> list[str]:
    return (sorted(map(str, Path().glob(word))) if "*" in word else []) or [word]
