"""One schema for everything that happens: the recorder, and writers and readers for Parquet and JSON Lines."""

from isotone.trace.reader import Quarantined, Trace, read_trace
from isotone.trace.recorder import TraceRecorder, digest_rows
from isotone.trace.schema import COLUMNS, KINDS, REQUIRED, Row
from isotone.trace.writer import TraceWriter, open_writer

__all__ = [
    "COLUMNS",
    "KINDS",
    "REQUIRED",
    "Quarantined",
    "Row",
    "Trace",
    "TraceRecorder",
    "TraceWriter",
    "digest_rows",
    "open_writer",
    "read_trace",
]
