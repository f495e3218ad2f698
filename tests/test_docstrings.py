"""What the packages offer says what it takes and gives back: ``Args`` name every parameter, ``Returns`` the result.

Static, so that no package is imported. A function of one parameter is described by its sentence.
"""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

SOURCES = Path(__file__).parent.parent / "src" / "equipoise"
FEWEST = 2
"""So many parameters need a list."""
_SECTION = re.compile(r"^(Args|Returns|Yields|Raises):$", re.MULTILINE)
_NAME = re.compile(r"^    (\*{0,2}\w+):", re.MULTILINE)
_DESCRIBED_ELSEWHERE = ("cli",)
"""Commands: ``--help`` lists their options."""


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def file_of(module: str) -> Path | None:
    place = SOURCES.parent.joinpath(*module.split("."))
    return next((path for path in (place.with_suffix(".py"), place / "__init__.py") if path.is_file()), None)


def offered(init: Path) -> set[str]:
    """The names in ``__all__`` of a package."""
    for node in tree_of(init).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return set(ast.literal_eval(node.value)) if isinstance(node.value, ast.List | ast.Tuple) else set()
    return set()


def function_in(path: Path, name: str) -> tuple[Path, ast.FunctionDef] | None:
    """The function that ``name`` stands for in a file, there or where the file imports it from."""
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.FunctionDef) and node.name == name and node in tree_of(path).body:
            return path, node
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("equipoise"):
            for alias in node.names:
                home = file_of(node.module or "")
                if (alias.asname or alias.name) == name and home is not None and home != path:
                    return function_in(home, alias.name)
    return None


def public_functions() -> Iterator[tuple[str, ast.FunctionDef]]:
    seen = set()
    for init in sorted(SOURCES.rglob("__init__.py")):
        if init.relative_to(SOURCES).parts[0] in _DESCRIBED_ELSEWHERE:
            continue
        for name in sorted(offered(init)):
            there = function_in(init, name)
            if there is not None and (there[0], there[1].name) not in seen:
                seen.add((there[0], there[1].name))
                yield f"{there[0].relative_to(SOURCES)}:{there[1].name}", there[1]


def parameters(function: ast.FunctionDef) -> list[str]:
    given = function.args
    names = [each.arg for each in (*given.posonlyargs, *given.args)]
    names += [f"*{given.vararg.arg}"] if given.vararg else []
    names += [each.arg for each in given.kwonlyargs]
    return names + ([f"**{given.kwarg.arg}"] if given.kwarg else [])


def faults(function: ast.FunctionDef) -> list[str]:
    """What a docstring leaves open."""
    text = ast.get_docstring(function) or ""
    parts = _SECTION.split(text)
    sections = dict(zip(parts[1::2], parts[2::2], strict=True))
    names = parameters(function)
    if len(names) < FEWEST and "Args" not in sections:
        return []
    # the section ends where the text is no longer indented
    listed = _NAME.findall(re.split(r"\n(?=\S)", sections.get("Args", ""))[0])
    told = [] if listed == names else [f"Args say {', '.join(listed) or 'nothing'}; it takes {', '.join(names)}"]
    gives = function.returns is not None and ast.unparse(function.returns) not in ("None", "NoReturn")
    if gives and not {"Returns", "Yields"} & set(sections):
        told.append("no Returns")
    return told


@pytest.mark.parametrize(
    ("docstring", "told"),
    [
        ("Add.\n\n    Args:\n        a: one.\n        b: two.\n\n    Returns:\n        The sum.\n    ", []),
        ("Add.\n\n    Args:\n        a: one.\n\n    Returns:\n        The sum.\n    ", ["Args say a; it takes a, b"]),
        ("Add.\n\n    Args:\n        a: one.\n        b: two.\n\n    >>> add(1, 2)\n    3\n    ", ["no Returns"]),
        ("Add.", ["Args say nothing; it takes a, b", "no Returns"]),
    ],
)
def test_what_is_left_open_is_found(docstring, told):
    function = ast.parse(f'def add(a: int, b: int) -> int:\n    """{docstring}"""\n').body[0]
    assert faults(function) == told


def test_there_are_public_functions():
    names = [name for name, _ in public_functions()]
    assert len(names) > 300
    assert {"audit/running.py:run", "engine/asking.py:vectors", "measure/retrieval/skew.py:max_skew"} <= set(names)


def test_public_functions_say_what_they_take_and_give_back():
    assert {name: told for name, function in public_functions() if (told := faults(function))} == {}
