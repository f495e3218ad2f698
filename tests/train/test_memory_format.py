"""Training with channels last changes how tensors lie in memory and nothing else, before and after a stop."""

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")
pytest.importorskip("diffusers")

from equipoise.recipes.train_mini import diffusion  # noqa: E402
from equipoise.recipes.train_mini.tokenizer import LENGTH  # noqa: E402
from equipoise.train.loop import CHECKPOINT, Average, Course, optimiser_of, restore, save  # noqa: E402
from equipoise.train.schedule import Schedule  # noqa: E402


def test_a_resumed_optimiser_lies_in_memory_as_the_weights_do(tmp_path):
    def made():
        torch.manual_seed(0)
        model = torch.nn.Conv2d(4, 8, 3).to(memory_format=torch.channels_last)
        return model, optimiser_of(list(model.parameters()), Schedule(steps=4, batch=4))

    model, optimiser = made()
    model(torch.ones(2, 4, 5, 5)).square().sum().backward()
    optimiser.step()
    save(model, optimiser, Average(model, 0.9), Course(), 1, tmp_path)
    again, later = made()
    assert restore(again, later, Average(again, 0.9), Course(), (tmp_path / CHECKPOINT).read_bytes()) == 1
    before, after = optimiser.state[model.weight], later.state[again.weight]
    for name in ("exp_avg", "exp_avg_sq"):
        assert torch.equal(before[name], after[name])
        assert before[name].stride() == after[name].stride() == again.weight.stride()
    assert not after["exp_avg"].is_contiguous()


@pytest.mark.parametrize(("half", "attention"), [(False, "AttnProcessor2_0"), (True, "AttnProcessor")])
def test_a_unet_that_is_quick_to_train_gives_the_same_answers(half, attention):
    unet = diffusion.build_unet().eval()
    given, states = (torch.randn(2, 4, 16, 16), torch.tensor([3, 700])), torch.randn(2, LENGTH, diffusion.WIDTH)
    with torch.no_grad():
        before = unet(*given, encoder_hidden_states=states).sample
        quick = diffusion.quick_to_train(unet, half=half)
        after = quick(*given, encoder_hidden_states=states).sample
    assert torch.allclose(before, after, atol=1e-5)
    assert quick.conv_in.weight.is_contiguous(memory_format=torch.channels_last)
    assert {type(each).__name__ for each in quick.attn_processors.values()} == {attention}
