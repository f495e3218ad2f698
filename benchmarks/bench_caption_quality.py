"""Caption quality against the COCO evaluation's Python scorers (pycocoevalcap), in one run and one thread.

Both score 5,000 captions with 5 references each on the same tokens: ours given as lists of tokens, theirs as the texts
that it takes. Ours also gives an interval.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

CAPTIONS = Path(__file__).resolve().parents[2] / "shared" / "data" / "coco" / "captions_val2017.json"
IMAGES, REFERENCES = 5000, 5
Tokens = list[list[str]]


def run() -> Iterator[dict[str, Any]]:
    """The results: name, value, limit, unit, ok, note."""
    name = f"CIDEr-D of {IMAGES:,} x {REFERENCES} captions: times faster than pycocoevalcap"
    if find_spec("pycocoevalcap") is None:
        yield {"name": name, "value": "skipped", "note": "pycocoevalcap is not installed"}
        return
    from pycocoevalcap.bleu.bleu import Bleu
    from pycocoevalcap.cider.cider import Cider
    from pycocoevalcap.rouge.rouge import Rouge

    from equipoise.measure.captions import quality
    from equipoise.text.english.ptb import ptb_tokenise
    from equipoise.text.english.tagging import content_vocabulary

    candidates, references, what = _captions()
    given = {i: [" ".join(tokens) for tokens in several] for i, several in enumerate(references)}
    said = {i: [" ".join(tokens)] for i, tokens in enumerate(candidates)}
    sides: list[tuple[str, Callable[[], Any], Callable[[], Any], float | None]] = [
        (name, lambda: Cider().compute_score(given, said)[1], lambda: quality.cider(candidates, references).values, 10),
        (
            "BLEU-1 to 4 of the same, with intervals: times faster",
            lambda: Bleu(4).compute_score(given, said, verbose=0)[1][3],
            lambda: quality.bleu(candidates, references)[3].values,
            None,
        ),
        (
            "ROUGE-L of the same: times faster",
            lambda: Rouge().compute_score(given, said)[1],
            lambda: quality.rouge_l(candidates, references).values,
            None,
        ),
    ]
    for label, theirs, ours, least in sides:
        # The best of three of each, in turns, so that a busy machine slows both alike.
        rounds = [(_cpu(theirs), _cpu(ours)) for _ in range(3)]
        slow, fast = (min(one[side][0] for one in rounds) for side in (0, 1))
        wanted, found = rounds[0][0][1], rounds[0][1][1]
        apart = float(np.abs(np.asarray(wanted) - found).max())
        yield {
            "name": label,
            "value": slow / fast,
            "limit": None if least is None else f">= {least:g}",
            "unit": "x CPU",
            "ok": None if least is None else slow / fast >= least and apart < 1e-6,
            "note": f"{fast:.2f} s against {slow:.2f} s; {what}; largest difference {apart:.0e}",
        }
    texts = [" ".join(tokens) for several in references for tokens in several]
    seconds, _ = _cpu(lambda: ptb_tokenise(texts))
    yield {"name": f"tokens of {len(texts):,} captions", "value": seconds, "unit": "s CPU"}
    many = (texts * 4)[:100_000]
    seconds, _ = _cpu(lambda: content_vocabulary(many))
    yield {
        "name": f"content words of {len(many):,} captions",
        "value": seconds,
        "limit": "<= 20",
        "unit": "s CPU",
        "ok": seconds <= 20,
    }


def _captions() -> tuple[Tokens, list[Tokens], str]:
    """Real captions where they are at hand, else random ones of a plausible length and vocabulary."""
    rng = np.random.default_rng(0)
    if not CAPTIONS.exists():
        words = np.array([f"w{i}" for i in range(5000)])
        shares = 1 / np.arange(1, len(words) + 1)
        shares /= shares.sum()

        def drawn() -> list[str]:
            return [str(word) for word in rng.choice(words, size=rng.integers(8, 14), p=shares)]

        return (
            [drawn() for _ in range(IMAGES)],
            [[drawn() for _ in range(REFERENCES)] for _ in range(IMAGES)],
            "random words",
        )
    from equipoise.text.english.ptb import ptb_tokens

    by_image: dict[int, Tokens] = {}
    for row in json.loads(CAPTIONS.read_text())["annotations"]:
        by_image.setdefault(row["image_id"], []).append(ptb_tokens(row["caption"]))
    references = [several[:REFERENCES] for several in by_image.values()][:IMAGES]
    # A caption to judge: the beginning of one of the image's own, the end of another image's.
    other = rng.permutation(len(references))
    candidates = [several[0][:6] + references[o][1][6:] for several, o in zip(references, other, strict=True)]
    return candidates, references, "COCO captions"


def _cpu(work: Callable[[], Any]) -> tuple[float, Any]:
    start = time.process_time()
    found = work()
    return time.process_time() - start, found


if __name__ == "__main__":
    for result in run():
        print(result)
