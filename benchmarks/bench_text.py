"""The words room against the straightforward way: one regular expression per lexicon word, applied in turn."""

import json
import re
import subprocess
import sys
import time
from pathlib import Path

from equipoise.text import Lexicon

COCO = Path(__file__).resolve().parents[2] / "shared" / "data" / "coco" / "captions_val2017.json"


def run():
    captions, source = _captions()
    for name in ("equipoise", "gensynth_code"):
        yield from _neutralise(name, captions, source)
    yield _memory()


def _captions():
    if COCO.exists():
        return [a["caption"] for a in json.loads(COCO.read_text())["annotations"]], "COCO val2017"
    from equipoise.text.templates import caption_preset

    sets = caption_preset("race-gender").sets()
    texts = [f"{c.text} holding her umbrella next to a man's bench." for s in sets for c in s.captions]
    return (texts * 3)[:25_014], "generated captions"


def _neutralise(name, captions, source):
    lexicon = Lexicon.load(name)
    neutral = {w: row.neutral[g] for row in lexicon.rows for g, words in row.words.items() for w in words}
    patterns = [(re.compile(rf"\b{re.escape(word)}\b", re.IGNORECASE), new) for word, new in neutral.items()]

    def in_turn():
        done = []
        for caption in captions:
            for pattern, new in patterns:
                caption = pattern.sub(new, caption)
            done.append(caption)
        return done

    ours = lexicon.neutralise_all(captions)  # warm: the pattern is compiled once per process
    fast = min(_cpu(lambda: lexicon.neutralise_all(captions)) for _ in range(3))
    start = time.process_time()
    plain = in_turn()
    slow = time.process_time() - start
    same = sum(a.casefold() == b.casefold() for a, b in zip(ours, plain, strict=True)) / len(captions)
    note = f"{len(captions):,} captions of {source}, {len(neutral)} words; same output in {same:.1%}"
    yield {
        "name": f"neutralise, {name}: times faster than one regex per word",
        "value": slow / fast,
        "limit": ">= 20",
        "unit": "x",
        "ok": slow / fast >= 20,
        "note": note,
    }


def _cpu(work):
    start = time.process_time()
    work()
    return time.process_time() - start


def _memory():
    code = """
import re
from pathlib import Path
from equipoise.text import Lexicon
texts = [f"A {('man', 'woman', 'dog')[i % 3]} number {i} rides a horse on the beach" for i in range(1_000_000)]
Lexicon.load("equipoise").label_all(texts)
peak = int(re.search(r"VmHWM:\\s*(\\d+)", Path("/proc/self/status").read_text())[1])
print(peak / 1024)
"""
    megabytes = float(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout)
    return {
        "name": "label 1,000,000 captions, peak memory with the captions",
        "value": megabytes,
        "limit": "< 1000",
        "unit": "MB",
        "ok": megabytes < 1000,
    }
