"""The snapshots that a process holds for others, and the pieces that it sends of them.

A snapshot is kept as long as a member that needs it has not said that it does not any more; until then its size, or why
there is none, is told again and again. Snapshots of different members need not be equal byte by byte: who changes its provider
half-way says what it has by a digest, and gets the rest only if the snapshot here begins with the same bytes.

Bounds: one snapshot per view that somebody in the view still needs, none above `Limits.state_bytes`; an answer is at most
`PIECE_BYTES_MAX`, and as many are on their way as the receiver asked for.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Protocol

from isotone.model.errors import RemoteProtocolError
from isotone.model.ids import ProcessId, ViewId
from isotone.model.records import Differs, Loose, Offer, Piece, Want
from isotone.model.settings import EndpointConfig

PIECE_BYTES_MAX = 1024 * 1024
DIGEST_BYTES = 16
_HASH_BYTES = 16 * 1024 * 1024
"""So much is hashed at a time: more would keep the process from its other work."""
_OFFER_EVERY = 5
"""Offers are repeated this much more rarely than other records."""


class Sender(Protocol):
    """Who sends records."""

    def send(self, peer: ProcessId, record: Loose) -> None: ...
    def count(self, what: str) -> None: ...


def prefix_digest() -> hashlib.blake2b:
    """The digest of what has come so far."""
    return hashlib.blake2b(digest_size=DIGEST_BYTES)


class _Check:
    """The comparison of the first bytes with what one process has of them. `equal` is None until it is done."""

    def __init__(self, attempt: int) -> None:
        self.attempt = attempt
        self.hasher = prefix_digest()
        self.done = 0
        self.equal: bool | None = None

    def advance(self, data: bytes, base: int, digest: bytes) -> None:
        end = min(base, self.done + _HASH_BYTES)
        self.hasher.update(memoryview(data)[self.done : end])
        self.done = end
        if end == base:
            self.equal = self.hasher.digest() == digest


class Snapshot:
    """The state as of the beginning of one view, for those who need it. No `data` and no `problem`: not taken yet."""

    def __init__(self, needers: Iterable[ProcessId]) -> None:
        self.needers = set(needers)
        self.data: bytes | None = None
        self.problem = ""
        self.offer_at: int | None = None
        self.checks: dict[ProcessId, _Check] = {}


class Snapshots:
    """All snapshots of one process."""

    def __init__(self, config: EndpointConfig, sender: Sender) -> None:
        self._limit = config.limits.state_bytes
        self._every = _OFFER_EVERY * config.timing.resend_ns
        self._sender = sender
        self.held: dict[ViewId, Snapshot] = {}

    def ask(self, cut: ViewId, needers: Iterable[ProcessId]) -> None:
        """The application is being asked for its state as of the beginning of `cut`."""
        self.held[cut] = Snapshot(needers)

    def provide(self, cut: ViewId, data: bytes | None, problem: str, now: int) -> None:
        """The application's answer; nobody may need it any more."""
        snapshot = self.held.get(cut)
        if snapshot is None or snapshot.offer_at is not None:
            return
        if data is not None and len(data) > self._limit:
            problem = f"a snapshot of {len(data)} bytes is above the limit state_bytes, {self._limit}"
            data = None
        snapshot.data = data
        snapshot.problem = "" if data is not None else problem[:200] or "the application gave no snapshot"
        self._offer(cut, snapshot, now)

    def cuts(self) -> list[ViewId]:
        """Of which views there is a snapshot, or will be."""
        return sorted(cut for cut, snapshot in self.held.items() if not snapshot.problem)

    def keep(self, members: Iterable[ProcessId]) -> None:
        """A view was installed: who is not in it is not served any more."""
        present = set(members)
        for cut in list(self.held):
            self.held[cut].needers &= present
            self._forget_unneeded(cut)

    def have(self, peer: ProcessId, cut: ViewId) -> None:
        """`peer` does not need a snapshot any more."""
        snapshot = self.held.get(cut)
        if snapshot is not None:
            snapshot.needers.discard(peer)
            snapshot.checks.pop(peer, None)
            self._forget_unneeded(cut)

    def _forget_unneeded(self, cut: ViewId) -> None:
        if not self.held[cut].needers:
            del self.held[cut]

    def want(self, peer: ProcessId, record: Want) -> None:
        """`peer` asks for a piece."""
        snapshot = self.held.get(record.cut)
        if snapshot is None or snapshot.data is None or peer not in snapshot.needers:
            return
        data = snapshot.data
        if (
            not 0 < record.count <= PIECE_BYTES_MAX
            or record.offset + record.count > len(data)
            or record.base > record.offset
            or len(record.digest) != (DIGEST_BYTES if record.base else 0)
        ):
            raise RemoteProtocolError(f"{peer} asks for bytes that the snapshot of {record.cut} does not have")
        if record.base and not self._begins_alike(snapshot, peer, record):
            return
        end = record.offset + record.count
        self._sender.send(peer, Piece(record.cut, record.attempt, record.offset, data[record.offset : end]))

    def _begins_alike(self, snapshot: Snapshot, peer: ProcessId, record: Want) -> bool:
        """Whether the snapshot begins with what `peer` has; False also while that is being found out: it asks again."""
        check = snapshot.checks.get(peer)
        if check is None or check.attempt != record.attempt:
            check = snapshot.checks[peer] = _Check(record.attempt)
        if check.equal is None:
            check.advance(snapshot.data or b"", record.base, record.digest)
        if check.equal is False:
            self._sender.send(peer, Differs(record.cut, record.attempt))
            self._sender.count("state_resumptions_refused")
        return bool(check.equal)

    def _offer(self, cut: ViewId, snapshot: Snapshot, now: int) -> None:
        snapshot.offer_at = now + self._every
        record = Offer(cut, len(snapshot.data or b""), snapshot.problem)
        for peer in sorted(snapshot.needers):
            self._sender.send(peer, record)

    def wake(self, now: int) -> None:
        """Repeat offers."""
        for cut, snapshot in self.held.items():
            if snapshot.offer_at is not None and now >= snapshot.offer_at:
                self._offer(cut, snapshot, now)

    def deadline(self) -> int | None:
        """When to wake."""
        return min((one.offer_at for one in self.held.values() if one.offer_at is not None), default=None)
