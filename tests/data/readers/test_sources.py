"""Opening files as they are: encodings, line ends, quotes, sizes, nesting."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from equipoise.data.readers import files as sources
from equipoise.data.readers.files import csv_records, json_lines, read_json, text_lines
from equipoise.data.schema import Rejected
from equipoise.errors import InputError


def records(path: Path, **options: object) -> tuple[list[dict[str, str]], list[str]]:
    found = list(csv_records(path, **options))  # type: ignore[arg-type]
    return (
        [record[1] for record in found if not isinstance(record, Rejected)],
        [record.reason for record in found if isinstance(record, Rejected)],
    )


def written(tmp_path: Path, data: bytes, name: str = "file.csv") -> Path:
    path = tmp_path / name
    path.write_bytes(data)
    return path


def test_a_byte_order_mark_and_crlf_do_not_show(tmp_path: Path) -> None:
    path = written(tmp_path, b'\xef\xbb\xbfid,caption\r\n1,a cat\r\n2,"two\r\nlines"\r\n\r\n')
    assert records(path) == ([{"id": "1", "caption": "a cat"}, {"id": "2", "caption": "two\nlines"}], [])


def test_bytes_that_are_not_utf8_stay_in_their_field(tmp_path: Path) -> None:
    good, bad = records(written(tmp_path, b"id,caption\n1,caf\xe9\n2,tea\n"))
    assert [row["id"] for row in good] == ["1", "2"]
    assert good[0]["caption"] == "caf\udce9"  # whoever takes it rejects it
    assert not bad


def test_utf16_is_refused_with_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="save it as UTF-8"):
        records(written(tmp_path, "id\n1\n".encode("utf-16")))


def test_a_record_of_another_length_is_rejected_not_shifted(tmp_path: Path) -> None:
    good, bad = records(written(tmp_path, b"id,caption\n1,a,b\n2\n3,fine\n"))
    assert good == [{"id": "3", "caption": "fine"}]
    assert bad == ["the record has 3 fields but there are 2 columns", "the record has 1 fields but there are 2 columns"]


def test_an_unclosed_quote_ends_the_file_instead_of_giving_wrong_rows(tmp_path: Path) -> None:
    good, bad = records(written(tmp_path, b'id,caption\n1,fine\n2,"open\n3,x\n4,y\n'))
    assert good == [{"id": "1", "caption": "fine"}]
    assert "a quote is not closed; the rest of the file was not read" in bad


def test_a_closed_quote_with_text_after_it_costs_its_own_record(tmp_path: Path) -> None:
    good, bad = records(written(tmp_path, b'id,caption\n1,"a"b\n2,fine\n'))
    assert good == [{"id": "2", "caption": "fine"}]
    assert len(bad) == 1


def test_a_huge_field_costs_its_own_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "MAX_FIELD", 1000)
    before = csv.field_size_limit()
    good, bad = records(written(tmp_path, b"id,caption\n1," + b"x" * 5000 + b"\n2,fine\n"))
    assert good == [{"id": "2", "caption": "fine"}]
    assert len(bad) == 1
    assert csv.field_size_limit() == before


def test_a_huge_line_is_not_read_into_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "MAX_LINE", 100)
    path = written(tmp_path, b"id,caption\n1," + b"x" * 1000 + b"\n2,fine\n")
    good, bad = records(path)
    assert good == [{"id": "2", "caption": "fine"}]
    assert bad == ["the line is longer than 100 bytes"]
    assert [number for number, _ in text_lines(path)] == [1, 2, 3]
    _, bad = records(written(tmp_path, b'id,caption\n1,"open\n' + b"x" * 1000 + b"\n2,fine\n"))
    assert bad[0] == "the line is longer than 100 bytes"
    assert bad[-1].startswith("a quote is not closed")
    with pytest.raises(InputError, match="cannot be read as column names: the line is longer than 100 bytes"):
        records(written(tmp_path, b"id," + b"x" * 1000 + b"\n1,fine\n2,fine\n"))


def test_quotes_in_a_tab_separated_file_are_only_letters(tmp_path: Path) -> None:
    good, bad = records(written(tmp_path, b'id\tcaption\n1\ta "big" cat\n2\t"open\n'), delimiter="\t")
    assert [row["caption"] for row in good] == ['a "big" cat', '"open']
    assert not bad


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "is empty"),
        (b"id,id\n1,2\n", "names a column twice"),
        (b"name\n1\n", "no column 'id'; its columns are: name"),
        (b"id,caf\xe9\n1,2\n", "are not UTF-8 text"),
        (b'id,"caption\n', "cannot be read as column names"),
    ],
)
def test_a_wrong_header_is_refused(tmp_path: Path, data: bytes, reason: str) -> None:
    with pytest.raises(InputError, match=reason):
        records(written(tmp_path, data), required=("id",))


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-32"])
def test_json_of_any_unicode_encoding(tmp_path: Path, encoding: str) -> None:
    assert read_json(written(tmp_path, '{"a": "é"}'.encode(encoding))) == {"a": "é"}


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "is empty"),
        (b"{", "is not JSON"),
        (b'{"a": "\xe9"}', "is not utf-8 at byte 7"),
        (b"[" * 100_000, "nested too deep|is not JSON"),
        (b"1" * 5000, "is not JSON"),
    ],
)
def test_json_that_cannot_be_read(tmp_path: Path, data: bytes, reason: str) -> None:
    with pytest.raises(InputError, match=reason):
        read_json(written(tmp_path, data))


def test_json_lines_reject_by_line(tmp_path: Path) -> None:
    found = list(json_lines(written(tmp_path, b'\xef\xbb\xbf{"a": 1}\r\n\r\nnope\n{"a": "\xff"}\n[1]\n')))
    assert [f[1] for f in found if not isinstance(f, Rejected)] == [{"a": 1}, [1]]
    assert [f.where for f in found if isinstance(f, Rejected)] == ["file.csv line 3", "file.csv line 4"]
