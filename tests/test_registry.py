import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

from equipoise.diagnosis import _problem
from equipoise.errors import InputError, MissingExtraError, UnknownNameError, closest
from equipoise.registry import Entry, Registry, _collect

ABOUT = {"summary": "s", "citation": "c", "licence": "l"}
TOY = Path(__file__).parent / "toy_plugin"


def test_things_are_imported_on_first_use():
    registry = Registry("metric")
    registry.add("late", "no_such_module:thing", **ABOUT)
    assert "late" in registry
    assert registry.names() == ["late"]
    with pytest.raises(ModuleNotFoundError):
        registry.load("late")


def test_a_missing_package_is_answered_with_its_pip_line():
    registry = Registry("metric")
    registry.add("late", "no_such_module:thing", needs="models", **ABOUT)
    with pytest.raises(MissingExtraError, match=r"pip install .*\[models\]'"):
        registry.load("late")


def test_metadata_is_required():
    for missing in ABOUT:
        with pytest.raises(InputError, match=missing):
            Registry("metric").add("x", "math:sqrt", **(ABOUT | {missing: " "}))
    with pytest.raises(InputError, match="module:attribute"):
        Registry("metric").add("x", "math", **ABOUT)
    with pytest.raises(UnknownNameError, match="did you mean 'metric'"):
        Registry("metrics")


def test_a_name_is_taken_once():
    registry = Registry("metric")
    registry.add("x", "math:sqrt", **ABOUT)
    with pytest.raises(InputError, match="registered twice"):
        registry.add("x", "math:sqrt", **ABOUT)


def test_unknown_names_get_the_closest():
    registry = Registry("reader")
    for name in ("coco", "coco-wholebody", "fairface"):
        registry.add(name, "math:sqrt", **ABOUT)
    with pytest.raises(UnknownNameError, match="did you mean 'coco'"):
        registry.get("cocco")
    with pytest.raises(UnknownNameError, match="known: coco, coco-wholebody, fairface"):
        registry.get("zzz")
    assert closest("FAIR_FACE", registry.names()) == ["fairface"]


def test_a_broken_plugin_is_reported_and_stops_nothing():
    def broken(add):
        add("metric", "x", "math:sqrt", **ABOUT)
        raise RuntimeError("boom")

    plugin = _collect("bad", lambda: broken)
    assert plugin.problem == "RuntimeError: boom"
    assert plugin.entries == {}
    wrong_kind = _collect("bad", lambda: lambda add: add("metricks", "x", "math:sqrt", **ABOUT))
    assert "did you mean 'metric'" in wrong_kind.problem


def test_doctor_says_what_cannot_be_used():
    def add_three(add):
        add("metric", "not_there", "math:nothing", **ABOUT)
        add("metric", "max_skew", "math:sqrt", **ABOUT)
        add("suite", "fine", "math:sqrt", **ABOUT)

    problem = _problem(_collect("mine", lambda: add_three))
    assert "metric 'not_there' cannot be loaded: module 'math' has no attribute 'nothing'" in problem
    assert "metric 'max_skew' is left out: the name is taken" in problem
    assert "fine" not in problem


def test_entry_info_is_kept():
    entry = Registry("metric").add("x", "math:sqrt", revision="v1", **ABOUT)
    assert entry == Entry("x", "math:sqrt", "s", "c", "l", "", {"revision": "v1"})


def test_a_package_of_its_own_adds_a_lexicon_and_a_metric(tmp_path):
    """The toy plugin is a real distribution: built metadata on the path, found through its entry point."""
    info = tmp_path / "equipoise_toy-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: equipoise-toy\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text((TOY / "entry_points.txt").read_text())
    code = (
        "from equipoise.text import Lexicon, LEXICONS\n"
        "from equipoise.registry import Registry, plugins\n"
        "print(Lexicon.load('toy').label('a wug'), 'toy' in LEXICONS, Registry('metric').load('toy_mean')([1, 3]))\n"
        "print([p.name for p in plugins()])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={"PYTHONPATH": f"{tmp_path}:{TOY}:{os.environ.get('PYTHONPATH', '')}", "PATH": ""},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "one True 2.0\n['toy']\n"


def test_every_entry_of_every_registry_is_where_it_says():
    from equipoise.audit.suites import SUITES
    from equipoise.data.exports import EXPORTS
    from equipoise.data.readers import READERS
    from equipoise.filters.protocol import FILTERS
    from equipoise.measure import METRICS
    from equipoise.mitigate.catalog import REMEDIES
    from equipoise.models.hf.captioners import CAPTIONERS
    from equipoise.models.hf.families import FAMILIES
    from equipoise.models.loading import SCHEMES
    from equipoise.text import LEXICONS

    missing = []
    for registry in (SUITES, EXPORTS, READERS, FILTERS, METRICS, REMEDIES, FAMILIES, LEXICONS, CAPTIONERS, SCHEMES):
        for entry in registry:
            module, _, name = entry.target.partition(":")
            if module.startswith("equipoise.") and not hasattr(
                import_module(module), name.partition("(")[0] or "__name__"
            ):
                missing.append(entry.target)
    assert missing == []
