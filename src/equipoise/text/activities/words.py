"""Words that the activity rules need: which words end a noun phrase, which name people, which -ing words are
nouns.

Small closed lists of English; they are not lexicons of social groups (those are data files of their own).
"""

from __future__ import annotations


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


PERSON_WORDS = _words(
    """man men woman women boy boys girl girls guy guys gentleman gentlemen lady ladies male males female females
    person persons people child children kid kids toddler toddlers baby babies teenager teenagers adult adults
    father fathers mother mothers dad dads mom moms son sons daughter daughters brother brothers sister sisters
    husband husbands wife wives grandfather grandmother uncle aunt boyfriend girlfriend bride groom king queen
    individual individuals someone somebody player players rider riders skier skiers surfer surfers worker workers
    chef chefs nurse nurses doctor doctors teacher teachers student students farmer farmers soldier soldiers
    batter catcher pitcher umpire skateboarder skateboarders snowboarder snowboarders cowboy cowboys
    he she they"""
)
"""People as captions name them: the default subjects of an activity."""

DETERMINERS = _words(
    """a an the this that these those his her hers its their my your our some any each every both all no another
    one two three four five six seven eight nine ten several many few multiple various"""
)

PRONOUNS = _words("it them him her himself herself themselves itself something anything nothing everything me us you")

AUXILIARIES = _words("is are was were be been being am has have had does do did will would can could may might should")

PARTICLES = _words("up off out")
"""A particle between a verb and its object ("picking up a box")."""

MOTION_VERBS = _words(
    "walk run ride ski skate surf drive go move snowboard fly sail jump race paddle row climb skateboard"
)
"""After these a particle is a preposition: "skiing up a hill" has no object."""

NOT_OBJECTS = _words("ready it's upside sideways forward forwards backward backwards")

PARTITIVES = _words(
    """slice slices piece pieces couple bunch bunches lot lots pair pairs group groups bit plate plates bowl bowls
    cup cups glass glasses bottle bottles can cans stack pile kind kinds type types game set number variety row"""
)
"""In "a slice of pizza" the thing acted on is the pizza."""

BOUNDARIES = _words(
    """in on at by with without from to into onto over under near next beside behind between through across along
    against toward towards thru via above below inside outside during after before while as for of about among
    around past and or but then who whom whose which that where when because so if than not also very just still
    now up down off out away back
    there here together outdoors indoors today alone somewhere nearby instead"""
) | _words(". , ; : ! ?")
"""Words and marks at which a noun phrase ends."""

ING_NOUNS = _words(
    """building buildings morning evening ceiling clothing railing wedding painting drawing something nothing
    anything everything king ring string spring wing thing sibling pudding frosting icing topping lighting
    crossing landing parking dressing stuffing filling bedding flooring siding fencing awning opening clearing
    intersection offering dining living wrapping housing beijing sing bring swing sling sting cling fling
    wring during"""
)
"""Words in -ing that are nouns or adjectives more often than verbs in captions."""

PLURAL_ONLY = _words(
    "glasses scissors jeans pants shorts clothes sunglasses goggles skis binoculars tongs pliers series tennis"
)

IRREGULAR_PLURALS = {
    "men": "man",
    "women": "woman",
    "children": "child",
    "people": "person",
    "persons": "person",
    "feet": "foot",
    "teeth": "tooth",
    "geese": "goose",
    "mice": "mouse",
    "knives": "knife",
    "wives": "wife",
    "lives": "life",
    "loaves": "loaf",
    "leaves": "leaf",
    "calves": "calf",
    "halves": "half",
    "scarves": "scarf",
    "shelves": "shelf",
    "wolves": "wolf",
    "shoes": "shoe",
    "toes": "toe",
    "horseshoes": "horseshoe",
    "movies": "movie",
    "cookies": "cookie",
    "selfies": "selfie",
    "ties": "tie",
    "pies": "pie",
    "buses": "bus",
    "canoes": "canoe",
    "snowshoes": "snowshoe",
}

VERBS = _words(
    """admire adjust apply arrange assemble bake balance barbecue bathe bead blow board boil braid break bring
    brush build buy call carry carve catch celebrate change chase check chew choose chop clean clear climb close
    coach comb cook cover craft cross cuddle customize cut dance decorate deliver design dig direct display dive do
    draw dribble drink drive drop dry dunk eat embrace enjoy enter examine explore extend face fasten feed fill
    film fish fix fly fold follow frost give grab grate grill groom guide handle hang have hit hold hug hunt
    inspect iron install jump keep kick kiss knit knot lace launch lead lean lift light load look love make
    massage measure mend milk mix mount move mow open operate order overlook pack paint park pass pat paddle
    peel perform pet photograph pick pitch place plan plant play plow point pose pour practice prepare present
    press program pull pump push put race raise read receive record remove repair ride roast roll row run sail
    saw sell serve set sew shake share shave shear shoot shovel show sign skate ski slice smell smoke smell
    snowboard spin spray spread squeeze stack steer stir style surf sweep swing swallow take teach tend test
    throw tie toast toss touch tow train transport trim tune turn type unclog unload use vacuum walk wash watch
    water wave wear weave weld wheel whip win wipe work wrap write blend weigh chat explain fight operate score
    sharpen sort stretch study supervise tackle taste visit bite greet smell juggle tilt fry cross board lock buckle"""
)
"""Verbs by base form. An unknown word in -ing counts as a verb too; this list is for "rides", "rode" and
lemmas."""

_IRREGULAR_FORMS = {
    "lying": "lie",
    "dying": "die",
    "tying": "tie",
    "untying": "untie",
    "skiing": "ski",
    "seeing": "see",
    "fleeing": "flee",
    "dyeing": "dye",
    "shoeing": "shoe",
    "has": "have",
    "had": "have",
    "does": "do",
    "did": "do",
    "rode": "ride",
    "held": "hold",
    "threw": "throw",
    "hit": "hit",
    "caught": "catch",
    "ate": "eat",
    "drank": "drink",
    "drove": "drive",
    "wore": "wear",
    "cut": "cut",
    "made": "make",
    "took": "take",
    "gave": "give",
    "swung": "swing",
    "wrote": "write",
    "fed": "feed",
    "led": "lead",
    "flew": "fly",
    "drew": "draw",
    "built": "build",
    "bought": "buy",
    "blew": "blow",
    "read": "read",
    "put": "put",
    "set": "set",
    "goes": "go",
}

_SILENT_E = (
    "c",
    "v",
    "z",
    "u",
    "dg",
    "rg",
    "ng",
    "iq",
    "at",
    "it",
    "ut",
    "ok",
    "ak",
    "ik",
    "as",
    "is",
    "us",
    "ur",
)
_ENDINGS = (("ies", ("y",)), ("es", ("", "e")), ("s", ("",)), ("ied", ("y",)), ("ed", ("", "e")))
_CONSONANT_L = ("bl", "cl", "dl", "fl", "gl", "kl", "pl", "tl", "zl")
_KEEP_DOUBLE = ("ll", "ss", "zz", "ff", "ee", "oo")


def base_verb(word: str, *, is_verb: bool = False) -> str | None:
    """The base form of a verb, or None for a word that does not look like one.

    An -ing word is a verb unless it is listed as a noun (and ``is_verb`` does not say that it is one here); any other
    form must belong to a listed verb.

    >>> [base_verb(w) for w in ("riding", "sitting", "rides", "threw", "carried", "knitting", "building", "horse")]
    ['ride', 'sit', 'ride', 'throw', 'carry', 'knit', None, None]
    """
    if word in _IRREGULAR_FORMS:
        return _IRREGULAR_FORMS[word]
    if word.endswith("ing") and len(word) > 4:
        return None if word in ING_NOUNS and not is_verb else _stem(word[:-3])
    for ending, replacements in _ENDINGS:
        if word.endswith(ending):
            stem = word[: -len(ending)]
            for replacement in replacements:
                if stem + replacement in VERBS:
                    return stem + replacement
            if len(stem) > 2 and stem[-1] == stem[-2] and stem[:-1] in VERBS:
                return stem[:-1]
    return None


def _stem(stem: str) -> str:
    for candidate in (stem, stem + "e", stem[:-1]):
        if candidate in VERBS:
            return candidate
    if len(stem) > 2 and stem[-1] == stem[-2] and not stem.endswith(_KEEP_DOUBLE):
        return stem[:-1]
    if stem.endswith(_CONSONANT_L):
        return stem + "e"
    if stem.endswith(_SILENT_E) and not stem.endswith(("eat", "oat", "ait", "oit", "eak", "ook", "ou")):
        return stem + "e"
    return stem


def singular(word: str) -> str:
    """The singular of a noun by rule.

    >>> [singular(w) for w in ("horses", "dresses", "puppies", "knives", "glasses", "bus", "waves")]
    ['horse', 'dress', 'puppy', 'knife', 'glasses', 'bus', 'wave']
    """
    if word in IRREGULAR_PLURALS:
        return IRREGULAR_PLURALS[word]
    if word in PLURAL_ONLY or not word.endswith("s") or word.endswith(("ss", "us", "is")) or len(word) < 4:
        return word
    if word.endswith("ies"):
        return word[:-3] + "y"
    if word.endswith(("ches", "shes", "sses", "xes", "zzes", "oes")):
        return word[:-2]
    return word[:-1]
