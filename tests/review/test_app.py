"""The interface: what annotators are told, what they may say, and what the organiser sees."""

import json

import pytest
from tests.review.conftest import rows_of

from equipoise.data import Table
from equipoise.review import preset


def test_a_whole_session(table, review_of, serving):
    store = review_of(table, gold=2, shared=0.5)
    tokens = store.add("ana", "ben")
    served = serving(store)
    with served.client(tokens["ana"]) as ana:
        task = ana.get("/api/task").json()
        assert task["name"] == "ana"
        assert task["questionnaire"]["questions"][0]["choices"] == ["female", "male", "unsure"]
        seen = []
        now = ana.get("/api/next").json()
        while now["next"]:
            item = now["next"]
            assert [p["broken"] for p in item["pictures"]] == [False]
            picture = ana.get(f"/api/pictures/{item['pictures'][0]['id']}")
            assert picture.headers["content-type"] == "image/png"
            seen.append(item["item"])
            now = ana.post(
                "/api/answer", json={"item": item["item"], "answers": {"gender": "male"}, "seconds": 1.5}
            ).json()
            assert now["saved"] == item["item"]
        assert now["done"] == now["total"] == len(seen) == len(set(seen))
        back = ana.post("/api/undo", json={}).json()
        assert back["undone"] == seen[-1] == back["next"]["item"]
        assert back["said"] == {"gender": "male"}
    with served.client(served.organiser) as organiser:
        told = organiser.get("/api/organiser").json()
    assert {one["name"]: one["done"] for one in told["people"]} == {"ana": len(seen) - 1, "ben": 0}
    assert told["people"][0]["seconds"] == 1.5


def test_annotators_learn_nothing_that_gives_the_answer_away(table, review_of, serving):
    store = review_of(table, gold=4, shared=0.5)
    token = store.add("ana")["ana"]
    with serving(store).client(token) as ana:
        text = json.dumps(ana.get("/api/task").json())
        shapes = set()
        now = ana.get("/api/next").json()
        while now["next"]:
            text += json.dumps(now)
            shapes.add(
                json.dumps(now["next"], sort_keys=True)
                .translate(str.maketrans("0123456789", "#" * 10))
                .replace("##", "#")
            )
            now = ana.post("/api/answer", json={"item": now["next"]["item"], "answers": {}, "skip": True}).json()
    assert "gold" not in text
    assert "female-" not in text  # image ids tell the group
    assert "accept" not in text
    assert len(shapes) == 1  # a gold item looks like any other


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ({"answers": {"gender": "purple"}}, "cannot be given"),
        ({"answers": {}}, "there is no answer"),
        ({"answers": {"other": "x", "gender": "male"}}, "not asked"),
        ({"answers": {"gender@1": "male"}}, "not asked"),
        ({"answers": {"gender": ["male"]}}, "cannot be given"),
        ({"answers": {"gender": "male", "note": "x" * 2001}}, ""),
        ({"answers": {"gender": 1}}, ""),
        ({"answers": {"gender": "male"}, "seconds": -1}, ""),
        ({"answers": {"gender": "male"}, "more": 1}, ""),
        ({"answers": {"gender": "male"}, "skip": "yes"}, ""),
    ],
)
def test_what_cannot_be_said_is_refused(newcomer, said, why):
    served, name, token = newcomer
    with served.client(token) as ana:
        item = ana.get("/api/next").json()["next"]["item"]
        told = ana.post("/api/answer", json={"item": item, **said})
        assert told.status_code == 422
        assert why in json.dumps(told.json())
        assert ana.post("/api/answer", json={"item": 99, "answers": {"gender": "male"}}).status_code == 404
        assert ana.post("/api/undo", json={}).status_code == 404
    assert served.store.rows("SELECT count(*) FROM history WHERE annotator = ?", name) == [(0,)]


def test_each_picture_is_asked_about(table, review_of, serving):
    store = review_of(table, preset("similar-to-source"), shared=1.0)
    token = store.add("ana")["ana"]
    with serving(store).client(token) as ana:
        item = ana.get("/api/next").json()["next"]
        source, made = item["pictures"]
        assert [source["source"], made["source"]] == [True, False]
        names = ("objects_alike", "colours_alike", "gap_filled")
        said = {f"{name}@{made['id']}": "yes" for name in names}
        lacking = ana.post("/api/answer", json={"item": item["item"], "answers": said})
        assert lacking.json()["detail"] == "skin_tone: there is no answer"
        of_source = {**said, f"skin_tone@{source['id']}": "3"}
        assert ana.post("/api/answer", json={"item": item["item"], "answers": of_source}).status_code == 422
        said[f"skin_tone@{made['id']}"] = "3"
        assert ana.post("/api/answer", json={"item": item["item"], "answers": said}).status_code == 200


def test_replies_stand_in_random_order(tmp_path, review_of, serving):
    rows = [{**row, "prompt": "who?", "reply_a": f"A{i}", "reply_b": f"B{i}"} for i, row in enumerate(rows_of(12))]
    columns = {"prompt": "string", "reply_a": "string", "reply_b": "string"}
    table = Table.create(tmp_path / "replies", rows, axes=["gender"], columns=columns)
    store = review_of(table, preset("which-reply", trait="kind"), shared=1.0)
    token = store.add("ana")["ana"]
    first = []
    with serving(store).client(token) as ana:
        now = ana.get("/api/next").json()
        while now["next"]:
            texts = now["next"]["texts"]
            assert {one["name"]: one["text"][0] for one in texts} == {"reply_a": "A", "reply_b": "B"}
            first.append(texts[0]["name"])
            said = {"which": texts[0]["name"]}
            now = ana.post("/api/answer", json={"item": now["next"]["item"], "answers": said}).json()
    assert {"reply_a", "reply_b"} == set(first)
