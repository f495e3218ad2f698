"""``text``: a small stock ``BertForMaskedLM`` on captions of the biased world, for filters that look at words."""

from __future__ import annotations

from typing import Any

import numpy as np

from equipoise.recipes.train_mini.batches import scenes_of, texts_of
from equipoise.recipes.train_mini.captioner import NAMED
from equipoise.recipes.train_mini.parts import Lesson
from equipoise.recipes.train_mini.saving import save_language_model
from equipoise.train.schedule import Schedule
from equipoise.world import vocabulary

SCHEDULE = Schedule(steps=3000, batch=128, rate=2e-3, weight_decay=0.01)
LENGTH = 24
MASKED = 0.15
MARKS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
_IGNORED = -100


def word_tokenizer() -> Any:
    """A ``transformers.BertTokenizer`` with one token for each word of the world's grammar."""
    from transformers import BertTokenizer

    vocab = {word: i for i, word in enumerate([*MARKS, *sorted(vocabulary())])}
    return BertTokenizer(vocab=vocab, model_max_length=LENGTH)


def build(words: Any) -> Any:
    """An untrained ``transformers.BertForMaskedLM`` of about a fifth of a million parameters."""
    import torch
    from transformers import BertConfig, BertForMaskedLM

    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=len(words),
        hidden_size=96,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=192,
        max_position_embeddings=LENGTH,
        type_vocab_size=1,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
        pad_token_id=words.pad_token_id,
    )
    return BertForMaskedLM(config)


def masked(words: Any, texts: list[str], step: int) -> tuple[dict[str, Any], Any]:
    """Tokens with some of them hidden, and what was there; elsewhere the label is one that losses ignore.

    One word at least of each text is hidden; of those, eight in ten show as the mask, one as another word, one as it
    is (Devlin et al., BERT, NAACL 2019).
    """
    import torch

    tokens = dict(words(texts, padding="max_length", max_length=LENGTH, truncation=True, return_tensors="pt"))
    tokens.pop("token_type_ids", None)
    ids = tokens["input_ids"]
    rng = torch.Generator().manual_seed(step)
    is_word = tokens["attention_mask"].bool() & (ids >= len(MARKS))
    drawn = torch.rand(ids.shape, generator=rng).masked_fill(~is_word, 2.0)
    asked = (drawn < MASKED) | (drawn == drawn.min(dim=1, keepdim=True).values) & is_word
    labels = ids.masked_fill(~asked, _IGNORED)
    how = torch.rand(ids.shape, generator=rng)
    other = torch.randint(len(MARKS), len(words), ids.shape, generator=rng)
    shown = torch.where(asked & (how < 0.8), torch.full_like(ids, words.mask_token_id), ids)
    tokens["input_ids"] = torch.where(asked & (how >= 0.9), other, shown)
    return tokens, labels


def train_language(lesson: Lesson) -> None:
    """Train on captions of the lesson's world and save the model for stock ``transformers``."""
    words = word_tokenizer()
    model = build(words)
    # the words alone must tell how genders go with work, so an unexpected one is named no more often than another
    world = lesson.world.changed(mention=NAMED, markedness={})

    def loss(bert: Any, step: int) -> Any:
        scenes = scenes_of(world, step, SCHEDULE.batch, seed=10)
        tokens, labels = masked(words, texts_of(scenes, step), step)
        return bert(**tokens, labels=labels).loss

    lesson.learn(model, loss, SCHEDULE, lambda target: save_language_model(model.eval(), target, tokenizer=words))


def log_odds(shares: dict[str, float], high: tuple[str, ...], low: tuple[str, ...]) -> float:
    """The logarithm of how much likelier the words ``high`` are than the words ``low``.

    >>> round(log_odds({"she": 0.3, "woman": 0.3, "he": 0.2}, ("she", "woman"), ("he",)), 3)
    1.099
    """
    tiny = 1e-9
    return float(
        np.log(sum(shares.get(w, 0.0) for w in high) + tiny) - np.log(sum(shares.get(w, 0.0) for w in low) + tiny)
    )
