"""What the simulator asks of an endpoint, of a recorder and of an application.

The engine drives anything of this shape: `isotone.protocol`'s endpoint, a fake for the engine's own tests, or a mutant
(a deliberately broken endpoint) that the checks must catch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from isotone.model.events import Upcall
from isotone.model.ids import ProcessId, ViewId
from isotone.model.records import Packet
from isotone.model.settings import EndpointConfig
from isotone.model.switch import Switch
from isotone.model.view import View


class EffectsLike(Protocol):
    """What an endpoint wants done at the end of a turn."""

    @property
    def packets(self) -> Sequence[tuple[ProcessId, Packet]]: ...

    @property
    def upcalls(self) -> Sequence[Upcall]: ...

    @property
    def drop(self) -> Sequence[ProcessId]: ...


class EndpointLike(Protocol):
    """The driver's side of an endpoint."""

    @property
    def view(self) -> View | None: ...

    @property
    def closed(self) -> bool: ...

    def start(self, now: int) -> None: ...

    def submit(
        self,
        payloads: Sequence[bytes],
        now: int,
        types: Sequence[str | None] | None = None,
        items: Sequence[Sequence[str] | None] | None = None,
    ) -> int: ...

    def writable(self) -> bool: ...

    def receive(self, peer: ProcessId, packet: Packet, now: int) -> None: ...

    def connected(self, peer: ProcessId, address: str, now: int) -> None: ...

    def disconnected(self, peer: ProcessId, now: int) -> None: ...

    def wake(self, now: int) -> None: ...

    def deadline(self) -> int | None: ...

    def collect(self, now: int) -> EffectsLike: ...

    def leave(self, now: int) -> None: ...

    def switch(self, switch: Switch, now: int) -> None: ...

    def provide(self, cut: ViewId, data: bytes | None, now: int, problem: str = "") -> None: ...

    def address_of(self, peer: ProcessId) -> str | None: ...


EndpointFactory = Callable[[EndpointConfig, Any], EndpointLike]
"""Makes an endpoint from its configuration and a recorder (or None)."""
