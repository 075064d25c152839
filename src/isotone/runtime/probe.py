"""Asking a live process how it is, or to let its group switch the order: the side of whoever asks.

Every failure is one error with one line: `ConfigError` (nobody answers, or the question is wrong), `RemoteProtocolError` (who
answers is no process of such a group, or does not take such questions), `NotSwitched` (the group goes on as before),
`TimeoutError` (the answer did not come in time; what was asked for may still come about).
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from typing import Any

from isotone.codec import (
    ANSWER_BYTES,
    HELLO_BYTES,
    WIRE_VERSION,
    Answer,
    Bye,
    Declined,
    Hello,
    Probe,
    Refused,
    StatusTold,
    StatusWanted,
    SwitchTold,
    SwitchWanted,
    decode_answer,
    decode_hello,
    encode_probe,
    frame,
)
from isotone.codec.frames import HEADER_BYTES, check_body, open_header
from isotone.model.errors import ConfigError, NotSwitched, RemoteProtocolError
from isotone.runtime.addresses import parse_address

STATUS_S = 3.0
SWITCH_S = 30.0


async def status(address: str, *, group: str | None = None, timeout: float = STATUS_S) -> dict[str, Any]:
    """The status of the process at `address`, as its `group.status()` gives it. With `group`, only if it is of that group."""
    answer = await _ask(address, StatusWanted(), group, timeout)
    if not isinstance(answer, StatusTold):
        raise RemoteProtocolError(f"{address} answers another question")
    return answer.status


async def switch(
    address: str,
    order: str,
    *,
    level: str | None = None,
    k: int | None = None,
    options: Mapping[str, int | str | bool] | None = None,
    strategy: str | None = None,
    rule: str = "all",
    fresh: bool = False,
    group: str | None = None,
    timeout: float = SWITCH_S,
) -> SwitchTold:
    """Let the group of the process at `address` order its messages in another way; returns when that is in force there.

    The settings are those of `Group.switch`. The process must have joined with `control=True`.
    """
    wanted = SwitchWanted(order, level, k, dict(options or {}), strategy, rule, fresh)
    answer = await _ask(address, wanted, group, timeout)
    if not isinstance(answer, SwitchTold):
        raise RemoteProtocolError(f"{address} answers another question")
    return answer


async def _ask(address: str, wanted: StatusWanted | SwitchWanted, group: str | None, timeout: float) -> StatusTold | SwitchTold:
    host, port = parse_address(address)
    asked = False
    try:
        async with asyncio.timeout(timeout):
            reader, writer = await _connect(address, host, port)
            try:
                hello = await _greeting(address, reader)
                question = encode_probe(Probe(WIRE_VERSION, group if group is not None else hello.group, wanted))
                if len(question) > HELLO_BYTES:
                    raise ConfigError(f"the question has {len(question)} bytes: at most {HELLO_BYTES} are read")
                writer.write(frame(question))
                asked = True
                answer = await _answer(address, reader)
            finally:
                writer.close()
    except TimeoutError:
        if asked:
            raise TimeoutError(f"no answer from {address} within {timeout:g} s") from None
        raise ConfigError(f"no answer from {address} within {timeout:g} s") from None
    except (asyncio.IncompleteReadError, OSError):
        raise RemoteProtocolError(f"{address} closed the connection without a word") from None
    if not isinstance(answer, Declined):
        return answer
    if answer.why == "input":
        raise ConfigError(answer.reason)
    if answer.why == "refused":
        raise NotSwitched(answer.reason)
    if answer.why == "unknown":
        raise TimeoutError(f"{address}: {answer.reason}")
    raise Refused(f"{address}: {answer.reason}")


async def _connect(address: str, host: str, port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    try:
        return await asyncio.open_connection(host, port)
    except OSError as error:
        plain = os.strerror(error.errno) if error.errno is not None and error.errno > 0 else error.strerror or error
        raise ConfigError(f"cannot reach {address}: {plain}") from None


async def _greeting(address: str, reader: asyncio.StreamReader) -> Hello:
    try:
        hello = decode_hello(await _body(reader, HELLO_BYTES))
    except Refused as error:
        raise Refused(f"{address}: {error}") from None
    except RemoteProtocolError as error:
        raise RemoteProtocolError(f"{address} is no port of an Isotone process: {error}") from None
    if isinstance(hello, Bye):
        raise Refused(f"{address} refuses: {hello.reason}")
    if not isinstance(hello, Hello):
        raise RemoteProtocolError(f"{address} is no port of an Isotone process")
    return hello


async def _answer(address: str, reader: asyncio.StreamReader) -> Answer:
    try:
        answer = decode_answer(await _body(reader, ANSWER_BYTES))
    except RemoteProtocolError as error:
        raise RemoteProtocolError(f"{address}: {error}") from None
    if isinstance(answer, Bye):
        raise Refused(f"{address} refuses: {answer.reason}")
    return answer


async def _body(reader: asyncio.StreamReader, limit: int) -> bytes:
    length, crc = open_header(await reader.readexactly(HEADER_BYTES), 0, limit)
    body = await reader.readexactly(length)
    check_body(body, crc)
    return body
