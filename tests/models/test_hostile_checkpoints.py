"""Hostile checkpoints through every loader: nothing runs, nothing outside is read, each ends in one sentence."""

from __future__ import annotations

import builtins
import contextlib
import importlib.util
import re
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

from equipoise.errors import InputError, MissingExtraError
from equipoise.models import convert, folders, load
from equipoise.models.diffusers import folders as pipeline_folders
from equipoise.models.diffusers import generator
from equipoise.models.hf import captioners as hf_captioners
from equipoise.models.hf import checkpoint, detectors, revisers
from equipoise.models.trust import check_folder

SOURCE = Path(folders.__file__).parents[1]


def _hostile() -> ModuleType:
    spec = importlib.util.spec_from_file_location("hostile_checkpoints", Path(__file__).with_name("hostile.py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


hostile = _hostile()


@pytest.fixture
def beside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder beside the checkpoint. After the test: no code ran, and no one was asked whether it may."""
    asked: list[str] = []

    def ask(*words: Any) -> str:
        asked.append(str(words))
        return "yes"

    monkeypatch.setattr(builtins, "input", ask)
    place = tmp_path / "beside"
    place.mkdir()
    yield place
    assert not (place / "ran").exists(), "code of the checkpoint was run"
    assert not asked, "someone was asked whether to run code"


def refused(call: Callable[[], Any]) -> str:
    """The sentence that ``call`` ends in, soon."""
    start = time.monotonic()
    with pytest.raises(InputError) as caught:
        call()
    assert time.monotonic() - start < 60, "it should take a fraction of a second"
    assert not isinstance(caught.value, MissingExtraError)
    sentence = str(caught.value)
    assert len(sentence) < 1500
    return sentence


def unseen(*_: Any, **__: Any) -> Any:
    raise AssertionError("another library was given the checkpoint")


@pytest.mark.parametrize("kind", sorted(hostile.KINDS))
def test_refused_before_transformers_sees_it(
    kind: str,
    tmp_path: Path,
    beside: Path,
    tiny_checkpoint: Callable[[str], Path],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    folder = Path(shutil.copytree(tiny_checkpoint("clip"), tmp_path / "model"))
    hostile.KINDS[kind](folder, beside)
    for module in (checkpoint, detectors, hf_captioners, revisers):
        monkeypatch.setattr(module, "from_transformers", unseen)
    refused(lambda: load(f"hf:{folder}"))


def test_there_are_at_least_forty_kinds() -> None:
    assert len(hostile.KINDS) + len(hostile.PRODUCTS) > 60


@pytest.mark.parametrize("kind", sorted(hostile.PRODUCTS))
def test_models_larger_than_their_weights_are_not_built(
    kind: str, tmp_path: Path, beside: Path, tiny_checkpoint: Callable[[str], Path]
) -> None:
    folder = Path(shutil.copytree(tiny_checkpoint("clip"), tmp_path / "model"))
    hostile.PRODUCTS[kind](folder, beside)
    assert re.search("the weights hold|no more than|cannot be loaded", refused(lambda: load(f"hf:{folder}")))


@pytest.mark.parametrize("seed", range(12))
def test_settings_of_the_wrong_type_end_in_a_sentence(
    seed: int, tmp_path: Path, beside: Path, tiny_checkpoint: Callable[[str], Path], pictures: list[Any]
) -> None:
    _fuzzed(seed, tmp_path, beside, tiny_checkpoint("clip"))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(12, 100))
def test_more_settings_of_the_wrong_type(
    seed: int, tmp_path: Path, beside: Path, tiny_checkpoint: Callable[[str], Path]
) -> None:
    family = ("clip", "siglip", "blip", "vision-text-dual-encoder")[seed % 4]
    _fuzzed(seed, tmp_path, beside, tiny_checkpoint(family))


def _fuzzed(seed: int, tmp_path: Path, beside: Path, source: Path) -> None:
    folder = Path(shutil.copytree(source, tmp_path / "model"))
    hostile.fuzzed(seed)(folder, beside)
    start = time.monotonic()
    with contextlib.suppress(InputError):  # some of it harms no one; whatever else is raised fails the test
        load(f"hf:{folder}")
    assert time.monotonic() - start < 60


def test_a_harmless_checkpoint_still_loads_through_a_hub_cache(
    tmp_path: Path, tiny_checkpoint: Callable[[str], Path]
) -> None:
    home = tmp_path / "models--somebody--clip"
    (home / "blobs").mkdir(parents=True)
    snapshot = home / "snapshots" / "abc"
    snapshot.mkdir(parents=True)
    for number, path in enumerate(sorted(tiny_checkpoint("clip").iterdir())):
        shutil.copy(path, home / "blobs" / str(number))
        (snapshot / path.name).symlink_to(f"../../blobs/{number}")
    check_folder(snapshot)
    assert folders.open_checkpoint(snapshot).model_type == "clip"
    (home / "blobs").rename(tmp_path / "elsewhere")
    (home / "blobs").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(InputError, match="leads out of"):
        check_folder(snapshot)


def test_links_inside_the_folder_and_leftovers_are_fine(tmp_path: Path, tiny_checkpoint: Callable[[str], Path]) -> None:
    folder = Path(shutil.copytree(tiny_checkpoint("clip"), tmp_path / "model"))
    (folder / "other.safetensors").symlink_to("model.safetensors")
    (folder / "itself").symlink_to(".")
    (folder / ".git").mkdir()
    (folder / ".git" / "link").symlink_to("/")
    (folder / "training_args.bin").write_bytes(b"a pickle that no one opens")
    (folder / "modeling_evil.py").write_text("raise SystemExit")
    hostile.said("tokenizer_config.json", vocab_file="/home/someone/else/vocab.json", name_or_path="x")(folder, folder)
    hostile.said("config.json", auto_map={})(folder, folder)
    check_folder(folder)
    assert folders.open_checkpoint(folder).weights == (folder / "model.safetensors",)
    (tmp_path / "link").symlink_to(folder)
    check_folder(tmp_path / "link")


def test_what_loads_today_is_within_the_bounds(tiny_checkpoint: Callable[[str], Path]) -> None:
    for name in ("clip-base-patch32", "siglip-so400m"):  # real sizes of the largest encoders in common use
        from equipoise.models.trust import OnDisk, check_sizes

        config = {
            "clip-base-patch32": {"text_config": {"num_hidden_layers": 12, "vocab_size": 49408, "eos_token_id": 49407}},
            "siglip-so400m": {"vision_config": {"num_hidden_layers": 27, "image_size": 384, "intermediate_size": 4304}},
        }[name]
        check_sizes(Path("config.json"), config, OnDisk(400, 150_000_000))
    for family in ("clip", "siglip2", "align", "groupvit"):
        folders.open_checkpoint(tiny_checkpoint(family))


# --- diffusers ------------------------------------------------------------------------------------------------------

PIPELINES = {
    "a part of its own": lambda f, b: (
        (f / "evil.py").write_text(f"import os\nos.mkdir({str(b / 'ran')!r})\n"),
        hostile.said("model_index.json", unet=["evil", "Evil"])(f, b),
    ),
    "a pipeline of its own": hostile.said("model_index.json", _class_name=["evil", "Pipeline"]),
    "a part outside": hostile.said("model_index.json", **{"../beside": ["diffusers", "UNet2DConditionModel"]}),
    "a part that is none": hostile.said("model_index.json", unet=[]),
    "a part of numbers": hostile.said("model_index.json", unet=[1, 2]),
    "code in the index": hostile.code_in("model_index.json"),
    "code in a text encoder": hostile.code_in("text_encoder/config.json"),
    "code in a tokenizer": hostile.code_in("tokenizer/tokenizer_config.json"),
    "code in a scheduler": hostile.code_in("scheduler/scheduler_config.json"),
    "code in a unet": hostile.code_in("unet/config.json"),
    "weights elsewhere": hostile.linked("unet/diffusion_pytorch_model.safetensors", "{beside}/outside"),
    "an index out of the folder": hostile.indexed(
        "../../beside/outside.safetensors", "unet/diffusion_pytorch_model.safetensors"
    ),
    "an index to a pickle": hostile.indexed("weights.bin", "unet/diffusion_pytorch_model.safetensors"),
    "a pickle": hostile.pickled("unet/diffusion_pytorch_model.bin", instead="unet/diffusion_pytorch_model.safetensors"),
    "a pickle for words": hostile.pickled("text_encoder/pytorch_model.bin", instead="text_encoder/model.safetensors"),
    "layers": hostile.said("unet/config.json", layers_per_block=10**7),
    "blocks": hostile.said("unet/config.json", down_block_types=["DownBlock2D"] * 100_000),
    "steps": hostile.said("scheduler/scheduler_config.json", num_train_timesteps=10**9),
    "layers of text": hostile.said("text_encoder/config.json", num_hidden_layers=10**7),
    "an index that is a list": hostile.written("model_index.json", b"[]"),
    "a pipe": hostile.piped("scheduler/scheduler_config.json"),
}
LARGE_PIPELINES = {
    "channels": hostile.said("unet/config.json", block_out_channels=[10**6, 10**6]),
    "words": hostile.said("text_encoder/config.json", vocab_size=10**9),
    "wrong types": hostile.said("vae/config.json", block_out_channels="many"),
}


@pytest.fixture(scope="module")
def pipeline() -> Path:
    pytest.importorskip("diffusers")
    folder = SOURCE / "models" / "mini" / "diffusion"
    if not (folder / "model_index.json").is_file():
        pytest.skip("the miniature is not packaged here")
    return folder


@pytest.mark.parametrize("kind", sorted(PIPELINES))
def test_pipelines_are_refused_before_diffusers_sees_them(
    kind: str, pipeline: Path, tmp_path: Path, beside: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = Path(shutil.copytree(pipeline, tmp_path / "model"))
    PIPELINES[kind](folder, beside)
    monkeypatch.setattr(pipeline_folders, "loaded", unseen)
    monkeypatch.setattr(generator, "loaded", unseen)
    refused(lambda: load(f"diffusers:{folder}", kind="generator"))


@pytest.mark.parametrize("kind", sorted(LARGE_PIPELINES))
def test_pipelines_larger_than_their_weights_are_not_built(
    kind: str, pipeline: Path, tmp_path: Path, beside: Path
) -> None:
    folder = Path(shutil.copytree(pipeline, tmp_path / "model"))
    LARGE_PIPELINES[kind](folder, beside)
    refused(lambda: load(f"diffusers:{folder}", kind="generator"))


# --- OpenCLIP: refused before the library is asked for, so that it need not be installed -----------------------------

OPEN_CLIP = {
    "code": hostile.code_in("config.json"),
    "code in its settings": hostile.code_in("open_clip_config.json"),
    "a model elsewhere": hostile.said("open_clip_config.json", "model_cfg", "text_cfg", hf_model_name="/elsewhere"),
    "a model above": hostile.said("open_clip_config.json", "model_cfg", "text_cfg", hf_tokenizer_name="../elsewhere"),
    "a model of timm elsewhere": hostile.said(
        "open_clip_config.json", "model_cfg", "vision_cfg", timm_model_name="local-dir:/elsewhere"
    ),
    "layers": hostile.said("open_clip_config.json", "model_cfg", "text_cfg", layers=10**7),
    "width": hostile.said("open_clip_config.json", "model_cfg", "vision_cfg", width=10**6),
    "words": hostile.said("open_clip_config.json", "model_cfg", "text_cfg", vocab_size=10**9),
    "a text for a width": hostile.said("open_clip_config.json", "model_cfg", "text_cfg", width="wide"),
    "weights elsewhere": hostile.linked("open_clip_model.safetensors", "{beside}/outside"),
    "a pickle": hostile.pickled("open_clip_pytorch_model.bin", instead="open_clip_model.safetensors"),
    "no settings": lambda f, b: (f / "open_clip_config.json").unlink(),
}


@pytest.mark.parametrize("kind", sorted(OPEN_CLIP))
def test_open_clip_folders_are_refused(
    kind: str, tmp_path: Path, beside: Path, tiny_checkpoint: Callable[[str], Path]
) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    shutil.copy(tiny_checkpoint("clip") / "model.safetensors", folder / "open_clip_model.safetensors")
    tower = {"width": 16, "layers": 2}
    harmless = {"model_cfg": {"embed_dim": 16, "vision_cfg": {**tower, "image_size": 32}}}
    harmless["model_cfg"]["text_cfg"] = {**tower, "vocab_size": 49408, "context_length": 77}  # type: ignore[dict-item]
    hostile.said("open_clip_config.json", **harmless)(folder, beside)
    from equipoise.models.open_clip_encoder import check_local

    check_local(folder, allow_pickle=False)
    OPEN_CLIP[kind](folder, beside)
    refused(lambda: load(f"open_clip:local-dir:{folder}"))


# --- converters -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "spoil", [hostile.code_in("tokenizer_config.json"), hostile.linked("tokenizer.json", "{beside}/outside")]
)
def test_a_converters_tokenizer_is_checked(
    spoil: Any, tmp_path: Path, beside: Path, tiny_checkpoint: Callable[[str], Path]
) -> None:
    folder = Path(shutil.copytree(tiny_checkpoint("clip"), tmp_path / "model"))
    spoil(folder, beside)
    source = tiny_checkpoint("clip") / "model.safetensors"
    refused(lambda: convert.alip(source, tmp_path / "out", tokenizer=folder))


def test_a_converters_models_are_checked(
    tmp_path: Path, beside: Path, tiny_checkpoint: Callable[[str], Path], clipcap_folder: Path
) -> None:
    from safetensors.torch import save_file
    from torch import zeros

    save_file({"tokens": zeros(2, 16)}, tmp_path / "tokens.safetensors")
    for number, kind in enumerate(("code in config.json", "a layer for everyone", "weights elsewhere")):
        folder = Path(shutil.copytree(tiny_checkpoint("clip"), tmp_path / f"model{number}"))
        hostile.KINDS[kind](folder, beside)
        refused(lambda: convert.debias_clip(tmp_path / "tokens.safetensors", tmp_path / "out", clip=folder))  # noqa: B023
    gpt = Path(shutil.copytree(clipcap_folder / "gpt2", tmp_path / "gpt2"))
    hostile.said("config.json", vocab_size=10**9)(gpt, beside)
    save_file({"clip_project.weight": zeros(32, 16), "clip_project.bias": zeros(32)}, tmp_path / "cap.safetensors")
    refused(
        lambda: convert.clipcap(tmp_path / "cap.safetensors", tmp_path / "out", clip=tiny_checkpoint("clip"), gpt2=gpt)
    )


@pytest.mark.parametrize("kind", ["layers", "width", "shapes"])
def test_a_converters_weights_are_checked(
    kind: str, tmp_path: Path, beside: Path, tiny_checkpoint: Callable[[str], Path]
) -> None:
    from safetensors.torch import save_file
    from torch import zeros

    words = len(tokenizer_of(tiny_checkpoint("clip")))
    block = {
        f"{part}.{name}.{what}": zeros(*shape)
        for part in ("transformer.resblocks.0", "visual.transformer.resblocks.0")
        for name, sides in {"attn.in_proj": (48, 16), "attn.out_proj": (16, 16), "ln_1": (16,), "ln_2": (16,)}.items()
        for what, shape in (("weight", sides), ("bias", sides[:1]))
        if name.startswith("ln") or "in_proj" not in name
    }
    for part in ("transformer.resblocks.0", "visual.transformer.resblocks.0"):
        block |= {f"{part}.attn.in_proj_weight": zeros(48, 16), f"{part}.attn.in_proj_bias": zeros(48)}
        block |= {f"{part}.mlp.c_fc.weight": zeros(64, 16), f"{part}.mlp.c_fc.bias": zeros(64)}
        block |= {f"{part}.mlp.c_proj.weight": zeros(16, 64), f"{part}.mlp.c_proj.bias": zeros(16)}
    state = block | {
        "token_embedding.weight": zeros(words, 16),
        "positional_embedding": zeros(12, 16),
        "ln_final.weight": zeros(16),
        "ln_final.bias": zeros(16),
        "text_projection": zeros(16, 16),
        "logit_scale": zeros(()),
        "visual.conv1.weight": zeros(16, 3, 8, 8),
        "visual.class_embedding": zeros(16),
        "visual.positional_embedding": zeros(17, 16),
        "visual.proj": zeros(16, 16),
        **{f"visual.{n}.{w}": zeros(16) for n in ("ln_pre", "ln_post") for w in ("weight", "bias")},
    }
    save_file(state, tmp_path / "good.safetensors")
    convert.alip(tmp_path / "good.safetensors", tmp_path / "good", tokenizer=tiny_checkpoint("clip"))
    state |= {
        "layers": {"transformer.resblocks.9999999.ln_1.weight": zeros(16)},
        "width": {"visual.conv1.weight": zeros(200_000, 3, 1, 1)},
        "shapes": {"visual.conv1.weight": zeros(16), "visual.positional_embedding": zeros(())},
    }[kind]
    save_file(state, tmp_path / "bad.safetensors")
    refused(lambda: convert.alip(tmp_path / "bad.safetensors", tmp_path / "bad", tokenizer=tiny_checkpoint("clip")))


def tokenizer_of(folder: Path) -> Any:
    return checkpoint.tokenizer(folders.open_checkpoint(folder))


def test_parts_of_a_clipcap_are_checked(tmp_path: Path, beside: Path, clipcap_folder: Path) -> None:
    for number, spoil in enumerate(
        (
            hostile.code_in("gpt2/config.json"),
            hostile.said("gpt2/config.json", n_layer=10**7),
            hostile.said("gpt2/config.json", vocab_size=10**9),
            hostile.said("config.json", stop=""),
        )
    ):
        folder = Path(shutil.copytree(clipcap_folder, tmp_path / f"model{number}"))
        spoil(folder, beside)
        refused(lambda: load(f"hf:{folder}", kind="captioner"))  # noqa: B023


def test_every_call_of_another_librarys_loader_forbids_remote_code() -> None:
    """Outside the recipes, which load what they saved themselves, and the BERT of the caption audit."""
    calls = []
    for path in sorted(SOURCE.rglob("*.py")):
        if "recipes" in path.parts or path.name == "bert.py":
            continue
        text = path.read_text(encoding="utf-8")
        for match in re.finditer(r"\.from_pretrained\(|[^_]pipeline\(\"", text):
            call = text[match.start() : (text + "\n\n").index("\n\n", match.start())]
            calls.append((path.name, "trust_remote_code=False" in call))
    assert len(calls) >= 8
    assert all(safe for _, safe in calls), calls
