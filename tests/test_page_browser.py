"""The page in a real browser: hover, click, keyboard, search; no error and no request.

Needs Debian's chromium and chromium-driver, and selenium; skipped with the reason where they are
missing, unless ROLECALL_REQUIRE_BROWSER=1. Screenshots go to rolecall-out/screens.
"""

from __future__ import annotations

import base64
import importlib.util
import json
import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rolecall.reports.dossier import dossier
from rolecall.reports.head_page import head_html
from rolecall.reports.page import report_html
from rolecall.reports.run import read_run
from tests.run_folders import write_run
from tests.test_page import NASTY, store_sample

pytestmark = pytest.mark.slow

FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
    "--hide-scrollbars",
)
SCREENS = Path(__file__).parent.parent / "rolecall-out" / "screens"


def missing() -> str:
    """What is not there, or nothing."""
    needed = [name for name in ("chromium", "chromedriver") if shutil.which(name) is None]
    if importlib.util.find_spec("selenium") is None:
        needed.append("selenium")
    return ", ".join(needed)


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Pages of a small model, SmolLM2's shape, a thousand heads, scores alone, effects alone."""
    made = {}
    for name, shape, tables in (
        ("small", (5, 8), None),
        ("middle", (30, 9), None),
        ("large", (32, 32), None),
        ("partial", (5, 8), ("scores", "manifest")),
        ("effects", (5, 8), ("effects", "manifest")),
    ):
        folder = tmp_path_factory.mktemp(name)
        title = f"drawn {name} {NASTY}"
        write_run(folder, shape, name=title, **({"tables": tables} if tables else {}))
        store_sample(folder, "coreference", "L4H2", ("<s>", NASTY, " it", " b", " q", " r", " s"))
        made[name] = folder / "report.html"
        made[name].write_text(report_html(read_run(folder)), encoding="utf-8")
    return made


@pytest.fixture
def browser(tmp_path: Path) -> Iterator[Any]:
    if missing():
        text = f"no {missing()}: apt-get install chromium chromium-driver; pip install selenium"
        if os.environ.get("ROLECALL_REQUIRE_BROWSER") == "1":
            pytest.fail(text)
        pytest.skip(text)
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    for flag in (*FLAGS, f"--user-data-dir={tmp_path / 'profile'}"):
        options.add_argument(flag)
    options.binary_location = str(shutil.which("chromium"))
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(str(shutil.which("chromedriver"))))
    try:
        yield driver
    finally:
        driver.quit()


def look(browser: Any, page: Path, *, width: int = 1280, dark: bool = False, at: str = "") -> None:
    """Nothing; opens the page in a window this wide."""
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    scheme = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": scheme})
    browser.get_log("performance")  # what the empty window did before is no matter of ours
    browser.get(f"{page.as_uri()}{at}")


def errors(browser: Any) -> list[str]:
    """What the console complains of."""
    return [entry["message"] for entry in browser.get_log("browser")]


def requests(browser: Any) -> list[str]:
    """Addresses that were asked for, the page's own apart."""
    events = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    asked = [
        e["params"]["request"]["url"] for e in events if e["method"] == "Network.requestWillBeSent"
    ]
    return [url for url in asked if not url.startswith(("file:", "data:", "chrome:"))]


def js(browser: Any, code: str) -> Any:
    return browser.execute_script(code)


def shoot(browser: Any, name: str) -> None:
    """Nothing; keeps a picture of the whole page."""
    size = browser.execute_cdp_cmd("Page.getLayoutMetrics", {})["cssContentSize"]
    clip = {"x": 0, "y": 0, "width": size["width"], "height": min(size["height"], 6000), "scale": 1}
    how = {"captureBeyondViewport": True, "clip": clip}
    data = browser.execute_cdp_cmd("Page.captureScreenshot", how)["data"]
    SCREENS.mkdir(parents=True, exist_ok=True)
    (SCREENS / f"{name}.png").write_bytes(base64.b64decode(data))


@pytest.mark.parametrize("name", ["small", "middle", "large", "partial", "effects"])
@pytest.mark.parametrize("width", [1280, 390])
def test_no_error_no_request_no_sideways_scroll(
    browser: Any, pages: dict[str, Path], name: str, width: int
) -> None:
    look(browser, pages[name], width=width)
    shoot(browser, f"{name}-{width}")
    assert errors(browser) == []
    assert requests(browser) == []
    wide = js(browser, "return [document.documentElement.scrollWidth, innerWidth]")
    assert wide[0] <= wide[1]
    assert js(browser, "return document.querySelectorAll('img').length") == 0
    assert NASTY in js(browser, "return document.querySelector('h1').textContent")


def test_a_thousand_heads_open_within_two_seconds(browser: Any, pages: dict[str, Path]) -> None:
    times = []
    for _ in range(3):
        look(browser, pages["large"])
        times.append(
            js(browser, "return performance.getEntriesByType('navigation')[0].loadEventEnd")
        )
        time.sleep(0.1)
    assert min(times) < 2000


def test_hover_tells_the_evidence_and_click_opens_the_card(
    browser: Any, pages: dict[str, Path]
) -> None:
    from selenium.webdriver.common.action_chains import ActionChains
    from selenium.webdriver.common.by import By

    look(browser, pages["small"])
    box = browser.find_element(By.ID, "atlas-box")
    browser.execute_script("arguments[0].scrollIntoView({block: 'center'})", box)
    atlas = box.find_element(By.CSS_SELECTOR, "svg")
    left, top, wide, high = map(float, atlas.get_dom_attribute("data-place").split())
    scale = atlas.rect["width"] / float(atlas.get_dom_attribute("viewBox").split()[2])
    x, y = (left + 3.5 * wide) * scale, (top + 1.5 * high) * scale
    middle = atlas.rect["width"] / 2, atlas.rect["height"] / 2
    move = ActionChains(browser)
    move.move_to_element_with_offset(atlas, int(x - middle[0]), int(y - middle[1])).perform()
    tip = browser.find_element(By.ID, "tip")
    assert tip.is_displayed()
    assert tip.text.startswith("L1H3: ")
    assert "chance" in tip.text
    move.click().perform()
    card = browser.find_element(By.ID, "card")
    assert card.is_displayed()
    assert "L1H3" in card.find_element(By.ID, "card-title").text
    assert "What breaks without it" in card.text
    assert browser.current_url.endswith("#L1H3")
    shoot(browser, "card")
    from selenium.webdriver.common.keys import Keys

    ActionChains(browser).send_keys(Keys.ESCAPE).perform()
    assert not card.is_displayed()
    assert errors(browser) == []


def test_the_keyboard_reaches_every_head(browser: Any, pages: dict[str, Path]) -> None:
    from selenium.webdriver.common.by import By
    from selenium.webdriver.common.keys import Keys

    look(browser, pages["small"])
    box = browser.find_element(By.ID, "atlas-box")
    js(browser, "document.getElementById('atlas-box').focus()")
    box.send_keys(Keys.ARROW_DOWN, Keys.ARROW_RIGHT, Keys.ARROW_RIGHT, Keys.ARROW_UP)
    now = browser.find_element(By.ID, "atlas-now")
    assert now.text.startswith("L0H2: ")
    assert now.get_attribute("aria-live") == "polite"
    box.send_keys(Keys.ARROW_UP)  # at the edge it stays
    assert now.text.startswith("L0H2: ")
    box.send_keys(Keys.ENTER)
    assert "L0H2" in browser.find_element(By.ID, "card-title").text
    assert js(browser, "return document.getElementById('card').contains(document.activeElement)")


def test_search_filters_and_headers_sort(browser: Any, pages: dict[str, Path]) -> None:
    from selenium.webdriver.common.by import By

    look(browser, pages["middle"])

    def rows() -> list[list[str]]:
        code = "return [...document.querySelectorAll('#table tbody tr')].map("
        return js(browser, code + "r => [...r.cells].map(c => c.textContent.trim()))")

    assert len(rows()) == 100
    browser.find_element(By.ID, "find").send_keys("coreference")
    found = rows()
    assert 0 < len(found) < 100
    assert all("coreference" in row[1] for row in found)
    header = browser.find_element(By.CSS_SELECTOR, "th[data-key='score'] button")
    js(browser, "document.querySelector('th[data-key=score] button').click()")
    scores = [float(row[3]) for row in rows()]
    assert scores == sorted(scores, reverse=True)
    assert header.find_element(By.XPATH, "..").get_attribute("aria-sort") == "descending"
    js(browser, "document.querySelector('th[data-key=score] button').click()")
    assert [float(row[3]) for row in rows()] == sorted(scores)
    browser.find_element(By.ID, "find").clear()
    browser.find_element(By.ID, "find").send_keys("L29H8")
    assert [row[0] for row in rows()] == ["L29H8"]
    assert browser.find_element(By.ID, "count").text == "1 of 270 heads"
    browser.find_element(By.ID, "find").clear()
    browser.find_element(By.ID, "find").send_keys(" ")
    browser.find_element(By.ID, "more").click()
    assert len(rows()) == 270


def test_a_link_to_a_head_opens_its_card(browser: Any, pages: dict[str, Path]) -> None:
    from selenium.webdriver.common.by import By

    look(browser, pages["small"], at="#L4H2")
    card = browser.find_element(By.ID, "card")
    assert card.is_displayed()
    assert "L4H2" in card.text
    assert "Raises" in card.text
    look(browser, pages["small"])
    link = browser.find_element(By.CSS_SELECTOR, "#roles a[href='#role-coreference']")
    link.click()
    top = js(
        browser, "return document.getElementById('role-coreference').getBoundingClientRect().top"
    )
    assert abs(top) < 300


@pytest.mark.parametrize("dark", [False, True])
def test_text_can_be_read_in_light_and_dark(
    browser: Any, pages: dict[str, Path], dark: bool
) -> None:
    from tests.test_reports import contrast

    look(browser, pages["small"], dark=dark)
    shoot(browser, "dark" if dark else "light")
    code = "const s = getComputedStyle(document.documentElement);"
    code += "return ['paper', 'ink', 'soft', 'link', 'good', 'some', 'query', 'target', 'rival']"
    code += ".map(n => s.getPropertyValue('--' + n).trim())"
    paper, *inks = js(browser, code)
    assert (contrast(paper, "#000000") < 5) == dark
    for ink in inks:
        assert contrast(paper, ink) >= 4.5, ink


def test_everything_has_a_name_for_a_screen_reader(browser: Any, pages: dict[str, Path]) -> None:
    look(browser, pages["small"])
    nameless = js(
        browser,
        "return [...document.querySelectorAll('button, a[href], select, input, svg[role=img]')]"
        ".filter(e => !(e.textContent.trim() || e.getAttribute('aria-label') || e.labels?.length"
        " || e.title)).map(e => e.outerHTML.slice(0, 80))",
    )
    assert nameless == []
    tree = js(
        browser,
        "return [document.documentElement.lang, document.querySelectorAll('h1').length,"
        " document.querySelectorAll('main').length,"
        " [...document.querySelectorAll('th')].every(t => t.scope)]",
    )
    assert tree == ["en", 1, 1, True]


@pytest.mark.parametrize("toggled", [False, True])
def test_a_dark_page_prints_on_white(browser: Any, pages: dict[str, Path], toggled: bool) -> None:
    look(browser, pages["small"], dark=not toggled)
    if toggled:
        js(browser, "document.getElementById('theme').click()")
    colour = "return getComputedStyle(document.body).backgroundColor"
    assert js(browser, colour) == "rgb(20, 24, 28)"
    scheme = [{"name": "prefers-color-scheme", "value": "light" if toggled else "dark"}]
    printing = {"media": "print", "features": scheme}
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", printing)
    assert js(browser, colour) == "rgb(255, 255, 255)"
    assert js(browser, "return getComputedStyle(document.body).color") == "rgb(0, 0, 0)"


@pytest.mark.parametrize("width", [1280, 390])
def test_a_heads_own_page_fits_and_can_be_read(
    browser: Any, pages: dict[str, Path], width: int
) -> None:
    run = read_run(pages["small"].parent)
    page = pages["small"].with_name("L4H2.html")
    page.write_text(head_html(run, dossier(run, (4, 2))), encoding="utf-8")
    look(browser, page, width=width)
    shoot(browser, f"head-{width}")
    assert errors(browser) == []
    assert requests(browser) == []
    wide = js(browser, "return [document.documentElement.scrollWidth, innerWidth]")
    assert wide[0] <= wide[1]
    high = "return Math.min(...[...document.querySelectorAll('.profile svg text')]"
    assert js(browser, f"{high}.map(t => t.getBoundingClientRect().height))") >= 8


CLIPPED = """
document.querySelectorAll('details').forEach(d => d.open = true);
const seen = [...document.querySelectorAll('table')].filter(t => t.checkVisibility());
const inside = (box, frame) => box.left >= frame.left - 1 && box.right <= frame.right + 1;
const wrong = [];
for (const table of seen) {
  const frame = (table.closest('.scroll') || table.parentElement).getBoundingClientRect();
  for (const cell of table.querySelectorAll('caption, th, td')) {
    if (!cell.checkVisibility() || cell.closest('.index thead')) continue;
    const fits = cell.scrollWidth <= cell.clientWidth + 1;
    if (!fits || !inside(cell.getBoundingClientRect(), frame))
      wrong.push((table.caption || table.rows[0]).textContent.trim() + ': ' + cell.textContent);
  }
}
return [seen.length, wrong];
"""


@pytest.mark.parametrize("name", ["small", "middle", "partial", "effects", "card", "head"])
def test_on_a_phone_tables_are_seen_whole_with_effects_beside_the_heads(
    browser: Any, pages: dict[str, Path], name: str
) -> None:
    page, at = pages.get(name, pages["small"]), "#L4H2" if name == "card" else ""
    if name == "head":
        page = pages["small"].with_name("phone.html")
        facts = dossier(read_run(pages["small"].parent), (4, 2))
        page.write_text(head_html(read_run(pages["small"].parent), facts), encoding="utf-8")
    look(browser, page, width=390, at=at)
    shoot(browser, f"phone-{name}")
    tables, clipped = js(browser, CLIPPED)
    assert tables
    assert clipped == []
    headed = (
        "return [...document.querySelectorAll('thead th')].filter(t => t.checkVisibility())"
        ".map(t => t.textContent.trim())"
    )
    effect = "Total" if name in ("card", "head") else "Effect"
    assert (effect in js(browser, headed)) == (name != "partial")


def test_who_does_coreference_and_does_it_matter_is_seen_at_once(
    browser: Any, pages: dict[str, Path]
) -> None:
    """The answer stands on the first screen, without a scroll, a click or a hover."""
    look(browser, pages["small"])
    code = "const link = document.querySelector('#roles a[href=\"#role-coreference\"]');"
    code += (
        "const row = link.closest('tr'); row.querySelectorAll('.tier').forEach(t => t.remove());"
    )
    code += "return [row.getBoundingClientRect().bottom, innerHeight, row.textContent]"
    bottom, screen, text = js(browser, code)
    assert bottom < screen
    assert "It matters" in text
    said = " ".join(text.split())
    assert "removing L4H2 lowers the logit difference on coreference" in said


def test_the_page_prints(browser: Any, pages: dict[str, Path]) -> None:
    look(browser, pages["middle"])
    data = browser.execute_cdp_cmd("Page.printToPDF", {"printBackground": True})["data"]
    SCREENS.mkdir(parents=True, exist_ok=True)
    (SCREENS / "print.pdf").write_bytes(base64.b64decode(data))
    assert len(data) > 20_000
