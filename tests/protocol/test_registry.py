"""Orderers by name: what is unknown is answered with what was probably meant, and options are checked before a group begins."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from isotone.model.conflicts import Conflicts
from isotone.model.errors import ConfigError, RemoteProtocolError
from isotone.model.settings import EndpointConfig
from isotone.model.view import Ordering
from isotone.protocol.endpoint import Endpoint
from isotone.protocol.ordering import registry
from isotone.protocol.ordering.fifo import Fifo


@pytest.fixture(autouse=True)
def _registry_as_before() -> Iterator[None]:
    known = registry.ORDERERS._known
    before = dict(known)
    yield
    known.clear()
    known.update(before)


def test_every_orderer_is_found_by_its_name() -> None:
    assert {"fifo", "causal", "sequencer", "single_phase"} <= set(registry.names())
    assert registry.names() == sorted(registry.names())
    for name in registry.names():
        assert registry.find(name).name == name


@pytest.mark.parametrize(("given", "meant"), [("fifi", "fifo"), ("Casual", "causal"), ("single-phase", "single_phase")])
def test_an_unknown_order_names_the_nearest(given: str, meant: str) -> None:
    with pytest.raises(ConfigError, match=f"unknown order '{given}': did you mean '{meant}'"):
        registry.find(given)


def test_an_unknown_order_far_from_all_lists_the_valid_ones() -> None:
    with pytest.raises(ConfigError) as raised:
        registry.find("zzz")
    assert "did you mean" not in str(raised.value)
    assert all(name in str(raised.value) for name in registry.names())


@pytest.mark.parametrize("name", registry.names())
def test_defaults_and_all_listed_values_are_valid(name: str) -> None:
    registry.validate(Ordering(name))
    for option, values in registry.find(name).options.items():
        for value in values:
            registry.validate(Ordering(name, options={option: value}))


@pytest.mark.parametrize(
    ("ordering", "text"),
    [
        (Ordering("single_phase", options={"protocoll": 1}), "option of single_phase 'protocoll': did you mean 'protocol'"),
        (Ordering("single_phase", options={"protocol": 3}), "unknown value of option protocol '3'"),
        (Ordering("single_phase", options={"sites": "dynamical"}), "did you mean 'dynamic'"),
        (Ordering("sequencer", options={"fallback": "return"}), "did you mean 'returned'"),
        (Ordering("fifo", options={"protocol": 1}), "order 'fifo' has no options, got 'protocol'"),
        (Ordering("fifo", "save"), "unknown level 'save': did you mean 'safe'"),  # type: ignore[arg-type]
        (Ordering("fifo", "k", 0), "k is 0: must be at least 1"),
        (Ordering("fifo", conflicts=Conflicts.by_item()), "order 'fifo' looks at no conflict relation: one goes with "),
    ],
)
def test_what_cannot_be_run_is_refused_with_a_hint(ordering: Ordering, text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        registry.validate(ordering)
    with pytest.raises(ConfigError, match=text):
        Endpoint(EndpointConfig("a#1", ordering=ordering))


def test_what_a_peer_cannot_run_is_the_peers_fault() -> None:
    registry.validate_remote("b#1", Ordering("causal", "safe"))
    with pytest.raises(RemoteProtocolError, match="b#1 orders in a way that is not known here: unknown order 'atop9'"):
        registry.validate_remote("b#1", Ordering("atop9"))


def own_orderer(name: str) -> type[Fifo]:
    members: dict[str, Any] = {"name": name}
    return type("Own", (Fifo,), members)


def test_a_predicate_that_this_process_does_not_have_is_refused() -> None:
    lenient = own_orderer("lenient")
    lenient.semantic = True
    registry.register(lenient)
    registry.validate(Ordering("lenient", conflicts=Conflicts.by_predicate("test_registry.never", never)))
    with pytest.raises(ConfigError, match=r"the conflict predicate 'test_registry.never', version '2' is not known here"):
        registry.validate(Ordering("lenient", conflicts=Conflicts("predicate", name="test_registry.never", version="2")))


def never(type_a: object, items_a: object, type_b: object, items_b: object) -> bool:
    return False


def test_a_user_can_register_an_orderer_and_run_it() -> None:
    mine = own_orderer("mine")
    registry.register(mine)
    registry.register(mine)  # again is fine
    assert "mine" in registry.names()
    endpoint = Endpoint(EndpointConfig("a#1", ordering=Ordering("mine")))
    endpoint.start(0)
    endpoint.wake(0)
    endpoint.collect(0)
    assert endpoint.epoch is not None
    assert type(endpoint.epoch.orderer) is mine


def test_a_name_is_taken_once() -> None:
    with pytest.raises(ConfigError, match="'fifo' is registered already"):
        registry.register(own_orderer("fifo"))
