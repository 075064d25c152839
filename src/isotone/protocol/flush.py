"""The flush: how the members that end a view together come to the same set of casts.

What a member lacks of the common set is passed on by one that was chosen to. The common set has, of each sender, the longest
stream that anybody holds, and beyond it what anybody delivered from behind a gap: orderers that ask for it (`takes_early`) are
offered that, and `early` holds what they delivered so; of it, `ahead` is what was beyond the held prefix when the view was frozen
(ADR 0011).
"""

from __future__ import annotations

from collections.abc import Mapping

from isotone.model.errors import RemoteProtocolError, require
from isotone.model.ids import ProcessId
from isotone.model.records import EARLY, Cast, Cohort, Place, Relay
from isotone.protocol.link.links import Links
from isotone.protocol.store import Store


class Flush:
    """The early casts of a view and, once it is frozen, what is passed on."""

    def __init__(self, store: Store, links: Links, rank_of: Mapping[ProcessId, int]) -> None:
        self.early: dict[Place, Cast] = {}  # delivered behind a gap; some gaps may have closed since
        self.ahead: list[Place] = []  # those of them that are reported to the proposer of the next view
        self._store = store
        self._links = links
        self._rank_of = rank_of
        self._beyond: dict[Place, Cast] = {}  # delivered so by others, and passed on for the common set
        self._relayed: dict[tuple[int, int], int] = {}  # (peer, sender): what earlier rounds have passed on already
        self._passed: set[tuple[int, Place]] = set()  # to whom this member has passed what of that

    def takes(self, sender: int, cast: Cast) -> bool:
        """Remember a cast that is delivered from behind a gap; False if there are too many."""
        early, held = self.early, self._store.held
        if len(early) >= EARLY:
            early = self.early = {place: one for place, one in early.items() if place[1] > held[place[0]]}
            if len(early) >= EARLY:
                return False
        early[sender, cast.seq] = cast
        return True

    def freeze(self) -> None:
        """The view ends: what is ahead now is reported."""
        held = self._store.held
        self.ahead = sorted((sender, seq) for sender, seq in self.early if seq > held[sender])

    def still_ahead(self) -> list[Place]:
        """What was delivered beyond a gap that has not closed."""
        return [(sender, seq) for sender, seq in self.ahead if seq > self._store.held[sender]]

    def keep_beyond(self, sender: int, cast: Cast) -> None:
        """A cast beyond a gap was passed on, since somebody has delivered it."""
        most = EARLY * len(self._store.held)
        if len(self._beyond) >= most:
            raise RemoteProtocolError(f"more than {most} early casts are passed on")
        self._beyond[sender, cast.seq] = cast

    def relay(self, process: ProcessId, cohort: Cohort) -> int:
        """Pass on what others of the cohort lack, where this process was chosen to. Returns how many casts."""
        store, links, count = self._store, self._links, 0
        for sender, holder in enumerate(cohort.holders):
            if holder != process:
                continue
            for peer, held in zip(cohort.present, cohort.held, strict=True):
                rank = self._rank_of[peer]
                if rank == store.rank or held[sender] >= cohort.target[sender] or (rank in store.lost and not store.keeps_all):
                    continue
                require(held[sender] >= store.freed[sender], "a cast that a member lacks was freed")
                done = self._relayed.get((rank, sender), 0)
                for cast in store.casts(sender, max(held[sender], done), cohort.target[sender]):
                    links.give(rank, Relay(sender, cast))
                    count += 1
                self._relayed[rank, sender] = max(done, cohort.target[sender])
        for place in cohort.early:
            bearers = [peer for peer, places in zip(cohort.present, cohort.ahead, strict=True) if place in places]
            if bearers[0] == process:
                for peer in cohort.present:
                    if peer not in bearers:
                        count += self._pass_on(self._rank_of[peer], place)
        return count

    def _pass_on(self, rank: int, place: Place) -> bool:
        """An early cast for a member that has not delivered it, once."""
        if rank == self._store.rank or (rank, place) in self._passed:
            return False
        self._passed.add((rank, place))
        self._links.give(rank, Relay(place[0], self.at(place)))
        return True

    def at(self, place: Place) -> Cast:
        """A cast of the common set beyond the target; its gap may have closed since."""
        sender, seq = place
        if seq <= self._store.held[sender]:
            return self._store.casts(sender, seq - 1, seq)[0]
        return self.early[place] if place in self.early else self._beyond[place]

    def complete(self, cohort: Cohort) -> bool:
        """Whether everything of the common set is here."""
        held = self._store.held
        if any(have < want for have, want in zip(held, cohort.target, strict=True)):
            return False
        return all(seq <= held[rank] or (rank, seq) in self.early or (rank, seq) in self._beyond for rank, seq in cohort.early)
