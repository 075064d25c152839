"""Measures of one's own: functions `module:function` that take the Arrow table of a cell and return a flat dict.

The module is a file beside the experiment, or one that is installed. The function of a file beside the experiment travels to
the executors by value, so it need not be installed anywhere; an installed one must be installed there too.
"""

import hashlib
import importlib
import importlib.util
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from isotone.model.errors import ConfigError, unknown


@dataclass(frozen=True, slots=True)
class Measure:
    """A function and what identifies it."""

    name: str
    function: Callable[[Any], Mapping[str, Any]]
    code: str
    """Digest of its module's file."""


def load_measure(name: str, directory: Path) -> Measure:
    """Import a measure; errors say what is wrong with its name."""
    module_name, mark, function_name = name.partition(":")
    if not mark or not module_name or not function_name:
        raise ConfigError(f"measure {name!r}: write module:function")
    beside = directory / f"{module_name}.py"
    try:
        module = _load(module_name, beside) if beside.is_file() else importlib.import_module(module_name)
    except Exception as error:  # whatever the user's module does
        raise ConfigError(f"measure {name!r}: cannot import {module_name}: {type(error).__name__}: {error}") from None
    function = getattr(module, function_name, None)
    if not callable(function):
        raise unknown(f"function in {module_name}", function_name, [key for key in vars(module) if key[0] != "_"])
    file = Path(getattr(module, "__file__", None) or "")
    return Measure(name, function, hashlib.sha256(file.read_bytes()).hexdigest() if file.is_file() else "")


def _load(name: str, path: Path) -> ModuleType:
    """Import a file as it is now, whatever was imported under its name before."""
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} is no module")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    cloudpickle: Any = importlib.import_module("pyspark.cloudpickle")  # Spark's own, which pickles the tasks
    cloudpickle.register_pickle_by_value(module)
    return module
