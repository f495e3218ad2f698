"""METEOR and SPICE run Java safely, and say in a sentence what is missing."""

import json
import stat
import sys
from pathlib import Path

import numpy as np
import pytest

from equipoise.audit.captions import java as java_metrics
from equipoise.errors import InputError, MissingExtraError
from equipoise.measure.captions.quality import meteor_approximate
from equipoise.text.english.ptb import ptb_tokenise

DATA = Path(__file__).resolve().parents[4] / "shared" / "data" / "lic"
MODEL, HUMAN = DATA / "gender_sat.jsonl", DATA / "human_captions.jsonl"
SAID = ["a man riding a wave on a surfboard", "a dog runs", "", "zzz", "a cat sleeps on the couch"]
GIVEN = [
    ["a surfer rides a wave", "the man is surfing on a big wave"],
    ["a dog runs"],
    ["a dog runs"],
    ["a dog"],
    ["a kitten is sleeping on a sofa", "two"],
]
# What METEOR 1.5 counts in them, and the scores that it gives itself.
COUNTS = """8 5 4 2 1 1 2 2 1 1 0 0 1 1 0 0 0 0 0 0 2 5 5
3 3 1 1 2 2 1 1 0 0 0 0 0 0 0 0 0 0 0 0 1 3 3
0 3 0 1 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0
1 2 0 1 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0
6 7 3 4 0 0 2 2 1 1 0 0 1 1 0 0 0 0 0 0 3 4 4
"""
SCORES, WHOLE = [0.39185585490567326, 1.0, 0.0, 0.0, 0.20918244809205955], 0.2685689680820384


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A package with empty programs, and a "java" that does what the test says."""
    for folder, jar in (("meteor", "meteor-1.5.jar"), ("spice", "spice-1.0.jar")):
        (tmp_path / "pack" / folder / "lib").mkdir(parents=True)
        (tmp_path / "pack" / folder / jar).touch()
    monkeypatch.setattr(java_metrics, "_package", lambda: tmp_path / "pack")
    (tmp_path / "bin").mkdir()

    def java(body):
        script = tmp_path / "bin" / "java"
        script.write_text(f"#!{sys.executable}\nimport sys, json, time, os\n{body}\n")
        script.chmod(script.stat().st_mode | stat.S_IXUSR)
        monkeypatch.setenv("PATH", str(tmp_path / "bin"))
        return tmp_path / "pack"

    return java


def test_scores_follow_from_the_counts_as_meteor_scores_them(package):
    package(f"sys.stdin.read(); print({COUNTS!r})")
    found = java_metrics.meteor(SAID, GIVEN)
    np.testing.assert_allclose(found.values, SCORES, atol=1e-12)
    assert found.estimate.value == pytest.approx(WHOLE, abs=1e-12)
    assert found.estimate.ci_low < WHOLE < found.estimate.ci_high
    assert "1 empty captions score 0" in found.estimate.notes


def test_captions_reach_java_as_data_only(package, tmp_path):
    seen = tmp_path / "seen.json"
    body = f"""
text = sys.stdin.read()
json.dump([sys.argv[1:], text, os.getcwd()], open({str(seen)!r}, "w"))
print("\\n".join(" ".join("0" * 23) for _ in text.splitlines()))"""
    package(body)
    nasty = ["$(touch x)", ";", "|||", "`id`", "a\nb"]
    java_metrics.meteor([nasty], [[["-jar", "||| SCORE |||"], ["dog"]]])
    arguments, text, folder = json.loads(seen.read_text())
    assert text == "SCORE ||| -jar SCORE ||| dog ||| $(touch x) ; `id` a b\n"
    assert not any("touch" in argument for argument in arguments)
    assert not Path(folder).exists()  # its own, and gone
    assert folder != str(Path.cwd())


def test_a_run_that_takes_too_long_is_ended(package):
    package("time.sleep(60)")
    with pytest.raises(InputError, match=r"METEOR took longer than timeout = 0.5 s"):
        java_metrics.meteor(["a"], [["a"]], timeout=0.5)


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        (
            "print('NOTE: x', file=sys.stderr); print('out of memory', file=sys.stderr); sys.exit(3)",
            "code 3: out of mem",
        ),
        ("print('hello')", "answered 'hello' where counts were expected"),
        ("print(' '.join('0' * 23)); print(' '.join('0' * 23))", "2 lines for 1 captions"),
        ("pass", "0 lines for 1 captions"),
    ],
)
def test_a_failure_in_java_is_one_sentence(package, body, sentence):
    package(body)
    with pytest.raises(InputError, match=sentence):
        java_metrics.meteor(["a"], [["a"]])


def test_what_is_missing_is_named(package, monkeypatch):
    folder = package("pass")
    assert java_metrics.java_is_ready()
    assert not java_metrics.spice_is_ready()
    with pytest.raises(InputError, match=r"SPICE needs stanford-corenlp-3.6.0.jar in .*get_stanford_models"):
        java_metrics.spice(["a"], [["a"]])
    (folder / "meteor" / "meteor-1.5.jar").unlink()
    with pytest.raises(InputError, match="install pycocoevalcap again"):
        java_metrics.meteor(["a"], [["a"]])
    monkeypatch.setenv("PATH", "")
    assert not java_metrics.java_is_ready()
    with pytest.raises(InputError, match="METEOR needs Java, and there is no 'java' on the PATH"):
        java_metrics.meteor(["a"], [["a"]])
    monkeypatch.setattr(java_metrics, "_package", lambda: None)
    for metric in (java_metrics.meteor, java_metrics.spice):
        with pytest.raises(MissingExtraError, match=r"pip install .*\[java-metrics\]'"):
            metric(["a"], [["a"]])


def test_spice_reads_what_java_wrote_and_drops_what_has_no_value(package):
    body = """
given = json.load(open(sys.argv[sys.argv.index("-jar") + 2]))
scores = [0.5, float("nan"), None, 0.25]
rows = [{"image_id": row["image_id"], "scores": {"All": {"f": scores[row["image_id"]]}}} for row in given]
json.dump(rows, open(sys.argv[sys.argv.index("-out") + 1], "w"))"""
    folder = package(body)
    for name in ("stanford-corenlp-3.6.0.jar", "stanford-corenlp-3.6.0-models.jar"):
        (folder / "spice" / "lib" / name).touch()
    assert java_metrics.spice_is_ready()
    found = java_metrics.spice(["a dog", "b", "c", "a cat"], [["a"], ["b"], ["c"], ["d"]], clusters=[0, 1, 2, 3])
    assert found.values.tolist() == [0.5, 0.25]
    assert found.kept.tolist() == [True, False, False, True]
    assert found.estimate.dropped == {"no statement in caption and references": 2}
    package("pass")
    with pytest.raises(InputError, match="SPICE wrote no scores that can be read"):
        java_metrics.spice(["a"], [["a"]])


@pytest.mark.slow
@pytest.mark.skipif(not java_metrics.java_is_ready(), reason="Java or pycocoevalcap is not on this machine")
def test_meteor_itself_gives_its_own_scores():
    found = java_metrics.meteor(SAID, GIVEN)
    np.testing.assert_allclose(found.values, SCORES, atol=1e-9)
    assert found.estimate.value == pytest.approx(WHOLE, abs=1e-9)


@pytest.mark.slow
@pytest.mark.skipif(not java_metrics.java_is_ready(), reason="Java or pycocoevalcap is not on this machine")
@pytest.mark.skipif(not (MODEL.exists() and HUMAN.exists()), reason="captions of models are not on this machine")
def test_the_approximation_is_near_meteor_on_captions_of_a_model():
    human = {row["image_id"]: row["captions"] for row in map(json.loads, HUMAN.read_text().splitlines()[:600])}
    said = {row["image_id"]: row["caption"] for row in map(json.loads, MODEL.read_text().splitlines())}
    ids = [i for i in human if i in said]
    candidates, references = ptb_tokenise([said[i] for i in ids]), [ptb_tokenise(human[i]) for i in ids]
    exact, near = java_metrics.meteor(candidates, references), meteor_approximate(candidates, references)
    assert 0.9 < near.estimate.value / exact.estimate.value < 1.0
    assert np.corrcoef(near.values, exact.values)[0, 1] > 0.9
