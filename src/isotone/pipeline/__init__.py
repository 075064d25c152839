"""Judges recorded histories: the PySpark checks and metrics, and the oracle in plain Python. Importing it loads no Spark.

Names are loaded when they are first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from isotone.pipeline.scan import Outcome, verify
    from isotone.pipeline.session import open_session
    from isotone.pipeline.sweeps.run import sweep

_HOMES = {
    "Outcome": "scan",
    "open_session": "session",
    "sweep": "sweeps.run",
    "verify": "scan",
}

__all__ = ["Outcome", "open_session", "sweep", "verify"]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{home}"), name)
