"""A recorder that has seen everything there is to see."""

from isotone.trace import TraceRecorder

VIEW = (3, "b#2")


def everything(process: str = "a#1", run: str = "r1") -> TraceRecorder:
    """One event of every kind, batches of several messages, every optional column present and absent."""
    recorder = TraceRecorder(process, run)
    recorder.start(10, {"clock": "virtual", "delay_ns_max": "5"})
    recorder.view(11, VIEW, ["a#1", "b#2"], "atop", "k", 2)
    recorder.submit(12, VIEW, 3, 150)
    recorder.send(13, VIEW, 1, [b"one", b"", b"three"], ["t", None, "u"], [["x", "y"], None, []])
    recorder.receive(14, VIEW, "b#2", 7, 2, "b#2")
    recorder.deliver(15, VIEW, "b#2", 7, [b"seven", memoryview(b"eight")], (0, 4), "atop", "k", 2, ["t", None])
    recorder.deliver(16, VIEW, "a#1", 1, [b"one"], (0, 5), "atop", "k", 2, None, [["x", "y"]], first_index=3)
    recorder.deliver(17, VIEW, "a#1", 2, [b""], (1, 0, 2), "token", "agreed", None)
    recorder.deliver(18, VIEW, "a#1", 3, [b"three"], (), "token", "agreed", None)
    recorder.deliver(19, VIEW, "b#2", 9, [b"nine"], None, "fifo", None, None)
    recorder.returned(20, VIEW, process, 4, [b"four", b"five"])
    recorder.core(21, VIEW, ["a#1"], {"ring": "2"})
    recorder.switch(22, VIEW, "token", "agreed", None, {"strategy": "dual", "phase": "cut"})
    recorder.suspect(23, VIEW, "b#2", "soft")
    recorder.trust(24, VIEW, "b#2", "soft")
    recorder.packet(25, VIEW, "ack", 1, 5, 60)
    recorder.fault(26, "b#2", {"what": "cut"})
    recorder.heal(27, None, {})
    recorder.flush(28, VIEW)
    recorder.transitional(29, VIEW, [])
    recorder.stop(30)
    recorder.crash(31)
    return recorder
