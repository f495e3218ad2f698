import pytest

from equipoise.errors import InputError, UnknownNameError
from equipoise.world import PRESETS, WorldConfig, load, preset
from equipoise.world.catalog import ACTIVITIES, OCCUPATIONS, SCENES


def test_sizes_of_the_world():
    assert len(OCCUPATIONS) >= 24
    assert len(ACTIVITIES) >= 16
    assert len(SCENES) == 8


def test_presets_load():
    assert {preset(name).name for name in PRESETS} == set(PRESETS)
    with pytest.raises(UnknownNameError, match="biased"):
        preset("bised")


def test_every_subject_has_a_lean_and_leans_are_balanced():
    for kind, names in (("occupation", OCCUPATIONS), ("activity", ACTIVITIES)):
        for axis in ("gender", "skin_tone", "age"):
            values = WorldConfig().leans[kind][axis]
            assert set(values) == set(names)
            assert abs(sum(values.values())) < 0.02


def test_toml_round_trip(tmp_path):
    file = tmp_path / "mine.toml"
    file.write_text('preset = "biased"\nstrength = 0.5\nvisible = 1.0\n[gender]\nmale = 1\nfemale = 3\n')
    config = load(file)
    assert (config.name, config.strength, config.visible) == ("mine", 0.5, 1.0)
    assert config.rates("gender") == {"male": 0.25, "female": 0.75}
    assert config.markedness == {"gender": 0.25}
    assert WorldConfig(**{**config.as_dict(), "tone_groups": config.tone_groups}).as_dict() == config.as_dict()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"label_noise": 1.2}, "label_noise"),
        ({"gender": {"male": -1}}, "'male'"),
        ({"gender": {"male": 0}}, "at least one rate"),
        ({"gender": {"robot": 1}}, "robot"),
        ({"tone_groups": {"all": (1, 2, 3)}}, "tone_groups"),
        ({"poles": {"gender": ("male", "male"), "skin_tone": ("light", "dark"), "age": ("child", "older")}}, "poles"),
        ({"reach": {"weather": 1.0}}, "weather"),
        ({"leans": {"occupation": {"gender": {"nurze": 1.0}}}}, "nurse"),
        ({"mention": {"gender": 2}}, "mention.gender"),
        ({"strength": [1]}, r"strength=\[1\] must be a number"),
        ({"strength": "x"}, "strength='x' must be a number"),
        ({"strength": float("nan")}, "strength=nan must be a number"),
        ({"strength": 10**400}, "must be a number from -1e6"),
        ({"reach": {"scene": "far"}}, "reach.scene='far' must be a number"),
        ({"leans": {"occupation": {"gender": {"nurse": None}}}}, "leans.occupation.gender.nurse=None must be"),
        ({"strength": 400}, "strength=400: 'artist' leans by 532 on gender, and 100 is the most"),
        ({"words": {"robot": {"noun": "robot"}}}, "robot"),
    ],
)
def test_a_wrong_setting_is_named(settings, message):
    with pytest.raises(InputError, match=message):
        WorldConfig(**settings)


def test_files_that_cannot_be_read(tmp_path):
    with pytest.raises(InputError, match=r"no\.toml is missing"):
        load(tmp_path / "no.toml")
    broken = tmp_path / "broken.toml"
    broken.write_text("a = [")
    with pytest.raises(InputError, match="not TOML"):
        load(broken)
    typo = tmp_path / "typo.toml"
    typo.write_text("strenght = 1.0")
    with pytest.raises(InputError, match="did you mean 'strength'"):
        load(typo)
    wrong = tmp_path / "wrong.toml"
    wrong.write_text('gender = "male"')
    with pytest.raises(InputError, match="wrong type"):
        load(wrong)


@pytest.mark.parametrize("line", ["strength = [1]", "tone_groups = { all = 1 }", "poles = 3", "leans = { scene = 1 }"])
def test_a_file_with_a_setting_of_the_wrong_type_is_refused(tmp_path, line):
    file = tmp_path / "wrong.toml"
    file.write_text(line)
    with pytest.raises(InputError, match=line.split()[0] if "strength" in line else "wrong type"):
        load(file)


def test_other_tone_groups():
    groups = {"lighter": (1, 2, 3, 4, 5), "darker": (6, 7, 8, 9, 10)}
    poles = {"gender": ("male", "female"), "skin_tone": ("lighter", "darker"), "age": ("child", "older")}
    config = WorldConfig(tone_groups=groups, skin_tone={"lighter": 1, "darker": 1}, poles=poles)
    assert config.tone_group(6) == "darker"
    assert config.tones_of("lighter") == (1, 2, 3, 4, 5)
