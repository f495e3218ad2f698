"""What masking a part of the images changes: LIC_M of their captions against LIC_M of the original's."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from equipoise.audit.caption_folds import over_folds
from equipoise.audit.caption_lic import TEST_SHARE, Lic
from equipoise.errors import InputError
from equipoise.measure import captions as measure
from equipoise.measure.estimate import Estimate

__all__ = ["change_of_lic_m"]


def change_of_lic_m(found: Lic, original: Lic) -> Estimate:
    """LIC_M of ``found`` less that of ``original``, in points: image by image when cross-fitted, else split by split.

    Give both of the same images: fewer captions to train on alone lower LIC_M. Then the same seeds made the same
    splits, and what the splits have in common falls out of the difference. Cross-fitted, it is taken over the images
    that both were tested on.
    """
    if found.out_of_fold is not None and original.out_of_fold is not None:
        keys = ["image_id", "group", "turn"]
        tables = [
            one.assign(turn=one.groupby("image_id").cumcount()) for one in (found.out_of_fold, original.out_of_fold)
        ]
        both = tables[0].merge(tables[1], on=keys, suffixes=("", "_original"))
        if both.empty:
            raise InputError("no image was tested in both sets of captions: there is no change to measure")
        gaps = both["score"] - both["score_original"]
        same = set(tables[0]["image_id"]) == set(tables[1]["image_id"])  # then the folds are the same too
        refitted = zip(found.refitted, original.refitted, strict=True) if same else ()
        change = over_folds(
            gaps.to_numpy(float),
            both["image_id"],
            np.unique(both["group"], return_inverse=True)[1],
            [(a.value[0] - b.value[0], a.value[1] - b.value[1]) for a, b in refitted],
            folds=int(found.runs.loc[found.runs["side"] == "model", "split"].max()) + 1,
            null_value=0.0,
            bounds=(-1.0, 1.0),
            alternative="two-sided",
        )
    else:
        ours = [lic.runs[lic.runs["side"] == "model"] for lic in (found, original)]
        runs = [of.set_index(["seed", "split"])["value"] for of in ours]
        change = measure.corrected_resampled_t(
            (runs[0] - runs[1]).dropna().to_numpy(float),
            test_share=TEST_SHARE,
            null_value=0.0,
            alternative="two-sided",
            n=len(found.per_caption),
        )
    if change.ci_low == change.ci_high:  # no score moved; an interval without width would pass for certainty
        change = replace(change, ci_low=None, ci_high=None).with_notes("no interval: the same change everywhere")
    return measure.in_points(change)
