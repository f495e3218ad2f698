"""Makes sets in child processes that die at named moments; started by test_jobs, once for all of them.

Arguments: a folder and the moments. Each moment gets a table of its own, killed there and then finished.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path
from typing import Any


def helpers() -> Any:
    place = Path(__file__).with_name("conftest.py")
    spec = importlib.util.spec_from_file_location("generate_conftest", place)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def make(out: Path, found: Any) -> None:
    from equipoise.generate import SetsConfig, plan_sets, run

    plan = plan_sets(found.doctor_sets("doctor", "nurse"), SetsConfig(candidates=3, batch_size=5))
    run(plan, out, found.Painter(fails_on="Latino female nurse"), tasks_per_shard=2, progress=False)


def child(out: Path, moment: str, found: Any) -> int:
    pid = os.fork()
    if pid == 0:
        os.environ["EQUIPOISE_FAILPOINT"] = moment
        try:
            make(out, found)
        except BaseException as error:
            print(error, file=sys.stderr)
            os._exit(1)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


if __name__ == "__main__":
    import equipoise.data.validation
    import equipoise.engine.mapping
    import equipoise.generate.jobs
    import equipoise.generate.sets  # noqa: F401

    folder, *moments = sys.argv[1:]
    loaded = helpers()
    for moment in moments:
        target = Path(folder) / moment.replace(":", "-")
        print(moment, child(target, moment, loaded), child(target, "", loaded), flush=True)
