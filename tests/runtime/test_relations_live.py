"""Conflict relations over real connections: refusal, errors at `send`, and what the trace says."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest

import isotone
from isotone.model.conflicts import named
from isotone.model.errors import Closed, ConfigError
from isotone.model.settings import MS
from isotone.runtime.group import LIVE_TIMING
from isotone.trace import read_trace
from tests.runtime.helpers import free_addresses, members, run, take, together

pytestmark = pytest.mark.live

COUNTER = isotone.Conflicts.by_operation({"update": ["update", "increment"], "increment": []})
LOOSE = isotone.Conflicts.by_operation({"update": ["update"], "increment": []})


def test_another_relation_and_a_plain_order_are_refused() -> None:
    async def main() -> None:
        async with members("a", "b", order="semantic_total", conflicts=COUNTER) as (a, b):
            with pytest.raises(Closed, match="type 'increment' conflicts with 'update' at"):
                await isotone.join("test", name="x", seeds=[a.address], order="semantic_total", conflicts=LOOSE).start()
            with pytest.raises(Closed, match="different conflict relations"):
                await isotone.join("test", name="y", seeds=[a.address]).start()
            assert together(a, b)

    run(main())


def test_who_would_found_a_group_with_another_relation_is_told_and_founds_none(caplog: pytest.LogCaptureFixture) -> None:
    timing = msgspec.structs.replace(LIVE_TIMING, probe_ns=20 * MS, name_conflict_ns=4_000 * MS)

    async def main() -> None:
        addresses = free_addresses(2)
        groups = [
            isotone.join(
                "test", name=name, listen=own, seeds=addresses, order="semantic_total", conflicts=relation, timing=timing
            )
            for name, own, relation in zip("ab", addresses, (COUNTER, LOOSE), strict=True)
        ]  # fmt: skip
        for outcome in await asyncio.gather(*(group.start() for group in groups), return_exceptions=True):
            assert isinstance(outcome, Closed)
            assert "type 'increment' conflicts with 'update' at a#" in str(outcome)

    run(main())
    waiting = [record.getMessage() for record in caplog.records if "still trying" in record.getMessage()]
    assert any("different conflict relations" in message for message in waiting), waiting


def test_a_message_that_the_relation_does_not_know_is_an_error_at_send(tmp_path: Path) -> None:
    async def main() -> None:
        async with members("a", "b", order="semantic_total", conflicts=COUNTER, trace=tmp_path) as (a, b):
            for wrong in (a.send(b"1", type="updat"), a.send_many([b"1", b"2"], types=["update", "updat"])):
                with pytest.raises(ConfigError, match="unknown message type 'updat': did you mean 'update'"):
                    await wrong
            with pytest.raises(ConfigError, match="unknown message type 'updat'"):
                a.try_send(b"1", type="updat")
            await a.send(b"fine", type="update")
            assert [d.payload for d in await take(b, 1)] == [b"fine"]

    run(main())
    starts = [row for row in read_trace([tmp_path]).rows if row["kind"] == "start"]
    assert [dict(row["detail"])["conflicts"] for row in starts] == [named(COUNTER)] * 2


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"conflicts": COUNTER}, "order 'single_phase' looks at no conflict relation: one goes with semantic_causal"),
        ({"order": "auto", "conflicts": COUNTER}, "order 'auto' looks at no conflict relation: one goes with semantic_causal"),
        ({"order": "semantic_total", "conflicts": {"by": "item"}}, r"must be isotone.Conflicts, such as Conflicts.by_item\(\)"),
        (
            {"order": "semantic_total", "conflicts": isotone.Conflicts("predicate", name="nobody's")},
            'the conflict predicate "nobody\'s" is not known here',
        ),
    ],
)
def test_settings_that_do_not_go_together(settings: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        isotone.join("test", name="a", **settings)
