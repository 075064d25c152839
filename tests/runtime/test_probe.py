"""Asking a process who it is."""

from __future__ import annotations

import asyncio

import pytest

import isotone
from isotone.model.errors import ConfigError, RemoteProtocolError
from isotone.runtime.probe import probe
from tests.runtime.helpers import run

pytestmark = pytest.mark.live


def test_a_member_says_who_it_is() -> None:
    async def main() -> None:
        async with isotone.join("test", name="a") as group:
            hello = await probe(group.address)
            assert (hello.group, hello.process, hello.address) == ("test", group.process, group.address)

    run(main())


@pytest.mark.parametrize(("answer", "error"), [(b"HTTP/1.1 400\r\n", "does not speak"), (b"", "without a word")])
def test_somebody_else_answers(answer: bytes, error: str) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(answer)
        writer.close()

    async def main() -> None:
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        with pytest.raises(RemoteProtocolError, match=error):
            await probe(f"127.0.0.1:{server.sockets[0].getsockname()[1]}")
        server.close()

    run(main())


def test_nobody_answers() -> None:
    with pytest.raises(ConfigError, match=r"cannot reach 127.0.0.1:1"):
        run(probe("127.0.0.1:1"))

    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    async def main() -> None:
        server = await asyncio.start_server(silent, "127.0.0.1", 0)
        with pytest.raises(ConfigError, match="no answer"):
            await probe(f"127.0.0.1:{server.sockets[0].getsockname()[1]}", timeout=0.1)
        server.close()

    run(main())
