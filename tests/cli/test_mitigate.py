"""``equipoise mitigate``: options that a remedy does not read are refused by name, and what is said of a fit is so."""

import numpy as np
import pytest

from equipoise.data import Table

FINETUNE, TOKENS = "counterfactual-finetune", "learned-tokens"


@pytest.mark.parametrize(
    ("remedy", "words", "sentence"),
    [
        (TOKENS, ["--variant", "calibrated"], "has no variants; leave out --variant"),
        (TOKENS, ["--prompts", "p.csv"], "learns from images and captions, not from prompts; leave out --prompts"),
        (TOKENS, ["--max-broken", "0.5"], "stops at the first image that cannot be read; leave out --max-broken"),
        (TOKENS, ["--variant", "x", "--dry-run"], "has no variants; leave out --variant"),
        (FINETUNE, ["--prompts", "p.csv"], "leave out --prompts"),
        (FINETUNE, ["--engine", "ray"], "uses neither the engine nor the cache; leave out --engine"),
        (FINETUNE, ["--workers", "2"], "leave out --workers"),
        (FINETUNE, ["--no-cache"], "leave out --no-cache"),
        (FINETUNE, ["--cache"], "leave out --cache"),
        (FINETUNE, ["--max-broken", "0.05"], "leave out --max-broken"),
    ],
)
def test_what_a_remedy_does_not_read_is_refused(command_line, tmp_path, remedy, words, sentence):
    Table.create(tmp_path / "sets", [{"image_id": "a", "gender": "f"}], axes=["gender"])
    out = tmp_path / "out"
    told = command_line("mitigate", remedy, "mini:clip", "-t", tmp_path / "sets", "--axis", "gender", "-o", out, *words)
    assert told.returncode == 2
    assert f"{remedy} " in told.stderr
    assert sentence in told.stderr
    assert not out.exists()


@pytest.mark.parametrize(
    ("remedy", "words"),
    [
        (TOKENS, ["--no-cache", "--engine", "local"]),
        (FINETUNE, ["--variant", "contrastive"]),
        ("leace", ["--max-broken", "0.5", "--no-cache"]),
    ],
)
def test_what_a_remedy_reads_is_taken(command_line, tmp_path, remedy, words):
    told = command_line("mitigate", remedy, "mini:clip", "-t", tmp_path / "none", "--axis", "gender", "-o", "x", *words)
    assert told.returncode == 2
    assert "leave out" not in told.stderr  # it is the table that is missing


def test_a_fit_on_prompts_without_sets_speaks_of_none(command_line, tmp_path):
    rows = [{"image_id": f"{job}{g}", "subject": job, "gender": g} for job in ("cook", "nurse") for g in ("f", "m")]
    Table.create(tmp_path / "sets", rows, axes=["gender"])
    texts = ["a photo of a woman", "a photo of a man"]
    vectors = np.random.default_rng(0).normal(size=(2, 6))
    data = [{"id": text, "vector": vector, "model": "toy"} for text, vector in zip(texts, vectors, strict=True)]
    Table.create(tmp_path / "vectors", data, kind="embeddings", dim=6)
    (tmp_path / "pairs.csv").write_text(f"set,gender,text\n,f,{texts[0]}\n,m,{texts[1]}\n", encoding="utf-8")
    words = ["projection", f"table:{tmp_path / 'vectors'}", "-t", tmp_path / "sets", "--axis", "gender"]
    more = ["--variant", "prompts", "--prompts", tmp_path / "pairs.csv", "-o", tmp_path / "remedy"]
    told = command_line("mitigate", *words, *more)
    assert told.returncode == 0, told.stderr
    assert f"projection fitted on 2 texts, in {tmp_path / 'remedy'}\n" in told.stdout
