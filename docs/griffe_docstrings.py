"""Make docstrings readable as Markdown: examples become code blocks, and roles become plain code."""

import re
from typing import Any

import griffe


class PlainDocstrings(griffe.Extension):
    """Fence doctest examples, and turn ``:func:`name``` into ```name```."""

    def on_object(self, *, obj: griffe.Object, **kwargs: Any) -> None:
        """Rewrite the docstring of every object that has one."""
        if obj.docstring is not None:
            obj.docstring.value = _fenced(re.sub(r":\w+:`~?([^`]+)`", r"`\1`", obj.docstring.value))


def _fenced(text: str) -> str:
    lines: list[str] = []
    inside = False
    for line in text.splitlines():
        starts = line.lstrip().startswith(">>>")
        if starts and not inside:
            lines += ["", "```pycon"]
            inside = True
        elif inside and not line.strip():
            lines.append("```")
            inside = False
        lines.append(line.lstrip() if inside and line.lstrip().startswith((">>>", "...")) else line)
    return "\n".join([*lines, "```"] if inside else lines)
