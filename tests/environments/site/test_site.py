"""The site, built as strictly as it can be and read in a real browser.

`PICTURES=FOLDER pytest tests/environments/site` also draws the pages, light and dark, wide and narrow.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import threading
import tomllib
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from browser import Browser, browser

ROOT = Path(__file__).parents[3]
PYTHON = Path(os.environ.get("CAMDF_CACHE", Path.home() / ".cache" / "camdf")) / "site" / "bin" / "python"
BUILD = (PYTHON, ROOT / ".ci" / "site_versions.py")
ADDRESSES = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["urls"]
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
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site as it is published."""
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run([*BUILD, folder], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return folder


@pytest.fixture(scope="module")
def site(folder: Path) -> Iterator[str]:
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
    shown(page, f"{site}/dev/{name}.html", width, dark=dark)
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
    shown(page, f"{site}/dev/reference/camdf.gate.gate.html", 1280)
    assert page.run("document.querySelector('.doc-heading').innerText").startswith("Gate")


def test_a_search_finds_pages_without_any_network(site: str, page: Browser) -> None:
    shown(page, f"{site}/dev/index.html", 1280)
    page.until("!!document.querySelector('[data-md-component=search-query]')")
    page.run(
        "{ const box = document.querySelector('[data-md-component=search-query]'); box.focus(); "
        "box.value = 'watermark'; box.dispatchEvent(new Event('keyup', {bubbles: true})); }"
    )
    page.until("document.querySelectorAll('.md-search-result__item').length > 0")
    found = page.run("[...document.querySelectorAll('.md-search-result__item a')].map((each) => each.href).join()")
    assert "mining.html" in found


def test_every_page_of_the_sitemap_is_there_at_the_address_of_its_version(folder: Path) -> None:
    listed = re.findall(r"<loc>(.+?)</loc>", (folder / "dev" / "sitemap.xml").read_text("utf-8"))
    home = f"{ADDRESSES['Documentation']}dev/"
    assert len(listed) > 50
    for address in listed:
        page = folder / "dev" / address.removeprefix(home)
        assert f'<link rel="canonical" href="{address}">' in page.read_text("utf-8")


def test_a_page_is_edited_where_the_repository_has_its_source(folder: Path) -> None:
    edit = re.compile(rf'<a href="{re.escape(ADDRESSES["Source"])}/edit/main/([^"]+)"')
    sources = {page: edit.findall(page.read_text("utf-8")) for page in (folder / "dev").rglob("*.html")}
    without = [page.name for page, found in sources.items() if not found]
    assert without == ["404.html"]
    assert [source for found in sources.values() for source in found if not (ROOT / source).is_file()] == []
    assert sources[folder / "dev" / "index.html"] == ["README.md"]


def test_every_release_has_its_folder_and_the_top_leads_to_the_newest(tmp_path: Path) -> None:
    def git(*arguments: str) -> None:
        settings = ("-c", "user.name=nobody", "-c", "user.email=nobody@example.org")
        subprocess.run(["git", *settings, *arguments], cwd=tmp_path, check=True, capture_output=True)

    git("init")
    (tmp_path / "docs").mkdir()
    (tmp_path / "mkdocs.yml").write_text("site_name: small\n")
    for version in ("0.2.0", "0.10.0", "0.9.0"):
        (tmp_path / "docs" / "index.md").write_text(f"# This is {version}\n")
        git("add", ".")
        git("commit", "--message", version)
        git("tag", f"v{version}")
    (tmp_path / "docs" / "index.md").write_text("# This is not released\n")
    built = tmp_path / "built"
    subprocess.run([*BUILD, built], cwd=tmp_path, check=True)
    offered = [each["version"] for each in json.loads((built / "versions.json").read_text("utf-8"))]
    assert offered == ["0.10.0", "0.9.0", "0.2.0", "dev"]
    for version in offered[:-1]:
        assert f"This is {version}" in (built / version / "index.html").read_text("utf-8")
    assert "This is not released" in (built / "dev" / "index.html").read_text("utf-8")
    assert "url=0.10.0/" in (built / "index.html").read_text("utf-8")
