"""Isotone: totally ordered group communication.

    async with isotone.join("editors", name="a", seeds=["127.0.0.1:7001"]) as group:
        await group.send(b"hello")
        async for event in group:
            ...

Names are loaded when they are first used: who needs only the model or the pipeline does not load the runtime.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from isotone.model.conflicts import Conflicts
    from isotone.model.errors import (
        Blocked,
        Closed,
        ConfigError,
        GroupError,
        InvariantViolation,
        LocalProtocolError,
        NotSwitched,
        Overloaded,
        RemoteProtocolError,
        TraceFormatError,
    )
    from isotone.model.events import (
        Apart,
        Blockage,
        CoreChanged,
        DeliveryBatch,
        Expulsion,
        ReturnedBatch,
        SlowMember,
        StateLost,
        StateProgress,
        Suspicion,
        Switched,
        SwitchRefused,
        Transitional,
        ViewInstalled,
    )
    from isotone.model.ids import ProcessId, ViewId
    from isotone.model.settings import Limits, Timing
    from isotone.model.view import Ordering, View
    from isotone.runtime.events import Batch, Delivery, Event, Returned, StateRestored
    from isotone.runtime.group import LIVE_TIMING, Group, join
    from isotone.runtime.loop import run
    from isotone.runtime.state import Stateful

_HOMES = {
    "isotone.model.conflicts": ("Conflicts",),
    "isotone.model.errors": (
        "Blocked",
        "Closed",
        "ConfigError",
        "GroupError",
        "InvariantViolation",
        "LocalProtocolError",
        "NotSwitched",
        "Overloaded",
        "RemoteProtocolError",
        "TraceFormatError",
    ),
    "isotone.model.events": (
        "Apart",
        "Blockage",
        "CoreChanged",
        "Switched",
        "SwitchRefused",
        "DeliveryBatch",
        "Expulsion",
        "ReturnedBatch",
        "SlowMember",
        "StateLost",
        "StateProgress",
        "Suspicion",
        "Transitional",
        "ViewInstalled",
    ),
    "isotone.model.ids": ("ProcessId", "ViewId"),
    "isotone.model.settings": ("Limits", "Timing"),
    "isotone.model.view": ("Ordering", "View"),
    "isotone.runtime.events": ("Batch", "Delivery", "Event", "Returned", "StateRestored"),
    "isotone.runtime.group": ("LIVE_TIMING", "Group", "join"),
    "isotone.runtime.loop": ("run",),
    "isotone.runtime.state": ("Stateful",),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
    "LIVE_TIMING",
    "Apart",
    "Batch",
    "Blockage",
    "Blocked",
    "Closed",
    "ConfigError",
    "Conflicts",
    "CoreChanged",
    "Delivery",
    "DeliveryBatch",
    "Event",
    "Expulsion",
    "Group",
    "GroupError",
    "InvariantViolation",
    "Limits",
    "LocalProtocolError",
    "NotSwitched",
    "Ordering",
    "Overloaded",
    "ProcessId",
    "RemoteProtocolError",
    "Returned",
    "ReturnedBatch",
    "SlowMember",
    "StateLost",
    "StateProgress",
    "StateRestored",
    "Stateful",
    "Suspicion",
    "SwitchRefused",
    "Switched",
    "Timing",
    "TraceFormatError",
    "Transitional",
    "View",
    "ViewId",
    "ViewInstalled",
    "join",
    "run",
]


def __getattr__(name: str) -> object:
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module 'isotone' has no attribute {name!r}")
    value: object = getattr(importlib.import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
