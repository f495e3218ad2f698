import pytest

from equipoise.errors import InputError
from equipoise.world import Person, Placed, Scene, draw, preset, render, sample


def test_counterfactual_keeps_all_but_the_person():
    scene = draw(preset("fair"), [3], subject="playing_drum", bystander=True)[0]
    other = scene.counterfactual(person=1, gender="neutral", tone=10, age="child")
    assert other.people[0] == scene.people[0]
    assert (other.people[1].gender, other.people[1].tone, other.people[1].age) == ("neutral", 10, "child")
    assert other.people[1].x == scene.people[1].x
    assert (other.scene, other.variant, other.objects, other.seed) == (
        scene.scene,
        scene.variant,
        scene.objects,
        scene.seed,
    )


def test_counterfactual_clears_noise_on_what_it_sets():
    config = preset("fair").changed(label_noise=1.0)
    scene = sample(config, 1, seed=1)[0]
    other = scene.counterfactual(gender=scene.group("gender"))
    assert other.noted("gender") == other.group("gender")
    assert other.noted("age") == scene.noted("age") != scene.group("age")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"gender": "robot"}, "gender"),
        ({"tone": 11}, "tone=11"),
        ({"tone": "purple"}, "skin tone group"),
        ({"age": "olde"}, "older"),
        ({"hat": True}, "not 'hat'"),
        ({"person": 5, "gender": "male"}, "person=5"),
    ],
)
def test_a_wrong_counterfactual_is_named(change, message):
    with pytest.raises(InputError, match=message):
        sample(preset("fair"), 1)[0].counterfactual(**change)


def test_a_scene_by_hand():
    person = Person("female", 9, "older", occupation="pilot", glasses=True)
    scene = Scene((person,), "beach", objects=(Placed("dog", 0.2, 0.94),)).check()
    assert scene.subject == "pilot"
    assert scene.group("skin_tone") == "dark"
    assert render(scene, 64).shape == (64, 64, 3)
    assert len(scene.captions()) == 5
    with pytest.raises(InputError, match="pilot"):
        Scene((Person("female", 9, "older", occupation="pilott"),), "beach").check()
    with pytest.raises(InputError, match="beach"):
        Scene((person,), "beech").check()
    with pytest.raises(InputError, match="dog"):
        Scene((person,), "beach", objects=(Placed("dogg", 0.2, 0.9),)).check()


def test_a_misspelt_axis_is_answered_with_the_right_one():
    with pytest.raises(InputError, match="did you mean 'skin_tone'"):
        sample(preset("fair"), 1)[0].group("skin_tne")
