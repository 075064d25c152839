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

from isotone.pipeline.oracle.history import NO_VIEW, History, Install, Log
from isotone.pipeline.oracle.report import Finding, Tally
from isotone.pipeline.oracle.witness import Edge, Witness


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
                one, two = (name, members), (log.name, install.members)
                tally.hit((0, 1 + (name != log.name)), _two_memberships, history, install.view, one, two)
    return tally.finding()


def _two_memberships(history: History, view: int, one: tuple[str, frozenset[str]], two: tuple[str, frozenset[str]]) -> Witness:
    text = f"{history.view(view)} has the members {_list(one[1])} at {one[0]} and {_list(two[1])} at {two[0]}"
    edges = [Edge(history.view(view), _list(members), name, f"{name} installs it so") for name, members in (one, two)]
    return history.witness(text, [one[0], two[0]], edges=edges, views=[view])


def initial_view(history: History) -> Finding:
    missing = history.lacks("view", "view.view_epoch")
    if missing:
        return Finding(missing=missing)
    tally = Tally()
    for log in history.logs:
        for install in log.installs:
            if history.views[install.view][0] == 0:
                text = f"{log.name} installs {history.view(install.view)}, which has the initial epoch"
                tally.hit((0, 1), _alone, history, log, text, (install,))
    return tally.finding()


def view_monotony(history: History) -> Finding:
    missing = history.lacks("view", "view.view_epoch")
    if missing:
        return Finding(missing=missing)
    tally = Tally()
    for log in history.logs:
        for earlier, later in pairwise(log.installs):
            if history.views[later.view] <= history.views[earlier.view]:
                text = f"{log.name} installs {history.view(later.view)} after {history.view(earlier.view)}"
                tally.hit((0, 1), _alone, history, log, text, (earlier, later))
    return tally.finding()


def self_inclusion(history: History) -> Finding:
    missing = history.lacks("view", "view.members")
    if missing:
        return Finding(missing=missing)
    tally = Tally()
    for log in history.logs:
        for install in log.installs:
            if install.members is not None and log.name not in install.members:
                text = f"{log.name} installs {history.view(install.view)}, whose members are {_list(install.members)}"
                tally.hit((0, 1), _alone, history, log, text, (install,))
    return tally.finding()


def _alone(history: History, log: Log, text: str, installs: tuple[Install, ...]) -> Witness:
    """What one process shows by the views it installs."""
    edge = Edge(history.view(installs[0].view), history.view(installs[-1].view), log.name, text)
    return history.witness(text, [log.name], edges=[edge], views=[install.view for install in installs])


def sending_view(history: History) -> Finding:
    missing = history.lacks("deliver", "deliver.view_epoch", "send", "send.view_epoch")
    if missing:
        return Finding(missing=missing)
    tally = Tally()
    for log in history.logs:
        for message, named, installed in log.misplaced:
            text = (
                f"{log.name} delivers {history.message(message)} in {history.view(named)} "
                f"while {history.view(installed)} is installed"
            )
            tally.hit((1, 1), _wrong_view, history, log, message, text, (named, installed))
        for delivery in log.deliveries:
            sent = history.send_view[delivery.message]
            if sent != delivery.view and sent != NO_VIEW and delivery.view != NO_VIEW:
                text = (
                    f"{log.name} delivers {history.message(delivery.message)} in {history.view(delivery.view)}, "
                    f"but it was sent in {history.view(sent)}"
                )
                tally.hit((1, 1), _wrong_view, history, log, delivery.message, text, (sent, delivery.view))
    return tally.finding()


def _wrong_view(history: History, log: Log, message: int, text: str, views: tuple[int, int]) -> Witness:
    edge = Edge(history.view(views[0]), history.view(views[1]), log.name, text)
    sends = history.a_send([message], in_a_view=True)
    return history.witness(text, [log.name], [message, *sends], [edge], views)


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
                size = (1, 1 + (name != log.name))
                tally.hit(size, _two_views, history, delivery.message, (name, view), (log.name, delivery.view))
    return tally.finding()


def _two_views(history: History, message: int, one: tuple[str, int], two: tuple[str, int]) -> Witness:
    text = f"{one[0]} delivers {history.message(message)} in {history.view(one[1])}, {two[0]} in {history.view(two[1])}"
    edges = [Edge(history.message(message), history.view(view), name, f"{name} delivers it there") for name, view in (one, two)]
    return history.witness(text, [one[0], two[0]], [message], edges, [one[1], two[1]])


def sender_in_view(history: History) -> Finding:
    missing = history.lacks("deliver", "deliver.view_epoch", "view", "view.members")
    if missing:
        return Finding(missing=missing)
    tally = Tally()
    members: dict[int, tuple[frozenset[str], str]] = {}
    for log in history.logs:
        for install in log.installs:
            if install.members is not None:
                members.setdefault(install.view, (install.members, log.name))
    actors = {view: {a for a, name in enumerate(history.actors) if name in names} for view, (names, _) in members.items()}
    for log in history.logs:
        for delivery in log.deliveries:
            inside = actors.get(delivery.view)
            if inside is not None and history.origin[delivery.message] not in inside:
                names, by = members[delivery.view]
                tally.hit((1, 1 + (by != log.name)), _outsider, history, log, delivery.message, delivery.view, names, by)
    return tally.finding()


def _outsider(history: History, log: Log, message: int, view: int, members: frozenset[str], by: str) -> Witness:
    text = f"{log.name} delivers {history.message(message)} in {history.view(view)}, whose members are {_list(members)}"
    edge = Edge(history.message(message), history.view(view), log.name, text)
    return history.witness(text, [log.name, by], [message], [edge], [view])


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
                tally.hit((2, 1), _gap, history, log, before, message)
            delivered.add(message)
    return tally.finding()


def _gap(history: History, log: Log, before: int, message: int) -> Witness:
    when = "later" if before in log.delivered else "never"
    view = history.send_view[message]
    text = (
        f"{log.name} delivers {history.message(message)}, but {when} {history.message(before)}, "
        f"sent before it in {history.view(view)}"
    )
    origin = history.actors[history.origin[message]]
    edges = [
        history.edge(before, message, origin, f"{origin} sends it first, in {history.view(view)}"),
        history.edge(message, before, log.name, f"{log.name} delivers the first {when}"),
    ]
    processes, messages = history.a_delivery([log.name], [before, message], lambda delivery: delivery.view != NO_VIEW)
    return history.witness(text, [log.name, *processes], [before, message, *messages], edges, [view])


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
