"""`isotone node`: one process of a group on the terminal. Lines from standard input are sent, deliveries are printed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    import asyncio

    from isotone.runtime.group import Group


def node(
    name: Annotated[str, typer.Option(help="The process's name in the group.")],
    group: Annotated[str, typer.Option(help="The group's name.")] = "default",
    listen: Annotated[str, typer.Option(help="HOST:PORT to listen on; port 0 takes a free one.")] = "127.0.0.1:0",
    seed: Annotated[list[str] | None, typer.Option(help="HOST:PORT of a process that may be in the group; repeatable.")] = None,
    order: Annotated[str, typer.Option(help="fifo, causal, sequencer or single_phase.")] = "single_phase",
    level: Annotated[str, typer.Option(help="agreed or safe.")] = "agreed",
    trace: Annotated[Path | None, typer.Option(help="Directory for the trace.")] = None,
) -> int:
    """Take part in a group: each line of standard input is a message; ends with Ctrl-C or SIGTERM by leaving."""
    import logging

    import isotone
    from isotone.model.errors import unknown
    from isotone.model.view import LEVELS

    if level not in LEVELS:
        raise unknown("level", level, LEVELS)
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(message)s")
    return isotone.run(_run(isotone.join(
        group, name=name, listen=listen, seeds=seed or [], order=order, level=level, trace=trace,
    )))  # fmt: skip


async def _run(joining: Group) -> int:
    import asyncio
    import contextlib
    import signal
    import sys

    from isotone.model.events import ReturnedBatch, ViewInstalled
    from isotone.runtime.events import Delivery, Returned

    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    entering = asyncio.ensure_future(joining.start())
    stopping = asyncio.ensure_future(stop.wait())
    await asyncio.wait((entering, stopping), return_when=asyncio.FIRST_COMPLETED)
    if not entering.done():
        entering.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await entering
        return 0
    group = await entering
    print(f"# {group.process} at {group.address}", flush=True)

    async def show() -> None:
        async for event in group:
            if isinstance(event, Delivery):
                print(f"{event.origin} {event.number} {event.payload.decode(errors='backslashreplace')}", flush=True)
            elif isinstance(event, ViewInstalled):
                print(f"# view {event.view.id}: {' '.join(event.view.members)}", flush=True)
            elif isinstance(event, Returned | ReturnedBatch):
                print(f"# returned: {event}", flush=True)

    showing = asyncio.ensure_future(show())
    sending = asyncio.ensure_future(_send_lines(group, await _lines(loop, sys.stdin)))
    await asyncio.wait((showing, stopping), return_when=asyncio.FIRST_COMPLETED)
    sending.cancel()
    if not showing.done():
        await group.leave()
    await showing
    return 0


async def _lines(loop: asyncio.AbstractEventLoop, source: object) -> asyncio.StreamReader:
    import asyncio

    reader = asyncio.StreamReader(limit=2**24)
    try:
        await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), source)
    except (ValueError, OSError):
        reader.feed_eof()  # a closed or odd standard input: nothing to send
    return reader


async def _send_lines(group: Group, reader: asyncio.StreamReader) -> None:
    while line := await reader.readline():
        await group.send(line.rstrip(b"\n"))
