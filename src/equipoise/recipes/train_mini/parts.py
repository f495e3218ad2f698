"""The miniatures by name, and how to make one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from equipoise.errors import InputError, UnknownNameError

__all__ = ["PARTS", "Part", "train"]


@dataclass(frozen=True)
class Part:
    """One miniature: what it is and the world it learns from."""

    name: str
    about: str
    world: str


PARTS = {
    part.name: part
    for part in (
        Part("clip", "A CLIP trained on the biased world.", "biased"),
        Part("clip-fair", "The same, trained on the fair world: the control.", "fair"),
        Part("captioner", "A captioner trained on captions of the biased world.", "biased"),
        Part("judge", "A classifier of every attribute, for evaluation only.", "fair"),
    )
}


def train(
    name: str,
    folder: Path,
    target: Path,
    say: Callable[[str], None] = print,
    *,
    stop_at: int | None = None,
    strength: float | None = None,
) -> None:
    """Train the part ``name``: checkpoints in ``folder``, the finished model in ``target``.

    ``strength`` makes the part's world lean more or less than it does.
    """
    from equipoise.world import preset

    if name not in PARTS:
        raise UnknownNameError("miniature", name, PARTS)
    world = preset(PARTS[name].world)
    if strength is not None:
        if name == "judge":
            raise InputError("the judge learns from the fair world alone; strength does not apply to it")
        world = world.changed(strength=strength)
    if name in ("clip", "clip-fair"):
        from equipoise.recipes.train_mini.clip import train_clip

        train_clip(world, folder, target, say, stop_at)
    elif name == "captioner":
        from equipoise.recipes.train_mini.captioner import train_captioner

        train_captioner(world, folder, target, say, stop_at)
    elif name == "judge":
        from equipoise.recipes.train_mini.judge import train_judge

        train_judge(folder, target, say, stop_at)
