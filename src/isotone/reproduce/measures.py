"""Measures of the reproduction: functions of the Arrow table of a run (see `docs/sweep.md`), in NumPy.

*Settled* is what was sent after the first third of the sending: adaptive protocols have adapted by then. Latencies are in
milliseconds. Control records are the rows of kind `packet` from the first send on: `multicasts` counts a record once, `records`
once per receiver.
"""

import json
from collections.abc import Callable
from typing import Any, Final

import numpy as np

TICK_NS: Final = 100_000_000
SHOWN_TICKS: Final = 120
WATCHED: Final = "quick1"
"""The sender whose deliveries per tick Figures 7 and 8 of paper 000 show."""
STEADY_KINDS: Final = ("heartbeat", "probe", "token")
"""Control records that flow also when nobody comes or goes."""
MS: Final = 1e6


class Messages:
    """Sends and first deliveries of a run, matched; processes are numbered."""

    def __init__(self, table: Any) -> None:
        kind = _codes(table, "kind")
        self.kind = kind[0]
        self.kinds = {word: code for code, word in enumerate(kind[1])}
        process, self.processes = _codes(table, "process")
        origin, origins = _codes(table, "origin")
        number = _ints(table, "number")
        time = _ints(table, "time")
        key = (origin + 1) * (int(number.max(initial=0)) + 2) + number
        self.process, self.time = process, time
        sends = self.where("send")
        order = np.argsort(key[sends], kind="stable")
        self.send_row = sends[order]
        self.send_key = key[sends][order]
        self.send_time = time[sends][order]
        self.send_process = process[sends][order]
        self.send_number = number[sends][order]
        self.sent = len(sends)
        self.receive = self._matched("receive", key)
        self.deliver = self._matched("deliver", key)
        first, last = (int(self.send_time.min()), int(self.send_time.max())) if self.sent else (0, 0)
        self.first_send = first
        self.settled = first + (last - first) // 3
        self.origins = origins

    def where(self, kind: str) -> Any:
        """The places of the rows of a kind."""
        return np.flatnonzero(self.kind == self.kinds.get(kind, -1))

    def _matched(self, kind: str, key: Any) -> "Happened":
        places = self.where(kind)
        index = np.searchsorted(self.send_key, key[places])
        index = np.minimum(index, max(0, len(self.send_key) - 1))
        known = self.send_key[index] == key[places] if len(self.send_key) else np.zeros(len(places), bool)
        places, index = places[known], index[known]
        pair = index * (len(self.processes) + 1) + self.process[places]
        _, firsts = np.unique(pair, return_index=True)
        places, index = places[firsts], index[firsts]
        return Happened(index, self.process[places], self.time[places])


class Happened:
    """Receipts or deliveries: which message (index among the sends by key), where, when; sorted by both."""

    def __init__(self, message: Any, process: Any, time: Any) -> None:
        self.message, self.process, self.time = message, process, time


def _codes(table: Any, column: str) -> tuple[Any, list[str]]:
    encoded = table[column].combine_chunks().dictionary_encode()
    if hasattr(encoded, "chunks"):
        encoded = encoded.combine_chunks()
    return encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64), encoded.dictionary.to_pylist()


def _ints(table: Any, column: str) -> Any:
    return table[column].cast("int64").fill_null(0).to_numpy()


def _mean(values: Any) -> float | None:
    return float(values.mean()) / MS if len(values) else None


def latency(table: Any) -> dict[str, Any]:
    """From the send to the delivery: at all members, at the others, and to the first delivery anywhere; settled messages."""
    run = Messages(table)
    done = run.deliver
    took = done.time - run.send_time[done.message]
    late = run.send_time[done.message] >= run.settled
    remote = late & (done.process != run.send_process[done.message])
    firsts = np.full(run.sent, np.iinfo(np.int64).max)
    np.minimum.at(firsts, done.message, done.time)
    some = (firsts < np.iinfo(np.int64).max) & (run.send_time >= run.settled)
    result: dict[str, Any] = {
        "sent": run.sent,
        "deliveries": len(done.time),
        "mean_ms": _mean(took[late]),
        "remote_ms": _mean(took[remote]),
        "first_ms": _mean(firsts[some] - run.send_time[some]),
        "first_count": int(some.sum()),
        "first_deviation_ms": float((firsts[some] - run.send_time[some]).std()) / MS if some.any() else None,
        "early_ms": _mean(took[~late]),
    }
    if remote.any():
        result["remote_min_ms"] = float(took[remote].min()) / MS
        result["remote_max_ms"] = float(took[remote].max()) / MS
        result["remote_p99_ms"] = float(np.quantile(took[remote], 0.99, method="inverted_cdf")) / MS
    return result


def reach(table: Any) -> dict[str, Any]:
    """From the send of a message to its last delivery, over all messages that somebody delivered."""
    run = Messages(table)
    done = run.deliver
    last = np.zeros(run.sent, np.int64)
    np.maximum.at(last, done.message, done.time)
    took = (last - run.send_time)[last > 0]
    if not len(took):
        return {}
    return {"reach_min_ms": float(took.min()) / MS, "reach_max_ms": float(took.max()) / MS, "reach_mean_ms": _mean(took)}


def by_type(table: Any) -> dict[str, Any]:
    """The mean latency of settled messages at all members, for each type of message."""
    run = Messages(table)
    types, words = _codes(table, "type")
    done = run.deliver
    took = done.time - run.send_time[done.message]
    late = run.send_time[done.message] >= run.settled
    of = types[run.send_row][done.message]
    return {f"{word}_ms": _mean(took[late & (of == code)]) for code, word in enumerate(words)}


def ticks(table: Any) -> dict[str, Any]:
    """Deliveries per tick of the watched sender's messages: variance at each other member, and a stretch as it was at one."""
    run = Messages(table)
    watched = [code for code, name in enumerate(run.processes) if name.startswith(f"{WATCHED}#")]
    if not watched or not run.sent:
        return {}
    begin = (run.settled // TICK_NS + 1) * TICK_NS
    count = int((run.send_time.max() - begin) // TICK_NS)
    mine = run.send_process == watched[0]
    sends = _per_tick(run.send_time[mine], begin, count)
    variances, means, shown = [], [], None
    done = run.deliver
    for code in range(len(run.processes)):
        here = mine[done.message] & (done.process == code)
        if code != watched[0] and here.any():
            delivered = _per_tick(done.time[here], begin, count)
            variances.append(float(delivered.var()))
            means.append(_rate(done.time[here], begin, begin + count * TICK_NS))
            shown = delivered if shown is None else shown
    return {
        "tick_variance": float(np.mean(variances)),
        "tick_mean": float(np.mean(means)),
        "tick_sent_variance": float(sends.var()),
        "tick_sent_mean": float(sends.mean()),
        "tick_sends": json.dumps(sends[:SHOWN_TICKS].tolist()),
        "tick_deliveries": json.dumps([] if shown is None else shown[:SHOWN_TICKS].tolist()),
    }


def _rate(times: Any, begin: int, end: int) -> float:
    """Deliveries per tick from the last one before the beginning to the last one before the end: bursts count whole."""
    before, within = times[times <= begin], times[(times > begin) & (times <= end)]
    if not len(within):
        return 0.0
    return len(within) * TICK_NS / float(within.max() - before.max(initial=min(begin, int(times.min()))))


def _per_tick(times: Any, begin: int, count: int) -> Any:
    place = (times - begin) // TICK_NS
    return np.bincount(place[(place >= 0) & (place < count)], minlength=count)


def control(table: Any) -> dict[str, Any]:
    """Control records by kind, per message; and whether acknowledgements ever ran ahead of (N - 1) per message."""
    run = Messages(table)
    places = run.where("packet")
    places = places[run.time[places] >= run.first_send]
    packet, words = _codes(table, "packet")
    count, fanout = _ints(table, "count"), _ints(table, "fanout")
    sent = max(1, run.sent)
    result: dict[str, Any] = {}
    for code, word in enumerate(words):
        these = places[packet[places] == code]
        if len(these):
            result[f"multicasts_{word}"] = float(count[these].sum()) / sent
            result[f"records_{word}"] = float((count[these] * fanout[these]).sum()) / sent
    return result


def held(table: Any) -> dict[str, Any]:
    """From the receipt to the delivery at other members; and by how much it exceeds what the delays of the links allow.

    With d(i, j) the delay from i to j, a message of i is stable at j at most max over k of d(i, k) + d(k, j) - d(i, j) after its
    receipt, if acknowledgements are multicast at once (paper 003, for any delays). d is the longest that was seen.
    """
    run = Messages(table)
    got, done = run.receive, run.deliver
    size = len(run.processes)
    delays = np.zeros((size, size), dtype=np.int64)
    where = (run.send_process[got.message], got.process)
    np.maximum.at(delays, where, got.time - run.send_time[got.message])
    span = size + 1
    got_key, done_key = got.message * span + got.process, done.message * span + done.process
    index = np.minimum(np.searchsorted(got_key, done_key), len(got_key) - 1)
    both = (got_key[index] == done_key) & (run.send_process[done.message] != done.process)
    if not both.any():
        return {}
    source, target = run.send_process[done.message[both]], done.process[both]
    waited = done.time[both] - got.time[index[both]]
    ways = (delays[:, :, None] + delays[None, :, :]).max(axis=1)  # over k; d(i, i) = 0
    bound = ways - delays
    total = done.time[both] - run.send_time[done.message[both]]
    longest = float(delays.max())
    return {
        "held_mean_ms": float(waited.mean()) / MS,
        "held_min_ms": float(waited.min()) / MS,
        "held_max_ms": float(waited.max()) / MS,
        "held_none": float((waited == 0).mean()),
        "held_over_ms": float((waited - bound[source, target]).max()) / MS,
        "total_max_ms": float(total.max()) / MS,
        "longest_ms": longest / MS,
    }


def volatile(table: Any) -> dict[str, Any]:
    """What members that come and go cost: views, changes of the core, control records, gaps, and what returning ones missed.

    Names that begin with `v` are volatile. A message is missed by a name if no incarnation of it delivers it.
    """
    run = Messages(table)
    names = np.array([name.partition("#")[0] for name in run.processes])
    start = run.first_send
    done = run.deliver
    result: dict[str, Any] = {}
    for kind in ("view", "core"):
        places = run.where(kind)
        places = places[run.time[places] > start]
        result[f"{kind}_rows"] = len(places)
        identity = ("view_epoch", "view_proposer") if kind == "view" else ("view_epoch", "view_proposer", "detail")
        rows = table.select(list(identity)).take(places).to_pylist()
        result[f"{kind}s"] = len({json.dumps(row, sort_keys=True, default=str) for row in rows})
    places = run.where("packet")
    places = places[run.time[places] >= start]
    packet, words = _codes(table, "packet")
    steady_kinds = np.isin(packet[places], [code for code, word in enumerate(words) if word in STEADY_KINDS])
    places = places[~steady_kinds]
    count, fanout = _ints(table, "count"), _ints(table, "fanout")
    result["records"] = int((count[places] * fanout[places]).sum())
    result["bytes"] = int(_ints(table, "size")[places].sum())
    longest = 0
    for code in range(len(run.processes)):
        if not names[code].startswith("v"):
            times = np.sort(done.time[done.process == code])
            longest = max(longest, int(np.diff(times).max(initial=0)))
    result["gap_ms"] = longest / MS
    held_by = {name: np.zeros(run.sent, bool) for name in names if name.startswith("v")}
    for name, has in held_by.items():
        has[done.message[np.isin(done.process, np.flatnonzero(names == name))]] = True
    steady = np.zeros(run.sent, bool)
    steady[done.message[~np.char.startswith(names[done.process], "v")]] = True
    result["missed"] = int(sum(int((steady & ~has).sum()) for has in held_by.values()))
    result["returned"] = len(run.where("returned"))
    result["incarnations"] = int(sum(name.startswith("v") for name in names))
    return result


def name_of(measure: Callable[[Any], dict[str, Any]]) -> str:
    """How an experiment names a measure."""
    return f"{measure.__module__}:{measure.__name__}"
