"""The captioners of the study: of worlds of other strengths, and of the Gender Equalizer beside a plain twin."""

from __future__ import annotations

from pathlib import Path

from equipoise.models.miniatures import FOLDER
from equipoise.recipes.studies.frame import StepCost, StudyHome, StudyStep
from equipoise.train.fitting import fit
from equipoise.train.schedule import Schedule
from equipoise.world import preset

STRENGTHS = ("0", "1", "2")
SHIPPED = {"1": "mini:captioner"}
TUNED = {"plain": "by cross-entropy alone", "equalizer": "by the Gender Equalizer's losses, weights 10, 1 and 1"}
"""The captioner of strength 2 taught on by another loss, on the same pictures for the same number of steps."""
SCHEDULE = Schedule(steps=150, batch=128, rate=1e-3, warmup=20)
PICTURES, STEPS = 1500, 50


def captioner_spec(home: StudyHome, name: str) -> str:
    """The model of this name, as ``load`` takes it."""
    if name in SHIPPED:
        return SHIPPED[name]
    return f"hf:{home.step(f'captioner-{name}') / ('run' if name in TUNED else 'model')}"


def captioner_step(strength: str) -> StudyStep:
    """A captioner that goes on from ``mini:captioner``, of strength 1, in a world of another strength."""

    def work(home: StudyHome, out: Path) -> None:
        from equipoise.recipes.train_mini.captioner import train_captioner
        from equipoise.recipes.train_mini.parts import Lesson

        world = preset("biased").changed(strength=float(strength))
        lesson = Lesson(world, out / "_work", out / "model", home.say, start=FOLDER / "captioner")
        train_captioner(lesson, SCHEDULE)

    title = f"A captioner of a world of strength {strength}"
    settings = {"strength": strength, "steps": SCHEDULE.steps, "batch": SCHEDULE.batch, "rate": SCHEDULE.rate}
    cost = StepCost(("mini:captioner",), cpu_minutes=2.5)
    return StudyStep(f"captioner-{strength}", title, work, settings, (), True, cost)


def tuned_steps() -> list[StudyStep]:
    """Pictures with their people outlined, and the captioner of strength 2 taught on by each loss."""

    def pictures(home: StudyHome, out: Path) -> None:
        from equipoise.recipes.train_mini.captioner import NAMED
        from equipoise.world.tables import write_table

        world = preset("biased").changed(strength=2.0, mention=NAMED, markedness={})
        write_table(out / "table", world, PICTURES, seed=700)

    title = "Pictures of a world of strength 2, their people outlined"
    cost = StepCost(images=PICTURES, cpu_minutes=0.3, disk_gb=0.02)
    first = StudyStep("outlined", title, pictures, {"n": PICTURES}, (), False, cost)
    return [first, *(_tuned(loss, about) for loss, about in TUNED.items())]


def _tuned(loss: str, about: str) -> StudyStep:
    def work(home: StudyHome, out: Path) -> None:
        fit(
            "captioner",
            home.step("outlined") / "table",
            out / "run",
            init=captioner_spec(home, "2"),
            options={"caption": "captions", "loss": loss},
            steps=STEPS,
            batch=48,
            rate=5e-4,
            val_share=0.0,
            save_every=25,
            device="cpu",
            quiet=True,
        )

    title = f"The captioner of strength 2 taught on {about}"
    settings = {"loss": loss, "steps": STEPS}
    cost = StepCost(("captioner-2",), cpu_minutes=0.9 if loss == "equalizer" else 0.5)
    return StudyStep(f"captioner-{loss}", title, work, settings, ("outlined", "captioner-2"), True, cost)
