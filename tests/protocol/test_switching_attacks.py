"""Schedules that were made to break a switch, or that broke one."""

from __future__ import annotations

import msgspec

from isotone.model.records import Packet
from isotone.model.settings import MS
from tests.protocol.bag import Fate
from tests.protocol.switch_bag import A, B, D, ask, group, order_of


def test_messages_that_were_fetched_before_the_request_are_there_when_their_numbers_are_delivered() -> None:
    """d gets nothing of a and b but through others, and of a's stream the messages of the next orderer before b's request."""
    bag = group("token", 4)
    ask(bag, B, "single_phase", "dual_ids")

    def around(source: str, target: str, packet: Packet) -> Packet | Fate:
        return msgspec.structs.replace(packet, records=[], first=0) if source in (A, B) and target == D else packet

    bag.run(MS, around, until=lambda: bag.live[A].epoch.regime[1] == 1)
    bag.submit(A, 2)
    bag.run(250 * MS, around, until=lambda: bag.live[D].counters.get("casts_fetched", 0) >= 7)
    assert bag.received[D] == [(A, 1), (A, 2)]
    assert bag.settle()
    assert bag.live[A].counters["views"] == bag.live[D].counters["views"] == 2  # nobody was banned
    assert {order_of(bag, process) for process in bag.live} == {"single_phase"}
    assert bag.report().verdict == "ok"
