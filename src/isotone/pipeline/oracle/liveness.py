"""The check of liveness, on the end of a history: did the group come together and deliver what it owed?

For each expected component: all its processes end correctly, in the same view, whose members are the component; they
installed it by `settled_by_ns`, if that is given; and every message that one of them sent in that view is delivered there
by all of them, or was returned to its sender.

The caller may say which components to expect, by process (`a#1`) or by name (`a`, its last incarnation). Otherwise the
network must have healed (no fault after the last heal), and one component is expected: the correct processes that
stopped no earlier than the last view was installed anywhere. Its view may then also hold correct processes that
stopped earlier, since they may have been leaving; processes that crashed must be gone from it.
"""

from collections.abc import Collection, Sequence

from isotone.pipeline.oracle.history import History, Log, Stretch
from isotone.pipeline.oracle.report import Finding, Tally
from isotone.pipeline.oracle.witness import Edge, Witness


class About:
    """Makes witnesses. Liveness speaks of whole components, so a witness holds all processes that are expected together."""

    def __init__(self, history: History, logs: Collection[Log]) -> None:
        self._history = history
        last = frozenset().union(*(log.installs[-1].members or () for log in logs if log.installs))
        also = [log for log in history.logs if log.name in last and log.correct]
        names = [log.name for log in (*logs, *also)]
        if not any(log.correct for log in (*logs, *also)):
            names += [log.name for log in history.logs if log.correct][:1]
        if not any(log.installs for log in (*logs, *also)):
            names += [log.name for log in history.logs if log.installs][:1]
        if history.last_fault is not None and history.healed_at is not None:
            names.append(history.healed_at)
        self._names = names

    def __call__(self, text: str, process: str, message: int | None = None) -> Witness:
        history = self._history
        views = [log.installs[-1].view for log in history.logs if log.installs and log.name in self._names]
        messages = [] if message is None else [message]
        lost = "" if message is None else history.message(message)
        edge = Edge(lost or f"last view of {process}", f"end of {process}", process, text)
        return history.witness(text, self._names, messages, [edge], views)


def liveness(history: History, components: Sequence[Collection[str]] | None = None, settled_by_ns: int | None = None) -> Finding:
    missing = history.lacks("view", "view.view_epoch", "view.members", "stop")
    if missing:
        return Finding(missing=missing)
    tally = Tally()
    if components is None:
        if history.last_fault is not None and history.last_fault > (history.last_heal or 0):
            return Finding(missing="heal after the last fault, nor a given set of expected components")
        last_install = [install.time for log in history.logs for install in log.installs[-1:]]
        ends = [log.end_time for log in history.logs if log.correct]
        times = [time for time in (*last_install, *ends) if time is not None]
        if len(times) < len(last_install) + len(ends):
            return Finding(missing="column time on view and stop rows")
        settled = max(time for time in last_install if time is not None)
        final = [log for log in history.logs if log.correct and log.installs and (log.end_time or 0) >= settled]
        leaving = {log.name for log in history.logs if log.correct}
        _judge(history, tally, final, leaving, settled_by_ns, About(history, final))
        return tally.finding()
    found = [[(name, _find(history, name)) for name in sorted(component)] for component in components]
    about = About(history, [log for component in found for _, log in component if log is not None])
    for expected in found:
        logs: list[Log] = []
        for name, log in expected:
            if log is None or not log.installs:
                tally.hit((0, 1), about, f"{name} is expected in a component, but installs no view", name)
            elif not log.correct:
                tally.hit((0, 1), about, f"{log.name} is expected in a component, but its trace does not end in stop", log.name)
            else:
                logs.append(log)
        _judge(history, tally, logs, set(), settled_by_ns, about)
    return tally.finding()


def _find(history: History, name: str) -> Log | None:
    if "#" in name:
        return next((log for log in history.logs if log.name == name), None)
    mine = [log for log in history.logs if log.name.rpartition("#")[0] == name and log.name.rpartition("#")[2].isdigit()]
    return max(mine, key=lambda log: int(log.name.rpartition("#")[2]), default=None)


def _judge(history: History, tally: Tally, logs: list[Log], also: set[str], settled_by_ns: int | None, about: About) -> None:
    if not logs:
        return
    first = logs[0]
    names = {log.name for log in logs}
    view = first.installs[-1].view
    for log in logs:
        last = log.installs[-1]
        if last.view != view:
            tally.hit(
                (0, 1), about, f"{first.name} ends in {history.view(view)}, {log.name} in {history.view(last.view)}", log.name
            )
    for log in logs:
        last = log.installs[-1]
        if last.view != view:
            continue
        members = last.members or frozenset()
        for name in sorted(members - names - also):
            tally.hit((0, 1), about, f"{log.name} ends in {history.view(view)}, which holds {name}", log.name)
        for name in sorted(names - members):
            tally.hit((0, 1), about, f"{log.name} ends in {history.view(view)}, which lacks {name}", log.name)
        if settled_by_ns is not None and (last.time is None or last.time > settled_by_ns):
            text = f"{log.name} installs its last view at {last.time} ns, later than {settled_by_ns} ns"
            tally.hit((0, 1), about, text, log.name)
    _delivered_everything(history, tally, [log for log in logs if log.installs[-1].view == view], view, about)


def _delivered_everything(history: History, tally: Tally, logs: list[Log], view: int, about: About) -> None:
    def messages(stretch: Stretch) -> set[int]:
        return {delivery.message for delivery in stretch.deliveries}

    have = [(log, messages(log.stretches[-1])) for log in logs]
    for sender in logs:
        returned = set(sender.returned)
        owed = {message for message in sender.sends if history.send_view[message] == view} - returned
        for log, delivered in have:
            for message in sorted(owed - delivered):
                text = f"{log.name} ends in {history.view(view)} without delivering {history.message(message)}"
                tally.hit((1, 1), about, text, log.name, message)
