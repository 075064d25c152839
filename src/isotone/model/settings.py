"""Settings of an endpoint: who it is, its clocks and its limits. All times are nanoseconds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import msgspec

from isotone.model.errors import ConfigError, unknown
from isotone.model.ids import ProcessId, process_id
from isotone.model.view import Ordering

MS = 1_000_000
SECOND = 1_000 * MS

MembershipKind = Literal["partitionable", "primary"]
MEMBERSHIPS: tuple[MembershipKind, ...] = ("partitionable", "primary")


class Timing(msgspec.Struct, frozen=True):
    """Intervals and timeouts.

    A peer is softly suspected after `soft_ns` of silence and hardly (a view change) after `hard_ns`; a closed connection
    shortens the second to `closed_ns`.
    """

    heartbeat_ns: int = 100 * MS
    soft_ns: int = 500 * MS
    hard_ns: int = 2_000 * MS
    closed_ns: int = 500 * MS
    probe_ns: int = 200 * MS
    settle_ns: int = 100 * MS
    change_ns: int = 1_000 * MS
    resend_ns: int = 100 * MS
    ack_delay_ns: int = 20 * MS
    retransmit_ns: int = 100 * MS
    retransmit_max_ns: int = 2_000 * MS
    name_conflict_ns: int = 6_000 * MS
    forget_ns: int = 600 * SECOND

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            if getattr(self, name) <= 0:
                raise ConfigError(f"timing {name} must be positive")
        if not self.heartbeat_ns < self.soft_ns <= self.hard_ns:
            raise ConfigError("timing must satisfy heartbeat_ns < soft_ns <= hard_ns")


class Limits(msgspec.Struct, frozen=True):
    """Bounds on everything that could grow.

    `keep_bytes` and `keep_casts` bound what is kept for external members alone; one that lacks more leaves the view.
    """

    payload_bytes: int = 1024 * 1024
    batch_bytes: int = 128 * 1024
    batch_messages: int = 4096
    pending_bytes: int = 4 * 1024 * 1024
    pending_messages: int = 65_536
    window_bytes: int = 4 * 1024 * 1024
    window_casts: int = 1024
    link_records: int = 4096
    backlog_bytes: int = 8 * 1024 * 1024
    state_bytes: int = 1024 * 1024 * 1024
    state_backlog_bytes: int = 64 * 1024 * 1024
    state_chunk_bytes: int = 64 * 1024
    keep_bytes: int = 16 * 1024 * 1024
    keep_casts: int = 4096
    contacts: int = 1024

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            if getattr(self, name) <= 0:
                raise ConfigError(f"limit {name} must be positive")
        if self.pending_bytes < self.payload_bytes:
            raise ConfigError("limit pending_bytes must be at least payload_bytes")
        if self.state_chunk_bytes > 1024 * 1024:
            raise ConfigError("limit state_chunk_bytes must be at most 1048576")


class EndpointConfig(msgspec.Struct, frozen=True):
    """Everything an endpoint is made from; the rest are inputs.

    `founder` says that the process may begin a group when it finds none (it was given no seeds, or is one itself);
    `found_after_ns` is how long it looks for others first. With `primary` membership the `founders` (names), all
    together, found the group, and `founder` says nothing. `state` says that the application has a state, which it can give to
    others and take over from them. `trace_receives` has the trace say when each message came here.
    """

    process: ProcessId
    address: str = ""
    founder: bool = True
    found_after_ns: int = 0
    ordering: Ordering = Ordering()
    timing: Timing = Timing()
    limits: Limits = Limits()
    seed: int = 0
    membership: MembershipKind = "partitionable"
    founders: tuple[str, ...] = ()
    state: bool = False
    trace_receives: bool = False

    def __post_init__(self) -> None:
        check_membership(self.membership, self.founders)


def check_membership(membership: str, founders: Sequence[str]) -> None:
    """Raise `ConfigError` for a kind of membership that is none, or founders that do not go with it."""
    if membership not in MEMBERSHIPS:
        raise unknown("membership", membership, MEMBERSHIPS)
    if membership == "primary" and not founders:
        raise ConfigError("primary membership needs founders: the names of the processes that begin the group together")
    if membership != "primary" and founders:
        raise ConfigError("founders belong to primary membership: a partitionable group needs none")
    if len(set(founders)) != len(founders):
        raise ConfigError("founders: a name stands there twice")
    for name in founders:
        process_id(name, 1)
