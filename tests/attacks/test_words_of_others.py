"""Words and files of others are shown as text, and never run, obeyed or given away."""

from __future__ import annotations

import csv
import io
import os
import signal
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from PIL import Image

from equipoise import engine
from equipoise.data import Table
from equipoise.data.exports import export
from equipoise.data.exports.card import card
from equipoise.data.images import decode, encode
from equipoise.data.summary import first_rows
from equipoise.errors import InputError
from equipoise.formatting import csv_text, shown, text_table

FORMULAS = ('=HYPERLINK("http://x")', "+1+cmd", "-2+3", "@SUM(A1)", "\t=1", "\r=1")


def test_no_cell_of_a_csv_file_is_a_formula(tmp_path: Path) -> None:
    rows = [{"image_id": f"{i}", "caption": text, "seed": -i} for i, text in enumerate(FORMULAS)]
    table = Table.create(tmp_path / "in", rows)
    written = export("csv", table, tmp_path / "table.csv").read_bytes().decode()
    cells = [row["caption"] for row in csv.DictReader(io.StringIO(written, newline=""))]
    assert cells == ["'" + text for text in FORMULAS]
    assert {row["seed"] for row in csv.DictReader(io.StringIO(written, newline=""))} >= {"-1", "-5"}
    frame = pd.DataFrame({"=a": [*FORMULAS, None], "n": [-1.5, 2, 3, 4, 5, 6, 7]})
    lines = list(csv.reader(io.StringIO(csv_text(frame), newline="")))
    assert lines[0] == ["'=a", "n"]
    assert [line[0] for line in lines[1:]] == [*("'" + text.replace("\r", " ") for text in FORMULAS), ""]
    assert lines[1][1] == "-1.5"


def test_a_terminal_obeys_nobodys_caption(tmp_path: Path) -> None:
    text = "\x1b]0;owned\x07 a\x9b2J\u202ecat\x00"
    table = Table.create(tmp_path / "in", [{"image_id": "\x1b[31m", "caption": text}])
    (row,) = first_rows(table)
    assert row["caption"] == "\\x1b]0;owned\\x07 a\\x9b2J\\u202ecat\\x00"
    assert row["image_id"] == "\\x1b[31m"
    assert text_table([["\x1b[2J"]]) == ["\\x1b[2J"]
    assert shown("a\N{NO-BREAK SPACE}café 😀") == "a\N{NO-BREAK SPACE}café 😀"


def test_markdown_in_a_group_is_text_in_the_card(tmp_path: Path) -> None:
    group = "![x](http://evil/pixel.png) [go](javascript:x) **b** `c` | <script>"
    table = Table.create(tmp_path / "in", [{"image_id": "a", "gender": group}], axes=["gender"])
    line = next(line for line in card(table).splitlines() if "evil" in line)
    assert r"!\[x\](http://evil/pixel.png) \[go\](javascript:x) \*\*b\*\* \`c\` \| &lt;script&gt;" in line


def test_a_table_gives_away_no_file_of_the_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not by an absolute path, not by a link, and not by a root that it names itself."""
    secret = tmp_path / "private" / "secret.png"
    secret.parent.mkdir()
    secret.write_bytes(encode(Image.new("RGB", (4, 4))))
    for number, (path, root) in enumerate(
        [
            (str(secret), None),
            ("link.png", None),
            ("secret.png", str(secret.parent)),
            (f"../private/{secret.name}", "x"),
        ]
    ):
        config = {} if root is None else {"image_root": root}
        rows = [{"image_id": "a", "image": {"bytes": None, "path": path}}]
        table = Table.create(tmp_path / f"in{number}", rows, config=config)
        (table.path / "link.png").symlink_to(secret)
        for kind in ("folder", "huggingface", "webdataset"):
            with pytest.raises(InputError, match=r"lies outside the table|leads out of its folder"):
                export(kind, table, tmp_path / "out")
            assert not (tmp_path / "out").exists()
    table = Table.open(tmp_path / "in0")
    monkeypatch.setenv("EQUIPOISE_IMAGES", os.pathsep.join(["/nowhere", str(secret.parent)]))
    assert export("folder", table, tmp_path / "out").is_dir()


def test_a_page_shows_no_file_of_the_machine(tmp_path: Path) -> None:
    from equipoise.report.page.gallery import thumbnails

    (tmp_path / "secret.png").write_bytes(encode(Image.new("RGB", (4, 4))))
    rows = [{"image_id": "a", "image": {"bytes": None, "path": str(tmp_path / "secret.png")}}]
    problems: list[str] = []
    assert thumbnails(Table.create(tmp_path / "in", rows), ["a"], problems) == {}
    assert "lies outside the table" in problems[0]


@pytest.mark.parametrize("form", ["JPEG", "PNG", "GIF", "WEBP", "BMP", "TIFF", "PPM"])
def test_an_image_that_is_cut_off_anywhere_is_refused(form: str) -> None:
    out = io.BytesIO()
    Image.linear_gradient("L").resize((24, 24)).save(out, form)
    data = out.getvalue()
    assert decode(data).size == (24, 24)
    for length in {*range(len(data) - 40, len(data)), *range(1, len(data), 53)}:
        with pytest.raises(InputError):
            decode(data[:length])


def test_ctrl_c_in_the_last_shard_ends_the_run(tmp_path: Path) -> None:
    table = Table.create(tmp_path / "in", [{"image_id": str(i)} for i in range(4)], rows_per_shard=2)

    def interrupted(rows: list[dict[str, Any]]) -> list[Any]:
        if rows[0]["image_id"] == "2":
            os.kill(os.getpid(), signal.SIGINT)
        return [{"model": "m", "caption": "x"} for _ in rows]

    told: list[str] = []
    with pytest.raises(engine.Interrupted, match="2 of 2 shards"):
        engine.map(interrupted, table, tmp_path / "out", schema="captions", on_interrupt=told.append, progress=False)
    assert len(Table.open(tmp_path / "out")) == 4, "what was made is finished"


def test_a_share_can_grow_and_nothing_replaced_before_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from typer.testing import CliRunner

    from equipoise.cli.generate import app

    class Painter:
        name = key = "painter"

        def generate(self, prompts: Any, *, seed: int, **how: Any) -> list[Any]:
            return [Image.new("RGB", (4, 4), (seed % 256, len(prompt), 0)) for prompt in prompts]

    monkeypatch.setattr("equipoise.models.load", lambda *words, **options: Painter())
    rows = [{"image_id": f"r{i:02d}", "image": Image.new("RGB", (4, 4)), "caption": f"a thing {i}"} for i in range(25)]
    real = Table.create(tmp_path / "real", rows).path

    def substitute(alpha: str) -> str:
        done = CliRunner().invoke(app, ["substitute", str(real), str(tmp_path / "out"), "-g", "x", "--alpha", alpha])
        assert done.exit_code == 0, (done.output, done.exception)
        return done.output

    def replaced(alpha: str) -> dict[str, bytes]:
        made = Table.open(tmp_path / "out" / f"D{alpha}").rows(["source_id", "image", "generator"])
        return {row["source_id"]: row["image"]["bytes"] for row in made if row["generator"]}

    assert "D(0)" in substitute("0")
    assert replaced("0") == {}
    assert not (tmp_path / "out" / "generated").exists()
    substitute("0.1,0.2")
    before = {alpha: replaced(alpha) for alpha in ("0.1", "0.2")}
    assert [len(some) for some in before.values()] == [3, 5]
    substitute("0.4")
    substitute("0.28")
    assert [len(replaced(alpha)) for alpha in ("0.28", "0.4")] == [7, 10]
    assert before["0.2"].items() <= replaced("0.28").items() <= replaced("0.4").items()
    assert {alpha: replaced(alpha) for alpha in before} == before
    assert sorted(path.name for path in (tmp_path / "out").glob("generated*")) == ["generated", "generated-0.4"]
