"""A setting that a suite does not read is refused, whether from Python, TOML or the command line."""

from __future__ import annotations

import inspect
import json
import re
import sys

import pandas as pd
import pytest
from typer.testing import CliRunner

from equipoise.audit import AuditConfig
from equipoise.audit.suite import EVERY_SETTING
from equipoise.audit.suites import SUITES
from equipoise.cli.main import app
from equipoise.data.settings import Settings
from equipoise.errors import InputError

GIVEN = {
    "axes": (["gender"], ["--axis", "gender"]),
    "k": ([7], ["--k", "7"]),
    "variants": (["berg"], ["--variant", "berg"]),
    "prompts": (["x {}"], ["--prompt", "x {}"]),
    "prompt_kinds": (["crime"], []),
    "prompt_pool": ("metric_mean", []),
    "min_sets": (9, ["--min-sets", "9"]),
    "pair": (["female", "male"], ["--pair", "female", "male"]),
    "lexicon": ("lic", []),
    "link": ("seed", ["--link", "seed"]),
    "draws": (77, ["--draws", "77"]),
    "seeds": ([3], []),
    "seed": (5, ["--seed", "5"]),
    "level": (0.9, []),
    "placebos": (["bag"], ["--placebo", "bag"]),
    "margin": (0.3, ["--margin", "0.3"]),
}


def refused(*words: str) -> str:
    done = CliRunner().invoke(app, list(words))
    assert isinstance(done.exception, InputError), (words, done.output, done.exception)
    return str(done.exception)


def test_every_setting_is_tried():
    assert set(GIVEN) == set(EVERY_SETTING)
    usual = AuditConfig()
    assert all(getattr(usual.having({name: value}), name) != getattr(usual, name) for name, (value, _) in GIVEN.items())


@pytest.mark.parametrize("suite", SUITES.names())
def test_a_setting_that_is_not_read_is_refused(suite):
    chosen = SUITES.load(suite)
    for name, (value, _) in GIVEN.items():
        if name in chosen.settings:
            wanted = tuple(value) if isinstance(value, list) else value
            assert getattr(chosen.configured({name: value}), name) == wanted
        else:
            for given in (value, getattr(chosen.defaults, name)):  # the usual one too: it would not be read
                with pytest.raises(InputError, match=f"suite '{suite}' does not read"):
                    chosen.configured({name: given})


@pytest.mark.parametrize("suite", SUITES.names())
def test_the_command_line_and_files_are_refused_alike(suite, tmp_path):
    """Two settings that the suite does not read and one that it does, other ones for each suite."""
    chosen = SUITES.load(suite)
    turn = SUITES.names().index(suite)
    names = [*list(GIVEN)[turn:], *list(GIVEN)[:turn]]
    source = ["--captions", "none"] if not chosen.needs_model else ["mini", "-t", "none"]
    common = ["audit", *source, "-s", suite, "-o", str(tmp_path / "out")]
    file = tmp_path / "settings.toml"
    for name in [name for name in names if name not in chosen.settings and GIVEN[name][1]][:2]:
        value, flags = GIVEN[name]
        file.write_text(f"{name} = {json.dumps(value)}\n")
        assert f"suite '{suite}' does not read" in refused(*common, "--config", str(file))
        assert f"suite '{suite}' does not read {flags[0]}" in refused(*common, *flags)
    for name in [name for name in names if name in chosen.settings][:1]:
        value, flags = GIVEN[name]
        file.write_text(f"{name} = {json.dumps(value)}\n")
        assert "does not read" not in refused(*common, *flags, "--config", str(file))
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("suite", SUITES.names())
def test_what_a_suite_reads_itself_it_declares(suite):
    chosen = SUITES.load(suite)
    text = inspect.getsource(sys.modules[chosen.measure.__module__])
    read = set(re.findall(r"\bconfig\.(\w+)", text)) & set(EVERY_SETTING)
    assert read <= set(chosen.settings)


WRONG = [
    ("k", 5, "k = 5: give a list of whole numbers of at least 1"),
    ("k", [0], "k = 0: give whole numbers of at least 1"),
    ("axes", "gender", "axes = 'gender': give a list of texts"),
    ("axes", [1], "axes = 1: give texts"),
    ("draws", True, "draws = True: give a whole number of at least 2"),
    ("draws", 2.5, "draws = 2.5: give a whole number of at least 2"),
    ("level", 95, "level = 95: give a number between 0 and 1, such as 0.95"),
    ("level", float("nan"), "level = nan: give a number between 0 and 1"),
    ("margin", 0, "margin = 0: give a number of spreads above 0"),
    ("margin", float("inf"), "margin = inf: give a number of spreads above 0"),
    ("prompt_pool", "mean", "there is no prompt pool named 'mean'; did you mean"),
    ("lexicon", ["a"], "lexicon = ['a']: give a text"),
    ("min_sets", "2", "min_sets = '2': give a whole number"),
]


@pytest.mark.parametrize(("name", "value", "sentence"), WRONG)
def test_a_setting_of_the_wrong_type_or_size_is_one_sentence(name, value, sentence, tmp_path):
    with pytest.raises(InputError, match=re.escape(sentence)):
        AuditConfig().having({name: value})
    with pytest.raises(InputError, match=re.escape(sentence)):
        AuditConfig(**{name: tuple(value) if isinstance(value, list) and name != "lexicon" else value})
    file = tmp_path / "settings.toml"
    file.write_text(f"{name} = {json.dumps(value).replace('NaN', 'nan').replace('Infinity', 'inf')}\n")
    with pytest.raises(InputError, match=re.escape(sentence)):
        AuditConfig().having_toml(file)


def test_settings_of_every_kind_are_checked_in_the_same_way():
    from equipoise.audit.captions.settings import CaptionSettings
    from equipoise.audit.dataset import DatasetSettings

    assert all(issubclass(kind, Settings) for kind in (AuditConfig, CaptionSettings, DatasetSettings))
    with pytest.raises(InputError, match="folds = 1: give a whole number of at least 2 or none"):
        CaptionSettings(folds=1)
    with pytest.raises(InputError, match="mask = 'no': give true or false"):
        CaptionSettings().having({"mask": "no"})
    with pytest.raises(
        InputError, match="there is no setting of captions named 'seds'; did you mean 'seeds' or 'seed'"
    ):
        CaptionSettings().having({"seds": 1})
    with pytest.raises(InputError, match="clusters = 1: give a whole number of at least 2"):
        DatasetSettings(clusters=1)


@pytest.mark.parametrize("suite", ["natural", "contrast", "recall-gap", "visogender"])
def test_a_second_axis_is_refused_where_one_is_asked_about(suite):
    frame = pd.DataFrame({"gender": ["female", "male"], "race": ["A", "B"]})
    asks = SUITES.load(suite).axes
    assert asks(frame, AuditConfig(axes=("race", "race"))) == ("race",)
    with pytest.raises(InputError, match="asks about one axis; give --axis once, not race and gender"):
        asks(frame, AuditConfig(axes=("race", "gender")))
    frame.attrs["axes"] = ["gender", "race"]
    with pytest.raises(InputError, match="asks about one axis and its axes are: gender, race; say which with --axis"):
        asks(frame, AuditConfig())
