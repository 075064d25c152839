"""From a sweep to the table of latencies that a policy decides by.

The parameters of a cell say what the group and its network are like: size, skew, rate, delay, loss. Cells that agree in
all of it and in the orderer (they differ in the seed) are averaged. The points must form a full grid. A sweep's own table has
all columns and is large; the *cells* are the few that matter here, as CSV, so that they can be kept with the sources.

Where packets get lost the latency of a cell has much of chance in it: it is made by some dozen losses. What loss adds changes
little from one group size to the next, so it is averaged with that of the neighbours on this axis (the geometric mean; they
count half). Other seeds are nearer to that than to the cell itself.
"""

import csv
import io
import json
from collections import defaultdict
from collections.abc import Iterable, Mapping
from itertools import product
from math import exp, log, prod
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from isotone.model.errors import ConfigError, GroupError
from isotone.protocol.ordering import registry
from isotone.protocol.switching.table import AXES, Table
from isotone.sim.latency import Latency
from isotone.sim.workload import Phase

_NEEDED: Final = ("members", "workload", "network.latency", "network.loss", "order")
_LATENCY: Final = "latency_mean_ns"
_SMOOTH: Final = ("members",)
_MEANS: Final = {"constant": ("ms",), "uniform": ("min_ms", "max_ms")}


class Point(NamedTuple):
    """A cell: a group, its load and network, an orderer, and the mean latency. Skew and loss are in thousandths."""

    members: int
    skew: int
    per_second: int
    delay_us: int
    loss: int
    order: str
    seed: int
    latency_ns: int

    @property
    def place(self) -> tuple[int, ...]:
        """Where it is in a table."""
        return (self.members, self.skew, self.per_second, self.delay_us, self.loss)


def point(parameters: Mapping[str, Any], seed: int, latency_ns: float) -> Point:
    """The point of a cell with these parameters of the scenario."""
    members = parameters["members"]
    rates = dict.fromkeys(members, 0.0)
    for phase in msgspec.convert(parameters["workload"], list[Phase], strict=False):
        for member in phase.members or members:
            rates[member] += 1_000 * phase.burst / phase.interval_ms
    total, most = sum(rates.values()), max(rates.values())
    even = total / len(members)
    skew = (most - even) / (total - even)
    return Point(
        len(members), round(1_000 * skew), round(total), round(1_000 * _mean_ms(parameters["network.latency"])),
        round(1_000 * parameters["network.loss"]), parameters["order"], seed, round(latency_ns),
    )  # fmt: skip


def _mean_ms(latency: Mapping[str, Any]) -> float:
    msgspec.convert(latency, Latency, strict=False)
    keys = _MEANS.get(latency["kind"])
    if keys is None:
        raise ConfigError(f"network.latency of the kind {latency['kind']!r}: only {' and '.join(_MEANS)} have a plain mean")
    return float(sum(latency[key] for key in keys) / len(keys))


def read_sweep(directory: str | Path) -> list[Point]:
    """The points of a sweep in its directory."""
    try:
        import pyarrow.parquet as pq
    except ImportError:
        raise ConfigError("a sweep is read with pyarrow: pip install 'isotone[spark]'") from None
    path = Path(directory) / "cells.parquet"
    try:
        rows = pq.read_table(path).to_pylist()
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror or 'cannot be read'}: is it the directory of a finished sweep?") from None
    if not rows:
        raise ConfigError(f"{path}: the sweep has no cells")
    for column in (*_NEEDED, _LATENCY):
        if column not in rows[0]:
            what = "metrics" if column == _LATENCY else "grid"
            raise ConfigError(f"{path}: a sweep to learn from needs {column} in its {what}")
    points = []
    for row in rows:
        if row["error"] is not None or row[_LATENCY] is None:
            raise ConfigError(f"{path}: cell {row['cell']} has no latency: {row['error'] or 'nothing was delivered'}")
        given = {key: json.loads(row[key]) if isinstance(row[key], str) and key != "order" else row[key] for key in _NEEDED}
        try:
            points.append(point(given, row["seed"], row[_LATENCY]))
        except (GroupError, msgspec.ValidationError) as error:
            raise ConfigError(f"{path}: cell {row['cell']}: {error}") from None
    return points


def write_cells(points: Iterable[Point]) -> str:
    """The points as CSV."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(Point._fields)
    writer.writerows(sorted(points))
    return out.getvalue()


def read_cells(path: str | Path) -> list[Point]:
    """The points of a CSV file that `write_cells` has made."""
    try:
        lines = list(csv.reader(io.StringIO(Path(path).read_text(encoding="utf-8"))))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise ConfigError(f"{path}: {getattr(error, 'strerror', None) or error}") from None
    if not lines or tuple(lines[0]) != Point._fields:
        raise ConfigError(f"{path}: the first line must be {','.join(Point._fields)}")
    points = []
    for number, line in enumerate(lines[1:], 2):
        try:
            values = {name: text if name == "order" else int(text) for name, text in zip(Point._fields, line, strict=True)}
            points.append(Point(**values))  # type: ignore[arg-type]
        except ValueError:
            raise ConfigError(f"{path}, line {number}: must be numbers, and an order, of {','.join(Point._fields)}") from None
    return points


def learn(points: Iterable[Point], description: str = "") -> Table:
    """The table of the mean latencies of these points."""
    means: dict[str, dict[tuple[int, ...], list[int]]] = defaultdict(lambda: defaultdict(list))
    for one in points:
        if not registry.find(one.order).total:
            raise ConfigError(f"order {one.order!r} is not total: a group cannot be switched to it")
        means[one.order][one.place].append(one.latency_ns)
    if not means:
        raise ConfigError("there is nothing to learn from: no cells")
    places = {place for cells in means.values() for place in cells}
    axes = {name: sorted({place[index] for place in places}) for index, name in enumerate(AXES)}
    orders = {}
    for order in sorted(means):
        cells = {}
        for place in product(*axes.values()):
            found = means[order].get(place)
            if found is None:
                told = ", ".join(f"{name} {number}" for name, number in zip(AXES, place, strict=True))
                raise ConfigError(f"no cell of {order} with {told}: the cells must be a full grid")
            cells[place] = sum(found) / len(found)
        orders[order] = [max(1, round(_smooth(cells, axes, place) / 1_000)) for place in cells]
    return Table(axes, orders, description)


def _smooth(cells: Mapping[tuple[int, ...], float], axes: Mapping[str, list[int]], place: tuple[int, ...]) -> float:
    """The latency at a place; what loss adds to it is averaged with that of the neighbours."""
    *others, loss = place
    least = axes["loss"][0]
    if loss == least:
        return cells[place]
    near = [_near(axes[name], number) if name in _SMOOTH else [(number, 2)] for name, number in zip(AXES, others, strict=False)]
    total = weights = 0.0
    for spot in product(*near):
        there = tuple(number for number, _ in spot)
        weight = prod(part for _, part in spot)
        total += weight * log(max(1.0, cells[*there, loss] - cells[*there, least]))
        weights += weight
    return cells[*others, least] + exp(total / weights)


def _near(axis: list[int], number: int) -> list[tuple[int, int]]:
    """A number of an axis and its neighbours, with their weights."""
    index = axis.index(number)
    return [(axis[other], 2 if other == index else 1) for other in (index - 1, index, index + 1) if 0 <= other < len(axis)]


def write_table(table: Table) -> str:
    """The table as JSON, one line per orderer and group size."""
    rows = len(table.axes["members"])
    lines = [f'{{"description": {json.dumps(table.description, ensure_ascii=False)},', ' "axes": {']
    lines += [f'  "{name}": {json.dumps(axis)}{"," if name != AXES[-1] else ""}' for name, axis in table.axes.items()]
    lines += [" },", ' "orders": {']
    for order, latencies in table.orders.items():
        size = len(latencies) // rows
        parts = [json.dumps(latencies[index * size : (index + 1) * size])[1:-1] for index in range(rows)]
        lines.append(f'  "{order}": [\n   ' + ",\n   ".join(parts) + "]" + ("," if order != list(table.orders)[-1] else ""))
    return "\n".join([*lines, " }", "}"]) + "\n"
