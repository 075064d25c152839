"""A replicated dictionary that survives the restart of any of its processes, as long as one of them lives.

    python examples/dictionary.py --name a --listen 127.0.0.1:7101 --seeds 127.0.0.1:7101 127.0.0.1:7102
    python examples/dictionary.py --name b --listen 127.0.0.1:7102 --seeds 127.0.0.1:7101 127.0.0.1:7102

Commands on standard input, one per line: `set KEY VALUE`, `delete KEY`, `get KEY`, `all`. Writes go through the group's
total order, so all processes apply them in the same order; reads are local. A process that comes late, or comes back after a
crash, gets the dictionary from another one as of the beginning of its first view, and then every write since.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import sys
import threading

import isotone


class Dictionary:
    """The state: `snapshot` and `restore` are all that state transfer needs."""

    def __init__(self) -> None:
        self.entries: dict[str, str] = {}

    def snapshot(self) -> bytes:
        """Called between two events, at the beginning of a view with newcomers."""
        return json.dumps(self.entries).encode()

    def restore(self, data: bytes) -> None:
        """Called at a newcomer before the first delivery."""
        self.entries = json.loads(data)

    def apply(self, write: bytes) -> None:
        """The same writes in the same order everywhere."""
        key, value = json.loads(write)
        if value is None:
            self.entries.pop(key, None)
        else:
            self.entries[key] = value

    async def follow(self, group: isotone.Group) -> None:
        """Take the events of the group."""
        async for event in group:
            match event:
                case isotone.Delivery():
                    self.apply(event.payload)
                case isotone.ViewInstalled():
                    print(f"# members: {' '.join(event.view.members)}", flush=True)
                case isotone.StateRestored():
                    print(f"# {len(self.entries)} entries from {event.provider}", flush=True)
                case isotone.StateLost():
                    print(f"# the group's state was lost ({event.outcome}): {event.reason}", flush=True)


async def serve(group: isotone.Group, dictionary: Dictionary, lines: asyncio.Queue[str]) -> None:
    """Carry out commands until the input ends."""
    while line := await lines.get():
        match line.split():
            case ["set", key, value]:
                await group.send(json.dumps([key, value]).encode())
            case ["delete", key]:
                await group.send(json.dumps([key, None]).encode())
            case ["get", key]:
                print(dictionary.entries.get(key), flush=True)
            case ["all"]:
                print(json.dumps(dictionary.entries, sort_keys=True), flush=True)
            case _:
                print("# set KEY VALUE | delete KEY | get KEY | all", flush=True)


def read(loop: asyncio.AbstractEventLoop, lines: asyncio.Queue[str]) -> None:
    """Lines of standard input, and an empty one at its end.

    It reads the descriptor itself: a thread that waits in `sys.stdin` would disturb the end of the interpreter.
    """
    rest = b""
    with contextlib.suppress(RuntimeError):  # the loop has ended meanwhile
        while data := os.read(0, 65536):
            *whole, rest = (rest + data).split(b"\n")
            for line in whole:
                loop.call_soon_threadsafe(lines.put_nowait, line.decode().strip() or "help")
        loop.call_soon_threadsafe(lines.put_nowait, rest.decode().strip())
        loop.call_soon_threadsafe(lines.put_nowait, "")


async def main() -> None:
    """One process."""
    parser = argparse.ArgumentParser(description="A replicated dictionary.")
    parser.add_argument("--name", required=True)
    parser.add_argument("--listen", default="127.0.0.1:0")
    parser.add_argument("--seeds", nargs="*", default=[])
    given = parser.parse_args()
    dictionary = Dictionary()
    lines: asyncio.Queue[str] = asyncio.Queue()
    async with isotone.join("dictionary", name=given.name, listen=given.listen, seeds=given.seeds, state=dictionary) as group:
        print(f"# {group.process} at {group.address}", flush=True)
        following = asyncio.ensure_future(dictionary.follow(group))
        threading.Thread(target=read, args=(asyncio.get_running_loop(), lines), daemon=True).start()
        await serve(group, dictionary, lines)
        await group.leave()
        await following


if __name__ == "__main__":
    try:
        isotone.run(main())
    except KeyboardInterrupt:  # the group was left on the way out
        sys.exit(1)
    except isotone.GroupError as error:
        sys.exit(str(error))
