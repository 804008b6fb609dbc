"""The playground in a real browser: the cut moves, the code says the same, and everybody can use it.

`PICTURES=FOLDER pytest tests/environments/service/test_playground.py` also draws the page, light and dark, wide and
narrow.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import camdf
from browser import Browser, browser
from camdf import datasets
from camdf.gate import Gate
from camdf.scorers import BM25
from camdf.service.outcomes import marked
from running_service import PLAIN, Running, folder_of, running

POLICY = Path(__file__).parents[2] / "parts" / "golden-policy.json"
TOKEN = "a-token-of-more-than-sixteen-characters"
CONTROLS = {"button", "checkbox", "combobox", "radio", "slider", "spinbutton", "textbox"}


@pytest.fixture(scope="module")
def page() -> Iterator[Browser]:
    with browser() as found:
        yield found


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with running(folder_of(tmp_path_factory.mktemp("playground") / "served")) as found:
        yield found


def text(page: Browser, name: str) -> str:
    found: str = page.run(f"document.getElementById({json.dumps(name)}).textContent")
    return found


def kept(page: Browser) -> list[str]:
    """The tools that the table says are kept."""
    found: list[str] = page.run("[...document.querySelectorAll('tr.kept th')].map((each) => each.textContent)")
    return found


def put(page: Browser, name: str, value: object, event: str = "input") -> None:
    """Give a control a value, as a hand would."""
    page.after(
        f"{{ const control = document.getElementById({json.dumps(name)}); control.value = {json.dumps(value)}; "
        f"control.dispatchEvent(new Event('{event}', {{bubbles: true}})); }}"
    )


def choose(page: Browser, value: str) -> None:
    page.after(f"document.querySelector('input[value={value}]').click()")


def opened(page: Browser, service: Running) -> None:
    """The page, with a cost pressure to choose."""
    page.open(service.url, 1280)
    choose(page, "pressure")


def decided_by(page: Browser) -> list[str]:
    """What the code on the page decides when it is run."""
    wire = json.loads(text(page, "wire"))
    page_tools = page.run("typeof tools === 'function' ? tools() : []")
    names: dict[str, Any] = {"messages": wire.get("messages"), "tools": page_tools}
    code = text(page, "code").replace('"policy.json"', repr(str(POLICY)))
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        exec(compile(code, "the page", "exec"), names)
    assert printed.getvalue().startswith("Kept ")
    return sorted(names["decision"].kept)


def test_the_page_asks_nobody_but_the_service_and_nothing_goes_wrong(page: Browser, service: Running) -> None:
    page.said, page.asked = [], []
    page.open(service.url, 1280)
    assert text(page, "said") == f"{len(kept(page))} of 12 tools"
    assert page.asked
    assert all(url.startswith(f"{service.url}/") for url in page.asked), page.asked
    assert page.said == []
    policy = service.ask("/").headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy


def test_the_page_opens_as_the_service_is_set(page: Browser, tmp_path: Path) -> None:
    own = "[gate]\nmean_tools = 3\nprices.uncached = 5.0\nprices.cached = 0.5\n"
    appending = '[gate]\nmean_tools = 4\nmode = "append"\n'
    alone = "decision = gate.decide(messages, tools, takes_messages=False)\n"
    for settings, kept_first, code in (
        ("", 8, "gate = Gate.start(tools, mean_tools=8, mode='drop')\n"),
        (
            own,
            3,
            "gate = Gate.start(tools, mean_tools=3, prices=camdf.Prices(uncached=5.0, cached=0.5), mode='drop')\n",
        ),
        (appending, 4, f"gate = Gate.start(tools, mean_tools=4, mode='append')\n{alone}"),
    ):
        with running(folder_of(tmp_path / f"served-{kept_first}", settings)) as service:
            page.open(service.url, 1280)
            assert len(kept(page)) == kept_first
            assert page.run("document.getElementById('tool_search').checked")
            assert code in text(page, "code")
            assert decided_by(page) == sorted(kept(page))


def test_the_page_decides_as_the_library_does(page: Browser, service: Running) -> None:
    opened(page, service)
    put(page, "amount", 400)
    pressure = page.run("amount()")
    policy = camdf.load(POLICY)
    gate = Gate(policy, BM25(), camdf.Payoff(pressure))
    expected = gate.decide(page.run("messages()"), page.run("tools()"))
    assert sorted(kept(page)) == sorted(expected.kept)
    assert decided_by(page) == sorted(expected.kept)
    wire = json.loads(text(page, "wire"))
    assert wire["tools"] == expected.tools


def test_the_cut_moves_with_the_target(page: Browser, service: Running) -> None:
    opened(page, service)
    counts = []
    for place in (150, 500, 650):
        put(page, "amount", place)
        counts.append(len(kept(page)))
    assert counts[0] >= counts[1] > counts[2] > 0, "a higher cost pressure keeps fewer"
    assert page.run("document.querySelectorAll('tr.line').length") == 1
    for target in ("tools", "sufficiency", "dollars"):
        choose(page, target)
        sizes = []
        for place in (50, 950):
            put(page, "amount", place)
            sizes.append(len(kept(page)))
        assert sizes[0] < sizes[1], target
        assert decided_by(page) == sorted(kept(page)), target


def test_prices_a_tool_search_a_ranking_and_a_shipped_task_show_in_what_is_sent(
    page: Browser, service: Running
) -> None:
    opened(page, service)
    last = kept(page)[-1]
    page.after(
        f"{{ const input = document.querySelector('input[data-tool={last}]'); input.value = 3; "
        "input.dispatchEvent(new Event('change')); }"
    )
    assert last not in kept(page)
    assert decided_by(page) == sorted(kept(page))
    page.after("document.getElementById('priced').click()")
    assert "camdf.Prices(" in text(page, "code")
    assert decided_by(page) == sorted(kept(page))
    page.after("document.getElementById('priced').click()")
    page.after("document.getElementById('tool_search').click()")
    assert page.run("document.getElementById('recourse').value") == "0.9"
    assert [each["function"]["name"] for each in json.loads(text(page, "wire"))["tools"]][-2:] == [
        "find_tool",
        "call_tool",
    ]
    choose(page, "ranking")
    assert decided_by(page) == sorted(kept(page))
    choose(page, "shipped")
    page.until("document.getElementById('more').textContent.includes('The task required: ')")
    assert page.run("document.getElementById('domain').options[0].textContent") == (
        f"retail ({len(datasets.sample())} tasks)"
    )
    put(page, "task", 3, "change")
    assert decided_by(page) == sorted(kept(page))
    assert page.run("document.querySelector('#curve svg').getAttribute('aria-label')").startswith("Expected payoff is ")


def test_what_is_typed_is_text_and_what_is_wrong_is_said(page: Browser, service: Running) -> None:
    page.said.clear()
    page.open(service.url, 1280)
    put(page, "tools", "<img src=x onerror=document.title='broken'>: Book a flight\nb: Play music")
    assert "<img" in page.run("document.getElementById('rows').textContent")
    assert page.run("document.querySelectorAll('img').length") == 0
    assert page.run("document.title") == "camdf playground"
    put(page, "tools", "[1, 2")
    assert text(page, "said").startswith("The tools begin like JSON and are not: ")
    choose(page, "ranking")
    put(page, "ranked", "no score here")
    assert text(page, "said").startswith('Write "name: score"')
    assert page.said == []


def test_every_control_is_reached_by_the_keyboard_and_has_a_name(page: Browser, service: Running) -> None:
    opened(page, service)
    nodes = page.do("Accessibility.getFullAXTree")["nodes"]
    roles = [(node["role"]["value"], node.get("name", {}).get("value", "")) for node in nodes if "role" in node]
    controls = [(role, name) for role, name in roles if role in CONTROLS]
    assert len(controls) >= 25
    assert [role for role, name in controls if not name.strip()] == []
    assert ("heading", "The decision") in roles
    assert "status" in [role for role, _ in roles]
    reached = set()
    for _ in range(60):
        page.press("Tab", 9)
        reached.add(
            page.run(
                "document.activeElement.id || document.activeElement.name || document.activeElement.dataset.tool || ''"
            )
        )
    visible = page.run(
        "[...document.querySelectorAll('input:not([type=radio]), select, textarea, button')]"
        ".filter((each) => each.offsetParent).map((each) => each.id || each.dataset.tool)"
    )
    assert set(visible) <= reached
    page.run("document.getElementById('amount').focus()")
    before = text(page, "amount-said")
    page.press("ArrowRight", 39)
    page.until(f"document.getElementById('amount-said').textContent !== {json.dumps(before)}")


CONTRAST = """
(() => {
  const style = getComputedStyle(document.documentElement), light = (name) => {
    const parts = style.getPropertyValue(name).trim().slice(1).match(/../g).map((each) => parseInt(each, 16) / 255);
    const [r, g, b] = parts.map((each) => (each <= 0.03928 ? each / 12.92 : ((each + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const ratio = (one, other) => (Math.max(one, other) + 0.05) / (Math.min(one, other) + 0.05);
  return Math.min(...["--ink", "--soft", "--kept", "--mark", "--bad"].flatMap(
    (ink) => ["--page", "--panel"].map((paper) => ratio(light(ink), light(paper)))));
})()
"""


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280])
def test_the_page_fits_its_width_and_can_be_read(page: Browser, service: Running, width: int, dark: bool) -> None:
    page.open(service.url, width, dark=dark)
    assert page.run("matchMedia('(prefers-color-scheme: dark)').matches") is dark
    assert page.run("document.documentElement.scrollWidth") <= width
    assert (
        page.run(
            "Math.max(...[...document.querySelectorAll('section')].map((each) => each.getBoundingClientRect().right))"
        )
        < width
    )
    assert (
        page.run("(() => { const box = document.querySelector('.wide'); return box.scrollWidth - box.clientWidth; })()")
        <= 0
    )
    assert page.run(CONTRAST) >= 4.5
    letters = "[...document.querySelectorAll('#curve text')].map((each) => each.getBoundingClientRect().height)"
    assert page.run(f"Math.min(...{letters})") > 11
    if folder := os.environ.get("PICTURES"):
        page.picture(Path(folder) / f"playground-{width}-{'dark' if dark else 'light'}.png")


REBOUND = "rebound.example"


@pytest.fixture(scope="module")
def rebound() -> Iterator[Browser]:
    """A browser for which a name of somebody else's has come to mean this machine."""
    with browser(f"--host-resolver-rules=MAP {REBOUND} 127.0.0.1") as found:
        yield found


def asked_by(page: Browser, url: str) -> list[int]:
    """The statuses that a script on the page gets from the service."""
    found: list[int] = page.run(
        f"""(async () => {{
          const body = JSON.stringify({{ranking: [{{name: "a", score: 0.9}}, {{name: "b", score: 0.1}}]}});
          const outcome = JSON.stringify({{decision: {json.dumps(marked("x", ""))}, called: [], success: false}});
          const headers = {{"Content-Type": "application/json"}};
          const statuses = [];
          for (const [path, content] of [["/v1/decide", body], ["/v1/outcomes", outcome], ["/playground/look", body]])
            statuses.push((await fetch({json.dumps(url)} + path, {{method: "POST", headers, body: content}})).status);
          statuses.push((await fetch({json.dumps(url)} + "/v1/policy")).status);
          return statuses;
        }})()"""
    )
    return found


def test_a_page_of_a_rebound_name_gets_nothing_without_a_token(rebound: Browser, service: Running) -> None:
    there = f"http://{REBOUND}:{service.port}"
    rebound.open(there, 1280, ready="true")
    assert "this service answers calls to this machine alone" in rebound.run("document.body.innerText")
    assert rebound.run("location.origin") == there, "so what follows is asked from its own origin"
    assert asked_by(rebound, there) == [403] * 4
    assert service.number("camdf_outcomes_last") == 0
    rebound.open(service.url, 1280)
    assert asked_by(rebound, service.url) == [200] * 4


def test_a_name_that_is_configured_is_answered_and_its_pages_are(rebound: Browser, tmp_path: Path) -> None:
    configuration = PLAIN.replace("[gate]", f'allowed_hosts = ["{REBOUND.title()}"]\n\n[gate]')
    with running(folder_of(tmp_path / "served", configuration)) as service:
        there = f"http://{REBOUND}:{service.port}"
        rebound.open(there, 1280)
        assert text(rebound, "said").endswith(" of 12 tools")
        assert asked_by(rebound, there) == [200] * 4


def test_a_service_with_tokens_asks_the_page_for_one(page: Browser, tmp_path: Path) -> None:
    configuration = PLAIN.replace("[gate]", 'token_variable = "TOKEN"\n\n[gate]')
    with running(folder_of(tmp_path / "served", configuration), settings={"TOKEN": TOKEN}) as service:
        page.open(service.url, 1280)
        assert text(page, "said").startswith("Send 'Authorization: Bearer TOKEN'")
        assert page.run("document.getElementById('token').offsetParent !== null")
        put(page, "token", TOKEN, "change")
        page.until("document.getElementById('said').textContent.endsWith(' of 12 tools')")
