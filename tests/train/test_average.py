"""The running average of a model's weights: what batch normalisation keeps is averaged with them."""

import pytest

torch = pytest.importorskip("torch")

from equipoise.train.loop import CHECKPOINT, Average, Course, Validation, optimiser_of, restore, run  # noqa: E402
from equipoise.train.schedule import Schedule  # noqa: E402


def normalised(seed=0):
    torch.manual_seed(seed)
    return torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4), torch.nn.Linear(4, 1))


def drifting(model, step):
    """A loss whose inputs move on from step to step, so that what the last one shows is not what most have shown."""
    shown = torch.randn(16, 3, generator=torch.Generator().manual_seed(step)) + step
    return (model(shown) - 1).square().mean()


def test_an_averaged_model_has_averaged_statistics_of_batches(tmp_path):
    schedule = Schedule(steps=20, batch=16, rate=0.01, average=0.9, save_every=5)
    model, states = normalised(), []
    means = {name: value.clone() for name, value in model.state_dict().items()}

    def follow(done):
        states.append({name: value.clone() for name, value in model.state_dict().items()})

    run(model, drifting, schedule, tmp_path / "whole", None, after=follow)
    for step, state in enumerate(states):
        keep = min(0.9, (1 + step) / (10 + step))
        means = {name: keep * mean + (1 - keep) * state[name] for name, mean in means.items()}
    ends = model.state_dict()
    for name in ("1.running_mean", "1.running_var", "0.weight"):
        assert torch.allclose(ends[name], means[name], rtol=1e-4), name
    assert not torch.allclose(ends["1.running_mean"], states[-1]["1.running_mean"], rtol=0.05)
    assert int(ends["1.num_batches_tracked"]) == 20  # a count, not a weight

    stopped = normalised()
    run(stopped, drifting, schedule, tmp_path / "parts", None, stop_at=10)
    again = normalised(seed=1)
    run(again, drifting, schedule, tmp_path / "parts", None)
    assert all(torch.equal(value, ends[name]) for name, value in again.state_dict().items())


def test_a_checkpoint_without_averages_of_buffers_goes_on_from_the_buffers(tmp_path):
    from safetensors import safe_open
    from safetensors.torch import load_file, save_file

    schedule = Schedule(steps=20, batch=16, rate=0.01, average=0.9, save_every=5)
    model = normalised()
    run(model, drifting, schedule, tmp_path, None, stop_at=10)
    with safe_open(tmp_path / CHECKPOINT, "pt") as file:
        about = file.metadata()
    tensors = load_file(tmp_path / CHECKPOINT)
    old = {name: value for name, value in tensors.items() if not name.startswith("average.1.running")}
    assert len(old) == len(tensors) - 2
    save_file(old, tmp_path / CHECKPOINT, metadata=about)
    again = normalised(seed=1)
    average = Average(again, 0.9)
    optimiser = optimiser_of(list(again.parameters()), schedule)
    assert restore(again, optimiser, average, Course(), (tmp_path / CHECKPOINT).read_bytes()) == 10
    assert torch.equal(average.means["1.running_mean"], model.state_dict()["1.running_mean"])


def test_what_is_judged_is_what_is_kept(tmp_path):
    def loss(model):
        return (model(torch.ones(4, 3)) - 1).square().mean()

    schedule = Schedule(steps=20, batch=16, rate=0.01, average=0.9, save_every=5)
    model, plain = normalised(), normalised()
    course = run(model, drifting, schedule, tmp_path / "judged", None, validation=Validation(loss, every=4))
    run(plain, drifting, schedule, tmp_path / "plain", None)
    assert all(torch.equal(value, model.state_dict()[name]) for name, value in plain.state_dict().items())
    with torch.no_grad():
        assert course.judged[-1] == (20, pytest.approx(float(loss(model.eval()))))
