"""Histories as text, one line per process, so that a reader can follow them.

    a: [1a abc] +1 a1@0 b1@1 .

reads: process `a#1` installs view (1, `a#1`) with the members a, b and c; sends its message 1; delivers `a#1:1` at
position (0,) and `b#1:1` at (1,); stops. Words:

    [1a abc]   installs a view; [1a abc fifo] with the protocol in force
    +1         sends its message 1 in the view installed; +1^2b says that it belongs to view (2, b);
               +1:put(x,y) of type put, about the items x and y; +1:put without items, +1:(x) without a type
    a1         delivers a's message 1; a1@3 at position (3,), a1@0.3 at (0, 3); a1! with a damaged payload;
               a1^2b in view (2, b) although another may be installed; a1$ at level safe, a1%2 at level k with k = 2;
               a1@0.3/token under the protocol token. These marks stand in the order @ $ % ! ^ /
    ?a1        receives a's message 1
    <1         has its own message 1 returned
    ~          transitional signal; ~ab with those that end the view together
    >token     switches to the protocol token
    start      starts, with a virtual clock; start(host) with a clock of that name
    .  x       stops; crashes (a line with neither is cut: killed)
    fault heal as they say
    =50        the time of the next word is 50 (otherwise it grows by one per word, alike for all)

`a'` in the place of `a` is the second incarnation, `a#2`. Nothing is added that is not written, except `time` and digests.
"""

import re
from typing import Any

DELIVER = re.compile(r"([a-z]'?)(\d+)(?:@([\d.]+))?(\$?)(?:%(\d+))?(!?)(?:\^(\d+)([a-z]'?))?(?:/(\w+))?")
SEND = re.compile(r"\+(\d+)(?:\^(\d+)([a-z]'?))?(?::(\w*)(?:\(([\w,]*)\))?)?")


def process(letter: str) -> str:
    return f"{letter[0]}#{2 if letter.endswith(chr(39)) else 1}"


def history(text: str, run: str = "") -> list[dict[str, Any]]:
    """The rows of a history in text."""
    rows: list[dict[str, Any]] = []
    for line in filter(None, map(str.strip, text.splitlines())):
        name, _, words = line.partition(":")
        rows.extend(_rows_of(process(name.strip()), words, run))
    return rows


def _rows_of(name: str, words: str, run: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    view: dict[str, Any] = {}
    time = 0
    for word in re.findall(r"\[[^\]]*\]|\S+", words):
        if word.startswith("="):
            time = int(word[1:]) - 1
            continue
        time += 1
        row: dict[str, Any] = {"process": name, "step": len(rows) + 1, "time": time}
        if run:
            row["run"] = run
        if word.startswith("["):
            parts = word[1:-1].split()
            epoch, proposer = re.fullmatch(r"(\d+)([a-z]'?)", parts[0]).groups()  # type: ignore[union-attr]
            view = {"view_epoch": int(epoch), "view_proposer": process(proposer)}
            members = [process(letter) for letter in re.findall(r"[a-z]'?", parts[1])]
            row |= {"kind": "view", "members": members, **view}
            if len(parts) > 2:
                row["protocol"] = parts[2]
        elif word in (".", "x", "fault", "heal"):
            row |= {"kind": {".": "stop", "x": "crash"}.get(word, word), **view}
        elif match := re.fullmatch(r"start(?:\((\w+)\))?", word):
            row |= {"kind": "start", "detail": {"clock": match[1] or "virtual"}}
        elif word.startswith("~"):
            row |= {"kind": "transitional", **view}
            if word[1:]:
                row["members"] = [process(letter) for letter in re.findall(r"[a-z]'?", word[1:])]
        elif word.startswith(">"):
            row |= {"kind": "switch", "protocol": word[1:], "detail": {"phase": "done", "to": word[1:]}, **view}
        elif match := re.fullmatch(r"\?([a-z]'?)(\d+)", word):
            row |= {"kind": "receive", "origin": process(match[1]), "number": int(match[2]), **view}
        elif word.startswith("<"):
            row |= {"kind": "returned", "origin": name, "number": int(word[1:]), **view}
        elif match := SEND.fullmatch(word):
            number, epoch, proposer, type_, items = match.groups()
            if type_:
                row["type"] = type_
            if items is not None:
                row["items"] = list(filter(None, items.split(",")))
            row |= {"kind": "send", "origin": name, "number": int(number), "digest": _digest(name, int(number))}
            row |= {"view_epoch": int(epoch), "view_proposer": process(proposer)} if epoch else view
        elif match := DELIVER.fullmatch(word):
            origin, number, position, safe, k, damaged, epoch, proposer, protocol = match.groups()
            row |= {"kind": "deliver", "origin": process(origin), "number": int(number)}
            row["digest"] = _digest(process(origin), int(number)) + bool(damaged)
            row |= {"level": "k", "k": int(k)} if k else {"level": "safe" if safe else "agreed"}
            if protocol:
                row["protocol"] = protocol
            if position:
                row["position"] = tuple(map(int, position.split(".")))
            row |= {"view_epoch": int(epoch), "view_proposer": process(proposer)} if epoch else view
        else:
            raise ValueError(f"no word of the language: {word!r}")
        rows.append(row)
    return rows


def _digest(origin: str, number: int) -> int:
    return 1000 * ord(origin[0]) + 100_000 * int(origin[2:]) + 10 * number
