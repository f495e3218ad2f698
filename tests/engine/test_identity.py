from __future__ import annotations

import functools
from dataclasses import dataclass, field
from typing import Any

from equipoise.engine.content import identity


def defined(source: str) -> Any:
    """``f`` as a file with this source would define it."""
    import linecache

    name = f"<source {hash(source)}>"
    linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
    scope: dict[str, Any] = {"__name__": "made"}
    exec(compile(source, name, "exec"), scope)
    return scope["f"]


BASE = "def f(rows):\n    return [row + 1 for row in rows]\n"


def test_comments_layout_and_docstrings_do_not_count() -> None:
    other = 'def f(rows):\n    """Adds one."""\n    # one more\n    return [\n        row + 1 for row in rows]\n'
    assert identity(defined(BASE)) == identity(defined(other))


def test_the_code_counts() -> None:
    assert identity(defined(BASE)) != identity(defined(BASE.replace("+ 1", "+ 2")))
    assert identity(defined(BASE))["name"] == "made:f"


def test_lambdas_differ_by_their_code() -> None:
    one, two, same = (lambda row: row + 1), (lambda row: row + 2), (lambda row: row + 1)
    assert identity(one) == identity(same)
    assert identity(one) != identity(two)
    named = [identity(lambda row: row in {"b", "a", "c", "d"}) for _ in range(2)]
    assert named[0] == named[1]


def closed_over(value: Any) -> Any:
    def f(rows: Any) -> Any:
        return rows, value

    return f


def test_a_closure_counts_but_not_its_memory() -> None:
    assert identity(closed_over(1)) == identity(closed_over(1))
    assert identity(closed_over(1)) != identity(closed_over(2))
    assert identity(closed_over(closed_over(1))) != identity(closed_over(closed_over(2)))
    assert identity(closed_over([])) == identity(closed_over([3]))
    assert "nan" in str(identity(closed_over(float("nan"))))


@dataclass
class Settings:
    threshold: float
    where: str = field(default="", compare=False)

    def __call__(self, rows: Any) -> Any:
        return rows


class Keyed:
    def __init__(self, key: str) -> None:
        self.key = key

    def run(self, rows: Any) -> Any:
        return rows


def test_objects_are_told_apart_by_key_or_by_their_fields() -> None:
    assert identity(Settings(0.5)) == identity(Settings(0.5, "elsewhere"))
    assert identity(Settings(0.5)) != identity(Settings(0.7))
    assert identity(Keyed("a").run) != identity(Keyed("b").run)
    assert identity(Keyed("a").run)["settings"] == {"of": {"type": "Keyed", "key": "a"}}
    assert identity(functools.partial(closed_over, Keyed("a"))) != identity(functools.partial(closed_over, Keyed("b")))
    assert identity(functools.partial(closed_over, value=3))["settings"] == {"value": 3}
    assert identity(len)["name"] == "builtins:len"
    assert identity(Keyed)["name"].endswith(":Keyed")


class Plain:
    def __init__(self, threshold: float, names: tuple[str, ...] = ()) -> None:
        self.threshold = threshold
        self.names = names
        self.memory: list[int] = []
        self._calls = 0

    @functools.cached_property
    def computed(self) -> int:
        return 3

    def __call__(self, rows: Any) -> Any:
        self.memory.append(len(rows))
        self._calls += self.computed
        return rows

    def run(self, rows: Any) -> Any:
        return self(rows)


def test_plain_attributes_of_an_object_count_but_not_its_memory() -> None:
    one = Plain(0.5)
    before, before_bound = identity(one), identity(one.run)
    assert before["settings"] == {"threshold": 0.5, "names": []}
    one([1, 2])
    assert (identity(one), identity(one.run)) == (before, before_bound)
    for other in (Plain(0.7), Plain(0.5, ("a",))):
        assert identity(other) != before
        assert identity(other.run) != before_bound
        assert identity(functools.partial(other)) != identity(functools.partial(one))
