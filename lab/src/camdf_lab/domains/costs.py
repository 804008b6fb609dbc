"""The paper's cost rules: spread a table of base costs, or draw base costs from tool names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from camdf.errors import UsageError

FLOOR = 0.10
"""The smallest cost that the dispersion rule gives."""

RETAIL_BASE_COSTS: Mapping[str, float] = {
    "calculate": 0.50,
    "find_user_id_by_email": 0.70,
    "find_user_id_by_name_zip": 0.80,
    "list_all_product_types": 1.00,
    "get_user_details": 1.10,
    "get_order_details": 1.80,
    "get_product_details": 2.00,
}
"""The paper's base costs of the tau-bench Retail read tools, before normalization (its Table A2)."""


def dispersed(base: Mapping[str, float], dispersion: float) -> dict[str, float]:
    """c_j(d) = max(0.10, 1 + d (base_j / mean base - 1)): mean 1 before the floor, all equal at d = 0.

    >>> dispersed({"cheap": 0.5, "dear": 1.5}, dispersion=0.5)
    {'cheap': 0.75, 'dear': 1.25}
    """
    if not base:
        raise UsageError("The 'base' costs must price at least one tool.")
    mean = sum(base.values()) / len(base)
    return {tool: max(FLOOR, 1.0 + dispersion * (cost / mean - 1.0)) for tool, cost in base.items()}


def md5_base_costs(tools: Iterable[str], vector: int = 0) -> dict[str, float]:
    """Base costs in [0.5, 2.0] read from md5("{vector}:{tool}") as a fraction of 2^128: no author picks them.

    >>> round(md5_base_costs(["search"])["search"], 6)
    1.844047
    """
    return {tool: 0.5 + 1.5 * _fraction(f"{vector}:{tool}") for tool in tools}


def _fraction(text: str) -> float:
    import hashlib  # loads OpenSSL, which most decisions never need

    return int(hashlib.md5(text.encode(), usedforsecurity=False).hexdigest(), 16) / 2**128
