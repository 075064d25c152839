"""The page of the reproduction: one section per figure or claim of a paper, with its verdict, in one HTML file."""

from collections.abc import Sequence

from isotone.report.markup import Child, Markup, table, tag
from isotone.report.page import MARKS, document
from isotone.reproduce.parts import Claim, Paper, Section, Verified
from isotone.reproduce.plots import short

STYLE = """
.claims { border-left: 4px solid var(--rule); margin: 10px 0; padding: 0 0 0 14px; }
.claim { margin: 0 0 12px; }
.claim .says { display: block; font-weight: 600; }
.claim dl { display: grid; grid-template-columns: max-content 1fr; gap: 1px 14px; margin: 3px 0 0; font-size: 14px; }
.claim dt { color: var(--soft); } .claim dd { margin: 0; }
.pill.holds { background: var(--good-bg); color: var(--good); } .pill.fails { background: var(--bad-bg); color: var(--bad); }
.place { color: var(--soft); font-weight: 400; font-size: 14px; margin-left: 10px; }
.plot { margin: 10px 0 4px; min-width: 0; } .plot .up { margin: 2px 0 0; } svg text.over { font-size: 11.5px; fill: var(--ink); }
svg .band { fill: var(--rule); opacity: .75; }
h2.paper { margin: 30px 0 2px; font-size: 20px; } .paper-line { margin: 0 0 12px; color: var(--soft); }
nav a { color: var(--focus); } nav .scroll { max-height: none; } nav table { table-layout: fixed; }
nav td, nav td.num { overflow-wrap: break-word; white-space: normal; }
nav th:nth-child(1) { width: 52px; } nav th:nth-child(2) { width: 190px; }
nav th:nth-child(4) { width: 38%; } nav th:nth-child(5) { width: 124px; }
"""


def render(parts: Sequence[tuple[str, Paper, Sequence[Section], Verified]], total: Verified, quick: bool, seconds: float) -> str:
    """The page as text."""
    title = "The papers' experiments, run again" + (" (quick)" if quick else "")
    body: list[Child] = [_headline(title, parts, total, seconds), _overview(parts)]
    for name, paper, found, verified in parts:
        words = f"{paper.authors}: {paper.title}. {paper.published}."
        runs = f"{verified.runs:,} runs, {verified.events:,} events, every one checked: {verified.verdict}."
        body.append(tag("h2", f"Paper {paper.number}: {name}", class_="paper", id=name))
        body.append(tag("p", words, " ", runs, class_="paper-line"))
        body.extend(_section(name, index, section) for index, section in enumerate(found))
    body.append(tag("footer", "Written by isotone reproduce. This file is whole in itself: it loads nothing."))
    return document(title, body, style=STYLE)


def _headline(
    title: str, parts: Sequence[tuple[str, Paper, Sequence[Section], Verified]], total: Verified, seconds: float
) -> Markup:
    claims = [claim for _, _, found, _ in parts for section in found for claim in section.claims]
    held = sum(claim.holds for claim in claims)
    badge = tag("p", tag("b", f"{MARKS[total.verdict]} {total.verdict}"), class_=f"verdict {total.verdict}")
    words = {
        "ok": "Every run keeps all that its protocol promises: the pipeline's checks found nothing.",
        "violated": "Some run breaks what its protocol promises; its witness is below.",
        "unknown": "Some run failed or could not be decided; see below.",
    }
    facts = [
        ("claims that hold", f"{held} of {len(claims)}"),
        ("runs", f"{total.runs:,}"),
        ("events checked", f"{total.events:,}"),
        ("computing", f"{short(seconds)} s"),
    ]
    bad = [tag("p", text, class_="note") for text in (*total.violated, *total.failed)[:20]]
    return tag(
        "header",
        tag("div", tag("h1", title), tag("button", "Light or dark", type="button", id="theme"), class_="top"),
        tag("div", badge, tag("p", words[total.verdict]), class_="says"),
        bad,
        tag("dl", [tag("div", tag("dt", name), tag("dd", value)) for name, value in facts], class_="facts"),
    )


def _overview(parts: Sequence[tuple[str, Paper, Sequence[Section], Verified]]) -> Markup:
    rows: list[list[Child]] = []
    for name, paper, found, _ in parts:
        for index, section in enumerate(found):
            for claim in section.claims:
                link = tag("a", section.title, href=f"#{name}-{index}")
                rows.append([paper.number, link, claim.says, claim.ours, _pill(claim)])
    note = (
        "Each verdict is computed from the runs by the criterion that stands with the claim. D is the delay of a link, N "
        "the number of members."
    )
    inner = table(["paper", "figure", "claim, in our words", "ours", "verdict"], rows, "all claims")
    return tag("section", tag("h2", "Claims"), tag("p", note, class_="note"), tag("nav", inner), id="claims")


def _pill(claim: Claim) -> Markup:
    return tag("span", "holds" if claim.holds else "does not hold", class_=f"pill {'holds' if claim.holds else 'fails'}")


def _section(name: str, index: int, section: Section) -> Markup:
    claims = []
    for claim in section.claims:
        entries: list[tuple[str, str]] = [("paper", claim.paper), ("ours", claim.ours), ("criterion", claim.criterion)]
        if claim.why and not claim.holds:
            entries.append(("why not", claim.why))
        if claim.remark:
            entries.append(("remark", claim.remark))
        facts = [[tag("dt", key), tag("dd", value)] for key, value in entries]
        claims.append(tag("div", tag("span", claim.says, " ", _pill(claim), class_="says"), tag("dl", facts), class_="claim"))
    return tag(
        "section",
        tag("h3", section.title, tag("span", section.place, class_="place")),
        tag("p", section.says),
        tag("p", tag("b", "Set-up. "), section.setup, class_="note"),
        tag("div", claims, class_="claims"),
        section.figures,
        section.notes,
        id=f"{name}-{index}",
    )
