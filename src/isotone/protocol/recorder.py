"""What the core needs of a trace recorder; `None` in its place records nothing and costs nothing.

Every method is called at most once per batch. The recorder of `isotone.trace` has this shape.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from isotone.model.ids import ProcessId, ViewId


class Recorder(Protocol):
    """A sink for the events of one process."""

    def start(self, now: int, detail: dict[str, str]) -> None: ...
    def submit(self, now: int, view: ViewId | None, count: int, size: int) -> None: ...
    def send(
        self,
        now: int,
        view: ViewId | None,
        first_number: int,
        payloads: Sequence[bytes],
        types: Sequence[str | None] | None,
        items: Sequence[Sequence[str] | None] | None,
    ) -> None: ...
    def receive(
        self, now: int, view: ViewId | None, origin: ProcessId, first_number: int, count: int, peer: ProcessId
    ) -> None: ...
    def deliver(
        self,
        now: int,
        view: ViewId | None,
        origin: ProcessId,
        first_number: int,
        payloads: Sequence[bytes],
        position_prefix: tuple[int, ...] | None,
        protocol: str | None,
        level: str | None,
        k: int | None,
        types: Sequence[str | None] | None,
        items: Sequence[Sequence[str] | None] | None,
    ) -> None: ...
    def returned(
        self,
        now: int,
        view: ViewId | None,
        origin: ProcessId,
        first_number: int,
        payloads: Sequence[bytes],
        types: Sequence[str | None] | None,
        items: Sequence[Sequence[str] | None] | None,
    ) -> None: ...
    def flush(self, now: int, view: ViewId | None) -> None: ...
    def transitional(self, now: int, view: ViewId | None, members: Sequence[ProcessId]) -> None: ...
    def view(
        self, now: int, view: ViewId, members: Sequence[ProcessId], protocol: str | None, level: str | None, k: int | None
    ) -> None: ...
    def core(self, now: int, view: ViewId | None, members: Sequence[ProcessId], detail: Mapping[str, str]) -> None: ...
    def switch(
        self, now: int, view: ViewId | None, protocol: str | None, level: str | None, k: int | None, detail: Mapping[str, str]
    ) -> None: ...
    def suspect(self, now: int, view: ViewId | None, peer: ProcessId, level: str) -> None: ...
    def trust(self, now: int, view: ViewId | None, peer: ProcessId, level: str) -> None: ...
    def packet(
        self, now: int, view: ViewId | None, packet_kind: str, fanout: int, count: int, size: int, switch: int = 0
    ) -> None: ...
    def stop(self, now: int) -> None: ...
