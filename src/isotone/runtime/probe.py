"""Asking a process who it is: it says `Hello` first to whoever connects, so listening is enough."""

from __future__ import annotations

import asyncio

from isotone.codec import HELLO_BYTES, Bye, Hello, decode_hello
from isotone.codec.frames import HEADER_BYTES
from isotone.model.errors import ConfigError, RemoteProtocolError
from isotone.runtime.addresses import parse_address


async def probe(address: str, timeout: float = 3.0) -> Hello:
    """The handshake of the process at `address`: its group, id, address, version and limits.

    Raises `ConfigError` if nobody answers and `RemoteProtocolError` if who answers speaks something else.
    """
    host, port = parse_address(address)
    try:
        async with asyncio.timeout(timeout):
            reader, writer = await asyncio.open_connection(host, port)
            try:
                length = int.from_bytes(await reader.readexactly(HEADER_BYTES), "big")
                if not 0 < length <= HELLO_BYTES:
                    raise RemoteProtocolError(f"{address} does not speak this protocol")
                hello = decode_hello(await reader.readexactly(length))
            finally:
                writer.close()
    except TimeoutError:
        raise ConfigError(f"no answer from {address} within {timeout:g} s") from None
    except asyncio.IncompleteReadError:
        raise RemoteProtocolError(f"{address} closed the connection without a word") from None
    except OSError as error:
        raise ConfigError(f"cannot reach {address}: {error.strerror or error}") from None
    if isinstance(hello, Bye):
        raise RemoteProtocolError(f"{address} refuses: {hello.reason}")
    return hello
