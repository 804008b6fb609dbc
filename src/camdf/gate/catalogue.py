"""A list of tools as a gate reads it: viewed, authorized, bounded and priced.

A list that came before is not read again. It is known by its content, of which a copy is kept: where somebody changes
a definition in place, the list is another one.
"""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from io import BytesIO
from math import inf
from typing import Any, NamedTuple, NoReturn, Protocol, TypeAlias

from camdf.errors import UsageError
from camdf.gate.lists import Mode, last_marked
from camdf.gate.memory import Identity
from camdf.gate.privilege import Privilege, priced_effects
from camdf.gate.settings import Guards, Limits, names_of_one
from camdf.gate.tool_search import SEARCH_NAMES, by_server, names_by_server
from camdf.policies.copies import Copies
from camdf.prices import Prices
from camdf.runtime.forks import Locked
from camdf.tools import WORST, Effect, FromServer, Tool, keyed, native_of, tools_as_given, unread_tool, viewed_tool

LISTS_KEPT = 64
"""How many lists are kept as they were read, for all tenants together."""

BYTES_KEPT = 32_000_000
"""And how many bytes their definitions may have together. A list of more than a tenth of these is not kept."""


class Priced(Protocol):
    """What says the cost of a tool, as `camdf.prices.Prices` does."""

    def of(self, tool: Tool) -> float:
        """The cost of offering this tool to one task."""
        ...


PriceList: TypeAlias = Priced | Mapping[str, float] | Callable[[Tool], float]
CostFunction: TypeAlias = Callable[[str, Tool], float]
"""What a tool costs, by its key."""


@dataclass(frozen=True, eq=False)
class Catalogue:
    """The tools of a list by key, and what guards, limits and prices say of them."""

    tools: dict[str, Tool]
    offered: tuple[str, ...] = ()
    """Keys of the tools that may be offered, in the order of the list."""

    untrusted: frozenset[str] = frozenset()
    """Keys of those from servers that nobody vouches for, where some are trusted."""

    costs: dict[str, float] = field(default_factory=dict)
    """Of the tools that can be scored and cut."""

    unpriced: tuple[str, ...] = ()
    """Keys of the trusted tools whose cost is not known. They are never cut."""

    problem: str = ""
    """The type of what was raised where a tool was priced; "" where nothing was."""

    characters: int = 0
    """How much scorers read of the tools."""

    marked: str | None = None
    """Key of the last tool that says where a cached prompt ends; None where none does: a tool may have no name."""

    bound: frozenset[str] = frozenset()
    """Keys of the tools that run only where something brings them, where the gate has a privilege."""

    @cached_property
    def content(self) -> int:
        """Equal for lists whose candidates neither a scorer nor a policy can tell apart."""
        return hash(tuple([(key, self.tools[key].as_read, cost) for key, cost in self.costs.items()]))

    @cached_property
    def identities(self) -> dict[Identity, str]:
        """Keys by what a tool is in every request: its server, its name, and how many of these came before it."""
        keys: dict[Identity, str] = {}
        seen = Counter[tuple[str, str]]()
        for key, tool in self.tools.items():
            which = tool.server, tool.name
            seen[which] += 1
            keys[(*which, seen[which])] = key
        return keys

    @cached_property
    def identity_of(self) -> dict[str, Identity]:
        """The same by key."""
        return {key: identity for identity, key in self.identities.items()}

    @cached_property
    def servers(self) -> dict[str, str]:
        """Where the tools come from whose server is known, by key."""
        return {key: tool.server for key, tool in self.tools.items() if tool.server}

    def full_names(self, keys: Iterable[str]) -> frozenset[str]:
        """What tools are called in every request, by key: "mail/send", or the name where no server is known."""
        return frozenset(self.tools[key].full_name for key in keys)

    def names_of_same(self, copies: Copies) -> dict[str, str]:
        """By key, the name under which a policy knows each candidate: tools that do the same share one.

        Where some servers are trusted, the key of another tool may lack the server that a policy knows it by.
        """
        leading = frozenset(copies.values())
        names: dict[str, str] = {}
        for key in self.costs:
            full_name = self.tools[key].full_name
            name = full_name if full_name in copies or full_name in leading else key
            names[key] = copies.get(name, name)
        return names

    def standing(self, names: Mapping[str, str]) -> dict[str, str]:
        """By name, the key of the candidate that has it; of several a trusted one, of these the cheapest.

        >>> catalogue = Catalogue({}, costs={"a/find": 1.0, "b/find": 0.5, "mail": 1.0})
        >>> catalogue.standing({"a/find": "a/find", "b/find": "a/find", "mail": "mail"})
        {'a/find': 'b/find', 'mail': 'mail'}
        """
        keys_by_name: dict[str, list[str]] = {}
        for key, name in names.items():
            keys_by_name.setdefault(name, []).append(key)
        return {
            name: min(keys, key=lambda key: (key in self.untrusted, self.costs[key], key != name))
            for name, keys in keys_by_name.items()
        }

    def names(self, keys: Iterable[str], tokens: int, likely: Iterable[str] = ()) -> str:
        """The names of some of its tools, by key, as the search has them; those of `likely` keys go first."""
        untrusted = {self.tools[key].server for key in self.untrusted}
        first = [(self.tools[key].server, self.tools[key].name) for key in likely]
        return names_by_server(by_server(self.tools[key] for key in keys), tokens, untrusted=untrusted, likely=first)

    @cached_property
    def characters_of(self) -> dict[str, int]:
        """How long the definitions are of the tools that may be offered, by key; 0 of those that cannot be written."""
        return {key: _length_of(self.tools[key]) for key in self.offered}

    @cached_property
    def shortest(self) -> tuple[str, ...]:
        """Keys of the trusted tools that can be cut and may always run, the shortest definitions first."""
        left_out = self.untrusted | self.bound
        can_fill = [key for key in self.costs if key not in left_out and self.characters_of[key]]
        return tuple(sorted(can_fill, key=lambda key: (self.characters_of[key], key)))

    @cached_property
    def search_names(self) -> list[str]:
        """Names of the tool search that tools of the list have."""
        return sorted(SEARCH_NAMES.intersection([self.tools[key].name for key in self.offered]))

    @cached_property
    def keys_by_name(self) -> dict[str, list[str]]:
        """Keys of the tools that may be offered, by the name of a tool: the one that it is itself comes first."""
        keys: dict[str, list[str]] = {}
        for key in self.offered:
            keys.setdefault(self.tools[key].name, []).append(key)
        return {name: sorted(named, key=lambda key: key != name) for name, named in keys.items()}

    def aligned(self, scores: Mapping[str, float] | Sequence[float]) -> list[float]:
        """A harness's own scores, by name or in the order of the tools, one for every candidate."""
        if not self.costs:
            return []
        if isinstance(scores, Mapping):
            return [scores[key] if key in scores else scores[self.tools[key].name] for key in self.costs]
        by_key = dict(zip(self.tools, scores, strict=True))
        return [by_key[key] for key in self.costs]


def unread_catalogue(tools: Iterable[Any], *, refuse: bool, binds: bool) -> tuple[Catalogue, dict[str, Any]]:
    """A list that could not be read, and its tools as they came: all may be offered, or, to `refuse` them, none.

    Where a privilege `binds`, nobody knows what they do, so all are bound.
    """
    listed = list(tools) if isinstance(tools, (list, tuple)) else []
    natives = list(map(native_of, listed))
    by_key = keyed(map(unread_tool, natives))
    if refuse:
        return Catalogue(by_key), {}
    offered = dict(zip(by_key, natives, strict=True))
    bound = frozenset(by_key) if binds else frozenset[str]()
    return Catalogue(by_key, tuple(by_key), marked=last_marked(offered), bound=bound), offered


def _length_of(tool: Tool) -> int:
    try:
        return len(tool.definition())
    except Exception:
        return 0


class _PlainPickler(pickle.Pickler):
    """Writes plain values alone: equal bytes are equal values, of the same types and in the same order.

    No value is written as a reference to an earlier one, so that it makes no difference whether two of them are one.
    """

    def reducer_override(self, value: Any) -> NoReturn:
        """Called for all that is not plain: nobody knows whether that stays the same."""
        raise ValueError


class _Snapshot(NamedTuple):
    """What a list holds, as nobody can change it: definitions as bytes, in which 0 and False differ."""

    servers: list[str | None]
    """Of each tool, where the list has any that come from one."""

    ours: dict[int, Tool]
    """The tools that are a `Tool`, which is never changed, by place."""

    definitions: bytes
    """All others."""

    @classmethod
    def of(cls, listed: list[Any]) -> _Snapshot:
        """Raises ValueError where the list holds other than plain values."""
        kinds = set(map(type, listed))
        servers: list[str | None] = []
        ours: dict[int, Tool] = {}
        if FromServer in kinds:
            servers = [native.server if isinstance(native, FromServer) else None for native in listed]
            listed = list(map(native_of, listed))
            kinds = set(map(type, listed))
        if Tool in kinds:
            ours = {place: native for place, native in enumerate(listed) if type(native) is Tool}
            listed = [None if type(native) is Tool else native for native in listed]
        written = BytesIO()
        pickler = _PlainPickler(written, 5)
        pickler.fast = True
        pickler.dump(listed)
        return cls(servers, ours, written.getvalue())

    def listed(self) -> list[Any]:
        """The list again, of which nobody else has a part."""
        natives: list[Any] = pickle.loads(self.definitions)
        for place, tool in self.ours.items():
            natives[place] = tool
        if not self.servers:
            return natives
        return [
            native if server is None else FromServer(server, native)
            for server, native in zip(self.servers, natives, strict=True)
        ]


class _KeptList(NamedTuple):
    """A list as it was read, by whom, and what came of it."""

    reader: CatalogueReader
    snapshot: _Snapshot
    catalogue: Catalogue


class Catalogues(Locked):
    """The lists that were read of late, of all tenants."""

    def __init__(self) -> None:
        self._kept: tuple[_KeptList, ...] = ()
        super().__init__()

    def read_once(self, reader: CatalogueReader, listed: list[Any]) -> Catalogue:
        """What came of the same list when this reader read it, else what comes of it now, which is kept."""
        try:
            snapshot = _Snapshot.of(listed)
        except Exception:  # it holds other than plain values
            return reader.read_list(listed)
        for kept in self._kept:
            if kept.reader is reader and kept.snapshot == snapshot:
                return kept.catalogue
        catalogue = reader.read_list(snapshot.listed())
        if len(snapshot.definitions) <= BYTES_KEPT // 10:
            self._keep(_KeptList(reader, snapshot, catalogue))
        return catalogue

    def _keep(self, read: _KeptList) -> None:
        """Forgets the lists that were read first where these are too many."""
        with self._lock:
            kept = (read, *self._kept)[:LISTS_KEPT]
            while sum(len(entry.snapshot.definitions) for entry in kept) > BYTES_KEPT:
                kept = kept[:-1]
            self._kept = kept


class CatalogueReader:
    """Reads lists of tools by the guards, limits and prices of a gate."""

    def __init__(
        self,
        guards: Guards,
        privilege: Privilege | None,
        limits: Limits,
        prices: PriceList | None,
        catalogues: Catalogues,
    ) -> None:
        self.guards = guards
        self.privilege = privilege
        self.limits = limits
        self.prices = prices
        self.catalogues = catalogues
        asks = callable(guards.allow) or callable(getattr(privilege, "effects", None))
        self.keeps = guards.digests is None and not asks and isinstance(prices, Prices | None)
        """Whether a list that stays the same is read the same again: a function may change its answer at any time, and
        a digest tells apart what is equal to Python, as 1 and true."""

    def read(self, tools: Iterable[Any]) -> tuple[Catalogue, dict[str, Any]]:
        """A list as it is read, and the tools that may be offered as the harness has them, by key."""
        listed = list(tools) if isinstance(tools, (list, tuple)) else tools_as_given(tools)
        catalogue = self.catalogues.read_once(self, listed) if self.keeps else self.read_list(listed)
        bare = [native.tool if isinstance(native, FromServer) else native for native in listed]
        natives = dict(zip(catalogue.tools, bare, strict=True))
        if len(catalogue.offered) < len(natives):
            natives = {key: natives[key] for key in catalogue.offered}
        return catalogue, natives

    def read_list(self, listed: Sequence[Any]) -> Catalogue:
        """What guards, limits and prices say of the tools of a list."""
        guards = self.guards
        tools = keyed(map(viewed_tool, listed), guards.trusted)
        authorized = guards.offered(tools)
        untrusted = guards.untrusted_among(tools, authorized)
        offered, sizes = self.limits.within(tools, authorized, untrusted)
        untrusted = untrusted.intersection(offered)
        effects: Mapping[str, Effect] = {}
        bound: frozenset[str] = frozenset()
        if self.privilege is not None:
            effects = effects_of_tools(self.privilege, guards, tools)
            bound = frozenset(key for key in offered if effects[key] not in self.privilege.free)
        cost_of = cost_function(self.prices, effects)
        costs, unpriced, problem = _priced_tools(tools, offered, sizes, untrusted, cost_of)
        natives = dict(zip(tools, map(native_of, listed), strict=True))
        marked = last_marked({key: natives[key] for key in offered})
        return Catalogue(tools, offered, untrusted, costs, unpriced, problem, sum(sizes.values()), marked, bound)


def _priced_tools(
    tools: Mapping[str, Tool],
    offered: Iterable[str],
    ranked: Container[str],
    untrusted: Container[str],
    cost_of: CostFunction,
) -> tuple[dict[str, float], tuple[str, ...], str]:
    """The costs of all that can be scored and cut, which trusted tools have none, and what was raised last."""
    problem = ""
    costs: dict[str, float] = {}
    unpriced: list[str] = []
    for key in offered:
        tool = tools[key]
        if tool.foreign or key not in ranked:
            continue
        try:
            cost = cost_of(key, tool)
            if not 0 < cost < inf:
                raise UsageError(f"The cost of a tool must be finite and positive. Got {cost!r} instead.")
            costs[key] = cost
        except Exception as error:
            problem = type(error).__name__
            if key not in untrusted:
                unpriced.append(key)
    return costs, tuple(unpriced), problem


def effects_of_tools(privilege: Privilege, guards: Guards, tools: Mapping[str, Tool]) -> dict[str, Effect]:
    """The worst that each tool of a list can do. The name alone means none of an untrusted server."""
    own_names = names_of_one(tools)
    effects: dict[str, Effect] = {}
    for key, tool in tools.items():
        called = [tool.full_name] if guards.untrusted(tool) else own_names[key]
        effects[key] = privilege.effect_of(tool, called) if tool.readable else WORST
    return effects


def cost_function(prices: PriceList | None, effects: Mapping[str, Effect]) -> CostFunction:
    """What says the cost of a tool by its key, where tools can do so much at worst."""
    if prices is None:
        return lambda key, tool: 1.0
    if isinstance(prices, Mapping):
        return lambda key, tool: float(prices[_name_in_prices(prices, key, tool)])
    if priced_effects(prices):
        by_effect: Any = prices
        return lambda key, tool: float(by_effect.of(tool, effects.get(key, WORST)))
    cost_of: Callable[[Tool], float] = prices if callable(prices) else prices.of
    return lambda key, tool: float(cost_of(tool))


def _name_in_prices(prices: Mapping[str, float], key: str, tool: Tool) -> str:
    """By which of its names a tool is looked up: the fullest that has a price."""
    for name in (tool.full_name, key):
        if name in prices:
            return name
    return tool.name


def cost_of_rewriting(prices: PriceList | None, mode: Mode) -> Callable[[int], float]:
    """What it costs that a provider reads so many characters anew, in modes that change a list, where prices say."""
    rewriting: Callable[[int], float] | None = None
    if mode in ("drop", "append", "shadow"):
        rewriting = getattr(prices, "of_rewriting", None)
    return rewriting or (lambda characters: 0.0)
