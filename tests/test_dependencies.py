"""What is installed for the tests is pinned, all the way down, and no pin is below the range of the package."""

from __future__ import annotations

import importlib.metadata
import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

ROOT = Path(__file__).parents[1]


def name_of(text: str) -> str:
    return re.sub(r"[-_.]+", "-", text).lower()


@pytest.fixture(scope="module")
def pins() -> dict[str, Version]:
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    pairs = [line.split("==") for line in lines if line and not line.startswith("#")]
    return {name_of(name): Version(version) for name, version in pairs}


@pytest.fixture(scope="module")
def wanted() -> list[Requirement]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"].values()
    return [Requirement(line) for line in [*project["dependencies"], *(line for extra in extras for line in extra)]]


def test_every_dependency_is_pinned_within_its_range(wanted: list[Requirement], pins: dict[str, Version]) -> None:
    for requirement in wanted:
        assert name_of(requirement.name) in pins, requirement
        assert requirement.specifier.contains(pins[name_of(requirement.name)]), requirement


def test_what_they_need_in_turn_is_pinned(wanted: list[Requirement], pins: dict[str, Version]) -> None:
    todo, seen = list(wanted), set()
    while todo:
        requirement = todo.pop()
        key = (name_of(requirement.name), tuple(sorted(requirement.extras)))
        if key in seen:
            continue
        seen.add(key)
        assert key[0] in pins, f"{requirement} is not pinned"
        try:
            needs = importlib.metadata.distribution(requirement.name).requires or []
        except importlib.metadata.PackageNotFoundError:
            continue  # of an extra that is not installed here
        for need in map(Requirement, needs):
            extras = requirement.extras or {""}
            if need.marker is None or any(need.marker.evaluate({"extra": extra}) for extra in extras):
                todo.append(need)
    assert len(seen) > 50


@pytest.mark.parametrize(
    ("package", "least"),
    [
        ("pillow", "12.3"),  # CVE-2026-25990, CVE-2026-59205
        ("jinja2", "3.1.6"),  # CVE-2025-27516
        ("scikit-learn", "1.5"),  # CVE-2024-5206
        ("tqdm", "4.66.3"),  # CVE-2024-34062
        ("torch", "2.11"),  # CVE-2025-32434, CVE-2026-24747, CVE-2026-4538
        ("transformers", "5.17"),  # CVE-2026-4372, CVE-2026-5241, CVE-2026-9856
        ("diffusers", "0.38"),  # CVE-2026-44513, CVE-2026-44827
        ("ray", "2.56"),  # CVE-2026-32981, CVE-2026-57516
        ("starlette", "1.3.1"),  # CVE-2026-48710, CVE-2026-54283
    ],
)
def test_the_lowest_version_has_no_published_hole(package: str, least: str, wanted: list[Requirement]) -> None:
    (requirement,) = [one for one in wanted if name_of(one.name) == package]
    (lowest,) = [Version(part.version) for part in requirement.specifier if part.operator == ">="]
    assert lowest >= Version(least)
