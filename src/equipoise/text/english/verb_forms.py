"""The forms of English verbs: "ride" gives rides, riding, rode, ridden."""

from __future__ import annotations

# Past and participle, where they are not the base with -ed.
_IRREGULAR = {
    line.split()[0]: line.split()[1:]
    for line in """
    ride rode ridden
    run ran
    stand stood
    sit sat
    lie lay lain
    lay laid
    hold held
    fly flew flown
    swing swung
    hit
    throw threw thrown
    catch caught
    swim swam swum
    dive dived dove
    drive drove driven
    slide slid
    sing sang sung
    speak spoke spoken
    eat ate eaten
    drink drank drunk
    bite bit bitten
    feed fed
    make made
    cut
    wear wore worn
    bring brought
    take took taken
    give gave given
    get got gotten
    put
    set
    hang hung hanged
    show showed shown
    sleep slept
    lean leaned leant
    kneel knelt kneeled
    bend bent
    lead led
    leave left
    go went gone
    come came
    build built
    draw drew drawn
    write wrote written
    read
    teach taught
    learn learned learnt
    win won
    lose lost
    sweep swept
    blow blew blown
    shut
    sell sold
    buy bought
    pay paid
    see saw seen
    become became
    keep kept
    begin began begun
    let
    meet met
    shake shook shaken
    dig dug
    grow grew grown
    mow mowed mown
    shear sheared shorn
    ring rang rung
    spin spun
    grind ground
    fall fell fallen
    break broke broken
    burn burned burnt
    freeze froze frozen
    shine shone shined
    light lit lighted
    cast
    hide hid hidden
    strike struck
    shoot shot
    sink sank sunk
    stick stuck
    spread
    tell told
    say said
    think thought
    know knew known
    sew sewed sewn
    knit knitted
    fight fought
    find found
    speed sped speeded
    cling clung
    wind wound
    """.strip().splitlines()
}
_DOUBLED = frozenset(
    """run sit hit bat swim cut chop stir put set drag drop grab hug pet nap squat stop win rub scrub zip shut
    spin trim dig plan plot skip flip trip snap clap sip dip drip jog stun hop bob get let begin wag trot
    strap wrap grip flap lap swat tip tap pin pat slip step ship shop whip chat pot jam tug top blur""".split()
)


def verb_forms(bases: str) -> dict[str, frozenset[str]]:
    """Every form of the verbs in ``bases`` (separated by spaces) with what it is: base, s, ing or past.

    >>> forms = verb_forms("ride stop")
    >>> sorted(forms)
    ['ridden', 'ride', 'rides', 'riding', 'rode', 'stop', 'stopped', 'stopping', 'stops']
    >>> sorted(forms["ridden"])
    ['past']
    """
    forms: dict[str, set[str]] = {}
    for base in bases.split():
        forms.setdefault(base, set()).add("base")
        forms.setdefault(_with_s(base), set()).add("s")
        forms.setdefault(_with_ending(base, "ing"), set()).add("ing")
        for past in _IRREGULAR.get(base, [_with_ending(base, "ed")]) or [base]:
            forms.setdefault(past, set()).add("past")
    return {form: frozenset(kinds) for form, kinds in forms.items()}


def _with_s(base: str) -> str:
    if base.endswith(("s", "x", "z", "ch", "sh", "o")):
        return base + "es"
    if base.endswith("y") and base[-2] not in "aeiou":
        return base[:-1] + "ies"
    return base + "s"


def _with_ending(base: str, ending: str) -> str:
    if base.endswith("ie") and ending == "ing":
        return base[:-2] + "ying"
    if base.endswith("e") and not (ending == "ing" and base.endswith(("ee", "oe", "ye"))):
        return base[:-1] + ending
    if base.endswith("y") and ending == "ed" and base[-2] not in "aeiou":
        return base[:-1] + "ied"
    if base in _DOUBLED:
        return base + base[-1] + ending
    return base + ending
