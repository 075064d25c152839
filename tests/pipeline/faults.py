"""Breaks a clean history in one place, and says which checks must notice, where that is certain.

Each fault takes the rows of one run and gives back other rows (the given ones are not touched) with a set of checks of which
at least one must then be violated; an empty set where the damage may be invisible. None if the history has no place for it.
"""

from collections.abc import Callable
from random import Random
from typing import Any

from hypothesis import assume
from hypothesis import strategies as st

from tests.pipeline.generate import Generated, clean

Row = dict[str, Any]
Broken = tuple[list[Row], set[str]] | None

TOTAL = {"sequencer", "total_bare", "switching"}
ABOUT = ("origin", "number", "digest", "size", "type", "items", "position", "protocol")
"""Columns that belong to the message of a delivery."""


def message(row: Row) -> tuple[str, int]:
    return row["origin"], row["number"]


def view(row: Row) -> tuple[int, str]:
    return row["view_epoch"], row["view_proposer"]


def deliveries(rows: list[Row]) -> list[int]:
    return [index for index, row in enumerate(rows) if row["kind"] == "deliver"]


def with_rows(rows: list[Row], changed: dict[int, Row]) -> list[Row]:
    return [changed.get(index, row) for index, row in enumerate(rows)]


def delivered_by(rows: list[Row], about: tuple[str, int]) -> set[str]:
    return {row["process"] for row in rows if row["kind"] == "deliver" and message(row) == about}


def swap(case: Generated, random: Random) -> Broken:
    """Two deliveries of a process in one view change places; positions go with their messages."""
    rows = case.rows
    pairs = [
        (i, j)
        for i in deliveries(rows)
        for j in deliveries(rows)
        if i < j and rows[i]["process"] == rows[j]["process"] and view(rows[i]) == view(rows[j])
    ]
    if not pairs:
        return None
    i, j = random.choice(pairs)
    one, two = rows[i], rows[j]
    columns = {name: one.get(name) for name in ABOUT}, {name: two.get(name) for name in ABOUT}
    must: set[str] = set()
    others = delivered_by(rows, message(one)) & delivered_by(rows, message(two)) - {one["process"]}
    if case.order in TOTAL and others:
        must = {"total_pairwise"}
    elif case.order in (*TOTAL, "causal", "fifo") and one["origin"] == two["origin"]:
        must = {"fifo"}
    return with_rows(rows, {i: _filled(one, columns[1]), j: _filled(two, columns[0])}), must


def _filled(row: Row, columns: Row) -> Row:
    return {name: value for name, value in {**row, **columns}.items() if value is not None}


def drop(case: Generated, random: Random) -> Broken:
    """A process misses one delivery."""
    found = deliveries(case.rows)
    if not found:
        return None
    index = random.choice(found)
    lost = case.rows[index]
    must: set[str] = set()
    if lost["process"] == lost["origin"] and _stops(case.rows, lost["process"]):
        must = {"validity"}
    return [row for place, row in enumerate(case.rows) if place != index], must


def _stops(rows: list[Row], process: str) -> bool:
    return any(row["kind"] == "stop" and row["process"] == process for row in rows)


def duplicate(case: Generated, random: Random) -> Broken:
    """A process delivers a message again, some time later."""
    found = deliveries(case.rows)
    if not found:
        return None
    again = case.rows[random.choice(found)]
    mine = [row for row in case.rows if row["process"] == again["process"] and row["step"] >= again["step"]]
    after = random.choice(mine[:-1] or mine)
    return _insert(case.rows, after, {**again, **_where(after)}), {"duplication"}


def _where(row: Row) -> Row:
    return {name: row[name] for name in ("view_epoch", "view_proposer") if name in row}


def _insert(rows: list[Row], after: Row, new: Row) -> list[Row]:
    """The row stands behind another of its process; steps are numbered anew, times are kept."""
    placed: list[Row] = []
    for row in rows:
        same = row["process"] == after["process"]
        placed.append({**row, "step": 2 * row["step"]} if same else row)
        if row is after:
            placed.append({**new, "step": 2 * row["step"] + 1, "time": row["time"]})
    return placed


def move(case: Generated, random: Random) -> Broken:
    """A delivery happens only in the next view."""
    rows = case.rows
    choices = [
        (index, install)
        for index in deliveries(rows)
        for install in rows
        if install["kind"] == "view" and install["process"] == rows[index]["process"] and install["step"] > rows[index]["step"]
    ]
    if not choices:
        return None
    index, install = random.choice(choices)
    rest = [row for place, row in enumerate(rows) if place != index]
    return _insert(rest, install, {**rows[index], **_where(install)}), {"sending_view"}


def forge(case: Generated, random: Random) -> Broken:
    """A process delivers what nobody sent."""
    found = deliveries(case.rows)
    stopped = [row["process"] for row in case.rows if row["kind"] == "stop"]
    if not found or not stopped:
        return None
    model = case.rows[random.choice(found)]
    forged = {**model, "origin": random.choice(stopped), "number": 1_000}
    return _insert(case.rows, model, forged), {"integrity"}


def payload(case: Generated, random: Random) -> Broken:
    """A process delivers other content than was sent."""
    found = deliveries(case.rows)
    if not found:
        return None
    index = random.choice(found)
    return with_rows(case.rows, {index: {**case.rows[index], "digest": -5}}), {"integrity"}


def cut_out(case: Generated, random: Random) -> Broken:
    """A process has left no trace at all."""
    gone = random.choice(sorted({row["process"] for row in case.rows}))
    rest = [row for row in case.rows if row["process"] != gone]
    return (rest, set()) if rest else None


def silence(case: Generated, random: Random) -> Broken:
    """A process delivers nothing in a view."""
    found = deliveries(case.rows)
    if not found:
        return None
    model = case.rows[random.choice(found)]
    rest = [
        row for row in case.rows if row["kind"] != "deliver" or row["process"] != model["process"] or view(row) != view(model)
    ]
    last = [row for row in case.rows if row["process"] == model["process"]][-1]
    stays = last["kind"] == "stop" and view(last) == view(model)
    others = delivered_by(case.rows, message(model)) - {model["process"]}
    final = {row["process"] for row in case.rows if row["kind"] == "stop" and view(row) == view(model)}
    return rest, {"agreement"} if stays and others & final and not _transitional(case.rows, model) else set()


def _transitional(rows: list[Row], model: Row) -> bool:
    return any(row["kind"] == "transitional" and view(row) == view(model) for row in rows)


def positions(case: Generated, random: Random) -> Broken:
    """Two deliveries of a process carry each other's position."""
    rows = case.rows
    placed = [index for index in deliveries(rows) if "position" in rows[index]]
    pairs = [
        (i, j)
        for i in placed
        for j in placed
        if i < j and rows[i]["process"] == rows[j]["process"] and view(rows[i]) == view(rows[j])
    ]
    if not pairs:
        return None
    i, j = random.choice(pairs)
    one, two = rows[i], rows[j]
    changed = {i: {**one, "position": two["position"]}, j: {**two, "position": one["position"]}}
    return with_rows(rows, changed), {"position"} if case.order in TOTAL else set()


def forget(case: Generated, random: Random) -> Broken:
    """A process does not say that it installed a view."""
    rows = case.rows
    installs = [index for index, row in enumerate(rows) if row["kind"] == "view"]
    index = random.choice(installs)
    lost = rows[index]
    earlier = any(r["kind"] == "view" and r["process"] == lost["process"] and r["step"] < lost["step"] for r in rows)
    inside = any(r["kind"] == "deliver" and r["process"] == lost["process"] and view(r) == view(lost) for r in rows)
    return rows[:index] + rows[index + 1 :], {"sending_view"} if earlier and inside else set()


def unheld(case: Generated, random: Random) -> Broken:
    """A member received a message that others delivered as safe only when it delivered it itself."""
    rows = case.rows
    virtual = any(row["kind"] == "start" and row["detail"]["clock"] == "virtual" for row in rows)
    first: dict[tuple[str, int], int] = {}
    for row in rows:
        if row["kind"] == "deliver" and row["level"] == "safe":
            first[message(row)] = min(row["time"], first.get(message(row), row["time"]))
    choices = [
        (index, row)
        for index, row in enumerate(rows)
        if row["kind"] == "receive"
        and message(row) in first
        and all(
            other["time"] > first[message(row)]
            for other in rows
            if other["kind"] == "deliver" and other["process"] == row["process"] and message(other) == message(row)
        )
    ]
    if not choices or not virtual:
        return None
    index, lost = random.choice(choices)
    cut = not any(row["kind"] in ("stop", "crash") and row["process"] == lost["process"] for row in rows)
    others = any(row["kind"] == "receive" for place, row in enumerate(rows) if place != index)
    return rows[:index] + rows[index + 1 :], set() if cut or not others else {"resilience"}


def instance(case: Generated, random: Random) -> Broken:
    """A message is delivered under another instance than elsewhere, in a view with a switch."""
    rows = case.rows
    switched = {view(row) for row in rows if row["kind"] == "switch"}
    found = [
        index
        for index in deliveries(rows)
        if view(rows[index]) in switched and delivered_by(rows, message(rows[index])) - {rows[index]["process"]}
    ]
    if not found:
        return None
    index = random.choice(found)
    row = rows[index]
    return with_rows(rows, {index: {**row, "position": (1 - row["position"][0], *row["position"][1:])}}), {"switching"}


def members(case: Generated, random: Random) -> Broken:
    """A process installs a view with one member less than it has."""
    rows = case.rows
    index = random.choice([index for index, row in enumerate(rows) if row["kind"] == "view"])
    row = rows[index]
    gone = random.choice(row["members"])
    others = any(r["kind"] == "view" and r["process"] != row["process"] and view(r) == view(row) for r in rows)
    must = {"self_inclusion"} if gone == row["process"] else {"view_identity"} if others else set[str]()
    return with_rows(rows, {index: {**row, "members": tuple(name for name in row["members"] if name != gone)}}), must


def renumber(case: Generated, random: Random) -> Broken:
    """A process installs a view under an old or the initial number."""
    rows = case.rows
    index = random.choice([index for index, row in enumerate(rows) if row["kind"] == "view"])
    row = rows[index]
    epoch = random.randint(0, row["view_epoch"] - 1)
    earlier = [r for r in rows if r["kind"] == "view" and r["process"] == row["process"] and r["step"] < row["step"]]
    must: set[str] = {"initial_view"} if epoch == 0 else set()
    if earlier and view(earlier[-1]) >= (epoch, row["view_proposer"]):
        must = {"view_monotony"}
    return with_rows(rows, {index: {**row, "view_epoch": epoch}}), must


FAULTS: dict[str, Callable[[Generated, Random], Broken]] = {
    "swap": swap,
    "drop": drop,
    "duplicate": duplicate,
    "move": move,
    "forge": forge,
    "payload": payload,
    "cut_out": cut_out,
    "silence": silence,
    "positions": positions,
    "forget": forget,
    "unheld": unheld,
    "instance": instance,
    "members": members,
    "renumber": renumber,
}


def broken(random: Random, fault: str, order: str | None = None, *, run: str = "") -> tuple[Generated, set[str]] | None:
    """A history with one fault, and the checks of which at least one must be violated."""
    case = clean(random, order, run=run)
    found = FAULTS[fault](case, random)
    if found is None:
        return None
    rows, must = found
    return Generated(rows, case.order, case.conflicts, []), must


@st.composite
def broken_histories(draw: st.DrawFn) -> tuple[Generated, set[str]]:
    """The same for Hypothesis, any fault."""
    found = broken(draw(st.randoms(use_true_random=False)), draw(st.sampled_from(sorted(FAULTS))))
    assume(found is not None)
    assert found is not None
    return found
