"""What comes during the flush is looked at by the orderer when the view ends: a cast that it refuses must not end the process."""

from __future__ import annotations

import pytest

from isotone.model.columns import Column
from isotone.model.conflicts import Conflicts
from isotone.model.events import DeliveryBatch, Upcall
from isotone.model.ids import ViewId
from isotone.model.records import Cast, Cohort, Packet, Relay
from isotone.model.settings import EndpointConfig
from isotone.model.view import Ordering, View
from isotone.protocol.epoch import Epoch

MEMBERS = ("a#1", "b#1", "c#1")
BY_ITEM = Conflicts.by_item()


@pytest.mark.parametrize(
    ("order", "stamps", "delivered"),
    [
        # c has sent nothing: a cast that knows of five of c's is impossible, which c alone can tell
        ("semantic_causal", [[0, 0], [0, 5], [0, 0]], [b"1"]),
        ("semantic_total", [[1], [0], [3]], [b"1"]),
        ("semantic_fifo", [[], [7], []], [b"1"]),
        ("single_phase", [[1], [1], [3]], [b"1"]),
    ],
)
def test_a_late_cast_with_an_impossible_stamp_ends_the_stream_of_its_sender_and_nothing_else(
    order: str, stamps: list[list[int]], delivered: list[bytes]
) -> None:
    view = View(ViewId(1, "a#1"), MEMBERS, Ordering(order, conflicts=BY_ITEM if order.startswith("semantic") else None))
    upcalls: list[Upcall] = []
    epoch = Epoch(view, EndpointConfig("c#1", ordering=view.ordering), 1, upcalls.append, None, {}, 0)
    epoch.freeze(1)
    casts = [Cast(seq, 0, stamp, seq, [b"%d" % seq], None, Column([("x",)])) for seq, stamp in enumerate(stamps, 1)]
    epoch.receive("b#1", Packet(1, "a#1", 1, 0, [Relay(0, cast) for cast in casts], []), 2)
    assert epoch.held == [3, 0, 0]
    epoch.conclude(Cohort(view.id, list(MEMBERS), ["b#1", "c#1"], [3, 0, 0], ["b#1"] * 3, [[3, 0, 0], [0, 0, 0]]), 3)
    assert [payload for one in upcalls if isinstance(one, DeliveryBatch) for payload in one.payloads] == delivered
    assert epoch.broken == ["a#1"]
