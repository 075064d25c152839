"""Puts the page together: headline, checks, figures and diagrams of each run, style and script, in one file.

Invariant: the page names no address outside itself, and its content policy forbids the browser to load anything.
"""

from collections.abc import Sequence
from importlib.resources import files
from typing import Any

from isotone.pipeline.oracle import CheckResult, Report
from isotone.report.charts import bands_chart, distribution_charts, latency_chart, latency_table, rate_chart
from isotone.report.diagram import diagram
from isotone.report.figures import Figures
from isotone.report.markup import Child, Markup, data_script, join, numbers, table, tag
from isotone.report.material import Material, RunMaterial
from isotone.report.stats import show_duration
from isotone.report.tables import metrics_section
from isotone.report.witness import witness_figure

POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; form-action 'none'; base-uri 'none'"
MARKS = {"ok": "✓", "violated": "✕", "unknown": "?"}
VERDICT_WORDS = {
    "ok": "Every property that was checked holds.",
    "violated": "At least one property does not hold.",
    "unknown": "Nothing is known to be violated, but not everything could be decided.",
}


def render_report(material: Material, report: Report, title: str = "Isotone report") -> str:
    """The page as text."""
    total = len(material.summary["runs"])
    body: list[Child] = [_headline(title, material, report), _checks(report, material)]
    if report.quarantined:
        body.append(_quarantined(material.summary))
    scripts: list[Markup] = []
    for place, run in enumerate(material.runs):
        body.append(_run(run, place, total > 1, scripts))
    if total > len(material.runs):
        body.append(tag("p", f"{total - len(material.runs):,} more runs are in the trace and not shown here.", class_="note"))
    body.append(tag("footer", "Written by isotone. This file is whole in itself: it loads nothing."))
    return document(title, body, scripts, ("page.js", "spacetime.js", "selftest.js"))


def document(
    title: str, body: Child, scripts: Sequence[Markup] = (), resources: Sequence[str] = ("page.js",), style: str = ""
) -> str:
    """A whole page with the common style, whose content policy forbids the browser to load anything."""
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", name_="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", http_equiv="Content-Security-Policy", content=POLICY),
        tag("title", title),
        tag("style", _resource("page.css"), Markup(style)),
    )
    hint = tag("div", id="tip", role="status", hidden=True)
    script = [tag("script", _resource(name)) for name in resources]
    whole = tag("html", head, tag("body", tag("main", body), hint, scripts, script), lang="en")
    return "<!doctype html>\n" + whole + "\n"


def _resource(name: str) -> Markup:
    """A file of this package, as it is."""
    return Markup(files("isotone.report").joinpath(name).read_text(encoding="utf-8"))


def _headline(title: str, material: Material, report: Report) -> Markup:
    runs = [run.figures for run in material.runs]
    summary = material.summary
    timed = bool(runs) and all(run.timed for run in runs)
    duration = show_duration(max((run.duration for run in runs), default=0)) if timed else "no clocks"
    facts = [
        ("events", f"{report.events:,}"),
        ("processes", f"{sum(len(run.processes) for run in runs):,}"),
        ("views", f"{sum(len(run.views()) for run in runs):,}"),
        ("messages sent", f"{summary['kinds'].get('send', 0):,}"),
        ("deliveries", f"{summary['kinds'].get('deliver', 0):,}"),
        ("duration" if len(runs) == 1 else "longest run", duration),
    ]
    if len(summary["runs"]) > 1:
        facts.insert(0, ("runs", f"{len(summary['runs']):,}"))
    if report.quarantined:
        facts.append(("quarantined", f"{report.quarantined:,}"))
    badge = tag("p", tag("b", f"{MARKS[report.verdict]} {report.verdict}"), class_=f"verdict {report.verdict}")
    theme = tag("button", "Light or dark", type="button", id="theme")
    tiles = [tag("div", tag("dt", name), tag("dd", value)) for name, value in facts]
    return tag(
        "header",
        tag("div", tag("h1", title), theme, class_="top"),
        tag("div", badge, tag("p", VERDICT_WORDS[report.verdict]), class_="says"),
        tag("dl", tiles, class_="facts"),
    )


def _checks(report: Report, material: Material) -> Markup:
    head = ["check", "verdict", "times", "witness, in words"]
    violated = [check for check in report.checks if check.verdict == "violated"]
    unknown = [check for check in report.checks if check.verdict == "unknown"]
    good = [check for check in report.checks if check.verdict == "ok"]
    parts: list[Child] = [_violation(check, material) for check in violated]
    if unknown:
        rows = [[name, pill, words] for name, pill, _, words in map(_check_row, unknown)]
        parts.append(table(["check", "verdict", "why"], rows, "checks that are unknown"))
    if good:
        parts.append(tag("p", f"{len(good)} of {len(report.checks)} checks are ok:", class_="note"))
        parts.append(tag("p", [tag("code", f"✓ {check.name}", class_="pill ok") for check in good], class_="chips"))
    if report.checks:
        rows = [_check_row(check) for check in (*violated, *unknown, *good)]
        parts.append(numbers("All checks as a table", table(head, rows, "all checks")))
    else:
        parts.append(tag("p", "No check was made.", class_="note"))
    return tag("section", tag("h2", "Checks"), parts, id="checks")


def _violation(check: CheckResult, material: Material) -> Markup:
    """A violated check: its witness in words, as a picture, and edge by edge."""
    pill = tag("span", f"{MARKS[check.verdict]} {check.verdict}", class_=f"pill {check.verdict}")
    times = f"{check.violations:,} times" if check.violations > 1 else "once"
    head = tag("h3", tag("code", check.name), pill, tag("span", times, class_="note"))
    words = tag("p", str(check.witness or ""), tag("em", f" {check.note}") if check.note else None)
    return tag("article", head, words, witness_figure(check, material.witnesses.get(check.name, [])), class_="violation")


def _quarantined(summary: dict[str, Any]) -> Markup:
    rows: list[list[Child]] = [[reason, count] for reason, count in summary["reasons"].items()]
    note = "Rows and files that could not be used; nothing above rests on them."
    inner = table(["reason", "how many"], rows, "quarantined")
    return tag("section", tag("h2", "Quarantined"), tag("p", note, class_="note"), inner)


def _check_row(check: CheckResult) -> list[Child]:
    pill = tag("span", f"{MARKS[check.verdict]} {check.verdict}", class_=f"pill {check.verdict}")
    words = join([str(check.witness or ""), tag("em", f" {check.note}") if check.note else None])
    return [tag("code", check.name), pill, f"{check.violations:,}" if check.violations else "", words]


def _run(material: RunMaterial, place: int, several: bool, scripts: list[Markup]) -> Markup:
    from isotone.pipeline.metrics import COLUMNS  # needs Spark

    run, cuts = material.figures, material.cuts
    diagrams: list[Markup] = []
    for index, cut in enumerate(cuts):
        identifier = f"cut-{place}-{index}"
        figure, data = diagram(cut, identifier)
        diagrams.append(figure)
        scripts.append(data_script(f"{identifier}-data", data))
    hint = (
        "Time runs to the right; a line leads from a send ○ to each delivery ●. Click a message to follow it. The wheel zooms "
        "once the diagram has been clicked, as + and − do; drag or arrow keys move; [ and ] step from message to message; "
        "Escape lets go."
    )
    diagram_part = tag("section", tag("h3", "Space-time diagram"), tag("p", hint, class_="note"), diagrams)
    witnessed = bool(cuts and cuts[0].messages)
    parts: list[Child] = [tag("h2", f"Run {run.run}", class_="run")] if several else []
    if witnessed:
        parts.append(diagram_part)
    if run.bands:
        note = "One lane per process, one colour per view; the pale end of a band is a flush, when the view is frozen."
        shown = [_cut_note(run, name) for name in ("processes", "views", "marks", "happenings")]
        parts.append(tag("section", tag("h3", "Views over time"), tag("p", note, class_="note"), bands_chart(run), shown))
    parts.append(_latency(run))
    if run.rates:
        parts.append(tag("section", tag("h3", "Sends and deliveries"), rate_chart(run)))
    if not witnessed and cuts:
        parts.append(diagram_part)
    parts.append(metrics_section(run, COLUMNS))
    if run.control:
        parts.append(_control(run))
    return tag("div", parts, class_="of-run")


def _cut_note(run: Figures, name: str) -> Markup | None:
    if name not in run.cut:
        return None
    shown, total = run.cut[name]
    return tag("p", f"{shown:,} of {total:,} {name.replace('by_', '')} are shown.", class_="note")


def _latency(run: Figures) -> Markup:
    parts: list[Child] = []
    if not run.spreads:
        missing = ", ".join(run.why) or "delivery whose send is in it"
        parts.append(tag("p", f"Unknown: the trace has no {missing}.", class_="note"))
    else:
        text = "From the send at the origin to the first delivery at each process, the origin's own delivery included."
        parts += [tag("p", text, class_="note"), latency_chart(run), latency_table(run), _cut_note(run, "by_origin")]
        parts.append(distribution_charts(run))
    if run.early:
        text = f"{run.early:,} deliveries are left out: their clock is behind that of the send, so the hosts' clocks differ."
        parts.append(tag("p", text, class_="note"))
    return tag("section", tag("h3", "Latency, send to deliver"), parts)


def _control(run: Figures) -> Markup:
    most = max((records or 0 for _, records, _, _ in run.control), default=0) or 1
    rows: list[list[Child]] = []
    for name, records, volume, per_message in run.control:
        bar = tag("span", tag("i", style=f"width:{100 * (records or 0) / most:.1f}%"), class_="meter")
        known = ["—" if value is None else f"{value:,}" for value in (records, volume)]
        rows.append([tag("code", name), bar, *known, "—" if per_message is None else f"{per_message:.2f}"])
    head = ["kind", "", "records", "bytes", "records per message"]
    return tag("section", tag("h3", "Control records"), table(head, rows, "control records by kind"))
