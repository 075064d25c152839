"""The results of a sweep in its directory: what is finished, wave by wave, and the tidy table made of it.

`_parts/` holds one JSON Lines file per finished wave and is only ever added to; `cells.parquet` is made from it and the
experiment: one row per cell of the experiment as it is now. Files are reached through `pyarrow.fs`.

Invariants: a file appears under its name only when it is complete; a cell that stands in a part need not be run again, unless
its failure may have been the machine's.
"""

import uuid
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec

from isotone.model.errors import ConfigError
from isotone.pipeline.plan import filesystem
from isotone.pipeline.sweeps.cell import Outcome
from isotone.pipeline.sweeps.experiment import INLINE, Experiment, toml_file
from isotone.trace.columns import require_pyarrow

PARTS: Final = "_parts"
TABLE: Final = "cells.parquet"
LAST: Final = ("seconds", "error", "replay")


class Record(msgspec.Struct):
    """A finished cell."""

    outcome: Outcome
    metrics: dict[str, Any] = {}


class Store:
    """The directory of a sweep."""

    def __init__(self, out: str) -> None:
        self.out = out
        self._files, self._root = filesystem(out)

    def read(self) -> dict[str, Record]:
        """All finished cells, of this experiment and of others; of several records of a cell the latest final one."""
        from pyarrow import fs

        found: dict[str, Record] = {}
        place = f"{self._root}/{PARTS}"
        decoder = msgspec.json.Decoder(Record)
        try:
            entries = self._files.get_file_info(fs.FileSelector(place, allow_not_found=True))
            for entry in sorted(entries, key=lambda entry: str(entry.base_name)):
                if not entry.base_name.endswith(".jsonl") or entry.base_name.startswith("."):
                    continue
                with self._files.open_input_stream(entry.path) as stream:
                    for record in decoder.decode_lines(stream.read()):
                        known = found.get(record.outcome.cell)
                        if known is None or not known.outcome.final:
                            found[record.outcome.cell] = record
        except (OSError, msgspec.MsgspecError) as error:
            raise ConfigError(f"cannot read the finished cells in {self.out}/{PARTS}: {error}") from None
        return found

    def save(self, records: Iterable[Record]) -> None:
        """Keep a finished wave."""
        self._write(f"{PARTS}/{uuid.uuid4().hex}.jsonl", msgspec.json.Encoder().encode_lines(records))

    def write_scenario(self, experiment: Experiment) -> None:
        """Write the scenario that stands in the experiment, for replays."""
        for base in experiment.scenarios:
            if base.path is None:
                self._write(INLINE, toml_file(base.data).encode())

    def write_table(self, table: Any) -> None:
        """Write the tidy table."""
        pa = require_pyarrow()
        import pyarrow.parquet as pq

        sink = pa.BufferOutputStream()
        pq.write_table(table, sink)
        self._write(TABLE, sink.getvalue())

    def path(self, name: str) -> str:
        """The path or URI of a file in the directory; options of a URI stay at its end."""
        head, mark, options = self.out.partition("?") if "://" in self.out else (self.out, "", "")
        return f"{head.rstrip('/')}/{name}{mark}{options}"

    def _write(self, name: str, content: Any) -> None:
        directory, _, last = f"{self._root}/{name}".rpartition("/")
        try:
            self._files.create_dir(directory, recursive=True)
            with self._files.open_output_stream(f"{directory}/.{last}.tmp") as stream:
                stream.write(content)
            self._files.move(f"{directory}/.{last}.tmp", f"{directory}/{last}")
        except OSError as error:
            raise ConfigError(f"cannot write to {self.out}: {error.strerror or error}") from None


def tidy(experiment: Experiment, records: Mapping[str, Record], inline: str) -> Any:
    """One row per finished cell, in the order of the experiment; see `docs/sweep.md` for the columns.

    `inline` is where the scenario is that stands in the experiment.
    """
    pa = require_pyarrow()
    rows = [(cell, records[cell.id]) for cell in experiment.cells if cell.id in records]
    shown = experiment.metrics
    metrics = shown if shown is not None else _union(record.metrics for _, record in rows)
    measures = _union(record.outcome.measures for _, record in rows)
    columns: dict[str, Any] = {
        "cell": pa.array([cell.id for cell, _ in rows], pa.string()),
        "scenario": pa.array([experiment.scenarios[cell.scenario].path or INLINE for cell, _ in rows], pa.string()),
    }
    for key in experiment.parameters:
        columns[key] = _column([cell.parameters.get(key) for cell, _ in rows])
    outcomes = [record.outcome for _, record in rows]
    columns["seed"] = pa.array([cell.seed for cell, _ in rows], pa.int64())
    columns["verdict"] = pa.array([one.verdict for one in outcomes], pa.string())
    columns["violated"] = pa.array([one.violated for one in outcomes], pa.list_(pa.string()))
    columns["witness"] = pa.array([one.witness for one in outcomes], pa.string())
    columns["events"] = pa.array([one.events for one in outcomes], pa.int64())
    columns["digest"] = pa.array([one.digest for one in outcomes], pa.string())
    taken = {*columns, *LAST}
    for key in metrics:
        columns[key if key not in taken else f"metrics.{key}"] = _column([record.metrics.get(key) for _, record in rows])
    taken |= {*columns}
    for key in measures:
        columns[key if key not in taken else f"measures.{key}"] = _column([one.measures.get(key) for one in outcomes])
    columns["seconds"] = pa.array([one.seconds for one in outcomes], pa.float64())
    columns["error"] = pa.array([one.error for one in outcomes], pa.string())
    columns["replay"] = pa.array([experiment.replay(cell, inline) for cell, _ in rows], pa.string())
    return pa.table(columns)


def _union(tables: Iterable[Mapping[str, Any]]) -> list[str]:
    """All keys, in the order of their first appearance."""
    return list(dict.fromkeys(key for table in tables for key in table))


def _column(values: Sequence[Any]) -> Any:
    """Values as one column of the narrowest type that holds them; what has no common type becomes JSON text."""
    pa = require_pyarrow()
    kinds = {type(value) for value in values if value is not None}
    if kinds == {bool}:
        return pa.array(values, pa.bool_())
    if kinds == {int}:
        return pa.array(values, pa.int64())
    if kinds <= {int, float}:  # also if there is nothing but nulls: readers other than Arrow know no type for that
        return pa.array([None if value is None else float(value) for value in values], pa.float64())
    if kinds <= {str}:
        return pa.array(values, pa.string())
    if kinds == {list} and all(isinstance(text, str) for value in values for text in value or ()):
        return pa.array(values, pa.list_(pa.string()))
    texts = [None if value is None else msgspec.json.encode(value, order="sorted").decode() for value in values]
    return pa.array(texts, pa.string())
