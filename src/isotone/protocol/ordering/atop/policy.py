"""The adaptation policy (AP, paper 000 §4.1): what the mechanism tells it, and what it may answer; policies by name.

A policy lives for one view at one member. It hears of every batch of application messages that reaches this member, own ones too
(dummies and skips are no traffic), and may answer at the end of a turn with weights, which the mechanism makes a
distribution of and injects. Safety never depends on it: any member may inject anything at any time. To write one,
derive from `Policy`, and register the class under its name in every process of the group.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar, Final, NamedTuple

from isotone.model.errors import ConfigError, RemoteProtocolError
from isotone.model.ids import ProcessId
from isotone.protocol.named import Named


class Group(NamedTuple):
    """Where a policy finds itself, with the options of the view, and how it talks to its likes at other members."""

    members: tuple[ProcessId, ...]
    rank: int
    window: int
    epsilon: int
    threshold: int
    patterns: str
    tell: Callable[[list[int], int | None], None]
    """Send integers to the policy of the member of that rank, or of all others; they may not arrive when the view ends."""


class Policy:
    """Base of all policies; by itself it never adapts."""

    name: ClassVar[str]

    def __init__(self, group: Group) -> None:
        self.group = group
        self.count = len(group.members)
        self.current: tuple[int, ...] = (1,) * self.count

    @classmethod
    def check_patterns(cls, patterns: str) -> None:
        """Raise `ConfigError` unless the option `patterns` is one that this policy can use."""
        if patterns:
            raise ConfigError(f"policy {cls.name!r} has no patterns, got {patterns!r}")

    def observe(self, sender: int, batches: int, now: int) -> None:
        """Batches of messages of one member have come."""

    def propose(self, now: int) -> Sequence[int] | None:
        """The end of a turn with traffic: weights for all members, each at least 1, if the distribution should change."""
        return None

    def expects(self, now: int) -> int | None:
        """The rank that is likely to send next, if that can be told: the others give up their slots before its next one."""
        return None

    def adopted(self, weights: tuple[int, ...]) -> None:
        """This member sends by these weights now, whoever injected them."""
        self.current = weights

    def heard(self, sender: int, stamp: list[int], now: int) -> None:
        """What the policy of another member told."""
        raise RemoteProtocolError(f"policy {self.name} exchanges nothing, got {stamp[:4]} from rank {sender}")


POLICIES: Final = Named[Policy]("a policy", "value of option policy")
register_policy = POLICIES.register
find_policy = POLICIES.find
