"""The Gender Equalizer's losses: hand-worked values, plain loops, what is painted over, and a captioner that learns."""

import json
import math

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from PIL import Image  # noqa: E402

from equipoise.errors import InputError  # noqa: E402
from equipoise.models import load  # noqa: E402
from equipoise.text import Lexicon  # noqa: E402
from equipoise.train import fit  # noqa: E402
from equipoise.train.losses.equalizer import Equalizer, group_tokens, without_people  # noqa: E402
from equipoise.train.processes import Processes  # noqa: E402
from equipoise.train.tasks.captioner import CaptionerTask  # noqa: E402

A, MAN, BOY, WOMAN, DOG = range(5)
GROUPS = [[MAN, BOY], [WOMAN]]


def logits_of(*rows):
    """(1, t, vocabulary) logits whose softmax is what the rows say."""
    return torch.tensor([rows], dtype=torch.float64).log()


class Half(Processes):
    """One of two processes: sums over the batch are known beforehand."""

    def __init__(self, totals):
        super().__init__()
        self.totals = iter(totals)

    def total(self, value):
        return next(self.totals)


def test_the_loss_is_the_one_worked_out_by_hand():
    """Caption "a man", then "a dog" of a picture without people.

    "a man": whole picture p(man) + p(boy) = .5, p(woman) = .2; without the person .3 and .4.
    confidence: .2 / .5 = .4, over two captions .2. confusion: |.3 - .4| = .1, over the one caption with people .1.
    Whole pictures: "a" has p .8, "man" .4, "a" .5, "dog" .25: mean of -log = (.2231 + .9163 + .6931 + 1.3863) / 4.
    Without people, words that name no group: "a" of the first caption alone, p .5.
    """
    whole = torch.cat(
        [
            logits_of([0.8, 0.05, 0.05, 0.05, 0.05], [0.2, 0.4, 0.1, 0.2, 0.1]),
            logits_of([0.5, 0.1, 0.1, 0.1, 0.2], [0.25, 0.2, 0.1, 0.2, 0.25]),
        ]
    )
    hidden = torch.cat(
        [
            logits_of([0.5, 0.2, 0.1, 0.1, 0.1], [0.2, 0.2, 0.1, 0.4, 0.1]),
            logits_of([0.9, 0.025, 0.025, 0.025, 0.025], [0.2, 0.2, 0.2, 0.2, 0.2]),
        ]
    )
    wanted = torch.tensor([[A, MAN], [A, DOG]])
    there = torch.ones_like(wanted)
    peopled = torch.tensor([True, False])
    found = Equalizer(GROUPS, (10.0, 1.0, 1.0), epsilon=0.0).loss(whole, hidden, wanted, there, peopled, Processes())
    words = -(math.log(0.8) + math.log(0.4) + math.log(0.5) + math.log(0.25)) / 4
    assert float(found) == pytest.approx(words + 0.2 + 10 * 0.1 - math.log(0.5), abs=1e-6)
    plain = Equalizer(GROUPS, (0.0, 0.0, 0.0)).loss(whole, hidden, wanted, there, peopled, Processes())
    assert float(plain) == pytest.approx(words, abs=1e-6)


@pytest.mark.parametrize("groups", [GROUPS, [[MAN], [BOY], [WOMAN]]])
def test_the_loss_is_that_of_plain_loops_and_processes_add_up(groups):
    rng = np.random.default_rng(3)
    n, length, weights, epsilon = 6, 7, (10.0, 2.0, 0.5), 1e-3
    whole, hidden = (torch.tensor(rng.normal(size=(n, length, 5))) for _ in range(2))
    wanted = torch.tensor(rng.integers(0, 5, size=(n, length)))
    there = torch.tensor([[int(t < 3 + i % 5) for t in range(length)] for i in range(n)])
    peopled = torch.tensor([i % 3 != 0 for i in range(n)])

    def p_of(logits, i, t):
        e = [math.exp(float(v)) for v in logits[i, t]]
        return [v / sum(e) for v in e]

    parts = {"words": [], "blind": [], "sure": 0.0, "confused": 0.0}
    for i in range(n):
        for t in range(length):
            if not there[i, t]:
                continue
            token, seen, unseen = int(wanted[i, t]), p_of(whole, i, t), p_of(hidden, i, t)
            parts["words"].append(-math.log(seen[token]))
            own = next((g for g, tokens in enumerate(groups) if token in tokens), None)
            if own is None and peopled[i]:
                parts["blind"].append(-math.log(unseen[token]))
            if own is None:
                continue
            shares = [sum(seen[token] for token in tokens) for tokens in groups]
            parts["sure"] += (sum(shares) - shares[own]) / (shares[own] + epsilon)
            if peopled[i]:
                blind = [sum(unseen[token] for token in tokens) for tokens in groups]
                gaps = [abs(a - b) for place, a in enumerate(blind) for b in blind[place + 1 :]]
                parts["confused"] += sum(gaps) / len(gaps)
    expected = (
        np.mean(parts["words"])
        + weights[0] * parts["confused"] / int(peopled.sum())
        + weights[1] * parts["sure"] / n
        + weights[2] * np.mean(parts["blind"])
    )
    how = Equalizer(groups, weights, epsilon)
    assert float(how.loss(whole, hidden, wanted, there, peopled, Processes())) == pytest.approx(expected, rel=1e-6)
    totals = [float(n), float(peopled.sum()), float(len(parts["words"])), float(len(parts["blind"]))]
    shares = [
        how.loss(whole[rows], hidden[rows], wanted[rows], there[rows], peopled[rows], Half(totals))
        for rows in (slice(0, 2), slice(2, 6))
    ]
    assert float(sum(shares)) == pytest.approx(expected, rel=1e-6)


def test_tokens_of_a_group_are_whole_words():
    class Words:
        unk_token_id = 99

        def __init__(self, **vocab):
            self.vocab = vocab

        def __call__(self, text, add_special_tokens=False):
            return {"input_ids": [i for word in text.split() for i in self.cut(word)]}

        def cut(self, word):
            return [self.vocab[word]] if word in self.vocab else [7, 8] if word == "firemen" else [99]

    lexicon = Lexicon.load("equipoise")
    found = dict(zip(lexicon.groups, group_tokens(Words(a=0, man=1, Man=2, woman=3), lexicon), strict=True))
    assert found == {"male": [1, 2], "female": [3]}
    with pytest.raises(InputError, match="no single token for any word of the group 'female'"):
        group_tokens(Words(a=0, man=1), lexicon)


def test_people_are_painted_over_by_mask_or_box():
    image = Image.new("RGB", (4, 2), "white")
    mask = {"size": [2, 4], "counts": [2, 2, 4]}
    painted = without_people(image, json.dumps([{"mask": mask, "box": [0, 0, 4, 2]}]), (1, 2, 3))
    assert np.argwhere((np.asarray(painted) == (1, 2, 3)).all(axis=2)).tolist() == [[0, 1], [1, 1]]
    boxed = without_people(image, json.dumps([{"box": [0.5, 0, 0.5, 0.5], "unit": "fraction"}]), (1, 2, 3))
    assert np.argwhere((np.asarray(boxed) == (1, 2, 3)).all(axis=2)).tolist() == [[0, 2], [0, 3]]
    assert without_people(image, None, (1, 2, 3)) is None


def test_a_captioner_learns_by_it_and_the_loss_falls(world_sets, tmp_path):
    how = {"batch": 8, "rate": 1e-3, "val_share": 0.0, "device": "cpu", "quiet": True, "steps": 4}
    options = {"caption": "captions", "loss": "equalizer"}
    done = fit("captioner", world_sets, tmp_path / "e", init="mini:captioner", options=options, **how)
    assert done.steps == 4
    losses = [float(line.split(",")[1]) for line in (tmp_path / "e/losses.csv").read_text().splitlines()[1:]]
    assert np.mean(losses[-2:]) < np.mean(losses[:2])
    picture = next(iter(world_sets.images()))[1]
    assert load(f"hf:{done.folder}", kind="captioner", device="cpu").caption([picture])[0]


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"loss": "equaliser"}, "learns by plain or by equalizer|equaliser"),
        ({"loss": "equalizer", "weights": [1.0, 2.0]}, "give three, none below 0"),
        ({"loss": "equalizer", "weights": [1.0, -2.0, 1.0]}, "give three, none below 0"),
        ({"weights": [1.0, 1.0, 1.0]}, "options of loss=equalizer"),
    ],
)
def test_wrong_options_are_one_sentence(options, told):
    with pytest.raises(InputError, match=told):
        CaptionerTask(**options)
