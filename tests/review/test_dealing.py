"""Who looks at what: overlap by design, even loads, orders of one's own."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from equipoise.review.dealing import dealt, place_of


@given(
    n=st.integers(0, 40),
    people=st.integers(1, 7),
    shared=st.integers(0, 10),
    raters=st.integers(1, 4),
    seed=st.integers(0, 9),
)
def test_everybody_gets_the_shared_items_and_the_rest_is_spread_evenly(n, people, shared, raters, seed):
    names = [f"p{i}" for i in range(people)]
    common = set(range(min(n, shared)))
    given_out = dealt(list(range(n)), names, {}, shared=common, raters=raters, seed=seed)
    counts = Counter(item for those in given_out.values() for item in those)
    for item in range(n):
        assert counts[item] == (people if item in common else min(raters, people))
    loads = [len(those) for those in given_out.values()]
    assert max(loads) - min(loads) <= 1
    assert all(len(set(those)) == len(those) for those in given_out.values())


@given(st.data())
def test_what_somebody_has_begun_is_not_given_to_too_many(data):
    held = {name: data.draw(st.sets(st.integers(0, 15))) for name in ("ana", "ben", "gone")}
    given_out = dealt(list(range(16)), ["ana", "ben"], held, shared=[0, 1], raters=2)
    for name, those in given_out.items():
        assert not held[name] & set(those)
        assert {0, 1} <= held[name] | set(those)
    for item in range(2, 16):
        begun = sum(item in those for those in held.values())
        new = sum(item in those for those in given_out.values())
        possible = sum(item not in held[name] for name in ("ana", "ben"))
        assert new == min(max(0, 2 - begun), possible)


def test_orders_differ_between_people_and_stay():
    def order(name):
        return sorted(range(30), key=lambda item: place_of(0, name, item))

    assert order("ana") != order("ben") != list(range(30))
    assert order("ana") == order("ana")
