"""The pages on readers say what the registry says, and their example works."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from equipoise.data.readers import READERS
from equipoise.data.schema import Rejected

DOCS = Path(__file__).parents[3] / "docs"


def test_every_reader_is_in_the_table_with_its_licence_and_harms() -> None:
    page = (DOCS / "data-readers.md").read_text(encoding="utf-8")
    for entry in READERS:
        assert f"| `{entry.name}` | {entry.summary} | " in page
        assert f" | {entry.licence} |" in page
        assert f"- `{entry.name}`: {entry.info['harms']} ({entry.citation}." in page


def test_the_example_of_a_new_reader_works(tmp_path: Path, touch: Any) -> None:
    page = (DOCS / "adding-a-reader.md").read_text(encoding="utf-8")
    code = re.findall(r"```python\n(.*?)```", page, re.DOTALL)[0]
    namespace: dict[str, Any] = {}
    exec(compile(code, "mydata.py", "exec"), namespace)
    (tmp_path / "mydata_1.csv").write_text(
        "name,sex,camera\na.jpg,female,x\nb.jpg,femal,x\nc.jpg,male,x\nd.jpg,unknown,x\n"
    )
    for name in "abd":
        touch(tmp_path / f"{name}.jpg")
    found = list(namespace["read"](tmp_path, images=tmp_path))
    assert [row["gender"] for row in found if not isinstance(row, Rejected)] == ["female", None]
    assert [row.where for row in found if isinstance(row, Rejected)] == ["mydata_1.csv line 3", "mydata_1.csv line 4"]
