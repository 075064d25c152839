"""A process of `isotone demo`: sends at a steady rate, does what it is told on standard input, reports on standard output.

Commands, one per line: `block NAME …` (behave as if the network to these were cut), `unblock`, `quiet` (stop sending), `leave`.
Reports are JSON objects, one per line: the address, every view and switch, the number of deliveries now and then, the end.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import sys
import time

import isotone
from isotone.model.settings import MS, Timing
from isotone.runtime.group import Group

TIMING = Timing(
    heartbeat_ns=50 * MS, soft_ns=250 * MS, hard_ns=1_000 * MS, closed_ns=300 * MS, probe_ns=150 * MS, change_ns=600 * MS,
)  # fmt: skip


def report(**fields: object) -> None:
    print(json.dumps({"time": time.monotonic_ns(), **fields}), flush=True)


async def consume(group: Group) -> None:
    count = 0
    due = time.monotonic()
    async for event in group:
        if isinstance(event, isotone.Delivery):
            count += 1
        elif isinstance(event, isotone.ViewInstalled):
            view = event.view
            report(view=str(view.id), members=list(view.members), delivered=count)
        elif isinstance(event, isotone.Switched):
            report(switched=event.view.ordering.order)
        elif isinstance(event, isotone.Returned):
            report(returned=event.number)
        if time.monotonic() >= due:
            due = time.monotonic() + 0.2
            report(delivered=count)
    report(end=True, delivered=count)


async def send(group: Group, rate: float, quiet: asyncio.Event) -> None:
    number = 0
    beginning = time.monotonic()
    while not quiet.is_set():
        number += 1
        await group.send(f"{group.process} says {number}".encode())
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(quiet.wait(), max(0.0, beginning + number / rate - time.monotonic()))


async def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--name", required=True)
    parser.add_argument("--seed", action="append", default=[])
    parser.add_argument("--order", required=True)
    parser.add_argument("--rate", type=float, required=True)
    parser.add_argument("--trace", required=True)
    arguments = parser.parse_args()
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    joining = isotone.join(
        "demo", name=arguments.name, seeds=arguments.seed, order=arguments.order, timing=TIMING,
        trace=arguments.trace, trace_form="jsonl",  # survives a kill but for the last moments
        control=True,
    )  # fmt: skip
    async with joining as group:
        report(address=group.address, process=group.process)
        quiet = asyncio.Event()
        tasks = [asyncio.create_task(consume(group)), asyncio.create_task(send(group, arguments.rate, quiet))]
        while line := (await reader.readline()).decode().split():
            match line:
                case ["block", *names]:
                    group.block(names)
                case ["unblock"]:
                    group.unblock()
                case ["quiet"]:
                    quiet.set()
                case ["leave"]:
                    break
        quiet.set()
        await tasks[1]
        await group.leave()
        await tasks[0]


if __name__ == "__main__":
    isotone.run(main())
