"""A class, a function or an object of the user's own, named as ``FILE.py:NAME`` or ``MODULE:NAME``.

While such code runs, the folder of its file and the working directory are on ``sys.path``, as they are for a script.
What it raises is shown with a traceback of its own files alone.
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
from parapet.transforms.running.fence import calling

_PACKAGES = {"site-packages", "dist-packages"}
_PACKAGE = Path(__file__).parents[1]
_STANDARD_LIBRARY = Path(sysconfig.get_path("stdlib"))


class UserCode(msgspec.Struct, frozen=True):
    """What a flag names, sent to workers as it is: each imports the module and makes the object itself.

    Attributes:
      target: ``FILE.py:NAME`` or ``MODULE:NAME``.
      arguments: keyword arguments of the class or function; see :func:`parse_arguments`.
      directory: the working directory of the command, which need not be that of a worker.
      flag: that names it, for messages. The one of its arguments ends with ``_args``.
    """

    target: str
    arguments: dict[str, Any] = {}
    directory: str = ""
    flag: str = "--model"

    @property
    def place(self) -> str:
        """The file, as an absolute path, or the module."""
        place = self.target.rpartition(":")[0]
        return str(Path(self.directory, place).resolve()) if place.endswith(".py") else place

    @property
    def search_path(self) -> list[str]:
        """What is on ``sys.path`` while the code runs."""
        folder = [str(Path(self.place).parent)] if self.place.endswith(".py") else []
        return list(dict.fromkeys([*folder, *filter(None, [self.directory])]))

    def refused(self, reason: str) -> InputError:
        """An error about what was named."""
        return InputError(f"{self.target} {reason}", self.flag)


def parse_arguments(pairs: Sequence[str], flag: str) -> dict[str, Any]:
    """The values of ``KEY=VALUE``: numbers, ``true``, ``false``, ``null`` and ``"quoted"`` texts as in JSON, else text.

    >>> parse_arguments(["beams=4", "device=cpu", "greedy=true", 'version="2"'], "--model_args")
    {'beams': 4, 'device': 'cpu', 'greedy': True, 'version': '2'}

    Raises:
      InputError: one has no ``=``, its key is not a name, or a key is repeated.
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
    """The class, function or object, imported and not yet called.

    Raises:
      InputError: there is no such file, module or name in it.
      UserCodeError: the module raises while it is imported.
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
        raise code.refused("cannot be loaded: its module has no such name" + "".join(f", but {one}" for one in near))
    return getattr(module, name)


def make(code: UserCode, method: str) -> Callable[..., Any]:
    """What is called with a batch: the method of an object, the function with its arguments, or the object itself.

    A class is called with the arguments, once.

    Raises:
      InputError: as :func:`check`, or the object has no such method and cannot be called.
      UserCodeError: the class raises.
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
    """As :func:`resolve`, after a look at the parameters: a checkpoint is not loaded for that.

    Raises:
      InputError: it has no such method, or does not take the arguments.
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
    """Raises InputError where a call would not bind. A function's first parameter is the batch."""
    try:
        parameters = list(inspect.signature(target).parameters.values())
    except (TypeError, ValueError):  # written in C: nothing is known of it
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
    takes = f"it takes {', '.join(one.name for one in named) or 'no arguments'}"
    any_name = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters)
    if unknown := [key for key in arguments if not any_name and key not in [one.name for one in named]]:
        raise InputError(f"{name} has no parameter {', '.join(unknown)}: {takes}", flag)
    if missing := [one.name for one in named if one.default is one.empty and one.name not in arguments]:
        raise InputError(f"{name} requires {' '.join(f'{key}=VALUE' for key in missing)}: {takes}", flag)


def _shown(arguments: Mapping[str, Any]) -> str:
    return " ".join(f"{key}={value}" for key, value in arguments.items()) or "(none)"


@contextmanager
def running(code: UserCode, headline: str) -> Iterator[None]:
    """Lets the user's code import what lies beside it, and blames it for what it raises.

    Args:
      code: whose code runs.
      headline: what it was doing: "failed in predict on the batch ...".

    Raises:
      UserCodeError: it raised. An InputError of its own is passed on as it is.
    """
    folders = code.search_path
    sys.path[:0] = folders
    try:
        with calling():
            yield
    except InputError:
        raise
    except (Exception, SystemExit) as error:  # what a stranger's code raises may be anything
        logging.debug("", exc_info=True)
        raise UserCodeError(f"{code.target} {headline}:\n{users_traceback(code, error)}", code.flag) from None
    finally:
        for folder in folders:  # once each: the threads of a worker add their own
            if folder in sys.path:
                sys.path.remove(folder)


def users_traceback(code: UserCode, error: BaseException) -> str:
    """The traceback as Python prints it, with the frames of the user's files alone; that of each cause too."""
    roots = _roots(code)
    found = traceback.TracebackException.from_exception(error)
    _filter(found, roots)
    return "".join(found.format()).rstrip()


def _filter(found: traceback.TracebackException, roots: Sequence[Path]) -> None:
    found.stack = traceback.StackSummary.from_list([one for one in found.stack if _is_users(one.filename, roots)])
    for other in (found.__cause__, found.__context__, *(getattr(found, "exceptions", None) or ())):
        if other is not None:
            _filter(other, roots)


def _roots(code: UserCode) -> list[Path]:
    """Where the user's files are: the search path, and the package of an installed module."""
    top = sys.modules.get(code.place.partition(".")[0])
    places = list(getattr(top, "__path__", ())) or [getattr(top, "__file__", None)]
    return [Path(one).resolve() for one in (*code.search_path, *places) if one]


def _is_users(file: str | None, roots: Sequence[Path]) -> bool:
    if not file or any(Path(file).is_relative_to(place) for place in (_PACKAGE, _STANDARD_LIBRARY)):
        return False
    path = Path(file).resolve()
    return any(path.is_relative_to(root) and not _PACKAGES & {*path.relative_to(root).parts} for root in roots)


class _Loaded(msgspec.Struct):
    """The module that was imported last, and the modules that were there before."""

    key: tuple[str, str, int]
    module: ModuleType
    roots: list[Path]
    before: set[str]


_lock = threading.RLock()
_last: _Loaded | None = None


def _imported(code: UserCode) -> ModuleType:
    """The module, once for all workers of a process; anew after another or a change, with all that it imports.

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
        if error.name and f"{code.place}.".startswith(f"{error.name}."):  # it itself, and not what it imports
            raise code.refused(f"cannot be loaded: {error}") from None
        raise


def _module_of_file(path: Path) -> ModuleType:
    # A file may have the name of a module that is there, such as json.py.
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
