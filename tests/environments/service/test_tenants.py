"""Whatever one tenant sends, another one is always answered.

How long it waits compared with its time alone, `benchmarks/service.py tenants` measures.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

import pytest

from neighbors import BEYOND, CONFIGURATION, CROWDS, compared
from running_service import Running, folder_of, running


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with running(folder_of(tmp_path_factory.mktemp("tenants") / "served", CONFIGURATION)) as found:
        yield found


@pytest.mark.parametrize("crowd", [*CROWDS, *BEYOND])
def test_whatever_one_tenant_sends_another_is_answered_and_every_refusal_says_when_to_come_back(
    service: Running, crowd: str
) -> None:
    (found,) = islice(compared(service, crowd, 2.0), 1)
    assert set(found.south) == {200}
    assert set(found.north) <= {"200", "408", "503, and when to come back"}
