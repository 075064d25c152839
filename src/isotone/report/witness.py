"""The witness of a violation as a small still picture: who sends and delivers what, and the edges of the argument.

Lanes are processes, columns are logical time: an event stands to the right of all it depends on. An edge is a numbered arc
over the lane at which it holds, from the event that comes first, or a line from a send to a delivery. If only one end is
an event (the other is missing, or is a position), that event has a ring. The list below the picture says why each holds.
"""

import re
from collections.abc import Sequence
from math import hypot
from typing import Final

from isotone.pipeline.oracle import CheckResult
from isotone.pipeline.oracle.witness import Edge
from isotone.report.markup import Child, Markup, join, tag
from isotone.report.plot import colour, shorten
from isotone.report.story import Event, MessageId, RowLike, Story, show_message, show_view, tell_story

LEFT: Final = 92
COLUMN: Final = 104
LANE: Final = 74
TOP: Final = 8
EVENTS_MOST: Final = 120
_SENDS: Final = re.compile(r"\bsen[dt]")


def witness_figure(check: CheckResult, rows: Sequence[RowLike]) -> Markup | None:
    """The picture and its list of edges; None if the check has no witness with edges."""
    witness = check.witness
    if witness is None or not witness.edges:
        return None
    story = tell_story(rows, {})
    picture = _Picture(story, list(witness.messages)) if 0 < len(story.events) <= EVENTS_MOST else None
    items: list[Markup] = []
    for number, edge in enumerate(witness.edges, start=1):
        drawn = picture is not None and picture.edge(edge, number)
        ends = [tag("code", edge.source), " → " if edge.source != edge.target else None]
        ends += [tag("code", edge.target)] if edge.source != edge.target else []
        item = [tag("b", str(number), class_="badge" if drawn else "badge plain"), ends, f" at {edge.process}: {edge.why}"]
        items.append(tag("li", item))
    drawing = picture.markup(f"the witness of {check.name} as a space-time diagram") if picture is not None else None
    return join([drawing, tag("ol", items, class_="edges")])


class _Picture:
    def __init__(self, story: Story, messages: list[MessageId]) -> None:
        self._story = story
        self._messages = messages
        self._columns = {tick: place for place, tick in enumerate(sorted({event.logical for event in story.events}))}
        self._arcs: list[Markup] = []
        self._over: dict[int, int] = {}

    def _place(self, event: Event) -> tuple[float, float]:
        return LEFT + COLUMN * (self._columns[event.logical] + 0.5), TOP + LANE * (event.lane + 0.5)

    def _paint(self, message: MessageId) -> str:
        return colour(self._messages.index(message)) if message in self._messages else "var(--soft)"

    def edge(self, edge: Edge, number: int) -> bool:
        """Draw an edge, if there is an event at either end; says whether it did."""
        firsts, seconds = (self._events(text, edge) for text in (edge.source, edge.target))
        for first in firsts:
            for second in seconds:
                if first.lane != second.lane or first.step < second.step:
                    self._arcs.append(self._between(first, second, number, edge.why))
                    return True
        for event in (*firsts, *seconds):
            self._arcs.append(self._ring(event, number, edge.why))
            return True
        return False

    def _between(self, first: Event, second: Event, number: int, why: str) -> Markup:
        (x1, y1), (x2, y2) = self._place(first), self._place(second)
        if first.lane != second.lane:
            length = hypot(x2 - x1, y2 - y1) or 1
            ux, uy = (x2 - x1) / length, (y2 - y1) / length
            start, end = (x1 + 6 * ux, y1 + 6 * uy), (x2 - 6 * ux, y2 - 6 * uy)
            path = f"M{start[0]:.1f},{start[1]:.1f} L{end[0]:.1f},{end[1]:.1f}"
            return _marked(path, _head(start, end), ((x1 + x2) / 2, (y1 + y2) / 2), number, why)
        high = 30 + 8 * (self._over.get(first.lane, 0) % 2)
        self._over[first.lane] = self._over.get(first.lane, 0) + 1
        control, end = ((x1 + x2) / 2, y1 - 9 - high), (x2, y1 - 10)
        path = f"M{x1:.1f},{y1 - 9:.1f} Q{control[0]:.1f},{control[1]:.1f} {end[0]:.1f},{end[1]:.1f}"
        return _marked(path, _head(control, end), (control[0], y1 - 9 - high / 2), number, why)

    def _ring(self, event: Event, number: int, why: str) -> Markup:
        x, y = self._place(event)
        path = f"M{x - 11:.1f},{y:.1f} a11,11 0 1,1 22,0 a11,11 0 1,1 -22,0"
        return _marked(path, None, (x + 17, y - 15), number, why)

    def _events(self, text: str, edge: Edge) -> list[Event]:
        """Events at the edge's process (a send at its own) that a text names, the most fitting first."""
        lane = self._story.processes.index(edge.process) if edge.process in self._story.processes else -1
        mine = [event for event in self._story.events if event.lane == lane or text.startswith("send of ")]
        view = re.fullmatch(r"(?:view )?(\d+@.*)", text)
        if view is not None:
            return [event for event in mine if event.kind == "view" and show_view(event.row) == view.group(1)]
        kind, name = "", text
        for words, meant in (("send of ", "send"), ("delivery of ", "deliver")):
            if text.startswith(words):
                kind, name = meant, text.removeprefix(words)
        about = [event for event in mine if event.message and show_message(event.message) == name and kind in ("", event.kind)]
        sends_first = bool(_SENDS.search(edge.why))
        return sorted(about, key=lambda event: ((event.kind == "send") != sends_first, event.step))

    def markup(self, label: str) -> Markup:
        """The whole drawing."""
        story = self._story
        width = LEFT + COLUMN * len(self._columns) + 16
        height = TOP + LANE * len(story.processes)
        parts: list[Child] = []
        for lane, name in enumerate(story.processes):
            y = TOP + LANE * (lane + 0.5)
            parts.append(tag("line", x1=LEFT, x2=width - 6, y1=y, y2=y, class_="rail"))
            parts.append(tag("text", tag("title", name), shorten(name), x=LEFT - 10, y=y + 4, text_anchor="end", class_="lane"))
        sends = {event.message: event for event in story.events if event.kind == "send"}
        for event in story.events:
            sent = sends.get(event.message)
            if event.kind == "deliver" and sent is not None and event.message is not None:
                parts.append(self._way(sent, event, self._paint(event.message)))
        parts.extend(self._event(event) for event in story.events)
        picture = [*parts, *self._arcs]
        return tag(
            "svg",
            picture,
            viewBox=f"0 0 {width:g} {height:g}",
            class_="witness",
            role="img",
            aria_label=label,
            style=f"max-width:{width:g}px",
        )

    def _way(self, sent: Event, event: Event, paint: str) -> Markup:
        (x1, y1), (x2, y2) = self._place(sent), self._place(event)
        if sent.lane == event.lane:
            control = ((x1 + x2) / 2, y1 + 26)
            path = f"M{x1:.1f},{y1 + 6:.1f} Q{control[0]:.1f},{control[1]:.1f} {x2:.1f},{y2 + 7:.1f}"
            return tag("path", d=path, class_="way", style=f"stroke:{paint}")
        length = hypot(x2 - x1, y2 - y1) or 1
        ux, uy = (x2 - x1) / length, (y2 - y1) / length
        ends = {"x1": x1 + 6 * ux, "y1": y1 + 6 * uy, "x2": x2 - 12 * ux, "y2": y2 - 12 * uy}
        line = tag("line", **ends, class_="way", style=f"stroke:{paint}")
        return tag("g", line, _head((x1, y1), (x2 - 6 * ux, y2 - 6 * uy), paint))

    def _event(self, event: Event) -> Markup:
        x, y = self._place(event)
        if event.kind == "view":
            sign: Markup = tag("rect", x=x - 3, y=y - 12, width=6, height=24, class_="installs")
            words, tip = show_view(event.row), f"installs view {show_view(event.row)}"
        elif event.message is None:
            sign, words, tip = tag("circle", cx=x, cy=y, r=4, class_="other"), event.kind, event.kind
        else:
            paint = self._paint(event.message)
            fill = paint if event.kind == "deliver" else "var(--card)"
            sign = tag("circle", cx=x, cy=y, r=6, style=f"fill:{fill};stroke:{paint}", class_="dot")
            words = show_message(event.message)
            tip = f"{'delivers' if event.kind == 'deliver' else 'sends' if event.kind == 'send' else event.kind} {words}"
        label = words if len(words) <= 15 else words[:14] + "…"
        tip = f"{self._story.processes[event.lane]} {tip} (step {event.step})"
        return tag("g", sign, tag("text", label, x=x, y=y + 24, text_anchor="middle", class_="name"), data_tip=tip)


def _marked(path: str, head: Markup | None, at: tuple[float, float], number: int, why: str) -> Markup:
    """The line of an edge with its number."""
    x, y = at
    badge = [tag("circle", cx=x, cy=y, r=9), tag("text", str(number), x=x, y=y + 4, text_anchor="middle")]
    return tag("g", tag("path", d=path), head, badge, class_="edge", data_tip=why)


def _head(start: tuple[float, float], end: tuple[float, float], paint: str | None = None) -> Markup:
    """An arrow's head at the end of a line that comes from `start`."""
    length = hypot(end[0] - start[0], end[1] - start[1]) or 1
    ux, uy = (end[0] - start[0]) / length, (end[1] - start[1]) / length
    back = (end[0] - 9 * ux, end[1] - 9 * uy)
    corners = (end, (back[0] - 4 * uy, back[1] + 4 * ux), (back[0] + 4 * uy, back[1] - 4 * ux))
    points = " ".join(f"{x:.1f},{y:.1f}" for x, y in corners)
    return tag("polygon", points=points, class_="head", style=f"fill:{paint}" if paint else None)
