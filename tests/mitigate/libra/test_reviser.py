"""A debiasing caption generator: made of a ViLT and a GPT-2, trained, stopped, gone on, loaded by stock classes."""

import json

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from PIL import Image  # noqa: E402

from equipoise.audit.captions.images import image_files  # noqa: E402
from equipoise.data import Table  # noqa: E402
from equipoise.engine import Asking  # noqa: E402
from equipoise.errors import InputError  # noqa: E402
from equipoise.mitigate.libra.applying import CaptionRow, apply_into  # noqa: E402
from equipoise.mitigate.libra.learning import fit_reviser, pairs_in, start_of  # noqa: E402
from equipoise.models import load  # noqa: E402
from equipoise.models.miniatures import FOLDER  # noqa: E402
from equipoise.train.tasks.dcg import DebiasingTask  # noqa: E402

HOW = {"batch": 4, "steps": 2, "rate": 1e-3, "val_share": 0.0, "save_every": 1, "device": "cpu", "quiet": True}


@pytest.fixture
def start(tiny_towers, tmp_path):
    vilt, gpt = tiny_towers
    return start_of(f"hf:{vilt}", f"hf:{gpt}", tmp_path / "start", share=0.2)


def weights(folder):
    from safetensors.torch import load_file

    return load_file(folder / "model.safetensors")


@pytest.mark.slow
def test_trains_two_steps_goes_on_after_a_stop_and_stock_classes_load_it(start, pairs, pictures, tmp_path, monkeypatch):
    files = image_files(pictures)
    fit_reviser(pairs_in(pairs), files, tmp_path / "whole", init=start, **HOW)

    real, calls = DebiasingTask.loss, []

    def stops(self, *given):
        calls.append(1)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return real(self, *given)

    monkeypatch.setattr(DebiasingTask, "loss", stops)
    with pytest.raises(KeyboardInterrupt):
        fit_reviser(pairs_in(pairs), files, tmp_path / "parted", init=start, **HOW)
    made = fit_reviser(pairs_in(pairs), files, tmp_path / "parted", init=start, **HOW)
    assert len(calls) == 3, "the first step is not taken again"
    assert made.steps == 2
    one, other = weights(tmp_path / "whole"), weights(tmp_path / "parted")
    assert all(torch.equal(one[name], other[name]) for name in one)
    before = weights(tmp_path / "start")
    assert not torch.equal(
        one["decoder.transformer.h.0.crossattention.c_attn.weight"],
        before["decoder.transformer.h.0.crossattention.c_attn.weight"],
    )

    from transformers import AutoTokenizer, EncoderDecoderModel, ViltModel

    stock, report = EncoderDecoderModel.from_pretrained(tmp_path / "whole", output_loading_info=True)
    assert not report["missing_keys"]
    assert not report["unexpected_keys"]
    assert isinstance(stock.encoder, ViltModel)
    assert AutoTokenizer.from_pretrained(tmp_path / "whole").mask_token == "[MASK]"
    assert AutoTokenizer.from_pretrained(tmp_path / "whole" / "decoder").eos_token == "<|endoftext|>"

    rows = [CaptionRow(name, "a man doctor with hat") for name in files]
    reviser = load(f"hf:{tmp_path / 'whole'}", kind="reviser", device="cpu")
    how = Asking(batch_size=4, progress=False, store=tmp_path / "store")
    applied = apply_into(tmp_path / "revised", reviser, rows, files, asking=how)
    assert applied.counts["revised"] == len(files)


def test_the_towers_are_those_that_were_joined(start, tiny_towers, tmp_path):
    vilt, gpt = tiny_towers
    joined, eyes, voice = weights(tmp_path / "start"), weights(vilt), weights(gpt)
    kept = [name for name in eyes if name.startswith("vilt.")]
    assert kept
    assert all(torch.equal(joined[f"encoder.{n.removeprefix('vilt.')}"], eyes[n]) for n in kept if "pooler" not in n)
    assert all(torch.equal(joined[f"decoder.{name}"], voice[name]) for name in voice if "lm_head" not in name)
    assert "enc_to_dec_proj.weight" in joined, "the two are of different widths"


@pytest.mark.slow
def test_a_revision_depends_on_image_caption_and_seed_alone(start, pictures):
    model = load(start, kind="reviser", device="cpu")
    images = [Image.open(pictures / f"{i}.png") for i in range(5)]
    texts = ["a man with hat.", "a woman", "a doctor at the market with a red hat", "a man with hat.", "a girl"]
    together = model.revise(images, texts, seed=3)
    alone = [model.revise([image], [text], seed=3)[0] for image, text in zip(images, texts, strict=True)]
    assert together == alone
    for text in together:
        tokens = model.tongue(text)["input_ids"]
        fours = [tuple(tokens[i : i + 4]) for i in range(len(tokens) - 3)]
        assert len(tokens) <= 33
        assert len(fours) == len(set(fours))


def test_pads_are_not_looked_at(start, pictures):
    """A picture beside a wider one is padded; what ViLT reads of it must not change."""
    from equipoise.models.hf.revisers import encoded, inputs_of

    model = load(start, kind="reviser", device="cpu")
    narrow, wide = Image.open(pictures / "0.png"), Image.open(pictures / "2.png")
    with torch.no_grad():
        counts = []
        for images in ([narrow], [narrow, wide]):
            texts = ["a man"] * len(images)
            _, there = encoded(
                model.model, inputs_of(model.processor, model.words, images, texts, model.model.config.encoder)
            )
            counts.append(int(there[0].sum()))
    assert counts[0] == counts[1] == 4 + 1 + 16


def test_pairs_are_a_layer_of_a_table(start, pairs, pictures, tmp_path):
    rows = [{"image_id": str(i), "image": {"path": str(pictures / f"{i}.png")}} for i in range(12)]
    rows.append({"image_id": "without pairs", "image": {"path": str(pictures / "0.png")}})
    table = Table.create(tmp_path / "table", rows)
    made = fit_reviser(pairs_in(pairs), table, tmp_path / "out", init=start, **HOW | {"steps": 1})
    assert json.loads((tmp_path / "out" / "run.json").read_text())["fitted_on"]["n"] == 12
    assert made.steps == 1


def test_what_cannot_be_learnt_from_is_one_sentence(start, pairs, pictures, tmp_path):
    with pytest.raises(InputError, match="none of the 12 images"):
        fit_reviser(pairs_in(pairs), {"x": pictures / "0.png"}, tmp_path / "out", init=start, **HOW)
    with pytest.raises(InputError, match="no pairs there; make them with"):
        pairs_in(tmp_path / "nothing")
    (tmp_path / "bad.jsonl").write_text('{"image_id": 1}\n')
    with pytest.raises(InputError, match=r"bad\.jsonl:1: expected an object"):
        pairs_in(tmp_path / "bad.jsonl")
    with pytest.raises(InputError, match="cannot revise captions"):
        load(f"hf:{FOLDER / 'captioner'}", kind="reviser")


def test_a_folder_of_someone_else_beside_the_output_is_left_alone(start, pairs, pictures, tmp_path):
    mine = tmp_path / "dcg-pairs"
    mine.mkdir()
    (mine / "pairs.jsonl").write_text("mine")
    with pytest.raises(InputError, match="dcg-pairs: is there already and holds something else"):
        fit_reviser(pairs_in(pairs), image_files(pictures), f"{tmp_path}/dcg/", init=start, **HOW)
    assert (mine / "pairs.jsonl").read_text() == "mine"


def test_pairs_with_strange_line_ends_are_read(tmp_path):
    row = {"image_id": "1", "biased": "a man\u2028there", "original": "a woman"}
    (tmp_path / "pairs.jsonl").write_text(json.dumps(row, ensure_ascii=False) + "\n\n", encoding="utf-8")
    assert pairs_in(tmp_path) == {"1": (["a man\u2028there"], ["a woman"])}
    (tmp_path / "pairs.jsonl").write_bytes(b"\xff\xfe")
    with pytest.raises(InputError, match="is not UTF-8"):
        pairs_in(tmp_path)


def test_a_start_that_was_cut_off_is_made_again(tiny_towers, tmp_path, monkeypatch):
    from equipoise.models.hf import revisers

    vilt, gpt = tiny_towers
    real = revisers.join

    def dies(*given, **how):
        real(*given, **how)
        raise KeyboardInterrupt

    monkeypatch.setattr(revisers, "join", dies)
    with pytest.raises(KeyboardInterrupt):
        start_of(f"hf:{vilt}", f"hf:{gpt}", tmp_path / "start", share=0.2)
    monkeypatch.setattr(revisers, "join", real)
    start_of(f"hf:{vilt}", f"hf:{gpt}", tmp_path / "start", share=0.2)
    assert (tmp_path / "start" / "made_of.json").is_file()
    assert [path.name for path in tmp_path.iterdir()] == ["start"]


def test_pairs_beside_a_model_belong_to_one_run(pairs, pictures, tmp_path, command_line):
    from equipoise.data.atomic import locked

    line = ["libra", "fit", pairs, "--images", pictures, "--init", "mini:dcg", "-o"]
    with locked(tmp_path / ".dcg-pairs.lock", what="it"):
        refused = command_line(*line, tmp_path / "dcg")
    assert (refused.returncode, "is being written by process" in refused.stderr) == (2, True), refused.stderr
    assert list(tmp_path.iterdir()) == [pairs]
    nameless = command_line(*line, ".")
    assert (nameless.returncode, "names no folder" in nameless.stderr) == (2, True), nameless.stderr
