"""Puts the sends and deliveries of all processes into one order that respects happened-before.

A delivery comes after the send of its message. Where that is impossible, messages were delivered before they were sent, in a
circle; such deliveries are named in a list of their own and taken where they stand.
"""

from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from isotone.pipeline.oracle.history import History, Log

Events: TypeAlias = "list[tuple[Log, int]]"
Replayed: TypeAlias = "tuple[Events, Events]"


def replay(history: "History") -> Replayed:
    """Place all events; the second list holds deliveries (process, message) that come before the send of their message."""
    placed: Events = []
    premature: Events = []
    done = [not sent for sent in history.sent]  # a message whose send is not recorded holds nobody up
    waiting: dict[int, list[int]] = {}
    at = [0] * len(history.logs)
    ready = list(range(len(history.logs) - 1, -1, -1))
    index_of = {log.actor: index for index, log in enumerate(history.logs)}
    while True:
        while ready:
            index = ready.pop()
            log = history.logs[index]
            events = log.events
            here = at[index]
            while here < len(events):
                event = events[here]
                message = event >> 1
                if event & 1:
                    done[message] = True
                    ready.extend(waiting.pop(message, ()))
                elif not done[message]:
                    waiting.setdefault(message, []).append(index)
                    break
                placed.append((log, event))
                here += 1
            at[index] = here
        if not waiting:
            return placed, premature
        index = _on_a_cycle(history, at, waiting, index_of)
        log = history.logs[index]
        event = log.events[at[index]]
        waiting[event >> 1].remove(index)
        if not waiting[event >> 1]:
            del waiting[event >> 1]
        premature.append((log, event >> 1))
        placed.append((log, event))
        at[index] += 1
        ready.append(index)


def _on_a_cycle(history: "History", at: list[int], waiting: dict[int, list[int]], index_of: dict[int, int]) -> int:
    """A process among those that wait for each other in a circle."""
    index = next(iter(waiting.values()))[0]
    seen: set[int] = set()
    while index not in seen:
        seen.add(index)
        awaited = history.logs[index].events[at[index]] >> 1
        index = index_of[history.origin[awaited]]
    return index
