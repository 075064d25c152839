"""What the diagrams read out of rows: time, order, lanes."""

from __future__ import annotations

from typing import Any

from isotone.report.story import logical_times, tell_story
from tests.pipeline.oracle_text import history

CALM = """
a: [1a ab] +1 a1@0 b1@1 .
b: [1a ab] =10 +1 a1@0 b1@1 .
"""


def row(process: str, step: int, kind: str, **more: Any) -> dict[str, Any]:
    return {"process": process, "step": step, "kind": kind, **more}


def test_times_count_from_the_start_of_the_run_on_each_clock() -> None:
    rows = [row("a#1", 1, "start", time=5_000), row("b#1", 1, "start", time=90_700), row("b#1", 2, "stop", time=91_000)]
    story = tell_story(rows, {"a#1": 5_000, "b#1": 90_000})
    assert [event.time for event in story.events] == [0, 700, 1_000]
    assert story.timed


def test_without_clocks_deliveries_come_after_their_sends() -> None:
    story = tell_story(history(CALM), {})
    assert not story.timed
    at = {(event.kind, event.lane, event.message): index for index, event in enumerate(story.events)}
    for (kind, _, message), index in at.items():
        if kind == "deliver" and message is not None:
            assert index > at["send", story.processes.index(message[0]), message]


def test_a_circle_of_deliveries_before_sends_ends() -> None:
    a = [row("a#1", 1, "deliver", origin="b#1", number=1), row("a#1", 2, "send", origin="a#1", number=1)]
    b = [row("b#1", 1, "deliver", origin="a#1", number=1), row("b#1", 2, "send", origin="b#1", number=1)]
    assert [len(ticks) for ticks in logical_times([a, b])] == [2, 2]


def test_the_simulator_s_network_is_no_process() -> None:
    rows = [*history(CALM), row("network#0", 2, "fault", time=3, detail={"kind": "cut"})]
    story = tell_story(rows, {"a#1": 0, "b#1": 0, "network#0": 0})
    assert story.processes == ["a#1", "b#1"]
    assert [(event.kind, event.time) for event in story.surroundings] == [("fault", 3)]


def test_packets_are_no_events_and_a_row_without_a_time_happens_with_the_one_before() -> None:
    rows = [row("a#1", 1, "send", origin="a#1", number=1, time=7), row("a#1", 2, "packet", time=8), row("a#1", 3, "stop")]
    assert [(event.kind, event.time) for event in tell_story(rows, {"a#1": 0}).events] == [("send", 7), ("stop", 8)]
