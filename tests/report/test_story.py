"""What the report reads out of rows: time, order, views, latencies."""

from __future__ import annotations

from typing import Any

from isotone.report.story import logical_times, tell_stories
from tests.pipeline.oracle_text import history

CALM = """
a: [1a ab] +1 a1@0 b1@1 .
b: [1a ab] =10 +1 a1@0 b1@1 .
"""


def row(process: str, step: int, kind: str, **more: Any) -> dict[str, Any]:
    return {"process": process, "step": step, "kind": kind, **more}


def test_latency_is_delivery_minus_send() -> None:
    (story,) = tell_stories(history(CALM))
    sent = {("a#1", 1): 2, ("b#1", 1): 10}
    rows = [r for r in history(CALM) if r["kind"] == "deliver"]
    expected = sorted((r["time"] - sent[r["origin"], r["number"]], r["origin"]) for r in rows)
    kept = [pair for pair in expected if pair[0] >= 0]
    assert sorted((latency.value, latency.origin) for latency in story.latencies) == kept
    assert story.early == len(expected) - len(kept) == 1  # a delivers b1 at 4, before b's clock says 10


def test_times_count_from_the_first_event_of_the_run() -> None:
    rows = [row("a#1", 1, "start", time=5_000), row("b#1", 1, "start", time=5_700), row("b#1", 2, "stop", time=6_000)]
    (story,) = tell_stories(rows)
    assert [event.time for event in story.events] == [0, 700, 1_000]
    assert story.duration == 1_000


def test_without_clocks_deliveries_come_after_their_sends() -> None:
    rows = [{key: value for key, value in r.items() if key != "time"} for r in history(CALM)]
    (story,) = tell_stories(rows)
    assert not story.timed
    assert story.latencies == []
    at = {(event.kind, event.lane, event.message): index for index, event in enumerate(story.events)}
    for (kind, _, message), index in at.items():
        if kind == "deliver" and message is not None:
            assert index > at["send", story.processes.index(message[0]), message]


def test_a_circle_of_deliveries_before_sends_ends() -> None:
    a = [row("a#1", 1, "deliver", origin="b#1", number=1), row("a#1", 2, "send", origin="a#1", number=1)]
    b = [row("b#1", 1, "deliver", origin="a#1", number=1), row("b#1", 2, "send", origin="b#1", number=1)]
    assert [len(ticks) for ticks in logical_times([a, b])] == [2, 2]


def test_bands_follow_the_views_and_end_with_the_process() -> None:
    (story,) = tell_stories(history("a: [1a a] [2a ab] x\nb: [2a ab] =9 ."))
    bands = [(band.lane, band.view, band.start, band.end, band.members) for band in story.bands]
    assert bands == [
        (0, "1@a#1", 0, 1, ("a#1",)),
        (0, "2@a#1", 1, 2, ("a#1", "b#1")),
        (1, "2@a#1", 0, 8, ("a#1", "b#1")),
    ]
    assert story.views() == ["1@a#1", "2@a#1"]


def test_the_simulator_s_network_is_no_process() -> None:
    rows = [*history(CALM), row("network#0", 1, "start", time=0), row("network#0", 2, "fault", time=3, detail={"kind": "cut"})]
    (story,) = tell_stories(rows)
    assert story.processes == ["a#1", "b#1"]
    assert [event.kind for event in story.surroundings] == ["fault"]


def test_runs_are_kept_apart() -> None:
    stories = tell_stories([*history(CALM, "one"), *history(CALM, "two")])
    assert [story.run for story in stories] == ["one", "two"]
    assert len({tuple(story.processes) for story in stories}) == 1


def test_control_records_are_counted_by_kind() -> None:
    rows = [row("a#1", 1, "packet", packet="ack", count=3, size=30), row("a#1", 2, "packet", packet="ack", size=5)]
    (story,) = tell_stories(rows)
    assert story.packets == {"ack": (4, 35)}
