"""The site, built as strictly as it can be and read in a real browser.

`PICTURES=FOLDER pytest tests/environments/site` also draws the pages, light and dark, wide and narrow.
"""

from __future__ import annotations

import os
import subprocess
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from browser import Browser, browser

ROOT = Path(__file__).parents[3]
MKDOCS = Path(os.environ.get("CAMDF_CACHE", Path.home() / ".cache" / "camdf")) / "site" / "bin" / "mkdocs"
PAGES = (
    *("index", "first-day", "traces/compare", "lab/theory", "lab/replication", "lab/past-the-paper"),
    *(
        "reference/index",
        "reference/camdf.gate.gate",
        "settings",
        "integrations/index",
        "integrations/langchain",
        "integrations/vercel_ai",
    ),
)


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        """Nothing."""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [MKDOCS, "build", "--strict", "--site-dir", folder], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(folder)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


@pytest.fixture(scope="module")
def page() -> Iterator[Browser]:
    with browser() as found:
        yield found


def shown(page: Browser, url: str, width: int, *, dark: bool = False) -> None:
    page.open(url, width, dark=dark, ready=f"document.URL === '{url}'")


@pytest.mark.parametrize("name", PAGES)
@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_a_page_fits_its_window_shows_its_pictures_and_asks_nobody_else(
    name: str, width: int, dark: bool, site: str, page: Browser
) -> None:
    page.asked.clear()
    page.said.clear()
    shown(page, f"{site}/{name}.html", width, dark=dark)
    assert page.run("document.body.dataset.mdColorScheme") == ("slate" if dark else "default")
    assert page.run("document.documentElement.scrollWidth") <= width
    page.run("document.querySelectorAll('img').forEach((each) => { each.loading = 'eager'; })")
    page.until("[...document.images].every((each) => each.complete)")
    assert page.run("[...document.images].filter((each) => !each.naturalWidth).map((each) => each.src)") == []
    assert [each for each in page.asked if not each.startswith((site, "data:"))] == []
    assert page.said == []
    assert "no-run" not in page.run("document.body.innerText")
    if folder := os.environ.get("PICTURES"):
        page.picture(Path(folder) / f"{name.replace('/', '-')}-{width}-{'dark' if dark else 'light'}.png")


def test_the_reference_begins_with_what_users_call(site: str, page: Browser) -> None:
    shown(page, f"{site}/reference/camdf.gate.gate.html", 1280)
    assert page.run("document.querySelector('.doc-heading').innerText").startswith("Gate")


def test_a_search_finds_pages_without_any_network(site: str, page: Browser) -> None:
    shown(page, f"{site}/index.html", 1280)
    page.until("!!document.querySelector('[data-md-component=search-query]')")
    page.run(
        "{ const box = document.querySelector('[data-md-component=search-query]'); box.focus(); "
        "box.value = 'watermark'; box.dispatchEvent(new Event('keyup', {bubbles: true})); }"
    )
    page.until("document.querySelectorAll('.md-search-result__item').length > 0")
    found = page.run("[...document.querySelectorAll('.md-search-result__item a')].map((each) => each.href).join()")
    assert "mining.html" in found
