"""Where a live process answers probes (`isotone probe`): people and programs that ask it something without being members.

A probe comes over the port that members use, with a handshake of its own. Invariants: it is never told to the endpoint, so
no view, link or detector knows of it; at most `PROBES_MAX` are here at a time, each with one question of a few kilobytes and
one answer; whatever goes wrong with one costs its own connection and nothing else. Who may ask is the application's choice
(`join(probes=…)`), and whether anybody may make the group switch is another one (`join(control=…)`), off unless it says so.
"""

from __future__ import annotations

import asyncio
import ipaddress
from collections.abc import Awaitable, Callable
from typing import Literal

from isotone.codec import Answer, Declined, Refused, StatusTold, StatusWanted, SwitchTold, SwitchWanted, encode_answer
from isotone.model.errors import ConfigError, GroupError
from isotone.runtime.connection import Connection
from isotone.runtime.logs import logger

Probes = Literal["none", "local", "all"]
PROBES: tuple[Probes, ...] = ("none", "local", "all")
PROBES_MAX = 16
SWITCH_S = 600.0
"""So long somebody may wait for a switch."""


class Desk:
    """Answers questions. `switch` is None where the application permits no control from outside."""

    def __init__(
        self,
        probes: Probes,
        status: Callable[[], dict[str, object]],
        switch: Callable[[SwitchWanted], Awaitable[SwitchTold]] | None,
    ) -> None:
        self._probes = probes
        self._status = status
        self._switch = switch
        self._tasks: dict[Connection, asyncio.Task[None]] = {}

    def take(self, connection: Connection, wanted: StatusWanted | SwitchWanted) -> None:
        """A question came; raises `Refused` if nobody may ask, or too many do."""
        if self._probes == "none" or (self._probes == "local" and not is_loopback(connection.host)):
            raise Refused(
                "this process answers no probes" if self._probes == "none"
                else 'this process answers probes of its own machine only, not of others: join(probes="all") lets them'
            )  # fmt: skip
        if len(self._tasks) >= PROBES_MAX:
            raise Refused(f"{PROBES_MAX} probes wait for an answer already")
        self._tasks[connection] = asyncio.get_running_loop().create_task(self._serve(connection, wanted))

    def lost(self, connection: Connection) -> None:
        """Whoever asked does not wait any more. A switch that was asked for is the group's matter, and goes on."""
        task = self._tasks.pop(connection, None)
        if task is not None:
            task.cancel()

    async def _serve(self, connection: Connection, wanted: StatusWanted | SwitchWanted) -> None:
        try:
            answer = await self._answer(wanted)
        except ConfigError as error:
            answer = Declined("input", str(error))
        except GroupError as error:
            answer = Declined("refused", str(error))
        except TimeoutError:
            answer = Declined("unknown", f"not in force after {SWITCH_S:g} s; it may still come")
        except Exception as error:
            logger.exception("a probe could not be answered")
            answer = Declined("refused", f"{type(error).__name__}: {error}")
        self._tasks.pop(connection, None)
        connection.answer(encode_answer(answer))

    async def _answer(self, wanted: StatusWanted | SwitchWanted) -> Answer:
        if isinstance(wanted, StatusWanted):
            return StatusTold(self._status())
        if self._switch is None:
            return Declined("closed", "this process is not controlled from outside: join(control=True), isotone node --control")
        async with asyncio.timeout(SWITCH_S):
            return await self._switch(wanted)


def is_loopback(host: str) -> bool:
    """Whether an address is of this machine's loopback interface."""
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return False
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return (mapped or address).is_loopback
