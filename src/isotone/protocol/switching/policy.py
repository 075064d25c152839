"""Who decides when to switch, and to what: policies by name, and the controller that asks one.

A group that is under a policy has the policy's name in its ordering, beside the orderer in force. The member of rank 0 observes
and decides, the others answer its echoes; when a view ends, the first member of the next one begins anew. Safety never
depends on any of this: a decision is a switch as anybody may ask for, at any time.

`learned` (what `order = "auto"` means) predicts the mean latency of every orderer from the packaged table. It decides for
another one when that gains more than its price: what a switch costs, spread over the time in which it has to pay, and the error
of the table. A gain of `TIMES` prices is enough at once; a smaller one has to be seen until the sum is as large. A sequencer is
placed where most messages come from, so that a sequencer at another member is another choice. Who sends how much is known from
counts, and what chance alone may have made of them speaks for the present choice.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar, Final

import msgspec

from isotone.model.errors import ConfigError, unknown
from isotone.model.ids import ProcessId, name_of
from isotone.model.records import Echo, Seen
from isotone.model.settings import SECOND
from isotone.model.view import Ordering, View
from isotone.protocol.named import Named
from isotone.protocol.switching.observe import PERIOD_NS, Observation, Observer
from isotone.protocol.switching.table import Predictor, best, packaged

AUTO: Final = "auto"
DWELL_NS: Final = 2 * SECOND
"""After a view or a switch nothing is decided for so long."""
ERROR: Final = 2
"""In percent: by so little two predictions differ also where the orderers do not."""
HELD_UP: Final = 2
"""What a switch costs without loss: the messages of so many delays wait for a delay more."""
PAYS_NS: Final = 20 * SECOND
"""A switch has to bring in what it costs in so much time."""
TIMES: Final = 2
DOUBT: Final = 2
"""Deviations of a count: so much may be chance."""


class Policy:
    """Base of all policies; lives for one view at the member that decides. To write one, derive from this and register it."""

    name: ClassVar[str]

    def __init__(self, members: tuple[ProcessId, ...]) -> None:
        self.members = members

    @classmethod
    def first(cls) -> tuple[str, dict[str, int | str | bool]]:
        """The orderer, and its options, that a group begins with."""
        return "single_phase", {}

    def decide(self, observation: Observation, current: Ordering, now: int) -> Ordering | None:
        """The ordering that should be in force from now on, if it is another one; its level, k and policy are not looked at."""
        raise NotImplementedError


POLICIES: Final = Named[Policy]("a switching policy", "switching policy")
register_policy = POLICIES.register
find_policy = POLICIES.find


def concrete(ordering: Ordering) -> Ordering:
    """What `order = "auto"` means: the policy that the option `policy` names, and what it begins with."""
    if ordering.order != AUTO:
        return ordering
    for option in ordering.options:
        if option != "policy":
            raise unknown("option of auto", option, ("policy",))
    name = ordering.options.get("policy", Learned.name)
    if not isinstance(name, str):
        raise ConfigError(f"option policy of auto is {name!r}: must be a text")
    order, options = find_policy(name).first()
    return Ordering(order, ordering.level, ordering.k, options, policy=name)


class Learned(Policy):
    """By the packaged table, or another one."""

    name = "learned"

    @staticmethod
    def predictor() -> Predictor:
        """What it predicts with."""
        return packaged()

    def __init__(self, members: tuple[ProcessId, ...]) -> None:
        super().__init__(members)
        self._wanted: Ordering | None = None
        self._gained = 0

    @classmethod
    def first(cls) -> tuple[str, dict[str, int | str | bool]]:
        return cls.predictor().safest, {}

    def decide(self, observation: Observation, current: Ordering, now: int) -> Ordering | None:
        predictor = self.predictor()
        busiest, seat = observation.busiest, self._seat(current)
        skew = max(0, observation.skew(busiest, -DOUBT))  # the busiest sends no less than the others
        predictions = {order: predictor.latency(order, observation, skew) for order in predictor.orders}
        order = best(predictions)
        wanted = Ordering(order, options={"at": name_of(self.members[busiest])} if order == "sequencer" else {})
        price = predictions[order] * ERROR // 100 + _cost_us(observation)
        present = predictions.get(current.order)
        sure = True
        if seat is not None and present is not None:
            moves = order == current.order
            sure = not moves or observation.busier(busiest, seat)
            present = predictor.latency(current.order, observation, observation.skew(seat, 0 if moves else DOUBT))
        gain = present - predictions[order] if present is not None else TIMES * price + 1
        if gain <= price or not sure:
            self._wanted = None
            return None
        self._gained = gain + (self._gained if wanted == self._wanted else 0)
        self._wanted = wanted
        return wanted if self._gained > TIMES * price else None

    def _seat(self, ordering: Ordering) -> int | None:
        """The rank of the member that numbers."""
        if ordering.order != "sequencer":
            return None
        at = ordering.options.get("at")
        return next((rank for rank, member in enumerate(self.members) if name_of(member) == at), 0)


def _cost_us(seen: Observation) -> int:
    """What a switch adds to the latency of every message until it has to have paid. Of what is said in it some gets lost too."""
    return HELD_UP * seen.delay_ns * seen.delay_ns * (10 + seen.loss) // (10 * 1_000 * PAYS_NS)


register_policy(Learned)


class Controller:
    """The member of rank 0 of a view under a policy."""

    def __init__(self, view: View, now: int, send: Callable[[ProcessId, Echo], None]) -> None:
        self.view = view.id
        self.policy = find_policy(view.ordering.policy)(view.members)
        self.observer = Observer(view.members, now)
        self._peers = view.members[1:]
        self._send = send
        self._current = view.ordering
        self._rest_until = now + DWELL_NS
        self.due = now

    def wake(self, current: Ordering, seen: Seen, now: int) -> Ordering | None:
        """A period is over, and this is what was seen here: what should be in force instead, if anything."""
        if now < self.due:
            return None
        self.due = now + PERIOD_NS
        self.observer.told(self.policy.members[0], seen)
        self.observer.note(now)
        for peer in self._peers:
            self.observer.asked(peer, now)
            self._send(peer, Echo(now))
        if current != self._current:
            self._current = current
            self._rest_until = now + DWELL_NS
        if now < self._rest_until or not self._peers:
            return None
        observation = self.observer.look()
        if observation is None:
            return None
        wanted = self.policy.decide(observation, current, now)
        if wanted is None:
            return None
        wanted = msgspec.structs.replace(current, order=wanted.order, options=wanted.options)
        return wanted if wanted != current else None
