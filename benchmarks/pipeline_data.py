"""Histories for `benchmarks/pipeline.py`, made column by column: one Parquet file per process, in the library's own form.

`total` is one view with a sequencer's positions; `causal` is a causal broadcast with random delays and without positions.
A fault, if asked for, is hidden in the middle of the middle process: `swap` exchanges two deliveries (of a message and
one in its past, for `causal`), `forge` changes the digest of one.
"""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from isotone.trace.columns import arrow_schema
from isotone.trace.schema import parquet_columns

ROWS_PER_GROUP = 65_536
SENT_AHEAD = 20
ROUNDS_LATE = 4


def make_total(directory: Path, events: int, processes: int, fault: str) -> list[str]:
    """Every process sends its messages a little before they are delivered, everybody delivers all in one order.

    Returns the damaged messages.
    """
    messages = events // processes
    chance = np.random.default_rng(7)
    origin = chance.integers(0, processes, messages, dtype=np.int32)
    digest = chance.integers(0, 1 << 32, messages, dtype=np.int64)
    number = count_up(origin)
    damaged: list[str] = []
    for me in range(processes):
        own = np.flatnonzero(origin == me)
        when = np.concatenate([np.arange(messages) * 2 + 1, np.maximum(own - SENT_AHEAD, 0) * 2])
        order = np.argsort(when, kind="stable")
        which = np.concatenate([np.arange(messages), own])[order]
        is_send = order >= messages
        middle = int(np.flatnonzero(~is_send)[messages // 2])
        payload = digest[which]
        if fault == "swap" and me == processes // 2:
            following = middle + 1 + int(np.argmin(is_send[middle + 1 :]))
            which[[middle, following]] = which[[following, middle]]
            payload = digest[which]
            damaged = [called(origin[which[place]], number[which[place]]) for place in (middle, following)]
        elif fault == "forge" and me == processes // 2:
            payload[middle] ^= 1
            damaged = [called(origin[which[middle]], number[which[middle]])]
        write(directory, me, processes, is_send, origin[which], number[which], payload, which)
    return damaged


def make_causal(directory: Path, events: int, processes: int, fault: str) -> list[str]:
    """In every round each process delivers, then sends one message, which is delivered 1 to `ROUNDS_LATE` rounds later.

    Returns the damaged messages.
    """
    rounds = max(2, events // processes // processes)
    chance = np.random.default_rng(11)
    late = np.zeros((rounds, processes, processes), dtype=np.int32)  # round, sender, receiver: when it is delivered
    known = np.zeros((processes, processes), dtype=np.int32)  # when what a process knows is delivered at each receiver
    for now in range(rounds):
        recent = late[max(0, now - ROUNDS_LATE) : now].reshape(-1, processes)
        for me in range(processes) if now else ():
            fresh = recent[recent[:, me] == now]
            if len(fresh):
                np.maximum(known[me], fresh.max(axis=0), out=known[me])
        delays = chance.integers(1, ROUNDS_LATE + 1, (processes, processes), dtype=np.int32)
        np.maximum(now + delays, known, out=late[now])
        np.maximum(known, late[now], out=known)
    arrival = late.reshape(-1, processes)
    messages = len(arrival)
    origin = np.tile(np.arange(processes, dtype=np.int32), rounds)
    number = np.repeat(np.arange(1, rounds + 1), processes)
    digest = chance.integers(0, 1 << 32, messages, dtype=np.int64)
    damaged: list[str] = []
    for me in range(processes):
        among = chance.permutation(processes)[origin]
        own = np.flatnonzero(origin == me)
        turn = np.concatenate([arrival[:, me].astype(np.int64) * 2, (number[own] - 1) * 2 + 1])
        which = np.concatenate([np.arange(messages), own])
        key = (turn * (rounds + 1) + number[which]) * processes + among[which]
        order = np.argsort(key, kind="stable")
        which, is_send = which[order], order >= messages
        if fault == "swap" and me == processes // 2:
            at = np.empty(messages, dtype=np.int64)
            at[which[~is_send]] = np.flatnonzero(~is_send)
            later = messages // 2 + (me + 1) % processes
            sender, sent = int(origin[later]), int(number[later]) - 1
            past = np.flatnonzero((arrival[:later, sender] <= sent) & (origin[:later] != sender))[-1]
            which[[at[later], at[past]]] = which[[at[past], at[later]]]
            damaged = [called(origin[one], number[one]) for one in (past, later)]
        write(directory, me, processes, is_send, origin[which], number[which], digest[which], None)
    return damaged


def called(origin: int, number: int) -> str:
    """A message as witnesses name it."""
    return f"p{origin:03d}#1:{number}"


def count_up(origin: Any) -> Any:
    """The number of each message: how many its origin has sent so far."""
    order = np.argsort(origin, kind="stable")
    sizes = np.bincount(origin)
    number = np.empty(len(origin), dtype=np.int64)
    number[order] = np.arange(1, len(origin) + 1) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    return number


def write(directory: Path, me: int, processes: int, is_send: Any, origin: Any, number: Any, digest: Any, place: Any) -> None:
    """One process's file; `place` is the position, if there is one."""
    names = [f"p{one:03d}#1" for one in range(processes)]
    rows = len(is_send)
    texts = {
        "process": (np.full(rows, me, dtype=np.int32), names),
        "kind": (is_send.astype(np.int32), ["deliver", "send"]),
        "origin": (origin, names),
        "view_proposer": (np.zeros(rows, dtype=np.int32), names),
        "protocol": (np.zeros(rows, dtype=np.int32), ["causal" if place is None else "sequencer"]),
    }
    integers = {"step": np.arange(1, rows + 1), "number": number, "digest": digest, "time": np.arange(rows) * 1_000}
    columns: dict[str, Any] = {name: pa.array(values) for name, values in integers.items()}
    columns["view_epoch"] = pa.array(np.ones(rows, dtype=np.int64))
    if place is not None:
        columns["position_0"] = pa.array(np.zeros(rows, dtype=np.int64), mask=is_send)
        columns["position_1"] = pa.array(place, mask=is_send)
    for name, (codes, words) in texts.items():
        columns[name] = pa.DictionaryArray.from_arrays(pa.array(codes), pa.array(words))
    schema = arrow_schema()
    arrays = [columns[field.name] if field.name in columns else pa.nulls(rows, field.type) for field in schema]
    save(pa.table(arrays, schema=schema), directory / f"p{me:03d}.parquet")


def save(table: Any, path: Path) -> None:
    kinds = parquet_columns()
    pq.write_table(
        table,
        path,
        row_group_size=ROWS_PER_GROUP,
        compression="zstd",
        compression_level=1,
        use_dictionary=[name for name, kind in kinds.items() if "string" in kind],
        column_encoding={name: "DELTA_BINARY_PACKED" for name, kind in kinds.items() if kind.startswith("int")},
    )


def shuffle(ordered: Path, directory: Path) -> None:
    """The same rows in any order, all processes mixed, in two files."""
    whole = pa.concat_tables([pq.read_table(file) for file in sorted(ordered.iterdir())]).unify_dictionaries().combine_chunks()
    order = np.random.default_rng(5).permutation(whole.num_rows)
    for name, part in zip("xy", np.array_split(order, 2), strict=True):
        save(whole.take(pa.array(part)), directory / f"{name}.parquet")


def to_json_lines(ordered: Path, directory: Path) -> None:
    """The same rows as other people write them: JSON Lines, positions as lists."""
    import duckdb

    base = duckdb.connect()
    for file in sorted(ordered.iterdir()):
        base.execute(f"""copy (select process, step, kind, origin, number, view_epoch, view_proposer, protocol, digest,
            case when position_0 is not null then [position_0, position_1] end as position from read_parquet('{file}'))
            to '{directory / file.stem}.jsonl' (format json)""")
    base.close()
