import pytest
from tests.models.conftest import blip2_folder, clipcap_folder, tiny_checkpoint

__all__ = ["blip2_folder", "clipcap_folder", "tiny_checkpoint"]


@pytest.fixture(scope="session")
def world_sets(tmp_path_factory):
    """Counterfactual sets of the world: five subjects, two sets of six images each."""
    from equipoise.world import preset
    from equipoise.world.tables import write_counterfactual_table

    folder = tmp_path_factory.mktemp("train") / "sets"
    subjects = ["chef", "nurse", "pilot", "farmer", "teacher"]
    return write_counterfactual_table(folder, preset("fair"), 2, subjects=subjects, seed=5)
