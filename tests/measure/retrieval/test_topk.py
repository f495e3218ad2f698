"""Top-k and ranks against a plain loop: ties, masks, pools, owners, small blocks, K > N."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from equipoise.errors import InputError, UnknownNameError
from equipoise.measure.groups import Groups, intersect
from equipoise.measure.retrieval import sources, topk
from equipoise.measure.retrieval import sources as pools
from equipoise.measure.retrieval.blocks import Candidates
from equipoise.measure.retrieval.sources import Embeddings, ScoreBlocks, Scores


def brute_top(scores, k, allowed, codes, places):
    rows, left = [], np.zeros((len(scores), int(codes.max()) + 1), dtype=int)
    for i, row in enumerate(scores):
        order = sorted(np.flatnonzero(allowed[i]), key=lambda j: (-row[j], places[j]))
        rows.append([int(j) for j in order[:k]])
        for j in order[k:]:
            if row[j] == row[order[k - 1]]:
                left[i, codes[j]] += 1
    return rows, left


def brute_rank(row, allowed, targets, places):
    best = max(row[t] for t in targets)
    first = min(places[t] for t in targets if row[t] == best)
    rivals = [j for j in np.flatnonzero(allowed) if j not in targets]
    before = sum(1 for j in rivals if row[j] > best or (row[j] == best and places[j] < first))
    return 1 + before, sum(1 for j in rivals if row[j] == best)


@pytest.mark.parametrize("order", ["stable", "reverse"])
@pytest.mark.parametrize("big_pool", [0, 1000])
def test_images_of_one_vector_have_one_score(big_pool, order, monkeypatch):
    """A product of matrices may round its last columns otherwise, which would rank the images of a blind encoder."""
    monkeypatch.setattr(topk, "BLOCK_COLUMNS", 7)
    monkeypatch.setattr(pools, "BIG_POOL", big_pool)
    rng = np.random.default_rng(0)
    for dim in (24, 64, 500):
        queries = rng.normal(size=(9, dim)).astype("f4")
        for n in (2, 13, 30, 53):
            # a pool of one vector, a smaller one of another, and a third of many
            vectors = [np.tile(rng.normal(size=dim), (n, 1)), np.tile(rng.normal(size=dim), (n - 1, 1))]
            vectors.append(rng.normal(size=(n, dim)))
            pool = np.repeat([0, 1, 2], [n, n - 1, n])
            images, asked = np.vstack(vectors).astype("f4"), np.arange(9) % 3
            alone = topk.rank(Embeddings(queries, images[:n]), n, order=order)
            assert (alone.scores == alone.scores[:, :1]).all()
            assert alone.all_equal(np.full(9, n)).all()
            keys = Candidates(query_pool=asked, image_pool=pool)
            apart = topk.rank(Embeddings(queries, images), n, candidates=keys, order=order)
            equal = (asked == 0) | ((asked == 1) & (n > 2))  # one image is no ranking that fails
            assert apart.all_equal(np.bincount(pool)[asked]).tolist() == equal.tolist()
            best = np.where(asked == 2, (queries @ images.T)[:, pool == 2].max(axis=1), 0)
            best += np.where(asked < 2, np.einsum("qd,qd->q", queries, images[np.array([0, n, 0])[asked]]), 0)
            np.testing.assert_allclose(apart.scores[:, 0], best, rtol=1e-4, atol=1e-4)


@settings(deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_every_option_at_once_equals_a_loop(seed):
    rng = np.random.default_rng(seed)
    n_queries, n_images, k = int(rng.integers(1, 8)), int(rng.integers(1, 60)), int(rng.integers(1, 20))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(topk, "BLOCK_COLUMNS", int(rng.integers(1, 20)))
        patch.setattr(sources, "BLOCK_ROWS", int(rng.integers(1, 5)))
        patch.setattr(pools, "BIG_POOL", int(rng.choice([5, 1000])))
        if rng.integers(2):
            scores = rng.integers(0, int(rng.integers(1, 30)), (n_queries, n_images)).astype(rng.choice(["f4", "f8"]))
            source = Scores(scores)
        else:
            # whole numbers: products are exact, so that ties are ties
            queries, images = (rng.integers(-3, 4, (n, 3)).astype("f4") for n in (n_queries, n_images))
            scores, source = queries @ images.T, Embeddings(queries, images)
        allowed = np.ones((n_queries, n_images), dtype=bool)
        keys = {}
        if rng.integers(2):
            keys |= {"query_pool": rng.integers(0, 4, n_queries), "image_pool": rng.integers(0, 3, n_images)}
            allowed &= keys["query_pool"][:, None] == keys["image_pool"]
        if rng.integers(2):
            keys |= {"query_owner": rng.integers(0, 4, n_queries), "image_owner": rng.integers(0, 6, n_images)}
            allowed &= keys["query_owner"][:, None] != keys["image_owner"]
        mask = rng.random(n_images) < 0.6 if rng.integers(2) else None
        codes = rng.integers(0, 3, n_images).astype(np.int32)
        targets = None
        if allowed.any(axis=1).all() and rng.integers(2):
            targets = np.array([[*rng.choice(np.flatnonzero(row), 2), -1] for row in allowed])
        index = np.arange(n_images)
        order, places = [("stable", index), ("reverse", -index), (drawn := rng.permutation(n_images), drawn)][
            int(rng.integers(3))
        ]
        found = topk.scan(
            source,
            [topk.Want(k, mask, codes), topk.Want(3)],
            candidates=Candidates(**keys),
            order=order,
            targets=targets,
        )
    for ranking, limit, may in (
        (found.rankings[0], k, allowed if mask is None else allowed & mask),
        (found.rankings[1], 3, allowed),
    ):
        used = codes if limit == k and ranking is found.rankings[0] else np.zeros_like(codes)
        rows, left = brute_top(scores, limit, may, used, places)
        assert [[j for j in row if j >= 0] for row in ranking.indices.tolist()] == rows
        assert (ranking.lengths == [len(row) for row in rows]).all()
        if ranking.indices.shape[1]:
            assert (ranking.left_out == left).all()
    if targets is not None:
        for i in range(n_queries):
            # the rank of a target goes by index, or by the places given, never by falling index
            by = index if isinstance(order, str) else places
            expected = brute_rank(scores[i], allowed[i], [t for t in targets[i] if t >= 0], by)
            assert (found.ranks[i], found.ties[i]) == expected


def test_many_rows_over_many_blocks_equals_a_full_sort():
    rng = np.random.default_rng(1)
    queries, images = rng.standard_normal((30, 16)), rng.standard_normal((20_000, 16))
    images = images[np.argsort(images @ queries[0])]  # the first query meets ever better images
    ranking = topk.rank(Embeddings(queries, images), 50)
    assert (ranking.indices == np.argsort(-(queries @ images.T), axis=1, kind="stable")[:, :50]).all()


@pytest.mark.parametrize("kind", ["f4", "f8"])
def test_zero_and_minus_zero_are_one_score(kind):
    scores = np.array([[0.0, -0.0, -1e-30, 1e-30, -2.0, -0.0], [-0.0, 0.0, 0.0, -3.0, -np.pi, 5.0]], dtype=kind)
    assert topk.rank(Scores(scores), 6).indices.tolist() == [[3, 0, 1, 5, 2, 4], [5, 0, 1, 2, 3, 4]]


@pytest.mark.parametrize("levels", [0, 40, 2000])
@pytest.mark.parametrize("order", ["stable", "reverse", "places"])
def test_a_wide_first_block_is_thinned_without_losing_anything(levels, order):
    """The threshold of the first block comes from a sample of its columns: columns where the best are all outside the
    sample or all inside it, equal scores (``levels`` of them; 0: none equal), images that may not be kept.
    """
    rng = np.random.default_rng(5)
    scores = rng.standard_normal((9, 3000)) if not levels else rng.integers(0, levels, (9, 3000)).astype(float)
    sampled = np.arange(3000) % 6 == 0
    scores[0, sampled] -= 4000
    scores[1, sampled] += 4000
    scores[2] = np.sort(scores[2])
    scores[3] = 7
    places = rng.permutation(3000) if order == "places" else np.arange(3000) * (-1 if order == "reverse" else 1)
    owners = rng.integers(0, 4, 3000)
    allowed = np.ones(scores.shape, dtype=bool)
    allowed[np.arange(9) % 3 == 0] = owners != 0
    keys = Candidates(image_owner=owners, query_owner=np.where(np.arange(9) % 3 == 0, 0, 9))
    mask, codes = rng.random(3000) < 0.7, rng.integers(0, 3, 3000).astype(np.int32)
    wants = [topk.Want(40, mask, codes), topk.Want(7)]
    found = topk.scan(Scores(scores), wants, candidates=keys, order=places if order == "places" else order)
    for ranking, k, may, used in (
        (found.rankings[0], 40, allowed & mask, codes),
        (found.rankings[1], 7, allowed, codes * 0),
    ):
        rows, left = brute_top(scores, k, may, used, places)
        assert ranking.indices.tolist() == rows
        assert (ranking.left_out == left).all()


def test_many_pools_equal_one_query_at_a_time():
    rng = np.random.default_rng(2)
    queries, images = rng.standard_normal((300, 8)), rng.standard_normal((5000, 8))
    query_pool, image_pool = rng.integers(0, 100, 300), np.sort(rng.integers(0, 100, 5000) ** 2 // 100)
    ranking = topk.rank(Embeddings(queries, images), 12, candidates=Candidates(image_pool, query_pool))
    for i in range(300):
        own = np.flatnonzero(image_pool == query_pool[i])
        best = own[np.argsort(-(images[own] @ queries[i]), kind="stable")][:12]
        assert ranking.indices[i, : len(best)].tolist() == best.tolist()
        assert (ranking.indices[i, len(best) :] == -1).all()
    assert (ranking.lengths < 12).any()


def test_scores_on_demand_are_asked_once_and_in_order():
    matrix = np.random.default_rng(3).random((2500, 40))
    asked = []

    def block(start, stop):
        asked.append((start, stop))
        return matrix[start:stop]

    ranking = topk.rank(ScoreBlocks(2500, 40, block), 5)
    assert asked == [(0, 1024), (1024, 2048), (2048, 2500)]
    assert (ranking.indices == np.argsort(-matrix, axis=1, kind="stable")[:, :5]).all()


def test_memory_mapped_half_precision(tmp_path):
    rng = np.random.default_rng(4)
    images = rng.standard_normal((3000, 8)).astype(np.float16)
    images.tofile(tmp_path / "images.f16")
    mapped = np.memmap(tmp_path / "images.f16", dtype=np.float16, mode="r", shape=images.shape)
    queries = rng.standard_normal((5, 8)).astype(np.float32)
    expected = np.argsort(-(queries @ images.astype(np.float32).T), axis=1, kind="stable")[:, :7]
    assert (topk.rank(Embeddings(queries, mapped), 7).indices == expected).all()


def test_a_target_is_never_ranked_behind_itself_by_rounding():
    rng = np.random.default_rng(5)
    images = rng.standard_normal((9000, 96)).astype(np.float32)
    images /= np.linalg.norm(images, axis=1, keepdims=True)
    targets = rng.integers(0, 9000, 400)
    found = topk.scan(Embeddings(images[targets], images), [], targets=targets)
    assert (found.ranks == 1).all()


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: topk.rank(Scores(np.zeros((2, 3))), 0), "k = 0"),
        (lambda: topk.rank(Scores(np.zeros(3)), 1), r"shape \(3,\)"),
        (lambda: topk.rank(Scores([[1.0, np.nan]]), 1), r"scores\[0, 1\] is not finite"),
        (lambda: topk.rank(Embeddings(np.eye(2), np.full((3, 2), np.nan)), 1), "images: row 0"),
        (lambda: topk.rank(Embeddings(np.full((3, 2), np.inf), np.eye(2)), 1), "queries: row 0"),
        (lambda: Embeddings(np.eye(2), np.eye(3)), "2 dimensions and images 3"),
        (lambda: topk.rank(Scores(np.zeros((2, 3))), 1, mask=[True]), r"mask has shape \(1,\) for 3 images"),
        (lambda: topk.rank(Scores(np.zeros((0, 3))), 1), "0 queries"),
        (lambda: topk.rank(Scores([["a"]]), 1), "give real numbers"),
        (
            lambda: topk.rank(Scores(np.zeros((2, 3))), 1, candidates=Candidates(query_pool=[0, 1])),
            "query_pool was given without image_pool",
        ),
        (
            lambda: topk.rank(Scores(np.zeros((2, 3))), 1, candidates=Candidates([0, 1], [0, 1])),
            r"image_pool has shape \(2,\) for 3 images",
        ),
        (lambda: topk.scan(Scores(np.zeros((1, 3))), [], targets=[7]), "no image 7 among 3"),
        (lambda: topk.scan(Scores(np.zeros((1, 3))), [], targets=[-1]), "query 0: it has none"),
        (lambda: topk.scan(Scores(np.zeros((2, 3))), [], targets=[1]), "for 2 queries"),
        (
            lambda: topk.scan(
                Scores(np.zeros((1, 2))), [], targets=[1], candidates=Candidates(image_pool=[0, 1], query_pool=[0])
            ),
            "image 1 is not in its pool",
        ),
    ],
)
def test_bad_input_is_a_sentence(call, words):
    with pytest.raises(InputError, match=words):
        call()


def test_a_nan_deep_in_a_mapped_file_is_named():
    images = np.zeros((9000, 4), dtype=np.float32)
    images[8123, 2] = np.nan
    with pytest.raises(InputError, match="images: row 8123"):
        topk.rank(Embeddings(np.ones((2, 4), dtype=np.float32), images), 3)


def test_unknown_order():
    with pytest.raises(UnknownNameError, match="stable"):
        topk.rank(Scores([[1.0]]), 1, order="stabel")


class TestGroups:
    def test_intersection_of_three_axes_has_the_product_of_names(self):
        rng = np.random.default_rng(0)
        sizes = {"a": 7, "b": 3, "c": 2}
        axes = [Groups(rng.integers(-1, n, 200), tuple(f"{a}{i}" for i in range(n)), a) for a, n in sizes.items()]
        joint = intersect(*axes)
        assert joint.n_groups == 42
        for i in range(200):
            parts = [axis.names[axis.labels[i]] for axis in axes if axis.labels[i] >= 0]
            expected = joint.names.index(" & ".join(parts)) if len(parts) == 3 else -1
            assert joint.labels[i] == expected

    def test_missing_values_of_every_kind_are_undefined(self):
        pandas = pytest.importorskip("pandas")
        values = pandas.Series(["a", None, float("nan"), pandas.NA, "b"], dtype=object)
        assert Groups.from_values(values).labels.tolist() == [0, -1, -1, -1, 1]

    @pytest.mark.parametrize(
        ("call", "words"),
        [
            (lambda: Groups.from_values(["a", "c"], ["a", "b"]), "no group named 'c'"),
            (lambda: Groups(np.array([0, 2]), ("a", "b")), r"labels\[1\] = 2"),
            (lambda: Groups(np.array([0.5]), ("a",)), "float64"),
            (lambda: Groups(np.array([0]), ("a", "a")), "'a' twice"),
            (lambda: Groups(np.array([0]), ()), "names is empty"),
            (lambda: Groups(np.array([0, 0]), ("a",)).check_length(3), "2 entries for 3 images"),
            (
                lambda: intersect(Groups(np.array([0]), ("a",), "x"), Groups(np.array([0, 0]), ("b",), "y")),
                "axis 'y' has 2 labels and 'x' has 1",
            ),
            (intersect, "at least one axis"),
        ],
    )
    def test_bad_groups_are_a_sentence(self, call, words):
        with pytest.raises(InputError, match=words):
            call()


def test_block_of_another_shape_is_refused():
    with pytest.raises(InputError, match=r"expected \(2, 3\)"):
        topk.rank(ScoreBlocks(2, 3, lambda a, b: np.zeros((b - a, 4))), 1)
