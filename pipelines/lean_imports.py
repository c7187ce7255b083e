"""Beam and spaCy, imported in half the time: without optional libraries that no local run needs.

Both import whatever of their optional libraries is installed: pandas and the clients of Google's and Amazon's clouds
take longer than Beam itself, torch longer than spaCy. While the two are imported here these seem not to be installed;
after that they are as before, for whoever imports them. Buckets come back with the first path that names one.
"""

from __future__ import annotations

import importlib
import importlib.util
import logging
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import partial
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

_BEAM = "apache_beam"

# What they import where it is there, and do without where it is not.
_OF_BEAM = (
    "apitools",
    "azure",
    "boto3",
    "google.api_core",
    "google.auth",
    "google.cloud.dataflow",
    "pandas",
    "pymongo",
    "requests",
)
_OF_SPACY = ("cupy", "mxnet", "tensorflow", "torch")

# Scheme to the module and the class of Beam's file system, and the modules that remember whether the client is there.
_BUCKETS = {
    "gs": (f"{_BEAM}.io.gcp.gcsfilesystem", "GCSFileSystem", (f"{_BEAM}.io.gcp", f"{_BEAM}.internal.gcp")),
    "s3": (f"{_BEAM}.io.aws.s3filesystem", "S3FileSystem", (f"{_BEAM}.io.aws",)),
    "azfs": (
        f"{_BEAM}.io.azure.blobstoragefilesystem",
        "BlobStorageFileSystem",
        (f"{_BEAM}.io.azure", f"{_BEAM}.internal.azure"),
    ),
}
_late: list[type] = []  # Python forgets a class that nobody holds


def lean(argv: Sequence[str]) -> None:
    """Makes the imports quick, in this process; that of Beam unless the arguments name another runner or a bucket."""
    waiting = {
        finder.name for finder in sys.meta_path if isinstance(finder, _Around)
    }  # of commands run before this one
    if "spacy" not in sys.modules and "spacy" not in waiting:
        sys.meta_path.insert(0, _Around("spacy", partial(_without, _OF_SPACY)))
    remote = any("://" in argument or argument.startswith("--runner") for argument in argv)
    if not remote and _BEAM not in sys.modules and _BEAM not in waiting:
        sys.meta_path.insert(0, _Around(_BEAM, _lean_beam))


@contextmanager
def outside_notebooks() -> Iterator[None]:
    """Keeps Beam from importing IPython to see whether this is a notebook: in one it is imported already."""
    if "IPython" in sys.modules:
        yield
        return
    sys.modules["IPython"] = None  # type: ignore[assignment]
    try:
        yield
    finally:
        del sys.modules["IPython"]


class _Around(MetaPathFinder, Loader):
    """Finds a module, once, and loads it as its own loader does, within a context."""

    def __init__(self, name: str, context: Callable[[], AbstractContextManager[None]]) -> None:
        self.name, self.context = name, context
        self.loader: Loader | None = None

    def find_spec(self, name: str, path: Any = None, target: ModuleType | None = None) -> ModuleSpec | None:
        if name != self.name:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.loader is not None:
            self.loader, spec.loader = spec.loader, self
        return spec

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self.loader.create_module(spec) if self.loader else None

    def exec_module(self, module: ModuleType) -> None:
        if self.loader is not None and module.__spec__ is not None:
            module.__loader__ = module.__spec__.loader = self.loader
            with self.context():
                self.loader.exec_module(module)


class _Hiding(MetaPathFinder):
    """Says of libraries that they are not installed. What is imported already stays."""

    def __init__(self, names: Sequence[str]) -> None:
        self.names = names

    def find_spec(self, name: str, path: Any = None, target: ModuleType | None = None) -> None:
        if name in self.names:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


@contextmanager
def _without(names: Sequence[str]) -> Iterator[None]:
    hiding = _Hiding(names)
    sys.meta_path.insert(0, hiding)
    try:
        yield
    finally:
        sys.meta_path.remove(hiding)


@contextmanager
def _lean_beam() -> Iterator[None]:
    disabled = logging.root.manager.disable
    with _without(_OF_BEAM):
        logging.disable(logging.WARNING)  # of what it goes without
        try:
            yield
        finally:
            logging.disable(disabled)
        if "pandas" not in sys.modules:
            _no_pandas_yet()
        _offer_buckets()


def _no_pandas_yet() -> None:
    """Has pyarrow look for pandas now, while it is hidden: it would import it to make the first array."""
    with suppress(ImportError):
        import pyarrow as pa

        pa.array([0])
        sys.meta_path.insert(0, _Around("pandas", _seen_by_pyarrow))


@contextmanager
def _seen_by_pyarrow() -> Iterator[None]:
    """After the import of pandas, pyarrow knows of it."""
    yield
    from pyarrow import lib

    with suppress(AttributeError):
        lib._pandas_api.pd  # noqa: B018 (looks again)


def _offer_buckets() -> None:
    """Gives Beam a file system for each scheme of a cloud's that it has none for."""
    from apache_beam.io.filesystem import FileSystem

    there = {system.scheme() for system in FileSystem.get_all_subclasses()}
    for scheme in _BUCKETS.keys() - there:
        _late.append(_late_system(scheme, FileSystem))


def _late_system(scheme: str, base: Any) -> type:
    """A class that Beam takes for the file system of a scheme; its first object is one of Beam's own class.

    Beam looks for the class of a scheme among all subclasses each time: once its own is there, this one has no scheme.
    """
    module, name, of_cloud = _BUCKETS[scheme]
    waiting = [scheme]

    class Late(base):
        def __new__(cls, *args: Any, **options: Any) -> Any:
            for imported in [one for one in sys.modules if one.startswith((*of_cloud, f"{_BEAM}.utils.retry"))]:
                del sys.modules[imported]
            waiting.clear()
            try:
                own = getattr(importlib.import_module(module), name)
            except ImportError as error:
                raise ValueError(f"{scheme}:// needs a library that is not installed: {error}") from None
            return own(*args, **options)

        @classmethod
        def scheme(cls) -> str | None:
            return waiting[0] if waiting else None

    return Late
