"""The demonstration's fine-tuned model: ``mini:clip`` after counterfactual fine-tuning on half of the occupations.

Training it takes a few minutes, so its weights come with the package. Fine-tuning changed the encoder of texts alone:
what is kept is that encoder, in half precision and under 1 MB, with the fingerprint of the ``mini:clip`` that it
belongs to and the occupations that it has seen. :func:`write_tuned` makes an ordinary checkpoint of the two.

Made by ``python -m equipoise.recipes.demo_tuned FOLDER``, with the settings of ``docs/mitigate.md`` that were chosen on
other splits, on every second occupation: the demonstration judges by the others.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from equipoise.data import Table
from equipoise.data.atomic import write_whole
from equipoise.data.runs import claimed, read_run
from equipoise.errors import InputError
from equipoise.models.folders import Checkpoint, key_of, open_checkpoint
from equipoise.models.miniatures import FOLDER

BASE = "mini:clip"
KEPT = Path(__file__).parent / "tuned_clip"
"""Where the package keeps it."""
CHANGED, ABOUT = "changed.safetensors", "about.json"
SETTINGS = {"steps": 150, "batch": 36, "rate": 5e-4, "weight_decay": 0.0, "val_share": 0.0, "seed": 0}
IMAGES = 4000


def judged_by(table: Table) -> list[str]:
    """The occupations that no remedy of the demonstration has seen: every second one."""
    return [str(name) for name in sorted(table.to_pandas(["subject"])["subject"].unique())[::2]]


def write_tuned(out: Path, kept: Path = KEPT) -> Path:
    """Write the fine-tuned model into the folder ``out``, which ``hf:<out>`` opens and which says what it has seen."""
    from safetensors.torch import load_file

    from equipoise.models.hf.checkpoint import image_processor, stock_model, tokenizer
    from equipoise.models.runtime import quiet
    from equipoise.train.task import save_stock

    base = _base()
    about = json.loads((kept / ABOUT).read_text(encoding="utf-8"))
    if about["base"] != _key(base):
        raise InputError(f"{kept}: was fine-tuned from another {BASE}; make it again with: {about['made_by']}")
    with quiet():
        model = stock_model(base, "CLIPModel")
    changed = {name: value.float() for name, value in load_file(kept / CHANGED).items()}
    model.load_state_dict({**model.state_dict(), **changed})
    with claimed(out, "training", of={"task": "counterfactual-finetune", "init": about["base"]}) as home:
        save_stock(model, home.stage, tokenizer(base), image_processor(base))
        home.publish(init=BASE, fitted_on=about["fitted_on"])
    return home.folder


def keep_changes(tuned: Path, out: Path) -> Path:
    """Keep in ``out`` the weights in which the fine-tuned checkpoint ``tuned`` differs from its base."""
    import torch
    from safetensors.torch import load_file, save

    old = {name: value for path in _base().weights for name, value in load_file(path).items()}
    new = load_file(tuned / "model.safetensors")
    changed = {name: value.half() for name, value in new.items() if not torch.equal(value, old[name].float())}
    run = read_run(tuned, "training", "fitted_on")
    about = {
        "base": _key(_base()),
        "made_by": "python -m equipoise.recipes.demo_tuned FOLDER",
        "settings": run.settings,
        "fitted_on": run.about["fitted_on"],
    }
    out.mkdir(parents=True, exist_ok=True)
    write_whole(out / CHANGED, save(changed))
    write_whole(out / ABOUT, (json.dumps(about, indent=1, sort_keys=True) + "\n").encode())
    return out


def make_tuned(out: Path) -> Path:
    """Render sets of the world, fine-tune on every second occupation, and keep what changed in ``out/kept``."""
    from equipoise.mitigate.finetune import finetune
    from equipoise.world import preset
    from equipoise.world.tables import write_counterfactual_table

    world = preset("fair")  # as: equipoise world render sets --counterfactual -n 4000
    n_sets = IMAGES // (6 * len(world.occupations))
    table = write_counterfactual_table(out / "sets", world, n_sets, seed=0)
    done = finetune(
        BASE, table, ["gender"], out / "tuned", held_out=judged_by(table), caption="captions", settings=SETTINGS
    )
    return keep_changes(done.trained.folder, out / "kept")


def _base() -> Checkpoint:
    return open_checkpoint(FOLDER / BASE.partition(":")[2])


def _key(base: Checkpoint) -> str:
    return key_of(base.model_type, base.weights, base.config)


def main(arguments: list[str]) -> Any:
    """``python -m equipoise.recipes.demo_tuned FOLDER``."""
    if len(arguments) != 1:
        raise SystemExit("give the folder to work in: python -m equipoise.recipes.demo_tuned FOLDER")
    print(make_tuned(Path(arguments[0])))


if __name__ == "__main__":
    main(sys.argv[1:])
