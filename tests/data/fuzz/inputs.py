"""Valid datasets, one file of each of which is mutated."""

from __future__ import annotations

import io
import json
import random
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass
class Target:
    """A valid dataset on disk, and the file of it that is mutated."""

    reader: str
    path: Path
    file: Path
    options: dict[str, Any] = field(default_factory=dict)
    kind: str = "text"
    valid: bytes = b""
    rows: list[Any] = field(default_factory=list)


def picture(form: str, size: tuple[int, int] = (24, 16)) -> bytes:
    from PIL import Image

    rng = random.Random(form)
    image = Image.frombytes("RGB", size, bytes(rng.randrange(256) for _ in range(3 * size[0] * size[1])))
    target = io.BytesIO()
    image.save(target, form)
    return target.getvalue()


def coco_documents(n: int = 6) -> tuple[dict[str, Any], dict[str, Any]]:
    images = [{"id": i, "file_name": f"{i:012d}.jpg", "height": 4, "width": 6} for i in range(1, n + 1)]
    captions = [
        {"id": 10 * i + k, "image_id": i, "caption": f"caption {k} of {i}"} for i in range(1, n + 1) for k in (0, 1)
    ]
    people = [
        {
            "id": 100 + i,
            "image_id": i,
            "category_id": 1,
            "bbox": [1, 0, 2, 4],
            "area": 8.0,
            "iscrowd": i % 2,
            "segmentation": [[1, 0, 3, 0, 3, 4, 1, 4]] if i % 2 == 0 else {"size": [4, 6], "counts": [4, 8, 12]},
            "keypoints": [1, 2, 2] * 17,
        }
        for i in range(1, n + 1)
    ]
    categories = [{"id": 1, "name": "person"}, {"id": 2, "name": "oven"}]
    return (
        {"images": images, "annotations": captions},
        {"images": images, "annotations": people, "categories": categories},
    )


def datasets(root: Path) -> dict[str, Target]:
    """All targets by name, written below ``root`` and read once."""
    targets: dict[str, Target] = {}

    def folder(name: str) -> Path:
        (root / name).mkdir(parents=True, exist_ok=True)
        return root / name

    def add(name: str, reader: str, file: Path, content: str | bytes, path: Path | None = None, **options: Any) -> None:
        kind = options.pop("kind", "text")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content if isinstance(content, bytes) else content.encode())
        targets[name] = Target(reader, path or file, file, options, kind)

    captions, instances = coco_documents()
    for part in ("captions", "instances"):
        base = folder(f"coco-{part}")
        for i in range(1, 7):
            (base / "val2017").mkdir(exist_ok=True)
            (base / "val2017" / f"{i:012d}.jpg").write_bytes(b"x")
        (base / "annotations").mkdir(exist_ok=True)
        for name, document in (("captions", captions), ("instances", instances)):
            (base / "annotations" / f"{name}_val2017.json").write_text(json.dumps(document))
        file = base / "annotations" / f"{part}_val2017.json"
        add(f"coco-{part}", "coco", file, file.read_bytes(), base, split="val2017", kind="json")

    parts = {
        f"{p}_{k}": v for p in ("face", "lefthand", "righthand") for k, v in (("box", [1, 1, 2, 2]), ("valid", True))
    }
    whole = instances | {"annotations": [a | parts for a in instances["annotations"]]}
    add("wholebody", "coco-wholebody", folder("whole") / "coco_wholebody_val_v1.0.json", json.dumps(whole), kind="json")

    labels = {"age": "adult", "gender": "female", "skintone": "lighter", "ethnicity": "white", "emotion": "fear"}
    region = {"region": [1, 2, 5, 9], "annotations": labels | {"activity": "work"}}
    phase = {str(i): {"caption": f"c {i}", "person1": region, "person2": region} for i in range(6)}
    add("phase", "phase", folder("phase") / "phase_gcc_val_regions_20221101.json", json.dumps(phase), kind="json")

    flickr = [{"filename": f"{i}.jpg", "split": "train", "sentences": [{"raw": f"a dog {i}"}] * 2} for i in range(6)]
    add(
        "flickr-json", "flickr30k", folder("fj") / "dataset_flickr30k.json", json.dumps({"images": flickr}), kind="json"
    )
    tokens = "".join(f"{i}.jpg#{k}\tcaption {k} of {i}\n" for i in range(6) for k in range(2))
    add("flickr-token", "flickr30k", folder("ft") / "results_20130124.token", tokens)

    scenes = [
        {
            "short": "gym",
            "pos": {"races": ["a"], "gender": [], "age": []},
            "neg": {"races": ["b"], "gender": [], "age": []},
        }
    ]
    listing = "".join(f"gym_black_male_young|http://x/{i}.jpg\n" for i in range(6))
    for name in ("pata-captions", "pata-list"):
        base = folder(name)
        (base / "pata_fairness.captions.json").write_text(json.dumps(scenes))
        (base / "pata_fairness.files.lst").write_text(listing)
    add("pata-captions", "pata", root / "pata-captions" / "pata_fairness.captions.json", json.dumps(scenes),
        root / "pata-captions", kind="json")  # fmt: skip
    add("pata-list", "pata", root / "pata-list" / "pata_fairness.files.lst", listing, root / "pata-list")

    for name in ("imagefolder-jsonl", "imagefolder-csv"):
        for i in range(6):
            (folder(name) / f"{i}.jpg").write_bytes(b"x")
    lines = [{"file_name": f"{i}.jpg", "gender": "f", "caption": f"c{i}", "n": i, "tags": ["a"]} for i in range(6)]
    add("imagefolder-jsonl", "imagefolder", root / "imagefolder-jsonl" / "metadata.jsonl",
        "".join(json.dumps(line) + "\n" for line in lines), root / "imagefolder-jsonl", kind="jsonl")  # fmt: skip
    table = "file_name,gender,caption\n" + "".join(f'{i}.jpg,f,"a, b {i}"\n' for i in range(6))
    add("imagefolder-csv", "imagefolder", root / "imagefolder-csv" / "metadata.csv", table,
        root / "imagefolder-csv", kind="csv")  # fmt: skip

    zhao = "id,bb_gender,bb_skin,split\n" + "".join(f"{i},Female,Light,val\n" for i in range(6))
    add("zhao", "coco-gender-skin", folder("zhao") / "images_val2014.csv", zhao, kind="csv")
    faces = "file,age,gender,race,service_test\n" + "".join(f"val/{i}.jpg,3-9,Male,White,True\n" for i in range(6))
    add("fairface", "fairface", folder("faces") / "fairface_label_val.csv", faces, kind="csv")
    head = "ImageID,LabelName,XMin,XMax,YMin,YMax,IsGroupOf,GenderPresentation,AgePresentation\n"
    boxes = head + "".join(f"{i:016x},/m/01,0.1,0.5,0.25,1,0,Predominantly Feminine,Young\n" for i in range(6))
    add("miap", "openimages", folder("miap") / "open_images_extended_miap_boxes_val.csv", boxes, kind="csv")
    wide = "id,0,1,2\n" + "".join(f"e{i},{i}.5,-1,1e-3\n" for i in range(6))
    add("embeddings-wide", "embeddings-csv", folder("ew") / "e.csv", wide, model="m", kind="csv")
    narrow = "id,vector,model\n" + "".join(f'e{i},"[1, 2, {i}]",m\n' for i in range(6))
    add("embeddings-narrow", "embeddings-csv", folder("en") / "e.csv", narrow, kind="csv")
    scores = "image_id,text_id,score\n" + "".join(f"{i},t,0.{i}\n" for i in range(6))
    add("scores-long", "scores-csv", folder("sl") / "s.csv", scores, kind="csv")
    matrix = "image_id,a,b\n" + "".join(f"{i},0.{i},1\n" for i in range(6))
    add("scores-wide", "scores-csv", folder("sw") / "s.csv", matrix, kind="csv")
    cc3m = "".join(f"a caption no {i}\thttp://x/{i}\n" for i in range(6))
    add("cc3m-tsv", "cc3m", folder("cc") / "Train_GCC-training.tsv", cc3m)
    viso = "IDX\tOccupation\tObject\tURL type\tOccupation_perceived_gender\n"
    viso += "".join(f"OO_{i}\tnurse\tdesk\thttp://x/{i}\tfeminine\n" for i in range(6))
    add("visogender", "visogender", folder("viso") / "OO_Visogender_1.tsv", viso, kind="tsv")

    add("cc3m-tar", "cc3m", folder("tar") / "train.tar", _tar(), kind="bytes")
    pixels = b"".join(bytes([i % 2]) + bytes(3072) for i in range(4))
    (folder("cifar") / "batches.meta.txt").write_text("cat\ndog\n")
    add("cifar", "cifar", root / "cifar" / "data_batch_1.bin", pixels, root / "cifar", kind="bytes")
    for name, reader, content, options in _parquets():
        add(name, reader, folder(name) / "train-0.parquet", content, kind="parquet", **options)
    for form in ("JPEG", "PNG", "GIF", "WEBP"):
        add(form.lower(), "", folder("images") / form.lower(), picture(form), kind="image")
    return targets


def _tar() -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for i in range(4):
            about = json.dumps({"caption": f"c {i}", "url": f"http://x/{i}", "status": "success"}).encode()
            for suffix, data in (("jpg", b"JPEG %d" % i), ("json", about), ("txt", b"c %d" % i)):
                info = tarfile.TarInfo(f"{i:09d}.{suffix}")
                info.size = len(data)
                archive.addfile(info, io.BytesIO(data))
    return buffer.getvalue()


def _parquets() -> Iterator[tuple[str, str, bytes, dict[str, Any]]]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    cell = pa.struct([("bytes", pa.binary()), ("path", pa.string())])

    def written(table: Any, **how: Any) -> bytes:
        buffer = io.BytesIO()
        pq.write_table(table, buffer, write_page_checksum=True, **how)
        return buffer.getvalue()

    n = 8
    social = {
        "image": pa.array([{"bytes": b"JPEG %d" % i, "path": None} for i in range(n)], cell),
        "caption": [f"A picture of a White male cook {i}" for i in range(n)],
        "counterfactual_set": [f"set {i}" for i in range(n)],
        "a1_type": ["race"] * n,
        "a1": ["White"] * n,
        "a2_type": ["gender"] * n,
        "a2": ["male"] * n,
    }
    yield "parquet-social", "parquet", written(pa.table(social)), {"preset": "social-counterfactuals"}
    features = {"sex": {"_type": "ClassLabel", "names": ["Male", "Female"]}}
    schema = pa.schema(
        [("image_id", pa.string()), ("sex", pa.int64()), ("tags", pa.list_(pa.string())), ("x", pa.float32())],
        metadata={"huggingface": json.dumps({"info": {"features": features}})},
    )
    rows = [{"image_id": f"i{i}", "sex": i % 2, "tags": ["a", "b"], "x": 0.5} for i in range(n)]
    options = {"columns": "gender=sex", "axes": "gender", "extra": "tags,x"}
    plain = written(pa.Table.from_pylist(rows, schema=schema), compression="none", use_dictionary=False)
    yield "parquet-classes", "parquet", plain, options
    laion = pa.table(
        {
            "SAMPLE_ID": [float(i) for i in range(n)],
            "URL": [f"http://x/{i}" for i in range(n)],
            "TEXT": [f"text {i}" for i in range(n)],
            "NSFW": ["UNLIKELY"] * n,
            "similarity": [0.3] * n,
            "WIDTH": [10] * n,
        }
    )
    yield "laion", "laion", written(laion, data_page_version="2.0"), {}
