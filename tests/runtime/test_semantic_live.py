"""`semantic_fifo` and `semantic_causal` over real connections that lose packets: what commutes does not wait for them."""

from __future__ import annotations

import asyncio
from random import Random

import pytest

import isotone
from isotone.model.conflicts import Conflicts
from isotone.model.records import Packet
from isotone.protocol.endpoint import Endpoint
from tests.runtime.helpers import members, run, take

pytestmark = pytest.mark.live
EACH = 120
ITEMS = 12


@pytest.mark.parametrize("order", ["semantic_fifo", "semantic_causal"])
def test_messages_on_one_item_keep_their_order_and_others_pass(order: str, monkeypatch: pytest.MonkeyPatch) -> None:
    receive, dice = Endpoint.receive, Random(5)

    def lossy(self: Endpoint, peer: str, packet: Packet, now: int) -> None:
        if not packet.records or dice.random() > 0.1:
            receive(self, peer, packet, now)

    async def main() -> None:
        async with members("a", "b", "c", order=order, conflicts=Conflicts.by_item()) as groups:
            monkeypatch.setattr(Endpoint, "receive", lossy)

            async def send(group: isotone.Group) -> None:
                for number in range(EACH):
                    await group.send(b"%d" % number, items=[f"x{number % ITEMS}"])
                    await asyncio.sleep(0.002)

            *_, one, two, three = await asyncio.gather(*map(send, groups), *(take(group, 3 * EACH) for group in groups))
            passed = 0
            for deliveries in (one, two, three):
                for group in groups:
                    numbers = [int(d.payload) for d in deliveries if d.origin == group.process]
                    assert sorted(numbers) == list(range(EACH))
                    for item in range(ITEMS):
                        own = [number for number in numbers if number % ITEMS == item]
                        assert own == sorted(own)
                    passed += numbers != sorted(numbers)
            assert passed
            assert sum(group.status()["counters"].get("casts_early", 0) for group in groups)  # type: ignore[attr-defined]

    run(main())
