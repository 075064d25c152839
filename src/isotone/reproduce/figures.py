"""The plots of the report as SVG files of their own: with title, legend and colours, for documents that cannot hold a page.

A plot of the report gets its colours from the page and has its legend beside it. Here both are put into the image.
"""

import re
from collections.abc import Iterator
from importlib.resources import files
from typing import Final
from xml.etree import ElementTree
from xml.etree.ElementTree import Element, SubElement

from isotone.report.markup import Markup

TITLE: Final = 24
ROW: Final = 20
MARGIN: Final = 10
LETTER: Final = 7.2
"""Rather more than the mean width of a letter."""
STYLE: Final = """
text { font: 13px system-ui, "Segoe UI", Roboto, "Liberation Sans", sans-serif; fill: %(soft)s; }
text.title { font-weight: 600; font-size: 15px; fill: %(ink)s; } text.key { fill: %(ink)s; }
text.over { font-size: 11.5px; fill: %(ink)s; }
.axis { stroke: %(soft)s; } .grid { stroke: %(rule)s; } .line { fill: none; stroke-width: 2.2; stroke-linejoin: round; }
.area { fill-opacity: .28; stroke-width: 1.5; } .grasp { fill: none; } .band { fill: %(rule)s; opacity: .75; }
"""


def standalone(figure: Markup) -> Iterator[str]:
    """The plots of a figure, each as an SVG document; what has no image is left out."""
    root = ElementTree.fromstring(figure)
    for plot in root.iter("div"):
        image = plot.find("svg")
        if image is not None:
            yield _document(plot, image)


def _palette() -> dict[str, str]:
    """The light colours of the page."""
    css = files("isotone.report").joinpath("page.css").read_text(encoding="utf-8")
    return dict(re.findall(r"--([a-z0-9-]+): (#[0-9a-f]{6})", css.partition("}")[0]))


def _document(plot: Element, image: Element) -> str:
    palette = _palette()
    width, height = (float(value) for value in image.attrib["viewBox"].split()[2:])
    title, up = plot.findtext("h4", ""), plot.findtext("p[@class='note up']", "")
    top = Element("g")
    SubElement(top, "text", x=str(MARGIN), y=str(TITLE - 6), attrib={"class": "title"}).text = title
    x, y = float(MARGIN), TITLE + ROW / 2
    for key in plot.findall("p[@class='legend']/span"):
        name = "".join(key.itertext())
        room = 24 + LETTER * len(name)
        if x > MARGIN and x + room > width:
            x, y = float(MARGIN), y + ROW
        _swatch(top, key.find("i"), x, y)
        SubElement(top, "text", x=f"{x + 20:g}", y=f"{y + 4:g}", attrib={"class": "key"}).text = name
        x += room
    y += ROW
    SubElement(top, "text", x=str(MARGIN), y=f"{y:g}").text = up
    lower = y + 6
    total = height + lower
    text = ElementTree.tostring(top, encoding="unicode") + f'<g transform="translate(0 {lower:g})">'
    text += "".join(ElementTree.tostring(part, encoding="unicode") for part in image) + "</g>"
    text = re.sub(r"var\(--([a-z0-9-]+)\)", lambda found: palette[found[1]], text)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {total:g}" width="{width:g}" height="{total:g}">'
        f'<style>{STYLE % palette}</style><rect width="{width:g}" height="{total:g}" fill="{palette["card"]}"/>{text}</svg>\n'
    )


def _swatch(parent: Element, key: Element | None, x: float, y: float) -> None:
    """What a line of the legend looks like: as the page draws it."""
    style = "" if key is None else key.attrib.get("style", "")
    paint = re.findall(r"var\(--[a-z0-9-]+\)", style)
    if not paint:
        return
    if "rotate" in style:
        SubElement(
            parent, "path", d=f"M{x + 8:g} {y - 6:g}l6 6l-6 6l-6-6z", style=f"fill:{paint[0]};stroke:{paint[-1]};stroke-width:2.2"
        )
    elif "dashed" in style:
        SubElement(parent, "path", d=f"M{x:g} {y:g}h16", style=f"stroke:{paint[-1]};stroke-width:2;stroke-dasharray:5 3")
    else:
        SubElement(parent, "rect", x=f"{x + 2:g}", y=f"{y - 6:g}", width="12", height="12", rx="3", style=f"fill:{paint[0]}")
