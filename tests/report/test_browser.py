"""The page in a real browser: sorting, filtering, silence on console and network, and whether everyone can use it."""

from __future__ import annotations

from pathlib import Path

import pytest

from equipoise.report import write

HOSTILE = "<script>window.hit=1</script><img src=x onerror='window.hit=2'>\"&"

pytestmark = pytest.mark.slow

CONTRAST = (Path(__file__).parent / "contrast.js").read_text(encoding="utf-8")

ACCESS = (Path(__file__).parent / "access.js").read_text(encoding="utf-8")

SHOWN = "[...document.querySelectorAll('#subject-table tbody tr')].filter(r => !r.hidden)"


@pytest.fixture(scope="module")
def artefacts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("screenshots")


@pytest.mark.parametrize(("width", "dark"), [(1280, False), (1280, True), (390, False), (390, True)])
def test_the_page_is_silent_and_everyone_can_use_it(browser, page, artefacts, width, dark):
    tab = browser.open(page, width=width, dark=dark)
    assert tab.messages() == []
    assert tab.requests() == [page.resolve().as_uri()]
    tab.run("document.querySelectorAll('details').forEach(d => d.open = true)")
    assert tab.run(ACCESS) == []
    contrast = tab.run(CONTRAST)
    assert contrast["seen"] > 300
    assert contrast["bad"] == []
    assert tab.run("document.documentElement.scrollWidth") <= width
    name = f"{'phone' if width < 600 else 'desktop'}{'-dark' if dark else ''}.png"
    shot = tab.screenshot(artefacts / name, whole=True)
    assert shot.stat().st_size > 50_000


FIGURES = """[...document.querySelectorAll('svg.figure')].map(figure => {
  const place = figure.parentElement;
  const sizes = [...figure.querySelectorAll('text')].filter(text => text.getBoundingClientRect().width > 0)
    .map(text => parseFloat(getComputedStyle(text).fontSize) * figure.getBoundingClientRect().width
      / figure.viewBox.baseVal.width);
  sizes.sort((a, b) => a - b);
  return {width: figure.getBoundingClientRect().width, scrolls: place.scrollWidth > place.clientWidth + 1,
          middle: sizes[sizes.length >> 1]};
})"""


def test_figures_fit_a_phone_and_stay_readable(browser, page):
    narrow, wide = (browser.open(page, width=width).run(FIGURES) for width in (400, 1280))
    assert len(narrow) == len(wide) > 5
    for figure in narrow:
        assert figure["width"] <= 400
        assert not figure["scrolls"]
        assert figure["middle"] >= 7.5
    assert sum(figure["middle"] >= 9 for figure in narrow) > len(narrow) / 2
    assert all(figure["middle"] >= 11 for figure in wide)


def test_dark_is_dark_and_light_is_light(browser, page):
    def ground(dark: bool) -> list[int]:
        tab = browser.open(page, dark=dark)
        return tab.run("getComputedStyle(document.body).backgroundColor.match(/\\d+/g).map(Number)")

    assert min(ground(False)) > 230
    assert max(ground(True)) < 40


def test_clicking_a_heading_sorts_the_table(browser, page):
    tab = browser.open(page)
    heads = tab.run("[...document.querySelectorAll('#subject-table th button')].map(b => b.textContent)")
    for name, key in (("excess", "Number(r.cells[5].dataset.v)"), ("subject", "r.cells[0].textContent.toLowerCase()")):
        place = heads.index(name)
        told = {}
        for _ in range(2):
            tab.run(f"document.querySelectorAll('#subject-table th button')[{place}].click()")
            direction = tab.run(f"document.querySelectorAll('#subject-table thead th')[{place}].ariaSort")
            told[direction] = tab.run(f"{SHOWN}.map(r => {key})")
        assert told["ascending"] == sorted(told["ascending"])
        assert told["descending"] == sorted(told["descending"], reverse=True)
    assert tab.run("document.querySelectorAll('#subject-table th[aria-sort]').length") == 1
    assert tab.messages() == []


def test_the_filters_leave_the_rows_that_fit(browser, page):
    tab = browser.open(page)
    every = tab.run(f"{SHOWN}.length")

    def put(selector: str, setting: str) -> int:
        tell = "e.dispatchEvent(new Event('input', {bubbles: true}))"
        tab.run(f"(e => {{ {setting}; {tell} }})(document.querySelector('{selector}'))")
        return tab.run(f"{SHOWN}.length")

    nurses = put("#f-text", "e.value = 'NURSE'")
    assert 0 < nurses < every
    assert set(tab.run(f"{SHOWN}.map(r => r.cells[0].firstChild.textContent.trim())")) == {"nurse"}
    assert tab.run("document.getElementById('f-count').textContent") == f"{nurses} of {every} rows"
    assert tab.run("[...document.querySelectorAll('circle.found')].every(c => c.dataset.subject === 'nurse')")
    assert tab.run("document.querySelectorAll('circle.found').length") > 0
    assert put("#f-axis", "e.value = 'skin tone'") < nurses
    assert set(tab.run(f"{SHOWN}.map(r => r.dataset.axis)")) == {"skin tone"}
    put("#f-text", "e.value = ''")
    put("#f-axis", "e.value = ''")
    sure = put("#f-sure", "e.checked = true")
    assert 0 < sure < every
    assert tab.run(f"{SHOWN}.every(r => Number(r.cells[6].dataset.v) < 0.05)")
    assert put("#f-sure", "e.checked = false") == every
    assert put("#f-text", "e.value = 'no such subject'") == 0
    assert put("#f-text", "e.value = 'repaired'") == 0, "a model's name beside a subject is no subject"
    assert tab.messages() == []


def test_the_keyboard_alone_sorts_and_filters(browser, page):
    tab = browser.open(page)
    tab.key("Tab", 9)
    assert tab.run("document.activeElement.className") == "skip"
    tab.run("document.getElementById('f-text').focus()")
    for letter in "chef":
        tab.key(letter, ord(letter.upper()), letter)
    assert set(tab.run(f"{SHOWN}.map(r => r.cells[0].firstChild.textContent.trim())")) == {"chef"}
    tab.run("document.querySelector('#subject-table th button').focus()")
    tab.key("Enter", 13, "\r")
    assert tab.run("document.querySelector('#subject-table thead th').ariaSort") == "descending"
    assert tab.run("getComputedStyle(document.activeElement).outlineStyle") != "none"


def test_markup_in_names_is_shown_and_not_run(browser, results_folder, tmp_path):
    row = {"metric": "max_skew", "variant": "equipoise", "model": HOSTILE, "axis": HOSTILE, "k": 5, "value": 0.7}
    row |= {"null_mean": 0.2, "null_sd": 0.05, "excess": 0.5, "ci_low": 0.6, "ci_high": 0.8, "p_value": 0.001, "n": 9}
    rows = [row, {**row, "subject": HOSTILE, "n": 1}, {**row, "subject": "b", "n": 1}]
    rows += [{**row, "metric": "representation", "group": f"{HOSTILE}{g}"} for g in "ab"]
    tab = browser.open(write(results_folder(rows), tmp_path / "p.html", title=HOSTILE))
    assert tab.run("window.hit") is None
    assert tab.run("document.querySelector('h1').textContent") == HOSTILE
    assert HOSTILE in tab.run("[...document.querySelectorAll('#subject-table tbody th')].map(h => h.textContent)")
    assert tab.run("document.querySelectorAll('img').length") == 0
    assert tab.messages() == []
    assert len(tab.requests()) == 1


def test_a_caption_with_markup_is_shown_and_not_run(browser, captions_folder, tmp_path):
    import shutil

    import pandas as pd

    folder = shutil.copytree(captions_folder, tmp_path / "captions")
    frame = pd.read_csv(folder / "captions.csv")
    frame.loc[0, "caption"], frame.loc[0, "score"] = f"red {HOSTILE}", 1.0
    frame.to_csv(folder / "captions.csv", index=False)
    tab = browser.open(write(folder, tmp_path / "p.html"))
    assert tab.run("window.hit") is None
    shown = tab.run("[...document.querySelectorAll('.captions li')].map(e => e.textContent)")
    assert any(f"red {HOSTILE}" in text for text in shown)
    assert tab.messages() == []


def test_a_script_that_gets_in_is_still_not_run(browser, page, tmp_path):
    """The page forbids every script but its own, and every address."""
    forged = tmp_path / "forged.html"
    text = page.read_text(encoding="utf-8")
    forged.write_text(
        text.replace("</main>", "<script>window.hit=1</script><img src='https://example.org/a.png'></main>")
    )
    tab = browser.open(forged)
    assert tab.run("window.hit") is None
    told = " ".join(tab.messages())
    assert told.count("Content Security Policy") >= 2
    assert "script-src" in told
    assert "img-src" in told


def test_it_prints_without_what_is_for_the_screen(browser, page):
    tab = browser.open(page, dark=True)
    browser.call("Emulation.setEmulatedMedia", tab.session, media="print")
    assert tab.run("getComputedStyle(document.querySelector('nav')).display") == "none"
    assert tab.run("getComputedStyle(document.querySelector('.filters')).display") == "none"
    assert min(tab.run("getComputedStyle(document.body).backgroundColor.match(/\\d+/g).map(Number)")) > 230
    assert tab.run(f"{SHOWN}.filter(r => getComputedStyle(r).display !== 'none').length") == 40
    printed = browser.call("Page.printToPDF", tab.session)["data"]
    assert len(printed) > 50_000
