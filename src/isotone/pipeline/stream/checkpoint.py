"""Where a watch keeps what it knows between batches and between its lives.

A checkpoint is a directory: `spark` is Structured Streaming's own (which files each batch reads), `state` holds one file per
batch with all that was known after it, the changes of verdicts included. The file appears by one rename, so a batch has
happened as a whole or not at all. After a kill Spark runs the last batch again on the same input; if its state is there,
nothing is done a second time.

Invariant: the newest two states are kept, and the number in a file's name is the batch after which it was written.
"""

import re
from typing import Any, Final

import msgspec

from isotone.model.errors import ConfigError
from isotone.pipeline.plan import filesystem
from isotone.pipeline.stream.files import join
from isotone.pipeline.stream.judge import State

VERSION: Final = 1
_KEPT: Final = 2
_NAME: Final = re.compile(r"(\d+)\.msgpack")


class _Stored(msgspec.Struct):
    version: int
    trace: str
    state: msgspec.Raw


class Checkpoint:
    """See the module."""

    def __init__(self, path: str, trace: str) -> None:
        self._path, self._trace = path, trace
        self._files, self._root = filesystem(join(path, "state"))
        try:
            self._files.create_dir(self._root, recursive=True)
        except OSError as error:
            raise ConfigError(f"cannot write the checkpoint {path}: {error.strerror or error}; name another one") from None

    @property
    def for_spark(self) -> str:
        """Where Structured Streaming keeps its part."""
        place = join(self._path, "spark")
        return place if "://" in place else f"file://{filesystem(place)[1]}"

    def load(self) -> State:
        """What was known last; an empty state if there is nothing."""
        batches = self._batches()
        if not batches:
            return State()
        with self._files.open_input_stream(self._file(batches[-1])) as file:
            data = file.read()
        try:
            stored = msgspec.msgpack.decode(data, type=_Stored)
            if stored.version != VERSION:
                raise ConfigError(f"the checkpoint {self._path} was written by another version: remove it to start anew")
            state = msgspec.msgpack.decode(stored.state, type=State)
        except msgspec.DecodeError as error:
            raise ConfigError(f"the checkpoint {self._path} is damaged ({error}): remove it to start anew") from None
        if stored.trace != self._trace:
            raise ConfigError(f"the checkpoint {self._path} belongs to the trace {stored.trace}, not to {self._trace}")
        return state

    def save(self, state: State) -> None:
        """Make a batch final."""
        raw = msgspec.Raw(msgspec.msgpack.encode(state))
        data = msgspec.msgpack.encode(_Stored(VERSION, self._trace, raw))
        part = f"{self._root}/.{state.batch}.part"
        with self._files.open_output_stream(part) as file:
            file.write(data)
        self._files.move(part, self._file(state.batch))
        for batch in self._batches()[:-_KEPT]:
            self._files.delete_file(self._file(batch))

    def _file(self, batch: int) -> str:
        return f"{self._root}/{batch}.msgpack"

    def _batches(self) -> list[int]:
        from pyarrow import fs

        entries: list[Any] = self._files.get_file_info(fs.FileSelector(self._root))
        return sorted(int(match[1]) for entry in entries if (match := _NAME.fullmatch(entry.base_name)))
