"""Early stopping ends at the model that was judged best: its weights and the means of its batch norms."""

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("safetensors")

from safetensors import safe_open  # noqa: E402
from safetensors.torch import load_file, save_file  # noqa: E402

from equipoise.train.loop import CHECKPOINT, Validation, run  # noqa: E402
from equipoise.train.schedule import Schedule  # noqa: E402

SCHEDULE = Schedule(steps=10, batch=8, rate=0.1, warmup=0, save_every=1)
LOOKS = {1: 3.0, 2: 1.0, 3: 2.0, 4: 2.5}
"""The validation loss after each step: the second is the best, and two more end the training."""


class Net(torch.nn.Module):
    """A net with batch norm, and a cache that grows and that no checkpoint holds."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.norm, self.last = torch.nn.BatchNorm1d(3), torch.nn.Linear(3, 1)
        self.register_buffer("cache", torch.zeros(1), persistent=False)

    def forward(self, inputs):
        self.cache = torch.zeros(len(self.cache) + 1)
        return self.last(self.norm(inputs))


def loss(model, step):
    inputs = torch.randn(8, 3, generator=torch.Generator().manual_seed(step)) + step
    return (model(inputs).squeeze(1) - inputs.sum(dim=1)).square().mean()


def trained(folder, **more):
    """The model that the training ends with, and what it was at each look of this process."""
    model, looks = Net(), {}

    def look(judged):
        done = int(judged.norm.num_batches_tracked)
        looks[done] = {name: value.clone() for name, value in judged.state_dict().items()}
        return LOOKS[done]

    course = run(model, loss, SCHEDULE, folder, None, validation=Validation(look, every=1, patience=2), **more)
    return model.state_dict(), looks, course


def same(one, other):
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


def test_the_buffers_are_those_of_the_model_that_was_judged_best(tmp_path):
    kept, looks, course = trained(tmp_path)
    assert (len(course.losses), course.best_step) == (4, 2)
    assert not torch.equal(looks[2]["norm.running_mean"], looks[4]["norm.running_mean"])
    assert kept["norm.num_batches_tracked"].dtype == torch.int64
    assert same(kept, looks[2])


@pytest.mark.parametrize("stop_at", [1, 2, 3, 4])
def test_a_stopped_run_ends_with_the_same_buffers(tmp_path, stop_at):
    _, looks, _ = trained(tmp_path / "straight")
    trained(tmp_path / "stopped", stop_at=stop_at)
    kept, later, course = trained(tmp_path / "stopped")
    assert sorted(later) == list(range(stop_at + 1, 5))
    assert (len(course.losses), course.best_step) == (4, 2)
    assert same(kept, looks[2])
    assert same(*(load_file(tmp_path / name / CHECKPOINT) for name in ("straight", "stopped")))


@pytest.mark.parametrize(("stop_at", "steps"), [(0, 0), (11, 10), (None, 10)])
def test_a_run_stops_where_it_is_told_and_no_later_than_its_schedule(tmp_path, stop_at, steps):
    assert len(run(Net(), loss, SCHEDULE, tmp_path, None, stop_at=stop_at).losses) == steps


def test_threads_are_given_back_when_training_ends_or_fails(tmp_path):
    seen, threads = set(), torch.get_num_threads()

    def failing(model, step):
        seen.add(torch.get_num_threads())
        if step == 1:
            raise ZeroDivisionError
        return loss(model, step)

    torch.set_num_threads(3)
    try:
        run(Net(), loss, SCHEDULE, tmp_path / "ends", None)
        assert torch.get_num_threads() == 3
        with pytest.raises(ZeroDivisionError):
            run(Net(), failing, SCHEDULE, tmp_path / "fails", None)
        assert (torch.get_num_threads(), seen) == (3, {1})
    finally:
        torch.set_num_threads(threads)


def test_a_checkpoint_without_the_best_buffers_goes_on(tmp_path):
    trained(tmp_path, stop_at=3)
    path = tmp_path / CHECKPOINT
    with safe_open(path, "pt") as file:
        about = file.metadata()
    held = load_file(path)
    buffers = {"best.norm.running_mean", "best.norm.running_var", "best.norm.num_batches_tracked"}
    assert {name for name in held if name.startswith("best.")} - buffers == {
        f"best.{name}" for name, _ in Net().named_parameters()
    }
    assert buffers <= held.keys()
    save_file({name: value for name, value in held.items() if name not in buffers}, path, metadata=about)
    kept, looks, _ = trained(tmp_path)
    assert torch.equal(kept["last.weight"], held["best.last.weight"])
    assert torch.equal(kept["norm.running_mean"], looks[4]["norm.running_mean"])
