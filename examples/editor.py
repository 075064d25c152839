"""A shared document that several processes edit at once: only operations that conflict are kept in one order (paper 002, §3.2).

    python examples/editor.py [--processes 3] [--edits 200]

starts processes on loopback that edit and scroll concurrently, and shows that their replicas are equal in the end although
they delivered messages in different orders. One process alone, to be started several times by hand:

    python examples/editor.py --name a --listen 127.0.0.1:7201 --seeds 127.0.0.1:7201 127.0.0.1:7202 --processes 2
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import random
import socket
import subprocess
import sys

import isotone

CONFLICTS = isotone.Conflicts.by_both(
    {"insert": ["insert", "update", "delete"], "update": ["update", "delete"], "delete": ["delete"]},
    always={"scroll": ["scroll"]},
)
"""Operations on one object conflict; scrolling, which is about the window, conflicts with scrolling only."""
NAMES = "abcdefghijklmnopqrstuvwxyz"
OBJECTS = [f"object-{number}" for number in range(20)]


class Document:
    """One replica: a set of objects, and a window on it."""

    def __init__(self) -> None:
        self.objects: dict[str, str] = {}
        self.line = 0

    def apply(self, operation: str, name: str, text: str) -> None:
        """Carry out what was delivered."""
        if operation == "insert":
            self.objects.setdefault(name, text)
        elif operation == "update" and name in self.objects:
            self.objects[name] = text
        elif operation == "delete":
            self.objects.pop(name, None)
        elif operation == "scroll":
            self.line = int(text)


async def edit(group: isotone.Group, name: str, edits: int) -> None:
    """Operations at random, as fast as the group takes them, with small pauses."""
    source = random.Random(name)
    for number in range(edits):
        operation = source.choice(["insert", "update", "update", "delete", "scroll"])
        chosen = source.choice(OBJECTS)
        text = str(number) if operation == "scroll" else f"{name} {number}"
        items = [] if operation == "scroll" else [chosen]
        await group.send(json.dumps([operation, chosen, text]).encode(), type=operation, items=items)
        if number % 5 == 4:
            await asyncio.sleep(source.random() * 0.005)


async def follow(group: isotone.Group, processes: int, edits: int, begin: asyncio.Event) -> tuple[Document, int]:
    """Apply everything that all processes send; also counts deliveries that others, later in the total order, have passed."""
    document = Document()
    left, passed = processes * edits, 0
    furthest: tuple[isotone.ViewId, tuple[int, ...]] | None = None
    async for event in group:
        match event:
            case isotone.ViewInstalled() if len(event.view) >= processes:
                begin.set()
            case isotone.Delivery():
                document.apply(*json.loads(event.payload))
                if event.position is not None:
                    place = (event.view.id, event.position)
                    passed += furthest is not None and place < furthest
                    furthest = place if furthest is None else max(furthest, place)
                left -= 1
                if not left:
                    break
    return document, passed


async def take_part(given: argparse.Namespace) -> None:
    """One process; its last line of output is its replica."""
    async with isotone.join(
        "editor", name=given.name, listen=given.listen, seeds=given.seeds, order="semantic_total", conflicts=CONFLICTS
    ) as group:
        begin = asyncio.Event()
        following = asyncio.ensure_future(follow(group, given.processes, given.edits, begin))
        await begin.wait()
        await edit(group, given.name, given.edits)
        document, passed = await following
    print(json.dumps({"objects": document.objects, "line": document.line, "passed": passed}, sort_keys=True), flush=True)


def free_addresses(count: int) -> list[str]:
    """Addresses on loopback where nobody listens now."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [f"127.0.0.1:{one.getsockname()[1]}" for one in sockets]


def show(given: argparse.Namespace) -> int:
    """Start all processes, and compare their replicas."""
    addresses = free_addresses(given.processes)
    sizes = ["--processes", str(given.processes), "--edits", str(given.edits)]
    children: list[subprocess.Popen[str]] = []
    try:
        for name, address in zip(NAMES, addresses, strict=False):
            command = [sys.executable, __file__, "--name", name, "--listen", address, *sizes, "--seeds", *addresses]
            # In a session of its own: Ctrl-C is for this process, which ends the others.
            children.append(subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True))
        print(f"{len(children)} processes, {given.edits} edits each", flush=True)
        last = [child.communicate()[0].splitlines()[-1:] for child in children]
    except KeyboardInterrupt:
        return 1
    finally:
        for child in children:
            child.terminate()
            child.wait()
    if not all(last):
        return 1  # who has no last line has said why
    replicas = [json.loads(line) for [line] in last]
    for name, replica in zip(NAMES, replicas, strict=False):
        print(f"{name}: {len(replica['objects'])} objects, line {replica['line']}; {replica['passed']} messages were passed")
    equal = all(one["objects"] == replicas[0]["objects"] and one["line"] == replicas[0]["line"] for one in replicas)
    print("all replicas are equal" if equal else "REPLICAS DIFFER")
    return 0 if equal else 1


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description="A shared document, edited by several processes.")
    parser.add_argument("--processes", type=int, default=3)
    parser.add_argument("--edits", type=int, default=200)
    parser.add_argument("--name", help="take part as one process")
    parser.add_argument("--listen", default="127.0.0.1:0")
    parser.add_argument("--seeds", nargs="*", default=[])
    given = parser.parse_args()
    if not 1 <= given.processes <= 26 or given.edits < 1:
        parser.error("from 1 to 26 processes, and at least one edit")
    if given.name is None:
        return show(given)
    try:
        isotone.run(take_part(given))
    except KeyboardInterrupt:  # the group was left on the way out
        return 1
    except isotone.GroupError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
