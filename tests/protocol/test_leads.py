"""Leads of members that send many shapes."""

from isotone.model.conflicts import Conflicts
from isotone.protocol.semantic.leads import Leader, Numbers
from isotone.protocol.semantic.shapes import Shapes


def test_a_shape_that_appeared_long_ago_is_not_promised_though_it_is_still_sent() -> None:
    shapes, numbers = Shapes(Conflicts.by_item()), Numbers()
    leader = Leader(shapes, patience=3)
    kept = []

    def send(item: str) -> None:
        shape = shapes.of(1, None, [(item,)])
        kept.append(shape)
        leader.stamp(shape, 1)
        numbers.see(shape)

    send("favourite")
    for number in range(255):
        send(f"item {number}")
        send("favourite")
    send("one more than is remembered")
    other = shapes.of(1, None, [("of another",)])
    assert not leader.covers(other, 1)
    told = leader.announce(1, numbers)
    assert told is not None
    named = {numbers.shape(number) for number in told[1:]}
    assert named == leader.lead.shapes
    assert shapes.of(1, None, [("favourite",)]) not in named
    assert named <= set(kept[-40:])
