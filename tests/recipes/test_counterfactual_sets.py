"""Sets made, filtered and judged: with a generator that draws exactly what is asked for, and with random weights."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("torch")
pytest.importorskip("diffusers")

from PIL import Image

from equipoise.errors import InputError
from equipoise.generate import world_sets
from equipoise.models.miniatures import FOLDER
from equipoise.models.protocols import Detections
from equipoise.recipes import counterfactual_sets as recipe
from equipoise.recipes.counterfactual_sets import SetsSettings, counterfactual_sets
from equipoise.recipes.set_figures import Pool, between_seeds, differences, inside_sets, person_masks, ratio, standing
from equipoise.world import WorldConfig, render_image, what_is_where
from equipoise.world import counterfactual_sets as scene_sets

needs_minis = pytest.mark.skipif(
    not all((FOLDER / part).is_dir() for part in ("judge", "clip-fair")), reason="the miniatures are not installed"
)
WORLD = WorldConfig(age={"adult": 1, "older": 1})
FEW = SetsSettings(subjects=3, sets=1, candidates=2)
quiet = [].append


class Renderer:
    """Renders the scene behind each caption; another seed is another scene of the same words.

    Without sharing the whole picture flickers a little, and every fourth person has the other gender.
    """

    name, key, can, size = "fake:renderer", "renderer-1", frozenset({"generate_set"}), (64, 64)

    def __init__(self, wrong: int = 0) -> None:
        self.wrong = wrong
        self.calls = 0
        self.scenes = {}
        for number in range(8):
            subjects = recipe.spread_subjects(3)
            for texts, found in zip(
                world_sets(WORLD, subjects, recipe.AXES, place=False),
                scene_sets(WORLD, subjects, recipe.AXES, 1, number),
                strict=True,
            ):
                for caption, scene in zip(texts.captions, found.scenes, strict=True):
                    self.scenes[caption.text, number] = scene

    def generate_set(self, prompts: Any, *, seed: int, share: float, **how: Any) -> list[Image.Image]:
        self.calls += 1
        return [self._drawn(text, i, seed, share) for i, text in enumerate(prompts)]

    def _drawn(self, text: str, i: int, seed: int, share: float) -> Image.Image:
        scene = self.scenes[text, seed % 8]
        if self.wrong and i % self.wrong == 1:
            scene = scene.counterfactual(gender="female" if scene.group("gender") == "male" else "male")
        picture = render_image(scene)
        if share > 0:
            return picture
        rng = np.random.default_rng(i)
        moved = np.asarray(picture).astype(int) + rng.integers(-6, 7, (64, 64, 3))
        return Image.fromarray(moved.clip(0, 255).astype(np.uint8))


def figure(found: Any, pool: str, name: str) -> Any:
    return next(f for f in found.figures if (f.pool, f.name) == (pool, name))


@pytest.mark.slow
@needs_minis
def test_a_perfect_generator_passes_everything_and_is_not_asked_twice(tmp_path: Path) -> None:
    model = Renderer()
    settings = FEW
    found = counterfactual_sets(tmp_path / "run", settings, quiet, generator=model, progress=False)
    assert model.calls == 3 * 2 + 3, "two candidates of three sets, and the first ones again without sharing"
    assert len(found.filtered.table) == 3 * 2 * 12
    assert found.filtered.table.to_pandas(["keep"])["keep"].all(), str(found.filtered)
    for pool in ("before the filter", "after the filter", "first candidates, self+blend"):
        assert figure(found, pool, "attributes as asked").value.value > 0.97
        assert figure(found, pool, "occupation as asked").value.value > 0.97
    assert figure(found, "before the filter", "inside over between").met
    assert figure(found, "before the filter", "inside over between").value.ci_low is None
    assert "inside over between: no interval: fewer than 5 caption sets" in found.notes
    assert figure(found, "self+blend - no sharing", "background difference").value.value < -2
    assert "6 of 6 candidates stay; 3 of 3 caption sets and 3 of 3 subjects have one" in found.notes
    assert "MISSED" not in str(found)
    assert all(path.exists() for path in found.pictures)
    assert (tmp_path / "run" / "figures.md").read_text().startswith("| pictures | figure |")
    before = hashlib.sha256((tmp_path / "run" / "results.parquet").read_bytes()).hexdigest()
    counterfactual_sets(tmp_path / "run", settings, quiet, generator=model, progress=False)
    assert model.calls == 9
    assert hashlib.sha256((tmp_path / "run" / "results.parquet").read_bytes()).hexdigest() == before
    with pytest.raises(InputError, match="other settings"):
        counterfactual_sets(tmp_path / "run", SetsSettings(subjects=2, sets=1), quiet, generator=model, progress=False)


def test_a_folder_of_something_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "results.parquet").write_bytes(b"an audit's")
    with pytest.raises(InputError, match="holds files but no study of sets"):
        counterfactual_sets(tmp_path, FEW, quiet, generator=Renderer(), progress=False)
    assert [path.name for path in tmp_path.iterdir()] == ["results.parquet"]


@needs_minis
@pytest.mark.slow
def test_the_filter_drops_sets_with_wrong_people_and_the_table_says_missed(tmp_path: Path) -> None:
    found = counterfactual_sets(tmp_path / "run", FEW, quiet, generator=Renderer(wrong=3), progress=False)
    before = figure(found, "before the filter", "gender as asked").value
    assert before.value == pytest.approx(2 / 3, abs=0.03)
    assert not found.filtered.table.to_pandas(["keep"])["keep"].any()
    assert not [f for f in found.figures if f.pool == "after the filter"]
    assert "0 of 6 candidates stay" in found.notes[0]
    sheet = np.asarray(Image.open(found.pictures[0]).convert("RGB"))
    assert (sheet == (0xD6, 0x27, 0x28)).all(axis=-1).any(), "failures have a red frame"


@needs_minis
@pytest.mark.slow
def test_the_judge_is_never_asked_by_the_filter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from equipoise.models.hf.classifiers import ImageClassifier

    done = []
    plain = ImageClassifier.classify
    monkeypatch.setattr(
        recipe, "run_filters", lambda *a, _run=recipe.run_filters, **k: (done.append("filtered"), _run(*a, **k))[1]
    )

    def watched(self: Any, images: Any) -> Any:
        assert done == ["filtered"], "judged before the filter was done"
        return plain(self, images)

    monkeypatch.setattr(ImageClassifier, "classify", watched)
    one = SetsSettings(subjects=3, sets=1, candidates=1)
    found = counterfactual_sets(tmp_path / "run", one, quiet, generator=Renderer(), progress=False)
    assert not [f for f in found.figures if f.name == "inside over between"], "one candidate has no other seed"
    steps = (tmp_path / "run" / "filter" / "run.json").read_text()
    assert "mini:clip-fair" in steps
    assert "judge" not in steps


@needs_minis
@pytest.mark.slow
def test_the_command_with_a_pipeline_of_random_weights(tmp_path: Path) -> None:
    """The stock pipeline, in the miniature's own sizes but narrow, from the folder to the table."""
    from typer.testing import CliRunner

    from equipoise.cli.recipe import app

    folder = random_pipeline(tmp_path / "pipeline")
    command = ["counterfactual-sets", "-g", f"diffusers:{folder}", "--subjects", "2", "--sets", "1", "-n", "2"]
    command += ["--steps", "2", "--compare", "both+blend,self+blend", "-o", str(tmp_path / "run")]
    page = tmp_path / "page.md"
    page.write_text(f"# Title\n{recipe.BEGIN}\nold\n{recipe.END}\nThe end.\n")
    done = CliRunner().invoke(app, [*command, "--pictures", str(tmp_path / "img"), "--page", str(page)])
    assert done.exit_code == 0, done.output
    assert "attributes as asked" in done.output
    assert "first candidates, both+blend" in done.output
    assert ">= 0.9 MISSED" in done.output or "0 of 4 candidates stay" in done.output, "noise is no counterfactual set"
    assert (tmp_path / "img" / "counterfactual-sets.png").exists()
    assert "Counterfactual sets, made and filtered" in (tmp_path / "run" / "report.html").read_text()
    written = page.read_text()
    assert written.startswith(f"# Title\n{recipe.BEGIN}")
    assert written.endswith(f"{recipe.END}\nThe end.\n")
    assert "old" not in written
    assert "](img/counterfactual-sets.png)" in written
    page.write_text("nothing")
    with pytest.raises(InputError, match="the marks"):
        recipe.put_into(page, None)  # type: ignore[arg-type]


def random_pipeline(folder: Path) -> Path:
    import torch
    from diffusers import AutoencoderKL, DDIMScheduler, UNet2DConditionModel
    from transformers import CLIPTextConfig, CLIPTextModel

    from equipoise.recipes.train_mini.saving import save_pipeline
    from equipoise.recipes.train_mini.tokenizer import LENGTH, tokenizer

    torch.manual_seed(0)
    words = tokenizer()
    parts = {
        "vae": AutoencoderKL(
            block_out_channels=(8, 8, 8),
            down_block_types=("DownEncoderBlock2D",) * 3,
            up_block_types=("UpDecoderBlock2D",) * 3,
            norm_num_groups=4,
        ),
        "text_encoder": CLIPTextModel(
            CLIPTextConfig(
                vocab_size=len(words),
                hidden_size=16,
                intermediate_size=32,
                num_hidden_layers=1,
                num_attention_heads=2,
                max_position_embeddings=LENGTH,
                bos_token_id=words.bos_token_id,
                eos_token_id=words.eos_token_id,
                pad_token_id=words.pad_token_id,
            )
        ),
        "tokenizer": words,
        "unet": UNet2DConditionModel(
            sample_size=16,
            block_out_channels=(8, 16),
            down_block_types=("CrossAttnDownBlock2D", "CrossAttnDownBlock2D"),
            up_block_types=("CrossAttnUpBlock2D", "CrossAttnUpBlock2D"),
            layers_per_block=1,
            norm_num_groups=4,
            cross_attention_dim=16,
            attention_head_dim=2,
        ),
        "scheduler": DDIMScheduler(clip_sample=False, steps_offset=1),
    }
    save_pipeline("StableDiffusionPipeline", folder, parts=parts, generation={"guidance": 3.0, "steps": 2})
    return folder


def pool_of(values: list[int], **columns: list[Any]) -> Pool:
    images = np.stack([np.full((2, 2, 3), value, np.uint8) for value in values])
    people = np.zeros((len(values), 2, 2), bool)
    people[:, 0, 0] = True
    return Pool(pd.DataFrame(columns), images, {}, people)


def test_differences_by_hand() -> None:
    """Two candidates of one caption set of two: 10 apart and 30 apart inside; 100 and 120 between seeds."""
    pool = pool_of(
        [0, 10, 100, 130],
        set_id=["s0", "s0", "s1", "s1"],
        prompt_set=["s"] * 4,
        candidate=[0, 0, 1, 1],
        caption=["a", "b", "a", "b"],
    )
    assert inside_sets(pool)["value"].tolist() == [10, 30]
    assert between_seeds(pool)["value"].tolist() == [110]
    pool.images[:, 0, 0] = np.array([[9], [200], [7], [80]])  # inside the person, which does not count
    assert inside_sets(pool)["value"].tolist() == [10, 30]
    everywhere = np.ones((2, 2, 2), bool)
    assert np.isnan(differences(pool.images[:2], everywhere, [(0, 1)])).all()


@pytest.mark.parametrize(("n", "known"), [(1, False), (2, False), (4, False), (5, True)])
def test_few_caption_sets_have_no_interval(n: int, known: bool) -> None:
    inside = pd.DataFrame({"prompt_set": [str(i) for i in range(n)], "value": np.arange(1.0, n + 1)})
    told = ratio(inside, inside.assign(value=10.0))
    assert told.value == pytest.approx((n + 1) / 20)
    assert (told.ci_low is not None) == (told.ci_high is not None) == known
    assert any("fewer than 5 caption sets" in note for note in told.notes) != known


class OnePerson:
    name = "fake:detector"

    def __init__(self, masks: list[np.ndarray]) -> None:
        self.masks = masks

    def detect(self, images: Any) -> list[Detections]:
        return [
            Detections(np.zeros((len(m), 4), np.float32), ("person",) * len(m), np.ones(len(m), np.float32), m)
            for m in self.masks
        ]


def test_persons_are_found_or_taken_to_be_where_they_stand() -> None:
    scene = next(scene_sets(WORLD, ["nurse"])).scenes[0]
    truth = what_is_where(scene).people[0]
    images = np.zeros((2, 64, 64, 3), np.uint8)
    masks, note = person_masks(images, OnePerson([truth[None], np.zeros((0, 64, 64), bool)]))
    assert masks[0][truth].all()
    assert truth.sum() < masks[0].sum() < truth.sum() + 600, "two pixels wider"
    assert np.array_equal(masks[1], standing())
    assert "in 1 of 2 pictures it found nobody" in note
    without, told = person_masks(images)
    assert np.array_equal(without, np.stack([standing()] * 2))
    assert told.startswith("no detector")
    assert 0.3 < standing().mean() < 0.8


def test_settings_are_checked() -> None:
    with pytest.raises(InputError, match="subjects=0"):
        SetsSettings(subjects=0)
    with pytest.raises(InputError, match="compare='self\\+noise'"):
        SetsSettings(compare=("self+noise",)).arms()
    with pytest.raises(InputError, match="diagonal"):
        SetsSettings(compare=("diagonal",))
    own = SetsSettings(compare=("cross", "self+blend", "self"))
    assert list(own.arms()) == ["no sharing", "cross", "self"], "the run itself is there already"
    arms = SetsSettings(compare=("cross", "both+blend")).arms()
    assert list(arms) == ["no sharing", "cross", "both+blend"]
    assert (arms["no sharing"].share, arms["both+blend"].blend) == ((0, 0), True)
    assert len(set(recipe.spread_subjects(10))) == 10
