"""The metrics once more, over lists of rows, straight from their definitions and without care for their cost."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from itertools import pairwise
from math import ceil
from typing import Any

Row = dict[str, Any]
Table = list[Row]
Key = tuple[Any, ...]


def log_of(rows: Iterable[Mapping[str, Any]]) -> dict[tuple[str, str], Table]:
    """The rows of each process of each run, in order."""
    logs: dict[tuple[str, str], Table] = defaultdict(list)
    for row in rows:
        logs[row.get("run") or "", row["process"]].append(dict(row))
    for log in logs.values():
        log.sort(key=lambda row: row["step"])
    return dict(logs)


def clocks_of(logs: dict[tuple[str, str], Table]) -> tuple[dict[tuple[str, str], str], dict[tuple[str, str], int]]:
    """The clock of each process, and the first time on each clock of a run."""
    named: dict[tuple[str, str], str | None] = {}
    for who, log in logs.items():
        names = [(row.get("detail") or {}).get("clock") for row in log if row["kind"] == "start"]
        named[who] = max((name for name in names if name is not None), default=None)
    virtual = {run for (run, _), name in named.items() if name == "virtual"}
    clocks = {who: name if name is not None else "virtual" if who[0] in virtual else "" for who, name in named.items()}
    zeros: dict[tuple[str, str], int] = {}
    for who, log in logs.items():
        for row in log:
            if row.get("time") is not None:
                key = who[0], clocks[who]
                zeros[key] = min(zeros.get(key, row["time"]), row["time"])
    return clocks, zeros


class Reference:
    """Everything about some rows."""

    def __init__(self, rows: Iterable[Mapping[str, Any]], bucket_ns: int) -> None:
        self.logs = log_of(rows)
        self.clocks, self.zeros = clocks_of(self.logs)
        self.bucket_ns = bucket_ns
        self.delivered = self._deliveries()

    def at(self, who: tuple[str, str], time: int | None) -> int | None:
        return None if time is None else time - self.zeros[who[0], self.clocks[who]]

    def rows(self, kind: str) -> list[tuple[tuple[str, str], Row]]:
        return [(who, row) for who, log in self.logs.items() for row in log if row["kind"] == kind]

    def _deliveries(self) -> Table:
        sent: dict[Key, tuple[Row, str]] = {}
        for who, row in self.rows("send"):
            message = who[0], row["origin"], row["number"]
            if message not in sent or row["step"] < sent[message][0]["step"]:
                sent[message] = row, self.clocks[who]
        found: dict[Key, Row] = {}
        arrived: dict[Key, Row] = {}
        for who, log in self.logs.items():
            for row in log:
                key = (*who, row.get("origin"), row.get("number"))
                if row["kind"] == "receive":
                    arrived.setdefault(key, row)
                elif row["kind"] == "deliver" and key in found:
                    found[key]["times"] += 1
                elif row["kind"] == "deliver":
                    found[key] = {
                        "run": who[0], "process": who[1], "origin": row["origin"], "number": row["number"], "times": 1,
                        "at": self.at(who, row.get("time")), "remote": who[1] != row["origin"],
                        **{name: row.get(name) for name in ("step", "time", "size", "protocol", "view_epoch", "view_proposer")},
                    }  # fmt: skip
        for (run, process, origin, number), row in found.items():
            send, clock = sent.get((run, origin, number), (None, ""))
            receive = arrived.get((run, process, origin, number))
            row["why"], row["latency_ns"] = self._latency(send, clock, row, self.clocks[run, process])
            row["received_step"] = receive["step"] if receive else None
            waited = None
            if receive and receive.get("time") is not None and row["time"] is not None and row["time"] >= receive["time"]:
                waited = row["time"] - receive["time"]
            row["held_ns"] = waited
        return list(found.values())

    @staticmethod
    def _latency(send: Row | None, clock: str, row: Row, own: str) -> tuple[str | None, int | None]:
        if send is None:
            return "send", None
        if send.get("time") is None:
            return "send.time", None
        if row["time"] is None:
            return "deliver.time", None
        if clock != own:
            return "clock", None
        took: int = row["time"] - send["time"]
        return ("early", None) if took < 0 else (None, took)

    def latency(self, keys: Sequence[str], bucketed: bool = False) -> Table:
        groups: dict[Key, Table] = defaultdict(list)
        for row in self.delivered:
            if bucketed and row["at"] is None:
                continue
            place = (row["at"] // self.bucket_ns,) if bucketed else ()
            groups[(*(row[name] for name in keys), *place)].append(row)
        names = [*keys, "bucket"] if bucketed else keys
        found = []
        for key, rows in groups.items():
            missing = {row["why"] for row in rows if row["why"]}
            if all(row["received_step"] is None for row in rows):
                missing.add("receive")
            found.append({
                **dict(zip(names, key, strict=True)), "deliveries": len(rows), "missing": sorted(missing),
                "early": sum(row["why"] == "early" for row in rows),
                **spread("latency", [row["latency_ns"] for row in rows]), **spread("held", [row["held_ns"] for row in rows]),
            })  # fmt: skip
        return found

    @cached_property
    def gaps(self) -> Table:
        found = []
        for who in self.logs:
            mine = sorted((row for row in self._by_process[who] if row["time"] is not None), key=lambda row: row["step"])
            for one, other in pairwise(mine):
                gap = other["time"] - one["time"]
                found.append({
                    "run": who[0], "process": who[1], "begin_step": one["step"], "end_step": other["step"],
                    "begin": one["time"], "end": other["time"], "gap_ns": gap if gap >= 0 else None,
                })  # fmt: skip
        return found

    @cached_property
    def _by_process(self) -> dict[tuple[str, str], Table]:
        found: dict[tuple[str, str], Table] = {who: [] for who in self.logs}
        for row in self.delivered:
            found[row["run"], row["process"]].append(row)
        return found

    def interarrival(self) -> Table:
        groups: dict[Key, list[int | None]] = defaultdict(list)
        for row in self.gaps:
            groups[row["run"], row["process"]].append(row["gap_ns"])
        return [{"run": run, "process": process, **spread("gap", values)} for (run, process), values in groups.items()]

    def variance(self) -> Table:
        """Deliveries per bucket by process and origin, with the sends of the origin."""
        into: dict[Key, list[int]] = defaultdict(list)
        out: dict[Key, list[int]] = defaultdict(list)
        for row in self.delivered:
            if row["at"] is not None:
                into[row["run"], row["process"], row["origin"]].append(row["at"] // self.bucket_ns)
        for who, row in self.rows("send"):
            if row.get("time") is not None:
                out[who[0], row["origin"]].append((self.at(who, row["time"]) or 0) // self.bucket_ns)
        found = []
        for (run, process, origin), places in into.items():
            got, sent = flow(places), flow(out.get((run, origin), []))
            found.append({
                "run": run, "process": process, "origin": origin,
                **{name: got[name] for name in ("events", "buckets")},
                **{f"delivered_{name}": got[name] for name in ("mean", "variance", "dispersion")},
                **{f"sent_{name}": sent[name] for name in ("mean", "variance", "dispersion")},
            })  # fmt: skip
        return found

    def rates(self, keys: Sequence[str]) -> Table:
        groups: dict[Key, dict[str, list[int | None]]] = defaultdict(lambda: {"sent": [], "delivered": []})
        for who, row in self.rows("send"):
            if row.get("time") is not None:
                mine = {"run": who[0], "process": who[1], "origin": row["origin"]}
                place = (self.at(who, row["time"]) or 0) // self.bucket_ns
                groups[(*(mine[name] for name in keys), place)]["sent"].append(row.get("size"))
        for row in self.delivered:
            if row["at"] is not None:
                groups[(*(row[name] for name in keys), row["at"] // self.bucket_ns)]["delivered"].append(row["size"])
        seen = {(key[0], name) for key, flows in groups.items() for name, sizes in flows.items() if sizes}
        found = []
        for key, flows in groups.items():
            row = dict(zip([*keys, "bucket"], key, strict=True))
            for name, sizes in flows.items():
                row[name] = len(sizes) if (key[0], name) in seen else None
                row[f"{name}_bytes"] = whole(sizes)
            found.append(row)
        return found

    def throughput(self) -> Table:
        found = []
        sending = {who[0] for who, _ in self.rows("send")}
        delivering = {row["run"] for row in self.delivered}
        for who, log in self.logs.items():
            sends = [row for row in log if row["kind"] == "send"]
            mine = self._by_process[who]
            if not sends and not mine:
                continue
            times = [row["at"] for row in mine] + [self.at(who, row.get("time")) for row in sends]
            known = [time for time in times if time is not None]
            span = max(known) - min(known) if known else None
            row: Row = {"run": who[0], "process": who[1], "span_ns": span}
            row["sent"] = len(sends) if who[0] in sending else None
            row["delivered"] = len(mine) if who[0] in delivering else None
            row["sent_bytes"] = whole([send.get("size") for send in sends])
            row["delivered_bytes"] = whole([one["size"] for one in mine])
            for name in ("sent", "delivered", "sent_bytes", "delivered_bytes"):
                row[f"{name}_per_s"] = row[name] * 1e9 / span if span and row[name] is not None else None
            found.append(row)
        return found

    def control(self) -> Table:
        sent = Counter(who[0] for who, _ in self.rows("send"))
        groups: dict[Key, Table] = defaultdict(list)
        for who, row in self.rows("packet"):
            groups[who[0], row.get("packet")].append(row)
        found = []
        for (run, packet), rows in groups.items():
            counts = [1 if row.get("count") is None else row["count"] for row in rows]
            copies = [None if row.get("fanout") is None else row["fanout"] * n for row, n in zip(rows, counts, strict=True)]
            entry: Row = {"run": run, "packet": packet, "rows": len(rows), "multicasts": sum(counts), "records": whole(copies)}
            entry["bytes"] = whole([row.get("size") for row in rows])
            for name in ("multicasts", "records", "bytes"):
                known = sent[run] and entry[name] is not None
                entry[f"{name}_per_message"] = entry[name] / sent[run] if known else None
            lacks = {"packet.fanout": entry["records"] is None, "packet.size": entry["bytes"] is None, "send": not sent[run]}
            entry["missing"] = [name for name, lack in lacks.items() if lack]
            found.append(entry)
        return found

    def view_changes(self) -> Table:
        found = []
        for who, log in self.logs.items():
            previous: Row | None = None
            flush: Row | None = None
            signal: Row | None = None
            for row in log:
                if row["kind"] == "flush":
                    flush = flush or row
                elif row["kind"] == "transitional":
                    signal = signal or row
                elif row["kind"] == "view":
                    begin = (flush or signal) if previous else None
                    found.append({
                        "run": who[0], "process": who[1], "view_epoch": row.get("view_epoch"), "end_step": row["step"],
                        "initial": previous is None, "begin_step": begin["step"] if begin else None,
                        "duration_ns": took(row, begin), "transitional_ns": took(row, signal if previous else None),
                        "at": self.at(who, row.get("time")), "gap_ns": self._gap(who, begin, row),
                        "previous_epoch": previous.get("view_epoch") if previous else None,
                        "missing": None if not previous else "flush" if not begin
                        else "flush.time" if begin.get("time") is None else "view.time" if row.get("time") is None else None,
                    })  # fmt: skip
                    previous, flush, signal = row, None, None
        return found

    def switches(self) -> Table:
        found = []
        for who, log in self.logs.items():
            mine: list[Table] = []
            before: Key | None = None
            begun: list[Table] = []  # the switches of the rows in a row about the same
            for row in log:
                if row["kind"] != "switch":
                    continue
                detail = row.get("detail") or {}
                names = ("instance",) if "instance" in detail else ("strategy", "from", "to")
                what = (row.get("view_epoch"), row.get("view_proposer"), *((name, detail.get(name)) for name in names))
                if what != before:
                    before, begun = what, []
                phase = detail.get("phase")
                for rows in begun:
                    if all((one.get("detail") or {}).get("phase") != phase for one in rows):
                        rows.append(row)
                        break
                else:
                    begun.append([row])
                    mine.append(begun[-1])
            found += [self._switch(who, rows) for rows in mine]
        return found

    def _switch(self, who: tuple[str, str], rows: Table) -> Row:
        first, last = rows[0], rows[-1]
        details = [row.get("detail") or {} for row in rows]
        done = any(detail.get("phase") == "done" for detail in details)
        lasted = took(last, first)
        instance = details[-1].get("instance")
        view = (last.get("view_epoch"), last.get("view_proposer"))
        sizes = [
            row.get("size")
            for row in self.logs[who]
            if row["kind"] == "packet"
            and (row.get("view_epoch"), row.get("view_proposer")) == view
            and (row.get("detail") or {}).get("switch") == instance is not None
        ]
        return {
            "run": who[0], "process": who[1], "instance": instance, "view_epoch": view[0],
            **{name: details[-1].get(name) for name in ("strategy", "from", "to")},
            "begin_step": first["step"], "end_step": last["step"], "at": self.at(who, last.get("time")),
            "duration_ns": lasted if len(rows) > 1 and done else None, "gap_ns": self._gap(who, first, last),
            "extra_bytes": whole(sizes),
            "missing": "switch.phase" if len(rows) == 1
            else "switch.done" if not done else "switch.time" if lasted is None else None,
        }  # fmt: skip

    def switch_bytes(self) -> int | None:
        return whole([row.get("size") for _, row in self.rows("packet") if "switch" in (row.get("detail") or {})])

    def _gap(self, who: tuple[str, str], begin: Row | None, end: Row) -> int | None:
        if begin is None:
            return None
        mine = [gap for gap in self.gaps if (gap["run"], gap["process"]) == who and gap["gap_ns"] is not None]
        return max(
            (gap["gap_ns"] for gap in mine if gap["begin_step"] < end["step"] and gap["end_step"] > begin["step"]), default=None
        )

    def delay(self) -> Table:
        groups: dict[Key, Table] = defaultdict(list)
        for row in self.delivered:
            if row["received_step"] is not None:
                view = (row["view_epoch"], row["view_proposer"] or "" if row["view_epoch"] is not None else None)
                groups[row["run"], row["process"], *view].append(row)
        found = []
        for (run, process, epoch, proposer), rows in groups.items():
            arrivals = sorted(rows, key=lambda row: row["received_step"])
            schedule = sorted(rows, key=lambda row: row["step"])
            prefix = 0
            while prefix < len(rows) and arrivals[prefix] is schedule[prefix]:
                prefix += 1
            passed, earliest = 0, None
            for row in reversed(arrivals):
                passed += earliest is not None and earliest < row["step"]
                earliest = row["step"] if earliest is None else min(earliest, row["step"])
            found.append({
                "run": run, "process": process, "view_epoch": epoch, "view_proposer": proposer, "messages": len(rows),
                "prefix": prefix, "degree": len(rows) - prefix, "overtaken": passed,
            })  # fmt: skip
        return found


def took(end: Row, begin: Row | None) -> int | None:
    if begin is None or begin.get("time") is None or end.get("time") is None or end["time"] < begin["time"]:
        return None
    return int(end["time"] - begin["time"])


def whole(values: Sequence[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return sum(known) if known and len(known) == len(values) else None


def nearest(ordered: Sequence[int], part: float) -> int:
    return ordered[max(0, ceil(part * len(ordered)) - 1)]


def spread(prefix: str, values: Iterable[int | None]) -> Row:
    known = sorted(value for value in values if value is not None)
    numbers = [None] * 4 if not known else [sum(known) / len(known), nearest(known, 0.5), nearest(known, 0.99), known[-1]]
    names = ("mean_ns", "p50_ns", "p99_ns", "max_ns")
    return {f"{prefix}_count": len(known), **{f"{prefix}_{name}": value for name, value in zip(names, numbers, strict=True)}}


def flow(places: Sequence[int]) -> Row:
    """Mean and variance of the number of events per bucket, from the first to the last one that has any."""
    if not places:
        return {"events": 0, "buckets": 0, "mean": None, "variance": None, "dispersion": None}
    counts = Counter(places)
    buckets = max(places) - min(places) + 1
    mean = len(places) / buckets
    empty = buckets - len(counts)
    variance = (sum((count - mean) ** 2 for count in counts.values()) + empty * mean**2) / buckets
    return {"events": len(places), "buckets": buckets, "mean": mean, "variance": variance, "dispersion": variance / mean}
