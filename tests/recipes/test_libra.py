"""The study of LIBRA says all that it would do, its baselines change what they should, and its reviser is whole."""

import pytest
from typer.testing import CliRunner

from equipoise.cli.main import app
from equipoise.errors import InputError
from equipoise.mitigate.libra.baselines import perturbed_pairs, unchanged_pairs
from equipoise.models.miniatures import FOLDER
from equipoise.recipes.libra.revisers import VARIANTS
from equipoise.recipes.libra.study import STUDY
from equipoise.recipes.studies import STUDIES
from equipoise.text import Lexicon

TEXTS = [f"a {who} rides a {tone} {what} in the park" for who in ("man", "woman") for tone in ("red", "green")
         for what in ("bike", "horse", "wave")] * 6  # fmt: skip
IDS = [str(i) for i in range(len(TEXTS))]


def test_the_plan_names_every_step_model_and_hour():
    done = CliRunner().invoke(app, ["recipe", "libra", "--scale", "full", "--dry-run"])
    assert done.exit_code == 0
    for wanted in ("vilt-b32-mlm", "hf:gpt2", "hf:t5-base", "114,568", "10,780", "GPU-hours", "train2014"):
        assert wanted in done.output


def test_every_ablation_has_its_reviser_and_is_paired_with_before_and_with_libra():
    steps = {step.name: step for step in STUDY.steps(STUDY.options())}
    for name in VARIANTS:
        for seed in ("0", "1", "2", "0to2"):
            label = f"2-grainy-{seed}"
            assert f"before-{label}" in steps[f"change-{name}-{label}"].needs
            if name != "libra":
                assert steps[f"versus-{name}-{label}"].needs == (f"after-libra-{label}", f"after-{name}-{label}")
            if seed != "0to2":
                needs = {"editor", f"scenes-{seed}"}
                assert needs <= set(steps[f"reviser-{name}-{seed}"].needs), "all begin from one editor"
    assert {f"change-shipped-{strength}-grainy-{seed}" for strength in (1, 2) for seed in (0, 1, 2)} <= set(steps)
    assert {"change-shipped-0-clear-0", "change-shipped-0-grainy-0", "change-libra-plain-grainy-0"} <= set(steps)
    assert steps["change-equalizer-plain-grainy-0"].needs == ("before-equalizer-grainy-0", "before-plain-grainy-0")
    for name, seeds in (("libra", "0to2"), ("shipped", "0to5"), ("shipped", "3to5")):
        both = (f"after-{name}-2-grainy-{seeds}", f"before-2-grainy-{seeds}")
        assert steps[f"change-{name}-2-grainy-{seeds}"].needs == both
    order = list(steps)
    assert all(order.index(need) < order.index(name) for name, step in steps.items() for need in step.needs)
    assert sum(step.cost.cpu_minutes for step in steps.values()) < 75


def test_quick_trains_nothing_and_other_studies_refuse_it():
    steps = [step.name for step in STUDY.steps(STUDY.options(quick=True))]
    assert not [name for name in steps if name.startswith(("reviser", "captioner", "editor"))]
    assert {"change-shipped-1-clear-0", "change-shipped-1-grainy-0"} <= set(steps)
    with pytest.raises(InputError, match="has no quick form"):
        STUDIES.load("lic").options(quick=True)
    with pytest.raises(InputError, match="takes one model at scale mini"):
        STUDY.steps(STUDY.options(models=["hf:a", "hf:b"]))


def test_random_perturbation_changes_content_words_alone():
    lexicon = Lexicon.load("equipoise")
    pairs = perturbed_pairs(TEXTS, IDS)
    assert pairs
    for pair in pairs:
        assert lexicon.groups_in_all([pair.biased]) == lexicon.groups_in_all([pair.original])
        differ = [(a, b) for a, b in zip(pair.original.split(), pair.biased.split(), strict=True) if a != b]
        assert [a for a, _ in differ if a not in ("a", "an")] == [a for a, b in pair.replaced if a != b]


def test_an_editor_without_biased_captions_reads_the_originals():
    pairs = unchanged_pairs(TEXTS, IDS)
    assert [pair.original for pair in pairs] == TEXTS
    assert all(pair.biased == pair.original for pair in pairs)


def test_the_miniature_is_small_and_stock_classes_load_it():
    pytest.importorskip("torch")
    from PIL import Image
    from transformers import EncoderDecoderModel

    from equipoise.models import load

    folder = FOLDER / "dcg"
    assert sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) <= 3_000_000
    _, report = EncoderDecoderModel.from_pretrained(folder, output_loading_info=True)
    assert not report["missing_keys"]
    model = load("mini:dcg", kind="reviser", device="cpu")
    (text,) = model.revise([Image.new("RGB", (64, 64))], ["a man who works as a nurse"], seed=0)
    assert text
