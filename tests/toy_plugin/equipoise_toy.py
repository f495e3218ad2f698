"""A toy plugin: one lexicon and one metric, added through the entry-point group ``equipoise``."""

from equipoise.text import Lexicon
from equipoise.text.lexicon.file import parse


def register(add):
    about = {"summary": "A toy.", "citation": "nobody", "licence": "CC0"}
    add("lexicon", "toy", "equipoise_toy:lexicon", **about)
    add("metric", "toy_mean", "equipoise_toy:mean", **about)


def lexicon(name):
    rows = 'rows = [ { one = "wug", two = "wugs", neutral = "thing" } ]'
    return Lexicon(parse(f'id = "{name}"\naxis = "number"\ngroups = ["one", "two"]\n{rows}', name))


def mean(values):
    return sum(values) / len(values)
