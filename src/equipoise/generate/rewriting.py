"""Prompts written out by a language model, each different enough from those before it.

As GABInsight did: at least 200 characters, at most four tries, and a warmer model on each try that comes out too like
an earlier prompt. Likeness is the share of words that two prompts have in common (F1), not BERTScore: it needs no
further model.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from equipoise.data.atomic import write_whole
from equipoise.engine.cache import cache_root
from equipoise.errors import InputError, one_line
from equipoise.generate.tools import stopping_when_down

REQUEST = (
    "Write a detailed prompt for an image generator in one paragraph of 40 to 80 words. Keep every person, what each "
    "does and how each looks exactly as given; add the place, the light and the camera. Answer with the prompt alone.\n"
)
LEAST_LENGTH = 200
MOST_LIKE = 0.975
TRIES = 4
WARMTH, WARMER = 0.63, 0.03
NEW_TOKENS = 200

Write = Callable[[str, float, int], str]
"""Request, temperature, seed; gives the model's answer."""


def likeness(first: str, second: str) -> float:
    """F1 of the words that two texts have in common, each as often as it occurs.

    >>> likeness("a man with a dog", "a woman with a dog")
    0.8
    """
    a, b = Counter(first.casefold().split()), Counter(second.casefold().split())
    shared = sum((a & b).values())
    return 2 * shared / max(1, sum(a.values()) + sum(b.values()))


def rewriter(write: Write, *, least: int = LEAST_LENGTH, most_like: float = MOST_LIKE) -> Callable[..., str]:
    """A function for ``plan_scenes(rewrite=...)`` that asks ``write`` until a prompt is long and new enough.

    >>> echo = rewriter(lambda request, temperature, seed: request.splitlines()[-1] + f" {temperature:.2f}", least=5)
    >>> echo("a nurse", [], 0), echo("a nurse", ["a nurse 0.63"], 0)
    ('a nurse 0.63', 'a nurse 0.66')
    """

    def rewritten(prompt: str, earlier: Sequence[str], seed: int) -> str:
        warmth, why = WARMTH, ""
        for attempt in range(TRIES):
            answer = " ".join(write(REQUEST + prompt, warmth, seed + attempt).split())
            if len(answer) < least:
                why = f"it is shorter than {least} characters"
            elif any(likeness(answer, other) > most_like for other in earlier):
                warmth, why = warmth + WARMER, "it is too like an earlier one"
            else:
                return answer
        raise InputError(f"the language model gave no usable prompt in {TRIES} tries for {prompt!r}: {why}")

    return rewritten


def writer(spec: str, *, kept_in: str | Path | None = None, **options: Any) -> Write:
    """The language model that ``spec`` names: ``api:<url>#<model>``, or ``hf:<repository or folder>``.

    What a service answers is kept in the folder ``kept_in`` (default: ``prompts`` in the cache) by model, request,
    temperature and seed: a run that was stopped goes on with the same prompts, and pays for none of them twice. A
    service that does not answer stops the run, as it does while images are made.
    """
    scheme, _, rest = spec.partition(":")
    if scheme == "api":
        from equipoise.models.services import Service

        service = Service.named(rest, **options)
        home = cache_root() / "prompts" if kept_in is None else Path(kept_in)
        return _kept(service, home)
    if scheme == "hf":
        return _local(rest)
    raise InputError(f"the language model {spec!r} must be api:<url>#<model> or hf:<repository or folder>")


def _kept(service: Any, home: Path) -> Write:
    def write(request: str, temperature: float, seed: int) -> str:
        asked = [service.url, service.model, request, temperature, seed]
        path = home / f"{hashlib.sha256(json.dumps(asked).encode()).hexdigest()}.json"
        known = _answer_in(path)
        if known is not None:
            return known
        with stopping_when_down():
            answer: str = service.chat(request, temperature=temperature, seed=seed)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, (json.dumps({"asked": asked, "answer": answer}) + "\n").encode())
        return answer

    return write


def _answer_in(path: Path) -> str | None:
    """The answer that is kept in ``path``; ``None`` where there is none, or it cannot be read any more."""
    try:
        answer = json.loads(path.read_bytes())["answer"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return answer if isinstance(answer, str) else None


def _local(name: str) -> Write:
    from equipoise.models.folders import find_checkpoint
    from equipoise.models.hf.checkpoint import stock_model, tokenizer
    from equipoise.models.runtime import from_transformers, quiet

    checkpoint = find_checkpoint(name)
    checkpoint.needs_texts()
    pipeline, set_seed = from_transformers("pipeline", "set_seed")
    with quiet():
        try:
            # The checked loader first: it refuses what is damaged, lacks weights, or is larger than its weights.
            causal = stock_model(checkpoint, "AutoModelForCausalLM")
            model = pipeline("text-generation", model=causal, tokenizer=tokenizer(checkpoint), trust_remote_code=False)
        except (InputError, MemoryError):
            raise
        except Exception as error:  # settings of the wrong type fail in every way there is
            reason = one_line(error, 200)
            raise InputError(f"{checkpoint.folder}: cannot be loaded as a language model: {reason}") from error

    def write(request: str, temperature: float, seed: int) -> str:
        set_seed(seed)
        answer = model(
            [{"role": "user", "content": request}] if model.tokenizer.chat_template else request,
            do_sample=True,
            temperature=temperature,
            max_new_tokens=NEW_TOKENS,
            return_full_text=False,
        )[0]["generated_text"]
        return answer if isinstance(answer, str) else str(answer[-1]["content"])

    return write
