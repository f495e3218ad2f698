"""The shipped presets and word lists are what the papers print, or say where they are not."""

import re

import pytest

from equipoise.errors import InputError, UnknownNameError
from equipoise.text import Lexicon
from equipoise.text.templates import CAPTION_PRESETS, caption_preset, captions_from_file, shipped
from equipoise.text.templates.presets import occupations

SEGMENTS = {"race-gender": 12, "physical-gender": 10, "physical-race": 30}


@pytest.fixture(scope="module")
def published():
    return list(caption_preset("socialcounterfactuals").sets())


@pytest.mark.parametrize(
    ("name", "size"), [*SEGMENTS.items(), pytest.param("physical-race-gender", 60, marks=pytest.mark.slow)]
)
def test_each_segment_has_its_size_and_a_set_for_each_subject_and_prefix(name, size):
    sets = list(caption_preset(name).sets())
    assert {len(s) for s in sets} == {size}
    assert len(sets) == 260 * 4
    assert {s.axes for s in sets} == {tuple(name.split("-"))}
    assert all(s.set_id.startswith(f"{name}--") for s in sets)


def test_the_three_segments_together(published):
    assert len(published) == 3_120
    assert sum(len(s) for s in published) == 54_080
    assert len({s.set_id for s in published}) == 3_120
    texts = [c.text for s in published for c in s.captions]
    assert len(set(texts)) == 54_080
    assert "A photo of an Asian female doctor" in texts
    assert "An image of a tattooed Latino MRI technician" in texts
    assert "An obese female university student" in texts
    assert "A photo of a doctor" in {s.neutral for s in published}
    assert {s.prefix for s in published} == {"A/An", "A photo of", "A picture of", "An image of"}


def test_no_article_is_wrong(published):
    texts = [c.text for s in published for c in s.captions] + [s.neutral for s in published]
    wrong = re.compile(r"\ba (?:Asian|Indian|obese|old)\b|\ban (?:female|male|White|Black|Latino|skinny|young)\b", re.I)
    assert not [t for t in texts if wrong.search(t)]
    # Without the sound exceptions, spelling decides; these are all the exceptions among the shipped words.
    plain = re.compile(r"\ba (?=[aeiou])|\ban (?=[^aeiou])", re.IGNORECASE)
    odd = {re.sub(r"^.*\b(an?) (\w+ \w+).*$", r"\1 \2", t, flags=re.I) for t in texts if plain.search(t)}
    assert {o.lower() for o in odd} == {"a university student", "an mri technician"}


def test_no_caption_holds_two_spaces_or_an_open_article(published):
    texts = [c.text for s in published for c in s.captions]
    assert not [t for t in texts if "  " in t or "/" in t or t != t.strip() or not t[0].isupper()]


def test_three_axes_stand_in_the_papers_order():
    one = next(caption_preset("physical-race-gender").having(subjects=["doctor"], prefixes=["A photo of"]).sets())
    assert one.captions[0].text == "A photo of a skinny White male doctor"
    assert one.captions[-1].text == "A photo of a tattooed Latino female doctor"


def test_a_preset_takes_other_subjects_prefixes_and_order():
    preset = caption_preset("race-gender").having(
        subjects=["chef"], prefixes=["A sketch of"], order=["gender", "race", "subject"]
    )
    (one,) = preset.sets()
    assert one.captions[0].text == "A sketch of a male White chef"
    assert one.set_id == "race-gender--a_sketch_of--chef"
    with pytest.raises(InputError, match="exactly once"):
        caption_preset("socialcounterfactuals").having(order=["race", "gender", "subject"])


def test_an_unknown_preset_is_answered_with_the_closest():
    with pytest.raises(UnknownNameError, match=r"'race_gender'; did you mean 'race-gender'"):
        caption_preset("race_gender")


# The occupations


def test_260_distinct_subjects():
    subjects = [o.subject for o in occupations()]
    assert len(subjects) == len({s.casefold() for s in subjects}) == 260


def test_the_papers_names_are_all_there_as_printed_and_every_change_is_noted():
    content = shipped("occupations")
    printed = content["printed"]
    assert len(printed) == len(set(printed)) == 155
    changed = {entry["printed"]: entry for entry in content["changed"]}
    assert set(changed) <= set(printed)
    assert all(len(entry["note"]) > 5 and entry["subject"] for entry in changed.values())
    assert {"barker", "di", "optician custodian", "army", "delivery man", "policeman", "handyman"} <= set(changed)
    by_subject = {o.subject: o for o in occupations()}
    for name in printed:
        subject = changed[name]["subject"] if name in changed else name
        assert subject in by_subject
    assert by_subject["delivery worker"].printed == "delivery man"
    assert by_subject["police officer"].printed == "police officer"
    assert sum(bool(o.printed) for o in occupations()) == 154
    assert sum(not o.printed for o in occupations()) == len(content["own"]) == 106


def test_no_subject_speaks_of_a_gender_or_race_or_is_one_of_the_groups():
    loose = re.compile(
        r"(?i)\b(?:\w*(?:man|men|woman|women|boy|girl|lady|wife|husband|maid|king|queen|actress|waiter|hostess))\b"
    )
    for name in ("equipoise", "gensynth_code", "lic", "libra", "dba", "race"):
        lexicon = Lexicon.load(name)
        assert {o.subject: lexicon.find(o.subject) for o in occupations() if lexicon.find(o.subject)} == {}
    assert [o.subject for o in occupations() if loose.search(o.subject)] == []
    groups = {w.lower() for groups in shipped("socialcounterfactuals")["axes"].values() for w in groups}
    assert not [o.subject for o in occupations() if groups & set(o.subject.lower().split())]


def test_subjects_are_written_small_but_for_abbreviations():
    capitals = [o.subject for o in occupations() if o.subject != o.subject.lower()]
    assert sorted(capitals) == ["CEO", "DJ", "MRI technician", "PR person"]


# Our own presets


def test_traits_stand_before_the_groups_and_are_held():
    sets = list(caption_preset("traits").sets())
    assert len(sets) == 20 * 4
    assert {len(s) for s in sets} == {12}
    photo = next(s for s in sets if s.neutral == "A photo of an honest person")
    assert photo.captions[0].text == "A photo of an honest White male person"
    assert photo.captions[0].attributes == {"trait": "honest", "race": "White", "gender": "male"}


def test_each_trait_stands_at_one_end_of_one_dimension():
    content = shipped("traits")
    ends = [word for dimension in content["dimensions"].values() for end in ("high", "low") for word in dimension[end]]
    assert sorted(ends) == sorted(content["axes"]["trait"])
    assert all(len(d["high"]) == len(d["low"]) for d in content["dimensions"].values())


def test_religions():
    sets = list(caption_preset("religion").sets())
    assert {len(s) for s in sets} == {14}
    assert len(sets) == 8 * 4
    texts = {c.text for s in sets for c in s.captions}
    assert {"A photo of a Muslim female engineer", "A nonreligious male person"} <= texts


@pytest.mark.parametrize("name", sorted(CAPTION_PRESETS))
def test_every_preset_has_its_source_and_says_what_harm_it_can_do(name):
    preset = caption_preset(name)
    assert preset.citation
    assert len(preset.harms) > 100


# A user's own file


def own(tmp_path, text):
    path = tmp_path / "own.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_a_file_of_ones_own(tmp_path):
    path = own(
        tmp_path,
        'subjects = ["chef"]\nprefixes = ["A/An"]\n[axes]\nage = {young = "young", old = "elderly"}\n'
        'mood = ["angry"]\n[[segment]]\nname = "moods"\norder = ["mood", "age", "subject"]\nhold = ["mood"]\n',
    )
    (one,) = captions_from_file(path).sets()
    assert one.set_id == "moods--a-an--angry--chef"
    assert [c.text for c in one.captions] == ["An angry young chef", "An angry elderly chef"]
    assert one.captions[1].attributes == {"mood": "angry", "age": "old"}


def test_a_file_without_a_segment_makes_one_of_all_its_axes_and_may_use_the_occupations(tmp_path):
    path = own(tmp_path, 'subjects = "occupations"\n[axes]\nage = ["old"]\ngender = ["male", "female"]\n')
    sets = list(captions_from_file(path).sets())
    assert len(sets) == 1_040
    assert sets[0].captions[0].text == "An old male academic"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", r"own.toml: has no table \[axes\]"),
        ("[axes]\n", r"has no table \[axes\]"),
        ("[axes]\nrace = 3\n", "axes.race must be a list of strings"),
        ("[axes]\nrace = []\n", "axis 'race' has no groups"),
        ("[axes]\nrace = ['x', 'x']\n", "lists the group 'x' twice"),
        ("[axes]\nsubject = ['x']\n", "axis name 'subject' cannot be used"),
        ("axis = 1\n[axes]\nrace = ['x']\n", "unknown key 'axis'"),
        ("prefixes = 'A'\n[axes]\nrace = ['x']\n", "prefixes must be a list"),
        ("[axes]\nrace = ['x']\n[[segment]]\norder = ['age', 'subject']\n", "'age', which is not an axis"),
        ("[axes]\nrace = ['x']\n[[segment]]\norder = ['race']\n", "exactly once"),
        ("[axes]\nrace = ['x']\n[[segment]]\nheld = ['race']\n", "unknown key 'held'"),
        ("[axes]\nrace = ['x']\n[segment]\nname = 'a'\n", r"\[\[segment\]\]"),
        ("[axes]\nrace = = 1\n", r"own.toml: cannot be read as TOML .*line"),
        ("subjects = 'jobs'\n[axes]\nrace = ['x']\n", "'jobs'"),
    ],
)
def test_what_is_wrong_with_a_file_is_said_with_its_name(tmp_path, text, message):
    with pytest.raises(InputError, match=message) as caught:
        captions_from_file(own(tmp_path, text))
    assert "own.toml" in str(caught.value)


def test_a_file_without_subjects_asks_for_some(tmp_path):
    preset = captions_from_file(own(tmp_path, "[axes]\nrace = ['Asian']\n"))
    with pytest.raises(InputError, match="has no subjects"):
        preset.sets()
    assert next(preset.having(subjects=["chef"]).sets()).captions[0].text == "An Asian chef"


def test_a_file_that_is_not_there_or_not_text(tmp_path):
    with pytest.raises(InputError, match="there is no such file"):
        captions_from_file(tmp_path / "none.toml")
    bad = tmp_path / "bad.toml"
    bad.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InputError, match="cannot be read"):
        captions_from_file(bad)
    with pytest.raises(InputError, match="is not a file"):
        captions_from_file(tmp_path)
