"""What every remedy must hold to, as checks that anyone can run on their own.

In pytest, one test for each check::

    import pytest
    from equipoise.mitigate.conformance import CHECKS, run_check

    @pytest.mark.parametrize("check", CHECKS)
    def test_my_remedy(check):
        run_check(check, MyRemedy)

or, for a registered one, ``equipoise mitigate check NAME``. The checks fit the remedy on a small made-up table, whose
vectors lean by group and subject. One of them changes everything about the held-out subjects, their vectors, labels and
number, and fits again: a remedy that looks at them gives itself away by learning something else.
"""

from __future__ import annotations

import atexit
import hashlib
import shutil
import tempfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from equipoise.data import Table
from equipoise.errors import InputError
from equipoise.mitigate.catalog import REMEDIES
from equipoise.mitigate.fitting import fit_on_table
from equipoise.mitigate.keeping import load, packed, save, unpacked
from equipoise.mitigate.protocol import Queries
from equipoise.mitigate.wrapping import repaired

Make = Callable[[], Any]
D = 24
FITTED = tuple(f"job{i}" for i in range(5))
HELD_OUT = ("apart0", "apart1", "apart2")
GROUPS = {"gender": ("female", "male")}
_SETS = 8
_AWAY = 1e-5


class ConformanceError(AssertionError):
    """What a remedy does that it must not, in one sentence."""


@dataclass(frozen=True)
class Checked:
    """One check and how it went."""

    name: str
    what: str
    problem: str = ""
    """Empty where it passed."""


class PlantedVectors:
    """Vectors of made-up images and texts; ``planted`` changes those of the held-out subjects out of recognition."""

    def __init__(self, *, planted: bool = False, width: int = D, key: str = "planted") -> None:
        self.name, self.key, self.planted, self.width = "planted vectors", key, planted, width
        self.asked: set[str] = set()

    def image_vectors(self, ids: Sequence[str]) -> NDArray[np.float32]:
        """(n, d) a base for each subject and set, and the group's own direction."""
        self.asked |= set(ids)
        return np.stack([self._image(name) for name in ids]).astype(np.float32)

    def text_vectors(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """(m, d) from the words of each text, so that texts that differ in a group differ in little else."""
        rows = [sum((self._draw(word) for word in text.lower().split()), np.zeros(self.width)) for text in texts]
        return np.stack(rows).astype(np.float32)

    def _image(self, name: str) -> NDArray[np.float64]:
        subject, number, group = name.rsplit("-", 2)
        lean = 1.0 if group == "female" else -1.0
        base = 1.5 * self._draw(subject) + 0.4 * self._draw(f"{subject}-{number}") + 0.02 * self._draw(name)
        if self.planted and subject in HELD_OUT:
            return base + 5 * lean * self._draw("a direction that only held-out subjects have")
        return base + 0.5 * lean * self._draw("the direction of gender")

    def _draw(self, name: str) -> NDArray[np.float64]:
        seed = int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8).digest(), "big")
        return np.random.default_rng(seed).normal(size=self.width)


def planted_table(folder: Path, *, planted: bool = False) -> Table:
    """Sets of images of all subjects; ``planted`` gives the held-out ones more sets and turns their labels round."""
    rows = []
    for subject in (*FITTED, *HELD_OUT):
        apart = planted and subject in HELD_OUT
        for number in range(2 * _SETS if apart else _SETS):
            for group, other in (("female", "male"), ("male", "female")):
                name = f"{subject}-{number}-{group}"
                row = {"image_id": name, "set_id": f"{subject}-{number}", "subject": subject}
                rows.append({**row, "gender": other if apart else group})
    return Table.create(folder, rows, axes=["gender"])


def check(make: str | Make) -> list[Checked]:
    """All checks on a remedy: a registered name, or what makes one (a class, or a function without arguments)."""
    if isinstance(make, str):
        REMEDIES.get(make)  # a name that nothing is registered under is a mistake, not a remedy that fails its checks
    results = []
    for name, function in CHECKS.items():
        problem = ""
        try:
            run_check(name, make)
        except ConformanceError as error:
            problem = str(error)
        results.append(Checked(name, (function.__doc__ or "").strip().splitlines()[0], problem))
    return results


def run_check(name: str, make: str | Make) -> None:
    """One check; a :class:`ConformanceError` says what is wrong."""
    try:
        CHECKS[name](remedy_maker(make))
    except ConformanceError:
        raise
    except Exception as error:  # somebody's own code may fail in any way; the check says so in a sentence
        raise ConformanceError(f"{name}: it fails with {type(error).__name__}: {error}") from error


def remedy_maker(make: str | Make) -> Make:
    """What makes a fresh remedy; for a registered one with the settings that its entry names for checks."""
    if not isinstance(make, str):
        return make
    entry = REMEDIES.get(make)
    maker = entry.load()
    return lambda: maker(**entry.info.get("check_with", {}))


def _fitted(make: Make, *, planted: bool = False, model: PlantedVectors | None = None) -> Any:
    asked = model or PlantedVectors(planted=planted)
    fitted = fit_on_table(make(), asked, _table(planted), list(GROUPS), held_out=HELD_OUT)
    _want(fitted is not None and fitted.fitted_on is not None, "fit leaves fitted_on empty; record what it has seen")
    return fitted


@cache
def _table(planted: bool) -> Table:
    """The table, made once and gone with the process."""
    folder = tempfile.mkdtemp(prefix="equipoise-check-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return planted_table(Path(folder) / "sets", planted=planted)


def _images(seed: int, n: int = 40, width: int = D) -> NDArray[np.float32]:
    return np.random.default_rng(seed).normal(size=(n, width)).astype(np.float32)


def _applied(remedy: Any, rows: NDArray[Any], side: str) -> NDArray[Any]:
    """What the remedy makes of vectors; of one for rankings, their order for a made-up query."""
    if hasattr(remedy, "transform"):
        return np.asarray(remedy.transform(rows, side))
    return np.asarray(remedy.rerank(_images(9, 3, len(rows)), rows))


def _want(holds: bool | np.bool_, otherwise: str) -> None:
    if not holds:
        raise ConformanceError(otherwise)


def shapes(make: Make) -> None:
    """One row for each vector, the same width for images and texts, and none for none."""
    remedy = _fitted(make)
    rows = _images(1)
    if not hasattr(remedy, "transform"):
        order = _applied(remedy, rows, "image")
        _want((np.sort(order, axis=1) == np.arange(len(rows))).all(), "rerank drops or repeats images")
        return
    images, texts = (_applied(remedy, rows, side) for side in ("image", "text"))
    for side, out in (("image", images), ("text", texts)):
        _want(out.ndim == 2 and len(out) == len(rows), f"transform gives shape {out.shape} for {rows.shape} ({side})")
        _want(out.dtype == np.float32, f"transform gives {out.dtype}, not float32 ({side})")
    _want(images.shape == texts.shape, f"images become {images.shape} and texts {texts.shape}: they cannot be compared")
    single = _applied(remedy, rows[:1], "image")
    _want(single.shape == (1, images.shape[1]), f"transform gives shape {single.shape} for one vector")


def unit_length(make: Make) -> None:
    """Vectors of unit length come out, also of vectors that are not."""
    remedy = _fitted(make)
    if not hasattr(remedy, "transform"):
        return
    for side in ("image", "text"):
        lengths = np.linalg.norm(_applied(remedy, 7 * _images(2), side), axis=1)
        _want(np.allclose(lengths, 1, atol=1e-4), f"lengths from {lengths.min():.3f} to {lengths.max():.3f} ({side})")


def no_nan(make: Make) -> None:
    """Numbers come out, and what is no number is refused."""
    remedy = _fitted(make)
    for side in ("image", "text"):
        _want(np.isfinite(_applied(remedy, _images(3), side)).all(), f"NaN or infinity comes out ({side})")
        bad = _images(3)
        bad[4, 2] = np.nan
        _refused(partial(_applied, remedy, bad, side), "takes NaN without a word")


def deterministic(make: Make) -> None:
    """Fitted twice on the same, it does the same, and fitting does not depend on the order of calls."""
    first = _fitted(make)
    np.random.default_rng().normal(size=100)
    second = _fitted(make)
    for side in ("image", "text"):
        rows = _images(4)
        a, b = (_applied(remedy, rows, side) for remedy in (first, second))
        _want(
            np.array_equal(a, b), f"fitted twice on the same vectors it differs by {np.abs(a - b).max():.2g} ({side})"
        )
        _want(np.array_equal(a, _applied(first, rows, side)), f"the second call of transform differs ({side})")


def row_by_row(make: Make) -> None:
    """What becomes of a vector does not depend on the others it comes with: those of an evaluation teach it nothing."""
    remedy = _fitted(make)
    if not hasattr(remedy, "transform"):
        return
    rows = _images(5)
    for side in ("image", "text"):
        together = _applied(remedy, rows, side)[:8]
        alone = np.concatenate([_applied(remedy, rows[i : i + 1], side) for i in range(8)])
        lopsided = _applied(remedy, np.concatenate([rows[:8], rows[:1].repeat(200, axis=0)]), side)[:8]
        for other in (alone, lopsided):
            away = float(np.abs(together - other).max())
            _want(
                away < _AWAY,
                f"a vector becomes another one in other company (by {away:.2g}, {side}): it learns at test time",
            )


def save_and_load(make: Make) -> None:
    """Kept and loaded again it does the same, and says the same of what it has seen."""
    remedy = _fitted(make)
    again = type(remedy)(**remedy.settings())
    _want(again.settings() == remedy.settings(), "the settings that it gives do not make the same remedy")
    again.restore(unpacked(packed(remedy)), remedy.fitted_on)
    copies = [again]
    if remedy.name in REMEDIES:
        with tempfile.TemporaryDirectory(prefix="equipoise-check-") as folder:
            save(remedy, Path(folder) / "kept")
            copies.append(load(Path(folder) / "kept"))
    rows = _images(6)
    for copy in copies:
        _want(copy.fitted_on == remedy.fitted_on, "what it was fitted on is lost on the way through a folder")
        for side in ("image", "text"):
            _want(
                np.array_equal(_applied(copy, rows, side), _applied(remedy, rows, side)), f"loaded, it differs ({side})"
            )


def other_models(make: Make) -> None:
    """Vectors of another model are refused."""
    remedy = _fitted(make)
    for side in ("image", "text"):
        _refused(
            partial(_applied, remedy, _images(7, width=D + 1), side),
            f"takes vectors of another width ({side})",
        )
    if hasattr(remedy, "transform"):
        _refused(lambda: repaired(PlantedVectors(key="another"), remedy), "stands behind another model without a word")


def held_out(make: Make) -> None:
    """It does not look at held-out subjects: with other vectors, labels and numbers of them it learns the same."""
    model = PlantedVectors()
    remedy = _fitted(make, model=model)
    seen = sorted({name.rsplit("-", 2)[0] for name in model.asked} & set(HELD_OUT))
    _want(not seen, f"it asks for vectors of held-out subjects: {', '.join(seen)}")
    _want(not set(remedy.fitted_on.subjects) & set(HELD_OUT), "it records held-out subjects as seen")
    planted = _fitted(make, planted=True)
    rows = _images(8)
    for side in ("image", "text"):
        a, b = (_applied(fitted, rows, side) for fitted in (remedy, planted))
        _want(
            a.shape == b.shape and np.allclose(a, b, atol=_AWAY),
            f"with other held-out subjects it learns something else ({side}): it looks at them",
        )
    for name, array in remedy.state().items():
        other = planted.state().get(name)
        _want(
            other is not None and array.shape == other.shape and np.allclose(array, other, atol=_AWAY),
            f"with other held-out subjects its state {name!r} differs: it looks at them",
        )


def refuses_before_fitting(make: Make) -> None:
    """Before it is fitted it changes nothing, and says so."""
    _refused(lambda: _applied(make(), _images(1), "image"), "works before it is fitted")


def takes_queries(make: Make) -> None:
    """What is known of the texts may be given, and an unknown side is refused."""
    remedy = _fitted(make)
    if not hasattr(remedy, "transform"):
        return
    texts = ["a photo of a nurse", "a photo of a female nurse"]
    out = np.asarray(remedy.transform(PlantedVectors().text_vectors(texts), "text", Queries(texts)))
    _want(len(out) == 2 and bool(np.isfinite(out).all()), "transform does not take the texts of queries")
    _refused(lambda: remedy.transform(_images(1), "sound"), "takes a side that there is not")


def _refused(call: Callable[[], Any], otherwise: str) -> None:
    """``call`` must end in an :class:`InputError`, the error that users are shown as a sentence."""
    with suppress(InputError):
        call()
        raise ConformanceError(f"it {otherwise}")


CHECKS: dict[str, Callable[[Make], None]] = {
    "shapes": shapes,
    "unit_length": unit_length,
    "no_nan": no_nan,
    "deterministic": deterministic,
    "row_by_row": row_by_row,
    "save_and_load": save_and_load,
    "other_models": other_models,
    "held_out": held_out,
    "refuses_before_fitting": refuses_before_fitting,
    "takes_queries": takes_queries,
}
"""The checks, by name."""
