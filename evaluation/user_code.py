"""A user's own class, function or object, named as ``FILE.py:NAME`` or ``MODULE:NAME``."""

import importlib
import importlib.util
import inspect
import logging
import sys
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

_PACKAGE = f"{Path(__file__).parents[1]}/"


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
        """The additions to ``sys.path``."""
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
    place, _, name = code.target.rpartition(":")
    if not place or not name:
        raise InputError(f"{code.target!r}: expected MODULE:NAME or FILE.py:NAME", code.flag)
    if place.endswith(".py") and not Path(code.place).is_file():
        raise code.refused(f"cannot be loaded: there is no file {code.place}")
    with running(code, "failed when it was imported"):
        module = _imported(code)
    if not hasattr(module, name):
        raise code.refused(f"cannot be loaded: {place} has no {name}")
    return getattr(module, name)


def make(code: UserCode, method: str) -> Callable[..., Any]:
    """Returns a callable for batches: the method of an object, the function with its arguments, or the object itself.

    A class is called once, with the arguments.

    Raises:
      InputError: see :func:`check`.
      UserCodeError: the class raises an exception.
    """
    target = check(code, method)
    if inspect.isclass(target):
        with running(code, f"failed when it was created with {code.flag}_args {_shown(code.arguments)}"):
            target = target(**code.arguments)
    elif _is_function(target):
        return partial(target, **code.arguments)
    return getattr(target, method, target)  # type: ignore[no-any-return]


def check(code: UserCode, method: str) -> Any:
    """Imports the code like :func:`resolve`, and checks its parameters without loading a checkpoint.

    Raises:
      InputError: it has no such method, or does not accept the arguments.
    """
    target = resolve(code)
    is_class, is_function = inspect.isclass(target), _is_function(target)
    if is_class or is_function:
        _check_arguments(code, target, () if is_class else ([],))
    elif code.arguments:
        reason = f"{code.target} is an object of type {type(target).__name__} already, so it takes no arguments"
        raise InputError(reason, f"{code.flag}_args")
    can_be_called = any("__call__" in vars(base) for base in target.__mro__) if is_class else callable(target)
    if not callable(getattr(target, method, None)) and not can_be_called:
        raise code.refused(f"has no method {method}(batch)")
    return target


def takes(code: UserCode, name: str) -> bool:
    """Whether the class or function has a parameter of this name. Raises as :func:`resolve`."""
    target = resolve(code)
    try:
        return name in inspect.signature(target).parameters
    except (TypeError, ValueError):  # an object, or a class written in C
        return False


def _is_function(target: Any) -> bool:
    return inspect.isroutine(target) or isinstance(target, partial)


def _check_arguments(code: UserCode, target: Callable[..., Any], positional: Sequence[Any]) -> None:
    """Raises InputError if a call would not bind; a function's first parameter is the batch."""
    try:
        signature = inspect.signature(target)
    except (TypeError, ValueError):  # written in C, so nothing is known about it
        return
    try:
        signature.bind(*positional, **code.arguments)
    except TypeError as error:
        first = "a list of examples and " if positional else ""
        reason = f"{code.target}{signature} cannot be called with {first}{_shown(code.arguments)}: {error}"
        raise InputError(reason, f"{code.flag}_args") from None


def _shown(arguments: Mapping[str, Any]) -> str:
    return " ".join(f"{key}={value}" for key, value in arguments.items()) or "(none)"


@contextmanager
def running(code: UserCode, headline: str) -> Iterator[None]:
    """Attributes exceptions to the user's code.

    Args:
      code: the code that runs.
      headline: describes the failure: "failed in predict on the batch ...".

    Raises:
      UserCodeError: the code raised an exception. An InputError of its own is passed on.
    """
    try:
        yield
    except InputError:
        raise
    except (Exception, SystemExit) as error:  # a user's code may raise anything
        logging.debug("", exc_info=True)
        raise UserCodeError(f"{code.target} {headline}:\n{_users_traceback(error)}", code.flag) from None


def _users_traceback(error: BaseException) -> str:
    """Formats the traceback as Python does, without frames of Parapet and of Python's import system."""
    exception = traceback.TracebackException.from_exception(error)
    frames = [frame for frame in exception.stack if not frame.filename.startswith((_PACKAGE, "<frozen importlib"))]
    exception.stack = traceback.StackSummary.from_list(frames)
    return "".join(exception.format()).rstrip()


_lock = threading.Lock()  # the threads of a worker import the same module
_modules: dict[str, ModuleType] = {}  # by place


def _imported(code: UserCode) -> ModuleType:
    """Imports the module once; the folder of its file and the working directory join ``sys.path``, as for a script."""
    with _lock:
        if code.place not in _modules:
            sys.path[:0] = [folder for folder in code.search_path if folder not in sys.path]
            is_file = code.place.endswith(".py")
            _modules[code.place] = _module_of_file(Path(code.place)) if is_file else _module_of_name(code)
        return _modules[code.place]


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
    spec.loader.exec_module(module)
    return module
