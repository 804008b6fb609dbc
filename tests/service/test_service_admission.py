"""Admission by itself: tenants divide what there is, slices are short, nobody stands behind all of another's work."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from camdf.service.admission import OWN_SEATS, SEATS, SLICE, Admission, Seats, Shares, Turns
from camdf.service.config import LimitSettings
from camdf.service.limits import RefusedError

TENANTS = "abcd"
OF = 1000


steps = st.lists(st.tuples(st.sampled_from(TENANTS), st.integers(0, 900), st.booleans()), max_size=60)


@given(steps, st.booleans())
def test_a_tenant_holds_its_part_and_all_hold_little_more_than_there_is(
    steps: list[tuple[str, int, bool]], one_always_fits: bool
) -> None:
    shares, held = Shares(), dict[str, list[int]]()
    for tenant, amount, ends in steps:
        own = held.setdefault(tenant, [])
        if ends and own:
            shares.give_back(tenant, own.pop())
            continue
        holders = {name for name, amounts in held.items() if sum(amounts)} | {tenant}
        fits = shares.fits(tenant, amount, OF, amount if one_always_fits else 0)
        assert fits == ((one_always_fits and not sum(own)) or sum(own) + amount <= OF // len(holders))
        if fits:
            shares.take(tenant, amount)
            own.append(amount)
        assert shares.total == sum(map(sum, held.values()))
        if not one_always_fits:
            assert shares.total <= OF * sum(1 / rank for rank in range(1, len(TENANTS) + 1))


def test_a_tenant_that_comes_later_has_its_part_whatever_the_others_hold() -> None:
    limits, admission = LimitSettings(waiting=8, candidates=800), Admission()
    for _ in range(8):
        admission.enter("north", 20, limits)
    with pytest.raises(RefusedError) as refused:
        admission.enter("north", 20, limits)
    assert (refused.value.status, refused.value.headers) == (503, [(b"retry-after", b"1")])
    for _ in range(4):
        admission.enter("south", 20, limits)
    with pytest.raises(RefusedError):
        admission.enter("south", 20, limits)
    for _ in range(5):
        admission.leave("north", 20)
    admission.enter("north", 20, limits)
    with pytest.raises(RefusedError):
        admission.enter("north", 20, limits)


def test_a_request_longer_than_all_that_may_be_under_way_is_let_in_alone_and_leaves_room_for_short_ones() -> None:
    limits, admission = LimitSettings(candidates=1000), Admission()
    counted = admission.enter("", 50_000, limits)
    with pytest.raises(RefusedError):
        admission.enter("", 50_000, limits)
    small = admission.enter("", 200, limits)
    admission.leave("", counted)
    admission.leave("", small)
    assert admission.candidates.total == admission.requests.total == 0


def test_bytes_that_arrive_are_bounded_and_one_whole_body_of_a_tenant_always_fits() -> None:
    limits, admission = LimitSettings(body_bytes=100, held_bytes=150), Admission()
    admission.hold("north", 100, limits)
    with pytest.raises(RefusedError):
        admission.hold("north", 51, limits)
    admission.hold("south", 100, limits)
    with pytest.raises(RefusedError):
        admission.hold("south", 1, limits)


class Slices:
    """Answers each question with itself, and keeps what was asked at a time."""

    def __init__(self) -> None:
        self.seen: list[list[str]] = []
        self.turns: Turns[str, str] = Turns(self._answer)

    def _answer(self, questions: Sequence[str]) -> Sequence[str]:
        self.seen.append(list(questions))
        if "bad" in questions:
            raise ZeroDivisionError
        return questions


def test_a_slice_is_bounded_and_tenants_and_requests_have_their_turns() -> None:
    async def run() -> list[list[str]]:
        slices = Slices()
        ask = slices.turns.ask
        waiting = [ask("north", "list", f"n{i}", SLICE // 4) for i in range(40)]
        waiting += [ask("north", "single", "n-single", 20), ask("south", "single", "s-single", 20)]
        assert await asyncio.gather(*waiting) == [*(f"n{i}" for i in range(40)), "n-single", "s-single"]
        assert await ask("north", "late", "late", 1) == "late"
        return slices.seen

    seen = asyncio.run(run())
    assert seen[0] == ["n0"], "who finds nobody in line is answered at once"
    assert seen[1] == ["s-single"], "another tenant is next"
    assert seen[2] == ["n1", "n-single", "n2", "n3", "n4"], "and of one tenant, another request"
    assert max(map(len, seen)) == 5
    assert sum(map(len, seen)) == 43


def test_the_event_loop_looks_at_the_network_between_two_slices() -> None:
    async def run() -> int:
        slices, ticks = Slices(), 0
        waiting = [slices.turns.ask("", "list", str(i), SLICE) for i in range(20)]
        while not waiting[-1].done():
            await asyncio.sleep(0)
            ticks += 1
        return ticks

    assert asyncio.run(run()) >= 19


def test_what_is_cancelled_is_not_answered_and_what_fails_is_told_and_the_line_goes_on() -> None:
    async def run() -> list[list[str]]:
        slices = Slices()
        ask = slices.turns.ask
        first, gone, bad, good = (ask("", name, name, SLICE) for name in ("first", "gone", "bad", "good"))
        gone.cancel()
        with pytest.raises(ZeroDivisionError):
            await bad
        assert (await first, await good) == ("first", "good")
        return slices.seen

    assert asyncio.run(run()) == [["first"], ["bad"], ["good"]]


def test_work_on_threads_is_bounded_and_a_tenant_does_not_wait_for_all_of_anothers() -> None:
    async def run() -> None:
        seats, at_work, most = Seats(), dict[str, int](), dict[str, int]()
        go_on = asyncio.Event()

        async def work(tenant: str) -> None:
            async with seats.seat(tenant):
                at_work[tenant] = at_work.get(tenant, 0) + 1
                most[tenant] = max(most.get(tenant, 0), at_work[tenant])
                most["all"] = max(most.get("all", 0), sum(at_work.values()))
                await go_on.wait()
                at_work[tenant] -= 1

        begun = [asyncio.create_task(work("north")) for _ in range(50)]
        await asyncio.sleep(0)
        begun += [asyncio.create_task(work(f"tenant-{i}")) for i in range(20) for _ in range(3)]
        for _ in range(5):
            await asyncio.sleep(0)
        assert at_work["north"] == at_work["tenant-0"] == OWN_SEATS
        go_on.set()
        await asyncio.gather(*begun)
        assert most["all"] == SEATS
        assert max(most[name] for name in most if name != "all") == OWN_SEATS

    asyncio.run(run())


def test_work_that_takes_too_long_is_refused_and_told_when_to_come_back() -> None:
    with pytest.raises(RefusedError) as refused:
        asyncio.run(Seats().run("", lambda: time.sleep(0.3), LimitSettings(), 0.01))
    assert refused.value.status == 503
    assert refused.value.headers == [(b"retry-after", b"1")]
