"""Captioners that are asked in a chat: the prompt is the one that the library's own chat call makes."""

import shutil
from pathlib import Path

import pytest
from tests.models.conftest import WORDS, lively

from equipoise.models import load

FORM = (
    "{{ bos_token }}{% for turn in messages %}USER: {% for part in turn['content'] %}{% if part['type'] == 'image' %}"
    "<image> {% else %}{{ part['text'] }} {% endif %}{% endfor %}{% endfor %}{% if add_generation_prompt %}ASSISTANT:"
    "{% endif %}"
)


@pytest.fixture(scope="module")
def llava_folder(tmp_path_factory):
    """A LLaVA whose tokenizer puts a start token before every text, and whose chat form writes it too."""
    import transformers as t
    from tokenizers import Tokenizer, models, pre_tokenizers, processors

    marks = ["<pad>", "<s>", "</s>", "<unk>", "<image>"]
    vocab = {word: i for i, word in enumerate([*marks, *WORDS, "Describe", "image", "USER", "ASSISTANT", ":", "."])}
    inner = Tokenizer(models.WordLevel(vocab, unk_token="<unk>"))
    inner.pre_tokenizer = pre_tokenizers.Whitespace()
    inner.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
    words = t.PreTrainedTokenizerFast(
        tokenizer_object=inner,
        pad_token="<pad>",
        bos_token="<s>",
        eos_token="</s>",
        unk_token="<unk>",
        additional_special_tokens=["<image>"],
        model_max_length=64,
    )
    layers = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2}
    config = t.LlavaConfig(
        vision_config=t.CLIPVisionConfig(**layers, image_size=32, patch_size=8, projection_dim=16),
        text_config=t.LlamaConfig(**layers, vocab_size=len(vocab), bos_token_id=1, eos_token_id=2, pad_token_id=0),
        image_token_id=4,
        image_seq_length=16,
    )
    pixels = t.CLIPImageProcessorPil(size={"shortest_edge": 32}, crop_size={"height": 32, "width": 32})
    processor = t.LlavaProcessor(
        image_processor=pixels,
        tokenizer=words,
        patch_size=8,
        vision_feature_select_strategy="default",
        chat_template=FORM,
        num_additional_image_tokens=1,
    )
    folder = tmp_path_factory.mktemp("llava")
    lively(t.LlavaForConditionalGeneration(config)).save_pretrained(folder)
    processor.save_pretrained(folder)
    return folder


def test_a_chat_begins_with_one_start_token_as_in_the_librarys_own_call(llava_folder, pictures, monkeypatch):
    captioner = load(f"hf:{llava_folder}", kind="captioner", max_new_tokens=5)
    model, processor = captioner.writer.model, captioner.writer.processor
    question = [
        {"type": "image", "image": pictures[0]},
        {"type": "text", "text": "Describe the image in one sentence."},
    ]
    inputs = processor.apply_chat_template(
        [{"role": "user", "content": question}],
        add_generation_prompt=True,
        tokenize=True,
        return_dict=True,
        return_tensors="pt",
    )
    ids = model.generate(**inputs, do_sample=False, max_new_tokens=5)[:, inputs["input_ids"].shape[1] :]
    given = []
    generate = model.generate
    monkeypatch.setattr(model, "generate", lambda **call: given.append(call) or generate(**call))
    assert captioner.caption(pictures[:1]) == [
        text.strip() for text in processor.batch_decode(ids, skip_special_tokens=True)
    ]
    assert given[0]["input_ids"].tolist() == inputs["input_ids"].tolist()
    assert given[0]["input_ids"][0, :2].tolist().count(1) == 1


def test_the_form_of_a_chat_comes_along_from_the_hub(llava_folder, tmp_path, monkeypatch):
    """Since 2025 checkpoints keep it in a file of its own, chat_template.jinja; without it nothing would be asked."""
    from huggingface_hub.utils import filter_repo_objects

    def downloaded(repository, *, revision, allow_patterns):
        names = [path.name for path in sorted(Path(llava_folder).iterdir())]
        for name in filter_repo_objects(names, allow_patterns=allow_patterns):
            shutil.copy(Path(llava_folder) / name, tmp_path / name)
        return str(tmp_path)

    monkeypatch.setattr("huggingface_hub.snapshot_download", downloaded)
    local = load(f"hf:{llava_folder}", kind="captioner")
    assert "USER" in local.writer.prompt
    fetched = load("hf:someone/llava", kind="captioner")
    assert (fetched.writer.prompt, fetched.key) == (local.writer.prompt, local.key)
