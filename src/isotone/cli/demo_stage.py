"""The stage of `isotone demo`: starts the processes, tells them what to do, and waits for what they report."""

from __future__ import annotations

import asyncio
import json
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from isotone.model.errors import GroupError
from isotone.runtime import probe

PATIENCE_S = 30.0


class Actor:
    """One process of the demo."""

    def __init__(self, name: str, command: list[str], inbox: queue.Queue[tuple[str, dict[str, Any] | None]]) -> None:
        self.name = name
        self.members: str = ""
        self.delivered = 0
        self.address = ""
        self.switched: tuple[int, str] = (0, "")  # when, and to which order
        self.ended = False
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        threading.Thread(target=self._listen, args=(inbox,), daemon=True).start()

    def _listen(self, inbox: queue.Queue[tuple[str, dict[str, Any] | None]]) -> None:
        if self.process.stdout is not None:
            for line in self.process.stdout:
                if line.startswith("{"):
                    inbox.put((self.name, json.loads(line)))
        inbox.put((self.name, None))

    def tell(self, text: str) -> None:
        """Send a command."""
        if self.process.stdin is not None:
            self.process.stdin.write(text + "\n")
            self.process.stdin.flush()


class Stage:
    """The processes and what is known of them. Leaving it ends every process that was started."""

    def __init__(self, order: str, rate: float, trace: Path) -> None:
        self._command = [sys.executable, "-m", "isotone.cli.demo_member", "--order", order, "--rate", str(rate)]
        self._command += ["--trace", str(trace)]
        self._inbox: queue.Queue[tuple[str, dict[str, Any] | None]] = queue.Queue()
        self._actors: dict[str, Actor] = {}
        self._began = time.monotonic()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        for actor in self._actors.values():
            if actor.process.poll() is None:
                actor.process.kill()
            actor.process.wait()

    def say(self, text: str) -> None:
        """Tell the story."""
        print(f"[{time.monotonic() - self._began:5.1f} s] {text}", flush=True)

    def start(self, *names: str) -> None:
        """Start processes; the first founds the group, the others find it through it."""
        for name in names:
            seeds = [actor.address for actor in list(self._actors.values())[:1]]
            command = [*self._command, "--name", name, *(part for seed in seeds for part in ("--seed", seed))]
            actor = self._actors[name] = Actor(name, command, self._inbox)
            if not seeds:
                self._wait(lambda actor=actor: bool(actor.address), f"{name} to start")  # type: ignore[misc]

    def kill(self, name: str) -> None:
        """End a process without a warning."""
        self._actors[name].process.kill()
        self._actors[name].ended = True

    def cut(self, left: str, right: str) -> None:
        """Cut the network between two sets of processes."""
        for side, other in ((left, right), (right, left)):
            for name in side:
                self._actors[name].tell("block " + " ".join(other))

    def heal(self, names: str) -> None:
        """Undo all cuts."""
        for name in names:
            self._actors[name].tell("unblock")

    def switch(self, asked: str, names: str) -> None:
        """Let the group order its messages in another way, as `isotone probe` does; waits until it does everywhere."""
        address = self._actors[asked].address
        before = asyncio.run(probe.status(address, timeout=PATIENCE_S))["order"]
        after = "single_phase" if before == "atop" else "atop"
        self.say(f"The group switches from {before} to {after} while messages flow: isotone probe {address} switch {after}")
        began = time.monotonic_ns()
        told = asyncio.run(probe.switch(address, after, timeout=PATIENCE_S))
        self._wait(lambda: all(self._actors[name].switched[1] == after for name in names), f"{after} at {' '.join(names)}")
        last = max(self._actors[name].switched[0] for name in names)
        self.say(f"  in force at {asked} after {1e3 * told.seconds:.1f} ms, at all of them after {(last - began) / 1e6:.1f} ms")

    def leave(self, *names: str) -> None:
        """Processes leave gracefully; waits for their end."""
        for name in names:
            self._actors[name].tell("leave")
        self._wait(lambda: all(self._actors[name].ended for name in names), f"{', '.join(names)} to leave")
        for name in names:
            self._actors[name].process.wait(PATIENCE_S)

    def wait_view(self, names: str) -> None:
        """Wait until these processes are in one view with each other and nobody else."""
        began = time.monotonic()
        self._wait(lambda: all(self._actors[name].members == names for name in names), f"a view of {' '.join(names)}")
        self.say(f"  {' '.join(names)} share a view after {time.monotonic() - began:.2f} s")

    def wait_deliveries(self, names: str, count: float) -> None:
        """Wait until each of these processes has delivered so many more messages."""
        goals = {name: self._actors[name].delivered + count for name in names}
        self._wait(
            lambda: all(self._actors[name].delivered >= goal for name, goal in goals.items()), f"{count:g} deliveries at each"
        )

    def _wait(self, condition: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not condition():
            try:
                name, report = self._inbox.get(timeout=max(0.0, deadline - time.monotonic()))
            except queue.Empty:
                raise GroupError(f"waited {PATIENCE_S:g} s in vain for {what}") from None
            self._note(self._actors[name], report)

    def _note(self, actor: Actor, report: dict[str, Any] | None) -> None:
        if report is None:
            if not actor.ended:
                raise GroupError(f"process {actor.name} ended unexpectedly with status {actor.process.wait()}")
            return
        if "members" in report:
            actor.members = "".join(member.partition("#")[0] for member in report["members"])
        actor.delivered = report.get("delivered", actor.delivered)
        actor.address = report.get("address", actor.address)
        if "switched" in report:
            actor.switched = (report["time"], report["switched"])
        actor.ended = actor.ended or "end" in report
