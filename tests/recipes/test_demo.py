"""The demonstration end to end: it finds the bias that was put in, twice the same, and writes a page."""

import html
import re

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

from PIL import Image

from equipoise.data import Table
from equipoise.errors import InputError
from equipoise.recipes import demo as recipe
from equipoise.recipes.demo_parts import Remembering, make_and_filter
from equipoise.world import WorldConfig, counterfactual_sets, render_image
from equipoise.world.captions import captions


class Renderer:
    """Stands in for the generator: draws what a caption of the demonstration says, and spoils some of it."""

    name, key, size = "fake:renderer", "renderer-1", (64, 64)
    can = frozenset({"generate_set"})

    def __init__(self, spoilt=0.1):
        world = WorldConfig(skin_tone={"light": 0.5, "dark": 0.5}, activity_share=0.0, visible=1.0)
        found = counterfactual_sets(world, None, ("gender", "skin_tone"), 1, 79)
        self.scenes = {captions(scene, 1, "full")[0]: scene for one in found for scene in one.scenes}
        self.spoilt = spoilt

    def generate_set(self, prompts, *, seed, share, **how):
        rng = np.random.default_rng(seed)
        made = []
        for text in prompts:
            pixels = np.asarray(render_image(self.scenes[text], 64), dtype=float)
            noise = 150 if rng.random() < self.spoilt else 5
            noisy = np.clip(pixels + rng.normal(size=pixels.shape) * noise, 0, 255)
            made.append(Image.fromarray(noisy.astype(np.uint8)))
        return made


def whole(found, audit, metric, axis):
    """The row over all subjects."""
    rows = found.audits[audit].results
    rows = rows[rows["subject"].isna() & (rows["metric"] == metric) & (rows["axis"] == axis)]
    assert len(rows) == 1
    return rows.iloc[0]


def small(**changes):
    given = {"sets": 3, "natural": 280, "made_subjects": 4, "candidates": 4, "draws": 400, "generator": Renderer()}
    return recipe.DemoSettings(**(given | changes))


def test_a_demonstration_of_too_few_pictures_is_refused(tmp_path):
    with pytest.raises(InputError, match="sets = 2: to rank 12 pictures of an occupation the demonstration needs 3"):
        recipe.demo(tmp_path / "demo", print, small(sets=2))
    assert not (tmp_path / "demo").exists()


@pytest.fixture(scope="module")
def one_run(tmp_path_factory):
    said: list[str] = []
    return recipe.demo(tmp_path_factory.mktemp("demo"), said.append, small()), said


@pytest.mark.slow
def test_the_audit_recovers_what_was_put_in(one_run):
    first, _ = one_run
    assert first.recovered["biased", "gender"] > 0.9
    assert first.recovered["biased", "skin_tone"] > 0.4
    assert abs(first.recovered["fair", "gender"]) < 0.5
    sizes = [whole(first, name, "standard_gap_size", "gender") for name in ("biased", "fair")]
    assert sizes[0]["value"] > 2.5 * sizes[1]["value"]
    assert first.gaps.groupby(["encoder", "axis"]).size().tolist() == [28] * 4


@pytest.mark.slow
def test_the_sets_have_placebos_and_the_bias_is_above_them(one_run):
    first, said = one_run
    table = Table.open(first.folder / "sets")
    assert {"placebo_bag", "placebo_mirror", "placebo_brightness"} <= set(table.columns)
    assert len(table) == 4 * 3 * 28 * 6
    biased, fair = (whole(first, name, "placebo_excess", "gender") for name in ("biased", "fair"))
    assert biased["ci_low"] > 0.5
    assert fair["value"] < 0.5 * biased["value"]
    told = f"above placebo {fair['value']:+.2f} [{fair['ci_low']:.2f}, {fair['ci_high']:.2f}]"
    assert any(line.strip().startswith("fair") and told in line for line in said)


@pytest.mark.slow
def test_the_terminal_shows_the_verdict_of_the_page(one_run):
    first, said = one_run
    shown = " ".join(" ".join(said).split())
    assert " ".join(first.verdict.split()) in shown
    page = first.page.read_text(encoding="utf-8")
    section = page.split('<section id="verdict"')[1].split("</section>")[0]
    text = " ".join(html.unescape(re.sub("<[^>]+>", " ", section)).split())
    for sentence in re.split(r"(?<=[.;:]) ", first.verdict):
        assert " ".join(sentence.split()) in text, sentence


@pytest.mark.slow
def test_every_number_of_the_terminal_about_the_truth_is_on_the_page(one_run):
    first, _ = one_run
    page = first.page.read_text(encoding="utf-8").replace("\u2212", "-")
    for correlation in first.recovered.values():
        assert f"{correlation:.2f}" in page


def test_an_encoder_looks_at_a_picture_once():
    class Counting:
        name, key, logit_scale, asked = "counting", "c-1", 1.0, 0

        def encode_images(self, images):
            self.asked += len(images)
            return np.array([[image.getpixel((0, 0))[0], 1.0] for image in images], dtype=np.float32)

        def encode_texts(self, texts):
            return np.zeros((len(texts), 2), dtype=np.float32)

    pictures = [Image.new("RGB", (4, 4), (value, 0, 0)) for value in (1, 2, 1)]
    encoder = Remembering(Counting())
    assert encoder.encode_images(pictures)[:, 0].tolist() == [1, 2, 1]
    assert encoder.encode_images(pictures[::-1])[:, 0].tolist() == [1, 2, 1]
    assert encoder.encode_images([*pictures, Image.new("RGB", (2, 8), (1, 0, 0))])[:, 0].tolist() == [1, 2, 1, 1]
    assert encoder.encoder.asked == 3


@pytest.mark.slow
def test_two_runs_give_the_same_numbers(one_run, tmp_path):
    first, said = one_run
    second = recipe.demo(tmp_path / "again", lambda line: None, small())
    assert first.digest == second.digest
    assert sum(first.digest in line for line in said) == 1
    figures = sorted(path.name for path in (first.folder / "report_files").glob("*.svg"))
    assert figures
    for name in figures:
        one, other = (run.folder / "report_files" / name for run in (first, second))
        assert one.read_bytes() == other.read_bytes(), name


@pytest.mark.slow
def test_the_hash_depends_on_every_number(one_run, tmp_path):
    from equipoise.data import read_results, write_results

    first, _ = one_run
    frame = read_results(first.folder / "after")
    write_results(tmp_path / "after" / "results.parquet", frame)
    before = recipe.digest_of(tmp_path)
    frame.loc[3, "value"] += 1e-3
    write_results(tmp_path / "after" / "results.parquet", frame)
    assert recipe.digest_of(tmp_path) != before


@pytest.mark.slow
def test_the_naive_number_calls_the_fair_model_biased(one_run):
    first, _ = one_run
    rows = first.audits["naive-fair"].results.query("metric == 'max_skew' and axis == 'gender' and subject.isna()")
    assert rows["value"].iloc[0] > 0.3  # one gender at 1.35 times its even share
    assert abs(rows["excess"].iloc[0]) < 0.1  # and all of it is the pool's


@pytest.mark.slow
def test_the_repair_is_judged_on_subjects_it_has_not_seen(one_run):
    from equipoise.mitigate import load

    first, _ = one_run
    seen = set(load(first.folder / "remedy").fitted_on.subjects)
    judged = set(first.audits["after"].results["subject"].dropna())
    assert len(seen) == len(judged) == 14
    assert not seen & judged
    size = [whole(first, name, "standard_gap_size", "gender")["value"] for name in ("before", "after")]
    assert size[1] < 0.6 * size[0]


@pytest.mark.slow
def test_the_fine_tuned_model_is_shown_beside_the_repair(one_run):
    from equipoise.data.runs import find_run
    from equipoise.recipes.demo_tuned import KEPT

    first, said = one_run
    assert sum(path.stat().st_size for path in KEPT.iterdir()) < 1_000_000
    seen = set(find_run(first.folder / "tuned").of["fitted_on"]["subjects"])
    judged = set(first.audits["tuned"].results["subject"].dropna())
    assert len(seen) == len(judged) == 14
    assert not seen & judged
    size = [whole(first, name, "standard_gap_size", "gender")["value"] for name in ("before", "tuned")]
    assert size[1] < 0.5 * size[0]
    assert any("tuned" in line and f"{size[1]:.2f}" in line for line in said)
    assert "The repair (mini:clip fine-tuned)" in first.verdict
    page = first.page.read_text(encoding="utf-8")
    assert "What mini:clip fine-tuned changed" in page
    assert (first.folder / "report_files" / "change_2.svg").is_file()


def test_a_fine_tuned_model_of_other_weights_is_refused(tmp_path):
    import json

    from equipoise.recipes.demo_tuned import KEPT, write_tuned

    about = json.loads((KEPT / "about.json").read_text(encoding="utf-8"))
    (tmp_path / "about.json").write_text(json.dumps(about | {"base": "clip-0"}))
    with pytest.raises(InputError, match="fine-tuned from another mini:clip; make it again with"):
        write_tuned(tmp_path / "out", tmp_path)
    assert not (tmp_path / "out").exists()


def test_only_what_fine_tuning_changed_is_kept(tmp_path):
    from safetensors.numpy import load_file

    from equipoise.recipes.demo_tuned import KEPT, keep_changes, write_tuned

    kept = load_file(KEPT / "changed.safetensors")
    assert all(name.startswith(("text_model.", "text_projection.")) for name in kept)
    again = load_file(keep_changes(write_tuned(tmp_path / "whole"), tmp_path / "kept") / "changed.safetensors")
    assert kept.keys() == again.keys()
    assert all(np.array_equal(kept[name], again[name]) for name in kept)


@pytest.mark.slow
def test_the_captioner_is_measured(one_run):
    first, _ = one_run
    clear, grainy = first.captions.errors.values()
    assert clear < 0.03 < grainy < 0.3
    found = set(first.captions.audit.results["metric"])
    assert {"lic", "lic_m", "lic_d", "ratio", "error"} <= found


@pytest.mark.slow
def test_sets_are_made_filtered_and_audited(one_run):
    first, said = one_run
    assert len(first.generated.table) == 4 * 4 * 4
    dropped = first.generated.filtered.table.to_pandas(["keep"])["keep"]
    assert 0 < (~dropped.astype(bool)).sum() < 64
    assert {"generated-biased", "generated-fair"} <= set(first.audits)
    assert any("4 occupations x 4 groups x 4 candidates" in line for line in said)
    funnel = pd.read_csv(first.folder / "filtered" / "funnel.csv")
    assert {"gender", "skin_tone"} <= set(funnel["axis"].dropna())


@pytest.mark.slow
def test_the_page_is_whole_and_asks_the_network_for_nothing(one_run):
    first, said = one_run
    page = first.page.read_text(encoding="utf-8")
    assert "mini:clip is biased by perceived gender" in page
    for part in ("verdict", "chance", "truth", "change", "naive", "subjects", "groups", "pictures", "words", "funnel"):
        assert f'<section id="{part}"' in page, part
    assert first.page.stat().st_size < 5_000_000
    assert 'src="http' not in page
    assert 'href="http' not in page
    after = said[next(i for i, line in enumerate(said) if "Open " in line) + 1 :][:3]
    assert all(line.strip().startswith("equipoise ") for line in after)


@pytest.mark.slow
def test_the_verdict_answers_what_people_ask(one_run):
    """Is it biased, how large, what was put in, did the repair work, and the fair twin: each in the verdict.

    Against whom is said where single subjects are sure, and with three sets of each they are not.
    """
    first, _ = one_run
    page = first.page.read_text(encoding="utf-8")
    verdict = re.search(r'<div class="verdict">(.*?)<dl', page, re.S)[1]
    words = re.sub(r"<figure.*?</figure>", "", verdict, flags=re.S)
    text = html.unescape(re.sub(r"<[^>]+>", "", words))
    asked = ("is biased by perceived gender", "95% intervals", "put in on purpose", "The repair")
    for told in (
        *asked,
        "as much as to a bag, a mirror image or brightness",
        "mini:clip-fair, asked the same, is not shown",
    ):
        assert told in text, text
    assert "labelled male" in text
    assert len(text.split()) < 320, len(text.split())


def test_a_generator_that_draws_noise_leaves_nothing(tmp_path):
    said: list[str] = []
    found = make_and_filter(tmp_path, Renderer(spoilt=1.0), subjects=1, candidates=2, say=said.append)
    assert found.kept is None
    assert any("nothing stays" in line for line in said)


def test_without_a_generator_it_says_so_and_goes_on(tmp_path, monkeypatch):
    said: list[str] = []
    monkeypatch.setattr("equipoise.models.miniatures.FOLDER", tmp_path)
    found = make_and_filter(tmp_path / "a", "mini:diffusion", subjects=1, candidates=1, say=said.append)
    assert found.table is None
    assert "left out: the miniature 'diffusion' is not in this installation" in said[0]


def test_the_demo_clears_its_own_folder_and_no_other(tmp_path, monkeypatch):
    def shown(folder, say, chosen):
        assert not (folder / "sets").exists(), "what an earlier demo made is gone"
        (folder / "sets").mkdir()

    monkeypatch.setattr(recipe, "_shown", shown)
    other = tmp_path / "mine"
    other.mkdir()
    (other / "sets").mkdir()
    with pytest.raises(InputError, match="holds files but no demo"):
        recipe.demo(other, print)
    assert (other / "sets").is_dir()
    own = tmp_path / "demo"
    recipe.demo(own, print)
    (own / "mine.txt").write_text("mine")
    recipe.demo(own, print)
    assert sorted(path.name for path in own.iterdir()) == ["mine.txt", "run.json", "sets"]
