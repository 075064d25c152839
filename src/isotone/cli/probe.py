"""`isotone probe`: how a live process is, or let its group switch the order, over the port that members use."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from isotone.codec import SwitchTold

REFUSED, UNKNOWN = 1, 3
RATE_S = 0.5
"""Rates are those of so long a time: the process is asked twice."""


def probe(
    address: Annotated[str, typer.Argument(metavar="HOST:PORT", help="Where a process of the group listens.")],
    action: Annotated[str | None, typer.Argument(metavar="switch", help="Without it, the status is shown.")] = None,
    order: Annotated[str | None, typer.Argument(metavar="ORDER", help="For switch: the orderer that is to be in force.")] = None,
    level: Annotated[str | None, typer.Option(help="For switch: agreed, k or safe; default: as it is.")] = None,
    k: Annotated[int | None, typer.Option(help="For switch to level k: how many members hold a message.")] = None,
    option: Annotated[list[str] | None, typer.Option(help="For switch: an option of the orderer, as name=value.")] = None,
    strategy: Annotated[str | None, typer.Option(help="For switch: dual_ids (default), dual, rabp or stop.")] = None,
    rule: Annotated[str | None, typer.Option(help="For switch: whose flags make the cut, all (default) or majority.")] = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="For switch: a fresh instance, also of what is in force.")] = False,
    group: Annotated[str | None, typer.Option(help="The group that it must be; default: whichever answers.")] = None,
    timeout: Annotated[
        float | None, typer.Option(min=0.01, max=600, help="Seconds to wait; default 3, and 30 for switch.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> int:
    """How a live process is, or let its group switch the order: exit status 0 fine, 1 refused, 2 bad input, 3 unknown."""
    import asyncio

    from isotone.model.errors import ConfigError, unknown

    if action is None:
        given = {"level": level, "k": k, "option": option, "strategy": strategy, "rule": rule, "fresh": fresh or None}
        for name, value in given.items():
            if value is not None:
                raise ConfigError(f"--{name} belongs to: isotone probe HOST:PORT switch ORDER")
        return asyncio.run(_status(address, group, timeout, as_json))
    if action != "switch":
        raise unknown("action", action, ("switch",))
    if order is None:
        raise ConfigError("switch to which order? isotone probe HOST:PORT switch ORDER")
    settings = {"level": level, "k": k, "strategy": strategy, "rule": rule or "all", "fresh": fresh}
    return asyncio.run(_switch(address, order, settings, option or [], group, timeout, as_json))


async def _status(address: str, group: str | None, timeout: float | None, as_json: bool) -> int:
    import asyncio
    import json
    import sys

    from isotone.runtime.probe import STATUS_S, status

    wait = STATUS_S if timeout is None else timeout
    try:
        first = await status(address, group=group, timeout=wait)
        await asyncio.sleep(RATE_S)
        found = await status(address, group=group, timeout=wait)
    except TimeoutError as error:
        print(f"isotone: {error}", file=sys.stderr)
        return UNKNOWN
    found["rates"] = _rates(first, found)
    if as_json:
        print(json.dumps(found, indent=2))
    else:
        _show(found)
    return 0


async def _switch(
    address: str,
    order: str,
    settings: dict[str, Any],
    options: list[str],
    group: str | None,
    timeout: float | None,
    as_json: bool,
) -> int:
    import json
    import sys

    from isotone.model.errors import NotSwitched
    from isotone.runtime.probe import SWITCH_S, switch
    from isotone.sim.scenario import parse_overrides

    wait = SWITCH_S if timeout is None else timeout
    told: SwitchTold | None = None
    reason, code = "", 0
    try:
        told = await switch(address, order, options=parse_overrides(options), group=group, timeout=wait, **settings)
    except NotSwitched as error:
        reason, code = str(error), REFUSED
    except TimeoutError as error:
        reason, code = f"{error}; the group may still switch", UNKNOWN
    if as_json:
        said = {"switched": told is not None, "reason": reason or None}
        said |= {name: getattr(told, name, None) for name in ("process", "view", "before", "after", "seconds")}
        print(json.dumps(said | {"switched": None} if code == UNKNOWN else said, indent=2))
    elif told is not None:
        print(f"{told.before} → {told.after}: in force at {told.process} in view {told.view} after {1e3 * told.seconds:.1f} ms")
    else:
        print(f"isotone: {reason}", file=sys.stderr)
    return code


def _rates(before: dict[str, Any], after: dict[str, Any]) -> dict[str, float] | None:
    """Messages per second between two looks; None if the process is another incarnation now."""
    span = after["uptime_s"] - before["uptime_s"]
    if before["process"] != after["process"] or span <= 0:
        return None
    return {f"{name}_per_s": round((after[name] - before[name]) / span, 1) for name in ("sent", "delivered")}


def _show(found: dict[str, Any]) -> None:
    """The status for people."""
    print(f"{found['process']} of group {found['group']} at {found['address']}, up {found['uptime_s']:.1f} s")
    for name, words in _lines(found):
        print(f"  {name:<9} {words}")


def _lines(found: dict[str, Any]) -> list[tuple[str, str]]:
    members, links, suspected = found["members"], found["links"], found["suspected"]
    view = f"{found['view']}, {_count(len(members), 'member')}" if found["view"] else "none yet"
    changing = f"; changing to {found['changing']}" if found["changing"] else ""
    lines = [("view", f"{view}, membership {found['membership']}{changing}")]
    if found["blocked"]:
        lines.append(("blocked", found["blocked"]))
    if found.get("obstacle"):
        lines.append(("obstacle", found["obstacle"]))
    for member in members:
        lines.append(("member", f"{member}  {_how(member, found, links.get(member), suspected.get(member))}"))
    for peer in (peer for peer in links if peer not in members):
        lines.append(("linked", f"{peer}  no member of the view; {_how(peer, found, links[peer], suspected.get(peer))}"))
    lines.append(("order", _order(found)))
    lines.append(("switch", _under_way(found)))
    rates = found["rates"]
    told = "unknown" if rates is None else f"{rates['sent_per_s']:g} sent and {rates['delivered_per_s']:g} delivered a second"
    lines.append(("messages", f"{found['sent']:,} sent by it, {found['delivered']:,} delivered; now {told}"))
    lines.append((
        "backlog", f"{found['pending']:,} messages to be sent; {_count(found['unstable_casts'], 'cast')} "
        f"({found['unstable_bytes']:,} bytes) not known to be everywhere; {found['backlog_bytes']:,} bytes that the application "
        "has not taken",
    ))  # fmt: skip
    if found["held_back_by"]:
        lines.append(("held back", f"by {', '.join(found['held_back_by'])}"))
    lines.append(("control", "probes may switch the order" if found["control"] else "probes may only look"))
    counters = {"packets_lost": found["packets_lost"], **found["counters"]}
    lines.append(("counted", ", ".join(f"{name} {count:,}" for name, count in counters.items() if count) or "nothing"))
    return lines


def _how(peer: str, found: dict[str, Any], link: dict[str, Any] | None, suspicion: str | None) -> str:
    if peer == found["process"]:
        return "this one"
    parts = [found["addresses"].get(peer) or ""]
    if link is None:
        parts.append("no link")
    else:
        queued = f", {link['queued_bytes']:,} bytes on the way" if link["queued_bytes"] else ""
        parts.append(f"heard {link['heard_ms_ago']:.0f} ms ago{queued}")
    if suspicion:
        parts.append(f"suspected ({suspicion})")
    if found["external"] and peer in found["external"]:
        parts.append("external")
    return ", ".join(part for part in parts if part)


def _order(found: dict[str, Any]) -> str:
    level = f"k = {found['k']}" if found["level"] == "k" else found["level"]
    options = "".join(f", {name}={value}" for name, value in found["options"].items())
    policy = f", chosen by the policy {found['policy']}" if found["policy"] else ""
    return f"{found['order']}, {level}{options}{policy}"


def _under_way(found: dict[str, Any]) -> str:
    done = f"{_count(found['instance'], 'switch', 'switches')} in this view"
    going = found["switch"]
    return f"{done}; {going['strategy']} to {going['to']}, {going['level']}: {going['phase']}" if going else done


def _count(count: int, one: str, many: str = "") -> str:
    return f"{count:,} {one if count == 1 else many or one + 's'}"
