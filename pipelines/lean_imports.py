"""Beam and spaCy, imported in half the time: without optional libraries that no local run needs.

Both import whatever of their optional libraries is installed: pandas and the clients of Google's and Amazon's clouds
take longer than Beam itself, torch longer than spaCy. These seem not to be installed to the libraries that ask for them
here, and are as always to everybody else.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from pathlib import Path
from types import ModuleType

_BUCKETS = ("gs://", "s3://", "azfs://")
# Package that imports to what it does without. With pandas installed, pyarrow imports it to make Parapet's first array.
_HIDDEN = {
    "apache_beam": (
        *("apitools", "azure", "boto3", "google.api_core", "google.auth", "google.cloud.dataflow"),
        *("pandas", "pymongo", "requests", "IPython"),
    ),
    "thinc": ("cupy", "mxnet", "tensorflow", "torch"),
    "parapet": ("pandas",),
}


class _Hiding(MetaPathFinder):
    def find_spec(self, name: str, path: object = None, target: ModuleType | None = None) -> None:
        frame = sys._getframe(1)
        while frame.f_back and frame.f_code.co_filename.startswith("<frozen importlib"):
            frame = frame.f_back
        importer = str(frame.f_globals.get("__name__")).partition(".")[0]
        if name in _HIDDEN.get(importer, ()):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


_hiding = _Hiding()


def lean(argv: Sequence[str]) -> None:
    """Makes the imports quick in this process, unless the arguments name another runner or a bucket."""
    remote = any(argument.startswith("--runner") or _names_bucket(argument) for argument in argv)
    if not remote and _hiding not in sys.meta_path and "apache_beam" not in sys.modules:
        sys.meta_path.insert(0, _hiding)


def _names_bucket(argument: str) -> bool:
    text = argument
    if argument.endswith(".toml") and Path(argument).is_file():
        text += Path(argument).read_text(encoding="utf-8", errors="replace")
    return any(scheme in text for scheme in _BUCKETS)
