"""What the recorder keeps, and the rows it makes of it."""

import os
import subprocess
import sys
from pathlib import Path
from zlib import crc32

from isotone.trace import COLUMNS, KINDS, TraceRecorder, digest_rows
from tests.trace.events import VIEW, everything

REPOSITORY = Path(__file__).resolve().parents[2]


def test_every_kind_is_recorded() -> None:
    rows = list(everything().rows())
    assert {row["kind"] for row in rows} == set(KINDS)
    assert all(row.keys() <= COLUMNS.keys() for row in rows)
    assert set().union(*(row.keys() for row in rows)) == set(COLUMNS)
    assert all(value is not None for row in rows for value in row.values())


def test_steps_count_rows() -> None:
    recorder = everything()
    rows = list(recorder.rows())
    assert [row["step"] for row in rows] == list(range(1, len(rows) + 1))
    assert len(recorder) < len(rows)


def test_a_batch_expands() -> None:
    recorder = TraceRecorder("a#1")
    recorder.deliver(5, VIEW, "b#2", 7, [b"xx", b"y"], (0, 4), "atop", "k", 2, ["t", None], [None, ["i"]])
    common = {"process": "a#1", "time": 5, "kind": "deliver", "view_epoch": 3, "view_proposer": "b#2", "origin": "b#2",
              "protocol": "atop", "level": "k", "k": 2}  # fmt: skip
    assert list(recorder.rows()) == [
        {**common, "step": 1, "number": 7, "position": (0, 4, 0), "type": "t", "size": 2, "digest": crc32(b"xx")},
        {**common, "step": 2, "number": 8, "position": (0, 4, 1), "items": ["i"], "size": 1, "digest": crc32(b"y")},
    ]


def test_a_split_batch_keeps_its_places() -> None:
    whole, split = TraceRecorder("a#1"), TraceRecorder("a#1")
    payloads = [b"1", b"2", b"3"]
    whole.deliver(5, VIEW, "b#2", 7, payloads, (0,), "atop", "agreed")
    split.deliver(5, VIEW, "b#2", 7, payloads[:1], (0,), "atop", "agreed")
    split.deliver(5, VIEW, "b#2", 8, payloads[1:], (0,), "atop", "agreed", first_index=1)
    assert list(whole.rows()) == list(split.rows())


def test_drain_forgets_and_goes_on_counting() -> None:
    whole, drained = everything(), everything()
    first = drained.drain()
    assert len(drained) == 0
    assert drained.drain() == []
    for recorder in (whole, drained):
        recorder.send(40, VIEW, 6, [b"a", b"b"])
        recorder.stop(41)
    assert first + drained.drain() == list(whole.rows())


def test_rows_may_be_taken_twice() -> None:
    recorder = everything()
    assert list(recorder.rows()) == list(recorder.rows())


def test_rows_are_those_held_when_asked_for() -> None:
    recorder = everything()
    before = list(recorder.rows())
    rows = recorder.rows()
    recorder.stop(99)
    assert list(rows) == before


def test_an_iterator_of_rows_survives_a_drain() -> None:
    recorder = everything()
    rows = recorder.rows()
    first = next(rows)
    assert [first, *rows] == recorder.drain()


def test_nothing_per_message_at_record_time() -> None:
    class Counted(list[bytes]):
        looked = 0

        def __getitem__(self, index: object) -> bytes:  # type: ignore[override]
            Counted.looked += 1
            return b""

        def __iter__(self):  # type: ignore[no-untyped-def]
            Counted.looked += 1
            return super().__iter__()

    recorder = TraceRecorder("a#1")
    recorder.send(1, VIEW, 1, Counted([b"x"] * 100))
    assert (len(recorder), Counted.looked) == (1, 0)
    assert len(recorder.drain()) == 100
    assert Counted.looked > 0


def test_digest_tells_histories_apart() -> None:
    rows = list(everything().rows())
    assert digest_rows(rows) == digest_rows(everything().rows())
    assert digest_rows(rows) != digest_rows(rows[::-1])
    assert digest_rows(rows) != digest_rows(everything(run="r2").rows())
    assert digest_rows([dict(reversed(row.items())) for row in rows]) == digest_rows(rows)  # type: ignore[misc]


def test_digest_is_the_same_under_any_hash_seed() -> None:
    code = "from tests.trace.events import everything; from isotone.trace import digest_rows; "
    code += "print(digest_rows(everything().rows()))"
    digests = set()
    for seed in ("0", "1", "4242"):
        environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": f"{REPOSITORY / 'src'}:{REPOSITORY}"}
        done = subprocess.run(
            [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True, timeout=60
        )
        digests.add(done.stdout.strip())
    assert digests == {digest_rows(everything().rows())}
