"""Checks about views themselves, and about messages in relation to one view.

- *view_identity*: views with different members have different ids.
- *initial_view*: no installed view has the initial epoch, 0.
- *view_monotony*: each process installs views in increasing order of `(epoch, proposer)`.
- *self_inclusion*: a process is a member of every view it installs.
- *sending_view*: what is delivered in a view was sent in that view; and the view a delivery names is the installed one.
- *same_view*: a message is delivered in the same view wherever it is delivered.
- *sender_in_view*: its sender is a member of the view it is delivered in.
- *reliable_fifo*: a process that delivers a message delivered before it all that its sender sent before it in that view.
"""

from itertools import pairwise

from isotone.pipeline.oracle.history import NO_VIEW, History
from isotone.pipeline.oracle.report import Finding, Tally


def view_identity(history: History) -> Finding:
    missing = history.lacks("view", "view.view_epoch", "view.members")
    if missing:
        return Finding(missing=missing)
    tally = Tally()
    first: dict[int, tuple[frozenset[str], str]] = {}
    for log in history.logs:
        for install in log.installs:
            if install.members is None:
                continue
            members, name = first.setdefault(install.view, (install.members, log.name))
            if members != install.members:
                tally.hit(
                    f"{history.view(install.view)} has the members {_list(members)} at {name} "
                    f"and {_list(install.members)} at {log.name}"
                )
    return tally.finding()


def initial_view(history: History) -> Finding:
    missing = history.lacks("view", "view.view_epoch")
    if missing:
        return Finding(missing=missing)
    tally = Tally()
    for log in history.logs:
        for install in log.installs:
            if history.views[install.view][0] == 0:
                tally.hit(f"{log.name} installs {history.view(install.view)}, which has the initial epoch")
    return tally.finding()


def view_monotony(history: History) -> Finding:
    missing = history.lacks("view", "view.view_epoch")
    if missing:
        return Finding(missing=missing)
    tally = Tally()
    for log in history.logs:
        for earlier, later in pairwise(log.installs):
            if history.views[later.view] <= history.views[earlier.view]:
                tally.hit(f"{log.name} installs {history.view(later.view)} after {history.view(earlier.view)}")
    return tally.finding()


def self_inclusion(history: History) -> Finding:
    missing = history.lacks("view", "view.members")
    if missing:
        return Finding(missing=missing)
    tally = Tally()
    for log in history.logs:
        for install in log.installs:
            if install.members is not None and log.name not in install.members:
                tally.hit(f"{log.name} installs {history.view(install.view)}, whose members are {_list(install.members)}")
    return tally.finding()


def sending_view(history: History) -> Finding:
    missing = history.lacks("deliver", "deliver.view_epoch", "send", "send.view_epoch")
    if missing:
        return Finding(missing=missing)
    tally = Tally()
    for log in history.logs:
        for message, named, installed in log.misplaced:
            tally.hit(
                f"{log.name} delivers {history.message(message)} in {history.view(named)} "
                f"while {history.view(installed)} is installed"
            )
        for delivery in log.deliveries:
            sent = history.send_view[delivery.message]
            if sent != delivery.view and sent != NO_VIEW and delivery.view != NO_VIEW:
                tally.hit(
                    f"{log.name} delivers {history.message(delivery.message)} in {history.view(delivery.view)}, "
                    f"but it was sent in {history.view(sent)}"
                )
    return tally.finding()


def same_view(history: History) -> Finding:
    missing = history.lacks("deliver", "deliver.view_epoch")
    if missing:
        return Finding(missing=missing)
    tally = Tally()
    first: dict[int, tuple[int, str]] = {}
    for log in history.logs:
        for delivery in log.deliveries:
            if delivery.view == NO_VIEW:
                continue
            view, name = first.setdefault(delivery.message, (delivery.view, log.name))
            if view != delivery.view:
                tally.hit(
                    f"{name} delivers {history.message(delivery.message)} in {history.view(view)}, "
                    f"{log.name} in {history.view(delivery.view)}"
                )
    return tally.finding()


def sender_in_view(history: History) -> Finding:
    missing = history.lacks("deliver", "deliver.view_epoch", "view", "view.members")
    if missing:
        return Finding(missing=missing)
    tally = Tally()
    members: dict[int, frozenset[str]] = {}
    for log in history.logs:
        for install in log.installs:
            if install.members is not None:
                members.setdefault(install.view, install.members)
    actors = {view: {a for a, name in enumerate(history.actors) if name in names} for view, names in members.items()}
    for log in history.logs:
        for delivery in log.deliveries:
            inside = actors.get(delivery.view)
            if inside is not None and history.origin[delivery.message] not in inside:
                tally.hit(
                    f"{log.name} delivers {history.message(delivery.message)} in {history.view(delivery.view)}, "
                    f"whose members are {_list(members[delivery.view])}"
                )
    return tally.finding()


def reliable_fifo(history: History) -> Finding:
    missing = history.lacks("deliver", "deliver.view_epoch", "send", "send.view_epoch")
    if missing:
        return Finding(missing=missing)
    tally = Tally()
    predecessor = _predecessors(history)
    for log in history.logs:
        delivered: set[int] = set()
        for message in log.order:
            before = predecessor.get(message)
            if before is not None and before not in delivered:
                when = "later" if before in log.delivered else "never"
                tally.hit(
                    f"{log.name} delivers {history.message(message)}, but {when} {history.message(before)}, "
                    f"sent before it in {history.view(history.send_view[message])}"
                )
            delivered.add(message)
    return tally.finding()


def _predecessors(history: History) -> dict[int, int]:
    """Of each message the one its sender sent just before it in the same view; if every one is kept, all are."""
    predecessor: dict[int, int] = {}
    for log in history.logs:
        last: dict[int, int] = {}
        for message in log.sends:
            view = history.send_view[message]
            if view == NO_VIEW:
                continue
            if view in last:
                predecessor[message] = last[view]
            last[view] = message
    return predecessor


def _list(names: frozenset[str]) -> str:
    return " ".join(sorted(names)) or "nobody"
