"""Switches as a report shows them: one stretch of time for the whole group, and its phases at each process in words."""

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from isotone.report.stats import show_duration

_PHASES: Final = {
    "request": "has the request to switch",
    "cut": "comes to the cut of the switch",
    "done": "has switched",
}


class Turn(NamedTuple):
    """The group switches, from the first process that has the request to the last that has switched (or came furthest)."""

    start: int
    end: int
    name: str
    """From which order to which."""
    words: str
    gap: int
    """The longest time without a delivery at a process around it."""


def which(detail: Mapping[str, Any]) -> str:
    """From which order to which."""
    return f"{detail.get('from') or '?'} → {detail.get('to') or '?'}"


def phase_words(detail: Mapping[str, Any] | None) -> str:
    """What a switch row says of its process."""
    told = detail or {}
    what = _PHASES.get(told.get("phase") or "done", f"is in the phase {told.get('phase')} of a switch")
    strategy = f" ({told['strategy']})" if told.get("strategy") else ""
    return f"{what} {which(told)}{strategy}" if told.get("to") else f"{what}"


def turns_of(rows: Sequence[Mapping[str, Any]]) -> list[Turn]:
    """The switches of the group, of the rows of `isotone.pipeline.metrics.switches` that have times."""
    together: dict[tuple[Any, ...], list[Mapping[str, Any]]] = {}
    for place, row in enumerate(rows):
        if row["at"] is not None:
            numbered = row["instance"] is not None and row["view_epoch"] is not None
            key = (row["view_epoch"], row["view_proposer"], row["instance"]) if numbered else (place,)
            together.setdefault(key, []).append(row)
    return sorted(map(_turn, together.values()))


def _turn(rows: Sequence[Mapping[str, Any]]) -> Turn:
    last = max(rows, key=lambda row: row["at"])
    start, end = min(row["at"] - max((row["phases"] or {0: 0}).values(), default=0) for row in rows), last["at"]
    gaps = [row["gap_ns"] for row in rows if row["gap_ns"] is not None]
    extra = [row["extra_bytes"] for row in rows if row["extra_bytes"] is not None]
    done = sum(row["missing"] is None for row in rows)
    strategy = f" ({last['strategy']})" if last["strategy"] else ""
    words = [f"{which(last)}{strategy}, at {len(rows):,} processes"]
    words.append(f"{show_duration(end - start)} from the first to the last" if end > start else "at one moment")
    if done < len(rows):
        words.append(f"{len(rows) - done:,} of them did not record its end")
    if gaps:
        words.append(f"longest time without a delivery: {show_duration(max(gaps))}")
    if extra:
        words.append(f"extra bytes: {sum(extra):,}")
    return Turn(start, end, which(last), "\n".join(words), max(gaps, default=0))
