"""The recorder both drivers write their events into: in memory, batch by batch, as cheap as an event can be.

Each method is called at most once per batch and appends one tuple. Nothing is done per message at that moment: the rows
of a batch, with payload size and digest, come into being when somebody asks for them (`rows`, `drain`) or when a
Parquet writer turns the tuples into columns.

Invariants: `step` counts rows, not calls, so a batch of n messages takes n steps, and the steps of one recorder have no
gap, drained or not. The recorder keeps references to the sequences it is given: the caller must not change them
afterwards, and drains regularly so that payloads are not held for ever.

The digest of a payload is its CRC-32 (`zlib.crc32`) as a non-negative int64: the same in every process and on every
machine, fast, and meant to notice damage and mix-ups, not an adversary.
"""

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple, TypeAlias
from zlib import crc32

import msgspec

from isotone.trace.schema import Row, ViewId

Payload: TypeAlias = bytes | memoryview
Types: TypeAlias = Sequence[str | None] | None
Items: TypeAlias = Sequence[Sequence[str] | None] | None

MessageEvent: TypeAlias = tuple[
    str,  # kind
    int,  # time
    ViewId | None,
    str,  # origin
    int,  # number of the first message
    int,  # how many messages
    Sequence[Payload] | None,
    tuple[int, ...] | None,  # position prefix
    int,  # index of the first message under the prefix
    str | None,  # protocol
    str | None,  # level
    int | None,  # k
    Types,
    Items,
    str | None,  # peer
]
PlainEvent: TypeAlias = tuple[str, int, ViewId | None, Row | None]
Event: TypeAlias = MessageEvent | PlainEvent

PLAIN_EVENT_LENGTH: Final = 4
"""A `PlainEvent` is one row; every longer tuple is a `MessageEvent`, one row per message."""


class Taken(NamedTuple):
    """Events handed over to a writer, with the step of the first row they expand to."""

    process: str
    run: str
    first_step: int
    events: Sequence[Event]


class TraceRecorder:
    """Collects what one process did; see the module for what it promises."""

    __slots__ = ("_clock", "_events", "_step", "process", "run")

    def __init__(self, process: str, run: str = "", clock: str = "") -> None:
        self.process = process
        self._clock = clock
        self.run = run
        self._events: list[Event] = []
        self._step = 1

    def __len__(self) -> int:
        """How many events (batches count once) are held."""
        return len(self._events)

    def _plain(self, kind: str, now: int, view: ViewId | None, fields: Row | None) -> None:
        self._events.append((kind, now, view, fields))

    # --- the life of a process -------------------------------------------------------------------------------------

    def start(self, now: int, detail: Mapping[str, str]) -> None:
        self._plain("start", now, None, _detailed({}, {**detail, "clock": self._clock} if self._clock else detail))

    def stop(self, now: int) -> None:
        self._plain("stop", now, None, None)

    def crash(self, now: int) -> None:
        self._plain("crash", now, None, None)

    # --- messages --------------------------------------------------------------------------------------------------

    def submit(self, now: int, view: ViewId | None, count: int, size: int) -> None:
        """The application handed in `count` messages of `size` bytes in total."""
        self._plain("submit", now, view, {"count": count, "size": size})

    def send(
        self,
        now: int,
        view: ViewId | None,
        first_number: int,
        payloads: Sequence[Payload],
        types: Types = None,
        items: Items = None,
    ) -> None:
        """This process multicast a batch that belongs to `view`."""
        self._events.append(
            (
                "send", now, view, self.process, first_number, len(payloads), payloads,
                None, 0, None, None, None, types, items, None,
            )
        )  # fmt: skip

    def receive(self, now: int, view: ViewId | None, origin: str, first_number: int, count: int, peer: str) -> None:
        """A batch reached this process by way of `peer`; optional, off by default in the drivers."""
        self._events.append(
            ("receive", now, view, origin, first_number, count, None, None, 0, None, None, None, None, None, peer)
        )

    def deliver(
        self,
        now: int,
        view: ViewId | None,
        origin: str,
        first_number: int,
        payloads: Sequence[Payload],
        position_prefix: tuple[int, ...] | None,
        protocol: str | None,
        level: str | None,
        k: int | None = None,
        types: Types = None,
        items: Items = None,
        first_index: int = 0,
    ) -> None:
        """A batch went to the application; message i has position `(*position_prefix, first_index + i)`."""
        self._events.append(
            (
                "deliver", now, view, origin, first_number, len(payloads), payloads,
                position_prefix, first_index, protocol, level, k, types, items, None,
            )
        )  # fmt: skip

    def returned(
        self,
        now: int,
        view: ViewId | None,
        origin: str,
        first_number: int,
        payloads: Sequence[Payload],
        types: Types = None,
        items: Items = None,
    ) -> None:
        """A batch no component may order went back to its sender."""
        self._events.append(
            (
                "returned", now, view, origin, first_number, len(payloads), payloads,
                None, 0, None, None, None, types, items, None,
            )
        )  # fmt: skip

    # --- membership ------------------------------------------------------------------------------------------------

    def flush(self, now: int, view: ViewId | None) -> None:
        self._plain("flush", now, view, None)

    def transitional(self, now: int, view: ViewId | None, members: Sequence[str]) -> None:
        """The view is ending; `members` come along. From here on *safe* is no longer promised."""
        self._plain("transitional", now, view, {"members": members})

    def view(
        self,
        now: int,
        view: ViewId,
        members: Sequence[str],
        protocol: str | None = None,
        level: str | None = None,
        k: int | None = None,
    ) -> None:
        self._plain("view", now, view, _regime({"members": members}, protocol, level, k))

    def core(self, now: int, view: ViewId | None, members: Sequence[str], detail: Mapping[str, str]) -> None:
        self._plain("core", now, view, _detailed({"members": members}, detail))

    def switch(
        self,
        now: int,
        view: ViewId | None,
        protocol: str | None,
        level: str | None,
        k: int | None,
        detail: Mapping[str, str],
    ) -> None:
        self._plain("switch", now, view, _detailed(_regime({}, protocol, level, k), detail))

    def suspect(self, now: int, view: ViewId | None, peer: str, level: str) -> None:
        self._plain("suspect", now, view, {"peer": peer, "level": level})

    def trust(self, now: int, view: ViewId | None, peer: str, level: str) -> None:
        self._plain("trust", now, view, {"peer": peer, "level": level})

    # --- the network -----------------------------------------------------------------------------------------------

    def packet(
        self, now: int, view: ViewId | None, packet_kind: str, fanout: int, count: int, size: int, switch: int = 0
    ) -> None:
        """`count` control records of one kind left for `fanout` receivers, `size` bytes in total.

        `switch`: only for the sake of the switch to this instance of an orderer; 0 for what would have left anyhow.
        """
        fields: Row = {"packet": packet_kind, "fanout": fanout, "count": count, "size": size}
        self._plain("packet", now, view, _detailed(fields, {"switch": str(switch)} if switch else {}))

    def fault(self, now: int, peer: str | None, detail: Mapping[str, str]) -> None:
        self._plain("fault", now, None, _detailed({"peer": peer} if peer is not None else {}, detail))

    def heal(self, now: int, peer: str | None, detail: Mapping[str, str]) -> None:
        self._plain("heal", now, None, _detailed({"peer": peer} if peer is not None else {}, detail))

    # --- getting it out --------------------------------------------------------------------------------------------

    def rows(self) -> Iterator[Row]:
        """The rows of everything held, in order; nothing is forgotten."""
        return expand(Taken(self.process, self.run, self._step, tuple(self._events)))

    def drain(self) -> list[Row]:
        """The rows of everything held, which is then forgotten."""
        return list(expand(self.take()))

    def take(self) -> Taken:
        """Hand the held events over as they are, for a writer that builds columns; they are then forgotten."""
        taken = Taken(self.process, self.run, self._step, self._events)
        self._step += sum(event[5] if len(event) != PLAIN_EVENT_LENGTH else 1 for event in self._events)
        self._events = []
        return taken


def _regime(fields: Row, protocol: str | None, level: str | None, k: int | None) -> Row:
    if protocol is not None:
        fields["protocol"] = protocol
    if level is not None:
        fields["level"] = level
    if k is not None:
        fields["k"] = k
    return fields


def _detailed(fields: Row, detail: Mapping[str, str]) -> Row:
    if detail:
        fields["detail"] = detail
    return fields


def expand(taken: Taken) -> Iterator[Row]:
    """One row per message or plain event, only with columns that are not null."""
    step = taken.first_step
    for event in taken.events:
        base: Row = {"process": taken.process, "step": step, "time": event[1], "kind": event[0]}
        if taken.run:
            base["run"] = taken.run
        if event[2] is not None:
            base["view_epoch"], base["view_proposer"] = event[2]
        if len(event) == PLAIN_EVENT_LENGTH:
            fields = event[3]
            if fields is not None:
                base.update(fields)
            yield base
            step += 1
        else:
            yield from _expand_batch(base, event)
            step += event[5]


def _expand_batch(base: Row, event: MessageEvent) -> Iterator[Row]:
    _, _, _, origin, number, count, payloads, prefix, index, protocol, level, k, types, items, peer = event
    base["origin"] = origin
    _regime(base, protocol, level, k)
    if peer is not None:
        base["peer"] = peer
    step = base["step"]
    for i in range(count):
        row = base.copy()
        row["step"] = step + i
        row["number"] = number + i
        if prefix is not None:
            row["position"] = (*prefix, index + i)
        if types is not None and (kind := types[i]) is not None:
            row["type"] = kind
        if items is not None and (touched := items[i]) is not None:
            row["items"] = touched
        if payloads is not None:
            row["size"] = len(payloads[i])
            row["digest"] = crc32(payloads[i])
        yield row


def digest_rows(rows: Iterable[Row]) -> str:
    """SHA-256 over a canonical JSON of the rows, keys sorted: the same in every process, whatever the hash seed."""
    encode = msgspec.json.Encoder(order="sorted").encode
    total = hashlib.sha256()
    for row in rows:
        total.update(encode(row))
        total.update(b"\n")
    return total.hexdigest()
