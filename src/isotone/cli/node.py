"""`isotone node`: one process of a group on the terminal. Lines from standard input are sent, deliveries are printed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    import asyncio

    from isotone.runtime.group import Group

_LINES = 64


def node(
    name: Annotated[str, typer.Option(help="The process's name in the group.")],
    group: Annotated[str, typer.Option(help="The group's name.")] = "default",
    listen: Annotated[str, typer.Option(help="HOST:PORT to listen on; port 0 takes a free one.")] = "127.0.0.1:0",
    seed: Annotated[list[str] | None, typer.Option(help="HOST:PORT of a process that may be in the group; repeatable.")] = None,
    order: Annotated[str, typer.Option(help="The orderer; auto lets the group choose (docs/policy.md).")] = "single_phase",
    level: Annotated[str, typer.Option(help="agreed, k or safe.")] = "agreed",
    k: Annotated[int, typer.Option(help="For level k: how many members hold a message before it is delivered.")] = 1,
    membership: Annotated[str, typer.Option(help="partitionable, or primary: only a majority goes on.")] = "partitionable",
    founders: Annotated[str, typer.Option(help="For primary: the names that begin the group together, as a,b,c.")] = "",
    option: Annotated[list[str] | None, typer.Option(help="An option of the orderer, as name=value; repeatable.")] = None,
    conflicts: Annotated[Path | None, typer.Option(help="For semantic orders: the conflict relation, in TOML.")] = None,
    trace: Annotated[Path | None, typer.Option(help="Directory for the trace.")] = None,
    probes: Annotated[str, typer.Option(help="Who may ask for the status (isotone probe): local, all or none.")] = "local",
    control: Annotated[bool, typer.Option("--control", help="They may also make the group switch its order.")] = False,
) -> int:
    """Take part in a group: each line of standard input is a message; ends with Ctrl-C or SIGTERM by leaving."""
    import logging

    import isotone
    from isotone.model.conflicts import load_conflicts
    from isotone.model.errors import unknown
    from isotone.model.settings import MEMBERSHIPS
    from isotone.model.view import LEVELS
    from isotone.runtime.desk import PROBES
    from isotone.sim.scenario import parse_overrides

    if level not in LEVELS:
        raise unknown("level", level, LEVELS)
    if membership not in MEMBERSHIPS:
        raise unknown("membership", membership, MEMBERSHIPS)
    if probes not in PROBES:
        raise unknown("probes", probes, PROBES)
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(message)s")
    return isotone.run(_run(isotone.join(
        group, name=name, listen=listen, seeds=seed or [], order=order, level=level, k=k, trace=trace,
        options=parse_overrides(option or []), conflicts=load_conflicts(conflicts) if conflicts is not None else None,
        membership=membership, founders=[name for name in founders.split(",") if name],
        probes=probes, control=control,
    )))  # fmt: skip


async def _run(joining: Group) -> int:
    import asyncio
    import contextlib
    import signal
    import threading

    from isotone.model.events import Apart, Blockage, Expulsion, Switched, ViewInstalled
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
            elif isinstance(event, Switched):
                print(f"# switched from {event.before.order} to {event.view.ordering.order} ({event.strategy})", flush=True)
            elif isinstance(event, Blockage):
                print(f"# {event.reason}" if event.blocked else "# no longer blocked", flush=True)
            elif isinstance(event, Expulsion):
                print(f"# {event.reason}; joining again", flush=True)
            elif isinstance(event, Apart):
                print(f"# not merging with the component of {event.peer}: {event.reason}", flush=True)
            elif isinstance(event, Returned):
                print(f"# returned: {event}", flush=True)

    showing = asyncio.ensure_future(show())
    lines: asyncio.Queue[bytes] = asyncio.Queue(_LINES)
    threading.Thread(target=_read_lines, args=(loop, lines), daemon=True).start()
    sending = asyncio.ensure_future(_send_lines(group, lines))
    await asyncio.wait((showing, stopping), return_when=asyncio.FIRST_COMPLETED)
    sending.cancel()
    if not showing.done():
        await group.leave()
    await showing
    return 0


def _read_lines(loop: asyncio.AbstractEventLoop, lines: asyncio.Queue[bytes]) -> None:
    """Standard input may be a terminal, a pipe, a file, or nothing: a thread reads them all alike, a few lines ahead.

    It reads the descriptor itself: a thread that waits in a buffered file would abort the interpreter's shutdown.
    """
    import asyncio
    import contextlib
    import os

    rest = b""
    with contextlib.suppress(RuntimeError, OSError, asyncio.CancelledError):  # the loop or the input was closed
        while data := os.read(0, 65536):
            *whole, rest = (rest + data).split(b"\n")
            for line in whole:
                asyncio.run_coroutine_threadsafe(lines.put(line.rstrip(b"\r")), loop).result()
        if rest:
            asyncio.run_coroutine_threadsafe(lines.put(rest), loop).result()


async def _send_lines(group: Group, lines: asyncio.Queue[bytes]) -> None:
    import sys

    from isotone.model.errors import Blocked, LocalProtocolError

    while True:
        try:
            await group.send(await lines.get())
        except (Blocked, LocalProtocolError) as error:
            print(f"isotone: not sent: {error}", file=sys.stderr, flush=True)
