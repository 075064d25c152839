"""How `isotone watch` speaks: a live table on a terminal, lines in a pipe, JSON objects on demand.

Every form says a change of verdict at once, with its witness and the place in the trace; numbers come from time to time.
"""

from __future__ import annotations

import json
import sys
import time
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from types import TracebackType

    from rich.live import Live

    from isotone.pipeline.stream.judge import Standing

SUMMARY_S = 10.0
_MARKS = {"ok": "ok", "violated": "VIOLATED", "unknown": "unknown"}
_COLOURS = {"ok": "green", "violated": "bold red", "unknown": "yellow"}


class Output(Protocol):
    """What the command needs of one."""

    def note(self, text: str) -> None: ...
    def begin(self, where: str, resumed: dict[str, Any] | None) -> None: ...
    def change(self, standing: Standing) -> None: ...
    def summary(self, told: dict[str, Any]) -> None: ...
    def tick(self) -> None: ...
    def end(self, told: dict[str, Any]) -> None: ...
    def __enter__(self) -> Output: ...
    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None: ...


def open_output(as_json: bool) -> Output:
    """The form that fits standard output."""
    if as_json:
        return JsonLines()
    return Screen() if sys.stdout.isatty() else Lines()


class Lines:
    """Plain lines."""

    def __init__(self) -> None:
        self._told: dict[str, Any] | None = None
        self._last = time.monotonic()

    def __enter__(self) -> Lines:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        return None

    def note(self, text: str) -> None:
        print(text, flush=True)

    def begin(self, where: str, resumed: dict[str, Any] | None) -> None:
        if resumed is None:
            print(f"watching {where}", flush=True)
            return
        print(f"watching {where}, resumed after batch {resumed['batch']}: {headline(resumed)}", flush=True)
        for check in resumed["checks"]:
            if check["verdict"] != "ok":
                print(f"  {_MARKS[check['verdict']]} {_of(check['run'])}{check['name']}: {check['witness']}", flush=True)

    def change(self, standing: Standing) -> None:
        print(sentence(standing), flush=True)

    def summary(self, told: dict[str, Any]) -> None:
        self._told = told

    def tick(self) -> None:
        if self._told is not None and time.monotonic() - self._last >= SUMMARY_S:
            self._last = time.monotonic()
            print(headline(self._told), flush=True)
            self._told = None

    def end(self, told: dict[str, Any]) -> None:
        for check in told["checks"]:
            tail = f"  {check['witness']}" if check["witness"] else ""
            print(f"  {_of(check['run'])}{check['name']}: {_MARKS[check['verdict']]}{tail}")
        for reason in told["reasons"]:
            print(f"  quarantined {reason}")
        print(headline(told), flush=True)


class JsonLines(Lines):
    """One object per line; `event` says what it is."""

    def note(self, text: str) -> None:
        self._say("note", {"text": text})

    def begin(self, where: str, resumed: dict[str, Any] | None) -> None:
        self._say("begin", {"trace": where, "resumed": resumed})

    def change(self, standing: Standing) -> None:
        import msgspec

        self._say("change", msgspec.to_builtins(standing))

    def tick(self) -> None:
        if self._told is not None and time.monotonic() - self._last >= SUMMARY_S:
            self._last = time.monotonic()
            self._say("summary", self._told)
            self._told = None

    def end(self, told: dict[str, Any]) -> None:
        self._say("end", told)

    def _say(self, event: str, what: dict[str, Any]) -> None:
        print(json.dumps({"event": event, **what}), flush=True)


class Screen(Lines):
    """A table that changes in place; violations stay above it."""

    def __init__(self) -> None:
        super().__init__()
        self._where = ""
        self._live: Live | None = None

    def __enter__(self) -> Screen:
        from rich.live import Live

        self._live = Live(self._table(), refresh_per_second=4)
        self._live.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None

    def begin(self, where: str, resumed: dict[str, Any] | None) -> None:
        self._where, self._told = where, resumed

    def change(self, standing: Standing) -> None:
        if self._live is not None and standing.verdict != "ok":
            self._live.console.print(sentence(standing), style=_COLOURS[standing.verdict], markup=False, highlight=False)

    def summary(self, told: dict[str, Any]) -> None:
        self._told = told
        if self._live is not None:
            self._live.update(self._table())

    def tick(self) -> None:
        """The table refreshes itself."""

    def _table(self) -> Any:
        from rich.console import Group
        from rich.table import Table
        from rich.text import Text

        if self._told is None:
            return Text(f"watching {self._where}: nothing yet")
        checks = Table("check", "verdict", "violations", box=None)
        for check in self._told["checks"]:
            verdict = Text(_MARKS[check["verdict"]], style=_COLOURS[check["verdict"]])
            checks.add_row(_of(check["run"]) + check["name"], verdict, str(check["violations"] or ""))
        processes = Table("process", "rows", "view", "members", "lag", "held", box=None)
        for run, held in self._told["runs"].items():
            for name, one in held["processes"].items():
                lag = "ended" if one["ended"] else "" if one["lag_s"] is None else f"{one['lag_s']:.1f} s"
                shown = (f"{one['rows']:,}", one["view"] or "", str(one["members"] or ""), lag, str(one["held"] or ""))
                processes.add_row(_of(run) + name, *shown)
        return Group(Text(f"watching {self._where}", style="bold"), checks, processes, Text(headline(self._told)))


def _of(run: str) -> str:
    return f"run {run}: " if run else ""


def sentence(standing: Standing) -> str:
    """A change of verdict in words, with its place in the trace."""
    text = f"{_MARKS[standing.verdict]} {_of(standing.run)}{standing.check}"
    if standing.witness:
        text += f": {standing.witness}"
    if standing.verdict == "violated" and standing.process is not None:
        file = f" in {standing.file}" if standing.file else ""
        text += f" ({standing.process} step {standing.step}{file})"
    return text


def headline(told: dict[str, Any]) -> str:
    """The numbers in one line."""
    parts = [f"{told['verdict']}: {told['events']:,} events"]
    for run, held in told["runs"].items():
        window, processes = held["window"], held["processes"]
        parts.append(f"{_of(run)}{len(processes)} processes")
        if window["deliveries_per_s"] is not None:
            parts.append(f"{window['deliveries_per_s']:,.0f} deliveries/s")
        if window["latency_ms"] is not None:
            parts.append(f"latency p50 {window['latency_ms']['p50']:.3g} ms, p99 {window['latency_ms']['p99']:.3g} ms")
        lags = [one["lag_s"] for one in processes.values() if one["lag_s"] is not None and not one["ended"]]
        if lags:
            parts.append(f"largest lag {max(lags):.1f} s")
    parts.append(f"{told['held']:,} held, {told['quarantined']:,} quarantined")
    return ", ".join(parts)
