"""The door of the library: `join` a group, send, iterate over what is delivered, leave.

Invariants: everything happens in the event loop that entered the group; an error of the application never harms the
group; every wait can be cancelled, and cancelling loses nothing that was accepted and nothing that was not handed out.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Literal, Self, cast

import msgspec

from isotone.codec import SwitchTold, SwitchWanted
from isotone.model.conflicts import Conflicts
from isotone.model.errors import Closed, ConfigError, LocalProtocolError, unknown
from isotone.model.ids import ProcessId, incarnation_of, name_of, process_id
from isotone.model.settings import MS, EndpointConfig, Limits, MembershipKind, Timing
from isotone.model.switch import Rule, Strategy, Switch
from isotone.model.view import Level, Ordering, View
from isotone.protocol.endpoint import Endpoint
from isotone.protocol.ordering import registry
from isotone.protocol.recorder import Recorder
from isotone.protocol.switching.policy import concrete
from isotone.runtime.addresses import parse_address, same_place
from isotone.runtime.desk import PROBES, Desk, Probes
from isotone.runtime.driver import Driver, EndpointFactory, EndpointLike
from isotone.runtime.events import Batch, Event
from isotone.runtime.logs import logger
from isotone.runtime.network import Network
from isotone.runtime.outgoing import Items, Types
from isotone.runtime.state import Stateful
from isotone.runtime.tracing import LiveTrace

LEAVE_S = 5.0
_LEAVE_AFTER_ERROR_S = 1.0
_FOUND_AFTER_NS = 1_500 * MS
_FAREWELL_S = 2.0
_POLL_S = 0.1
LIVE_TIMING = Timing(
    heartbeat_ns=250 * MS, soft_ns=1_000 * MS, hard_ns=4_000 * MS, ack_delay_ns=100 * MS, retransmit_ns=500 * MS,
    retransmit_max_ns=4_000 * MS, name_conflict_ns=10_000 * MS,
)  # fmt: skip
"""Default for live groups: connections do not lose records and tell when a process dies, so silence may last longer."""


def _endpoint(config: EndpointConfig, recorder: Recorder | None) -> EndpointLike:
    return Endpoint(config, recorder)


class Group:
    """One process's membership in a group; made by `join`, entered by `async with`."""

    def __init__(
        self,
        group: str,
        config: EndpointConfig,
        listen: str,
        advertise: str | None,
        seeds: Sequence[str],
        trace: str | Path | None,
        trace_form: Literal["parquet", "jsonl"] | None,
        timeout: float | None,
        found: bool | None,
        rejoin: bool,
        endpoint_factory: EndpointFactory,
        state: Stateful | None = None,
        probes: Probes = "local",
        control: bool = False,
    ) -> None:
        self.group = group
        self._config = config
        self._listen = listen
        self._advertise = advertise
        self._seeds = list(dict.fromkeys(seeds))
        self._trace_path = trace
        self._trace_form: Literal["parquet", "jsonl"] | None = trace_form
        self._timeout = timeout
        self._found = found
        self._rejoins = rejoin
        self._rejoining: asyncio.Task[None] | None = None
        self._unheard: list[str] = []  # names that `block` cuts off
        self._factory = endpoint_factory
        self._state = state
        self._trace: LiveTrace | None = None
        self._network: Network | None = None
        self._driver: Driver | None = None
        self._shut: asyncio.Task[None] | None = None
        self._control = control
        self._desk = Desk(probes, self.status, self._switch_for if control else None)
        self._began = 0.0
        self._address = ""

    # --- who and where ---------------------------------------------------------------------------------------------

    @property
    def process(self) -> ProcessId:
        """This process's id, `name#incarnation`."""
        return self._config.process

    @property
    def address(self) -> str:
        """Where others reach this process; known once the group is entered."""
        return self._address

    @property
    def view(self) -> View | None:
        """The view installed now; the stream of events may still be before it."""
        return self._running().endpoint.view

    def status(self) -> dict[str, object]:
        """The state of the endpoint and of the connections, for people."""
        driver = self._running()
        view = driver.endpoint.view
        return {
            "group": self.group,
            "wire_version": driver.network.hello.version,
            **driver.endpoint.status(),
            "address": self._address,
            "addresses": {} if view is None else {member: driver.endpoint.address_of(member) for member in view.members},
            "control": self._control,
            "uptime_s": round(time.monotonic() - self._began, 3),
            "delivered": driver.delivered,
            "linked": driver.network.linked(),
            "links": driver.network.links(),
            "backlog_bytes": driver.inbox.backlog,
            "packets_lost": driver.network.lost_packets,
            "turns": driver.turns,
        }

    # --- joining ---------------------------------------------------------------------------------------------------

    async def start(self) -> Self:
        """Join, and return when the first view is installed. `async with` does this."""
        if self._network is not None:
            raise LocalProtocolError("this group was entered already: call join again")
        limits = self._config.limits
        network = self._network = Network(self.group, self.process, limits.payload_bytes, self._resolve)
        try:
            self._address = await network.listen(self._listen, self._advertise)
            config = self._settle_founder()
            if self._trace_path is not None:
                self._trace = LiveTrace(self._trace_path, self.process, self._trace_form)
                self._trace.start()
            endpoint = self._factory(config, self._trace.recorder if self._trace is not None else None)
            conflicts = config.ordering.relation
            driver = self._driver = Driver(endpoint, network, limits.payload_bytes, self._trace, self._state, conflicts)
            driver.on_expelled = self._expelled if self._rejoins else None
            self._began = time.monotonic()
            network.desk = self._desk
            driver.start()
            network.start(driver, self._seeds)
            await self._first_view(driver)
        except BaseException:
            await self._close()
            raise
        return self

    def _settle_founder(self) -> EndpointConfig:
        """A process founds a group if it has no seeds or is one; otherwise it waits for somebody who does."""
        others = [seed for seed in self._seeds if not same_place(seed, self._address)]
        founder = self._found if self._found is not None else len(others) < len(self._seeds) or not self._seeds
        waits = (founder and others) or self._config.membership == "primary"
        after = _FOUND_AFTER_NS if waits else 0
        return msgspec.structs.replace(self._config, address=self._address, founder=founder, found_after_ns=after)

    def _hint(self, driver: Driver) -> str:
        obstacle = driver.endpoint.status().get("obstacle")
        if obstacle:
            return str(obstacle)
        if self._config.membership == "primary":
            return f"waiting for all founders, {', '.join(self._config.founders)}, to be there anew, or for their group to go on"
        return "nobody may found the group? give all processes the same list of seeds, their own address included"

    def _warn(self, given: Ordering) -> None:
        """The view's ordering holds for all its members, whatever they asked for."""
        asked = self._config.ordering
        if given.policy and given.policy == asked.policy:  # which may have chosen another order than the one it begins with
            given = msgspec.structs.replace(given, order=asked.order, options=asked.options)
        if given != asked:
            logger.warning("%s orders by %s, not as this process asked for (%s)", self.group, _told(given), _told(asked))

    async def _first_view(self, driver: Driver) -> None:
        try:
            async with asyncio.timeout(self._timeout) as limit:
                while not driver.joined.done():
                    await asyncio.wait((driver.joined,), timeout=_POLL_S)
                    refusal = driver.network.seeds.verdict()
                    if refusal is not None and not driver.joined.done():
                        raise ConfigError(f"cannot join group {self.group!r}: {refusal}")
                    driver.network.seeds.report(driver.network.linked(), self._hint(driver))
        except TimeoutError:
            if not limit.expired():
                raise
            seeds = ", ".join(self._seeds) or "none"
            raise TimeoutError(f"no view of group {self.group!r} within {self._timeout:g} s (seeds: {seeds})") from None
        driver.joined.result()
        view = driver.endpoint.view
        if view is not None:
            self._warn(view.ordering)

    # --- coming back -----------------------------------------------------------------------------------------------

    def _expelled(self) -> None:
        self._rejoining = asyncio.get_running_loop().create_task(self._rejoin(self._running()))

    async def _rejoin(self, driver: Driver) -> None:
        """Primary membership left this process out: begin anew as the next incarnation, at the same address."""
        try:
            before = driver.endpoint.view
            places = [driver.endpoint.address_of(member) for member in before.members] if before is not None else []
            await driver.network.close()
            if self._trace is not None:
                await self._trace.close()
            old = self._config.process
            again = process_id(name_of(old), max(incarnation_of(old) + 1, time.time_ns() // MS))
            self._config = msgspec.structs.replace(self._config, process=again, seed=random.getrandbits(62))
            network = self._network = Network(self.group, again, self._config.limits.payload_bytes, self._resolve)
            network.block(self._unheard)
            await network.listen(self._address if self._advertise is None else self._listen, self._advertise)
            if self._trace_path is not None:
                self._trace = LiveTrace(self._trace_path, again, self._trace_form)
                self._trace.start()
            endpoint = self._factory(self._settle_founder(), self._trace.recorder if self._trace is not None else None)
            network.desk = self._desk
            driver.restart(endpoint, network, self._trace)
            network.start(driver, list(dict.fromkeys([*self._seeds, *(place for place in places if place)])))
        except Exception as error:
            driver.fail(error)

    async def __aenter__(self) -> Self:
        return await self.start()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.leave(LEAVE_S if error is None else _LEAVE_AFTER_ERROR_S)

    # --- sending ---------------------------------------------------------------------------------------------------

    async def send(self, payload: bytes, *, type: str | None = None, items: Sequence[str] | None = None) -> None:
        """Multicast one message; waits while the window is closed, returns when it is accepted.

        A cancelled `send` has not been accepted. Accepted messages are delivered in the order they were accepted.
        """
        outgoing = self._running().outgoing
        if not outgoing.try_send(payload, type, items):
            await outgoing.send(payload, type, items)

    async def send_many(self, payloads: Sequence[bytes], *, types: Types = None, items: Items = None) -> None:
        """Multicast many messages at once, the fastest way; none is accepted if one of them is too long.

        If it is cancelled, a part from the first on has been accepted; `try_send_many` says how many.
        """
        await self._running().outgoing.send_many(payloads, types, items)

    def try_send(self, payload: bytes, *, type: str | None = None, items: Sequence[str] | None = None) -> bool:
        """Multicast one message if the window is open; False: it was not accepted, `await drain()` and try again."""
        return self._running().outgoing.try_send(payload, type, items)

    def try_send_many(self, payloads: Sequence[bytes], *, types: Types = None, items: Items = None) -> int:
        """Multicast as many messages, from the first on, as the window admits; returns how many."""
        return self._running().outgoing.try_send_many(payloads, types, items)

    async def drain(self) -> None:
        """Wait until the window is open."""
        await self._running().outgoing.drain()

    # --- ordering --------------------------------------------------------------------------------------------------

    async def switch(
        self,
        order: str,
        *,
        level: Level | None = None,
        k: int | None = None,
        options: Mapping[str, int | str | bool] | None = None,
        strategy: Strategy | None = None,
        rule: Rule = "all",
        fresh: bool = False,
    ) -> None:
        """Let the whole group order its messages in another way, while they flow; returns when that is in force here.

        The level stays as it is unless another one is given. `strategy` is `dual_ids`, or `stop` if one of the two orders is not
        total. Raises `NotSwitched` with the reason if the group does not switch. See docs/switching.md.
        """
        driver = self._running()
        view = driver.endpoint.view
        now = view.ordering if view is not None else self._config.ordering
        level = now.level if level is None else level
        if k is None:
            k = now.k if level == now.level else 1
        _check_types(order, level, k, options, "", (), None, None, None, None)
        ordering = Ordering(order, level, k, dict(options or {}))
        registry.validate(ordering)
        ordering = concrete(ordering)
        if strategy is None:
            total = registry.find(now.order).total and registry.find(ordering.order).total
            strategy = "dual_ids" if total else "stop"
        await driver.switch(Switch(ordering, strategy, rule, fresh))

    async def _switch_for(self, wanted: SwitchWanted) -> SwitchTold:
        """A probe asks for a switch."""
        began, before = time.monotonic(), self.view
        await self.switch(
            wanted.order, level=cast(Level | None, wanted.level), k=wanted.k, options=wanted.options,
            strategy=cast(Strategy | None, wanted.strategy), rule=cast(Rule, wanted.rule), fresh=wanted.fresh,
        )  # fmt: skip
        after = self.view
        if after is None:
            raise Closed("this process has left the group")
        was = _told(before.ordering if before is not None else self._config.ordering)
        return SwitchTold(self.process, str(after.id), was, _told(after.ordering), time.monotonic() - began)

    # --- receiving -------------------------------------------------------------------------------------------------

    def __aiter__(self) -> AsyncIterator[Event]:
        """Deliveries one by one, views and the rest, in one ordered stream; one iteration at a time.

        It ends after a graceful leave and raises `Closed` if this process was put out. Who does not iterate is a slow
        consumer: what is delivered waits here, and beyond `limits.backlog_bytes` all senders of the group are held back.
        """
        return self._running().inbox.events()

    def batches(self) -> AsyncIterator[Batch]:
        """The same stream with deliveries in batches, several times as fast for small messages."""
        return self._running().inbox.batches()

    # --- leaving ---------------------------------------------------------------------------------------------------

    async def leave(self, timeout: float = LEAVE_S) -> None:
        """Leave: what was accepted is still sent. After `timeout` seconds the process goes without a farewell."""
        driver = self._running()
        if self._shut is None:
            self._shut = asyncio.get_running_loop().create_task(self._leave(driver, timeout))
        await asyncio.shield(self._shut)
        if driver.failure is not None and not isinstance(driver.failure, Exception):
            raise driver.failure

    async def _leave(self, driver: Driver, timeout: float) -> None:
        if not driver.ended.done():
            driver.leave()
            await asyncio.wait((driver.ended,), timeout=timeout)
        deadline = time.monotonic() + min(timeout, _FAREWELL_S)
        while driver.lingering and time.monotonic() < deadline:
            await asyncio.sleep(0.005)
        await self._close()

    async def _close(self) -> None:
        driver = self._driver
        if self._rejoining is not None:
            self._rejoining.cancel()
            await asyncio.wait((self._rejoining,))
        if driver is not None:
            driver.stop()
            driver.outgoing.close(Closed("this process has left the group"))
            driver.inbox.end(None)
        if self._network is not None:
            await self._network.close()
        if self._trace is not None:
            await self._trace.close()

    # --- for tests and demonstrations ------------------------------------------------------------------------------

    def block(self, names: Iterable[str]) -> None:
        """A testing aid: behave as if the network to and from processes of these names were cut."""
        self._unheard = list(names)
        self._running().network.block(self._unheard)

    def unblock(self) -> None:
        """Undo `block`."""
        self.block(())

    def _resolve(self, peer: ProcessId) -> str | None:
        return None if self._driver is None else self._driver.endpoint.address_of(peer)

    def _running(self) -> Driver:
        if self._driver is None:
            raise LocalProtocolError("enter the group first: async with isotone.join(…) as group")
        return self._driver


def join(
    group: str,
    *,
    name: str,
    listen: str = "127.0.0.1:0",
    seeds: Iterable[str] = (),
    advertise: str | None = None,
    order: str = "single_phase",
    level: Level = "agreed",
    k: int = 1,
    options: Mapping[str, int | str | bool] | None = None,
    conflicts: Conflicts | None = None,
    timing: Timing | None = None,
    limits: Limits | None = None,
    trace: str | Path | None = None,
    trace_form: Literal["parquet", "jsonl"] | None = None,
    trace_receives: bool = False,
    incarnation: int | None = None,
    found: bool | None = None,
    membership: MembershipKind = "partitionable",
    founders: Iterable[str] = (),
    rejoin: bool = True,
    timeout: float | None = None,
    state: Stateful | None = None,
    probes: Probes = "local",
    control: bool = False,
    _endpoint_factory: EndpointFactory = _endpoint,
) -> Group:
    """A group to be entered with `async with`, which waits for the first view (at most `timeout` seconds).

    `seeds` are addresses of processes that may be in the group. Without seeds, or if this process's own address is
    among them, it may found the group; otherwise it keeps looking for one (`found` overrides this). `advertise` is the address
    that others dial if it differs from `listen`. `incarnation` must grow with every restart of `name`; the default is the
    wall clock's milliseconds. `state` is the application's state: newcomers get it from a member (see docs/state.md).

    With `membership="primary"` only a majority of the last view goes on, and the processes named by `founders`, all together,
    begin the group. A process that was left out joins again by itself (an `Expulsion` tells), unless `rejoin` is False.

    `conflicts` is for semantic orders: messages that do not conflict may be delivered in different orders. All members declare
    the same relation; who has another one is refused. A message whose type it does not know is an error at `send`.

    `probes` says whom this process tells its status: `local` (who asks over the loopback interface), `all` or `none`; with
    `control` they may also make the group switch its order (`isotone probe`, see docs/live.md).
    """
    if not 0 < len(group) <= 255 or not group.isprintable():
        raise ConfigError(f"group name {group!r}: use 1 to 255 printable characters")
    founders = [founders] if isinstance(founders, str) or not isinstance(founders, Iterable) else list(founders)
    addresses = [seeds] if isinstance(seeds, str) else list(seeds)
    for seed in addresses:
        parse_address(seed, "seed")
    parse_address(listen, "listen address", any_port=True)
    if advertise is not None:
        parse_address(advertise, "advertised address")
    if conflicts is not None and not isinstance(conflicts, Conflicts):
        raise ConfigError(f"conflicts is {conflicts!r}: must be isotone.Conflicts, such as Conflicts.by_item()")
    _check_types(order, level, k, options, membership, founders, timing, limits, trace_form, state)
    if probes not in PROBES:
        raise unknown("probes", str(probes), PROBES)
    ordering = Ordering(order, level, k, dict(options or {}), conflicts)
    registry.validate(ordering)
    ordering = concrete(ordering)
    config = EndpointConfig(
        process=process_id(name, incarnation if incarnation is not None else time.time_ns() // MS),
        ordering=ordering,
        timing=timing or LIVE_TIMING,
        limits=limits or Limits(),
        seed=random.getrandbits(62),
        state=state is not None,
        trace_receives=trace_receives,
        membership=membership,
        founders=tuple(founders),
    )
    return Group(
        group, config, listen, advertise, addresses, trace, trace_form, timeout, found, rejoin, _endpoint_factory, state,
        probes, control,
    )  # fmt: skip


def _told(ordering: Ordering) -> str:
    options = "".join(f" {name}={value}" for name, value in ordering.options.items())
    policy = f" by the policy {ordering.policy}" if ordering.policy else ""
    return f"{ordering.order} {ordering.level}{f' {ordering.k}' if ordering.level == 'k' else ''}{options}{policy}"


def _check_types(
    order: object, level: object, k: object, options: object, membership: object, founders: Iterable[object], timing: object,
    limits: object, trace_form: object, state: object,
) -> None:  # fmt: skip
    """Raise `ConfigError` for a setting that is not even of the right type; callers without a type checker are common."""
    for name, value in (("order", order), ("level", level), ("membership", membership)):
        if not isinstance(value, str):
            raise ConfigError(f"{name} is {value!r}: must be a text")
    if type(k) is not int:
        raise ConfigError(f"k is {k!r}: must be an integer")
    if k > 1 and level != "k":
        raise ConfigError(f'k is {k}, but the level is {level!r}: k belongs to level="k"')
    if options is not None and not isinstance(options, Mapping):
        raise ConfigError(f"options are {options!r}: must be a mapping of names to values")
    for founder in founders:
        if not isinstance(founder, str):
            raise ConfigError(f"founder {founder!r}: must be a name")
    for name, value, type_ in (("timing", timing, Timing), ("limits", limits, Limits)):
        if value is not None and not isinstance(value, type_):
            raise ConfigError(f"{name} is {value!r}: must be isotone.{type_.__name__}(…)")
    if trace_form not in (None, "parquet", "jsonl"):
        raise unknown("trace_form", str(trace_form), ("parquet", "jsonl"))
    if state is not None and not (callable(getattr(state, "snapshot", None)) and callable(getattr(state, "restore", None))):
        raise ConfigError(f"state is {state!r}: must have the methods snapshot and restore")
