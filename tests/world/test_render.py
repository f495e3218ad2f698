import numpy as np
import pytest

from equipoise.data import masks
from equipoise.errors import InputError
from equipoise.world import WorldConfig, body_parts, draw, preset, render, render_batch, sample, what_is_where
from equipoise.world.catalog import ACTIVITIES, AGES, BUILDS, GENDERS, OBJECTS, OCCUPATIONS, SCENES

EVERYTHING = WorldConfig(
    gender={"male": 1, "female": 1, "neutral": 1}, activity_share=0.4, trait=0.4, unsafe=0.2, label_noise=0.1
)


def outside_is_the_same(scenes, size, rng):
    for scene in scenes:
        who = int(rng.integers(len(scene.people)))
        other = scene.counterfactual(
            person=who,
            gender=str(rng.choice(GENDERS)),
            tone=int(rng.integers(1, 11)),
            age=str(rng.choice(AGES)),
            build=str(rng.choice(BUILDS)),
        )
        outside = ~(what_is_where(scene, size).people[who] | what_is_where(other, size).people[who])
        same = (render(scene, size) == render(other, size)).all(axis=2)
        assert same[outside].all()
        assert outside.mean() > 0.3


def test_nothing_but_the_person_changes_in_a_counterfactual():
    outside_is_the_same(sample(EVERYTHING, 150, seed=21), 64, np.random.default_rng(0))
    outside_is_the_same(sample(EVERYTHING, 8, seed=22), 200, np.random.default_rng(1))


@pytest.mark.slow
def test_nothing_but_the_person_changes_in_ten_thousand_scenes():
    outside_is_the_same(sample(EVERYTHING, 10_000, seed=23), 64, np.random.default_rng(2))


def test_the_person_does_change():
    scenes = sample(preset("fair"), 50, seed=3)
    for scene in scenes:
        other = scene.counterfactual(gender="male" if scene.group("gender") == "female" else "female")
        assert (render(scene) != render(other)).any(axis=2).sum() > 100


def test_rendering_is_deterministic_and_cached_pixels_are_right():
    from equipoise.world.layers import clear_cache

    scenes = sample(EVERYTHING, 40, seed=4)
    warm = render_batch(scenes)
    clear_cache()
    assert (warm == render_batch(scenes)).all()
    assert warm.shape == (40, 64, 64, 3)
    assert warm.dtype == np.uint8
    assert render_batch([], 32).shape == (0, 32, 32, 3)


@pytest.mark.parametrize("size", [48, 64, 96, 224, 512])
def test_any_size_shows_the_same(size):
    scene = sample(preset("fair"), 1, seed=8)[0]
    picture = render(scene, size)
    assert picture.shape == (size, size, 3)
    mask = what_is_where(scene, size).anyone
    assert mask.mean() == pytest.approx(what_is_where(scene, 512).anyone.mean(), abs=0.08)


@pytest.mark.parametrize("size", [0, 15, 4096])
def test_sizes_that_make_no_sense(size):
    for drawn in (render, what_is_where, body_parts):
        with pytest.raises(InputError, match=f"size={size}"):
            drawn(sample(preset("fair"), 1)[0], size)


def test_masks_are_where_things_are():
    for scene in sample(EVERYTHING, 200, seed=5):
        where = what_is_where(scene)
        assert len(where.people) == len(scene.people)
        assert where.names == tuple(scene.object_names)
        for mask in where.objects:
            assert not (mask & where.anyone).any()
        for mask in (*where.people, *where.objects):
            assert mask.sum() > 20
        assert (where.unsafe is not None) == (scene.unsafe is not None)


def test_removing_a_thing_changes_its_mask_only():
    from dataclasses import replace

    for scene in sample(preset("fair"), 60, seed=6):
        if scene.objects:
            without = replace(scene, objects=scene.objects[1:])
            changed = (render(scene) != render(without)).any(axis=2)
            assert not (changed & ~what_is_where(scene).objects[0] & ~what_is_where(scene).anyone).any()


def nearest(rows, labels, seeds=60):
    """Share of pictures whose nearest class mean (of other pictures) is their own; everyone faces right."""
    half = seeds // 2
    centres = {
        name: np.mean([p for p, n in zip(rows, labels, strict=True) if n == name][:half], axis=0)
        for name in set(labels)
    }
    names = list(centres)
    table = np.stack([centres[n] for n in names])
    right = n = 0
    for name in names:
        for picture in [p for p, m in zip(rows, labels, strict=True) if m == name][half:]:
            right += names[int(((table - picture) ** 2).sum(axis=(1, 2, 3)).argmin())] == name
            n += 1
    return right / n


def facing_right(scene):
    from dataclasses import replace

    people = tuple(replace(p, tone=5) for p in scene.people)
    picture = render(replace(scene, people=people), 64).astype(np.float32)
    return picture[:, ::-1] if scene.people[0].facing < 0 else picture


@pytest.mark.slow
def test_occupations_are_told_apart_by_their_mean_picture():
    config = WorldConfig(visible=1.0, age={"adult": 1}, scenes={"park": 1}, floor_object=0, air_object=0, trait=0)
    rows, labels = [], []
    for name in OCCUPATIONS:
        for scene in draw(config, range(60), subject=name):
            rows.append(facing_right(scene))
            labels.append(name)
    assert nearest(rows, labels) >= 0.98


@pytest.mark.slow
def test_activities_are_told_apart_by_their_mean_picture():
    config = WorldConfig(age={"adult": 1}, scenes={"park": 1}, floor_object=0, air_object=0, trait=0)
    rows, labels = [], []
    for name in ACTIVITIES:
        for scene in draw(config, range(60), subject=name, bystander=False):
            rows.append(facing_right(scene))
            labels.append(name)
    assert nearest(rows, labels) >= 0.9


def test_all_names_can_be_drawn():
    seen_objects, seen_scenes = set(), set()
    for scene in sample(preset("fair"), 1500, seed=1):
        seen_objects.update(scene.object_names)
        seen_scenes.add(scene.scene)
    assert seen_objects == set(OBJECTS)
    assert seen_scenes == set(SCENES)


def test_heads_and_hands_are_where_they_are_drawn():
    for scene in sample(preset("fair").changed(activity_share=0.5), 25, 4):
        people = what_is_where(scene).people
        for parts, mask in zip(body_parts(scene), people, strict=True):
            left, top, width, height = masks.to_box(mask)
            assert set(parts) == {"head", "near_hand", "far_hand"}
            for name, (x, y, w, h) in parts.items():
                assert w > 0
                assert h > 0
                assert left <= x <= x + w <= left + width, name
                assert top <= y <= y + h <= top + height, name
            assert parts["head"][1] + parts["head"][3] < top + 0.75 * height, "the head is above"
        mirrored = body_parts(scene.with_placebo("mirror"))
        for plain, other in zip(body_parts(scene), mirrored, strict=True):
            assert plain["head"][0] + plain["head"][2] == 64 - other["head"][0]
