"""Who looks at what, and in which order: overlap by design, and an order of one's own for everybody.

Items that everybody sees (shared ones, and the hidden gold) make agreement measurable; every other item goes to
``raters`` people, so that all have about as much to do. Dealing again, when somebody comes or leaves, moves only
what nobody has begun.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Collection, Mapping, Sequence


def place_of(seed: int, annotator: str, item: object) -> int:
    """Where an item stands in the order of this annotator: a random number that is the same each time.

    >>> sorted(range(5), key=lambda item: place_of(0, "ana", item)) != list(range(5))
    True
    """
    key = f"{seed}\x1f{annotator}\x1f{item}".encode()
    return int.from_bytes(hashlib.sha256(key).digest()[:7], "big")


def dealt(
    items: Sequence[int],
    people: Sequence[str],
    held: Mapping[str, Collection[int]],
    *,
    shared: Collection[int] = (),
    raters: int = 1,
    seed: int = 0,
) -> dict[str, list[int]]:
    """The items that each of the ``people`` still has to be given; ``held`` are those that somebody has begun or done.

    Everyone gets every ``shared`` item; any other goes to those who have least, until ``raters`` people have it.

    >>> dealt([1, 2, 3, 4], ["ana", "ben"], {}, shared=[1])
    {'ana': [1, 2, 4], 'ben': [1, 3]}
    >>> dealt([1, 2], ["ana", "ben"], {"ana": [1], "gone": [2]})
    {'ana': [], 'ben': []}
    """
    everybody = set(shared)
    have = {name: set(held.get(name, ())) for name in people}
    new: dict[str, list[int]] = {name: sorted(everybody - have[name]) for name in people}
    load = {name: len(have[name]) + len(new[name]) for name in people}
    begun = Counter(item for those in held.values() for item in those)
    for item in sorted((i for i in items if i not in everybody), key=lambda i: place_of(seed, "", i)):
        willing = sorted((n for n in people if item not in have[n]), key=lambda n: (load[n], place_of(seed, n, "")))
        for name in willing[: max(0, raters - begun[item])]:
            new[name].append(item)
            load[name] += 1
    return {name: sorted(those) for name, those in new.items()}
