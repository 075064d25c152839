"""Running metrics of one run: deliveries per second and the latency from send to deliver, over the last seconds of the trace.

Latencies are kept as counts per bucket, 16 buckets per doubling, so a quantile is right to about 3 %. Times are those of the
trace: where processes run on different machines their clocks may differ, and a latency below zero is left out.

State: the newest `SENDS_MAX` send times per origin, deliveries (at most `WAITING_MAX`) whose send has not been read yet, and
`WINDOW_S` seconds of counts.
"""

from typing import Any, Final

import msgspec
import numpy as np

from isotone.pipeline.kernels.load import NOTHING
from isotone.pipeline.stream.condense import KIND, Array, Rows

WINDOW_S: Final = 10
SENDS_MAX: Final = 20_000
WAITING_MAX: Final = 20_000
_PER_DOUBLING: Final = 16
_SECOND: Final = 1_000_000_000


class Sends(msgspec.Struct):
    """When an origin sent its newest messages, by consecutive numbers."""

    first: int = 0
    times: list[int] = []


class Second(msgspec.Struct):
    """One second of the trace."""

    deliveries: int = 0
    buckets: dict[int, int] = {}


class Meter(msgspec.Struct):
    """See the module."""

    deliveries: int = 0
    sends: dict[int, Sends] = {}
    seconds: dict[int, Second] = {}
    waiting: list[tuple[int, int, int]] = []
    """Origin, number and time of deliveries whose send is still to come."""

    def see(self, rows: Rows) -> None:
        """Note the sends; deliveries wait for `measure`."""
        timed = rows.time != NOTHING
        sent = np.flatnonzero((rows.kind == KIND["send"]) & timed)
        for origin in np.unique(rows.origin[sent]).tolist():
            mine = sent[rows.origin[sent] == origin]
            self._sent(origin, rows.number[mine], rows.time[mine])

    def measure(self, parts: list[Rows]) -> None:
        """Deliveries of all processes, after all their sends have been noted."""
        old = np.array(self.waiting, dtype=np.int64).reshape(-1, 3)
        self.waiting = []
        self._match(old[:, 0], old[:, 1], old[:, 2])
        for rows in parts:
            at = np.flatnonzero(rows.kind == KIND["deliver"])
            self.deliveries += len(at)
            at = at[rows.time[at] != NOTHING]
            for second, count in zip(*np.unique(rows.time[at] // _SECOND, return_counts=True), strict=True):
                self.seconds.setdefault(int(second), Second()).deliveries += int(count)
            self._match(rows.origin[at], rows.number[at], rows.time[at])
        for second in sorted(self.seconds)[:-WINDOW_S]:
            del self.seconds[second]

    def window(self) -> dict[str, Any]:
        """Deliveries per second and latencies in ms over the last seconds."""
        if not self.seconds:
            return {"seconds": 0, "deliveries_per_s": None, "latency_ms": None}
        newest = max(self.seconds)
        recent = {second: held for second, held in self.seconds.items() if newest - second < WINDOW_S}
        span = newest - min(recent) + 1
        buckets: dict[int, int] = {}
        for held in recent.values():
            for bucket, count in held.buckets.items():
                buckets[bucket] = buckets.get(bucket, 0) + count
        rate = sum(held.deliveries for held in recent.values()) / span
        latency = {name: _quantile(buckets, share) for name, share in (("p50", 0.5), ("p99", 0.99))} if buckets else None
        return {"seconds": span, "deliveries_per_s": round(rate, 1), "latency_ms": latency}

    def _sent(self, origin: int, numbers: Array, times: Array) -> None:
        cuts = np.flatnonzero(np.diff(numbers) != 1)
        if len(cuts):  # what came before a gap is of no use: numbers must be consecutive
            numbers, times = numbers[cuts[-1] + 1 :], times[cuts[-1] + 1 :]
        known = self.sends.setdefault(origin, Sends())
        if not known.times or numbers[0] != known.first + len(known.times):
            known.first, known.times = int(numbers[0]), []
        known.times.extend(times.tolist())
        excess = len(known.times) - SENDS_MAX
        if excess > 0:
            known.first += excess
            del known.times[:excess]

    def _match(self, origins: Array, numbers: Array, times: Array) -> None:
        for origin in np.unique(origins).tolist():
            mine = origins == origin
            own, when = numbers[mine], times[mine]
            known = self.sends.get(origin, Sends())
            place = own - known.first
            to_come = place >= len(known.times)
            room = WAITING_MAX - len(self.waiting)
            late = zip(own[to_come][:room].tolist(), when[to_come][:room].tolist(), strict=True)
            self.waiting.extend((origin, number, time) for number, time in late)
            found = (place >= 0) & ~to_come
            if found.any():
                self._count(when[found], when[found] - np.array(known.times, dtype=np.int64)[place[found]])

    def _count(self, when: Array, latency: Array) -> None:
        real = latency >= 0
        buckets = np.floor(_PER_DOUBLING * np.log2(np.maximum(latency[real], 1))).astype(np.int64)
        pairs, counts = np.unique(np.stack((when[real] // _SECOND, buckets)), axis=1, return_counts=True)
        for (second, bucket), count in zip(pairs.T.tolist(), counts.tolist(), strict=True):
            held = self.seconds.setdefault(second, Second()).buckets
            held[bucket] = held.get(bucket, 0) + count


def _quantile(buckets: dict[int, int], share: float) -> float:
    wanted = share * sum(buckets.values())
    reached = 0
    for bucket in sorted(buckets):
        reached += buckets[bucket]
        if reached >= wanted:
            break
    return round(float(2 ** ((bucket + 0.5) / _PER_DOUBLING)) / 1e6, 4)
