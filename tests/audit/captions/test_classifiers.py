"""The classifiers behind LIC: the quick LSTM is torch's LSTM, every classifier learns, and none learns from nothing."""

import json

import numpy as np
import pytest

from equipoise.audit.captions.folds import caption_scores, word_contributions
from equipoise.audit.captions.lic import measure_lic
from equipoise.errors import InputError, UnknownNameError
from equipoise.models.caption_classifiers import CLASSIFIERS, LstmClassifier, classifier
from equipoise.models.caption_classifiers.lstm import LstmSettings, lstm_probabilities

WORDS = ("a", "dog", "cat", "ball", "street", "on", "with", "table", "red", "sits", "runs", "plate")


def planted(n, token, share, seed=0):
    """Captions of random words; ``token`` stands in ``share`` of those of the second group."""
    rng = np.random.default_rng(seed)
    labels = {i: ("male", "female")[i % 2] for i in range(n)}
    captions = {}
    for i in labels:
        words = list(rng.choice(WORDS, size=int(rng.integers(4, 9))))
        if labels[i] == "female" and rng.random() < share:
            words.insert(int(rng.integers(len(words))), token)
        captions[i] = " ".join(words)
    return captions, labels


def torch_weights(torch, lstm, layer):
    """A layer of torch's LSTM in our order of gates: input, forget, output, cell."""
    made = []
    for suffix in ("", "_reverse"):
        w_in, w_state = (getattr(lstm, f"weight_{kind}_l{layer}{suffix}") for kind in ("ih", "hh"))
        bias = getattr(lstm, f"bias_ih_l{layer}{suffix}") + getattr(lstm, f"bias_hh_l{layer}{suffix}")
        turned = [torch.cat([w.chunk(4)[g] for g in (0, 1, 3, 2)]) for w in (w_in, w_state, bias)]
        made.append((turned[0].T, turned[1].T, turned[2]))
    return tuple(torch.stack([side[i] for side in made]).detach().requires_grad_() for i in range(3))


def test_the_layer_and_its_gradients_are_those_of_torch():
    torch = pytest.importorskip("torch")
    from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

    from equipoise.models.caption_classifiers.lstm import bilstm

    torch.manual_seed(0)
    lstm = torch.nn.LSTM(7, 5, bidirectional=True)
    x, lengths = torch.randn(6, 4, 7, requires_grad=True), torch.tensor([6, 3, 5, 2])
    packed, (ends, _) = lstm(pack_padded_sequence(x, lengths, enforce_sorted=False))
    expected, _ = pad_packed_sequence(packed)
    ends = torch.cat([ends[0], ends[1]], dim=1)
    ours = x.detach().clone().requires_grad_()
    weights = torch_weights(torch, lstm, 0)
    states, last = bilstm(ours, weights, lengths, torch.float32)
    there = (torch.arange(6)[:, None] < lengths)[..., None]
    assert torch.allclose(expected, states * there, atol=1e-6)
    assert torch.allclose(ends, last, atol=1e-6)
    pull, push = torch.randn_like(expected), torch.randn_like(ends)
    ((expected * pull * there).sum() + (ends * push).sum()).backward()
    ((states * pull * there).sum() + (last * push).sum()).backward()
    assert torch.allclose(x.grad, ours.grad, atol=1e-5)
    assert torch.allclose(lstm.weight_hh_l0.grad.chunk(4)[2].T, weights[1].grad[0][:, 15:], atol=1e-5)
    assert torch.allclose(lstm.weight_ih_l0_reverse.grad.chunk(4)[0].T, weights[0].grad[1][:, :5], atol=1e-5)
    assert torch.allclose(lstm.bias_ih_l0_reverse.grad.chunk(4)[1], weights[2].grad[1][5:10], atol=1e-5)


@pytest.mark.parametrize("precision", ["float32", pytest.param("bfloat16", marks=pytest.mark.slow)])
def test_the_lstm_learns_and_gives_the_same_for_the_same_seed(precision):
    pytest.importorskip("torch")
    captions, labels = planted(400, "zork", 0.9)
    tokens = [captions[i].split() for i in captions]
    truth = np.array([labels[i] == "female" for i in captions]).astype(np.int64)
    settings = LstmSettings(hidden=32, embedding=16, epochs=6, rate=5e-3, batch=32, precision=precision)
    found = lstm_probabilities(tokens[:300], truth[:300], tokens[300:], 2, 1, settings)
    assert np.allclose(found.sum(axis=1), 1)
    assert (found.argmax(axis=1) == truth[300:]).mean() > 0.85
    assert np.array_equal(found, lstm_probabilities(tokens[:300], truth[:300], tokens[300:], 2, 1, settings))


def test_the_lstm_knows_more_than_two_groups():
    pytest.importorskip("torch")
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 3, size=240)
    tokens = [["a", ("red", "green", "blue")[g], "ball"] for g in truth]
    settings = LstmSettings(hidden=16, embedding=8, epochs=8, rate=1e-2, batch=16)
    found = lstm_probabilities(tokens[:200], truth[:200], tokens[200:], 3, 0, settings)
    assert found.shape == (40, 3)
    assert (found.argmax(axis=1) == truth[200:]).all()


@pytest.mark.slow
def test_the_bert_classifier_takes_any_text_encoder(tmp_path):
    pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    specials = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    (tmp_path / "vocab.txt").write_text("\n".join([*specials, *WORDS, "zork"]), encoding="utf-8")
    words = transformers.BertTokenizer(vocab=str(tmp_path / "vocab.txt"))
    config = transformers.BertConfig(
        vocab_size=len(words), hidden_size=32, num_hidden_layers=1, num_attention_heads=2, intermediate_size=32
    )
    transformers.BertModel(config).save_pretrained(tmp_path / "encoder")
    words.save_pretrained(tmp_path / "encoder")
    captions, labels = planted(400, "zork", 0.9)
    for kind in ("bert", "bert-frozen"):
        found = measure_lic(
            captions, labels, classifier=f"{kind}:{tmp_path / 'encoder'}", seeds=(0,), permutations=0, mask=None
        )
        assert 25 <= found.lic_m.value <= 100
        assert found.classifier.startswith(f"{kind}:")
        assert not found.approximate
    with pytest.raises(InputError, match="there is no such folder"):
        measure_lic(captions, labels, classifier=f"bert:{tmp_path / 'nowhere'}", seeds=(0,), permutations=0)
    (tmp_path / "encoder" / "model.safetensors").rename(tmp_path / "encoder" / "pytorch_model.bin")
    with pytest.raises(InputError, match="only there as a pickle"):
        measure_lic(captions, labels, classifier=f"bert:{tmp_path / 'encoder'}", seeds=(0,), permutations=0)


def test_a_planted_word_ranks_first_and_captions_with_it_score_high():
    captions, labels = planted(1000, "zork", 0.3)
    found = measure_lic(captions, labels, seeds=(0, 12, 100), permutations=20)
    assert found.words["word"][0] == "zork"
    assert found.words["group"][0] == "female"
    assert found.lic_m.p_value < 0.06
    scored = found.per_caption.set_index("image_id")["score"]
    with_word = [i for i in captions if "zork" in captions[i].split()]
    without = [i for i in captions if "zork" not in captions[i].split() and labels[i] == "female"]
    assert scored[with_word].mean() > scored[without].mean() + 0.3


def test_contributions_add_up_to_the_mean_log_odds_and_ignore_what_every_caption_has():
    captions, labels = planted(600, "zork", 0.5)
    tokens = [["always", *captions[i].split()] for i in captions]
    truth = np.array([labels[i] == "male" for i in captions]).astype(np.int64)
    table = word_contributions(tokens, truth, ("female", "male"), list(captions))
    always = table.set_index("word").loc["always"]
    assert abs(always["contribution"]) < 0.02
    assert table["contribution"].sum() > 0
    assert not np.isnan(caption_scores(classifier("fast").read(tokens), truth, 2, list(captions))).any()


def test_splits_of_other_sizes_are_not_taken_for_each_other():
    captions, labels = planted(12, "zork", 1.0)
    tokens = [captions[i].split() for i in captions]
    truth = np.array([labels[i] == "male" for i in captions]).astype(np.int64)
    rows = np.arange(12)
    reader = classifier("fast").read(tokens)
    for cut in (10, 8, 10):  # one sequence of rows, cut in two places
        fresh = classifier("fast").read(tokens)
        given = rows[:cut], truth[:cut], rows[cut:], 2, 0
        np.testing.assert_array_equal(reader.probabilities(*given), fresh.probabilities(*given))


def test_with_shuffled_labels_the_interval_covers_chance():
    captions, labels = planted(800, "zork", 0.5)
    dealt = np.random.default_rng(5).permutation(list(labels.values()))
    found = measure_lic(captions, dict(zip(labels, dealt, strict=True)), permutations=40)
    assert found.lic_m.ci_low <= found.lic_m.null_mean <= found.lic_m.ci_high
    assert found.lic_m.p_value > 0.05
    assert found.accuracy.ci_low <= 50 <= found.accuracy.ci_high


def test_references_are_read_in_the_captioners_words_and_lic_is_a_difference_on_the_same_images():
    captions, labels = planted(600, "zork", 0.9)
    plain, _ = planted(600, "zork", 0.0, seed=3)
    references = {i: [f"{text} quux", text] for i, text in plain.items() if i < 400}
    found = measure_lic(captions, labels, references, seeds=(0, 12, 100), permutations=0)
    assert found.lic_d.value < found.lic_m.value
    assert found.lic.value == pytest.approx(
        found.runs.query("side == 'model on images with references'")["value"].mean() * 100
        - found.runs.query("side == 'references'")["value"].mean() * 100
    )
    assert found.lic.n == 400
    assert any("400 of 600" in note for note in found.notes)
    assert found.runs.query("side == 'references'")["caption"].nunique() == 2


def test_cross_fitting_tests_every_caption_and_narrows_the_interval():
    captions, labels = planted(1500, "zork", 0.3)
    splits = measure_lic(captions, labels, seeds=(0, 12, 100, 200, 300), permutations=0)
    folds = measure_lic(captions, labels, seeds=(0,), folds=10, permutations=0)
    assert len(folds.runs) == 10
    width = [e.ci_high - e.ci_low for e in (splits.lic_m, folds.lic_m)]
    assert folds.lic_m.value == pytest.approx(splits.lic_m.value, abs=sum(width))
    assert width[1] < width[0]
    assert folds.lic_m.n == folds.runs["split"].nunique() * 150  # every caption of the balanced set, once
    assert folds.lic_m.value == pytest.approx(100 * folds.runs["value"].mean(), abs=0.05)


def test_a_stopped_run_goes_on_from_what_was_kept(tmp_path, monkeypatch):
    pytest.importorskip("torch")
    from equipoise.models import caption_classifiers as made

    captions, labels = planted(200, "zork", 0.9)
    quick = LstmClassifier(LstmSettings(hidden=8, embedding=4, epochs=1, batch=16))
    calls = []
    real = made.lstm_probabilities
    monkeypatch.setattr(made, "lstm_probabilities", lambda *a: calls.append(1) or real(*a))
    options = {"classifier": quick, "permutations": 1, "store": tmp_path}
    first = measure_lic(captions, labels, seeds=(0, 12), **options)
    assert len(calls) == 3
    assert len(list(tmp_path.glob("*.json"))) == 3
    kept = set(json.loads(next(iter(tmp_path.glob("*.json"))).read_text()))
    assert kept == {"value", "accuracy", "auc", "scores"}
    assert set(first.per_caption["classifier"]) == {quick.id}
    assert 0 < first.per_caption["score"].notna().sum() < len(captions)
    for path in tmp_path.glob("*.json"):  # runs that were stored without the scores of their captions
        path.write_text(json.dumps({k: v for k, v in json.loads(path.read_text()).items() if k != "scores"}))
    stored = measure_lic(captions, labels, seeds=(0, 12), **options)
    assert len(calls) == 3
    assert set(stored.per_caption["classifier"]) == {"fast"}
    again = measure_lic(captions, labels, seeds=(0, 12), **options)
    assert len(calls) == 3
    assert again.runs.equals(first.runs)
    measure_lic(captions, labels, seeds=(0, 12, 100), **options)
    assert len(calls) == 4


@pytest.mark.parametrize(
    ("name", "options", "sentence"),
    [
        ("fast", {"epochs": 3}, "'fast' has no setting 'epochs'; it takes none"),
        ("lstm", {"device": "cuda"}, "'lstm' has no setting 'device'; it takes embedding, hidden, epochs"),
        ("bert", {"frozen": True}, "'bert' has no setting 'frozen'; it takes device, rate"),
        ("lstm:my-encoder", {}, "lstm reads no text encoder"),
        (classifier("fast"), {"epochs": 3}, r"made already \(FastClassifier\) has no setting 'epochs'"),
    ],
)
def test_what_a_classifier_does_not_read_is_refused(name, options, sentence):
    with pytest.raises(InputError, match=sentence):
        classifier(name, **options)


def test_a_small_group_and_strange_names_are_refused_with_a_sentence():
    captions, labels = planted(100, "zork", 0.5)
    few = {i: "female" if i < 3 else "male" for i in labels}
    with pytest.raises(InputError, match="too few captions to split: 3, need 20"):
        measure_lic(captions, few)
    with pytest.raises(InputError, match="no caption has a label"):
        measure_lic(captions, {"other": "male"})
    with pytest.raises(InputError, match="no image of the captions has references"):
        measure_lic(captions, labels, {"other": ["a"]}, permutations=0, seeds=(0,))
    with pytest.raises(UnknownNameError, match="did you mean"):
        classifier("lstn")
    with pytest.raises(InputError, match="precision='half'"):
        LstmSettings(precision="half")
    assert set(CLASSIFIERS) == {"fast", "lstm", "bert", "bert-frozen"}
