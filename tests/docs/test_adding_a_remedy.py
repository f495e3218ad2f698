"""The example of docs/adding-a-remedy.md works as pasted: it conforms, and its line registers it."""

import re
import sys
from pathlib import Path
from types import ModuleType

from equipoise.mitigate.conformance import check
from equipoise.registry import Registry

PAGE = Path(__file__).parents[2] / "docs" / "adding-a-remedy.md"


def test_the_example_conforms_and_its_line_registers_it(monkeypatch):
    file, line, _ = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    module = ModuleType("equipoise.mitigate.shrink")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    exec(compile(file, str(PAGE), "exec"), module.__dict__)
    remedies = Registry("remedy")
    exec(line, {"REMEDIES": remedies})
    made = remedies.load("shrink")
    assert [one.problem for one in check(made) if one.problem] == []
    assert remedies.get("shrink").info["strengths"][-1] == {"share": 1.0}
