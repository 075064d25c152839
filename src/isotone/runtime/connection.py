"""One TCP connection: handshake, frames in, frames out.

Invariants: `Hello` is the first frame in each direction, and until the peer's has been accepted only a small frame is
read; the owner hears `opened` at most once and `lost` exactly once for every connection that was made; frames are
dropped, not queued, once the transport holds too many bytes (the link above sends them again).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from time import monotonic
from typing import Protocol, cast

from isotone.codec import (
    BYE_FIRST_BYTE,
    HELLO_BYTES,
    Bye,
    FrameDecoder,
    Hello,
    Probe,
    Refused,
    decode_bye,
    decode_hello,
    decode_packet,
    encode_bye,
    encode_hello,
    frame,
)
from isotone.codec.packets import Frame
from isotone.model.errors import RemoteProtocolError
from isotone.model.ids import ProcessId
from isotone.model.records import Packet

HANDSHAKE_S = 3.0
_FLUSH_S = 1.0
_DRAIN_LOW_BYTES = 64 * 1024


class Owner(Protocol):
    """Whom a connection belongs to."""

    hello: Hello
    write_bytes: int

    def opened(self, connection: Connection, hello: Hello) -> None:
        """The peer said who it is; raises `RemoteProtocolError` to turn it away."""

    def probed(self, connection: Connection, probe: Probe) -> None:
        """Somebody who is no member asks something; raises `RemoteProtocolError` to turn it away."""

    def lost(self, connection: Connection) -> None:
        """The connection is gone; `connection.error` says why, if there is more to say than that."""


Receive = Callable[[ProcessId, Packet], None]


class Connection(asyncio.BufferedProtocol):
    """One end of a connection. `dialled` is the address that this side dialled, None if the peer did."""

    def __init__(self, owner: Owner, dialled: str | None) -> None:
        self._owner = owner
        self.receive: Receive | None = None
        """Set by `opened`: who gets the packets; raises `RemoteProtocolError` for a bad one."""
        self.dialled = dialled
        self.peer: str | None = None
        self.asking = False  # a probe is at the other end
        self.address = ""
        self.frame_bytes = 0
        self.heard = monotonic()
        self.sent = self.heard
        self.error: RemoteProtocolError | None = None
        self.closing = False
        self.done: asyncio.Future[None] | None = None
        """Set by who dialled: resolved when the handshake is complete, or when the connection is lost."""
        self._decoder = FrameDecoder(HELLO_BYTES)
        self.get_buffer = self._decoder.get_buffer  # type: ignore[method-assign, assignment]  # one call less for each read
        self._transport: asyncio.Transport | None = None
        self._timer: asyncio.TimerHandle | None = None

    # --- asyncio's side --------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        if self.closing:
            self._transport.abort()
            return
        self._transport.set_write_buffer_limits(high=_DRAIN_LOW_BYTES)
        self._timer = asyncio.get_running_loop().call_later(HANDSHAKE_S, self._too_slow)
        self._transport.write(frame(encode_hello(self._owner.hello)))

    def buffer_updated(self, nbytes: int) -> None:
        if self.closing:
            return
        self.heard = monotonic()
        decoder, peer, receive = self._decoder, self.peer, self.receive
        try:
            if peer is not None and receive is not None:
                only = decoder.only(nbytes)
                if only is not None:
                    if only[0] == BYE_FIRST_BYTE:
                        self._dismissed(decode_bye(only))
                    else:
                        receive(peer, decode_packet(only))
                    return
                nbytes = 0
            for body in decoder.received(nbytes):
                if self.peer is None:
                    self._greeted(decode_hello(body))
                elif body[0] == BYE_FIRST_BYTE:
                    self._dismissed(decode_bye(body))
                elif self.receive is not None:
                    self.receive(self.peer, decode_packet(body))
                if self.closing:
                    return
        except RemoteProtocolError as error:
            self.close(error)

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self._cancel_timer()
        self.closing = True
        self._transport = None
        self._resolve()
        self._owner.lost(self)

    # --- the owner's side ------------------------------------------------------------------------------------------

    def send(self, frames: list[Frame], now: float) -> bool:
        """Write frames; False if they were dropped because the peer does not read, or the connection is closing."""
        transport = self._transport
        if transport is None or self.closing or transport.get_write_buffer_size() > self._owner.write_bytes:
            return False
        for parts in frames:
            if len(parts) == 1:
                transport.write(parts[0])
            else:
                transport.writelines(parts)
        self.sent = now
        return True

    def answer(self, body: bytes) -> None:
        """Answer a probe, and hang up."""
        if self._transport is not None and not self.closing:
            self._transport.write(frame(body))
            self.close()

    @property
    def host(self) -> str:
        """Where the other end is; empty if that is not known."""
        name = None if self._transport is None else self._transport.get_extra_info("peername")
        return str(name[0]) if isinstance(name, tuple) and name else ""

    @property
    def queued(self) -> int:
        """Bytes that the peer has not taken yet."""
        return 0 if self._transport is None else self._transport.get_write_buffer_size()

    def close(self, error: RemoteProtocolError | None = None) -> None:
        """Hang up; a peer that did wrong is told what. What was written before is still sent, for a moment."""
        if self.closing:
            return
        self.closing = True
        self.error = error
        self._cancel_timer()
        transport = self._transport
        if transport is None:
            return
        if error is not None:
            transport.write(frame(encode_bye(str(error))))
        transport.close()
        self._timer = asyncio.get_running_loop().call_later(_FLUSH_S, transport.abort)

    def abort(self) -> None:
        """Hang up at once: what has not been sent is lost."""
        self.closing = True
        if self._transport is not None:
            self._transport.abort()

    # --- inside ----------------------------------------------------------------------------------------------------

    def _greeted(self, hello: Hello | Probe | Bye) -> None:
        if isinstance(hello, Bye):
            self._dismissed(hello)
            return
        if self.asking or (isinstance(hello, Probe) and self.dialled is not None):
            raise RemoteProtocolError("a probe asks once, and is not dialled")
        if isinstance(hello, Probe):
            self.asking = True
            self._cancel_timer()
            self._owner.probed(self, hello)
            return
        self.peer = hello.process
        self.address = hello.address
        self.frame_bytes = hello.frame_bytes
        self._decoder.limit = self._owner.hello.frame_bytes
        self._cancel_timer()
        self._owner.opened(self, hello)
        self._resolve()

    def _dismissed(self, bye: Bye) -> None:
        """The peer hung up and said why: no answer to that."""
        self.error = Refused(bye.reason) if bye.refuses else RemoteProtocolError(bye.reason)
        self.closing = True
        if self._transport is not None:
            self._transport.close()

    def _too_slow(self) -> None:
        if self._transport is not None and self.peer is None:
            self.closing = True
            self.error = RemoteProtocolError(f"no handshake within {HANDSHAKE_S:g} s")
            self._transport.abort()

    def _resolve(self) -> None:
        if self.done is not None and not self.done.done():
            self.done.set_result(None)

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
