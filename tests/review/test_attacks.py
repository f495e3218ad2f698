"""Attacks on a server of our own, on this machine: refused or harmless."""

from __future__ import annotations

import csv
import json
import socket
import time

import pytest
from tests.review.conftest import rows_of

from equipoise.data import Table
from equipoise.review import Questionnaire, preset
from equipoise.review.guard import HEADERS
from equipoise.review.labels import labels_frame, read_labels_csv, write_labels_csv
from equipoise.review.questions import Question

HOSTILE = "<script>window.hit=1</script><img src=x onerror='window.hit=2'>\"&'; DROP TABLE answers; --"


@pytest.fixture
def review(table, review_of, serving):
    store = review_of(table, shared=1.0)
    return serving(store), store.add("ana", "ben")


@pytest.mark.parametrize("page", ["/", "/organiser", "/assets/review.js", "/api/task", "/nothing"])
def test_every_answer_forbids_what_it_can(newcomer, page):
    served, _, _ = newcomer
    with served.client() as stranger:
        told = stranger.get(page)
    for name, value in HEADERS.items():
        assert told.headers[name] == value
    assert "server" not in told.headers
    assert "set-cookie" not in told.headers


PLACES = [
    "/../../etc/passwd",
    "/assets/../app.py",
    "/assets/..%2f..%2fapp.py",
    "/assets/%2e%2e/preparing.py",
    "/assets//etc/passwd",
    "/api/pictures/../../review.sqlite",
    "/api/pictures/%2e%2e%2freview.sqlite",
    "/api/pictures/0",
    "/api/pictures/-1",
    "/api/pictures/999",
    "/api/pictures/99999999999999999999",
    "/api/pictures/1.5",
    "/api/pictures/1%00",
    "/api/pictures/female-0",
    "/review.sqlite",
    "/openapi.json",
    "/docs",
]


@pytest.mark.parametrize("place", PLACES)
def test_only_pages_and_pictures_are_served(newcomer, place):
    served, _, token = newcomer
    with socket.create_connection(("127.0.0.1", served.port), timeout=10) as line:  # httpx would tidy the path
        request = f"GET {place} HTTP/1.1\r\nHost: 127.0.0.1:{served.port}\r\nAuthorization: Bearer {token}\r\n"
        line.sendall(f"{request}Connection: close\r\n\r\n".encode())
        told = b""
        while piece := line.recv(65536):
            told += piece
    status = int(told.split()[1])
    assert status in (404, 422), told[:200]
    assert b"root:" not in told
    assert b"import " not in told


def test_links_that_are_wrong_missing_or_stopped(review):
    served, tokens = review
    for token in ("x", tokens["ana"][:-1], tokens["ana"] + "A", "é" * 3, "' OR 1=1 --"):
        headers = {"Authorization": f"Bearer {token}".encode()}
        with served.client() as stranger:
            assert stranger.get("/api/next", headers=headers).status_code == 401
    with served.client() as stranger:
        assert stranger.get("/api/task", headers={"Authorization": f"Basic {tokens['ana']}"}).status_code == 401
        assert stranger.get(f"/api/task?token={tokens['ana']}").status_code == 401
    with served.client(tokens["ana"]) as ana:
        assert ana.get("/api/organiser").status_code == 401  # an annotator is no organiser
        assert ana.get("/api/task").status_code == 200
        served.store.revoke("ana")
        assert ana.get("/api/task").status_code in (401, 429)
        assert ana.post("/api/answer", json={"item": 1, "answers": {"gender": "male"}}).status_code in (401, 429)
    with served.client(served.organiser) as organiser:
        assert organiser.get("/api/task").status_code in (401, 429)  # nor the other way round


def test_guessing_is_slowed_and_locks_nobody_out(review):
    served, tokens = review
    with served.client() as guesser:
        told = [guesser.get("/api/task", headers={"Authorization": f"Bearer guess{i}"}) for i in range(40)]
    assert [one.status_code for one in told][:10] == [401] * 10
    assert [one.status_code for one in told].count(429) >= 25
    assert told[-1].headers["retry-after"] == "60"
    with served.client(tokens["ana"]) as ana:
        assert ana.get("/api/task").status_code == 200


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Origin": "https://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Sec-Fetch-Site": "same-site"}, 403),
        ({"Content-Type": "text/plain"}, 415),
        ({"Content-Type": "application/x-www-form-urlencoded"}, 415),
        ({"Host": "evil.example"}, 421),
        ({"Host": "127.0.0.1"}, 421),
        ({"Origin": "http://127.0.0.1:{port}", "Sec-Fetch-Site": "same-origin"}, 200),
    ],
)
def test_pages_of_other_sites_cannot_write(newcomer, headers, status):
    served, name, token = newcomer
    with served.client(token) as ana:
        item = ana.get("/api/next").json()["next"]["item"]
        body = json.dumps({"item": item, "answers": {"gender": "male"}})
        sent = {"Content-Type": "application/json"} | {k: v.format(port=served.port) for k, v in headers.items()}
        assert ana.post("/api/answer", content=body, headers=sent).status_code == status
        options = ana.options("/api/answer", headers={"Origin": "https://evil.example"})
        assert "access-control-allow-origin" not in options.headers
    assert served.store.progress(name).done == (status == 200)


def test_a_name_that_is_rebound_to_this_machine_reads_nothing(newcomer):
    served, _, token = newcomer
    with served.client(token) as ana:
        assert ana.get("/api/next", headers={"Host": f"evil.example:{served.port}"}).status_code == 421


def test_a_body_that_is_too_long(newcomer):
    served, name, token = newcomer
    with served.client(token) as ana:
        body = b'{"item": 1, "answers": {"note": "' + b"x" * 70_000 + b'"}}'
        json_too = {"Content-Type": "application/json"}
        assert ana.post("/api/answer", content=body, headers=json_too).status_code == 413

        def pieces():
            for _ in range(40):
                yield b"x" * 4096

        assert ana.post("/api/answer", content=pieces(), headers=json_too).status_code == 413
        deep = b'{"item": ' + b"[" * 30_000 + b"]" * 30_000 + b"}"
        assert ana.post("/api/answer", content=deep, headers=json_too).status_code in (400, 422)
        for bad in (b"{", b"\xff\xfe", b"null", b"[]", b'{"item": NaN}', b'{"item": 1e400, "answers": {}}'):
            assert ana.post("/api/answer", content=bad, headers=json_too).status_code == 422
    assert served.store.progress(name).done == 0


def test_slow_clients_are_hung_up_on_and_keep_nobody_waiting(table, review_of, serving, monkeypatch):
    monkeypatch.setattr("equipoise.review.serving._WAIT", 0.6)
    monkeypatch.setattr("equipoise.review.guard.MOST_SECONDS", 0.6)
    store = review_of(table, shared=1.0)
    token = store.add("ana")["ana"]
    served = serving(store)
    slow = [socket.create_connection(("127.0.0.1", served.port), timeout=10) for _ in range(60)]
    try:
        head = f"POST /api/answer HTTP/1.1\r\nHost: 127.0.0.1:{served.port}\r\nContent-Type: application/json\r\n"
        for i, line in enumerate(slow):
            full = f"{head}Authorization: Bearer {token}\r\nContent-Length: 50\r\n\r\n{{"
            line.sendall((full if i % 2 else head).encode())  # half of them stop in the headers, half in the body
        begun = time.monotonic()
        with served.client(token) as ana:
            assert ana.get("/api/next").status_code == 200
        assert time.monotonic() - begun < 0.5
        assert slow[0].recv(100) == b""  # hung up on
        assert slow[1].recv(100).startswith(b"HTTP/1.1 408")
    finally:
        for line in slow:
            line.close()
    assert store.progress("ana").done == 0


def test_markup_formulas_and_sql_in_notes_are_only_text(table, review_of, serving, tmp_path):
    store = review_of(table, shared=1.0)
    token = store.add("ana")["ana"]
    notes = [
        HOSTILE,
        '=HYPERLINK("http://evil")',
        "+1+cmd|' /C calc'!A0",
        "-2",
        "@SUM(1)",
        "\t=1",
        "'quoted",
        "a\x00b\n=c",
    ]
    with serving(store).client(token) as ana:
        for note in notes:
            item = ana.get("/api/next").json()["next"]["item"]
            told = ana.post("/api/answer", json={"item": item, "answers": {"gender": "male", "note": note}})
            assert told.status_code == 200
    frame = labels_frame(store)
    assert set(frame[frame["question"] == "note"]["answer"]) == set(notes)
    path = write_labels_csv(store, tmp_path / "labels.csv")
    with path.open(encoding="utf-8", newline="") as file:
        cells = [cell for row in csv.reader(file) for cell in row]
    assert not [cell for cell in cells if cell.startswith(("=", "+", "-", "@", "\t", "\r"))]
    assert {row["answer"] for row in read_labels_csv(path) if row["question"] == "note"} == set(notes)


def test_hostile_words_in_a_table_are_only_text(tmp_path, review_of, serving, browser):
    rows = [{**row, "caption": HOSTILE} for row in rows_of(2)]
    table = Table.create(tmp_path / "hostile", rows, axes=["gender"])
    hard = Question("q", HOSTILE, answers=["<b>yes</b>", "no"], hints={"no": HOSTILE})
    sheet = Questionnaire(title=HOSTILE, instructions=HOSTILE, warning=HOSTILE, show=("caption",), questions=(hard,))
    store = review_of(table, sheet, shared=1.0)
    token = store.add("ana")["ana"]
    tab = browser.open(serving(store).link(token))
    tab.until("!!document.querySelector('#begin')")
    tab.run("document.querySelector('#begin').click()")
    tab.until("!!document.querySelector('#form [data-choice]')")
    assert tab.run("document.querySelector('.told dd').textContent") == HOSTILE
    assert tab.run("window.hit") is None
    assert tab.run("document.querySelectorAll('main script, main img[src=x]').length") == 0
    assert tab.messages() == []
    tab.close()


def test_a_picture_that_is_none_is_said_to_be_so(tmp_path, review_of, serving):
    rows = rows_of(3)
    rows[0]["image"] = {"bytes": b"<svg onload='alert(1)'/>", "path": None}
    rows[1]["image"] = {"bytes": None, "path": "../../etc/passwd"}
    table = Table.create(tmp_path / "broken", rows, axes=["gender"])
    store = review_of(table, preset("matches-caption"), shared=1.0)
    token = store.add("ana")["ana"]
    broken = {}
    with serving(store).client(token) as ana:
        now = ana.get("/api/next").json()
        while now["next"]:
            [picture] = now["next"]["pictures"]
            broken[ana.get(f"/api/pictures/{picture['id']}").status_code] = picture["broken"]
            now = ana.post("/api/answer", json={"item": now["next"]["item"], "skip": True}).json()
    assert broken == {404: True, 200: False}
    problems = [p for (p,) in store.rows("SELECT problem FROM pictures WHERE problem NOT NULL")]
    assert len(problems) == 2


def test_too_many_requests_of_one_person_are_slowed(review):
    served, tokens = review
    with served.client(tokens["ana"]) as ana:
        told = [ana.get("/api/task").status_code for _ in range(320)]
    assert 429 in told
    with served.client(tokens["ben"]) as ben:
        assert ben.get("/api/task").status_code == 200
