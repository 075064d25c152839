"""Addresses as people write them: `HOST:PORT`, an IPv6 host in brackets."""

from __future__ import annotations

from isotone.model.errors import ConfigError

_WILDCARDS = frozenset(("", "0.0.0.0", "::", "*"))
_LOOPBACK = frozenset(("localhost", "127.0.0.1", "::1"))


def parse_address(text: str, what: str = "address", *, any_port: bool = False) -> tuple[str, int]:
    """Host and port of `text`; `any_port` permits port 0 (pick one)."""
    host, colon, port = text.rpartition(":")
    wrong = ConfigError(f"{what} {text!r}: write HOST:PORT, for example 127.0.0.1:7001 or [::1]:7001")
    if not colon or not port.isascii() or not port.isdigit() or len(port) > 5:
        raise wrong
    if host.startswith("["):
        if not host.endswith("]") or ":" not in host:
            raise wrong
        host = host[1:-1]
    elif ":" in host:
        raise wrong
    if not host or not host.isprintable() or " " in host or len(host) > 253:
        raise wrong
    number = int(port)
    if number > 65535 or (number == 0 and not any_port):
        raise ConfigError(f"{what} {text!r}: the port must be between {0 if any_port else 1} and 65535")
    return host, number


def format_address(host: str, port: int) -> str:
    """The text of an address."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def is_wildcard(host: str) -> bool:
    """Whether listening on `host` means all interfaces, so that nobody can dial it as it stands."""
    return host in _WILDCARDS


def same_place(one: str, other: str) -> bool:
    """Whether two addresses are the same, all names of the loopback interface being equal."""
    (host, port), (other_host, other_port) = parse_address(one), parse_address(other)
    if port != other_port:
        return False
    return host.lower() == other_host.lower() or (host in _LOOPBACK and other_host in _LOOPBACK)
