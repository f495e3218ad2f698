"""The tokens of captions are those of the COCO caption evaluation."""

import json
import shutil
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from equipoise.text.english import ptb
from equipoise.text.english.ptb import ptb_tokenise, ptb_tokens

DATA = Path(__file__).resolve().parents[4] / "shared" / "data"
COCO = DATA / "coco" / "captions_val2017.json"
OTHERS = DATA / "lic" / "human_captions.jsonl"

# What Stanford's tokeniser gives, without the marks that the evaluation removes.
EXPECTED = {
    "It's a dog's bone and the dogs' bones.": "it 's a dog 's bone and the dogs bones",
    "He can't, won't, isn't, couldn't've go.": "he ca n't wo n't is n't could n't 've go",
    "I'm you're they've he'd she'll": "i 'm you 're they 've he 'd she 'll",
    "cannot gonna gotta wanna gimme lemme 'tis": "can not gon na got ta wan na gim me lem me 't is",
    "A man cannot swim": "a man can not swim",
    "A man (left) and [right] {brace}.": "a man -lrb- left -rrb- and -lsb- right -rsb- -lcb- brace -rcb-",
    "an <angle> tag": "an <angle> tag",
    "A $5.00 bill, £5 note, 50% off #1 & co @home": "a $ 5.00 bill # 5 note 50 % off # 1 & co @home",
    "3/4 of a pizza and/or 1/2 cup": "3/4 of a pizza and/or 1/2 cup",
    "\"Quoted\" text and 'single' ``tick''": "quoted text and single tick",
    "Wait... what.. this.... -- a --- b – en — em": "wait what this a b en em",
    "Mr. Smith, St. Louis, U.S. flag, U.S.A. team, 5 p.m.": "mr. smith st. louis u.s. flag u.s.a. team 5 p.m.",
    "A cat, a dog, etc.": "a cat a dog etc.",
    "on Main St.": "on main st.",
    "ball.The man.on top, dog,cat;bird:fish": "ball.the man.on top dog cat bird fish",
    "wow!!! really?? what?! hmm!": "wow !!! really ?? what ?! hmm",
    "12:30 pm 10:30am 555-1234 1,000 3.5 .5 -3 +4 6'2\"": "12:30 pm 10:30 am 555-1234 1,000 3.5 .5 -3 +4 6 2",
    "a half-eaten sandwich - one-- two--three mother-in-law's": "a half-eaten sandwich one two three mother-in-law 's",
    "café jalapeño": "café jalapeño",
    "John’s dog isn’t “big” … yes": "john 's dog is n't big yes",
    "under_score *star* = + \\ | / a/b": "under_score * star * = + \\ | / a/b",
    "t-shirt T.V. TV's 1950's '50s 70s": "t-shirt t.v. tv 's 1950 's '50s 70s",
    "hors d'oeuvres jack-o'-lantern o'clock ma'am": "hors d'oeuvres jack-o lantern o'clock ma'am",
    "a woman&child AT&T &amp; more": "a woman & child at&t & more",
    "No. 1 on bus no. 5. He said no.": "no. 1 on bus no. 5 he said no",
    "www.example.com http://foo.com/bar foo@bar.com": "www.example.com http://foo.com/bar foo@bar.com",
    "rock 'n' roll y'all": "rock 'n' roll y' all",
    "½ cup of 5¢": "1/2 cup of 5 cents",
    "the sign reads K.": "the sign reads k",
    "the W. 5th sign": "the w. 5th sign",
    "  leading   spaces  ": "leading spaces",
    "": "",
    "...": "",
}


@pytest.mark.parametrize("caption", EXPECTED)
def test_tokens_are_those_of_the_evaluation(caption):
    assert " ".join(ptb_tokens(caption)) == EXPECTED[caption]


@settings(deadline=None)
@given(st.lists(st.sampled_from("A a man cannot St St. Dr gonna Wash K I no in . etc dog s".split()), max_size=6))
def test_the_short_way_gives_what_the_rules_give(words):
    caption = " ".join(words)
    short = ptb_tokens(caption)
    # A mark at the front that is not counted sends the same caption the long way.
    assert ptb_tokens(f", {caption}") == short


@settings(deadline=None)
@given(st.text(max_size=60))
def test_any_text_gives_lower_tokens_without_spaces(text):
    for token in ptb_tokens(text):
        assert token
        assert not any(c.isspace() for c in token)
        assert not ptb._DROPPED.fullmatch(token)


def test_a_long_run_of_one_sign_takes_no_time():
    for sign in ("a", ".", "-", "a.", "a-", "'", "a'", "1,", "n't", "+", "+a", "a@", "<a"):
        assert len(ptb_tokens(sign * 20_000)) <= 40_000


def java_tokens(captions):
    tokenizer = pytest.importorskip("pycocoevalcap.tokenizer.ptbtokenizer").PTBTokenizer()
    if shutil.which("java") is None:
        pytest.skip("Java is not on this machine")
    found = tokenizer.tokenize({i: [{"caption": caption}] for i, caption in enumerate(captions)})
    return [found[i][0].split(" ") if found[i][0] else [] for i in range(len(captions))]


def share_alike(captions):
    ours, theirs = ptb_tokenise(captions), java_tokens(captions)
    return sum(a == b for a, b in zip(ours, theirs, strict=True)) / len(captions)


@pytest.mark.slow
@pytest.mark.skipif(not COCO.exists(), reason="COCO's captions are not on this machine")
def test_coco_captions_have_the_tokens_of_the_java_tokeniser():
    captions = [a["caption"] for a in json.loads(COCO.read_text())["annotations"]]
    assert share_alike(captions) >= 0.9995


@pytest.mark.slow
@pytest.mark.skipif(not OTHERS.exists(), reason="the captions of val2014 are not on this machine")
def test_captions_that_the_rules_were_not_made_on_have_them_too():
    lines = [json.loads(line) for line in OTHERS.read_text().splitlines()]
    captions = [" ".join(c.split()) for line in lines for c in line["captions"]]
    assert share_alike(captions) >= 0.999
