import numpy as np
import pytest

from equipoise.errors import InputError
from equipoise.text import Lexicon
from equipoise.world import WorldConfig, binding_sets, counterfactual_sets, preset, render, what_is_where
from equipoise.world.catalog import ACTIVITIES, OCCUPATIONS
from equipoise.world.sets import expected_gender


def test_sets_hold_every_combination_and_nothing_else_differs():
    found = list(counterfactual_sets(preset("biased"), ["nurse", "pilot"], ("gender", "skin_tone", "age"), 2, seed=3))
    assert len(found) == 4
    for members in found:
        assert len(set(members.groups)) == len(members.scenes) == 2 * 3 * 3
        pictures = [render(scene) for scene in members.scenes]
        outside = ~np.logical_or.reduce([what_is_where(scene).anyone for scene in members.scenes])
        for picture in pictures[1:]:
            assert (picture == pictures[0])[outside].all()
        assert {scene.people[0].in_uniform for scene in members.scenes} == {True}
        assert len({tuple(scene.captions(5, "neutral")) for scene in members.scenes}) == 1


def test_a_set_does_not_depend_on_the_others():
    alone = next(counterfactual_sets(preset("fair"), ["pilot"], n_sets=1, seed=3))
    among = [s for s in counterfactual_sets(preset("fair"), None, n_sets=2, seed=3) if s.subject == "pilot"]
    assert alone.scenes == among[0].scenes
    assert among[0].scenes != among[1].scenes


def test_sets_of_a_strong_world_do_not_lean():
    found = list(counterfactual_sets(preset("strong"), ["nurse"], ("gender",), 300, seed=1))
    older = np.mean([s.scenes[0].group("age") == "older" for s in found])
    assert older == pytest.approx(1 / 3, abs=0.09)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"subjects": "nurse"}, r"write \['nurse'\]"),
        ({"subjects": []}, "at least one"),
        ({"subjects": ["nurse", "nurse"]}, "once"),
        ({"subjects": ["nuse"]}, "nurse"),
        ({"axes": ()}, "axes"),
        ({"axes": ("gender", "gender")}, "axes"),
        ({"axes": ("height",)}, "height"),
        ({"n_sets": 0}, "n_sets=0"),
    ],
)
def test_wrong_sets_are_named(arguments, message):
    with pytest.raises(InputError, match=message):
        list(counterfactual_sets(preset("fair"), **arguments))


def test_binding_cells():
    found = list(binding_sets(preset("fair"), n_sets=2, seed=5))
    assert len(found) == 2 * 4 * len(ACTIVITIES)
    lexicon = Lexicon.load("equipoise")
    for item in found:
        performer = item.scene.group("gender")
        assert (performer == item.expected) == item.cell.startswith("E")
        assert len(item.scene.people) == int(item.cell[1])
        if item.cell.endswith("2"):
            assert {performer, item.scene.group("gender", 1)} == {"male", "female"}
            assert lexicon.label(item.caption) is None  # both are named
            assert item.scene.people[1].activity == ""
        else:
            assert lexicon.label(item.caption) == performer
        assert item.caption != item.reversed_caption
        assert sorted(item.caption.split()) == sorted(item.reversed_caption.split()) or item.cell.endswith("1")


def test_binding_pairs_share_their_surroundings():
    found = list(binding_sets(preset("fair"), ["chopping_wood"], n_sets=3, seed=5))
    by_set = {}
    for item in found:
        by_set.setdefault(item.set_id, []).append(item)
    assert {len(items) for items in by_set.values()} == {2}
    for first, second in by_set.values():
        assert first.scene.scene == second.scene.scene
        assert [p.x for p in first.scene.people] == [p.x for p in second.scene.people]
        outside = ~(what_is_where(first.scene).anyone | what_is_where(second.scene).anyone)
        assert (render(first.scene) == render(second.scene))[outside].all()


def test_expected_genders_are_balanced():
    sides = [expected_gender(preset("fair"), name) for name in ACTIVITIES]
    assert sides.count("male") == sides.count("female") == len(ACTIVITIES) // 2


def test_binding_refuses_nonsense():
    with pytest.raises(InputError, match="n_sets=0"):
        list(binding_sets(preset("fair"), n_sets=0))
    with pytest.raises(InputError, match="activity"):
        list(binding_sets(preset("fair"), ["nurse"]))
    assert len(OCCUPATIONS) > 24


def test_who_does_what_needs_both_genders():
    for gender in ({"male": 1}, {"female": 1, "neutral": 1}):
        with pytest.raises(InputError, match="asked of male and female, but this world has"):
            list(binding_sets(WorldConfig(gender=gender)))
    assert len(list(binding_sets(WorldConfig(gender={"male": 1, "female": 1, "neutral": 1}), ["holding_baby"]))) == 4


def test_placebos_are_changed_one_at_a_time_after_the_base_pictures():
    plain = next(counterfactual_sets(preset("fair"), ["pilot"], seed=3))
    found = next(counterfactual_sets(preset("fair"), ["pilot"], seed=3, placebos=["brightness", "bag", "mirror"]))
    n = len(plain.scenes)
    assert found.placebos == ("bag", "mirror", "brightness")
    assert len(found.scenes) == 4 * n
    assert found.scenes[:n] == plain.scenes
    assert found.groups == plain.groups * 4
    usual = {"placebo_bag": "none", "placebo_mirror": "plain", "placebo_brightness": "plain"}
    changed = [{}, {"placebo_bag": "bag"}, {"placebo_mirror": "mirrored"}, {"placebo_brightness": "brighter"}]
    assert list(found.levels) == [usual | change for change in changed for _ in range(n)]
    for scene in found.scenes:
        assert scene.captions(5, "full") == plain.scenes[found.scenes.index(scene) % n].captions(5, "full")


def test_sets_of_different_subjects_share_nobody():
    """Otherwise their labels would have to move together, and the table would need a column ``link``."""
    found = list(counterfactual_sets(preset("fair"), None, ("gender",), 5, seed=3))
    seeds = [one.scenes[0].seed for one in found]
    assert len(set(seeds)) == len(seeds) == 5 * len(OCCUPATIONS)
    for number in range(5):
        looks = {(s.scenes[0].people[0].hair, s.scenes[0].people[0].x, s.scenes[0].scene) for s in found[number::5]}
        assert len(looks) > len(OCCUPATIONS) // 2


@pytest.mark.parametrize(
    ("placebos", "message"),
    [(["miror"], "mirror"), (["bag", "bag"], "name each placebo once"), ("bag", r"write \['bag'\]")],
)
def test_wrong_placebos_are_named(placebos, message):
    with pytest.raises(InputError, match=message):
        list(counterfactual_sets(preset("fair"), placebos=placebos))
