"""The tree of the sources, measured: files in a folder, lines in a file, who imports whom, who is called what.

Static: imports inside functions and under ``TYPE_CHECKING`` count as well, for a reader follows those too.
"""

import ast
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parent.parent
SOURCES = ROOT / "src" / "equipoise"
MOST_FILES = 22
MOST_LINES = 450


@cache
def python_files() -> tuple[Path, ...]:
    return tuple(sorted([*SOURCES.rglob("*.py"), *(ROOT / "tests").rglob("*.py")]))


@cache
def modules() -> dict[str, Path]:
    """The modules of the package by their dotted names."""
    names = {}
    for path in python_files():
        if path.is_relative_to(SOURCES):
            parts = path.relative_to(SOURCES.parent).with_suffix("").parts
            names[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return names


def statements(node: ast.AST) -> Iterator[ast.stmt]:
    """All statements below ``node``, however deep; expressions, most of a tree, hold none and are passed over."""
    for part in ("body", "handlers", "orelse", "finalbody", "cases"):
        below = getattr(node, part, ())
        for child in below if isinstance(below, list) else ():  # the body of a lambda is an expression
            if isinstance(child, ast.stmt):
                yield child
            yield from statements(child)


@cache
def read(path: Path) -> tuple[tuple[ast.Import | ast.ImportFrom, ...], tuple[str, ...]]:
    """The imports of a file, wherever in it they are, and the names of its classes at the top."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    found = tuple(node for node in statements(tree) if isinstance(node, ast.Import | ast.ImportFrom))
    return found, tuple(node.name for node in tree.body if isinstance(node, ast.ClassDef))


def imports(module: str) -> set[str]:
    """The modules of the package that ``module`` imports from, wherever in the file it does."""
    targets = set()
    for node in read(modules()[module])[0]:
        if isinstance(node, ast.Import):
            targets |= {alias.name for alias in node.names}
        elif node.module:
            for alias in node.names:
                whole = f"{node.module}.{alias.name}"
                targets.add(whole if whole in modules() else node.module)
    return (targets & set(modules())) - {module}


def cycles(graph: dict[str, set[str]]) -> Iterator[list[str]]:
    """The modules that import each other in a ring, each ring once (strongly connected components, Tarjan 1972)."""
    number: dict[str, int] = {}
    low: dict[str, int] = {}
    path: list[str] = []

    def visit(node: str) -> Iterator[list[str]]:
        number[node] = low[node] = len(number)
        path.append(node)
        for target in sorted(graph[node]):
            if target not in number:
                yield from visit(target)
                low[node] = min(low[node], low[target])
            elif target in path:
                low[node] = min(low[node], number[target])
        if low[node] == number[node]:
            ring = path[path.index(node) :]
            del path[path.index(node) :]
            if len(ring) > 1:
                yield sorted(ring)

    for node in sorted(graph):
        if node not in number:
            yield from visit(node)


def test_rings_are_found():
    assert list(cycles({"a": {"b"}, "b": {"c"}, "c": {"b"}, "d": {"d", "a"}})) == [["b", "c"]]


def test_imports_are_found_however_deep():
    code = "import a\n"
    for above in ("def f():", "class C:", "async def g():", "if x:", "while x:", "for x in y:", "with x:", "try:"):
        code += f"{above}\n import b\n"
        code += "except E:\n import c\nelse:\n import d\nfinally:\n import e\n" if above == "try:" else ""
    code += "if x:\n pass\nelif y:\n import f\nelse:\n def g():\n  match x:\n   case 1:\n    import g\n"
    tree = ast.parse(code)
    wanted = [node.names[0].name for node in ast.walk(tree) if isinstance(node, ast.Import)]
    found = [node.names[0].name for node in statements(tree) if isinstance(node, ast.Import)]
    assert sorted(found) == sorted(wanted)
    assert set(found) == set("abcdefg")


def test_no_folder_is_crowded():
    counts: dict[str, int] = defaultdict(int)
    for path in python_files():
        counts[str(path.parent.relative_to(ROOT))] += 1
    assert {folder: n for folder, n in counts.items() if n > MOST_FILES} == {}


def test_no_file_is_long():
    """Tests may be longer: a table of cases is read row by row."""
    lengths = {str(path.relative_to(ROOT)): len(path.read_text("utf-8").splitlines()) for path in modules().values()}
    assert {path: n for path, n in lengths.items() if n > MOST_LINES} == {}


def test_no_modules_import_each_other():
    assert list(cycles({module: imports(module) for module in modules()})) == []


def test_no_public_class_name_stands_twice():
    places = defaultdict(list)
    for module, path in modules().items():
        for name in read(path)[1]:
            if not name.startswith("_"):
                places[name].append(module)
    assert {name: where for name, where in places.items() if len(where) > 1} == {}


def test_only_packages_list_what_they_offer():
    """In a module the names say it themselves: a leading underscore is private."""
    lists = [
        name
        for name, path in modules().items()
        if path.name != "__init__.py" and "__all__ =" in path.read_text("utf-8")
    ]
    assert lists == []
