"""A demonstration of the words room on a few captions of our own: offline, in a second."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

from equipoise.text.lexicon import Lexicon
from equipoise.text.templates import caption_preset

__all__ = ["CAPTIONS", "run"]

CAPTIONS = (
    "A woman in a red coat walks her dog past an old bakery.",
    "A man is fixing his bicycle while a girl watches him.",
    "Two boys fly a kite on the beach.",
    "The waitress brings coffee to a couple by the window.",
    "A firefighter climbs a ladder.",
    "She's holding her umbrella; the wind pulls it away from her.",
    "An elderly gentleman reads a newspaper to his granddaughter.",
    "A surfer rides a wave at sunset.",
    "A policewoman helps a child find his mother.",
    "A mother elephant stands beside her calf.",
    "A queen-size bed with white sheets.",
    "A male nurse checks the monitor.",
)


def run(folder: Path, say: Callable[[str], None]) -> None:
    """Label, neutralise, swap and mask :data:`CAPTIONS`, write counterfactual caption sets, and say what was done."""
    words = Lexicon.load("equipoise")
    folder.mkdir(parents=True, exist_ok=True)
    labels = words.label_all(CAPTIONS)
    neutral = words.neutralise_all(CAPTIONS, agree=True)
    swapped = words.swap_all(CAPTIONS)

    say("Who do these captions say is in the picture? (lexicon 'equipoise'; empty: none, several, or no person)\n")
    for caption, label in zip(CAPTIONS, labels, strict=True):
        say(f"  {label or '':7} {caption}")
    counts = Counter(label or "undefined" for label in labels)
    say("\n  " + ", ".join(f"{n} {name}" for name, n in counts.most_common()))

    say("\nThe same without saying who, and said of someone else:\n")
    for before, without, other in zip(CAPTIONS[:7], neutral, swapped, strict=False):
        say(f"  {before}\n    neutral: {without}\n    swapped: {other}")

    sets = list(caption_preset("race-gender").having(subjects=["doctor", "carpenter"]).sets())
    say(f"\nCounterfactual caption sets: {len(sets)}, the first of them:\n")
    say(f"  neutral prompt: {sets[0].neutral}")
    for variant in sets[0].captions:
        say(f"    {variant.text}")

    for name, lines in (
        ("captions.txt", CAPTIONS),
        ("neutral.txt", neutral),
        ("swapped.txt", swapped),
        ("caption_sets.txt", [c.text for s in sets for c in s.captions]),
    ):
        (folder / name).write_text("\n".join(lines) + "\n", encoding="utf-8")
    say(f"\nWritten to {folder}/. Next:")
    say(f"  equipoise text swap {folder}/captions.txt --to female")
    say("  equipoise text captions --preset physical-race --subject pilot")
    say("  equipoise doctor")
