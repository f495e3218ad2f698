"""What masking changes: the difference of LIC_M, split by split and image by image."""

import random
from dataclasses import replace

import numpy as np
import pytest

from equipoise.audit.captions.lic import measure_lic
from equipoise.audit.captions.objects import change_of_lic_m
from equipoise.errors import InputError

WHO = {i: ("female", "male")[i % 2] for i in range(400)}


def said(share, seed):
    """Captions in which a colour gives the group away in a ``share`` of images."""
    random.seed(seed)
    told = {"female": "red", "male": "blue"}
    return {
        i: f"a person holds a {told[group] if random.random() < share else random.choice(list(told.values()))} ball"
        for i, group in WHO.items()
    }


def measured(captions, **options):
    return measure_lic(captions, {i: WHO[i] for i in captions}, permutations=0, **options)


def test_cross_fitted_is_the_difference_of_the_means_over_images():
    before, after = (measured(said(share, 3), seeds=(0,), folds=5) for share in (0.9, 0.1))
    change = change_of_lic_m(after, before)
    assert change.value == pytest.approx(after.lic_m.value - before.lic_m.value)
    assert change.n == 400
    assert change.ci_high < 0
    assert change.p_value < 0.001
    one, two = (lic.out_of_fold.set_index("image_id")["score"] for lic in (after, before))
    error = 100 * (one - two).std() / np.sqrt(400)
    assert change.ci_high - change.value > 1.96 * error  # how other classifiers would differ is in it too


def test_repeated_folds_count_an_image_once():
    before, after = (measured(said(share, 3), seeds=(0, 12), folds=5) for share in (0.9, 0.1))
    change = change_of_lic_m(after, before)
    assert change.n == 400
    assert change.value == pytest.approx(after.lic_m.value - before.lic_m.value)


def test_over_splits_it_is_the_mean_of_their_differences():
    before, after = (measured(said(share, 3), seeds=(0, 12, 100)) for share in (0.9, 0.1))
    change = change_of_lic_m(after, before)
    assert change.value == pytest.approx(after.lic_m.value - before.lic_m.value)
    assert change.ci_low < change.value < change.ci_high < 0


@pytest.mark.parametrize("options", [{"seeds": (0,), "folds": 5}, {"seeds": (0, 12, 100)}])
def test_the_same_captions_change_nothing(options):
    found = measured(said(0.5, 1), **options)
    change = change_of_lic_m(found, found)
    assert change.value == 0
    assert (change.ci_low, change.ci_high) == (None, None)
    assert "no interval: the same change everywhere" in change.notes


def test_other_images_are_left_out_and_none_in_common_is_refused():
    whole = measured(said(0.9, 3), seeds=(0,), folds=5)
    half = measured({i: text for i, text in said(0.1, 3).items() if i < 200}, seeds=(0,), folds=5)
    assert change_of_lic_m(half, whole).n == 200
    elsewhere = half.out_of_fold.assign(image_id=range(1000, 1200))
    moved = replace(half, out_of_fold=elsewhere)
    with pytest.raises(InputError, match="no image was tested in both"):
        change_of_lic_m(moved, whole)
