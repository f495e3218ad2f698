"""Captions in other words say the same of the same people, and the world's own captions stay as they are."""

import hashlib
import re

import numpy as np
import pytest

from equipoise.recipes.train_mini.editions import phrasing_words, rephrased, tokens_of
from equipoise.recipes.train_mini.tokenizer import LENGTH
from equipoise.text.english.articles import article
from equipoise.world import WorldConfig, captions, sample, vocabulary
from equipoise.world.captions import prompts

FULL = WorldConfig(gender={"male": 1, "female": 1, "neutral": 0.3}, two_people=0.2)


def others(text, n=400, **options):
    rng = np.random.default_rng(1)
    return {rephrased(text, rng, **{"kept": 0.0, **options}) for _ in range(n)}


@pytest.mark.parametrize(
    ("caption", "wanted"),
    [
        (
            "a photo of a woman with dark skin",
            {
                "a photo of a dark-skinned woman",
                "a photo of a darker-skinned woman",
                "a photo of a woman with darker skin",
            },
        ),
        (
            "a photo of an old man",
            {"a photo of an older man", "a photo of an elderly man", "a photo of a man of old age"},
        ),
        (
            "an old female nurse with light skin",
            {"an elderly light-skinned female nurse", "a lighter-skinned older nurse who is a woman"},
        ),
        ("a girl with medium skin", {"a medium-skinned girl", "a female child with medium skin"}),
        ("a person with dark skin", {"a dark-skinned person", "a person with darker skin"}),
        ("a male pilot and a kite", {"a pilot who is a man and a kite", "a pilot who is male and a kite"}),
        ("a nonbinary chef", {"a nonbinary chef", "a chef who is nonbinary"}),
        ("Make this person look like a woman with dark skin", {"Make this person look like a darker-skinned woman"}),
    ],
)
def test_groups_are_said_before_and_after_the_noun(caption, wanted):
    assert wanted <= others(caption, 3000)


@pytest.mark.parametrize(
    "text", ["", "a photo of a nurse", "she is a chef at the beach", "Make this person more feminine"]
)
def test_what_is_not_said_stays_unsaid(text):
    assert others(text) == {text}


def test_the_work_after_works_as_is_no_second_person():
    assert others("a man who works as a nurse") == {
        "a man who works as a nurse",
        "a male person who works as a nurse",
        "a gentleman who works as a nurse",
    }


def test_a_share_of_captions_is_kept():
    rng = np.random.default_rng(0)
    text = "an old woman with dark skin"
    kept = np.mean([rephrased(text, rng, kept=0.5) == text for _ in range(2000)])
    assert 0.47 < kept < 0.55  # other draws give the world's wording now and then too


_TOLD = {
    "male": r"\b(man|male|gentleman|boy|he)\b",
    "female": r"\b(woman|female|lady|girl|she)\b",
    "light": r"\b(light|lighter)[ -](a )?skin",
    "medium": r"\bmedium[ -]skin",
    "dark": r"\b(dark|darker)[ -]skin",
    "child": r"\b(young|little|boy|girl|child)\b",
    "adult": r"\b(adult|grown-up)\b",
    "older": r"\b(old|older|elderly|senior|aged)\b",
}


def test_other_words_name_the_same_groups_and_change_nothing_else():
    rng, changed, outside = np.random.default_rng(3), 0, set(phrasing_words())
    for scene in sample(FULL, 300, seed=5):
        for style in ("natural", "full"):
            for caption in captions(scene, 3, style):
                other = rephrased(caption, rng, kept=0.0)
                changed += other != caption
                for group, pattern in _TOLD.items():
                    named = bool(re.search(pattern, caption)), bool(re.search(pattern, other))
                    assert named[0] == named[1], (group, caption, other)
                assert tokens_of(other) <= LENGTH - 2
                for found, word in re.findall(r"\b(an?) ([a-z]+)", other):
                    assert found == article(word), other
                lost = set(re.findall(r"[a-z]+", caption)) - set(re.findall(r"[a-z]+", other))
                assert lost <= {
                    *"a an with skin old young adult light medium dark man woman boy girl male female".split()
                }
                new = set(re.findall(r"[a-z]+", other)) - set(re.findall(r"[a-z]+", caption))
                assert new <= outside | {"a", "an"}
    assert changed > 1000


def test_every_word_is_one_token():
    pytest.importorskip("transformers")
    from equipoise.recipes.train_mini.tokenizer import tokenizer

    words = tokenizer(sorted({*vocabulary(), *phrasing_words()}))
    rng = np.random.default_rng(2)
    for scene in sample(FULL, 60, seed=6):
        other = rephrased(captions(scene, 1, "full")[0], rng, kept=0.0)
        assert len(words(other)["input_ids"]) == tokens_of(other) + 2


def test_prompts_to_learn_are_phrased_on_demand_and_by_the_step_alone():
    from equipoise.recipes.train_mini import diffusion

    scenes = sample(diffusion.world_of(FULL), 64, seed=7)
    plain, phrased, again = (diffusion.prompts_to_learn(scenes, 5, phrased=wanted) for wanted in (False, True, True))
    assert phrased == again
    assert 10 < sum(a != b for a, b in zip(plain, phrased, strict=True)) < 60
    assert [not text for text in plain] == [not text for text in phrased]


def test_the_worlds_own_captions_are_what_they_were():
    texts = [text for scene in sample(WorldConfig(), 200, seed=11) for text in captions(scene, 5, "full")]
    texts += [text for axis in ("gender", "skin_tone", "age") for text in prompts(axis).values()]
    digest = hashlib.sha256("\n".join(texts).encode()).hexdigest()
    assert digest == "9283bc64bcaa2722f634782d742f4576070e5e6821cfe647a7dfc5f411b592a1"
