import os
from pathlib import Path

import pytest
from hypothesis import settings

# The same examples in every run, so that a failure is a change of the code and not of the dice; `make test-all` (or
# EQUIPOISE_RANDOM=1) throws them anew.
settings.register_profile("repeatable", derandomize=True, deadline=None, database=None)
settings.register_profile("random", deadline=None)
settings.load_profile("random" if os.environ.get("EQUIPOISE_RANDOM") else "repeatable")

SHARED = Path(__file__).resolve().parents[2] / "shared" / "data"


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Public data of the papers, beside the checkout where the project is developed; not part of the repository."""
    if not SHARED.is_dir():
        pytest.skip("the papers' public data is not on this machine")
    return SHARED


@pytest.fixture(scope="session")
def coco_captions(shared_data: Path) -> dict:
    import json

    path = shared_data / "coco" / "captions_val2017.json"
    if not path.exists():
        pytest.skip("COCO val2017 captions are not on this machine")
    return json.loads(path.read_text(encoding="utf-8"))
