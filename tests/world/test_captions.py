import pytest

from equipoise.errors import InputError
from equipoise.text import Lexicon
from equipoise.world import Person, Scene, WorldConfig, captions, draw, neutral_prompt, preset, sample, vocabulary
from equipoise.world.captions import MAX_WORDS, prompts
from equipoise.world.catalog import SUBJECTS

THREE = WorldConfig(gender={"male": 1, "female": 1, "neutral": 1}, trait=0.5, activity_share=0.4)


@pytest.mark.slow
def test_words_are_closed_and_captions_short():
    words = set(vocabulary())
    assert len(words) < 300
    for scene in sample(THREE, 1500, seed=1):
        for style in ("natural", "neutral", "gendered", "full"):
            for caption in scene.captions(5, style):
                assert set(caption.split()) <= words, caption
                assert len(caption.split()) <= MAX_WORDS
                assert "  " not in caption
                assert caption == caption.strip()


@pytest.mark.slow
def test_every_word_can_occur():
    seen = set()
    for scene in sample(THREE, 4000, seed=2):
        for style in ("natural", "full"):
            seen.update(word for caption in scene.captions(5, style) for word in caption.split())
    for axis in ("gender", "skin_tone", "age", "occupation", "activity", "scene", "object"):
        seen.update(word for text in prompts(axis, THREE).values() for word in text.split())
    assert set(vocabulary()) - seen == set()


def test_the_lexicon_reads_the_gender_that_is_named():
    lexicon = Lexicon.load("equipoise")
    for scene in sample(WorldConfig(activity_share=0.3, two_people=0.0), 500, seed=3):
        shown = scene.group("gender")
        assert {lexicon.label(text) for text in scene.captions(5, "gendered")} == {shown}
        assert {lexicon.label(text) for text in scene.captions(5, "neutral")} == {None}


def test_age_words_are_known_to_the_age_lexicon():
    lexicon = Lexicon.load("age")
    for word, group in (("a girl", "child"), ("an old woman", "old"), ("an old person", "old")):
        assert lexicon.label(word) == group


def test_five_paraphrases_differ():
    scenes = sample(preset("fair"), 300, seed=4)
    assert sum(len(set(scene.captions(5))) == 5 for scene in scenes) / 300 > 0.97


def test_a_counterfactual_is_told_in_step():
    for scene in sample(preset("fair"), 200, seed=5):
        other = scene.counterfactual(gender="male" if scene.group("gender") == "female" else "female")
        assert scene.captions(5, "neutral") == other.captions(5, "neutral")
        swap = {
            "man": "woman",
            "woman": "man",
            "boy": "girl",
            "girl": "boy",
            "male": "female",
            "female": "male",
            "he": "she",
            "she": "he",
        }
        if len(scene.people) == 1:
            told = [" ".join(swap.get(word, word) for word in text.split()) for text in scene.captions(5, "full")]
            assert told == other.captions(5, "full")


def test_markedness_names_the_unexpected_more_often():
    config = preset("biased").changed(activity_share=0.0, mention={"gender": 0.5})
    lexicon = Lexicon.load("equipoise")
    rate = {}
    for gender in ("male", "female"):
        scenes = [s.counterfactual(gender=gender) for s in draw(config, range(300), subject="nurse")]
        labels = [lexicon.label(text) for s in scenes for text in s.captions()]
        rate[gender] = sum(label is not None for label in labels) / len(labels)
    expected = {g: config.chance_of_mention("nurse", "gender", g) for g in rate}
    assert expected["male"] > expected["female"] + 0.2
    for gender, value in rate.items():
        assert value == pytest.approx(expected[gender], abs=0.05)


def test_captions_follow_the_record_under_noise():
    config = WorldConfig(label_noise=1.0, activity_share=0.0)
    lexicon = Lexicon.load("equipoise")
    for scene in sample(config, 50, seed=1):
        assert scene.noted("gender") != scene.group("gender")
        assert {lexicon.label(text) for text in scene.captions(3, "gendered")} == {scene.noted("gender")}


def test_other_words_for_a_group():
    config = WorldConfig(words={"female": {"noun": "lady"}})
    assert "lady" in vocabulary(config)
    assert prompts("gender", config)["female"] == "a photo of a lady"


def test_prompts():
    assert len({neutral_prompt(subject) for subject in SUBJECTS}) == len(SUBJECTS)
    lexicon = Lexicon.load("equipoise")
    assert {lexicon.label(neutral_prompt(subject)) for subject in SUBJECTS} == {None}
    assert neutral_prompt("astronaut") == "a photo of an astronaut"
    with pytest.raises(InputError, match="playing_guitar"):
        neutral_prompt("playing_guitr")
    with pytest.raises(InputError, match="style"):
        captions(sample(preset("fair"), 1)[0], 5, "loud")
    with pytest.raises(InputError, match="n=-2"):
        captions(sample(preset("fair"), 1)[0], -2)


def test_an_exchanged_caption_gives_the_build_and_things_of_whom_it_names():
    woman = Person("female", 3, "adult", build="slim", glasses=True, activity="playing_drum")
    man = Person("male", 3, "adult", build="broad", bag=True)
    told = {False: "", True: ""}
    for exchanged in told:
        scenes = (Scene((woman, man), "park", seed=seed, exchanged=exchanged) for seed in range(40))
        told[exchanged] = " ".join(text for scene in scenes for text in scene.captions(5, "gendered"))
    assert {"slim", "glasses"} <= set(told[False].split())
    assert {"broad", "bag"} <= set(told[True].split())
    assert not {"broad", "bag"} & set(told[False].split())
    assert not {"slim", "glasses"} & set(told[True].split())
