"""The figures of the generative miniatures: a perfect model reaches what the judge reaches, a bad one does not."""

import json

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("diffusers")

from PIL import Image

from equipoise.errors import InputError
from equipoise.models.miniatures import FOLDER, PARTS, figures_of
from equipoise.models.protocols import Answers, Detections
from equipoise.recipes.train_mini import PARTS as TRAINED
from equipoise.recipes.train_mini import evaluate, evaluate_generative, evaluate_helpers, pictures
from equipoise.recipes.train_mini.parts import is_met, wanted
from equipoise.recipes.train_mini.pictures import framed_sheet, reconstructions, write_sheets
from equipoise.recipes.train_mini.saving import card, write_card
from equipoise.world import captions, draw, preset, render_batch, render_image, sample, what_is_where
from equipoise.world.catalog import OCCUPATIONS
from equipoise.world.draws import seeds_for
from equipoise.world.render import heads

GENERATIVE = ("vae", "diffusion", "diffusion-biased", "inpaint", "edit", "text", "detector", "safety")
N = 24


def images_of(scenes):
    return [render_image(scene) for scene in scenes]


class Perfect:
    """Draws exactly what is asked for, in the order in which the figures ask."""

    def __init__(self):
        self.scenes = evaluate_generative.asked_scenes(N)
        targets = evaluate_generative.targets_of(self.scenes)
        self.wanted = [scene.counterfactual(**target) for scene, target in zip(self.scenes, targets, strict=True)]

    def generate(self, prompts, *, seed, steps):
        assert (len(prompts), steps) == (N, 20)
        return images_of(self.scenes)

    def inpaint(self, images, masks, prompts, *, seed, steps):
        assert all(mask[what_is_where(s).people[0]].all() for mask, s in zip(masks, self.scenes, strict=True))
        return images_of(self.wanted)

    def edit(self, images, instructions, *, seed, steps):
        return images_of(self.wanted)


class Leaning:
    """Draws each occupation's person as the biased world does."""

    def generate(self, prompts, *, seed, steps):
        world = preset("biased").changed(visible=1.0)
        each = len(prompts) // len(OCCUPATIONS)
        return [
            render_image(scene)
            for i, name in enumerate(OCCUPATIONS)
            for scene in draw(world, seeds_for(i, each), subject=name)
        ]


@pytest.fixture
def perfect(monkeypatch):
    monkeypatch.setattr(evaluate_generative, "_generator", lambda folder: Perfect())


def test_a_perfect_generator_reaches_what_the_judge_reaches_on_renders(perfect, tmp_path):
    found = evaluate_generative.diffusion_figures(tmp_path, n=N)
    for axis in ("gender", "skin_tone", "occupation", "scene"):
        assert found[axis] == found[f"judge on renders: {axis}"] > 0.9
    assert {name for name in wanted("diffusion") if name not in found} == set()


@pytest.mark.parametrize("part", ["inpaint", "edit"])
def test_a_perfect_change_reaches_its_target_and_leaves_the_rest(perfect, tmp_path, part):
    figures = {"inpaint": evaluate_generative.inpaint_figures, "edit": evaluate_generative.edit_figures}[part]
    found = figures(tmp_path, n=N)
    assert found["gender"] > 0.8
    assert found["scene kept"] > 0.95
    assert found["changed outside"] == 0
    assert found["moved outside before compositing"] < 1
    assert set(wanted(part)) <= set(found)


def test_a_generator_that_changes_nothing_misses_the_targets(monkeypatch, tmp_path):
    class Lazy(Perfect):
        def edit(self, images, instructions, *, seed, steps):
            return list(images)

    monkeypatch.setattr(evaluate_generative, "_generator", lambda folder: Lazy())
    found = evaluate_generative.edit_figures(tmp_path, n=N)
    assert found["gender"] < 0.85
    assert not is_met(wanted("edit")["gender"], found["gender"])
    assert found["scene kept"] > 0.95


@pytest.mark.slow
def test_a_generator_that_leans_as_the_world_shows_it(monkeypatch, tmp_path):
    monkeypatch.setattr(evaluate_generative, "_generator", lambda folder: Leaning())
    found = evaluate_generative.biased_figures(tmp_path, n=14 * len(OCCUPATIONS))
    assert found["skew-odds correlation"] > 0.75
    assert found["occupation"] > 0.9
    assert found["skew-odds slope low"] > 0


def test_every_prompt_names_what_the_judge_is_asked():
    for scene in evaluate_generative.asked_scenes(200):
        text = evaluate_generative.telling_prompt(scene)
        assert f"with {scene.group('skin_tone')} skin" in text
        assert scene.people[0].occupation in text
        assert text in captions(scene, 8, "full")


def test_a_perfect_detector_has_full_marks_and_a_blind_one_none(monkeypatch, tmp_path):
    from equipoise.models.hf.detectors import box_of

    class Eyes:
        def detect(self, images):
            rows = []
            for scene in sample(
                evaluate_helpers.WorldConfig(activity_share=0.25), len(images), evaluate_helpers.UNSEEN
            ):
                truth = what_is_where(scene)
                things = [(n, m) for n, m in zip(truth.names, truth.objects, strict=True) if m.sum() > 8]
                things += [("person", mask) for mask in truth.people] + [("head", mask) for mask in heads(scene)]
                boxes = np.array([box_of(mask) for _, mask in things], np.float32)
                rows.append(Detections(boxes, tuple(n for n, _ in things), np.ones(len(things), np.float32)))
            return rows

    class Blind:
        def detect(self, images):
            return [Detections(np.zeros((0, 4), np.float32), (), np.zeros(0, np.float32))] * len(images)

    for model, value in ((Eyes(), 1.0), (Blind(), 0.0)):
        monkeypatch.setattr(evaluate_helpers, "_model", lambda folder, kind, m=model: m)
        found = evaluate_helpers.detector_figures(tmp_path, n=40)
        assert [found[f"{name} F1"] for name in ("class-set", "person-box", "head-box")] == [value] * 3


def test_recall_is_taken_where_one_in_a_hundred_is_a_false_alarm(monkeypatch, tmp_path):
    class Half:
        """Tells every second unsafe picture; one safe one in a hundred looks unsafe to it."""

        calls = 0

        def classify(self, images):
            score = np.full(len(images), 0.1, np.float32)
            score[::100] = 0.8
            if Half.calls:
                score[:] = np.where(np.arange(len(images)) % 2, 0.7, 0.05)
            Half.calls += 1
            return {"label": Answers(("safe", "unsafe"), np.stack([1 - score, score], axis=1))}

    monkeypatch.setattr(evaluate_helpers, "_model", lambda folder, kind: Half())
    found = evaluate_helpers.safety_figures(tmp_path, n=400)
    assert found["recall at 1% false alarms"] == 0.5
    assert found["false alarms at one half"] == 0.01


def test_a_model_that_knows_the_grammar_fills_well_and_leans(monkeypatch, tmp_path):
    odds = dict(zip(OCCUPATIONS, evaluate.injected(), strict=True))

    class Grammar:
        mask = "[MASK]"

        def fill(self, texts, *, top):
            return [self._one(text.split(), text)[:top] for text in texts]

        def _one(self, words, text):
            before = words[: words.index("[MASK]")]
            if text.startswith(("a [MASK] who works as", "[MASK] is ")):
                work = next(name for name in odds if text.removesuffix(" in the park").endswith(name))
                p = 1 / (1 + np.exp(-odds[work]))
                found = [("woman", p), ("man", 1 - p), ("she", p), ("he", 1 - p)]
            elif before[-1:] == ["the"]:
                prepositions = {
                    "at": ["beach"],
                    "on": ["farm", "stage", "street"],
                    "in": ["kitchen", "mountains", "office", "park"],
                }
                found = [(word, 0.1) for word in prepositions.get(before[-2], ["floor"])]
            else:
                found = [(word, 0.1) for word in ("nurse", "chef", "pilot", "farmer", "judge")]
            return found

    monkeypatch.setattr(evaluate_helpers, "_model", lambda folder, kind: Grammar())
    found = evaluate_helpers.text_figures(tmp_path, n=200)
    assert found["scene top-5"] == 1.0
    assert found["activity top-5"] < 0.5
    assert found["occupations among the top 5"] > 0.9
    assert found["skew-odds correlation"] > 0.99
    assert set(wanted("text")) <= set(found)


def test_every_part_has_a_card_and_rules():
    assert set(PARTS) == set(TRAINED)
    for part in GENERATIVE:
        assert wanted(part)
        text = card(part, {"gender": 0.5})
        assert "signs, not people" in text
        assert ("library_name: diffusers" in text) == (
            part in ("vae", "diffusion", "diffusion-biased", "inpaint", "edit")
        )


def test_sheets_frame_what_the_judge_sees_otherwise(tmp_path):
    rows = [np.zeros((3, 8, 8, 3), np.uint8)]
    sheet = np.asarray(framed_sheet(rows, np.array([True, False, True]), columns=3))
    red = (sheet == [0xD6, 0x27, 0x28]).all(axis=2)
    assert red.any()
    assert red[:, : sheet.shape[1] // 3 - 1].sum() == 0
    assert write_sheets(tmp_path / "img", home=tmp_path) == []
    assert Image.fromarray(sheet).size == framed_sheet(rows, np.ones(3, bool), columns=3).size


def test_sheets_replace_sheets_and_no_other_picture(tmp_path, monkeypatch):
    (tmp_path / "home" / "edit").mkdir(parents=True)
    (tmp_path / "home" / "edit" / "model_index.json").write_text("{}")
    monkeypatch.setattr(pictures, "_edits", lambda folder: Image.new("RGB", (9, 9), "red"))
    [path] = write_sheets(tmp_path / "img", tmp_path / "home")
    drawn = path.read_bytes()
    assert write_sheets(tmp_path / "img", tmp_path / "home") == [path], "a run that was killed goes on"
    assert path.read_bytes() == drawn
    Image.new("RGB", (9, 9), "blue").save(path)
    mine = path.read_bytes()
    with pytest.raises(InputError, match="is there already"):
        write_sheets(tmp_path / "img", tmp_path / "home")
    assert path.read_bytes() == mine
    write_sheets(tmp_path / "img", tmp_path / "home", overwrite=True)
    assert [file.name for file in (tmp_path / "img").iterdir()] == [path.name]
    assert path.read_bytes() == drawn


def test_the_card_of_an_autoencoder_says_its_grid_and_how_it_was_made(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps({"block_out_channels": [16, 32, 64]}))
    text = write_card("vae", tmp_path, {"PSNR": 30.0}).read_text()
    assert "16 x 16 x 4 latents" in text
    assert "`equipoise mini train vae --edition first`" in text
    assert "| PSNR | 30.0000 | >= 31 (missed) |" in text
    ships = card("vae", {"PSNR": 31.5})
    assert "32 x 32 x 4 latents" in ships
    assert "| PSNR | 31.5000 | >= 31 |" in ships
    assert "`equipoise mini train vae`" in ships


def test_reconstructions_stand_below_their_renders():
    sheet = np.asarray(reconstructions(FOLDER / "vae", n=2).convert("RGB"))
    before, after = sheet[3:131, 3:131], sheet[134:262, 3:131]
    assert np.array_equal(before[::2, ::2], render_batch(evaluate_generative.asked_scenes(1))[0])
    assert 24 < evaluate_generative.psnr(before[None], after[None]) < 40


SHIPPED = [part for part in GENERATIVE if (FOLDER / part).is_dir()]


@pytest.mark.parametrize("part", SHIPPED)
def test_a_shipped_part_reaches_its_figures(part):
    figures = {name: float(value) for name, value in figures_of((FOLDER / part / "README.md").read_text())}
    assert {name: figures.get(name) for name, rule in wanted(part).items() if not is_met(rule, figures[name])} == {}
    for path in (FOLDER / part).rglob("config.json"):
        content = json.loads(path.read_text())
        assert content.get("dtype", "float32") == "float32"
        assert "_name_or_path" not in content


@pytest.mark.skipif("diffusion" not in SHIPPED, reason="the miniature diffusion is not trained yet")
@pytest.mark.slow
def test_the_shipped_generator_draws_what_it_is_told():
    found = evaluate_generative.diffusion_figures(FOLDER / "diffusion", n=32)
    assert found["gender"] > 0.84
    assert found["scene"] > 0.9


def test_all_miniatures_together_are_small():
    total = sum(path.stat().st_size for path in FOLDER.rglob("*") if path.is_file())
    assert total < 45_000_000
