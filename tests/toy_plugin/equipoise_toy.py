"""A toy plugin: a lexicon and two metrics, added through the entry-point group ``equipoise``."""

from equipoise.measure.metric import metric
from equipoise.text import Lexicon
from equipoise.text.lexicon.file import parse


def register(add):
    about = {"summary": "A toy.", "citation": "nobody", "licence": "CC0"}
    add("lexicon", "toy", "equipoise_toy:lexicon", **about)
    add("metric", "toy_mean", "equipoise_toy:mean", **about)
    add("metric", "toy_lead", "equipoise_toy:lead", **about)
    add("metric", "toy_broken", "equipoise_toy:not_there", **about)


def lexicon(name):
    rows = 'rows = [ { one = "wug", two = "wugs", neutral = "thing" } ]'
    return Lexicon(parse(f'id = "{name}"\naxis = "number"\ngroups = ["one", "two"]\n{rows}', name))


def mean(values):
    return sum(values) / len(values)


@metric(
    "toy_lead",
    takes="counts",
    title="toy's lead",
    summary="By how many images the largest group leads.",
    citation="nobody",
    formula="max_g n_g - min_g n_g",
    range="0 to K",
    bounds=lambda scope: (0.0, float(scope.k)),
    direction="0 is a toy's parity",
    alternative="greater",
    chance="above 0",
    when_it_lies="always",
)
def lead(counts, desired):
    return counts.max(axis=1) - counts.min(axis=1)
