"""Data remedies as contenders: rows are drawn as they say, and the model that learnt from them is a row of its own."""

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

from equipoise.data import Table
from equipoise.errors import InputError
from equipoise.mitigate.tournament import TournamentSettings, tournament
from equipoise.mitigate.tournament.balancing import BALANCINGS, BalancedClip, can_learn, captioned, why_not
from equipoise.mitigate.tournament.contenders import Contender, contenders
from equipoise.mitigate.tournament.running import _able


class Rows:
    """Three of four nurses are women, one of four pilots is; a fifth of each group is not learnt from."""

    labels = pd.DataFrame(
        {
            "image_id": [f"i{n}" for n in range(9)],
            "subject": ["nurse"] * 4 + ["pilot"] * 4 + ["chef"],
            "gender": ["f", "f", "f", "m", "m", "m", "m", "f", "f"],
        }
    )


@pytest.mark.parametrize("name", BALANCINGS)
def test_rows_are_drawn_as_the_remedy_says(name):
    method, jointly = BALANCINGS[name]
    places = np.arange(8)  # the chef is of a subject that is shown
    copies = BalancedClip("gender", method, jointly=jointly).copies(Rows(), places, 0)
    frame = Rows.labels.iloc[:8].assign(copies=1 if copies is None else copies)
    by_group = frame.groupby("gender")["copies"].sum().tolist()
    by_cell = frame.groupby(["subject", "gender"])["copies"].sum().tolist()
    assert by_group == {"data:joint-balancing": [6, 6]}.get(name, [4, 4])
    assert by_cell == ([3, 3, 3, 3] if jointly else [3, 1, 1, 3])  # balance over all leaves each occupation its lean


def test_data_remedies_take_part_where_they_can():
    assert [one.name for one in contenders("all") if one.data] == list(BALANCINGS)
    both = [Contender("leace", "leace"), *contenders(["data:as-is"])]
    told = []
    problem = why_not("mini:clip", None, {})
    assert [one.name for one in _able(both, "all", problem, told.append)] == ["leace"]
    assert "give one" in told[0]
    with pytest.raises(InputError, match="learn from a natural pool; give one"):
        _able(both, ["leace", "data:as-is"], problem, told.append)
    assert _able(both, "all", "", told.append) == both
    assert "training starts from a checkpoint" in can_learn("table:x")
    assert can_learn("mini:clip") == ""


def test_a_natural_pool_must_have_captions_and_the_subjects(tmp_path):
    rows = [{"image_id": str(i), "subject": "nurse", "gender": "female"} for i in range(3)]
    silent = Table.create(tmp_path / "silent", rows, axes=["gender"])
    assert "has no captions" in why_not("mini:clip", silent, {})
    told = Table.create(tmp_path / "told", [row | {"caption": "a nurse"} for row in rows], axes=["gender"])
    assert captioned(told) == "caption"
    both = [row | {"captions": ["a nurse", "she"]} for row in rows]
    several = Table.create(tmp_path / "several", both, axes=["gender"])
    assert captioned(several) == "captions"
    assert why_not("mini:clip", told, {"fitted on": ["nurse"]}) == ""
    assert "no image of the subjects that are shown" in why_not("mini:clip", told, {"shown": ["miner"]})


@pytest.mark.slow
def test_a_model_that_learnt_from_balanced_data_is_a_row(tmp_path, monkeypatch):
    from equipoise.mitigate.tournament import contenders as module
    from equipoise.models import load
    from equipoise.world import preset
    from equipoise.world.tables import write_counterfactual_table, write_table

    monkeypatch.setattr(module, "STEPS", (1, 2))
    config = preset("biased").changed(activity_share=0.0, visible=1.0)
    subjects = sorted(config.occupations)[:8]
    sets = write_counterfactual_table(tmp_path / "sets", config, 2, subjects=subjects, axes=("gender",), seed=1)
    natural = write_table(tmp_path / "natural", config, 300, seed=2)
    how = TournamentSettings(k=2, draws=20)
    who = ["data:as-is", "data:joint-balancing"]
    found = tournament(load("mini:clip"), sets, tmp_path / "out", remedies=who, natural=natural, settings=how)
    rows = found.rows[1:]
    assert [row.kind for row in rows] == ["data", "data"]
    assert all(row.is_fair and row.tried == 2 and row.strength["steps"] in (1, 2) for row in rows)
    assert all(row.cell("max_skew", "sets", "gender") is not None for row in rows)
    gaps = [row.cell("standard_gap_size", "sets", "gender").value for row in found.rows]
    assert len(set(gaps)) == 3, "training changes the model, and balanced data change it otherwise"
    assert found.best is None  # a data remedy trains the model
    assert not list((tmp_path / "out" / "_work").glob("*/"))
