"""Imports Beam and spaCy in half the time, by hiding optional libraries that local runs do not need.

Both import whatever optional libraries are installed: pandas and the clients of Google's and Amazon's clouds take
longer than Beam itself, torch longer than spaCy. They are hidden only from the libraries that import them here; all
other code imports them as usual.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from pathlib import Path
from types import ModuleType

_BUCKETS = ("gs://", "s3://", "azfs://")
# Package to the imports hidden from it. With pandas installed, pyarrow would import it for Parapet's first array.
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
    """Hides the libraries in this process, unless the arguments name another runner or a bucket."""
    remote = any(argument.startswith("--runner") or _names_bucket(argument) for argument in argv)
    if not remote and _hiding not in sys.meta_path and "apache_beam" not in sys.modules:
        sys.meta_path.insert(0, _hiding)


def _names_bucket(argument: str) -> bool:
    text = argument
    if argument.endswith(".toml") and Path(argument).is_file():
        text += Path(argument).read_text(encoding="utf-8", errors="replace")
    return any(scheme in text for scheme in _BUCKETS)
