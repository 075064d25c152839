"""The live part of `isotone reproduce`: real processes, checked and measured; what is finished is kept; errors are one line."""

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")

from isotone.model.errors import GroupError
from isotone.reproduce import atop_live, atop_points, live, switching_live, switching_points
from isotone.reproduce import run as runs
from isotone.reproduce.live import LiveRun, Sending, measure_live
from isotone.runtime.loop import run

MEMBERS = ("n1", "n2", "n3")


def small(order: str = "sequencer", **more: Any) -> LiveRun:
    sending = {name: Sending(0.02, place / 3, 1.0, 200) for place, name in enumerate(MEMBERS)}
    return LiveRun("small", order, sending, switching_live.measured, **more)


def test_a_live_run_is_checked_measured_and_kept(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Three processes send and switch; the second time nothing is started."""
    one = small(switches={"strategy": "dual_ids", "period_s": 0.2})
    shown: list[tuple[int, int]] = []
    results, verified = measure_live([[one]], tmp_path, spark, lambda *what: shown.append(what))
    assert (verified.verdict, verified.runs) == ("ok", 1)
    assert verified.events > 3 * 3 * 20
    assert results.mean("small", "switches") >= 2
    assert results.mean("small", "gap_ms") > 0
    assert 0 < results.mean("small", "throughput") <= 51
    assert shown[-1] == (1, 1)
    assert [path.name for path in tmp_path.iterdir()] == ["live.json"]  # traces are not kept
    monkeypatch.setattr(live, "_measured", lambda *_: pytest.fail("it was run again"))
    again, _ = measure_live([[one]], tmp_path, spark, lambda *_: None)
    assert again.rows("small") == results.rows("small")


def test_what_would_measure_something_else_is_another_run() -> None:
    keys = {small().key, small("causal").key, small(limits={"pending_messages": 1}).key, small(options={"at": "n1"}).key}
    assert len(keys) == 4


def test_a_member_that_fails_ends_the_run_with_one_line(tmp_path: Path) -> None:
    """Members are asked for an order that does not exist; nobody is left behind."""
    with pytest.raises(GroupError, match=r"live run 'small': a member ended before it said 'address'"):
        run(live._all([small("sequenzer")], [tmp_path / "trace"]))


@pytest.mark.parametrize("quick", [True, False])
def test_live_runs_are_the_simulated_points(quick: bool) -> None:
    """So that both are in one plot: the same names, at values that the simulated curve has."""
    names = {one.name for batch in atop_live.live_runs(quick) for one in batch}
    assert names <= set(atop_points.points(quick))
    names = {one.name for batch in switching_live.live_runs(quick) for one in batch} - {switching_live.DELAY}
    assert names <= set(switching_points.points(quick))
    assert set(runs.LIVE) == {"atop", "switching"}
