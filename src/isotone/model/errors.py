"""The errors of the library, one tree: whose fault it is decides what happens next.

`LocalProtocolError` is the caller's fault and is raised to it; `RemoteProtocolError` is a peer's: the peer is dropped and
the group lives. `InvariantViolation` is ours: it is never caught, and `-O` does not strip the checks that raise it.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class GroupError(Exception):
    """Base of every error that a user of the library may want to catch."""


class ConfigError(GroupError):
    """A setting, an option or a scenario key is wrong; the text says what would be right."""


class LocalProtocolError(GroupError):
    """The caller asked for something that the protocol does not allow now."""


class RemoteProtocolError(GroupError):
    """A peer sent something that it must not send; it is dropped, the group goes on."""


class Overloaded(GroupError):
    """Something outruns a bound: the application does not take its events, or hands in more than it may."""


class Blocked(GroupError):
    """Primary membership: this process is not with a majority of its view and may not go on until it is."""


class Closed(GroupError):
    """This process is no longer in the group; the text says why."""


class NotSwitched(GroupError):
    """The group goes on ordering its messages as before; the text says why."""


class TraceFormatError(GroupError):
    """A trace cannot be read or written."""


class InvariantViolation(BaseException):
    """A fact that the protocol rests on is false: a bug in this library. Not a `GroupError`, so that nothing swallows it."""


def require(fact: bool, text: str) -> None:
    """Raise `InvariantViolation` unless `fact` holds."""
    if not fact:
        raise InvariantViolation(text)


def unknown(what: str, given: str, valid: Iterable[str]) -> ConfigError:
    """An error for an unknown name that offers the nearest valid one."""
    names = sorted(valid)
    near = difflib.get_close_matches(given, names, n=1, cutoff=0.4)
    hint = f"did you mean {near[0]!r}? " if near else ""
    return ConfigError(f"unknown {what} {given!r}: {hint}valid are {', '.join(names)}")
