from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from equipoise.cli.cache import app
from equipoise.engine import EmbeddingStore
from equipoise.engine.cache import cache_root, default_store_root
from equipoise.engine.content import text_ids
from equipoise.engine.store import clear_stores, stores
from equipoise.errors import InputError


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache with two stores and, beside them, things that are none."""
    monkeypatch.setenv("EQUIPOISE_CACHE", str(tmp_path / "cache"))
    EmbeddingStore(None, "hf:clip").add(text_ids(["a", "b"]), [[1.0, 2.0], [3.0, 4.0]])
    EmbeddingStore(None, "mini").add(text_ids(["a"]), [[1.0]])
    (default_store_root() / "thesis").mkdir()
    (default_store_root() / "thesis" / "chapter.txt").write_text("years of work")
    (default_store_root() / "loose.txt").write_text("a note")
    return default_store_root()


def test_where_the_cache_is() -> None:
    home = Path.home()
    assert cache_root({}, "linux") == home / ".cache" / "equipoise"
    assert cache_root({}, "darwin") == home / "Library" / "Caches" / "equipoise"
    assert cache_root({"LOCALAPPDATA": "/l"}, "win32") == Path("/l/equipoise/Cache")
    assert cache_root({"EQUIPOISE_CACHE": "~/x"}, "linux") == home / "x"


def test_only_stores_are_listed(root: Path) -> None:
    assert [(info.key, info.n, info.dim, info.n_segments) for info in stores()] == [
        ("hf:clip", 2, 2, 1),
        ("mini", 1, 1, 1),
    ]
    assert stores()[0].n_bytes > 32 + 16
    assert stores(root / "nowhere") == []


def test_clearing_leaves_everything_else(root: Path) -> None:
    assert [info.key for info in clear_stores(key="mini")] == ["mini"]
    assert [info.key for info in stores()] == ["hf:clip"]
    clear_stores()
    assert sorted(path.name for path in root.iterdir()) == ["loose.txt", "thesis"]
    assert (root / "thesis" / "chapter.txt").exists()


def test_a_store_with_strange_files_is_refused_before_anything_is_deleted(root: Path) -> None:
    (EmbeddingStore(None, "mini").path / "precious.txt").write_text("!")
    with pytest.raises(InputError, match=r"holds 'precious.txt', which is not part of an embedding store"):
        clear_stores()
    assert len(stores()) == 2
    with pytest.raises(InputError, match="precious"):
        EmbeddingStore(None, "mini").delete()


def test_a_renamed_store_and_one_that_names_no_encoder_are_seen_and_cleared(root: Path) -> None:
    by_key = {info.key: info.path for info in stores()}
    by_key["hf:clip"].rename(root / "renamed")
    marker = by_key["mini"] / "store.json"
    marker.write_text(json.dumps({k: v for k, v in json.loads(marker.read_text()).items() if k != "key"}))
    found = {info.key: (info.path, info.n) for info in stores()}
    assert found == {"hf:clip": (root / "renamed", 2), by_key["mini"].name: (by_key["mini"], 1)}
    assert len(clear_stores(key="hf:clip")) == 1
    assert not (root / "renamed").exists()
    assert len(clear_stores()) == 1
    assert sorted(path.name for path in root.iterdir() if not path.name.startswith(".")) == ["loose.txt", "thesis"]


def test_a_link_to_a_store_is_not_followed(root: Path, tmp_path: Path) -> None:
    real = EmbeddingStore(tmp_path / "elsewhere", "mini")
    real.add(text_ids(["x"]), [[1.0]])
    (root / "link").symlink_to(real.path)
    clear_stores()
    assert real.has(text_ids(["x"])).all()


def test_an_unknown_key_is_answered_with_the_closest(root: Path) -> None:
    with pytest.raises(InputError, match=r"no embeddings of 'hf:clipp' are kept in .*; did you mean 'hf:clip'"):
        clear_stores(key="hf:clipp")
    with pytest.raises(InputError, match=r"no embeddings of 'foo' are kept in .*; kept are: hf:clip, mini"):
        clear_stores(key="foo")
    clear_stores()
    with pytest.raises(InputError, match="nothing is kept there"):
        clear_stores(key="foo")


def test_a_cleared_store_can_be_filled_again(root: Path) -> None:
    store = EmbeddingStore(None, "mini")
    assert len(store) == 1
    clear_stores()
    assert store.get(text_ids(["a"]))[1].all()
    store.add(text_ids(["a"]), [[7.0]])
    assert store.get(text_ids(["a"]))[0].tolist() == [[7.0]]


class TestCommands:
    def test_info(self, root: Path) -> None:
        said = CliRunner().invoke(app, ["info"]).output
        assert f"embeddings in {root}" in said
        assert "hf:clip           2 vectors of     2" in said
        entries = json.loads(CliRunner().invoke(app, ["info", "--json"]).output)
        assert [(entry["key"], entry["n"]) for entry in entries] == [("hf:clip", 2), ("mini", 1)]

    def test_clear_asks_first(self, root: Path) -> None:
        refused = CliRunner().invoke(app, ["clear"], input="n\n")
        assert refused.exit_code == 1
        assert "Delete these 2 stores?" in refused.output
        assert len(stores()) == 2
        done = CliRunner().invoke(app, ["clear", "--key", "mini"], input="y\n")
        assert done.exit_code == 0
        assert "deleted 1 store," in done.output
        assert CliRunner().invoke(app, ["clear", "--yes"]).exit_code == 0
        assert "nothing to clear" in CliRunner().invoke(app, ["clear", "--yes"]).output

    @pytest.mark.parametrize("command", ["info", "clear"])
    def test_a_root_that_is_no_folder_is_refused(self, root: Path, command: str) -> None:
        for name, message in (("nope", "does not exist"), ("loose.txt", "is a file")):
            with pytest.raises(InputError, match=message):
                CliRunner().invoke(app, [command, "--root", str(root / name)], catch_exceptions=False)
