"""Converters, on random weights in the published key layouts, against the forward passes written out by hand."""

import argparse
import math

import numpy as np
import pytest
from PIL import Image

from equipoise.errors import InputError
from equipoise.models import check, convert, load

WIDTH, TEXT, OUT, LAYERS, PATCH, SIDE, CONTEXT = 64, 128, 24, 2, 8, 32, 12
HEADS = 4


def tensors(shapes, spread=0.3):
    import torch

    made = torch.Generator().manual_seed(5)
    state = {}
    for name, shape in shapes.items():
        values = torch.randn(shape, generator=made) * spread / math.sqrt(max(1, shape[-1] if shape else 1)) * 4
        state[name] = (
            1 + 0.1 * values if name.endswith(("1.weight", "2.weight", "norm.weight")) and len(shape) == 1 else values
        )
    state["logit_scale"] = torch.tensor(3.0)
    return state


def openai_blocks(prefix, width):
    for i in range(LAYERS):
        block = f"{prefix}{i}."
        yield from {
            f"{block}ln_1.weight": (width,),
            f"{block}ln_1.bias": (width,),
            f"{block}attn.in_proj_weight": (3 * width, width),
            f"{block}attn.in_proj_bias": (3 * width,),
            f"{block}attn.out_proj.weight": (width, width),
            f"{block}attn.out_proj.bias": (width,),
            f"{block}ln_2.weight": (width,),
            f"{block}ln_2.bias": (width,),
            f"{block}mlp.c_fc.weight": (4 * width, width),
            f"{block}mlp.c_fc.bias": (4 * width,),
            f"{block}mlp.c_proj.weight": (width, 4 * width),
            f"{block}mlp.c_proj.bias": (width,),
        }.items()


def text_shapes(vocabulary):
    return {
        "token_embedding.weight": (vocabulary, TEXT),
        "positional_embedding": (CONTEXT, TEXT),
        "ln_final.weight": (TEXT,),
        "ln_final.bias": (TEXT,),
        "text_projection": (TEXT, OUT),
        **dict(openai_blocks("transformer.resblocks.", TEXT)),
    }


def openai_state(vocabulary):
    """As OpenAI, OpenCLIP and ALIP save a ViT CLIP."""
    n = (SIDE // PATCH) ** 2 + 1
    return tensors(
        text_shapes(vocabulary)
        | {
            "visual.class_embedding": (WIDTH,),
            "visual.positional_embedding": (n, WIDTH),
            "visual.conv1.weight": (WIDTH, 3, PATCH, PATCH),
            "visual.ln_pre.weight": (WIDTH,),
            "visual.ln_pre.bias": (WIDTH,),
            "visual.ln_post.weight": (WIDTH,),
            "visual.ln_post.bias": (WIDTH,),
            "visual.proj": (WIDTH, OUT),
            **dict(openai_blocks("visual.transformer.resblocks.", WIDTH)),
        }
    )


def timm_state(vocabulary, *, head_norms):
    """As SLIP and, with norms of queries and keys, LaCLIP save theirs."""
    n = (SIDE // PATCH) ** 2 + 1
    shapes = text_shapes(vocabulary) | {
        "visual.cls_token": (1, 1, WIDTH),
        "visual.pos_embed": (1, n, WIDTH),
        "visual.patch_embed.proj.weight": (WIDTH, 3, PATCH, PATCH),
        "visual.patch_embed.proj.bias": (WIDTH,),
        "visual.norm.weight": (WIDTH,),
        "visual.norm.bias": (WIDTH,),
        "image_projection": (WIDTH, OUT),
    }
    for i in range(LAYERS):
        block = f"visual.blocks.{i}."
        shapes |= {
            f"{block}norm1.weight": (WIDTH,),
            f"{block}norm1.bias": (WIDTH,),
            f"{block}attn.qkv.weight": (3 * WIDTH, WIDTH),
            f"{block}attn.qkv.bias": (3 * WIDTH,),
            f"{block}attn.proj.weight": (WIDTH, WIDTH),
            f"{block}attn.proj.bias": (WIDTH,),
            f"{block}norm2.weight": (WIDTH,),
            f"{block}norm2.bias": (WIDTH,),
            f"{block}mlp.fc1.weight": (4 * WIDTH, WIDTH),
            f"{block}mlp.fc1.bias": (4 * WIDTH,),
            f"{block}mlp.fc2.weight": (WIDTH, 4 * WIDTH),
            f"{block}mlp.fc2.bias": (WIDTH,),
        }
        if head_norms:
            head = WIDTH // HEADS
            shapes |= {f"{block}attn.{x}_norm.{part}": (head,) for x in "qk" for part in ("weight", "bias")}
    return tensors(shapes)


def attention(x, weight, bias, heads, *, causal=False, norms=None):
    """Multi-head self-attention from fused projections, one head at a time."""
    import torch
    from torch.nn.functional import layer_norm

    q, k, v = (x @ weight.T + bias).chunk(3, dim=-1)
    size = q.shape[-1] // heads
    out = []
    for h in range(heads):
        part = slice(h * size, (h + 1) * size)
        query, key, value = q[..., part], k[..., part], v[..., part]
        if norms:
            query = layer_norm(query, (size,), norms["q_norm.weight"], norms["q_norm.bias"], 1e-6)
            key = layer_norm(key, (size,), norms["k_norm.weight"], norms["k_norm.bias"], 1e-6)
        scores = query @ key.transpose(-1, -2) / math.sqrt(size)
        if causal:
            scores = scores.masked_fill(torch.ones_like(scores).triu(1).bool(), -math.inf)
        out.append(scores.softmax(-1) @ value)
    return torch.cat(out, dim=-1)


def below(state, prefix):
    return {name.removeprefix(prefix): value for name, value in state.items() if name.startswith(prefix)}


def openai_layers(x, state, prefix, heads, act, *, causal):
    from torch.nn.functional import layer_norm

    for i in range(LAYERS):
        s = below(state, f"{prefix}{i}.")
        y = layer_norm(x, x.shape[-1:], s["ln_1.weight"], s["ln_1.bias"])
        y = attention(y, s["attn.in_proj_weight"], s["attn.in_proj_bias"], heads, causal=causal)
        x = x + y @ s["attn.out_proj.weight"].T + s["attn.out_proj.bias"]
        y = layer_norm(x, x.shape[-1:], s["ln_2.weight"], s["ln_2.bias"])
        y = act(y @ s["mlp.c_fc.weight"].T + s["mlp.c_fc.bias"])
        x = x + y @ s["mlp.c_proj.weight"].T + s["mlp.c_proj.bias"]
    return x


def quick(x):
    return x * (1.702 * x).sigmoid()


def plain(x):
    from torch.nn.functional import gelu

    return gelu(x)


def text_by_hand(state, ids, act, learned=None):
    """One text's vector: read at its highest token number, moved by the learned tokens before it."""
    import torch
    from torch.nn.functional import layer_norm

    ids = torch.tensor(ids)
    x = state["token_embedding.weight"][ids] + state["positional_embedding"][: len(ids)]
    place = int(ids.argmax())
    if learned is not None:
        x = torch.cat([learned, x])[:CONTEXT]
        place = min(place + len(learned), CONTEXT - 1)
    x = openai_layers(x, state, "transformer.resblocks.", TEXT // 64, act, causal=True)
    x = layer_norm(x, x.shape[-1:], state["ln_final.weight"], state["ln_final.bias"])
    return unit(x[place] @ state["text_projection"])


def openai_image(state, pixels, act):
    import torch
    from torch.nn.functional import conv2d, layer_norm

    x = conv2d(pixels, state["visual.conv1.weight"], stride=PATCH).flatten(2).transpose(1, 2)[0]
    x = torch.cat([state["visual.class_embedding"][None], x]) + state["visual.positional_embedding"]
    x = layer_norm(x, x.shape[-1:], state["visual.ln_pre.weight"], state["visual.ln_pre.bias"])
    x = openai_layers(x, state, "visual.transformer.resblocks.", 1, act, causal=False)
    x = layer_norm(x[0], x.shape[-1:], state["visual.ln_post.weight"], state["visual.ln_post.bias"])
    return unit(x @ state["visual.proj"])


def timm_image(state, pixels):
    import torch
    from torch.nn.functional import conv2d, layer_norm

    x = conv2d(pixels, state["visual.patch_embed.proj.weight"], state["visual.patch_embed.proj.bias"], stride=PATCH)
    x = torch.cat([state["visual.cls_token"][0], x.flatten(2).transpose(1, 2)[0]]) + state["visual.pos_embed"][0]
    for i in range(LAYERS):
        s = below(state, f"visual.blocks.{i}.")
        y = layer_norm(x, x.shape[-1:], s["norm1.weight"], s["norm1.bias"], 1e-6)
        norms = below(s, "attn.") if "attn.q_norm.weight" in s else None
        y = attention(y, s["attn.qkv.weight"], s["attn.qkv.bias"], HEADS, norms=norms)
        x = x + y @ s["attn.proj.weight"].T + s["attn.proj.bias"]
        y = layer_norm(x, x.shape[-1:], s["norm2.weight"], s["norm2.bias"], 1e-6)
        x = x + plain(y @ s["mlp.fc1.weight"].T + s["mlp.fc1.bias"]) @ s["mlp.fc2.weight"].T + s["mlp.fc2.bias"]
    x = layer_norm(x[0], x.shape[-1:], state["visual.norm.weight"], state["visual.norm.bias"], 1e-6)
    return unit(x @ state["image_projection"])


def unit(x):
    return (x / x.norm()).numpy()


def pixels_of(image, mean, std):
    """A square image of the right size needs only scaling and normalising."""
    import torch

    values = (np.asarray(image, dtype=np.float32) / 255 - np.float32(mean)) / np.float32(std)
    return torch.from_numpy(values.transpose(2, 0, 1)[None].copy())


IMAGENET = ([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])
OPENAI = ([0.48145466, 0.4578275, 0.40821073], [0.26862954, 0.26130258, 0.27577711])


@pytest.fixture(scope="module")
def words(tiny_checkpoint):
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(tiny_checkpoint("clip"))


@pytest.fixture(scope="module")
def squares():
    rng = np.random.default_rng(4)
    return [Image.fromarray(rng.integers(0, 255, (SIDE, SIDE, 3), dtype=np.uint8)) for _ in range(3)]


TEXTS = ["a photo of a doctor", "a nurse", "a man at the market with a hat"]


def saved(state, path, **around):
    import torch

    wrapped = {"state_dict": {f"module.{name}": value for name, value in state.items()}, "epoch": 3} | around
    torch.save(wrapped, path)
    return path


def agrees(encoder, words, squares, texts, images):
    made = encoder.encode_texts(TEXTS)
    np.testing.assert_allclose(made, [texts(words(text)["input_ids"]) for text in TEXTS], atol=2e-5)
    np.testing.assert_allclose(encoder.encode_images(squares), [images(image) for image in squares], atol=2e-5)
    assert encoder.logit_scale == pytest.approx(math.exp(3))
    report = check(encoder)
    assert report.ok, str(report)


def test_slip_becomes_a_stock_dual_encoder(tmp_path, tiny_checkpoint, words, squares):
    import torch

    state = timm_state(len(words), head_norms=False)
    extra = state | {"image_mlp.layer1.weight": torch.zeros(3, 3), "image_mlp.bn1.num_batches_tracked": torch.tensor(1)}
    source = saved(extra, tmp_path / "slip.pt", args=argparse.Namespace(model="SLIP_VITS16", ssl_mlp_dim=4096))
    folder = convert.slip(
        source, tmp_path / "slip", tokenizer=tiny_checkpoint("clip"), vision_heads=HEADS, allow_pickle=True
    )
    agrees(
        load(f"hf:{folder}"),
        words,
        squares,
        lambda ids: text_by_hand(state, ids, quick),
        lambda image: timm_image(state, pixels_of(image, *IMAGENET)),
    )
    from transformers import AutoModel

    assert type(AutoModel.from_pretrained(folder)).__name__ == "VisionTextDualEncoderModel"


def test_laclip_keeps_its_norms_of_queries_and_keys(tmp_path, tiny_checkpoint, words, squares):
    state = timm_state(len(words), head_norms=True)
    source = saved(state, tmp_path / "laclip.pt")
    folder = convert.laclip(source, tmp_path / "laclip", tokenizer=tiny_checkpoint("clip"), allow_pickle=True)
    agrees(
        load(f"hf:{folder}"),
        words,
        squares,
        lambda ids: text_by_hand(state, ids, quick),
        lambda image: timm_image(state, pixels_of(image, *IMAGENET)),
    )
    from transformers import AutoModel

    with pytest.raises(ValueError, match="laclip"):  # stock classes would drop the norms, so they must refuse
        AutoModel.from_pretrained(folder)


@pytest.mark.parametrize("form", ["alip", "laclip"])
def test_open_clip_layouts_become_a_stock_clip(form, tmp_path, tiny_checkpoint, words, squares):
    state = openai_state(len(words))
    source = saved(state, tmp_path / "weights.pt")
    folder = convert.CONVERTERS[form](source, tmp_path / form, tokenizer=tiny_checkpoint("clip"), allow_pickle=True)
    agrees(
        load(f"hf:{folder}"),
        words,
        squares,
        lambda ids: text_by_hand(state, ids, plain),
        lambda image: openai_image(state, pixels_of(image, *OPENAI), plain),
    )


def test_openai_weights_use_the_quick_activation(tmp_path, tiny_checkpoint, words, squares):
    from safetensors.torch import save_file

    state = openai_state(len(words))
    save_file(state, tmp_path / "clip.safetensors")
    folder = convert.openai_clip(tmp_path / "clip.safetensors", tmp_path / "clip", tokenizer=tiny_checkpoint("clip"))
    agrees(
        load(f"hf:{folder}"),
        words,
        squares,
        lambda ids: text_by_hand(state, ids, quick),
        lambda image: openai_image(state, pixels_of(image, *OPENAI), quick),
    )


@pytest.fixture(scope="module")
def clip_by_hand(tmp_path_factory, tiny_checkpoint, words):
    from safetensors.torch import save_file

    folder = tmp_path_factory.mktemp("base")
    state = openai_state(len(words))
    save_file(state, folder / "clip.safetensors")
    convert.openai_clip(folder / "clip.safetensors", folder / "clip", tokenizer=tiny_checkpoint("clip"))
    return folder / "clip", state


def test_debias_clip_puts_its_tokens_before_the_text(tmp_path, clip_by_hand, words, squares):
    import torch

    base, state = clip_by_hand
    learned = torch.randn(2, TEXT, generator=torch.Generator().manual_seed(1))
    torch.save(torch.nn.Parameter(learned), tmp_path / "tokens.pt")
    folder = convert.debias_clip(tmp_path / "tokens.pt", tmp_path / "debiased", clip=base, allow_pickle=True)
    encoder = load(f"hf:{folder}")
    agrees(
        encoder,
        words,
        squares,
        lambda ids: text_by_hand(state, ids, quick, learned),
        lambda image: openai_image(state, pixels_of(image, *OPENAI), quick),
    )
    assert encoder.context == CONTEXT - 2  # the end token still fits behind the learned ones
    plain_texts = load(f"hf:{base}").encode_texts(TEXTS)
    assert np.abs(encoder.encode_texts(TEXTS) - plain_texts).max() > 0.05


def test_tokens_of_another_width_are_refused(tmp_path, clip_by_hand, tiny_checkpoint):
    import torch
    from safetensors.torch import save_file

    save_file({"tokens": torch.zeros(2, 7)}, tmp_path / "tokens.safetensors")
    with pytest.raises(InputError, match=r"tokens of shape \(2, 7\); .* needs \(n, 128\)"):
        convert.debias_clip(tmp_path / "tokens.safetensors", tmp_path / "out", clip=clip_by_hand[0])
    with pytest.raises(InputError, match="a 'flava' model"):
        convert.debias_clip(tmp_path / "tokens.safetensors", tmp_path / "out", clip=tiny_checkpoint("flava"))


def test_a_conversion_appears_whole_and_replaces_nothing_else(tmp_path, clip_by_hand):
    import torch
    from safetensors.torch import save_file

    from equipoise.models.convert import converted

    for name, n in (("tokens", 2), ("others", 3)):
        save_file({"tokens": torch.ones(n, TEXT)}, tmp_path / f"{name}.safetensors")
    save_file({"tokens": torch.ones(2, 7)}, tmp_path / "wrong.safetensors")
    options = {"clip": clip_by_hand[0]}
    with pytest.raises(InputError, match="needs"):
        converted("debias-clip", tmp_path / "wrong.safetensors", tmp_path / "out", **options)
    assert not (tmp_path / "out").exists(), "nothing is left of what failed"
    for _ in range(2):
        folder = converted("debias-clip", tmp_path / "tokens.safetensors", tmp_path / "out", **options)
    assert load(f"hf:{folder}").encode_texts(["a"]).shape[0] == 1
    with pytest.raises(InputError, match="holds another conversion"):
        converted("debias-clip", tmp_path / "others.safetensors", tmp_path / "out", **options)
    converted("debias-clip", tmp_path / "others.safetensors", tmp_path / "out", overwrite=True, **options)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "config.json").write_text("{}")
    with pytest.raises(InputError, match="holds files but no"):
        converted("debias-clip", tmp_path / "tokens.safetensors", tmp_path / "mine", **options)
    assert (tmp_path / "mine" / "config.json").read_text() == "{}"


def test_other_layouts_are_refused_by_name(tmp_path, tiny_checkpoint, words):
    import torch

    tokenizer = tiny_checkpoint("clip")

    def refused(state, form="alip", **options):
        with pytest.raises(InputError) as error:
            convert.CONVERTERS[form](
                saved(state, tmp_path / "w.pt"), tmp_path / "out", tokenizer=tokenizer, allow_pickle=True, **options
            )
        return str(error.value)

    state = openai_state(len(words))
    assert "1 weights of another layout, such as 'logit_bias'" in refused(state | {"logit_bias": torch.zeros(1)})
    assert "has no 'ln_final.bias'" in refused({n: v for n, v in state.items() if n != "ln_final.bias"})
    assert "not a vision transformer" in refused({"visual.layer1.0.conv1.weight": torch.zeros(1)})
    small = timm_state(len(words), head_norms=False)
    assert "width 64: say how many attention heads" in refused(small, "slip")
    few = openai_state(len(words) + 1)
    assert "the tokenizer has" in refused(few)
    with pytest.raises(InputError, match="no such file"):
        convert.alip("no.pt", "out", tokenizer=tokenizer)


def transformer_mapper_by_hand(weights, vector, width):
    """Eight heads, pre-norm, ReLU; the rows that were learned are read."""
    import torch
    from torch.nn.functional import layer_norm

    x = torch.cat(
        [(weights["linear.weight"] @ vector + weights["linear.bias"]).reshape(-1, width), weights["prefix_const"]]
    )
    for i in range(2):
        s = below(weights, f"transformer.layers.{i}.")
        y = layer_norm(x, (width,), s["norm1.weight"], s["norm1.bias"])
        fused = torch.cat([s["attn.to_queries.weight"], s["attn.to_keys_values.weight"]])
        y = attention(y, fused, torch.zeros(3 * width), 8)
        x = x + y @ s["attn.project.weight"].T + s["attn.project.bias"]
        y = layer_norm(x, (width,), s["norm2.weight"], s["norm2.bias"])
        y = (y @ s["mlp.fc1.weight"].T + s["mlp.fc1.bias"]).relu()
        x = x + y @ s["mlp.fc2.weight"].T + s["mlp.fc2.bias"]
    return x[-len(weights["prefix_const"]) :]


def test_clipcaps_transformer_mapper_is_read_right():
    import torch

    from equipoise.models.hf.captioners import mapper

    width = 16
    shapes = {"linear.weight": (3 * width, 6), "linear.bias": (3 * width,), "prefix_const": (4, width)}
    for i in range(2):
        layer = f"transformer.layers.{i}."
        shapes |= {f"{layer}norm{k}.{part}": (width,) for k in (1, 2) for part in ("weight", "bias")}
        shapes |= {f"{layer}attn.to_queries.weight": (width, width), f"{layer}attn.project.bias": (width,)}
        shapes |= {
            f"{layer}attn.to_keys_values.weight": (2 * width, width),
            f"{layer}attn.project.weight": (width, width),
        }
        shapes |= {f"{layer}mlp.fc1.weight": (32, width), f"{layer}mlp.fc1.bias": (32,)}
        shapes |= {f"{layer}mlp.fc2.weight": (width, 32), f"{layer}mlp.fc2.bias": (width,)}
    weights = tensors(shapes)
    del weights["logit_scale"]
    vectors = torch.randn(3, 6)
    with torch.no_grad():
        made = mapper(weights, width)(vectors)
    for row, vector in zip(made, vectors, strict=True):
        np.testing.assert_allclose(row, transformer_mapper_by_hand(weights, vector, width), atol=1e-5)


def test_clipcaps_single_layer_mapper_is_read_right():
    import torch

    from equipoise.models.hf.captioners import mapper

    weights = tensors({"weight": (24, 5), "bias": (24,)})
    del weights["logit_scale"]
    vectors = torch.randn(2, 5)
    with torch.no_grad():
        made = mapper(weights, 8)(vectors)
    np.testing.assert_allclose(made, (vectors @ weights["weight"].T + weights["bias"]).reshape(2, 3, 8), atol=1e-6)
    with pytest.raises(InputError, match="another form than ClipCap's"):
        mapper({"strange": torch.zeros(2)}, 8)
