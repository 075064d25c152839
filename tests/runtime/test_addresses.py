"""Addresses as people write them."""

import pytest

from isotone.model.errors import ConfigError
from isotone.runtime.addresses import format_address, parse_address, same_place


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [("127.0.0.1:7001", "127.0.0.1", 7001), ("db-1.local:80", "db-1.local", 80), ("[::1]:7001", "::1", 7001)],
)
def test_good(text: str, host: str, port: int) -> None:
    assert parse_address(text) == (host, port)
    assert format_address(host, port) == text


@pytest.mark.parametrize(
    "text",
    ["", "7001", ":7001", "host", "host:", "host:port", "host:70000", "host:0", "::1:7001", "[::1:7", "a b:1", "h:-1", "h:１"],
)
def test_bad(text: str) -> None:
    with pytest.raises(ConfigError, match="seed "):
        parse_address(text, "seed")


def test_port_zero_only_to_listen() -> None:
    assert parse_address("127.0.0.1:0", any_port=True) == ("127.0.0.1", 0)


def test_names_of_the_loopback_interface_are_equal() -> None:
    assert same_place("localhost:1", "127.0.0.1:1")
    assert same_place("[::1]:1", "localhost:1")
    assert same_place("Host:1", "host:1")
    assert not same_place("localhost:1", "localhost:2")
    assert not same_place("a:1", "b:1")
