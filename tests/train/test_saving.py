"""What a training writes does not depend on what was asked of its parts before."""

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

from equipoise.models.folders import open_checkpoint
from equipoise.models.hf.checkpoint import tokenizer
from equipoise.models.miniatures import FOLDER
from equipoise.train.task import save_stock


class Weights:
    """A model that has nothing to save but its settings."""

    def save_pretrained(self, folder):
        folder.mkdir()
        (folder / "config.json").write_text("{}")


def test_a_tokenizer_is_saved_the_same_whether_it_has_read_a_text_or_not(tmp_path):
    """A run that is killed after its last step reads no text when it is started again."""
    for name, texts in (("whole", ["a nurse"]), ("resumed", [])):
        words = tokenizer(open_checkpoint(FOLDER / "clip"))
        for text in texts:
            words(text, padding=False, truncation=False)
        save_stock(Weights(), tmp_path / name, words)
    whole, resumed = ((tmp_path / name / "tokenizer.json").read_bytes() for name in ("whole", "resumed"))
    assert whole == resumed
