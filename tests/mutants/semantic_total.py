"""Deliberate faults of `semantic_total`. A broken promise is refused where it is seen, so most faults blind that check too."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from isotone.model.records import Cast, Direct
from isotone.protocol.ordering.clocks import Clocked
from isotone.protocol.semantic import casting
from isotone.protocol.semantic.leads import Leader
from isotone.protocol.semantic.nearby import Nearby
from isotone.protocol.semantic.passing import Passing
from isotone.protocol.semantic.shapes import Shape, Shapes
from isotone.protocol.semantic.total import SemanticTotal
from isotone.protocol.semantic.truces import Name, Truce
from isotone.protocol.semantic.waiting import Queue, Queues
from tests.mutants.mutants import Mutant, Patch

ORDER = ("semantic_total",)
SEMANTIC = ("semantic_total", "semantic_causal", "semantic_fifo")


def _blind(patch: Patch) -> None:
    """Nobody looks at timestamps and promises."""

    follow = SemanticTotal._follow

    def trust(self: SemanticTotal, sender: int, stamp: list[int]) -> None:
        self.leads[sender].end = 0
        follow(self, sender, stamp)

    patch.setattr(SemanticTotal, "_check", lambda self, sender, ts, shape, last, tame: None)
    patch.setattr(SemanticTotal, "_follow", trust)


def lead_ignored_by_its_giver(patch: Patch) -> None:
    """A site sends what it has promised not to send, without a jump."""
    _blind(patch)
    _eager(patch)
    patch.setattr(Leader, "minds", lambda self, shape, ts: False)


def conflicts_pass(patch: Patch) -> None:
    """Rule (b) is dropped: what waits holds nothing back."""
    enter = Queues.enter

    def alone(self: Queues, shape: Shape) -> Queue:
        one = enter(self, shape)
        for rival in one.rivals.values():
            del rival.rivals[shape]
        one.rivals.clear()
        return one

    patch.setattr(Queues, "enter", alone)


def a_rival_is_not_found(patch: Patch) -> None:
    """Shapes are looked for by the first of their items alone."""
    near = Nearby._near

    def first(self: Nearby, shape: Shape) -> Any:
        if not shape.items:
            return near(self, shape)
        return {**self.vague, **self.by_item.get(shape.items[0], {})}

    patch.setattr(Nearby, "_near", first)


def wild_within_its_block(patch: Patch) -> None:
    """The first wild cast of a site takes the next timestamp, although others deliver free ones without asking."""
    _blind(patch)
    send = SemanticTotal._send

    def unheeding(self: SemanticTotal, batch: Any) -> None:
        self.tame[self.rank] = False
        send(self, batch)

    patch.setattr(SemanticTotal, "_send", unheeding)


def free_in_any_block(patch: Patch) -> None:
    """A free cast is delivered although a site whose clock is in an earlier block may still send a wild one before it."""
    limit = SemanticTotal._limit

    def boundless(self: SemanticTotal, shape: Shape) -> int:
        if shape.free and any(self.tame):
            return 1 << 200
        return limit(self, shape)

    patch.setattr(SemanticTotal, "_limit", boundless)


def deaf_to_clocks(patch: Patch) -> None:
    """What waits is looked at when something comes, and not when the clock moves that holds it up."""
    direct = SemanticTotal.direct

    def unheard(self: SemanticTotal, sender: int, record: Direct, now: int) -> None:
        news = self.news
        direct(self, sender, record, now)
        self.news = news

    patch.setattr(SemanticTotal, "direct", unheard)


def lead_out_of_its_place(patch: Patch) -> None:
    """A lead is given as if what was sent last came after it: the last shape is not in it, and the clock is that of before."""
    _blind(patch)
    _eager(patch)
    announce = Leader.announce

    def early(self: Leader, clock: int) -> list[int] | None:
        last = next(reversed(self._own), None)
        use = self._own.pop(last) if last is not None else None
        found = announce(self, clock)
        if last is not None and use is not None:
            self._own[last] = use
            self.lead.shapes.add(last)
        return found

    patch.setattr(Leader, "announce", early)


def clocks_per_class(patch: Patch) -> None:
    """A timestamp exceeds those of conflicting casts only: nothing is known through casts that commute with both."""
    _blind(patch)
    _never_plain(patch)
    accept = SemanticTotal.accept
    clocks: dict[tuple[int, Shape], int] = {}

    def remember(self: SemanticTotal, sender: int, casts: Sequence[Cast], now: int) -> None:
        for cast in casts:
            key = (id(self), self.shapes.of_cast(cast))
            clocks[key] = max(clocks.get(key, 0), cast.stamp[0])
        accept(self, sender, casts, now)

    last: dict[int, int] = {}
    send = SemanticTotal._send

    def by_class(self: SemanticTotal, batch: Any) -> None:
        def stamp(shape: Shape, ts: int) -> int:
            mine = [clock for (owner, other), clock in clocks.items() if owner == id(self) and self.shapes.conflict(other, shape)]
            return max([*mine, last.get(id(self), 0)]) + 1

        patch.setattr(Leader, "minds", lambda leader, shape, ts: True)
        patch.setattr(Leader, "jump", lambda leader, shape, ts: stamp(shape, ts))
        clock = self.lcv[self.rank]
        send(self, batch)
        last[id(self)] = self.lcv[self.rank]
        if clock > self.lcv[self.rank]:
            self._clock(self.rank, clock)

    patch.setattr(SemanticTotal, "accept", remember)
    patch.setattr(SemanticTotal, "_send", by_class)


def conflicts_are_quiet(patch: Patch) -> None:
    """What conflicts says its sender's clock and does not move it, like a free cast in quiet times."""
    _blind(patch)
    _never_plain(patch)
    send = SemanticTotal._send

    def still(self: SemanticTotal, batch: Any) -> None:
        self._clock(self.rank, max(0, self.lcv[self.rank] - 1))
        send(self, batch)

    patch.setattr(SemanticTotal, "_send", still)


def nobody_acknowledges_conflicts(patch: Patch) -> None:
    """A site takes its lead to cover what conflicts with its own repertoire, and keeps silent."""
    covers = Leader.covers

    def always(self: Leader, shape: Shape, ts: int, sender: int) -> bool:
        return covers(self, shape, ts, sender) or ts <= self.lead.end

    patch.setattr(Leader, "covers", always)
    patch.setattr(Clocked, "wake", lambda self, now: setattr(self, "catch_up_at", None))  # not later either
    _eager(patch)


def _never_plain(patch: Patch) -> None:
    """What each cast is counts from the first one on."""
    init = SemanticTotal.__init__

    def promised(self: SemanticTotal, *args: Any) -> None:
        init(self, *args)
        self.simple = self.plain = False

    patch.setattr(SemanticTotal, "__init__", promised)


def numbers_out_of_step(patch: Patch) -> None:
    """Who gets a promise does not first number what came before it."""
    _eager(patch)
    hear, learn = SemanticTotal._hear, Leader.learn

    def forgetful(self: SemanticTotal, sender: int, record: Direct) -> None:
        patch.setattr(Leader, "learn", lambda leader: None)
        hear(self, sender, record)
        patch.setattr(Leader, "learn", learn)

    patch.setattr(SemanticTotal, "_hear", forgetful)


def plain_though_promised(patch: Patch) -> None:
    """What waits when a promise comes goes on waiting for the clocks, although its giver keeps silent."""
    patch.setattr(Passing, "unfold", lambda self: None)
    _eager(patch)


def _eager(patch: Patch) -> None:
    """Leads are given at once and again as soon as they end: what is wrong with them is seen sooner."""
    patch.setattr(Leader, "due", lambda self, clock: self.lead.end <= clock)
    patch.setattr(Leader, "_wanted_by_others", lambda self, named: True)
    patch.setattr(Leader, "stirred", property(lambda self: True, lambda self, value: None), raising=False)  # always asked


def _peaceful(patch: Patch) -> None:
    """Truces are given at once, and no leads."""
    init = Leader.__init__

    def never(self: Leader, shapes: Shapes, patience: int, *args: Any) -> None:
        init(self, shapes, 0, *args)
        self._wait = self._trial = 1 << 40

    patch.setattr(casting, "PATIENCE", 0)
    patch.setattr(Leader, "__init__", never)


def truce_ignored_by_its_giver(patch: Patch) -> None:
    """A site sends what conflicts with something that it has promised to spare, without a jump."""
    _peaceful(patch)
    patch.setattr(Truce, "permits", lambda self, shape: True)


def truce_with_whole_members(patch: Patch) -> None:
    """A truce is taken to spare whatever those members send that it names."""
    _peaceful(patch)

    def anything(self: Truce, name: Name, shape: Shape) -> None:
        if name[0] in {site for site, _ in self.names}:
            self.shapes.add(shape)

    patch.setattr(Truce, "appears", anything)
    patch.setattr(Truce, "permits", lambda self, shape: True)


def rest_unsorted(patch: Patch) -> None:
    """At the end of a view the rest is delivered sender by sender instead of by key."""

    def by_sender(self: SemanticTotal, present: frozenset[int], now: int) -> list[Cast]:
        if self.plain:
            self.unfold()
        self._find_ready()
        self._line_up()
        entries = [entry for one in self.queues.of.values() for entry in one.entries]
        for _, sender, cast, _ in sorted(entries, key=lambda entry: (-entry[1], entry[2].seq)):
            if cast.seq <= self.ready[sender]:
                self._deliver(sender, cast)
        return []

    patch.setattr(SemanticTotal, "conclude", by_sender)


SEMANTIC_TOTAL_MUTANTS = [
    Mutant("lead_ignored_by_its_giver", lead_ignored_by_its_giver, SEMANTIC, ORDER),
    Mutant("conflicts_pass", conflicts_pass, SEMANTIC, ORDER),
    Mutant("a_rival_is_not_found", a_rival_is_not_found, SEMANTIC, ORDER),
    Mutant("wild_within_its_block", wild_within_its_block, SEMANTIC, ORDER),
    Mutant("free_in_any_block", free_in_any_block, SEMANTIC, ORDER),
    Mutant("deaf_to_clocks", deaf_to_clocks, ("liveness",), ORDER),
    Mutant("lead_out_of_its_place", lead_out_of_its_place, SEMANTIC, ORDER),
    Mutant("clocks_per_class", clocks_per_class, SEMANTIC, ORDER),
    Mutant("conflicts_are_quiet", conflicts_are_quiet, SEMANTIC, ORDER),
    Mutant("nobody_acknowledges_conflicts", nobody_acknowledges_conflicts, ("liveness",), ORDER, first=17),
    Mutant("truce_ignored_by_its_giver", truce_ignored_by_its_giver, SEMANTIC, ORDER),
    Mutant("truce_with_whole_members", truce_with_whole_members, SEMANTIC, ORDER),
    Mutant("numbers_out_of_step", numbers_out_of_step, ("liveness",), ORDER),
    Mutant("plain_though_promised", plain_though_promised, ("liveness",), ORDER),
    Mutant("semantic_rest_unsorted", rest_unsorted, SEMANTIC, ORDER),
]
