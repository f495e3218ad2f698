"""Who does what to what: subject, verb and object of English captions, by rule or by a parser the caller has loaded."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from equipoise.text.activities.words import (
    AUXILIARIES,
    BOUNDARIES,
    DETERMINERS,
    MOTION_VERBS,
    NOT_OBJECTS,
    PARTICLES,
    PARTITIVES,
    PERSON_WORDS,
    PRONOUNS,
    VERBS,
    base_verb,
    singular,
)

_TOKEN = re.compile(r"[A-Za-z]+(?:['’-][A-Za-z]+)*|[.,;:!?&]")
_SENTENCE_END = frozenset(".;!?")
_SUBJECT_DEPENDENCIES = frozenset({"nsubj", "nsubj:pass"})
_OBJECT_DEPENDENCIES = frozenset({"dobj", "obj"})
_CLAUSES_OF_A_NOUN = frozenset({"acl", "relcl", "acl:relcl"})


@dataclass(frozen=True)
class Triple:
    """Who does what to what: the subject as written (lower case), the verb's base form, the object's singular."""

    subject: str
    verb: str
    object: str

    @property
    def activity(self) -> str:
        """Verb and object together.

        >>> Triple("man", "ride", "horse").activity
        'ride horse'
        """
        return f"{self.verb} {self.object}"

    def __str__(self) -> str:
        return f"{self.subject} {self.verb} {self.object}"


def find_triples(caption: str, subjects: Collection[str] = PERSON_WORDS) -> tuple[Triple, ...]:
    """Triples of one English caption by rule.

    The nearest subject word before a verb is its subject ("a man and a woman" both are). A verb is a word in -ing
    that is not a common noun, or a form of a listed verb right after its subject. The object is the head (last
    word) of the noun phrase right after the verb; "a slice of pizza" gives pizza.

    Args:
        caption: English text, of one sentence or several; a subject counts up to the end of its sentence.
        subjects: the words, in lower case, that can be a subject; by default common words for people.

    Returns:
        The triples in the order of the text, one per subject. No direct object, no triple.

    >>> find_triples("A man standing next to a woman holding a small baby")
    (Triple(subject='woman', verb='hold', object='baby'),)
    >>> [str(t) for t in find_triples("Two boys and a girl in red shirts are eating slices of pizza.")]
    ['boys eat pizza', 'girl eat pizza']
    """
    tokens = [token.lower().replace("’", "'").replace("&", "and") for token in _TOKEN.findall(caption)]
    triples: list[Triple] = []
    current: list[str] = []
    position = 0
    while position < len(tokens):
        token = tokens[position]
        if token in _SENTENCE_END:
            current = []
        elif token in subjects:
            current = [*current, token] if _is_coordinated(tokens, position, current) else [token]
        elif current and (verb := _verb_at(tokens, position, subjects)):
            noun, end = _object_after(tokens, position + 1, verb)
            if noun:
                triples.extend(Triple(subject, verb, noun) for subject in current)
                # a person who is acted on may act in turn: "holding a baby wearing a hat"
                if tokens[end - 1] in subjects:
                    current = [tokens[end - 1]]
                position = end
                continue
        position += 1
    return tuple(triples)


def _is_coordinated(tokens: Sequence[str], position: int, current: Sequence[str]) -> bool:
    """Whether the subject at ``position`` is joined to the ones before it ("a man and two women")."""
    back = position - 1
    while back >= 0 and tokens[back] in DETERMINERS:
        back -= 1
    return bool(current) and back >= 1 and tokens[back] in {"and", ","} and tokens[back - 1] == current[-1]


def _verb_at(tokens: Sequence[str], position: int, subjects: Collection[str]) -> str | None:
    token, before = tokens[position], tokens[position - 1]
    # "people crossing a street", but not "people at a crossing"
    acts = (before in subjects or before in AUXILIARIES) and _starts_phrase(tokens, position + 1)
    verb = base_verb(token, is_verb=acts)
    if verb is None and before in subjects and before not in {singular(before), "he", "she"}:
        verb = token if token in VERBS else None  # "girls wash a car"
    if verb is None or token in AUXILIARIES:
        return None
    if token.endswith("ing"):
        # "the swimming pool": a verb does not follow a determiner
        return None if before in DETERMINERS else verb
    # "rides", "threw" are nouns elsewhere ("drinks"): only after their subject, or where an object follows
    follows = before in subjects or before in {"who", "that", "and"} or _starts_phrase(tokens, position + 1)
    return verb if follows and before not in DETERMINERS else None


def _starts_phrase(tokens: Sequence[str], position: int) -> bool:
    return position < len(tokens) and tokens[position] in DETERMINERS


def _object_after(tokens: Sequence[str], start: int, verb: str) -> tuple[str | None, int]:
    """The head of the noun phrase at ``start`` and the position after it; None if there is no direct object."""
    position = start
    if position < len(tokens) and tokens[position] in PARTICLES and verb not in MOTION_VERBS:
        position += 1
    phrase: list[str] = []
    while position < len(tokens):
        token = tokens[position]
        if token in DETERMINERS and phrase:
            break
        if token in BOUNDARIES and token not in DETERMINERS:
            if token == "of" and phrase and phrase[-1] in PARTITIVES:
                phrase = []
                position += 1
                continue
            break
        if token in AUXILIARIES or _is_next_verb(tokens, position, bool(phrase)):
            break
        if token not in DETERMINERS:
            phrase.append(token)
        position += 1
    if not phrase or phrase[-1] in PRONOUNS | NOT_OBJECTS or phrase[-1].endswith(("'s", "ly")):
        return None, start
    return singular(phrase[-1]), position


def _is_next_verb(tokens: Sequence[str], position: int, after_noun: bool) -> bool:
    """Whether a new verb begins here: "... a cake wearing", "... a hat takes a", "... a cake decorated with"."""
    token = tokens[position]
    if base_verb(token) is None:
        return False
    if token.endswith("ing") or _starts_phrase(tokens, position + 1):
        return True
    ended = position + 1 >= len(tokens) or tokens[position + 1] in BOUNDARIES
    return after_noun and token.endswith("ed") and ended


def parsed_triples(document: Iterable[Any], subjects: Collection[str] = PERSON_WORDS) -> tuple[Triple, ...]:
    """Triples of one parsed caption.

    Base forms come from the same rules as in :func:`find_triples`, for a small parser's lemmas are often wrong
    ("riding" as "rid"); its lemma is taken for verbs the rules do not know. The object is a direct object; its
    verb's subject is the verb's own, else that of the verb it is joined to, else the noun the verb's clause
    describes ("a man riding").

    Args:
        document: the caption's tokens with spaCy's ``text lemma_ dep_ head children``.
        subjects: the words, in lower case, that can be a subject; by default common words for people.

    Returns:
        The triples in the order of their objects, one per subject.
    """
    triples = []
    for token in document:
        thing = _parsed_object(token)
        if thing is None:
            continue
        verb = base_verb(token.head.text.lower())
        if verb not in VERBS:
            verb = token.head.lemma_.lower()
        for subject in _parsed_subjects(token.head):
            word = subject.text.lower()
            if word in subjects:
                triples.append(Triple(word, verb, thing))
    return tuple(triples)


def _parsed_object(token: Any) -> str | None:
    """The noun acted on, if ``token`` is a direct object: of "a slice of pizza" the pizza."""
    if token.dep_ not in _OBJECT_DEPENDENCIES or token.text.lower() in PRONOUNS:
        return None
    if token.text.lower() in PARTITIVES:
        parts = [noun for of in token.children if of.text.lower() == "of" for noun in of.children]
        token = next((noun for noun in parts if noun.dep_ == "pobj"), token)
    return singular(token.text.lower())


def _parsed_subjects(verb: Any) -> list[Any]:
    seen = 0
    while seen < 10:  # a broken parse must not loop
        own = [child for child in verb.children if child.dep_ in _SUBJECT_DEPENDENCIES]
        if own:
            return [noun for subject in own for noun in _with_conjuncts(subject)]
        if verb.dep_ in _CLAUSES_OF_A_NOUN:
            return _with_conjuncts(verb.head)
        if verb.dep_ not in {"conj", "advcl", "xcomp"} or verb.head is verb:
            return []
        verb, seen = verb.head, seen + 1
    return []


def _with_conjuncts(noun: Any) -> list[Any]:
    return [noun, *(child for child in noun.children if child.dep_ == "conj")]
