"""A tournament on vectors whose bias is known: who repairs, who is marked, who looks good only on a biased pool."""

import json
import shutil
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from PIL import Image
from safetensors.numpy import save_file

from equipoise.data import Table, read_results
from equipoise.engine import Asking
from equipoise.errors import InputError
from equipoise.mitigate import Bend, Projection, fit_on_table, repaired, save
from equipoise.mitigate.conformance import PlantedVectors
from equipoise.mitigate.protocol import Queries
from equipoise.mitigate.tournament import TournamentSettings, tournament
from equipoise.mitigate.tournament.contenders import contenders, recorded_subjects
from equipoise.mitigate.tournament.judging import _evidence, repair_by
from equipoise.mitigate.tournament.pools import Encoded, EncodedPool, encoded
from equipoise.mitigate.tournament.running import splits_of, varying_axes
from equipoise.mitigate.tournament.scoring import TournamentCell, TournamentRow, best_training_free, finding, front
from equipoise.mitigate.tournament.showing import published_rows

SUBJECTS = [f"job{i}" for i in range(14)]
HOW = TournamentSettings(k=4, draws=60)


class Leaning(PlantedVectors):
    """Every second job leans to one gender; images of a job lie near its text."""

    def text_vectors(self, texts):
        self.asked |= set(texts)
        return np.stack([self._text(text) for text in texts]).astype(np.float32)

    def _text(self, text):
        words = text.lower().split()
        job = next((word for word in words if word.startswith("job")), "")
        named = ("female" in words or "woman" in words) - ("male" in words or "man" in words)
        lean = 1.0 * named + (0 if not job else 0.6 if int(job[3:]) % 2 else -0.6)
        return 1.5 * self._draw(job or "nobody") + lean * self._draw("the direction of gender")


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    home = tmp_path_factory.mktemp("tournament")
    rng = np.random.default_rng(0)
    sets, natural = [], []
    for job in SUBJECTS:
        for number in range(8):
            for group in ("female", "male"):
                name = f"{job}-{number}-{group}"
                sets.append({"image_id": name, "set_id": f"{job}-{number}", "subject": job, "gender": group})
                sets[-1]["caption"] = f"a {group} {job} {number}"
        for number in range(100, 130):
            group = "female" if rng.random() < (0.8 if int(job[3:]) % 2 else 0.2) else "male"
            row = {"image_id": f"{job}-{number}-{group}", "subject": job, "gender": group}
            natural.append({**row, "caption": f"a {group} {job} {number}"})
    Table.create(home / "sets", sets, axes=["gender"])
    Table.create(home / "natural", natural, axes=["gender"])
    return home


@pytest.fixture(scope="module")
def tables(home):
    return Table.open(home / "sets"), Table.open(home / "natural")


@pytest.fixture(scope="module")
def seeing(home, tables):
    """A remedy that was fitted on all subjects, those of the evaluation too."""
    remedy = fit_on_table(Projection(), Leaning(), tables[0], ["gender"])
    return save(remedy, home / "seeing")


@pytest.fixture(scope="module")
def found(home, tables, seeing):
    who = ["projection:differences", "leace", "clip-clip", "rerank:quota", "bend", str(seeing)]
    return tournament(Leaning(), tables[0], home / "run", remedies=who, natural=tables[1], settings=HOW)


def row_of(found, name):
    return next(row for row in found.rows if row.name == name)


def test_subjects_are_parted_in_three_and_fit_with_mitigate(tables):
    from equipoise.mitigate.fitting import held_out_subjects

    parts = splits_of(tables[0], HOW)
    every = [*parts.fitted, *parts.choosing, *parts.shown]
    assert sorted(every) == sorted(SUBJECTS)
    assert list(parts.shown) == held_out_subjects(tables[0], HOW.shown, seed=HOW.seed)
    assert min(map(len, (parts.fitted, parts.choosing, parts.shown))) >= 3


def test_a_bias_along_one_direction_is_found_and_repaired(found):
    before, after = row_of(found, "as it is"), row_of(found, "projection:differences")
    skew = before.cell("max_skew", "sets", "gender")
    assert skew.value > 0.3
    assert skew.p_value < 0.05
    repaired = after.cell("max_skew", "sets", "gender")
    assert repaired.is_lower
    assert repaired.value < 0.5 * skew.value
    gap = after.cell("standard_gap_size", "sets", "gender")
    assert gap.value < 0.3 * before.cell("standard_gap_size", "sets", "gender").value
    assert row_of(found, "rerank:quota").cell("max_skew", "sets", "gender").is_lower
    assert row_of(found, "rerank:quota").cell("standard_gap_size", "sets", "gender") is None
    assert found.best in ("projection:differences", "leace", "bend")


def test_every_row_has_usefulness_with_intervals(found):
    for row in found.rows:
        for metric in ("zero_shot_accuracy", "text_to_image_recall", "image_to_text_recall"):
            cell = row.cell(metric, "utility")
            assert cell is not None
            assert 0 <= cell.value <= 1, (row.name, metric)


def test_who_was_fitted_on_the_evaluation_is_marked_everywhere_and_never_the_best(found, home):
    row = row_of(found, "projection in seeing")
    assert row.seen == found.splits.shown
    assert "† projection in seeing: fitted on 6 of the subjects shown here" in found.table
    assert any("Fitted on subjects that are shown here" in sentence for sentence in found.sentences)
    assert row.name not in found.front
    assert found.best != row.name
    page = (home / "run" / "report.html").read_text(encoding="utf-8")
    assert page.count("†") >= 2
    rows = read_results(home / "run")
    mine = rows[rows["model"].str.endswith("seeing")]
    assert mine["notes"].str.contains("looks better than it is").all()


def test_the_folder_holds_everything_and_a_second_run_is_the_same(found, home, tables, seeing, monkeypatch):
    assert {"results.parquet", "tournament.json", "table.md", "pareto.svg", "pareto.csv", "report.html"} <= {
        path.name for path in (home / "run").iterdir()
    }
    about = json.loads((home / "run" / "run.json").read_text())
    assert about["subjects"]["shown"] == list(found.splits.shown)
    assert "as it is" in (home / "run" / "pareto.svg").read_text()

    def broken(*args, **kwargs):
        raise AssertionError("a contender that was judged is judged again")

    monkeypatch.setattr("equipoise.mitigate.tournament.running._Field._row", broken)
    who = ["projection:differences", "leace", "clip-clip", "rerank:quota", "bend", str(seeing)]
    again = tournament(Leaning(), tables[0], home / "run", remedies=who, natural=tables[1], settings=HOW)
    assert again.table == found.table
    with pytest.raises(InputError, match="another natural"):
        tournament(Leaning(), tables[0], home / "run", remedies=who, settings=HOW)


def test_a_remedy_in_a_folder_of_an_older_release_takes_part(home, tables, seeing):
    older = shutil.copytree(seeing, home / "older")
    (older / "run.json").rename(older / "remedy.json")
    found = tournament(Leaning(), tables[0], home / "with-older", remedies=[str(older)], settings=HOW)
    assert [row.name for row in found.rows] == ["as it is", "projection in older"]


def test_a_checkpoint_trained_anew_in_its_folder_is_judged_again(home, tables, monkeypatch):
    tuned, opened = home / "tuned", []
    monkeypatch.setattr("equipoise.models.load", lambda spec, **_: opened.append(spec) or Leaning())

    def times_judged():
        before = len(opened)
        spec = f"hf:{tuned}"
        tournament(Leaning(), tables[0], home / "tunings", remedies=["leace"], checkpoints=[spec], settings=HOW)
        return len(opened) - before

    def trained(weight, **about):
        save_file({"weight": np.full(4, weight, dtype=np.float32)}, tuned / "model.safetensors")
        if about:
            (tuned / "run.json").write_text(json.dumps({"kind": "training", "state": "finished", **about}))

    tuned.mkdir()
    (tuned / "config.json").write_text(json.dumps({"model_type": "clip"}))
    trained(1.0)
    assert [times_judged(), times_judged()] == [1, 0]
    trained(2.0)  # nothing but the weights tells
    assert [times_judged(), times_judged()] == [1, 0]
    trained(2.0, fitted_on={"subjects": ["job1"]})
    assert [times_judged(), times_judged()] == [1, 0]
    trained(3.0)
    (tuned / "run.json").write_text("{")  # what is damaged says nothing, and is no error here
    assert [times_judged(), times_judged()] == [1, 0]


def test_natural_images_do_not_replace_those_of_the_sets(tmp_path):
    class Reds:
        name = key = "reds"
        logit_scale = 1.0

        def encode_images(self, images):
            return np.array([[np.asarray(image)[0, 0, 0], 10.0] for image in images], dtype=np.float32)

        def encode_texts(self, texts):
            return np.ones((len(texts), 2), dtype=np.float32)

    def table(name, red):
        rows = [
            {"image_id": str(i), "set_id": "1", "subject": "cook", "gender": "fm"[i % 2]}
            | {"image": Image.new("RGB", (4, 4), (red, 0, 0))}
            for i in range(2)
        ]
        return Table.create(tmp_path / name, rows, axes=["gender"])

    asked = (Reds(), table("sets", 200), table("natural", 5), "A photo of {a}", "gender", Asking(keep=False))
    found = encoded(*asked)
    assert np.array_equal(found.stored.image_vectors(["0", "1"]), found.sets.vectors)
    assert not np.allclose(found.natural.vectors, found.sets.vectors)


def test_held_out_subjects_are_not_asked_for_while_fitting(home, tables, monkeypatch):
    """The strength is chosen on other subjects than those that are shown."""
    from equipoise.mitigate.tournament import running

    calls = []
    real = running.judged
    monkeypatch.setattr(
        running, "judged", lambda e, r, s, *a, **k: calls.append((tuple(s), k["briefly"])) or real(e, r, s, *a, **k)
    )
    tournament(Leaning(), tables[0], home / "few", remedies="leace", settings=HOW)
    parts = splits_of(tables[0], HOW)
    assert {subjects for subjects, briefly in calls if briefly} == {parts.choosing}
    assert {subjects for subjects, briefly in calls if not briefly} == {parts.shown}


def test_contenders_by_name_and_what_is_refused(tmp_path):
    assert {one.name for one in contenders("all")} >= {"leace", "inlp", "projection:calibrated", "rerank:quota"}
    assert len(contenders("rerank:quota")[0].strengths) == 1
    for asked, match in (("leece", "did you mean 'leace'"), (["leace", "leace"], "takes part twice"), ([], "at least")):
        with pytest.raises(InputError, match=match):
            contenders(asked)
    with pytest.raises(InputError, match="variant of a remedy"):
        contenders("rerank:quotas")
    (tmp_path / "run.json").write_text(
        json.dumps({"kind": "x", "state": "finished", "fitted_on": {"subjects": ["a"], "judged_by": ["b"]}})
    )
    assert recorded_subjects(f"hf:{tmp_path}") == ("a", "b")
    assert recorded_subjects("hf:nowhere") is None


def test_a_gap_is_shown_as_it_stands_and_its_change_is_not_that_of_another_number(found, home):
    cells = {row.name: row.cell("standard_gap_size", "sets", "gender") for row in found.rows}
    there = {name: cell for name, cell in cells.items() if cell is not None}
    assert len(there) > 3
    for cell in there.values():
        assert cell.null_mean > 0
        assert cell.value >= 0
        assert cell.low >= 0
        assert cell.change is None
    rows = read_results(home / "run")
    rows = rows[rows["metric"] == "standard_gap_size"]
    assert sorted(rows["value"]) == pytest.approx(sorted(cell.value for cell in there.values()))
    assert not rows["notes"].str.contains("change from").any()


def made(name, sets, natural, accuracy, *, kind="remedy", seen=(), change=0.0):
    def skew(ends):
        return TournamentCell(0.2, 0.1, 0.3, sum(ends) / 2, *ends, 0.1, 0.01, 9)

    cells = {("max_skew", "sets", "gender"): skew(sets), ("max_skew", "natural", "gender"): skew(natural)}
    cells["zero_shot_accuracy", "utility", ""] = TournamentCell(accuracy, change=change)
    return TournamentRow(name, {}, cells, kind=kind, seen=seen)


def test_the_finding_of_gensynth_is_said_in_words():
    none, lower = (-0.1, 0.1), (-0.3, -0.1)
    rows = [
        made("as it is", none, none, 0.8, kind="model"),
        made("looks good", none, lower, 0.8),
        made("is good", lower, lower, 0.8),
        made("peeks", lower, lower, 0.9, seen=("nurse",)),
        made("costs", lower, lower, 0.5, change=-0.3),
    ]
    told = finding(rows, "gender", 12, 0.03)
    assert told.only_natural == ("looks good",)
    words = " ".join(told.sentences)
    assert (
        "Look good on the natural pool alone, where who is in the pictures goes with what they do: looks good." in words
    )
    assert "2 of 3 lower it there" in words
    assert "Cost more than 3 points of zero-shot accuracy: costs." in words
    assert "Fitted on subjects that are shown here, and better than they are on others: peeks." in words
    assert "subjects that no remedy has seen, unless marked." in words
    assert "no remedy has seen." in finding(rows[:3], "gender", 12, 0.03).sentences[0]
    assert best_training_free(rows, "gender", 0.03) == "is good"
    assert "peeks" not in front(rows, "gender")


def test_published_numbers_stand_beside_models_of_that_name():
    rows = published_rows("openai/clip-vit-base-patch32")
    assert {row.table for row in rows} == {
        "GenSynth T2",
        "GenSynth T8",
        "SocialCounterfactuals T2",
        "SocialCounterfactuals T16",
        "SocialCounterfactuals T17",
    }
    clipped = [
        r.value for r in rows if r.table == "GenSynth T2" and r.row.startswith("CLIP-clip") and "Skew@25" in r.column
    ]
    assert clipped == [0.23, 0.22, 0.22]
    assert {row.row for row in published_rows("hf:facebook/flava-full")} == {"FLAVA pretrained", "FLAVA debiased"}


def test_one_wrong_label_does_not_show_an_axis_that_sets_do_not_vary():
    frame = pd.DataFrame({"subject": "s", "set_id": np.repeat(np.arange(20), 2).astype(str), "gender": [*"fm"] * 20})
    frame["age"] = "old"
    frame.loc[0, "age"] = "young"
    assert varying_axes(frame, ["gender", "age", "tone"]) == ["gender"]
    frame.loc[:7:2, "age"] = "young"  # four sets of twenty
    assert varying_axes(frame, ["gender", "age"]) == ["gender", "age"]


class Speaking(Leaning):
    """The same as an encoder, which can be asked for any text."""

    logit_scale = 1.0
    image_vectors = text_vectors = None

    def encode_texts(self, texts):
        rows = np.stack([self._text(text) + 0.5 * self._draw(text) for text in texts]).astype(np.float32)
        return rows / np.linalg.norm(rows, axis=1, keepdims=True)

    def encode_images(self, images):
        raise NotImplementedError


@pytest.mark.parametrize("by_subject", [True, False])
def test_texts_are_changed_as_behind_the_model(by_subject):
    """Usefulness too is that of both steps of bend, which users get, and not of its second alone."""
    model, rng = Speaking(), np.random.default_rng(0)
    images = rng.normal(size=(40, model.width)).astype(np.float32)
    remedy = Bend(nearest=5).fit(images, {"gender": ["female", "male"] * 20})
    stored = SimpleNamespace(model=model, text_vectors=model.encode_texts)
    pool = EncodedPool(pd.DataFrame({"image_id": [*"ab"], "subject": ["job1", "job2"]}), images[:2])
    everything = Encoded(pool, None, stored, "a photo of a {}")
    texts = ["a photo of a job1", "a photo of a job2", "a woman job1 runs"]
    evidence = _evidence(everything, pool, repair_by(remedy, everything), texts, by_subject=by_subject)
    expected = repaired(model, remedy).encode_texts(texts)
    assert evidence.text_vectors(texts, "utility") == pytest.approx(expected, abs=1e-6)
    second = remedy.transform(model.encode_texts(texts), "text", Queries(texts))
    assert np.abs(second - expected).max() > 0.01  # the first step matters
    vectors_alone = replace(everything, stored=SimpleNamespace(model=Leaning(), text_vectors=model.encode_texts))
    evidence = _evidence(vectors_alone, pool, repair_by(remedy, vectors_alone), texts, by_subject=by_subject)
    assert evidence.text_vectors(texts, "utility") == pytest.approx(second, abs=1e-6)
