"""One member process of the benchmark: `python -m isotone.runtime.bench_member`, driven by JSON lines on its pipes.

Each line on standard input is one order from `isotone.runtime.bench`, each line on standard output its answer. The process is
at once a member of a group and of a raw mesh, so that both are measured in the same processes, in turn.
"""

from __future__ import annotations

import asyncio
import os
import random
import resource
import sys
import time
from collections.abc import Iterator
from itertools import cycle
from typing import Any
from zlib import crc32

import msgspec

from isotone.model.conflicts import conflicts_from
from isotone.model.events import DeliveryBatch
from isotone.model.settings import Limits
from isotone.runtime.bench_mesh import PACK_BYTES, Mesh, pack, split
from isotone.runtime.events import Delivery
from isotone.runtime.group import Group, join
from isotone.runtime.loop import run

_LISTS = 8
_CONTENT_EVERY = 32
"""Of one batch in so many the whole content is hashed, of the others who sent it, its numbers, and its ends."""
_EVENT_EVERY = 64


def resident_bytes() -> int:
    """Memory that this process occupies."""
    with open("/proc/self/statm", "rb") as file:
        return int(file.read().split()[1]) * resource.getpagesize()


def messages_of(rank: int, size: int) -> list[list[bytes]]:
    """A few packs of messages of different lengths, `size` on average, about 64 KiB each."""
    source = random.Random(rank)
    data = source.randbytes(4 * size + 4096)
    lists: list[list[bytes]] = []
    for _ in range(_LISTS):
        messages: list[bytes] = []
        left = PACK_BYTES
        while True:
            length = max(8, source.randint(size // 2, size + size // 2))
            if left < length + 4 and messages:
                break
            left -= length + 4
            begin = source.randrange(len(data) - length) if len(data) > length else 0
            messages.append(data[begin : begin + length])
        lists.append(messages)
    return lists


def chunks(lists: list[list[bytes]], quota: int) -> Iterator[list[bytes]]:
    """`quota` messages, list by list."""
    for messages in cycle(lists):
        if quota <= len(messages):
            yield messages[:quota]
            return
        quota -= len(messages)
        yield messages


Types = list[str] | None
Items = list[list[str]] | None


class Mix:
    """What messages say of themselves: a share of them conflicts, the others commute. Types and items, of which each has one."""

    def __init__(self, share: float, conflicting: list[list[str]], commuting: list[list[str]]) -> None:
        self._share = share
        self._kinds = {True: conflicting, False: commuting}

    def draw(self, source: random.Random, count: int) -> tuple[list[bool], Types, Items]:
        """Which of so many messages are to conflict, their types, and their items."""
        chosen = [source.random() < self._share for _ in range(count)]
        types, items = (
            [source.choice(self._kinds[one][part]) for one in chosen] if self._kinds[True][part] else None for part in (0, 1)
        )
        return chosen, list(types) if types else None, [[item] for item in items] if items else None


class _MeshRound:
    """One round of throughput over the mesh; takes messages from the moment it is made."""

    def __init__(self, mesh: Mesh, lists: list[list[bytes]], quota: int, total: int) -> None:
        self._mesh = mesh
        self._lists = lists
        self._quota = quota
        self._left = total
        self._done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        mesh.deliver = self._deliver

    def _deliver(self, messages: list[bytes]) -> None:
        self._left -= len(messages)
        if self._left <= 0 and not self._done.done():
            self._done.set_result(None)

    async def run(self) -> int:
        for messages in chunks(self._lists, self._quota):
            data = pack(messages)
            self._mesh.write(data)
            self._deliver(split(data[4:]))  # everybody's packs are split, its own too
            await self._mesh.drain()
        await self._done
        return 0


class Member:
    """The orders, one method each."""

    def __init__(self, group: Group, mesh: Mesh, rank: int) -> None:
        self._group = group
        self._mesh = mesh
        self._rank = rank
        self._lists: dict[int, list[list[bytes]]] = {}

    def _messages(self, size: int) -> list[list[bytes]]:
        if size not in self._lists:
            self._lists[size] = messages_of(self._rank, size)
        return self._lists[size]

    async def view(self, members: int) -> dict[str, Any]:
        """Wait for a view of so many members."""
        while self._group.view is None or len(self._group.view) != members:
            await asyncio.sleep(0.01)
        return {}

    async def peers(self, ports: list[int]) -> dict[str, Any]:
        """Complete the mesh."""
        await self._mesh.connect(ports, self._rank)
        return {}

    async def throughput(
        self, via: str, size: int, quota: int, members: int, start: float, mix: dict[str, Any] | None = None
    ) -> dict[str, Any]:
        """Send `quota` messages as fast as possible and take those of all members."""
        lists, total = self._messages(size), quota * members
        source = random.Random(self._rank)
        described = [Mix(**mix).draw(source, len(messages))[1:] if mix else (None, None) for messages in lists]
        mesh_round = _MeshRound(self._mesh, lists, quota, total) if via == "mesh" else None
        await asyncio.sleep(max(0.0, start - time.monotonic()))
        cpu = time.process_time()
        if mesh_round is not None:
            digest = await mesh_round.run()
        else:
            take = {"batches": self._take_batches, "events": self._take_events, "exact": self._take_exactly}[via]
            taking = asyncio.get_running_loop().create_task(take(total))
            for messages, (types, items) in zip(chunks(lists, quota), cycle(described), strict=False):
                count = len(messages)
                await self._group.send_many(messages, types=types and types[:count], items=items and items[:count])
            digest = await taking
        end = time.monotonic()
        return {"end": end, "cpu": time.process_time() - cpu, "digest": digest}

    async def _take_batches(self, total: int) -> int:
        digest = seen = batches = 0
        async for batch in self._group.batches():
            if isinstance(batch, DeliveryBatch):
                payloads = batch.payloads
                batches += 1
                seen += len(payloads)
                if batches % _CONTENT_EVERY:
                    ends = payloads[0][:8], payloads[-1][-8:]
                    digest = hash((digest, batch.origin, batch.first, len(payloads), ends))
                else:
                    digest = crc32(b"".join(payloads), digest & 0xFFFFFFFF)
                if seen >= total:
                    break
        return digest

    async def _take_events(self, total: int) -> int:
        inbox = self._group._running().inbox
        digest = seen = 0
        began, mark = inbox.others, min(_EVENT_EVERY, total)
        look = mark
        async for event in self._group:
            seen += 1
            if seen == look:
                messages = seen - (inbox.others - began)  # views and the like are no messages
                if messages == mark and isinstance(event, Delivery):
                    digest = hash((digest, event.origin, event.number, event.payload[:8]))
                    if messages == total:
                        break
                    mark = min(mark + _EVENT_EVERY, total)
                look = seen + mark - messages
        return digest

    async def _take_exactly(self, total: int) -> int:
        """Hash every message: who sent it, its number, its content."""
        digest = seen = 0
        async for event in self._group:
            if isinstance(event, Delivery):
                digest = crc32(b"%d %s" % (event.number, event.origin.encode()), crc32(event.payload, digest))
                seen += 1
                if seen == total:
                    break
        return digest

    async def latency(
        self,
        via: str,
        size: int,
        rate: float,
        count: int,
        members: int,
        senders: int,
        start: float,
        mix: dict[str, Any] | None = None,
        seed: int | None = None,
    ) -> dict[str, Any]:
        """Send `count` messages, `rate` per second, if among the last `senders`, and note when those of all of them arrive.

        `conflicting` says of each whether it was of the share of the mix that conflicts. With the same `seed` the same is sent at
        the same times.
        """
        sends = self._rank >= members - senders
        total = count * (senders - 1 if via == "mesh" and sends else senders)
        filler = bytes(max(0, size - 9))
        late: list[int] = []
        marks: list[bool] = []
        loop = asyncio.get_running_loop()
        if via == "mesh":
            taking: asyncio.Future[None] | asyncio.Task[None] = loop.create_future()

            def deliver(messages: list[bytes]) -> None:
                now = time.monotonic_ns()
                late.extend(now - int.from_bytes(message[:8], "big") for message in messages)
                if len(late) >= total and not taking.done():
                    taking.set_result(None)

            self._mesh.deliver = deliver
        else:
            taking = loop.create_task(self._note(late, marks, total))
        interval = 1.0 / rate
        drawn = Mix(**mix) if mix else None
        source = random.Random(None if seed is None else f"{seed} {self._rank}")
        for number in range(count if sends else 0):
            chosen, types, items = drawn.draw(source, 1) if drawn else ([False], None, None)
            await asyncio.sleep(max(0.0, start + (number + source.random()) * interval - time.monotonic()))
            message = time.monotonic_ns().to_bytes(8, "big") + bytes(chosen) + filler
            if via == "mesh":
                self._mesh.write(pack([message]))
            else:
                await self._group.send(message, type=types[0] if types else None, items=items[0] if items else None)
        await taking
        return {"latencies": late, "conflicting": marks}

    async def _note(self, late: list[int], marks: list[bool], total: int) -> None:
        async for event in self._group:
            if isinstance(event, Delivery):
                late.append(time.monotonic_ns() - int.from_bytes(event.payload[:8], "big"))
                marks.append(event.payload[8] == 1)
                if len(late) >= total:
                    return

    async def soak(self, size: int, seconds: float, slow: bool, pause: float) -> dict[str, Any]:
        """Send without end and take everything, slowly if `slow`; reports memory once per second."""
        stop = time.monotonic() + seconds
        counts = {"sent": 0, "taken": 0}
        memory: list[int] = []

        async def produce() -> None:
            for messages in cycle(self._messages(size)):
                if time.monotonic() > stop:
                    return
                await self._group.send_many(messages)
                counts["sent"] += len(messages)

        async def consume() -> None:
            async for batch in self._group.batches():
                if isinstance(batch, DeliveryBatch):
                    counts["taken"] += len(batch.payloads)
                    if slow:
                        await asyncio.sleep(pause)

        tasks = [asyncio.get_running_loop().create_task(consume())]
        if not slow:
            tasks.append(asyncio.get_running_loop().create_task(produce()))
        while time.monotonic() < stop:
            await asyncio.sleep(1.0)
            memory.append(resident_bytes())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        view = self._group.view
        return {**counts, "memory": memory, "members": len(view) if view is not None else 0}


async def _serve(settings: dict[str, Any]) -> None:
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=1 << 24)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    mesh = Mesh()
    port = await mesh.listen()
    joining = join(
        "bench",
        name=f"m{settings['rank']}",
        seeds=settings["seeds"],
        order=settings["order"],
        level=settings["level"],
        k=settings["k"],
        options=settings["options"],
        conflicts=conflicts_from(settings["conflicts"]) if settings.get("conflicts") else None,
        limits=Limits(**settings["limits"]),
        trace=settings["trace"],
        timeout=60,
    )
    async with joining as group:
        member = Member(group, mesh, settings["rank"])
        _answer({"address": group.address, "port": port})
        while line := await reader.readline():
            order: dict[str, Any] = msgspec.json.decode(line)
            what = order.pop("do")
            if what == "end":
                break
            _answer(await getattr(member, what)(**order))
    mesh.close()
    _answer({})


def _answer(answer: dict[str, Any]) -> None:
    data = msgspec.json.encode(answer) + b"\n"
    while data:
        data = data[os.write(1, data) :]


if __name__ == "__main__":
    run(_serve(msgspec.json.decode(sys.argv[1])))
