"""What a model's heads do: run, measure, decide, write tables.

The public names are imported when they are first asked for, so that importing this package costs
nothing: torch and transformers come with the first model.
"""

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rolecall.analyses.ablate import Effects, ablate
    from rolecall.analyses.check import Finding, check
    from rolecall.analyses.models import Model, load_model
    from rolecall.analyses.paths import paths
    from rolecall.analyses.racing import race
    from rolecall.analyses.scan import ScanResult, scan
    from rolecall.analyses.screening import screen
    from rolecall.analyses.without import without

_HOME = {
    "Effects": "ablate",
    "ablate": "ablate",
    "paths": "paths",
    "race": "racing",
    "screen": "screening",
    "without": "without",
    "Finding": "check",
    "Model": "models",
    "check": "check",
    "load_model": "models",
    "scan": "scan",
    "ScanResult": "scan",
}

__all__ = [
    "Effects",
    "Finding",
    "Model",
    "ScanResult",
    "ablate",
    "check",
    "load_model",
    "paths",
    "race",
    "scan",
    "screen",
    "without",
]


class _Package(ModuleType):
    def __setattr__(self, name: str, value: object) -> None:
        # `check` is both a file and the function in it. The import system would set the name to
        # the module as soon as anyone imports from the file; the name is the function's.
        if not (name in _HOME and isinstance(value, ModuleType)):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
