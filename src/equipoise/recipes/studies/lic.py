"""LIC as a study: how much captioning models amplify what human captions give away of perceived gender and skin tone.

With the captions of the paper's models (``--from DIR``, one ``gender_MODEL.jsonl`` or ``skin_MODEL.jsonl`` each and
``human_captions.jsonl``) the tables are the paper's. The scores of the paper's LSTM classifiers on these captions,
about ten hours of one core, are kept in the package under fingerprints of all that they depend on, so that nobody has
to train them again; captions that are not known are trained on at scale ``full`` only. A linear screen reads the same
captions in minutes. Without captions the study runs on the pictogram world and its captioner.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path

from equipoise.audit.captions.run import audit_captions
from equipoise.audit.captions.settings import CaptionSettings
from equipoise.data import Table
from equipoise.data.atomic import sha256_of, write_whole
from equipoise.errors import InputError
from equipoise.recipes.studies.caption_files import write_captions, write_lines, write_people
from equipoise.recipes.studies.frame import Covered, StepCost, Study, StudyHome, StudyOptions, StudyStep, outside_step
from equipoise.recipes.studies.lic_tables import HUMAN_SPLITS, MASKED, PICTURES, ST10, parts_of
from equipoise.recipes.train_mini.batches import unseen

WITH_REFERENCES = ("nic", "transformer")
"""The models whose human side was trained by the LSTM as well: three splits, five classifiers each."""
TRAINED = {
    "gender_fc": "10d9ec657c3c3cfe",
    "gender_nic": "863333e250770868",
    "gender_nic_plus": "60cdb064e9fdf8d4",
    "gender_sat": "5192809aa02fef82",
    "gender_transformer": "41d302ccbb19a40c",
    "skin_fc": "9c8e9a506b57e0e6",
    "skin_nic": "3474ee0f22e441b3",
}
"""The captions whose LSTM scores are kept, by the beginning of the file's SHA-256."""
HUMAN = "human_captions.jsonl"
HUMAN_TRAINED = "6976e97174de4938"
CAPTIONER = "mini:captioner"


def _steps(options: StudyOptions) -> list[StudyStep]:
    mini = options.scale == "mini" and "captions" not in options.given
    if len(options.models) > mini:
        raise InputError(
            "the study of LIC asks one captioner, at scale mini and without captions that are given; leave other "
            "--models out"
        )
    if mini:
        return _world_steps(options)
    return _given_steps(options) if "captions" in options.given else _full_steps()


# Captions that somebody made


def _files(folder: Path, axis: str) -> list[Path]:
    return sorted(folder.glob(f"{axis}_*.jsonl"))


def _given_steps(options: StudyOptions) -> list[StudyStep]:
    folder = Path(options.given["captions"])
    if not folder.is_dir() or not (_files(folder, "gender") or _files(folder, "skin")):
        raise InputError(
            f"--from {folder}: a folder with gender_MODEL.jsonl or skin_MODEL.jsonl is expected, one caption per image "
            "with its label"
        )
    steps = []
    for axis in ("gender", "skin"):
        some = _files(folder, axis)
        if not some:
            continue
        steps.append(_screen(folder, axis, some, options))
        known = [path for path in some if path.stem != f"gender_{ST10}" and (_known(path) or options.scale == "full")]
        if known:
            steps.append(_lstm(axis, known, options))
    human = folder / HUMAN
    paired = [folder / f"gender_{name}.jsonl" for name in WITH_REFERENCES]
    paired = [path for path in paired if path.is_file() and _known(path)]
    if options.scale == "full":
        paired = [path for path in _files(folder, "gender") if path.stem != f"gender_{ST10}"]
    if paired and human.is_file() and (_sha(human) == HUMAN_TRAINED or options.scale == "full"):
        steps.append(_human(human, paired, options))
    return steps


def _sha(path: Path) -> str:
    return str(sha256_of(path))[:16]


def _known(path: Path) -> bool:
    return TRAINED.get(path.stem) == _sha(path)


def _screen(folder: Path, axis: str, some: Sequence[Path], options: StudyOptions) -> StudyStep:
    human = folder / HUMAN
    references = human if human.is_file() and axis == "gender" else None
    train = options.given.get("train")

    def work(home: StudyHome, out: Path) -> None:
        audit_captions(
            some,
            references,
            axis,
            out,
            train_references=train,
            settings=CaptionSettings(mask=axis == "gender", permutations=20, seed=options.seed),
            say=home.say,
        )

    read = (*_read([*some, *([references] if references else [])]), "train")
    cost = StepCost(cpu_minutes=0.6 * len(some), data=tuple(str(path) for path in some))
    title = f"The captions by {axis}: linear screen, whom they name"
    return StudyStep(f"screen-{axis}", title, work, {"seed": options.seed}, cost=cost, reads=read)


def _read(paths: Sequence[Path]) -> tuple[str, ...]:
    """Files of the folder of captions, as a step names what it reads."""
    return tuple(f"captions/{path.name}" for path in paths)


def _lstm(axis: str, some: Sequence[Path], options: StudyOptions) -> StudyStep:
    def work(home: StudyHome, out: Path) -> None:
        _put_stored_runs(out)
        # LSTMs on shuffled labels are not among the kept ones: chance is that of a blind guess
        chosen = CaptionSettings(classifier="lstm", mask=axis == "gender", permutations=0, quality=False)
        audit_captions(some, None, axis, out, settings=chosen, say=home.say)

    new = [path for path in some if not _known(path)]
    cost = StepCost(cpu_minutes=0.3 * len(some) + 55 * len(new), data=tuple(str(path) for path in some))
    title = f"LIC_M by the paper's LSTM, {axis}, ten splits: {len(some) - len(new)} models kept, {len(new)} to train"
    return StudyStep(f"lstm-{axis}", title, work, cost=cost, reads=_read(some))


def _human(human: Path, some: Sequence[Path], options: StudyOptions) -> StudyStep:
    seeds = HUMAN_SPLITS[options.scale]

    def work(home: StudyHome, out: Path) -> None:
        _put_stored_runs(out)
        chosen = CaptionSettings(classifier="lstm", permutations=0, quality=False, reference_seeds=seeds)
        audit_captions(some, human, "gender", out, settings=chosen, say=home.say)

    trained = 0 if options.scale == "mini" else 450.0 * len(some)
    cost = StepCost(cpu_minutes=0.5 * len(some) + trained)
    title = f"LIC_D and LIC by the LSTM on human captions, {seeds} splits"
    return StudyStep("lstm-human", title, work, {"seeds": seeds}, cost=cost, reads=_read([human, *some]))


def _put_stored_runs(folder: Path) -> None:
    """The kept scores of classifiers, where a run looks for finished ones."""
    kept = json.loads((files("equipoise.recipes.studies") / "lic_runs.json").read_text(encoding="utf-8"))
    work = folder / "_work"
    work.mkdir(parents=True, exist_ok=True)
    for name, scores in kept.items():
        path = work / f"{name}.json"
        if not path.is_file():
            write_whole(path, json.dumps(scores).encode())


# The pictogram world and its captioner


def _world_steps(options: StudyOptions) -> list[StudyStep]:
    captioner = options.models[0] if options.models else CAPTIONER
    pictures = StudyStep(
        "pictures",
        "Pictures of a world in which occupations lean",
        _draw,
        {"n": PICTURES, "seed": unseen(options.seed)},
        resumes=False,
        cost=StepCost(images=PICTURES, cpu_minutes=0.5, disk_gb=0.02),
    )
    masked = StudyStep(
        "masked",
        "The same pictures without the person, without the one object that leans most, and without both",
        _mask,
        {"what": list(MASKED)},
        ("pictures",),
        cost=StepCost(images=3 * PICTURES, cpu_minutes=1.2, disk_gb=0.05),
    )

    def describe(home: StudyHome, out: Path) -> None:
        _describe(home, out, captioner)

    said = StudyStep(
        "captions",
        f"Captions of all of them by {captioner}",
        describe,
        {"captioner": captioner},
        ("pictures", "masked"),
        cost=StepCost((captioner,), (), 5 * PICTURES, cpu_minutes=6.5),
    )
    audit = StudyStep(
        "audit",
        "LIC, Ratio, Error, BA and quality of the captions",
        _audit_world,
        {"seed": options.seed},
        ("captions",),
        cost=StepCost(cpu_minutes=1.5),
    )
    return [pictures, masked, said, audit]


def _draw(home: StudyHome, out: Path) -> None:
    from equipoise.world import preset
    from equipoise.world.tables import write_table

    write_table(out, preset("biased").changed(activity_share=0.0), PICTURES, seed=unseen(home.options.seed))


def _mask(home: StudyHome, out: Path) -> None:
    from equipoise.generate import MaskConfig, plan_mask, run

    pictures = Table.open(home.step("pictures"))
    for name, what in MASKED.items():
        config = MaskConfig(what=what, by="segment", most_correlated="" if what == "person" else "gender")
        run(plan_mask(pictures, config), out / name, None, progress=False)


def _describe(home: StudyHome, out: Path, captioner: str) -> None:
    from equipoise.models import load
    from equipoise.recipes.demo_parts import grainy

    model = load(captioner, kind="captioner")
    pictures = Table.open(home.step("pictures"))
    write_people(out / "people.jsonl", pictures)
    tables = {"clear": pictures, **{name: Table.open(home.step("masked") / name) for name in MASKED}}
    for name, table in tables.items():
        write_captions(out / f"{name}.jsonl", model, table, home.options.seed)
    ids, images = zip(*pictures.images(), strict=True)
    texts = model.caption(grainy(list(images)), seed=home.options.seed)
    said = ({"image_id": image, "caption": text} for image, text in zip(ids, texts, strict=True))
    write_lines(out / "grainy.jsonl", said)


def _audit_world(home: StudyHome, out: Path) -> None:
    said = home.step("captions")
    audit_captions(
        [f"clear={said / 'clear.jsonl'}", f"grainy={said / 'grainy.jsonl'}"],
        said / "people.jsonl",
        "gender",
        out,
        masked=[f"clear:{name}={said / f'{name}.jsonl'}" for name in MASKED],
        settings=CaptionSettings(lexicon="equipoise", permutations=50, ba_least=20, seed=home.options.seed),
        say=home.say,
    )


def _full_steps() -> list[StudyStep]:
    models = ("NIC, SAT, FC, Att2in, UpDn, Transformer, OSCAR, NIC+, NIC+Equalizer",)
    need = (
        "the captions of the paper's nine models on COCO val2014 are needed: give a folder with one gender_MODEL.jsonl "
        "and skin_MODEL.jsonl each, and human_captions.jsonl, with --from DIR"
    )
    data = ("COCO val2014 images and captions", "perceived gender and skin tone of Zhao et al. (2021): 10,780 images")
    title = "Captions of nine captioners: caption the images with equipoise models, or take released ones"
    lstm = "LSTM classifiers: ten splits, nine models, gender and skin tone"
    bert = "BERT classifiers, fine-tuned and frozen (captions --classifier bert:bert-base-uncased)"
    return [
        outside_step("captions", title, need, models=models, data=data, images=9 * 40_504, gpu_hours=14, disk_gb=6.5),
        outside_step("screen", "Linear screen, Ratio, Error, BA, DBA, quality", cpu_minutes=40),
        outside_step("lstm", lstm, data=data, cpu_minutes=9 * 2 * 55 + 9 * 450),
        outside_step("bert", bert, models=("bert:bert-base-uncased",), gpu_hours=11),
    ]


COVERS = (
    Covered("T2.1", "LIC, LIC_M, Ratio, Error, BA of nine models", "captions per model, labels, human captions"),
    Covered("T2.2", "LIC by LSTM; BERT with captions --classifier bert:NAME", "captions per model, kept LSTM scores"),
    Covered("T2.3", "LIC by perceived skin tone", "captions per model, kept LSTM scores"),
    Covered("T2.4", "LIC_M with objects and persons masked", "the world's pictures (mini); captions --masked"),
    Covered("F2.2", "bias scores of single captions, by group", "captions per model, scores of the classifier"),
    Covered("F2.3", "LIC against vocabulary and BLEU-4", "captions per model"),
    Covered(
        "T2.2, T2.5: BERT",
        "LIC by BERT, fine-tuned and frozen",
        why_not="needs a BERT and a GPU: equipoise captions --classifier bert:NAME runs it where they are",
    ),
    Covered(
        "T2.1: DBA", "directional bias amplification", why_not="needs COCO's annotated objects: captions --objects"
    ),
    Covered("T3.1 to T3.11", "LIBRA: captions before and after the debiasing generator", "equipoise recipe libra"),
    Covered("T4.1 to T4.7", "inpainted training sets: classifiers and captioners", "equipoise recipe inpainting"),
)

STUDY = Study(
    name="lic",
    title="LIC: bias amplification in image captioning",
    citation="Hirota, Nakashima and Garcia, Quantifying Societal Bias Amplification in Image Captioning, CVPR 2022",
    question="Do captions of a model give away who is in a picture more than human captions do?",
    covers=COVERS,
    steps=_steps,
    parts=parts_of,
    takes={
        "captions": "a folder with gender_MODEL.jsonl, skin_MODEL.jsonl and human_captions.jsonl",
        "train": "beside captions, the captioners' training captions (COCO captions JSON): they choose the words of BA",
    },
    limits=(
        "Groups are perceived by annotators, from pictures; two genders and two tones are a limit of these labels.",
        "LIC depends on its classifier: numbers of different classifiers are not compared.",
        "A caption without any word for a person has no error, which is no merit.",
    ),
)
