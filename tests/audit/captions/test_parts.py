"""The parts of a captions run that need no classifier: table, figure, page of words, folder, images, sentiment."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from equipoise.audit.captions.images import ImageScores, image_files
from equipoise.audit.captions.inputs import Dropped, HumanCaptions, ModelCaptions, read_inputs
from equipoise.audit.captions.measures import CaptionMeasures, word_list
from equipoise.audit.captions.page import (
    r_squared,
    save_figure,
    words_page,
)
from equipoise.audit.captions.printing import caption_table, masked_table
from equipoise.audit.captions.settings import CaptionSettings
from equipoise.data.published import published_values
from equipoise.engine import Asking
from equipoise.errors import InputError, UnknownNameError
from equipoise.measure.stats.estimate import Estimate
from equipoise.text.english.sentiment import sentiment, sentiment_words


def results(*rows):
    return pd.DataFrame([Estimate(*e, n_groups=2).row(model=m, metric=k, pool=p) for m, k, p, e in rows])


@pytest.fixture
def table():
    return results(
        ("nic", "lic", None, (3.7, 2.0, 5.4, 0.0)),
        ("nic", "lic_m", None, (43.2, 42.0, 44.4, 25.0)),
        ("nic", "ratio", None, (2.47, 2.3, 2.6, 2.25)),
        ("nic", "error", None, (0.143, 0.13, 0.15)),
        ("nic", "cider", None, (0.9, 0.85, 0.95)),
        ("fc", "lic", None, (8.6, 7.0, 10.0, 0.0)),
        ("fc", "lic_m", None, (46.4, 45.0, 47.8, 25.0)),
        ("fc", "ratio", None, (2.07, 1.9, 2.2, 2.25)),
        ("fc", "error", None, (0.101, 0.09, 0.11)),
        ("fc", "cider", None, (1.1, 1.0, 1.2)),
    )


def test_the_table_has_bias_left_quality_right_and_marks_best_and_worst(table):
    text = caption_table(table)
    head, nic, intervals, fc = text.splitlines()[:4]
    assert head.split() == ["model", "LIC", "LIC_M", "Ratio", "Error%", "|", "CIDEr"]
    assert nic.split() == ["nic", "3.7*", "43.2*", "2.47!", "14.3!", "|", "90.0!"]
    assert fc.split() == ["fc", "8.6!", "46.4!", "2.07*", "10.1*", "|", "110.0*"]
    assert "[2.0, 5.4]" in intervals
    assert text.splitlines()[-1].split() == ["by", "chance", "0.0", "25.0", "2.25", "|"]


@pytest.mark.parametrize("turned", [False, True])
def test_the_worst_ratio_is_the_same_whichever_group_is_on_top(turned):
    numbers = {"few": 1.2, "many": 3.5}  # 1.9 times too seldom, 1.6 times too often
    rows = [
        (name, "ratio", None, (1 / value, None, None, 1 / 2.25) if turned else (value, None, None, 2.25))
        for name, value in numbers.items()
    ]
    lines = {line.split()[0]: line.split()[1] for line in caption_table(results(*rows)).splitlines() if line.strip()}
    assert lines["few"].endswith("!")
    assert lines["many"].endswith("*")


def test_published_values_stand_below(table):
    text = caption_table(table, published=published_values("lic", "gender"))
    published = [line for line in text.splitlines() if "published" in line]
    assert published[0].split() == ["published", "3.7", "43.2±1.5", "|"]
    assert published[1].split() == ["published", "8.6", "46.4±1.2", "2.07", "10.1", "|"]
    assert published_values("lic", "age").values == {}
    with pytest.raises(UnknownNameError, match="did you mean 'lic'"):
        published_values("lice", "gender")


def test_one_model_has_neither_best_nor_worst(table):
    text = caption_table(table[table["model"] == "nic"])
    assert "*" not in text
    assert "!" not in text


def test_masked_images(table):
    assert masked_table(table) == ""
    more = results(
        ("nic", "lic_m", "without-person", (37.1, 36.0, 38.0, 25.0)),
        ("nic", "lic_m_change", "without-person", (-6.1, -8.0, -4.0, 0.0)),
    )
    lines = masked_table(pd.concat([table, more])).splitlines()
    assert lines[1].split() == ["nic", "original", "43.2", "[42.0,", "44.4]", "+18.2"]
    assert lines[2].split() == ["without-person", "37.1", "[36.0,", "38.0]", "-6.1", "[-8.0,", "-4.0]", "+12.1"]


@pytest.mark.slow
def test_r_squared_of_unrelated_models_is_at_its_chance_level():
    rng = np.random.default_rng(0)
    made = [r_squared(rng.normal(size=5), rng.normal(size=5)) for _ in range(2000)]
    assert np.mean([e.value for e in made]) == pytest.approx(made[0].null_mean, abs=0.02)
    assert np.mean([e.p_value < 0.1 for e in made]) == pytest.approx(0.1, abs=0.02)
    assert r_squared(np.array([1.0, 2.0]), np.array([1.0, 2.0])) is None
    assert r_squared(np.array([1.0, 1.0, 1.0]), np.array([1.0, 2.0, 3.0])) is None


def test_the_figure_is_the_same_bytes_and_escapes_names(tmp_path):
    points = pd.DataFrame(
        {"model": ["<b>", "$x", "c"], "lic": [1.0, 2, 4], "vocabulary": [100.0, 300, 200], "bleu_4": [0.2, 0.3, 0.25]}
    )
    save_figure(points, tmp_path / "a.svg")
    save_figure(points, tmp_path / "b.svg")
    text = (tmp_path / "a.svg").read_text()
    assert text == (tmp_path / "b.svg").read_text()
    assert "&lt;b&gt;" in text
    assert "<b>" not in text
    assert text.count("R² =") == 2


def test_the_page_of_words_shades_and_escapes():
    captions = pd.DataFrame(
        {
            "image_id": ["1", "2"],
            "caption": ["a <script>alert(1)</script> kite", "pink umbrella"],
            "group": ['m"<i>', "f"],
            "score": [0.9, 0.8],
        }
    )
    words = pd.DataFrame(
        {
            "word": ["kite", "umbrella", "<img src=x>"],
            "group": ['m"<i>', "f", "f"],
            "weight": [2.0, 1.0, 0.5],
            "captions": 1,
        }
    )
    page = words_page({"<model>": (captions, words)}, "gen<der", ('m"<i>', "f"), classifier="fast<")
    assert "<script" not in page
    assert "<img" not in page
    assert "<i>" not in page
    assert "http" not in page
    assert 'class="w" style="background:rgba(0,114,178,0.80)"' in page
    assert page.index("umbrella") > 0


class Colours:
    """An encoder that sees the mean colour, and reads the words red, green and blue."""

    def encode_images(self, images):
        return np.stack([np.asarray(image, dtype=np.float32).mean(axis=(0, 1)) for image in images])

    def encode_texts(self, texts):
        return np.array([[float(word in text) + 1e-6 for word in ("red", "green", "blue")] for text in texts])


@pytest.fixture
def photos(tmp_path):
    folder = tmp_path / "photos" / "val"
    folder.mkdir(parents=True)
    Image.new("RGB", (4, 4), (255, 0, 0)).save(folder / "COCO_val2014_000000000007.png")
    Image.new("RGB", (4, 4), (0, 255, 0)).save(folder / "8.png")
    (folder / "000000000009.jpg").write_bytes(b"no image")
    return tmp_path / "photos"


def test_clip_scores_of_found_images(photos):
    dropped = Dropped()
    allowing = Asking(max_broken=0.5)  # one of three
    scores = ImageScores(Colours(), photos, ["7", "8", "9", "10"], dropped, lambda text: None, allowing)
    model = ModelCaptions("m", "m.json", {"7": "a red thing", "8": "a red thing", "9": "red", "10": "blue"})
    ids, plain, with_references = scores.of(model, {"7": ["red", "blue"]})
    assert ids == ["7", "8"]
    assert plain.values == pytest.approx([2.5, 0.0], abs=1e-4)
    assert with_references.values == pytest.approx([2 * 2.5 / 3.5], abs=1e-4)
    assert {(i, r.split(":")[0]) for _, i, r in dropped.rows} == {
        ("9", "image cannot be read"),
        ("10", "image file missing"),
    }


def test_images_that_are_not_there(photos, tmp_path):
    assert image_files(photos)["7"].name == "COCO_val2014_000000000007.png"
    assert image_files(photos)["COCO_val2014_000000000007"].name == "COCO_val2014_000000000007.png"
    with pytest.raises(InputError, match="no folder of images"):
        image_files(tmp_path / "none")
    with pytest.raises(InputError, match="holds none of the 1 images; an id looks like 'x'"):
        ImageScores(Colours(), photos, ["x"], Dropped(), lambda text: None)


def test_sentiment():
    assert sentiment("she isn't happy") == -1.0
    assert sentiment("a happy man and a broken bike") == 0.0
    assert sentiment("a person with dark skin") == 0.0
    signs = sentiment_words()
    assert 300 < len(signs) < 1000
    assert not set(signs) & set("man woman boy girl old young black white dark light fat thin".split())


def test_groups_of_a_score_that_is_of_all_captions_at_once_are_told_apart_from_it(tmp_path):
    texts = ["a man rides a brown horse", "a woman rides a horse", "a man eats a red apple", "a woman eats an apple"]
    rows = [{"image_id": i, "caption": texts[i % 4], "gender": ["male", "female"][i % 2]} for i in range(8)]
    for name, some in (("model", rows), ("human", [{**row, "caption": texts[row["image_id"] // 2]} for row in rows])):
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in some))
    inputs = read_inputs([tmp_path / "model.jsonl"], tmp_path / "human.jsonl", "gender")
    words = word_list("lic", inputs)
    measures = CaptionMeasures(inputs, inputs.models[0], words, CaptionSettings(), print)
    measures.quality(HumanCaptions.of(inputs.references, set(inputs.labels), words.lexicon), None)
    frame = measures.findings.frame()
    told = frame["notes"].str.contains("mean of the captions' own scores", regex=False)
    of_groups = frame["group"].notna() | frame["metric"].str.endswith("_gap")
    summed = frame["metric"].str.contains("bleu|meteor")
    assert (told == (of_groups & summed)).all()
    assert of_groups.any()
