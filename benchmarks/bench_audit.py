"""GenSynth's natural TF-IDF row on COCO's captions against a plain loop over the queries, in one run and one thread.

Both measure Bias@5, Bias@10, MaxSkew@25 and MaxSkew@100 of every caption as a query over all others. The loop, which is
what one would write by hand, does every tenth query and is scaled up; on those its values must be the same.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

CAPTIONS = Path(__file__).resolve().parents[2] / "shared" / "data" / "coco" / "captions_val2017.json"
EVERY = 10
LIMIT = 1 / 3


def one_query(q: int, vectors: Any, image: np.ndarray, labels: np.ndarray, shares: np.ndarray) -> list[float]:
    """The four metrics of one caption: score all, leave out its own image, sort, count."""
    scores = (vectors @ vectors[q].T).toarray().ravel()
    others = np.flatnonzero(image != image[q])
    ranked = labels[image[others[np.argsort(-scores[others], kind="stable")]]]
    values = []
    for k in (5, 10):
        male, female = (ranked[:k] == 0).sum(), (ranked[:k] == 1).sum()
        values.append(0.0 if male + female == 0 else (male - female) / (male + female))
    defined = ranked[ranked >= 0]
    for k in (25, 100):
        found = [np.mean(defined[:k] == group) for group in (0, 1)]
        values.append(max(np.log(p / d) for p, d in zip(found, shares, strict=True) if p > 0))
    return values


def run() -> list[dict[str, Any]]:
    """The results: name, value, limit, unit, ok, note."""
    name = "GenSynth Table 1, natural TF-IDF row, over a plain loop"
    if not CAPTIONS.exists():
        return [{"name": name, "value": "skipped", "note": "COCO's captions are not on this machine"}]
    from sklearn.feature_extraction.text import TfidfVectorizer

    from equipoise.audit.running import caption_frame
    from equipoise.audit.suites.captions_tfidf import COMPAT, LEXICON, rank_tfidf, without_words
    from equipoise.text import Lexicon

    frame, words = caption_frame(CAPTIONS), Lexicon.load(LEXICON)
    texts = without_words(frame["caption"].tolist(), words)
    by_image = frame.groupby("image_id", sort=False)["caption"].apply(list)
    names = words.label_images(by_image.tolist(), compat=COMPAT)
    labels = np.array([words.groups.index(n) if n else -1 for n in names], dtype=np.int32)
    image = pd.Index(by_image.index).get_indexer(pd.Index(frame["image_id"]))

    start = time.process_time()
    ranked = rank_tfidf(texts, image, labels)
    ours = ranked.values(ranked.labels)
    mine = time.process_time() - start

    start = time.process_time()
    vectors = TfidfVectorizer().fit_transform(texts)
    own = labels[image]
    shares = np.array([(own == group).sum() for group in (0, 1)]) / (own >= 0).sum()
    asked = np.arange(0, len(texts), EVERY)
    looped = np.array([one_query(int(q), vectors, image, labels, shares) for q in asked])
    loop = (time.process_time() - start) * len(texts) / len(asked)

    order = [("bias_at_k", 5), ("bias_at_k", 10), ("max_skew", 25), ("max_skew", 100)]
    apart = max(abs(float(ours[key][asked].mean() - looped[:, i].mean())) for i, key in enumerate(order))
    return [
        {
            "name": name,
            "value": mine / loop,
            "limit": round(LIMIT, 3),
            "unit": "x CPU",
            "ok": mine / loop <= LIMIT,
            "note": f"{mine:.1f} s; the loop {loop:.0f} s, scaled up from {len(asked):,} of {len(texts):,} queries",
        },
        {
            "name": "the same, largest difference of the four means on those queries",
            "value": apart,
            "limit": 0.001,
            "unit": "",
            "ok": apart <= 0.001,
            "note": "equal scores may change places by rounding",
        },
    ]


if __name__ == "__main__":
    for result in run():
        print(result)
