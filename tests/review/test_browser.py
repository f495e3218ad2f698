"""The pages in a real browser: by keyboard, by touch, two people at once, closed and opened again, and for everyone."""

from __future__ import annotations

import json
import os
import time
from dataclasses import replace
from pathlib import Path

import pytest
from tests.review.conftest import rows_of

from equipoise.data import Table
from equipoise.review import open_review, preset
from equipoise.review.labels import labels_frame, take_in
from equipoise.review.static_pages import export_static, read_static

pytestmark = pytest.mark.slow

HERE = Path(__file__).parent
CONTRAST = (HERE.parent / "report" / "contrast.js").read_text(encoding="utf-8")
ACCESS = (HERE / "access.js").read_text(encoding="utf-8")
SHOTS = os.environ.get("EQUIPOISE_SCREENSHOTS", "")
"""A folder to keep the screenshots in, to be looked at."""
AXE = os.environ.get("EQUIPOISE_AXE", "")
"""axe.min.js of the npm package axe-core, where it is at hand: its rules are checked as well as our own."""
ITEM = "!!document.querySelector('#form [data-choice], #form textarea')"
CODES = {"Enter": 13, "Tab": 9, "Escape": 27, "ArrowDown": 40, "ArrowUp": 38, " ": 32}


def press(tab, *keys):
    for key in keys:
        text = "\r" if key == "Enter" else key if len(key) == 1 else ""
        tab.key(key, CODES.get(key, ord(key[0].upper())), text)


def done(tab, n):
    """Wait until ``n`` answers are confirmed."""
    tab.until(f"document.getElementById('count').textContent.startsWith('{n} of')")


def begun(browser, address, **size):
    tab = browser.open(address, **size)
    tab.until("!!document.querySelector('#begin')")
    return tab


def silent(tab, served):
    assert tab.messages() == []
    assert all(url.startswith((served.home, "blob:")) for url in tab.requests())


def checked(tab, name, width):
    """Accessibility, contrast and width of what is shown; and a picture of it."""
    assert tab.run(ACCESS) == []
    contrast = tab.run(CONTRAST)
    assert contrast["bad"] == []
    assert contrast["seen"] > 5
    assert tab.run("document.documentElement.scrollWidth") <= width
    if AXE:
        tab.run(Path(AXE).read_text(encoding="utf-8") + "; 0")
        assert tab.run("axe.run().then(r => r.violations.map(v => v.id + ': ' + v.nodes[0].html))") == []
    if SHOTS:
        tab.screenshot(Path(SHOTS) / f"{name}.png")


def test_a_whole_session_by_keyboard_alone(browser, table, review_of, serving):
    store = review_of(table, shared=1.0)
    token = store.add("ana")["ana"]
    served = serving(store)
    tab = begun(browser, served.link(token))
    press(tab, "Enter")
    tab.until(ITEM)
    press(tab, "1")
    done(tab, 1)
    press(tab, "3")
    done(tab, 2)
    press(tab, "u")  # the last one again
    done(tab, 1)
    tab.until("document.querySelector('[data-choice=unsure]').getAttribute('aria-pressed') === 'true'")
    press(tab, "2")
    done(tab, 2)
    press(tab, "n", *"fine", "Escape", "1")  # a note, and keys in it are letters
    done(tab, 3)
    press(tab, "s")
    done(tab, 4)
    press(tab, "p")
    tab.until("document.querySelector('h2').textContent === 'Paused'")
    assert tab.run("document.querySelectorAll('img').length") == 0
    press(tab, "1")  # nothing is answered while paused
    press(tab, "Enter")
    tab.until(ITEM)
    press(tab, "?")
    tab.until("document.querySelector('h2').textContent === 'Help'")
    press(tab, "Escape")
    tab.until(ITEM)
    for n in range(5, 12):
        press(tab, "2")
        done(tab, n)
    press(tab, "Tab")  # and with buttons reached by Tab
    for _ in range(12):
        if tab.run("document.activeElement.dataset.choice") == "male":
            break
        press(tab, "Tab")
    press(tab, " ")
    done(tab, 12)
    tab.until("document.querySelector('h2').textContent.startsWith('All done')")
    silent(tab, served)
    frame = labels_frame(store, skipped=True)
    assert len(frame[frame["question"] == "gender"]) == 11
    assert frame["skipped"].sum() == 1
    assert frame[frame["question"] == "note"]["answer"].tolist() == ["fine"]
    assert frame["seconds"].notna().all()
    tab.close()


def test_several_questions_by_keyboard(browser, table, review_of, serving):
    store = review_of(table, preset("counterfactual-set"), shared=1.0)
    token = store.add("ana")["ana"]
    tab = begun(browser, serving(store).link(token))
    press(tab, "Enter")
    tab.until(ITEM)
    press(tab, "Enter")
    tab.until("document.getElementById('notice').textContent.startsWith('Not answered yet')")
    press(tab, "2", "1", "3", "1", "Enter")  # no; what went wrong: the first and the third, then not the first
    done(tab, 1)
    press(tab, "2", "ArrowUp", "1", "Enter")  # a change of mind
    done(tab, 2)
    frame = labels_frame(store)
    assert sorted(frame[frame["question"] == "same_except"]["answer"]) == ["no", "yes"]
    assert json.loads(frame[frame["question"] == "failures"]["answer"].iloc[0]) == ["out of frame or focus"]
    tab.close()


def test_a_session_by_touch_on_a_phone(browser, table, review_of, serving):
    store = review_of(table, preset("monk-skin-tone"), shared=1.0)
    token = store.add("ana")["ana"]
    served = serving(store)
    tab = browser.open("about:blank", width=390, height=800)
    browser.call("Emulation.setTouchEmulationEnabled", tab.session, enabled=True)
    browser.call("Page.navigate", tab.session, url=served.link(token))
    tab.until("!!document.querySelector('#begin')")
    tab.tap("#begin")
    tab.until(ITEM)
    for n in range(1, 13):
        tab.tap(f"[data-choice='{n if n <= 10 else 'cannot tell'}']")
        done(tab, n)
    tab.until("document.querySelector('h2').textContent.startsWith('All done')")
    silent(tab, served)
    answers = sorted(labels_frame(store)["answer"])
    assert answers == sorted([*map(str, range(1, 11)), "cannot tell", "cannot tell"])
    tab.close()


def test_touch_targets_are_large(browser, table, review_of, serving):
    store = review_of(table, preset("similar-to-source"), shared=1.0)
    tab = begun(browser, serving(store).link(store.add("ana")["ana"]), width=390)
    tab.run("document.querySelector('#begin').click()")
    tab.until(ITEM)
    small = "[...document.querySelectorAll('button')].filter(b => b.getBoundingClientRect().height < 44).length"
    assert tab.run(small) == 0
    tab.close()


def test_closed_and_opened_again_goes_on_where_it_was(browser, table, review_of, serving):
    store = review_of(table, shared=1.0)
    token = store.add("ana")["ana"]
    served = serving(store)
    tab = begun(browser, served.link(token))
    press(tab, "Enter")
    tab.until(ITEM)
    for n in (1, 2, 3):
        press(tab, "1")
        done(tab, n)
    tab.close()
    tab = begun(browser, served.link(token))
    assert tab.run("document.querySelector('h2').textContent") == "Welcome back, ana"
    press(tab, "Enter")
    tab.until(ITEM)
    assert tab.run("document.getElementById('count').textContent") == "3 of 12"
    tab.close()


def test_two_people_at_once_and_the_organiser_sees_it(browser, tmp_path, review_of, serving):
    table = Table.create(tmp_path / "t", rows_of(20), axes=["gender"])
    store = review_of(table, shared=1.0, gold=5)
    tokens = store.add("ana", "ben")
    served = serving(store)
    tabs = {name: begun(browser, served.link(token)) for name, token in tokens.items()}
    for tab in tabs.values():
        browser.call("Target.activateTarget", targetId=tab.target)
        press(tab, "Enter")
        tab.until(ITEM)
    truth = dict(store.rows("SELECT id, name FROM items"))
    for n in range(1, 21):
        for name, tab in tabs.items():
            browser.call("Target.activateTarget", targetId=tab.target)
            item = store.next_item(name)
            right = truth[item].split("-")[0]
            wrong = {"female": "male", "male": "female"}[right]
            said = right if name == "ana" or n % 5 else wrong  # ben errs each fifth time
            press(tab, "1" if said == "female" else "2")
            done(tab, n)
    orders = [i for name in tabs for (i,) in store.rows("SELECT item FROM done WHERE annotator = ? ORDER BY at", name)]
    assert orders[:20] != orders[20:]
    assert sorted(orders[:20]) == sorted(orders[20:])
    page = browser.open(served.link(served.organiser, "organiser"))
    page.until("document.querySelectorAll('table').length >= 4")
    text = page.run("document.querySelector('main').innerText")
    assert "20 of 20 items are finished." in text
    rows = "[...document.querySelectorAll('table')[0].rows].slice(1)"
    cells = page.run(f"{rows}.map(r => [...r.cells].map(c => c.textContent))")
    assert [row[:4] for row in cells] == [["ana", "20", "0", "0"], ["ben", "20", "0", "0"]]
    assert cells[0][5:9] == ["1.00", "0.57 to 1.00", "0.50", "5"]
    # twenty answers, four of them other than ana's: alpha by hand from the two margins
    same, n = 16 / 20, 40
    female = sum(labels_frame(store)["answer"] == "female")
    chance = 1 - 2 * female * (n - female) / (n * (n - 1))
    alpha = page.run("[...document.querySelectorAll('table')[1].rows[1].cells].map(c => c.textContent)")
    assert alpha[2:4] == ["0.80", f"{1 - (1 - same) / (1 - chance):.2f}"]
    checked(page, "organiser", 1280)
    for tab in (page, *tabs.values()):
        silent(tab, served)
        tab.close()


def test_flagged_pictures_are_blurred_until_clicked(browser, tmp_path, review_of, serving):
    rows = [{**row, "unsafe": i == 0} for i, row in enumerate(rows_of(2))]
    table = Table.create(tmp_path / "t", rows, axes=["gender"], columns={"unsafe": "bool"})
    sheet = replace(preset("matches-caption"), flagged="unsafe", warning="Some pictures are hard to look at.")
    store = review_of(table, sheet, shared=1.0)
    tab = begun(browser, serving(store).link(store.add("ana")["ana"]))
    assert "Some pictures are hard to look at." in tab.run("document.querySelector('.warning').textContent")
    press(tab, "Enter")
    seen = {}
    for n in (1, 2):
        tab.until("!!document.querySelector('.frame img[src]')")
        blurred = "getComputedStyle(document.querySelector('.frame img')).filter.startsWith('blur')"
        caption = tab.run("document.querySelector('.told dd').textContent")
        seen[caption] = tab.run(blurred)
        if seen[caption]:
            press(tab, "r")
            assert not tab.run(blurred)
        press(tab, "1")
        done(tab, n)
    assert seen == {"a female nurse, number 0": True, "a male nurse, number 1": False}
    tab.close()


def test_a_stopped_link_says_so(browser, table, review_of, serving):
    store = review_of(table, shared=1.0)
    token = store.add("ana")["ana"]
    served = serving(store)
    tab = begun(browser, served.link(token))
    press(tab, "Enter")
    tab.until(ITEM)
    store.revoke("ana")
    press(tab, "1")
    tab.until("document.querySelector('h2').textContent === 'This link does not open anything'")
    tab.close()


@pytest.mark.parametrize(("width", "dark"), [(1280, False), (390, False), (390, True)])
def test_everyone_can_use_the_pages(browser, tmp_path, review_of, serving, width, dark):
    table = Table.create(tmp_path / "t", rows_of(4), axes=["gender"])
    for name in ("similar-to-source", "matches-caption"):
        store = review_of(table, preset(name), name, shared=1.0)
        served = serving(store)
        tab = begun(browser, served.link(store.add("ana")["ana"]), width=width, dark=dark)
        kind = f"{name}-{'phone' if width < 600 else 'desktop'}{'-dark' if dark else ''}"
        checked(tab, f"{kind}-welcome", width)
        press(tab, "Enter")
        tab.until("[...document.images].length && [...document.images].every(i => i.complete && i.naturalWidth)")
        checked(tab, kind, width)
        silent(tab, served)
        tab.close()


def test_pages_without_a_server(browser, table, review_of, tmp_path):
    store = review_of(table, shared=1.0)
    store.add("dan")
    page = export_static(store, "dan", tmp_path / "pages")
    tab = begun(browser, page)
    press(tab, "Enter")
    tab.until(ITEM)
    for n, key in enumerate("123", 1):
        press(tab, key)
        done(tab, n)
    press(tab, "u")
    done(tab, 2)
    press(tab, "s")
    done(tab, 3)
    assert tab.messages() == []
    assert all(url.startswith(("file:", "blob:")) for url in tab.requests())
    downloads = tmp_path / "downloads"
    downloads.mkdir()
    browser.call("Browser.setDownloadBehavior", behavior="allow", downloadPath=str(downloads))
    tab.run("document.getElementById('download').click()")
    file = downloads / "answers-dan.json"
    end = time.monotonic() + 15
    while not file.is_file() and time.monotonic() < end:
        time.sleep(0.05)
    assert take_in(store, read_static(file, store)) == (3, 1)
    frame = labels_frame(open_review(store.path.parent), skipped=True)
    assert sorted(frame["answer"].dropna()) == ["female", "male"]
    assert frame["skipped"].sum() == 1
    tab.close()
