"""Puts the page together: headline, checks, figures and diagrams of each run, style and script, in one file.

Invariant: the page names no address outside itself, and its content policy forbids the browser to load anything.
"""

from collections.abc import Iterable
from importlib.resources import files
from pathlib import Path

from isotone.pipeline.oracle import CheckResult, Report
from isotone.report.charts import bands_chart, distribution_charts, latency_chart, latency_table, rate_chart
from isotone.report.cutout import choose_cutouts
from isotone.report.diagram import diagram
from isotone.report.markup import Child, Markup, data_script, join, numbers, table, tag
from isotone.report.stats import show_duration
from isotone.report.story import RowLike, Story, tell_stories

RUNS_MOST = 8
"""So many runs are shown; those that a witness is about come first."""

POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; form-action 'none'; base-uri 'none'"
MARKS = {"ok": "✓", "violated": "✕", "unknown": "?"}
VERDICT_WORDS = {
    "ok": "Every property that was checked holds.",
    "violated": "At least one property does not hold.",
    "unknown": "Nothing is known to be violated, but not everything could be decided.",
}


def write_report(
    path: Path, rows: Iterable[RowLike], report: Report, title: str = "Isotone report", span: tuple[int, int] | None = None
) -> None:
    """Render the page into a file."""
    path.write_text(render_report(rows, report, title, span), encoding="utf-8")


def render_report(
    rows: Iterable[RowLike], report: Report, title: str = "Isotone report", span: tuple[int, int] | None = None
) -> str:
    """The page as text. `span` is a range of a run, in nanoseconds since its start, that a diagram shall show."""
    stories = tell_stories(rows)
    witnesses = [check.witness or "" for check in report.checks if check.verdict == "violated"]
    ranked = sorted(stories, key=lambda story: not any(text.startswith(f"run {story.run}: ") for text in witnesses))
    shown = ranked[:RUNS_MOST]
    body: list[Child] = [_headline(title, stories, report), _checks(report)]
    scripts: list[Markup] = []
    for place, story in enumerate(shown):
        body.append(_run(story, report.checks, place, len(stories) > 1, span, scripts))
    if len(stories) > len(shown):
        body.append(tag("p", f"{len(stories) - len(shown):,} more runs are in the trace and not shown here.", class_="note"))
    body.append(tag("footer", "Written by isotone. This file is whole in itself: it loads nothing."))
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", name_="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", http_equiv="Content-Security-Policy", content=POLICY),
        tag("title", title),
        tag("style", _resource("page.css")),
    )
    hint = tag("div", id="tip", role="status", hidden=True)
    script = [tag("script", _resource(name)) for name in ("page.js", "spacetime.js", "selftest.js")]
    document = tag("html", head, tag("body", tag("main", body), hint, scripts, script), lang="en")
    return "<!doctype html>\n" + document + "\n"


def _resource(name: str) -> Markup:
    """A file of this package, as it is."""
    return Markup(files("isotone.report").joinpath(name).read_text(encoding="utf-8"))


def _headline(title: str, stories: list[Story], report: Report) -> Markup:
    views = sum(len(story.views()) for story in stories)
    timed = all(story.timed for story in stories)
    duration = show_duration(max((story.duration for story in stories), default=0)) if timed else "no clocks"
    kinds = {kind: sum(story.kinds[kind] for story in stories) for kind in ("send", "deliver")}
    facts = [
        ("events", f"{report.events:,}"),
        ("processes", f"{sum(len(story.processes) for story in stories):,}"),
        ("views", f"{views:,}"),
        ("messages sent", f"{kinds['send']:,}"),
        ("deliveries", f"{kinds['deliver']:,}"),
        ("duration" if len(stories) == 1 else "longest run", duration),
    ]
    if len(stories) > 1:
        facts.insert(0, ("runs", f"{len(stories):,}"))
    if report.quarantined:
        facts.append(("rows quarantined", f"{report.quarantined:,}"))
    badge = tag("p", tag("b", f"{MARKS[report.verdict]} {report.verdict}"), class_=f"verdict {report.verdict}")
    theme = tag("button", "Light or dark", type="button", id="theme")
    tiles = [tag("div", tag("dt", name), tag("dd", value)) for name, value in facts]
    return tag(
        "header",
        tag("div", tag("h1", title), theme, class_="top"),
        tag("div", badge, tag("p", VERDICT_WORDS[report.verdict]), class_="says"),
        tag("dl", tiles, class_="facts"),
    )


def _checks(report: Report) -> Markup:
    order = {"violated": 0, "unknown": 1}
    head = ["check", "verdict", "times", "witness, in words"]
    bad = sorted((check for check in report.checks if check.verdict != "ok"), key=lambda check: order[check.verdict])
    good = [check for check in report.checks if check.verdict == "ok"]
    parts: list[Child] = []
    if bad:
        parts.append(table(head, [_check_row(check) for check in bad], "checks that are violated or unknown"))
    if good:
        parts.append(tag("p", f"{len(good)} of {len(report.checks)} checks are ok:", class_="note"))
        parts.append(tag("p", [tag("code", f"✓ {check.name}", class_="pill ok") for check in good], class_="chips"))
        parts.append(numbers("All checks as a table", table(head, [_check_row(check) for check in (*bad, *good)], "all checks")))
    if not report.checks:
        parts.append(tag("p", "No check was made.", class_="note"))
    return tag("section", tag("h2", "Checks"), parts, id="checks")


def _check_row(check: CheckResult) -> list[Child]:
    pill = tag("span", f"{MARKS[check.verdict]} {check.verdict}", class_=f"pill {check.verdict}")
    words = join([check.witness, tag("em", f" {check.note}") if check.note else None])
    return [tag("code", check.name), pill, f"{check.violations:,}" if check.violations else "", words]


def _run(
    story: Story, checks: list[CheckResult], place: int, several: bool, span: tuple[int, int] | None, scripts: list[Markup]
) -> Markup:
    cuts = choose_cutouts(story, checks, span)
    diagrams: list[Markup] = []
    for index, cut in enumerate(cuts):
        identifier = f"cut-{place}-{index}"
        figure, data = diagram(story, cut, identifier)
        diagrams.append(figure)
        scripts.append(data_script(f"{identifier}-data", data))
    hint = (
        "Time runs to the right; a line leads from a send ○ to each delivery ●. Click a message to follow it. The wheel zooms "
        "once the diagram has been clicked, as + and − do; drag or arrow keys move; [ and ] step from message to message; "
        "Escape lets go."
    )
    diagram_part = tag("section", tag("h3", "Space-time diagram"), tag("p", hint, class_="note"), diagrams)
    witnessed = bool(cuts and cuts[0].messages)
    parts: list[Child] = [tag("h2", f"Run {story.run}", class_="run")] if several else []
    if witnessed:
        parts.append(diagram_part)
    if story.processes:
        note = "One lane per process, one colour per view; the pale end of a band is a flush, when the view is frozen."
        parts.append(tag("section", tag("h3", "Views over time"), tag("p", note, class_="note"), bands_chart(story)))
    parts.append(_latency(story))
    if story.kinds["send"] or story.kinds["deliver"]:
        parts.append(tag("section", tag("h3", "Sends and deliveries"), rate_chart(story)))
    if not witnessed and cuts:
        parts.append(diagram_part)
    if story.packets:
        parts.append(_packets(story))
    return tag("div", parts, class_="of-run")


def _latency(story: Story) -> Markup:
    parts: list[Child] = []
    if not story.latencies:
        missing = "no clocks" if not story.timed else "no delivery whose send is in it"
        parts.append(tag("p", f"Unknown: the trace has {missing}.", class_="note"))
    else:
        text = "From the send at the origin to the delivery at each process, the origin's own delivery included."
        parts += [tag("p", text, class_="note"), latency_chart(story), latency_table(story), distribution_charts(story)]
    if story.early:
        text = f"{story.early:,} deliveries are left out: their clock is behind that of the send, so the hosts' clocks differ."
        parts.append(tag("p", text, class_="note"))
    return tag("section", tag("h3", "Latency, send to deliver"), parts)


def _packets(story: Story) -> Markup:
    sent = story.kinds["send"]
    most = max(count for count, _ in story.packets.values())
    rows: list[list[Child]] = []
    for name, (count, volume) in story.packets.items():
        bar = tag("span", tag("i", style=f"width:{100 * count / most:.1f}%"), class_="meter")
        rows.append([tag("code", name), bar, f"{count:,}", f"{volume:,}", f"{count / sent:.2f}" if sent else "—"])
    head = ["kind", "", "records", "bytes", "records per message"]
    return tag("section", tag("h3", "Control records"), table(head, rows, "control records by kind"))
