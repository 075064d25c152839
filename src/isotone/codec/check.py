"""What a decoder cannot see: the form of process ids, the length of texts, columns of equal length, numbers in a view's id.

One function per record type, found by type; a packet with one large cast costs a handful of comparisons.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache
from itertools import pairwise
from typing import Any

from isotone.model.columns import problem
from isotone.model.conflicts import Conflicts
from isotone.model.errors import RemoteProtocolError
from isotone.model.ids import ProcessId, ViewId, is_process_id
from isotone.model.records import (
    EARLY,
    Cast,
    Charter,
    Cohort,
    Decision,
    Differs,
    Direct,
    Echo,
    Have,
    Heartbeat,
    Install,
    Installed,
    Offer,
    Packet,
    Piece,
    Place,
    Plan,
    Probe,
    Propose,
    Ready,
    Refuse,
    Reject,
    Relay,
    Share,
    State,
    Vote,
    Want,
)
from isotone.model.view import Ordering, View

_TOP = 1 << 62
_TEXT = 1024
_DIGEST = 16
_PROCESS = 90  # a name of 64 characters, '#', and an incarnation that fits into 64 bits


@lru_cache(maxsize=4096)
def well_formed(text: str) -> bool:
    """Whether `text` can be the id of a process."""
    return len(text) <= _PROCESS and is_process_id(text)


def _fail(text: str) -> RemoteProtocolError:
    return RemoteProtocolError(f"malformed packet: {text}")


def _counter(value: int, what: str) -> None:
    if not 0 <= value < _TOP:
        raise _fail(f"{what} is {value}")


def _process(text: ProcessId) -> None:
    if not well_formed(text):
        raise _fail(f"{text[:80]!r} is not a process id")


def _processes(texts: Iterable[ProcessId]) -> None:
    for text in texts:
        if not well_formed(text):
            raise _fail(f"{text[:80]!r} is not a process id")


def _view_id(view: ViewId | None) -> None:
    if view is not None:
        _counter(view[0], "epoch")
        if view[1]:
            _process(view[1])


def _text(text: str, what: str) -> None:
    if len(text) > _TEXT:
        raise _fail(f"{what} of {len(text)} characters")


def _places(members: list[ProcessId] | tuple[ProcessId, ...], addresses: list[str]) -> None:
    _processes(members)
    if len(addresses) != len(members):
        raise _fail(f"{len(addresses)} addresses for {len(members)} processes")
    for address in addresses:
        _text(address, "address")


def _ordering(ordering: Ordering) -> None:
    _text(ordering.order, "order")
    _counter(ordering.k, "k")
    _text(ordering.policy, "policy")
    for key, value in ordering.options.items():
        _text(key, "option")
        if isinstance(value, str):
            _text(value, "option")
        elif not -_TOP < value < _TOP:
            raise _fail(f"option is {value}")
    if ordering.conflicts is not None:
        _conflicts(ordering.conflicts)


def _conflicts(conflicts: Conflicts) -> None:
    for text in (*conflicts.types, conflicts.name, conflicts.version):
        _text(text, "word of a conflict relation")
    if not conflicts.is_canonical():
        raise _fail("a conflict relation whose tables are not sorted, closed and declared")


def _view(view: View) -> None:
    _view_id(view.id)
    _processes(view.members)
    if list(view.members) != sorted(set(view.members)):  # none at all: everybody leaves
        raise _fail("members of a view must be sorted and different")
    _ordering(view.ordering)


def _cast(cast: Cast) -> None:
    count = len(cast.payloads)
    if cast.types is not None and (wrong := problem(cast.types, count)):
        raise _fail(f"types: {wrong}")
    if cast.items is not None and (wrong := problem(cast.items, count)):
        raise _fail(f"items: {wrong}")


def _nothing(record: Direct | Echo) -> None:
    """The decoder has seen it all."""


def _relay(relay: Relay) -> None:
    _cast(relay.cast)


def _heartbeat(record: Heartbeat) -> None:
    _view_id(record.view)
    _view_id(record.promised)
    _processes(record.suspects)


def _probe(record: Probe) -> None:
    _text(record.address, "address")
    _view_id(record.view)
    _view_id(record.promised)
    _processes(record.members)
    _places(record.contacts, record.addresses)


def _propose(record: Propose) -> None:
    _view_id(record.round)
    _places(record.participants, record.addresses)


def _reject(record: Reject) -> None:
    _view_id(record.round)
    _view_id(record.promised)


def _places_of(places: list[Place], members: int, most: int) -> None:
    """Casts by rank and number: sorted, different, of members, and not too many."""
    if len(places) > most:
        raise _fail(f"{len(places)} early casts")
    if places and (places[-1][0] >= members or any(one >= two for one, two in pairwise(places)) or not all(s for _, s in places)):
        raise _fail("early casts that are not sorted, or of nobody")


def _share(share: Share) -> None:
    for cut in share.cuts:
        _view_id(cut)


def _state(record: State) -> None:
    _view_id(record.round)
    _view_id(record.view)
    _processes(record.members)
    _ordering(record.ordering)
    if record.share is not None:
        _share(record.share)
    _places_of(record.early, len(record.members), EARLY)


def _cohort(cohort: Cohort) -> None:
    _view_id(cohort.view)
    _processes(cohort.members)
    _processes(cohort.present)
    _processes(cohort.holders)
    _places_of(cohort.early, len(cohort.members), EARLY * len(cohort.present))
    for places in cohort.ahead:
        _places_of(places, len(cohort.members), EARLY)


def _plan(record: Plan) -> None:
    _view_id(record.round)
    for cohort in record.cohorts:
        _cohort(cohort)
    _shares(record.sharing, record.shares)


def _shares(sharing: list[ProcessId], shares: list[Share]) -> None:
    _processes(sharing)
    if len(shares) != len(sharing):
        raise _fail(f"{len(shares)} shares for {len(sharing)} processes")
    for share in shares:
        _share(share)


def _round(record: Ready | Installed) -> None:
    _view_id(record.round)


def _install(record: Install) -> None:
    _view_id(record.round)
    _view(record.view)
    _places(record.view.members, record.addresses)


def _refuse(record: Refuse) -> None:
    _text(record.reason, "reason")


def _decision(decision: Decision) -> None:
    _view_id(decision.previous)
    _view(decision.view)
    _places(decision.view.members, decision.addresses)
    if decision.cohort is not None:
        _cohort(decision.cohort)
    _shares(decision.sharing, decision.shares)


def _vote(record: Vote) -> None:
    _view_id(record.instance)
    if record.value is not None:
        _decision(record.value)


def _charter(record: Charter) -> None:
    for name in record.founders:
        _process(f"{name}#1")
    if record.conflicts is not None:
        _conflicts(record.conflicts)


def _offer(record: Offer) -> None:
    _view_id(record.cut)
    _text(record.problem, "problem")


def _want(record: Want) -> None:
    _view_id(record.cut)
    if len(record.digest) > _DIGEST:
        raise _fail(f"digest of {len(record.digest)} bytes")


def _cut(record: Piece | Differs | Have) -> None:
    _view_id(record.cut)


_CHECKS: dict[type, Callable[[Any], None]] = {
    Cast: _cast,
    Direct: _nothing,
    Relay: _relay,
    Heartbeat: _heartbeat,
    Probe: _probe,
    Propose: _propose,
    Reject: _reject,
    State: _state,
    Plan: _plan,
    Ready: _round,
    Install: _install,
    Installed: _round,
    Refuse: _refuse,
    Vote: _vote,
    Charter: _charter,
    Echo: _nothing,
    Offer: _offer,
    Want: _want,
    Piece: _cut,
    Differs: _cut,
    Have: _cut,
}


def check_packet(packet: Packet) -> None:
    """Raise `RemoteProtocolError` for what no endpoint sends."""
    if packet.proposer and not well_formed(packet.proposer):
        raise _fail(f"{packet.proposer[:80]!r} is not a process id")
    for record in packet.records:
        if type(record) is Cast:
            if record.types is not None or record.items is not None:
                _cast(record)
        elif type(record) is not Direct:
            _CHECKS[type(record)](record)
    for loose in packet.loose:
        _CHECKS[type(loose)](loose)
