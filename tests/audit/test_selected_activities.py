"""Activities chosen by a masked language model: candidates, log ratios of the whole vocabulary, tails."""

import math

import numpy as np
import pytest

from equipoise.audit.dataset.activities import mined_activities, read_candidates, selected_activities
from equipoise.errors import InputError
from equipoise.models import load


class Filler:
    """Says man for repairs, woman for cakes, and both alike else."""

    mask = "[?]"

    def shares(self, texts, words):
        assert all(text.startswith("a [?] is ") for text in texts)
        lean = np.array([1.0 if "repair" in text else -1.0 if "cake" in text else 0.0 for text in texts])
        feminine = np.array([word in ("woman", "girl", "female") for word in words])
        return 0.01 * np.exp(np.where(feminine, -0.5, 0.5) * lean[:, None])


def test_log_ratios_sort_the_candidates_and_tails_are_kept():
    names = ["baking a cake", "walking", "repairing a car", "sleeping"]
    table = selected_activities(names, Filler())
    assert table["activity"].tolist()[0] == "repairing a car"
    assert table["activity"].tolist()[-1] == "baking a cake"
    assert table["log_ratio"].tolist() == pytest.approx([1.0, 0.0, 0.0, -1.0])
    ends = selected_activities(names, Filler(), tail=1)
    assert ends["expected"].tolist() == ["male", "female"]


def test_a_template_without_its_places_is_refused(tmp_path):
    with pytest.raises(InputError, match="needs the places"):
        selected_activities(["walking"], Filler(), template="somebody is {activity}")
    (tmp_path / "empty.txt").write_text("# nothing\n\n")
    with pytest.raises(InputError, match="holds no activity"):
        read_candidates(tmp_path / "empty.txt")


def test_mined_activities_are_the_lopsided_ones():
    captions = ["a man fixes an engine"] * 8 + ["a woman holds an umbrella"] * 8
    captions += [f"a {who} eats bread" for who in ("man", "woman") for _ in range(8)]
    assert mined_activities(captions, z=0.5) == ["fixing an engine", "holding an umbrella"]


def test_shares_are_of_the_whole_vocabulary():
    """The best words of ``fill`` have the probabilities that ``shares`` gives, and all shares are below 1."""
    filler = load("mini:text", kind="filler")
    text = f"a {filler.mask} is riding a horse"
    best = filler.fill([text], top=3)[0]
    shares = filler.shares([text], [word for word, _ in best])[0]
    for (_, probability), share in zip(best, shares, strict=True):
        assert share >= probability - 1e-6
        assert share < 1
    assert math.isfinite(float(shares.sum()))
    with pytest.raises(InputError, match="no single token for 'antidisestablishment'"):
        filler.shares([text], ["antidisestablishment"])
