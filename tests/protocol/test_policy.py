"""Switching policies: what a table says, what is decided, and by whom."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from isotone.model.errors import ConfigError, RemoteProtocolError
from isotone.model.ids import ViewId
from isotone.model.records import Echo, Seen
from isotone.model.settings import MS, SECOND
from isotone.model.view import Ordering, View
from isotone.protocol.ordering import registry
from isotone.protocol.ordering.fifo import Fifo
from isotone.protocol.switching import policy as policies
from isotone.protocol.switching.observe import PERIOD_NS, Observation
from isotone.protocol.switching.policy import (
    DWELL_NS,
    TIMES,
    Controller,
    Learned,
    Policy,
    concrete,
    find_policy,
    register_policy,
)
from isotone.protocol.switching.table import AXES, Predictor, Table, exp2, load_table, log2, packaged, parse_table

MEMBERS = ("a#1", "b#1", "c#1")
VIEW = View(ViewId(1, "a#1"), MEMBERS, Ordering("token", policy="learned"))


# --- the table -----------------------------------------------------------------------------------------------------


@given(st.integers(1, 1 << 60), st.integers(1, 1 << 60))
def test_logarithms_grow_and_can_be_undone(one: int, other: int) -> None:
    assert (one < other) <= (log2(one) <= log2(other))
    assert abs(exp2(log2(one)) - one) <= one >> 11
    assert log2(2 * one) == log2(one) + 4096


AXES_SMALL = {"members": [2, 8], "skew": [0, 1000], "per_second": [10, 1000], "delay_us": [1000, 10_000], "loss": [0, 20]}


def table(**orders: int | list[int]) -> Table:
    """A small table; a number stands for the same latency everywhere."""
    return Table(AXES_SMALL, {name: [given] * 32 if isinstance(given, int) else given for name, given in orders.items()})


def observation(batches: tuple[int, ...] = (10, 10, 10), seconds: int = 1, delay_us: int = 1000, loss: int = 0) -> Observation:
    return Observation(batches, seconds * SECOND, delay_us * 1000, loss)


def test_a_prediction_is_the_cell_at_its_point_and_between_cells_between() -> None:
    cells = list(range(1000, 1000 + 32 * 64, 64))
    predictor = Predictor(table(one=cells))
    index = 0
    for members in (2, 8):
        for skew in (0, 1000):
            for per_second in (10, 1000):
                for delay in (1000, 10_000):
                    for loss in (0, 20):
                        seen = observation((per_second,) + (0,) * (members - 1), 1, delay, loss)
                        assert abs(predictor.latency("one", seen, skew) - cells[index]) <= cells[index] // 500
                        index += 1
    low, high = predictor.latency("one", observation((10, 0)), 0), predictor.latency("one", observation((1000, 0)), 0)
    assert low < predictor.latency("one", observation((100, 0)), 0) < high
    assert predictor.latency("one", observation((1, 0), 10), 0) == low
    assert predictor.latency("one", observation((10_000, 0)), 0) == high
    assert predictor.latency("one", observation((10, 0), loss=700), 0) == predictor.latency(
        "one", observation((10, 0), loss=20), 0
    )


def test_a_member_that_sends_less_than_its_share_is_a_worse_seat() -> None:
    falling = [2000 - 1000 * (index // 8 % 2) for index in range(32)]
    predictor = Predictor(table(sequencer=falling))
    seen = observation((20, 8, 2))
    skews = [seen.skew(rank) for rank in range(3)]
    assert skews == [500, -100, -400]
    assert [seen.skew(rank, -1) for rank in range(3)] == [400, -200, -450]
    assert [seen.skew(rank, 1) for rank in range(3)] == [600, 0, -350]
    assert observation((9, 0, 0)).skew(0, -2) == 1000
    assert [observation((8, 1, 0)).skew(rank, deviations) for rank, deviations in ((0, 2), (1, -2))] == [1000, -500]
    latencies = [predictor.latency("sequencer", seen, skew) for skew in skews]
    assert latencies[0] < 2000 < latencies[1] < latencies[2]


def encoded(**changes: object) -> bytes:
    return msgspec.json.encode({"axes": AXES_SMALL, "orders": {"one": [1] * 32}, **changes})


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (b"{", "t.json: not a table of latencies: .*truncated"),
        (b"\xff", "t.json: not a table of latencies"),
        (b"[]", "Expected `object`"),
        (encoded(axis=1), "unknown field `axis`"),
        (encoded(axes={"members": [1, 2]}), "axes are members: must be members, skew, per_second, delay_us, loss"),
        (encoded(axes={**AXES_SMALL, "loss": [20, 0]}), "axis loss is .20, 0.: must be two or more growing numbers from 0 on"),
        (encoded(axes={**AXES_SMALL, "members": [0, 2]}), "axis members is .0, 2.: must be .* from 1 on"),
        (encoded(axes={**AXES_SMALL, "members": [2]}), "axis members is .2.: must be two or more"),
        (encoded(orders={}), "orders are missing"),
        (encoded(orders={"one": [1] * 31}), "one has 31 cells: the axes span 32"),
        (encoded(orders={"one": [0] * 32}), "one has a latency of 0: must be at least 1 µs"),
        (encoded(orders={"one": ["x"] * 32}), "Expected `int`, got `str`"),
    ],
)
def test_a_malformed_table_is_one_clear_line(text: bytes, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem) as caught:
        parse_table(text, "t.json")
    assert "\n" not in str(caught.value)


def test_a_missing_table_is_one_clear_line() -> None:
    with pytest.raises(ConfigError, match=r"no/such\.json: No such file"):
        load_table("no/such.json")


def test_the_packaged_table_knows_every_total_order() -> None:
    assert set(packaged().orders) <= set(registry.names())
    assert {"sequencer", "token", "atop", "all_ack"} <= set(packaged().orders)


# --- what is decided -----------------------------------------------------------------------------------------------


def learned(**orders: int | list[int]) -> Learned:
    """The policy with another table."""

    class Taught(Learned):
        @staticmethod
        def predictor() -> Predictor:
            return Predictor(table(**orders))

    return Taught(MEMBERS)


def test_a_gain_that_may_be_an_error_of_the_table_changes_nothing() -> None:
    policy = learned(atop=1000, token=1015)
    assert [policy.decide(observation(), Ordering("token"), 0) for _ in range(9)] == [None] * 9


def test_a_small_gain_must_be_seen_several_times_on_end() -> None:
    policy = learned(atop=1000, token=1035)
    now = [policy.decide(observation(), Ordering("token"), 0) for _ in range(TIMES)]
    assert now == [None] * (TIMES - 1) + [Ordering("atop")]
    policy = learned(atop=[1000, 1040] * 16, token=[1040, 1000] * 16)  # the second is better where there is loss
    for _ in range(9):
        assert policy.decide(observation(), Ordering("token"), 0) is None
        assert policy.decide(observation(loss=20), Ordering("token"), 0) is None


def test_a_large_gain_is_taken_at_once() -> None:
    assert learned(atop=1000, token=1200).decide(observation(), Ordering("token"), 0) == Ordering("atop")


def test_a_switch_must_be_worth_what_it_costs() -> None:
    """The messages of some delays wait for a delay, and longer where packets get lost."""

    def wanted(delay_us: int, loss: int = 0) -> Ordering | None:
        policy = learned(atop=1000, token=1300)
        return [policy.decide(observation(delay_us=delay_us, loss=loss), Ordering("token"), 0) for _ in range(TIMES)][-1]

    assert wanted(1_000) == wanted(40_000) == wanted(1_000, 20) == Ordering("atop")
    assert wanted(100_000) is None
    assert wanted(40_000, 20) is None


def test_chance_is_no_skew() -> None:
    """Where all send alike one of them has sent most, by chance; what a skew makes better is not chosen for that."""
    falling = [1000 - 900 * (index // 8 % 2) for index in range(32)]
    policy = learned(atop=falling, token=950)
    assert [policy.decide(observation((9, 8, 11)), Ordering("token"), 0) for _ in range(4)] == [None] * 4
    assert [policy.decide(observation((80, 70, 130)), Ordering("token"), 0) for _ in range(TIMES)][-1] == Ordering("atop")


def test_the_sequencer_goes_where_most_messages_come_from() -> None:
    falling = [2000 - 1400 * (index // 8 % 2) for index in range(32)]
    policy = learned(sequencer=falling, token=1900)
    busy = observation((1, 2, 60))
    wanted = [policy.decide(busy, Ordering("token"), 0) for _ in range(TIMES)][-1]
    assert wanted == Ordering("sequencer", options={"at": "c"})
    assert [policy.decide(busy, wanted, 0) for _ in range(4)] == [None] * 4
    moved = [policy.decide(observation((1, 60, 2)), wanted, 0) for _ in range(TIMES)][-1]
    assert moved == Ordering("sequencer", options={"at": "b"})


def test_the_sequencer_does_not_go_from_one_to_another_by_chance() -> None:
    """Two members send alike; now the one, now the other is ahead by a few."""
    falling = [2000 - 1400 * (index // 8 % 2) for index in range(32)]
    policy = learned(sequencer=falling, token=1900)
    seat = Ordering("sequencer", options={"at": "b"})
    assert [policy.decide(observation((1, 8, 15)), seat, 0) for _ in range(2 * TIMES)] == [None] * (2 * TIMES)
    moved = [policy.decide(observation((10, 80, 150)), seat, 0) for _ in range(TIMES)][-1]
    assert moved == Ordering("sequencer", options={"at": "c"})


def test_a_sequencer_is_not_left_for_what_may_be_chance() -> None:
    """Its member sent less than it usually does: of few messages that says nothing."""
    falling = [2000 - 1400 * (index // 8 % 2) for index in range(32)]
    policy = learned(sequencer=falling, token=1700)
    seat = Ordering("sequencer", options={"at": "b"})
    assert [policy.decide(observation((3, 3, 4)), seat, 0) for _ in range(2 * TIMES)] == [None] * (2 * TIMES)
    assert policy.decide(observation((300, 300, 400)), seat, 0) == Ordering("token")


def test_the_busiest_never_counts_as_one_that_sends_less_than_the_others() -> None:
    """Where all send alike a sequencer is as good as it is then, at whoever sent most."""
    falling = [2000 - 1400 * (index // 8 % 2) for index in range(32)]
    policy = learned(sequencer=falling, token=2100)
    seat = policy.decide(observation((10, 11, 10)), Ordering("token"), 0) or policy.decide(
        observation((10, 11, 10)), Ordering("token"), 0
    )
    assert seat == Ordering("sequencer", options={"at": "b"})


def test_loss_adds_to_the_latency_in_proportion() -> None:
    predictor = Predictor(table(one=[1000, 41_000] * 16))
    assert [predictor.latency("one", observation(loss=loss), 0) for loss in (0, 5, 10, 20, 50)] == pytest.approx(
        [1000, 11_000, 21_000, 41_000, 41_000], rel=0.002
    )


def test_what_the_table_does_not_know_is_left() -> None:
    policy = learned(atop=1000)
    assert [policy.decide(observation(), Ordering("causal"), 0) for _ in range(TIMES)][-1] == Ordering("atop")


class Restless(Policy):
    """Something else every time."""

    name = "restless"

    @classmethod
    def first(cls) -> tuple[str, dict[str, int | str | bool]]:
        return "atop", {"slots": "random"}

    def decide(self, observation: Observation, current: Ordering, now: int) -> Ordering | None:
        return Ordering("atop" if current.order == "token" else "token")


@pytest.fixture
def restless() -> Iterator[None]:
    register_policy(Restless)
    yield
    del policies.POLICIES._known["restless"]


@pytest.mark.usefixtures("restless")
def test_the_controller_asks_once_per_period_and_rests_after_a_view_and_a_switch() -> None:
    sent: list[tuple[str, Echo]] = []
    view = View(VIEW.id, MEMBERS, Ordering("token", "k", 2, {}, policy="restless"))
    controller = Controller(view, 0, lambda peer, echo: sent.append((peer, echo)))
    decided = []
    current = view.ordering
    for turn, now in enumerate(range(0, 4 * DWELL_NS, PERIOD_NS // 2)):
        wanted = controller.wake(current, Seen(2 * turn, 0, 0), now)
        for peer, echo in sent:
            assert echo.seen is None
            controller.observer.answered(peer, echo.at, Seen(2 * turn, 0, 0), now + MS)
        sent.clear()
        if wanted is not None:
            decided.append(now)
            current = wanted
            assert current == Ordering("atop" if len(decided) % 2 else "token", "k", 2, {}, policy="restless")
    rest = DWELL_NS + PERIOD_NS  # it sees the switch when the next period is over
    assert decided == [DWELL_NS, DWELL_NS + rest, DWELL_NS + 2 * rest]


# --- names ---------------------------------------------------------------------------------------------------------


def test_auto_is_what_the_learned_policy_begins_with() -> None:
    ordering = concrete(Ordering("auto", "k", 2))
    assert ordering == Ordering(Learned.first()[0], "k", 2, {}, policy="learned")
    registry.validate(ordering)
    registry.validate(Ordering("auto"))
    assert concrete(ordering) is ordering
    assert find_policy("learned") is Learned
    assert policies.POLICIES.names() == ["learned"]


@pytest.mark.usefixtures("restless")
def test_auto_can_mean_a_policy_of_ones_own() -> None:
    ordering = concrete(Ordering("auto", options={"policy": "restless"}))
    assert ordering == Ordering("atop", options={"slots": "random"}, policy="restless")


def test_the_policies_of_the_documentation_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = (Path(__file__).resolve().parents[2] / "docs" / "policy.md").read_text()
    code = [block for block in re.findall(r"```python\n(.*?)```", page, re.DOTALL) if "register_policy" in block]
    assert len(code) == 2
    (tmp_path / "mine.json").write_bytes(msgspec.json.encode(table(atop=1000, token=1200)))
    monkeypatch.chdir(tmp_path)
    try:
        for block in code:
            exec(block, {"__name__": "documentation"})
        assert concrete(Ordering("auto", options={"policy": "mine"})) == Ordering("atop", policy="mine")
        assert concrete(Ordering("auto", options={"policy": "loudest"})) == Ordering("token", policy="loudest")
        loudest = find_policy("loudest")(MEMBERS)
        assert loudest.decide(observation((1, 30, 2)), Ordering("token"), 0) == Ordering("sequencer", options={"at": "b"})
        assert loudest.decide(observation(), Ordering("token"), 0) == Ordering("token")
    finally:
        for name in ("mine", "loudest"):
            policies.POLICIES._known.pop(name, None)


@pytest.mark.parametrize(
    ("ordering", "problem"),
    [
        (Ordering("auto", options={"policy": "lerned"}), "unknown switching policy 'lerned': did you mean 'learned'"),
        (Ordering("auto", options={"polici": "learned"}), "unknown option of auto 'polici': did you mean 'policy'"),
        (Ordering("auto", options={"policy": 1}), "option policy of auto is 1: must be a text"),
        (Ordering("autop"), "unknown order 'autop': did you mean"),
        (Ordering("token", policy="lerned"), "unknown switching policy 'lerned'"),
        (Ordering("fifo", policy="learned"), "policy 'learned' chooses among total orders: 'fifo' is none"),
    ],
)
def test_what_cannot_be_is_one_clear_line(ordering: Ordering, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        registry.validate(ordering)


@pytest.mark.parametrize("ordering", [Ordering("auto"), Ordering("token", policy="lerned"), Ordering("causal", policy="learned")])
def test_a_peer_that_names_what_cannot_be_is_refused(ordering: Ordering) -> None:
    with pytest.raises(RemoteProtocolError, match="b#1 orders in a way that is not known here"):
        registry.validate_remote("b#1", ordering)


def test_nothing_else_can_have_the_names() -> None:
    class Other(Policy):
        name = "learned"

    class Auto(Fifo):
        name = "auto"

    with pytest.raises(ConfigError, match="a switching policy named 'learned' is registered already"):
        register_policy(Other)
    with pytest.raises(ConfigError, match="an orderer cannot be named 'auto'"):
        registry.register(Auto)


def test_the_axes_are_those_of_the_documentation() -> None:
    assert AXES == ("members", "skew", "per_second", "delay_us", "loss")
