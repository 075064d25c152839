"""A witness: the smallest part of a history that shows a violation, in words and as data.

A witness names processes, messages and the edges between them, each with the process at which it holds and the reason. The
rows that belong to it (`sub_history`) are a history of their own, in which the same check is violated again: the rows
about its messages at its processes, the sends of those messages, and everything else that its processes recorded that is
not about a message (start, view, transitional, switch, stop …).

Where a check decides only if a kind of row or a column occurs at all, and the rows of the violation do not have it, the
witness names one more message that does: its last message, with no edge.

A witness with a text only stands with a verdict *unknown*; it says what is missing.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

MessageId: TypeAlias = tuple[str, int]
"""Origin and number; in words `a#1:3`."""
ViewId: TypeAlias = tuple[int, str]
Size: TypeAlias = tuple[int, int]
"""How many messages, how many processes: what makes a witness small, in this order."""
RowLike: TypeAlias = Mapping[str, Any]

ABOUT_A_MESSAGE = frozenset(("send", "receive", "deliver", "returned"))


def show_message(message: MessageId) -> str:
    return f"{message[0]}:{message[1]}"


@dataclass(frozen=True, slots=True)
class Edge:
    """One step of the argument: `source` comes before `target` (messages `a#1:3`, or events in words) at a process."""

    source: str
    target: str
    process: str
    why: str


@dataclass(frozen=True, slots=True)
class Witness:
    """Why a check is violated (or, with a text only, why it is unknown)."""

    text: str
    processes: tuple[str, ...] = ()
    messages: tuple[MessageId, ...] = ()
    edges: tuple[Edge, ...] = ()
    views: tuple[ViewId, ...] = ()
    run: str | None = None
    """The run it is about, if the trace holds several."""

    def __str__(self) -> str:
        return self.text

    @property
    def size(self) -> Size:
        return len(self.messages), len(self.processes)

    def to_json(self) -> dict[str, Any]:
        return {
            "text": self.text,
            "processes": list(self.processes),
            "messages": [show_message(message) for message in self.messages],
            "edges": [{"from": edge.source, "to": edge.target, "process": edge.process, "why": edge.why} for edge in self.edges],
        }


def sub_history(rows: Iterable[RowLike], witness: Witness) -> Iterator[RowLike]:
    """The rows of the witness, in the order given: a history in which its check is violated again."""
    processes, messages = set(witness.processes), set(witness.messages)
    for row in rows:
        if witness.run is not None and (row.get("run") or "") != witness.run:
            continue
        kind, process = row["kind"], row["process"]
        if kind in ABOUT_A_MESSAGE:
            about = (row["origin"], row["number"])
            if about in messages and (process in processes or (kind == "send" and process == row["origin"])):
                yield row
        elif process in processes:
            yield row
