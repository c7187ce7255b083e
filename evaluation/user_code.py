"""A user's own class, function or object, named as ``FILE.py:NAME`` or ``MODULE:NAME``.

While such code runs, the folder of its file and the working directory are on ``sys.path``, as for a script. Its
exceptions are shown with a traceback of its own files only.
"""

from __future__ import annotations

import difflib
import importlib
import importlib.util
import inspect
import logging
import sys
import sysconfig
import threading
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec

from parapet.schemas.errors import InputError, UserCodeError

_PACKAGES = {"site-packages", "dist-packages"}
_PACKAGE = Path(__file__).parents[1]
_STANDARD_LIBRARY = Path(sysconfig.get_path("stdlib"))


class UserCode(msgspec.Struct, frozen=True):
    """The code that a flag names. It is sent to workers in this form; each imports the module and makes the object.

    Attributes:
      target: ``FILE.py:NAME`` or ``MODULE:NAME``.
      arguments: keyword arguments of the class or function; see :func:`parse_arguments`.
      directory: the working directory of the command, which may differ from that of a worker.
      flag: the flag, for messages. The flag of the arguments ends with ``_args``.
    """

    target: str
    arguments: dict[str, Any] = {}
    directory: str = ""
    flag: str = "--model"

    @property
    def place(self) -> str:
        """The absolute path of the file, or the module."""
        place = self.target.rpartition(":")[0]
        return str(Path(self.directory, place).resolve()) if place.endswith(".py") else place

    @property
    def search_path(self) -> list[str]:
        """The additions to ``sys.path`` while the code runs."""
        folder = [str(Path(self.place).parent)] if self.place.endswith(".py") else []
        return list(dict.fromkeys([*folder, *filter(None, [self.directory])]))

    def refused(self, reason: str) -> InputError:
        """Makes an error about the code."""
        return InputError(f"{self.target} {reason}", self.flag)


def parse_arguments(pairs: Sequence[str], flag: str) -> dict[str, Any]:
    """Parses ``KEY=VALUE``: numbers, ``true``, ``false``, ``null`` and ``"quoted"`` texts as in JSON, otherwise text.

    >>> parse_arguments(["beams=4", "device=cpu", "greedy=true", 'version="2"'], "--model_args")
    {'beams': 4, 'device': 'cpu', 'greedy': True, 'version': '2'}

    Raises:
      InputError: a pair has no ``=``, its key is not a name, or a key is repeated.
    """
    arguments: dict[str, Any] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key.isidentifier():
            raise InputError(f"{pair!r} is not of the form KEY=VALUE (example: checkpoint=my_model)", flag)
        if key in arguments:
            raise InputError(f"{key} appears twice", flag)
        arguments[key] = _value(value)
    return arguments


def _value(text: str) -> Any:
    try:
        value = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError):
        return text
    return text if isinstance(value, list | dict) else value


def resolve(code: UserCode) -> Any:
    """Imports the class, function or object, without calling it.

    Raises:
      InputError: the file, module or name does not exist.
      UserCodeError: the module raises an exception while it is imported.
    """
    place, colon, name = code.target.rpartition(":")
    if not colon or not place or not name:
        raise InputError(f"{code.target!r}: expected MODULE:NAME or FILE.py:NAME", code.flag)
    if place.endswith(".py") and not Path(code.place).is_file():
        raise code.refused(f"cannot be loaded: there is no file {code.place}")
    with running(code, "failed when it was imported"):
        module = _imported(code)
    if not hasattr(module, name):
        near = difflib.get_close_matches(name, [key for key in vars(module) if not key.startswith("_")], n=1)
        raise code.refused(
            "cannot be loaded: its module has no such name" + "".join(f", but {suggestion}" for suggestion in near)
        )
    return getattr(module, name)


def make(code: UserCode, method: str) -> Callable[..., Any]:
    """Returns a callable for batches: the method of an object, the function with its arguments, or the object itself.

    A class is called once, with the arguments.

    Raises:
      InputError: see :func:`check`; or the object has no such method and is not callable.
      UserCodeError: the class raises an exception.
    """
    target = check(code, method)
    if inspect.isclass(target):
        with running(code, f"failed when it was created with {code.flag}_args {_shown(code.arguments)}"):
            target = target(**code.arguments)
    elif _is_function(target):
        return partial(target, **code.arguments)
    called = getattr(target, method, target)
    if not callable(called):
        raise code.refused(f"has no method {method}(batch)")
    return called  # type: ignore[no-any-return]


def check(code: UserCode, method: str) -> Any:
    """Imports the code like :func:`resolve`, and checks its parameters without loading a checkpoint.

    Raises:
      InputError: it has no such method, or does not accept the arguments.
    """
    target = resolve(code)
    flag = f"{code.flag}_args"
    if inspect.isclass(target):
        if not callable(getattr(target, method, None)) and not any("__call__" in vars(base) for base in target.__mro__):
            raise code.refused(f"has no method {method}(batch)")
        _check_arguments(code.target, target, code.arguments, flag)
    elif _is_function(target):
        _check_arguments(code.target, target, code.arguments, flag, batch=True)
    elif code.arguments:
        raise InputError(
            f"{code.target} is an object of type {type(target).__name__} already, so it takes no arguments", flag
        )
    elif not callable(getattr(target, method, target)):
        raise code.refused(f"has no method {method}(batch)")
    return target


def _is_function(target: Any) -> bool:
    return inspect.isroutine(target) or isinstance(target, partial)


def _check_arguments(
    name: str, target: Callable[..., Any], arguments: Mapping[str, Any], flag: str, batch: bool = False
) -> None:
    """Raises InputError if a call would not bind. A function's first parameter is the batch."""
    try:
        parameters = list(inspect.signature(target).parameters.values())
    except (TypeError, ValueError):  # written in C, so nothing is known about it
        return
    by_position = [
        parameter
        for parameter in parameters
        if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD)
    ]
    if batch:
        if not by_position and not any(parameter.kind is parameter.VAR_POSITIONAL for parameter in parameters):
            raise InputError(f"{name} must take one argument: a function is called with a list of examples", flag[:-5])
        parameters = [parameter for parameter in parameters if parameter not in by_position[:1]]
    named = [
        parameter
        for parameter in parameters
        if parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
    ]
    takes = f"it takes {', '.join(parameter.name for parameter in named) or 'no arguments'}"
    any_name = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters)
    if unknown := [key for key in arguments if not any_name and key not in [parameter.name for parameter in named]]:
        raise InputError(f"{name} has no parameter {', '.join(unknown)}: {takes}", flag)
    if missing := [
        parameter.name
        for parameter in named
        if parameter.default is parameter.empty and parameter.name not in arguments
    ]:
        raise InputError(f"{name} requires {' '.join(f'{key}=VALUE' for key in missing)}: {takes}", flag)


def _shown(arguments: Mapping[str, Any]) -> str:
    return " ".join(f"{key}={value}" for key, value in arguments.items()) or "(none)"


@contextmanager
def running(code: UserCode, headline: str) -> Iterator[None]:
    """Lets the user's code import files beside it, and attributes its exceptions to it.

    Args:
      code: the code that runs.
      headline: describes the failure: "failed in predict on the batch ...".

    Raises:
      UserCodeError: the code raised an exception. An InputError of its own is passed on.
    """
    folders = code.search_path
    sys.path[:0] = folders
    try:
        yield
    except InputError:
        raise
    except (Exception, SystemExit) as error:  # a user's code may raise anything
        logging.debug("", exc_info=True)
        raise UserCodeError(f"{code.target} {headline}:\n{users_traceback(code, error)}", code.flag) from None
    finally:
        for folder in folders:  # removed once each, as the threads of a worker add their own
            if folder in sys.path:
                sys.path.remove(folder)


def users_traceback(code: UserCode, error: BaseException) -> str:
    """Formats the traceback as Python does, with frames of the user's files only; also that of each cause."""
    roots = _roots(code)
    exception = traceback.TracebackException.from_exception(error)
    _filter(exception, roots)
    return "".join(exception.format()).rstrip()


def _filter(found: traceback.TracebackException, roots: Sequence[Path]) -> None:
    found.stack = traceback.StackSummary.from_list([frame for frame in found.stack if _is_users(frame.filename, roots)])
    for other in (found.__cause__, found.__context__, *(getattr(found, "exceptions", None) or ())):
        if other is not None:
            _filter(other, roots)


def _roots(code: UserCode) -> list[Path]:
    """Lists the folders of the user's files: the search path, and the package of an installed module."""
    top = sys.modules.get(code.place.partition(".")[0])
    places = list(getattr(top, "__path__", ())) or [getattr(top, "__file__", None)]
    return [Path(place).resolve() for place in (*code.search_path, *places) if place]


def _is_users(file: str | None, roots: Sequence[Path]) -> bool:
    if not file or any(Path(file).is_relative_to(place) for place in (_PACKAGE, _STANDARD_LIBRARY)):
        return False
    path = Path(file).resolve()
    return any(path.is_relative_to(root) and not _PACKAGES & {*path.relative_to(root).parts} for root in roots)


class _Loaded(msgspec.Struct):
    """The last imported module, and the modules that were loaded before."""

    key: tuple[str, str, int]
    module: ModuleType
    roots: list[Path]
    before: set[str]


_lock = threading.RLock()
_last: _Loaded | None = None


def _imported(code: UserCode) -> ModuleType:
    """Imports the module once for all workers of a process; again, with all its imports, after another one or a change.

    Two models in one process may each have a ``helpers`` beside them.
    """
    global _last
    is_file = code.place.endswith(".py")
    key = (code.place, code.directory, Path(code.place).stat().st_mtime_ns if is_file else 0)
    with _lock:
        if _last is not None:
            if _last.key == key:
                return _last.module
            for name in set(sys.modules) - _last.before:
                if _is_users(_file_of(sys.modules[name]), _last.roots):
                    del sys.modules[name]
        before = set(sys.modules)
        module = _module_of_file(Path(code.place)) if is_file else _module_of_name(code)
        _last = _Loaded(key, module, _roots(code), before)
        return module


def _file_of(module: ModuleType) -> str | None:
    place = getattr(module, "__file__", None)
    return place or next(iter(getattr(module, "__path__", None) or ()), None)


def _module_of_name(code: UserCode) -> ModuleType:
    try:
        return importlib.import_module(code.place)
    except ModuleNotFoundError as error:
        # the module itself is missing, rather than one that it imports
        if error.name and f"{code.place}.".startswith(f"{error.name}."):
            raise code.refused(f"cannot be loaded: {error}") from None
        raise


def _module_of_file(path: Path) -> ModuleType:
    # A file may have the name of a loaded module, such as json.py.
    name = path.stem if path.stem not in sys.modules else f"_user_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None  # it ends with .py
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module
