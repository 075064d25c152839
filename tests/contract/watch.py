"""A bag that is watched: bounds and levels are checked at every turn, agreement when a test asks for it."""

from __future__ import annotations

from itertools import combinations, pairwise
from typing import NamedTuple

from isotone.model.events import DeliveryBatch, ReturnedBatch, ViewInstalled
from isotone.model.ids import ViewId
from isotone.model.settings import MS, Limits
from isotone.model.view import Ordering
from isotone.protocol.endpoint import Endpoint
from isotone.protocol.semantic.shapes import PARTS_MAX
from tests.contract.cases import Case
from tests.protocol.bag import LIMITS, Bag


class Told(NamedTuple):
    """A message as an application gets it."""

    view: ViewId
    origin: str
    number: int
    payload: bytes
    position: tuple[int, ...] | None
    level: str
    type: str | None
    items: tuple[str, ...] | None

    @property
    def id(self) -> tuple[str, int]:
        return self.origin, self.number


class Watch(Bag):
    """Checks, whenever an endpoint ends a turn, what must hold at any time."""

    def __init__(self, count: int, case: Case, limits: Limits = LIMITS, ordering: Ordering | None = None) -> None:
        self.case = case
        self.seqs: dict[tuple[ViewId, str, int], int] = {}  # in which cast of its view a message travels
        self.holds: dict[tuple[ViewId, str], list[int]] = {}  # what each member was last seen to hold of each sender
        self.given: dict[tuple[str, int], tuple[str | None, tuple[str, ...] | None]] = {}  # type and items of messages
        super().__init__(count, ordering or case.ordering, limits=limits)

    def collect(self, endpoint: Endpoint) -> None:
        before = len(self.upcalls[endpoint.process])
        super().collect(endpoint)
        epoch = endpoint.epoch
        if epoch is not None:
            self.holds[epoch.view.id, endpoint.process] = list(epoch.held)
            for cast in epoch.buffers[epoch.rank]:
                if cast.payloads:
                    self.seqs[epoch.view.id, endpoint.process, cast.number] = cast.seq
            self._check_bounds(endpoint)
        for upcall in self.upcalls[endpoint.process][before:]:
            if isinstance(upcall, DeliveryBatch):
                self._check_level(upcall)

    def _check_level(self, upcall: DeliveryBatch) -> None:
        view = upcall.view
        if len(view) == 1:
            return
        need = {"agreed": 1, "k": self.case.need(len(view)), "safe": len(view)}[upcall.level]
        rank = view.members.index(upcall.origin)
        seq = self.seqs[view.id, upcall.origin, upcall.first]
        have = [member for member in view.members if (self.holds.get((view.id, member)) or [0] * len(view))[rank] >= seq]
        assert len(have) >= need, f"{upcall.level} in {view.members} of a message of {upcall.origin} that only {have} hold"

    def _check_bounds(self, endpoint: Endpoint) -> None:
        limits = self.limits
        epoch = endpoint.epoch
        assert epoch is not None
        assert len(endpoint.pending) <= limits.pending_messages
        assert endpoint.pending._bytes <= limits.pending_bytes
        said = [cast for cast in epoch.buffers[epoch.rank] if cast.payloads]
        own = [cast for cast in said if cast.number]  # the others are about a switch, and wait for no room
        window = limits.window_casts + (
            PARTS_MAX - 1 if self.case.conflicts is not None else 0
        )  # the last batch may come in parts
        assert sum(cast.seq > epoch.store.released for cast in own) <= window
        assert len(own) <= window + limits.keep_casts  # the rest is kept for external members
        room = limits.window_bytes + max(limits.batch_bytes, limits.payload_bytes)
        assert epoch.store.unstable_bytes < room + sum(len(cast.payloads[0]) for cast in said if not cast.number)
        for _, link in epoch.links.peers:
            assert len(link.unacked) <= limits.link_records
            assert link.stashed <= 2 * limits.link_records

    # What the tests ask

    def told(self, process: str, view: ViewId | None = None) -> list[Told]:
        """What an application got, in order; in one view if that is asked."""
        result = []
        for upcall in self.upcalls[process]:
            if isinstance(upcall, DeliveryBatch) and view in (None, upcall.view.id):
                for i, payload in enumerate(upcall.payloads):
                    position = (*upcall.position, i) if upcall.position is not None else None
                    type_ = upcall.types[i] if upcall.types is not None else None
                    items = upcall.items[i] if upcall.items is not None else None
                    result.append(
                        Told(
                            upcall.view.id, upcall.origin, upcall.first + i, payload, position, upcall.level, type_,
                            tuple(items) if items is not None else None,
                        )
                    )  # fmt: skip
        return result

    def returned(self, process: str) -> list[tuple[str, int]]:
        """The own messages that a process got back."""
        batches = [upcall for upcall in self.upcalls[process] if isinstance(upcall, ReturnedBatch)]
        return [(batch.origin, batch.first + i) for batch in batches for i in range(len(batch.payloads))]

    def submit(self, process: str, count: int) -> int:
        """Messages as the case describes them."""
        if self.case.conflicts is None:
            return super().submit(process, count)
        first = self.sent[process]
        payloads = [f"{process}/{first + i}".encode() for i in range(count)]
        described = [self.case.described(process, first + i) for i in range(count)]
        types, items = [type_ for type_, _ in described], [some for _, some in described]
        accepted = self.live[process].submit(payloads, self.now, types, items)
        for i in range(accepted):
            some = items[i]
            self.given[process, first + i + 1] = types[i], None if some is None else tuple(some)
        self.sent[process] += accepted
        self.collect(self.live[process])
        return accepted

    def conflict(self, one: Told, two: Told) -> bool:
        """Whether the relation, if there is one, makes two messages keep their order."""
        relation = self.case.conflicts
        return relation is None or relation.conflict(one.type, one.items, two.type, two.items)

    def views(self, process: str) -> list[ViewInstalled]:
        """The views that a process installed."""
        return [upcall for upcall in self.upcalls[process] if isinstance(upcall, ViewInstalled)]

    def traffic(self, rounds: int = 3, count: int = 2) -> None:
        """Everybody submits, and the network brings about half of what is under way."""
        for turn in range(rounds):
            for process in sorted(self.live):
                if not self.live[process]._leave_wanted:
                    self.submit(process, 1 + (turn + ord(process[0])) % count)
            for _ in range(len(self.packets) // 2):
                self.deliver(0)
            self.advance(MS)

    def check(self, *together: str) -> None:
        """Everything that holds whatever happened; `together` never parted, so they agree on every view they share."""
        report = self.report()
        assert report.verdict == "ok", [(check.name, check.witness) for check in report.checks if check.verdict == "violated"]
        for process in self.upcalls:
            self._check_one(process)
        for first, second in combinations(sorted(self.upcalls), 2):
            self._check_pair(first, second)
        for first, second in combinations(together, 2):
            self._check_together(first, second)
        for process in self.live:
            own = [told.number for told in self.told(process) if told.origin == process]
            own += [number for _, number in self.returned(process)]
            assert sorted(own) == list(range(1, self.sent[process] + 1)), f"{process} lost or repeated a message"
            assert not self.case.intrinsic or not self.returned(process)

    def _check_one(self, process: str) -> None:
        """Per-sender order; every message is what its sender submitted; positions as promised. Messages that commute may pass."""
        told = self.told(process)
        for message in told:
            assert message.payload == f"{message.origin}/{message.number - 1}".encode()
            assert (message.type, message.items) == self.given.get(message.id, (message.type, message.items))
            assert (message.position is not None) == self.case.total
        if self.case.conflicts is None:
            by_sender = sorted(told, key=lambda message: message.origin)  # keeps the order within
            ordered = [pair for pair in pairwise(by_sender) if pair[0].origin == pair[1].origin]
            placed = list(pairwise(told))
        else:
            placed = [pair for pair in combinations(told, 2) if self.conflict(*pair)]
            ordered = [pair for pair in placed if pair[0].origin == pair[1].origin]
        assert all(before.number < after.number for before, after in ordered), f"{process}: {ordered}"
        if self.case.total:
            for before, after in placed:
                assert (before.view, before.position) < (after.view, after.position), f"{process}: {before}, then {after}"

    def _check_pair(self, first: str, second: str) -> None:
        """Whatever two processes have in common, they have in the same view, and in a total order at the same place."""
        mine = {told.id: told for told in self.told(first)}
        theirs = {told.id: told for told in self.told(second)}
        common = mine.keys() & theirs.keys()
        for message in common:
            assert (mine[message].view, mine[message].position) == (theirs[message].view, theirs[message].position)
        if self.case.total and self.case.conflicts is None:
            assert [message for message in mine if message in common] == [message for message in theirs if message in common]

    def _check_together(self, first: str, second: str) -> None:
        shared = {upcall.view.id for upcall in self.views(first)} & {upcall.view.id for upcall in self.views(second)}
        for view in shared:
            mine = [told.id for told in self.told(first, view)]
            theirs = [told.id for told in self.told(second, view)]
            assert sorted(mine) == sorted(theirs), f"in {view}, {first} and {second} delivered different messages"
