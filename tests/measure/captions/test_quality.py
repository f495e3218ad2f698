"""BLEU, ROUGE-L and CIDEr-D are the COCO evaluation's, METEOR's approximation is near it, and all say how sure."""

import json
import math
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.examples import examples

from equipoise.errors import InputError, UnknownNameError
from equipoise.measure.captions import quality
from equipoise.measure.captions.quality.meteor import align
from equipoise.measure.captions.quality.tokens import gram_counts
from equipoise.text.english.ptb import ptb_tokenise
from equipoise.text.english.stemming import stem

DATA = Path(__file__).resolve().parents[4] / "shared" / "data"
COCO = DATA / "coco" / "captions_val2017.json"

token = st.sampled_from("a dog the runs red bus on".split())
caption = st.lists(token, min_size=1, max_size=9)
pairs = st.lists(st.tuples(caption, st.lists(caption, min_size=1, max_size=4)), min_size=2, max_size=6)


# The plain loops: one would write them so, straight from the definitions.


def grams(tokens, n):
    return Counter(tuple(tokens[i : i + n]) for i in range(len(tokens) - n + 1))


def loop_bleu(candidates, references):
    """Corpus BLEU-1 to 4, and each caption's."""

    def score(rows):
        hits, guesses = np.zeros(4), np.zeros(4)
        length = closest = 0
        for tokens, several in rows:
            for n in range(1, 5):
                own = grams(tokens, n)
                most = Counter()
                for reference in several:
                    most |= grams(reference, n)
                hits[n - 1] += sum((own & most).values())
                guesses[n - 1] += max(0, len(tokens) - n + 1)
            length += len(tokens)
            closest += min((abs(len(r) - len(tokens)), len(r)) for r in several)[1]
        values, product = [], 1.0
        for n in range(4):
            product *= (hits[n] + 1e-15) / (guesses[n] + 1e-9)
            values.append(product ** (1 / (n + 1)))
        ratio = (length + 1e-15) / (closest + 1e-9)
        return np.array(values) * (math.exp(1 - 1 / ratio) if ratio < 1 else 1)

    rows = list(zip(candidates, references, strict=True))
    return score(rows), np.array([score([row]) for row in rows])


def loop_rouge(candidates, references):
    def common(a, b):
        table = np.zeros((len(a) + 1, len(b) + 1), dtype=int)
        for i, x in enumerate(a):
            for j, y in enumerate(b):
                table[i + 1, j + 1] = table[i, j] + 1 if x == y else max(table[i, j + 1], table[i + 1, j])
        return table[-1, -1]

    values = []
    for tokens, several in zip(candidates, references, strict=True):
        p = max(common(tokens, r) / len(tokens) for r in several)
        r = max(common(tokens, r) / len(r) for r in several)
        values.append((1 + 1.44) * p * r / (r + 1.44 * p) if p and r else 0.0)
    return np.array(values)


def loop_cider(candidates, references, documents=None):
    documents = references if documents is None else documents
    held = Counter()
    for several in documents:
        held.update({g for r in several for n in range(1, 5) for g in grams(r, n)})

    def vector(tokens, n):
        return {g: c * (math.log(len(documents)) - math.log(max(1, held[g]))) for g, c in grams(tokens, n).items()}

    def norm(v):
        return math.sqrt(sum(x * x for x in v.values()))

    values = []
    for tokens, several in zip(candidates, references, strict=True):
        total = 0.0
        for reference in several:
            gap = max(0, len(tokens) - 1) - max(0, len(reference) - 1)
            for n in range(1, 5):
                a, b = vector(tokens, n), vector(reference, n)
                dot = sum(min(a[g], b.get(g, 0.0)) * b.get(g, 0.0) for g in a)
                if norm(a) and norm(b):
                    total += dot / (norm(a) * norm(b)) * math.exp(-(gap**2) / 72)
        values.append(10 * total / 4 / len(several))
    return np.array(values)


@settings(deadline=None, max_examples=examples(60))
@given(pairs)
def test_scores_are_those_of_plain_loops(rows):
    candidates, references = [c for c, _ in rows], [r for _, r in rows]
    corpus, each = loop_bleu(candidates, references)
    found = quality.bleu(candidates, references, replicates=2)
    np.testing.assert_allclose([s.estimate.value for s in found], corpus, atol=1e-9)
    np.testing.assert_allclose(np.column_stack([s.values for s in found]), each, atol=1e-9)
    rouge = quality.rouge_l(candidates, references)
    np.testing.assert_allclose(rouge.values, loop_rouge(candidates, references), atol=1e-12)
    cider = quality.cider(candidates, references)
    np.testing.assert_allclose(cider.values, loop_cider(candidates, references), atol=1e-9)
    assert cider.estimate.value == pytest.approx(cider.values.mean())
    documents = [*references, [["a", "dog"]], [["red"], ["the", "bus"]]]
    np.testing.assert_allclose(
        quality.cider(candidates, references, documents=documents).values,
        loop_cider(candidates, references, documents),
        atol=1e-9,
    )


@settings(deadline=None, max_examples=examples(60))
@given(st.lists(st.lists(token, max_size=7), min_size=1, max_size=5))
def test_n_grams_are_counted_as_by_hand(captions):
    for n, counts in enumerate(gram_counts(captions), start=1):
        by_hand = Counter((i, c) for i, tokens in enumerate(captions) for c in grams(tokens, n).values())
        # Which number an n-gram has does not matter, only that equal ones have equal numbers.
        found = Counter(zip(counts.caption.tolist(), counts.count.tolist(), strict=True))
        assert found == by_hand
        kinds = {g for tokens in captions for g in grams(tokens, n)}
        assert len(set(counts.gram.tolist())) == len(kinds)


@pytest.fixture(scope="module")
def coco():
    if not COCO.exists():
        pytest.skip("COCO's captions are not on this machine")
    by_image = {}
    for row in json.loads(COCO.read_text())["annotations"]:
        by_image.setdefault(row["image_id"], []).append(row["caption"])
    texts = list(by_image.values())[:400]
    references = [ptb_tokenise(several[1:5]) for several in texts]
    candidates = ptb_tokenise([several[0] for several in texts])
    return candidates, references


def as_theirs(candidates, references):
    given = {i: [" ".join(r) for r in several] for i, several in enumerate(references)}
    return given, {i: [" ".join(c)] for i, c in enumerate(candidates)}


def test_real_captions_score_as_in_the_coco_evaluation(coco):
    given, said = as_theirs(*coco)
    module = pytest.importorskip("pycocoevalcap.bleu.bleu")
    score, each = module.Bleu(4).compute_score(given, said, verbose=0)
    ours = quality.bleu(*coco)
    np.testing.assert_allclose([s.estimate.value for s in ours], score, atol=1e-6)
    np.testing.assert_allclose([s.values for s in ours], each, atol=1e-6)
    score, each = pytest.importorskip("pycocoevalcap.rouge.rouge").Rouge().compute_score(given, said)
    np.testing.assert_allclose(quality.rouge_l(*coco).values, each, atol=1e-6)
    assert quality.rouge_l(*coco).estimate.value == pytest.approx(score, abs=1e-6)
    score, each = pytest.importorskip("pycocoevalcap.cider.cider").Cider().compute_score(given, said)
    np.testing.assert_allclose(quality.cider(*coco).values, each, atol=1e-6)
    assert quality.cider(*coco).estimate.value == pytest.approx(score, abs=1e-6)


def test_real_captions_score_as_plain_loops_do(coco):
    candidates, references = coco[0][:60], coco[1][:60]
    np.testing.assert_allclose(quality.cider(candidates, references).values, loop_cider(candidates, references))
    np.testing.assert_allclose(quality.rouge_l(candidates, references).values, loop_rouge(candidates, references))
    corpus, _ = loop_bleu(candidates, references)
    np.testing.assert_allclose([s.estimate.value for s in quality.bleu(candidates, references)], corpus)


def test_a_caption_worked_by_hand():
    # 4 of 5 words, 2 of 4 pairs, 1 of 3 triples stand in the reference, which is one word longer
    found = quality.bleu([["a", "dog", "runs", "very", "fast"]], [["a dog runs so fast now".split()]])
    shorter = math.exp(1 - 6 / 5)
    wanted = [0.8 * shorter, (0.8 * 0.5) ** 0.5 * shorter, (0.8 * 0.5 / 3) ** (1 / 3) * shorter]
    np.testing.assert_allclose([s.estimate.value for s in found[:3]], wanted, rtol=1e-6)
    # longest common subsequence "a dog runs fast": precision 4/5, recall 4/6
    rouge = quality.rouge_l([["a", "dog", "runs", "very", "fast"]], [["a dog runs so fast now".split()]])
    assert rouge.values[0] == pytest.approx(2.44 * 0.8 * (4 / 6) / (4 / 6 + 1.44 * 0.8))


def test_the_best_of_several_captions_is_the_reference_itself(coco):
    references = coco[1][:50]
    own = [several[0] for several in references]
    for name, scores in quality.caption_quality(own, references).items():
        other = quality.caption_quality([*own[1:], own[0]], references)[name]
        assert scores.estimate.value > 2 * other.estimate.value, name


def test_every_score_has_an_interval_and_a_value_for_each_caption(coco):
    found = quality.caption_quality(*coco)
    assert tuple(found) == quality.CAPTION_METRICS
    for name, scores in found.items():
        estimate = scores.estimate
        assert estimate.ci_low < estimate.value < estimate.ci_high, name
        assert scores.values.shape == (400,)
        assert estimate.n == 400
    # the interval of a mean is about two standard errors to each side
    rouge = found["rouge_l"]
    error = rouge.values.std(ddof=1) / 20
    assert (rouge.estimate.ci_high - rouge.estimate.ci_low) / error == pytest.approx(3.92, rel=0.15)


def test_the_interval_of_bleu_covers_what_other_images_give(coco):
    candidates, references = coco
    half = quality.bleu(candidates[:200], references[:200])[0].estimate
    other = quality.bleu(candidates[200:], references[200:])[0].estimate
    assert abs(half.value - other.value) < (half.ci_high - half.ci_low)
    again = quality.bleu(candidates[:200], references[:200])[0].estimate
    assert (again.ci_low, again.ci_high) == (half.ci_low, half.ci_high)


def test_captions_of_one_image_are_drawn_together(coco):
    candidates, references = coco[0][:100], coco[1][:100]
    images = np.repeat(np.arange(10), 10)
    alone = quality.rouge_l(candidates * 3, references * 3).estimate
    together = quality.rouge_l(candidates * 3, references * 3, clusters=np.tile(np.arange(100), 3)).estimate
    assert together.ci_high - together.ci_low > 1.4 * (alone.ci_high - alone.ci_low)
    assert quality.bleu(candidates, references, clusters=images)[3].estimate.ci_low is not None


def test_one_image_has_no_interval_and_no_cider():
    found = quality.caption_quality(["a dog"], [["a dog", "dogs"]])
    assert "cider" not in found
    for scores in found.values():
        assert scores.estimate.ci_low is None
        assert "no interval: one independent unit" in scores.estimate.notes
    with pytest.raises(InputError, match="CIDEr of one image is always 0"):
        quality.cider(["a dog"], [["a dog"]])


def test_the_same_score_in_every_resample_has_no_interval():
    captions = ["a man rides a horse", "a dog runs on the beach", "two cats sleep on a bed"]
    for scores in quality.bleu(captions, [[caption] for caption in captions]):
        assert (scores.estimate.value, scores.estimate.ci_low) == (pytest.approx(1), None)
        assert "no interval: the resamples do not differ" in scores.estimate.notes


def test_empty_captions_score_nothing_and_are_told():
    found = quality.caption_quality(["", "a dog runs on grass"], [["a cat"], ["a dog runs on grass", ""]])
    for name, scores in found.items():
        assert scores.values[0] == pytest.approx(0, abs=1e-5), name
        assert scores.values[1] > 0.4, name
        assert "1 empty captions score 0" in scores.estimate.notes
    nothing = quality.caption_quality(["", "..."], [["a cat"], ["a dog"]])
    assert all(scores.estimate.value == pytest.approx(0, abs=1e-5) for scores in nothing.values())


def test_single_functions_give_what_the_whole_gives():
    said, given = ["a dog runs", "a red bus"], [["a dog runs fast"], ["the red bus", "a bus"]]
    found = quality.caption_quality(said, given)
    for name in ("bleu_1", "bleu_2", "bleu_3", "bleu_4", "rouge_l", "cider", "meteor_approximate"):
        alone = getattr(quality, name)(said, given)
        assert alone.estimate == found[name].estimate
        np.testing.assert_array_equal(alone.values, found[name].values)


@pytest.mark.parametrize(
    ("said", "given", "sentence"),
    [
        ("a dog", [["a dog"]], "candidates is one text"),
        (["a dog"], ["a dog"], r"references\[0\] is one text"),
        (["a dog"], [[]], "caption 0 has no reference"),
        (["a dog"], [["a"], ["b"]], "there are 1 captions and references for 2"),
        ([], [], "no captions"),
        ([None], [["a"]], r"candidates\[0\] is None"),
        ([["a", 3]], [["a"]], r"candidates\[0\] holds 3; a token is a text"),
        (["a"], [[["a", float("nan")]]], r"references\[0\] holds nan"),
        (["a dog"], None, "give the reference captions"),
    ],
)
def test_bad_captions_are_refused_in_a_sentence(said, given, sentence):
    with pytest.raises(InputError, match=sentence):
        quality.caption_quality(said, given)


def test_bad_settings_are_refused():
    with pytest.raises(UnknownNameError, match="did you mean"):
        quality.caption_quality(["a"], [["a"]], metrics=["bleu4"])
    with pytest.raises(InputError, match="documents"):
        quality.cider(["a"], [["a"]], documents=[["a"]])
    with pytest.raises(InputError, match="level = 95"):
        quality.bleu(["a", "b"], [["a"], ["b"]], level=95)
    paired = quality.pair_captions(["a"], [["a"]])
    with pytest.raises(InputError, match="paired already"):
        quality.bleu(paired, [["a"]])


# METEOR's approximation


def test_meteor_is_called_an_approximation_wherever_it_appears():
    scores = quality.meteor_approximate(["a dog", "cats"], [["a dog"], ["dogs"]])
    assert scores.estimate.notes[0] == quality.APPROXIMATION_NOTE
    assert "approximation" in scores.estimate.row(metric="meteor_approximate")["notes"]


def test_meteor_worked_by_hand():
    # "a", "dog" match as words, "runs" and "running" as stems; content words weigh 3/4, function words 1/4
    matched = 0.25 + 0.75 + 0.6 * 0.75
    precision, recall = matched / (0.25 + 0.75 + 0.75 + 0.75), matched / (0.25 + 0.75 + 0.75)
    mean = precision * recall / (0.85 * precision + 0.15 * recall)
    wanted = mean * (1 - 0.6 * (1 / 3) ** 0.2)
    found = quality.meteor_approximate([["a", "dog", "runs", "fast"]], [[["a", "dog", "running"]]])
    assert found.values[0] == pytest.approx(wanted)
    # the same words in another order are cut into more chunks
    mixed = quality.meteor_approximate([["fast", "runs", "dog", "a"]], [[["a", "dog", "running"]]])
    assert mixed.values[0] == pytest.approx(mean * (1 - 0.6 * (3 / 3) ** 0.2))


@settings(deadline=None)
@given(caption, caption)
def test_as_many_words_are_matched_as_can_be(own, other):
    found = align(own, [stem(w) for w in own], other, [stem(w) for w in other])
    assert len(found) == sum((Counter(map(stem, own)) & Counter(map(stem, other))).values())
    assert len({i for i, _ in found}) == len({j for _, j in found}) == len(found)
    assert all(stem(own[i]) == stem(other[j]) for i, j in found)
    assert quality.meteor_approximate([own], [[own]]).values[0] == pytest.approx(1.0)
