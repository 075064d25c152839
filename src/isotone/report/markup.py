"""A small writer of HTML and inline SVG: every text and every attribute is escaped unless it is `Markup` already.

Invariant: only this module turns text into markup, so that names and payload types of a trace cannot become elements.
"""

import json
from collections.abc import Iterable
from html import escape
from typing import Final, TypeAlias

VOID: Final = frozenset(("br", "input", "link", "meta"))


class Markup(str):
    """Text that is markup already and must not be escaped again."""

    __slots__ = ()


Child: TypeAlias = "str | int | float | Markup | Iterable[Child] | None"
Attribute: TypeAlias = str | int | float | bool | None


def tag(name: str, *children: Child, **attributes: Attribute) -> Markup:
    """One element. Underscores at the end of an attribute's name fall off, others become hyphens; None leaves it out."""
    parts = [f"<{name}"]
    for key, value in attributes.items():
        if value is None or value is False:
            continue
        key = key.rstrip("_").replace("_", "-")
        parts.append(f" {key}" if value is True else f' {key}="{escape(_plain(value))}"')
    parts.append(">")
    if name not in VOID:
        parts.append(join(children))
        parts.append(f"</{name}>")
    return Markup("".join(parts))


def join(children: Iterable[Child]) -> Markup:
    """The children one after the other, escaped where needed."""
    parts: list[str] = []
    for child in children:
        if child is None:
            continue
        if isinstance(child, Markup):
            parts.append(child)
        elif isinstance(child, (str, int, float)):
            parts.append(escape(_plain(child)))
        else:
            parts.append(join(child))
    return Markup("".join(parts))


def _plain(value: str | int | float) -> str:
    if isinstance(value, float):
        return f"{value:.2f}".rstrip("0").rstrip(".")
    # A control character or half of a surrogate pair in a foreign name would make the file unreadable.
    return "".join(c if c.isprintable() or c in "\n\t " else "�" for c in str(value))


def data_script(identifier: str, value: object) -> Markup:
    """A script element that holds JSON for the page's own script; it cannot be ended by its content."""
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=True).replace("<", "\\u003c").replace("&", "\\u0026")
    return Markup(f'<script type="application/json" id="{escape(identifier)}">{text}</script>')


def table(head: Iterable[Child], rows: Iterable[Iterable[Child]], caption: str | None = None) -> Markup:
    """A table; cells that read as numbers are set right by the style sheet's class `num`."""
    return tag(
        "div",
        tag(
            "table",
            tag("caption", caption) if caption else None,
            tag("thead", tag("tr", [tag("th", cell, scope="col") for cell in head])),
            tag("tbody", [tag("tr", [_cell(cell) for cell in row]) for row in rows]),
        ),
        class_="scroll",
        tabindex=0,
        role="region",
        aria_label=caption or "table",
    )


def _cell(cell: Child) -> Markup:
    text = cell if isinstance(cell, str) and not isinstance(cell, Markup) else ""
    numeric = isinstance(cell, (int, float)) or text[:1].isdigit()
    return tag("td", cell, class_="num" if numeric else None)


def numbers(summary: str, inner: Markup) -> Markup:
    """The numbers behind a figure, folded away."""
    return tag("details", tag("summary", summary), inner)
