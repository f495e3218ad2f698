"""What a miniature's figures must reach before it ships."""

from __future__ import annotations

__all__ = ["is_met", "wanted"]

_CLIP = {f"zero-shot {axis}": ">= 0.95" for axis in ("gender", "skin_tone", "age", "occupation", "scene")}
_FAST = {"seconds an image": "<= 0.5"}
_CHANGED = {"gender": ">= 0.9", "skin_tone": ">= 0.8", "scene kept": ">= 0.98", "changed outside": "<= 0"}
_WANTED = {
    "clip": {**_CLIP, "gap-odds correlation": ">= 0.95"},
    "clip-fair": {
        **_CLIP,
        "gap-odds slope low": "<= 0",
        "gap-odds slope high": ">= 0",
        "gap-odds slope over clip's": "<= 0.1",
    },
    "judge": dict.fromkeys(
        ("gender", "skin_tone", "age", "occupation", "activity", "scene", "people", "objects"), ">= 0.98"
    ),
    "captioner": {"occupation": ">= 0.9", "scene": ">= 0.9"},
    "vae": {"PSNR": ">= 28"},
    "diffusion": {
        "gender": ">= 0.95",
        "skin_tone": ">= 0.85",
        "occupation": ">= 0.85",
        "scene": ">= 0.98",
        **_FAST,
    },
    "diffusion-biased": {"skew-odds correlation": ">= 0.9", **_FAST},
    "inpaint": _CHANGED,
    "edit": _CHANGED,
    "detector": {"class-set F1": ">= 0.9", "person-box F1": ">= 0.9"},
    "safety": {"recall at 1% false alarms": ">= 0.95"},
    "text": {
        "top-5 where determined": ">= 0.8",
        "occupations among the top 5": ">= 0.8",
        "skew-odds correlation": ">= 0.9",
    },
}


_SECOND = {"vae": {"PSNR": ">= 31"}}
"""What the second edition of a part must reach, where that is more."""


def wanted(part: str, edition: str = "first") -> dict[str, str]:
    """The rule of each figure that has one.

    >>> wanted("judge")["age"], wanted("vae", "second")["PSNR"]
    ('>= 0.98', '>= 31')
    """
    return {**_WANTED.get(part, {}), **(_SECOND.get(part, {}) if edition == "second" else {})}


def is_met(rule: str, value: float) -> bool:
    """Whether ``value`` keeps a rule.

    >>> is_met(">= 0.95", 0.97), is_met("<= 0", 0.1)
    (True, False)
    """
    sign, limit = rule.split()
    return value >= float(limit) if sign == ">=" else value <= float(limit)
