"""Read a word by what stands around it: is "her" an object or a determiner, is "black" said of a person.

These are rules, not a parser. They are right on the sentences captions are made of (the table test holds more than
sixty), they cost nothing, and where English leaves the choice open they take the reading that is commoner in captions.

Find many words in a text in one pass: a compiled alternation that shares prefixes.

A lexicon has a few hundred words and a caption fifty letters; one regular expression per word is slow and replaces
what it has just written. One pattern for all of them does neither.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Iterator

# Soft hyphens and zero-width characters are not seen: a word does not end, or begin, at one inside "wo\u00adman".
_UNSEEN = "\u00ad\u200b\u200c\u200d"
# A letter written as base and combining accent is one letter: "man" does not end before an accent.
_ENDS_HERE = rf"(?![{_UNSEEN}]*[\w\u0300-\u036f])"
_SPACE = r"[\s\-]+"
SEPARATOR = "\x00"
"""Parts texts that are searched in one go; no word and no phrase reaches across it."""
_QUOTES = str.maketrans("\u2019\u2018\u02bc", "'''")

_LETTER = re.compile(r"[\w\u0300-\u036f]")

Trie = dict[str, "Trie"]


def lower(text: str) -> str:
    """``text`` in lower case, letter for letter: the result is exactly as long as ``text``.

    Some capitals become two characters when lowered; those are kept, so that positions stay true.

    >>> lower("WOMAN"), len(lower("İstanbul")) == len("İstanbul")
    ('woman', True)
    """
    low = text.lower()
    if len(low) != len(text):
        low = "".join(c.lower() if len(c.lower()) == 1 else c for c in text)
    return low


def fold_phrase(phrase: str) -> str:
    """A matched phrase with single spaces and straight apostrophes, however it was written.

    >>> fold_phrase("queen-size"), fold_phrase("men’s  room")
    ('queen size', "men's room")
    """
    return " ".join(re.split(_SPACE, phrase.translate(_QUOTES)))


class WordFinder:
    """Finds any of ``words`` as whole words in lower-case text, the longest first.

    A space in a word stands for any run of white space and hyphens, an apostrophe for any kind of apostrophe; a
    hyphen stands for itself.

    >>> finder = WordFinder(["man", "men", "police man"])
    >>> list(finder.spans("a police-man, a man's hat, a woman, mankind"))
    [(2, 12), (16, 19)]
    """

    def __init__(self, words: Iterable[str]) -> None:
        trie: Trie = {}
        for word in words:
            node = trie
            for character in word:
                node = node.setdefault(character, {})
            node[""] = {}
        # The pattern begins with the character before the word, given as a plain set: such a pattern is searched for
        # in C, character by character, and one that begins with \\b is not. That alone halves the time.
        starts_here = r"[^a-z0-9_](?<!\w)"
        self.pattern = re.compile(f"{starts_here}{_branches(trie)}{_ENDS_HERE}" if trie else "(?!)")

    def spans(self, low: str) -> Iterator[tuple[int, int]]:
        """Start and end of each word found in ``low``."""
        for hit in self.pattern.finditer(SEPARATOR + low):
            start = hit.start()
            if not (start and low[start - 1] in _UNSEEN and _goes_on(low, start)):
                yield start, hit.end() - 1


def _goes_on(low: str, start: int) -> bool:
    """Whether a word goes on at ``start``, behind characters that are not seen."""
    while start and low[start - 1] in _UNSEEN:
        start -= 1
    return start > 0 and _LETTER.match(low, start - 1) is not None


def _branches(node: Trie) -> str:
    ends = "" in node
    parts = [_character(c) + _branches(child) for c, child in sorted(node.items()) if c]
    if not parts:
        return ""
    if len(parts) == 1 and not ends:
        return parts[0]
    return f"(?:{'|'.join(parts)}){'?' if ends else ''}"


def _character(character: str) -> str:
    if character == " ":
        return _SPACE
    if character == "'":
        return "['\u2019\u2018\u02bc]"
    return re.escape(character)


_CLOSERS = ("'", "’", '"', "”")  # right behind a word they close it off; behind a space they open the next
_NEXT = re.compile(r"([^\w]*)([\w\u0300-\u036f]+(?:['’][\w]+)*(?:-[\w]+)*)?")
_PREVIOUS = re.compile(r"(\w+(?:['’\-]\w+)*)\s+$")
BREAK = re.compile(r"[\x00.,;:!?()\[\]{}\n\r/|…—–]")  # \x00 parts texts that are read in one go


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_PREPOSITIONS = _words(
    "about above across after against along alongside amid among around as aside at atop before behind below "
    "beneath beside besides between beyond by despite during except for from in into like near of off on onto "
    "opposite out over through throughout to toward towards under underneath unlike until up upon via with within "
    "without"
)
_CONJUNCTIONS = _words("and or but nor so yet while when whenever where because if though although than since that")
_AUXILIARIES = _words(
    "is isn't are aren't was wasn't were weren't has hasn't have had does doesn't do did can can't could may "
    "might must will would shall should be been being"
)
_DETERMINERS = _words(
    "a an the this these those some any each every another my your its our their no what which who whom whose how why"
)
_PRONOUNS = _words(
    "i you he she it we they me him his her hers us them himself herself themselves itself something anything"
)
_ADVERBS = _words(
    "again ago ahead all along alone already also always anymore apart away both down else ever here instead just "
    "later maybe never now nearby not once outdoors indoors perhaps quite rather sometimes somewhere soon still "
    "then there today together tomorrow tonight too twice upstairs downstairs well yesterday"
)
FOLLOWS_AN_OBJECT = _PREPOSITIONS | _CONJUNCTIONS | _AUXILIARIES | _DETERMINERS | _PRONOUNS | _ADVERBS

# These follow an object ("pull her back") and also begin a noun phrase ("on her back"): the word before decides.
_EITHER = _words("back home close inside outside front past next down right left one upper over under")
_CARRYING_VERBS = re.compile(
    r"^(?:br(?:ing|ought)|push|pull|send|sent|sends|tak|took|call|giv|gave|hold|held|driv|drove|walk|follow|carr|lead|led|lift|"
    r"hug|kiss|kept|keep|put|knock|throw|threw|pass|invit|wel|let)"
)
# After these, "her" and a bare verb: "helps her cut the cake".
_CAUSATIVES = _words(
    "let lets letting make makes making made help helps helping helped watch watches watching watched see sees "
    "seeing saw hear hears hearing heard have has having had"
)
_BARE_VERBS = _words(
    "be do go get eat cut run sit stand ride play walk fly dance sing sleep swim surf ski skate climb cook drink "
    "drive throw catch hit kick jump hold open close put take make feed pet wear read write draw paint work learn "
    "smile laugh blow brush carry clean cross enter fall fix give have hang know leave lie look move pose pass "
    "pull push reach serve shop speak stay talk try turn use wait wash"
)
# "make her happy", "keep her warm".
_MAKING_VERBS = _words("make makes making made keep keeps keeping kept leave leaves leaving left get gets getting got")
_NOUNS_IN_ING = _words(
    "beginning being belongings bedding blessing building ceiling clothing covering cutting darling drawing "
    "dressing duckling earring earrings engagement evening feeling flooring frosting gosling icing king lightning "
    "living lodging meeting morning necking offspring opening outing painting paintings piercing piercings "
    "pudding racing ring rings seedling setting sewing sibling siblings skiing sling spring steering stocking "
    "stockings string surroundings swing thing things topping upbringing wedding wing wings wrapping writing ming"
)
# "her bathing suit", "her riding boots": the -ing word belongs to the noun behind it.
_HEADS_AFTER_ING = _words(
    "suit suits trunks pool cap costume gear boots boot shoes outfit goggles board boards bag bags table room "
    "rooms machine wheels wheel equipment stick sticks partner partners skills career lesson lessons jacket "
    "helmet pole poles class teacher instructor coach buddy book books desk gown board uniform hat pants skirt "
    "tights dress shirt bike"
)
_NOT_ADVERBS_IN_LY = _words(
    "family belly jelly lovely elderly friendly curly daily only early lily fly bully butterfly holy silly ugly "
    "smelly woolly wooly jolly lively lonely costly hilly bubbly frilly wavy monthly weekly yearly nightly "
    "assembly supply reply"
)

# After "male" or "female" these say that the word stands for someone: "a male sits", "a female holding".
_CAPTION_VERBS = _words(
    "sits stands holds rides plays walks wears looks poses jumps runs eats talks throws catches hits kicks swings "
    "surfs skis skates skateboards snowboards does has is was are were takes uses leans lies reads works smiles "
    "lays cuts prepares serves watches waits drives flies carries sleeps who that which whose"
)


CHAIN = 10
"""Words joined by "and" or "or" that are followed; a longer chain is no English, and hostile ones have thousands."""


def next_word(low: str, end: int) -> tuple[str, str, int]:
    """What separates position ``end`` from the next word, that word, and where it ends.

    >>> next_word("her big dog", 3)
    (' ', 'big', 7)
    """
    match = _NEXT.match(low, end)
    assert match is not None  # every part of the pattern is optional
    return match.group(1), match.group(2) or "", match.end()


def pronoun_role(low: str, start: int, end: int, roles: Container[str]) -> str:
    """Which of its possible roles a pronoun has at ``low[start:end]``.

    "her" is ``object`` or ``determiner``; "his" is ``determiner`` or ``possessive``.

    >>> pronoun_role("a man hugs her.", 11, 14, {"object", "determiner"})
    'object'
    >>> pronoun_role("a man holds her bag", 12, 15, {"object", "determiner"})
    'determiner'
    """
    other = "object" if "object" in roles else "possessive"
    return other if _has_no_noun(low, start, end, other) else "determiner"


def _has_no_noun(low: str, start: int, end: int, other: str, chain: int = CHAIN) -> bool:
    """Whether nothing behind the pronoun belongs to it: it is an object, or it stands for a thing.

    ``chain``: how many pronouns are followed in "his and her and his ..."; what is longer is no English.
    """
    gap, word, word_end = next_word(low, end)
    if not word or gap[:1] in _CLOSERS or BREAK.search(gap):
        return True
    if "-" in word:  # "her in-laws", "his off-road bike"
        return False
    previous = _previous_word(low, start)
    if word in ("and", "or"):
        return not (chain and _shares_a_noun(low, word, word_end, other, chain - 1))
    if word in _EITHER:
        return _either_has_no_noun(low, word, word_end, previous, other)
    if word in FOLLOWS_AN_OBJECT:
        return not (word in ("all", "both", "well", "what") and other == "possessive")
    if other == "possessive":
        return False
    after_gap, after, _ = next_word(low, word_end)
    ends_clause = not after or bool(BREAK.search(after_gap))
    if word.endswith("ing") and word not in _NOUNS_IN_ING and len(word) > 4:
        return not (after in _HEADS_AFTER_ING and not ends_clause)
    if word.endswith("ly") and word not in _NOT_ADVERBS_IN_LY:
        return ends_clause or after in FOLLOWS_AN_OBJECT
    if previous in _CAUSATIVES and word in _BARE_VERBS:
        return True
    return previous in _MAKING_VERBS and ends_clause and word in _ADJECTIVES_OF_STATE


_ADJECTIVES_OF_STATE = _words(
    "happy sad warm safe cool busy comfortable calm company laugh smile dry clean awake alone"
)


def _shares_a_noun(low: str, conjunction: str, end: int, other: str, chain: int) -> bool:
    """Whether "his and her bikes", "her or his bike": both pronouns belong to one noun."""
    _, word, word_end = next_word(low, end)
    if word in ("their", "my", "your", "our", "its"):
        return other == "possessive" or conjunction == "or"
    if word not in ("her", "his"):
        return False
    if other == "object" and (conjunction == "and" or word == "her"):
        return False  # "a photo of her and her dog": two people, and only the second has a dog
    return not _has_no_noun(low, word_end - 3, word_end, "object" if word == "her" else "possessive", chain)


def _either_has_no_noun(low: str, word: str, end: int, previous: str, other: str) -> bool:
    if other == "possessive":
        return False
    gap, after, _ = next_word(low, end)
    ends_clause = not after or bool(BREAK.search(gap))
    if word == "next":
        return after == "to"
    if word in ("one", "right", "left", "front", "upper"):
        return False
    if word in ("over", "under", "inside", "outside", "past"):
        return True
    if previous in _PREPOSITIONS:
        return False
    if word == "close" and not ends_clause:
        return after in FOLLOWS_AN_OBJECT
    if word == "down":  # "her down jacket"
        return ends_clause or after in FOLLOWS_AN_OBJECT
    return bool(_CARRYING_VERBS.match(previous)) and (ends_clause or after in FOLLOWS_AN_OBJECT)


def _previous_word(low: str, start: int) -> str:
    match = _PREVIOUS.search(low, max(0, start - 40), start)
    return match.group(1) if match else ""


def stands_alone(low: str, end: int) -> bool:
    """Whether an adjective that ends at ``end`` stands for someone: "a male in a suit", not "a male surfer".

    >>> stands_alone("a male in a suit", 6), stands_alone("a male surfer", 6)
    (True, False)
    """
    for _ in range(CHAIN):
        gap, word, word_end = next_word(low, end)
        if not word or gap[:1] in _CLOSERS or BREAK.search(gap):
            return True
        _, other, other_end = next_word(low, word_end)
        if word in ("and", "or") and other in ("male", "female", "white", "black", "asian", "young", "old"):
            end = other_end  # "male and female surfers": what stands behind the second decides for both
            continue
        if word in FOLLOWS_AN_OBJECT or word in _CAPTION_VERBS:
            return True
        if word.endswith("ing") and word not in _NOUNS_IN_ING:
            return other not in _HEADS_AFTER_ING and other not in ("team", "teams", "champion", "student", "students")
        return False
    return True


def is_said_of(low: str, end: int, kinds: Container[str]) -> bool:
    """Whether the word that ends at ``end`` is said of one of ``kinds``: "mother elephant", "female polar bear".

    >>> is_said_of("a mother polar bear", 8, {"bear"}), is_said_of("girls riding horses", 5, {"horses"})
    (True, False)
    >>> is_said_of("a female dog walker", 8, {"dog"})
    False
    """
    position = end
    gap, word, position = next_word(low, position)
    for _ in range(CHAIN):
        if word not in _OF_ANIMALS or BREAK.search(gap):
            break
        gap, word, position = next_word(low, position)
    if not word or BREAK.search(gap) or head_of(word) not in kinds:
        return False
    gap, after, _ = next_word(low, position)
    return not (gap == " " and _WHO.match(after))


_OF_ANIMALS = _words(
    "adult african asian baby big black brown gray grey grizzly large little mountain polar small spotted teddy white "
    "wild young"
)


def head_of(word: str) -> str:
    """The noun of "dog's" and of "mini-horse"."""
    return word.split("'")[0].split("’")[0].rsplit("-", 1)[-1]


_WHO = re.compile(
    r"(?:walk|rid|own|train|handl|lov|groom|keep|breed|driv|herd|farm|sitt|judg|show)(?:e?rs?)$|jockeys?$|trainers?$"
)


def is_before_name(text: str, start: int, end: int) -> bool:
    """Whether a title at ``text[start:end]`` is written as one: capital letter, and a capitalised name behind it.

    >>> is_before_name("Miss Brown waves", 0, 4), is_before_name("players miss the ball", 8, 12)
    (True, False)
    """
    gap, word, _ = next_word(text, end)
    return text[start].isupper() and word[:1].isupper() and gap in (" ", ". ")
