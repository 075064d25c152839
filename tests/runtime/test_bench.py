"""The benchmark runs, and says what it promises; the raw mesh packs and splits."""

from __future__ import annotations

import pytest

from isotone.model.errors import ConfigError
from isotone.runtime.bench import run_bench, run_one_sends, run_slow_consumer
from isotone.runtime.bench_member import messages_of
from isotone.runtime.bench_mesh import PACK_BYTES, pack, split

pytestmark = pytest.mark.live


def test_packs() -> None:
    for size in (20, 50, 1024):
        for messages in messages_of(1, size):
            packed = pack(messages)
            assert split(packed[4:]) == messages
            assert len(packed) <= PACK_BYTES + 4
            assert size * 0.8 < sum(map(len, messages)) / len(messages) < size * 1.2


def test_a_short_run() -> None:
    result = run_bench(2, 100, "sequencer", seconds=0.1, repeats=1, latency_s=0.2)
    assert result["identical"] is True
    assert result["messages_per_s"] > 1000
    assert 0 < result["ratio"] == pytest.approx(result["messages_per_s"] / result["bound_messages_per_s"], rel=0.01)
    assert result["latency_ms"]["p50"] <= result["latency_ms"]["p99"]
    assert {"order", "members", "size", "messages", "cpu_us_per_message", "async_for", "mesh"} <= set(result)


def test_a_short_run_with_one_sender() -> None:
    result = run_one_sends(3, 50, ["atop", "causal"], repeats=1, seconds=0.3)
    assert set(result["latency_ms"]) == {"atop", "causal"}
    assert result["p50_ratio"]["causal"] == 1.0
    assert 0 < result["p50_ratio"]["atop"] < 100


def test_a_short_run_with_a_slow_consumer() -> None:
    result = run_slow_consumer(2, 200, seconds=3.0)
    assert result["view_members"] == [2, 2]
    assert all(taken > 0 for taken in result["taken"])
    assert result["max_growth_mib"] < 20


@pytest.mark.parametrize(
    ("settings", "reason"), [({"members": 1}, "1 members"), ({"size": 1}, "size 1"), ({"order": "fifi"}, "did you mean")]
)
def test_wrong_settings(settings: dict[str, object], reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        run_bench(**settings)  # type: ignore[arg-type]
