"""The space-time diagram of a cut-out: its controls, its data for the page's script, and its events as a table."""

from typing import Any

from isotone.report.cutout import CutOut
from isotone.report.figures import MARK_WORDS
from isotone.report.markup import Markup, numbers, table, tag
from isotone.report.plot import shorten
from isotone.report.stats import show_moment
from isotone.report.story import Event, MessageId, Story, show_message, show_view
from isotone.report.turns import phase_words

TABLE_ROWS_MOST = 400
SIGNS = (
    "○ send  ● deliver  ┃ installs a view  ❚ freezes its view  ¦ ends it  ? suspects  ✓ trusts again  ✕ crashes  ■ stops  "
    "⇄ has switched the order (shaded: from the request on)"
)


def diagram(cut: CutOut, identifier: str) -> tuple[Markup, dict[str, Any]]:
    """The figure without its drawing, and what the script draws."""
    story = cut.story
    boxes = []
    for lane, name in enumerate(story.processes):
        box = tag("input", type="checkbox", checked=True, data_lane=lane)
        boxes.append(tag("label", box, name))
    buttons = [
        tag("button", text, type="button", data_do=action, title=title)
        for text, action, title in (
            ("−", "out", "zoom out"),
            ("+", "in", "zoom in"),
            ("Whole cut-out", "all", "show the whole cut-out"),
            ("Reset", "reset", "back to the first look, follow nothing"),
        )
    ]
    axis = tag(
        "label",
        "axis ",
        tag(
            "select",
            tag("option", "order of events", value="order"),
            tag("option", "time" if story.timed else "logical time", value="time"),
            data_do="axis",
        ),
    )
    follow = tag("label", "follow ", tag("select", tag("option", "no message", value=""), data_do="follow"))
    count = f"{len(cut.events):,} events"
    if not cut.whole:
        count += "; further ones are left out"
    figure = tag(
        "figure",
        tag("h4", cut.title),
        tag("figcaption", cut.why, tag("span", f" ({count})", class_="note")),
        tag("div", buttons, axis, follow, class_="controls"),
        tag("fieldset", tag("legend", "processes"), boxes, class_="controls"),
        tag("svg", class_="spacetime", tabindex=0, role="application", aria_label=f"space-time diagram: {cut.title}"),
        tag("p", SIGNS, class_="legend"),
        tag("p", "No message is followed.", class_="followed", role="status"),
        tag("noscript", tag("p", "The drawing needs the page's own script; its events are in the table below.")),
        _table(cut),
        class_="diagram",
        id=identifier,
    )
    return figure, diagram_data(cut)


def diagram_data(cut: CutOut) -> dict[str, Any]:
    """Lanes, messages, events and happenings, with small keys."""
    numbers_: dict[MessageId, int] = {}
    for event in cut.events:
        if event.message is not None:
            numbers_.setdefault(event.message, len(numbers_))
    story = cut.story
    lanes = {name: index for index, name in enumerate(story.processes)}
    messages = []
    for message in numbers_:
        entry: dict[str, Any] = {"id": show_message(message), "lane": lanes.get(message[0], -1)}
        if message in cut.messages:
            entry["named"] = cut.messages.index(message)
        if message in cut.sent:
            entry["sent"] = cut.sent[message]
        messages.append(entry)
    events = []
    for event in cut.events:
        entry = {"k": event.kind, "l": event.lane, "t": event.time, "w": describe(story, event)}
        if event.message is not None:
            entry["m"] = numbers_[event.message]
        if event.kind == "view":
            epoch, _, proposer = show_view(event.row).partition("@")
            entry["v"] = f"{epoch}@{shorten(proposer)}"
        if event.kind == "switch":
            detail = event.row.get("detail") or {}
            entry["p"] = detail.get("phase") or "done"
            entry["v"] = detail.get("to") or "?"
        events.append(entry)
    first, last = (cut.events[0].time, cut.events[-1].time) if cut.events else (0, 0)
    around = [
        {"t": event.time, "k": event.kind, "w": (event.row.get("detail") or {}).get("kind") or event.kind}
        for event in story.surroundings
        if first <= event.time <= last
    ]
    return {
        "lanes": story.processes,
        "timed": story.timed,
        "messages": messages,
        "events": events,
        "around": around,
        "turns": _turns(cut),
        "focus": cut.focus,
    }


def _turns(cut: CutOut) -> list[dict[str, Any]]:
    """The switches at each process, by the first and the last event of them that the cut-out has."""
    found: dict[tuple[Any, ...], dict[str, Any]] = {}
    for rank, event in enumerate(cut.events):
        if event.kind == "switch":
            detail = event.row.get("detail") or {}
            named = ("instance",) if detail.get("instance") is not None else ("strategy", "from", "to")
            key = (event.lane, show_view(event.row), *(detail.get(name) for name in named))
            found.setdefault(key, {"l": event.lane, "first": rank})["last"] = rank
    return [turn for turn in found.values() if turn["last"] > turn["first"]]


def describe(story: Story, event: Event) -> str:
    """An event in words."""
    row, name = event.row, story.processes[event.lane]
    view = show_view(row)
    message = show_message(event.message) if event.message else ""
    where = f" in view {view}" if view else ""
    match event.kind:
        case "send":
            what = f"sends {message}{where}"
        case "deliver":
            position = row.get("position")
            at = f" at position {tuple(position)}" if position else ""
            what = f"delivers {message}{where}{at}"
        case "returned":
            what = f"gets {message} back"
        case "view":
            what = f"installs view {view}: {', '.join(row.get('members') or ())}"
        case "flush":
            what = f"freezes view {view}"
        case "transitional":
            what = f"ends view {view} together with {', '.join(row.get('members') or ())}"
        case "switch":
            what = phase_words(row.get("detail"))
        case kind:
            what = f"{MARK_WORDS.get(kind, kind)} {row.get('peer') or ''}".strip()
            what += f" ({row['level']})" if row.get("level") else ""
    return f"{name} {what}"


def _table(cut: CutOut) -> Markup:
    rows = [[show_moment(event.time, cut.story.timed), describe(cut.story, event)] for event in cut.events[:TABLE_ROWS_MOST]]
    text = "The events as a table"
    if len(cut.events) > TABLE_ROWS_MOST:
        text += f" (the first {TABLE_ROWS_MOST})"
    return numbers(text, table(["when", "what"], rows, "events of the cut-out"))
