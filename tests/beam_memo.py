"""Beam asks the same questions over and over, of its options and of functions: here it remembers the answers.

A small run spends half of its time on them: it parses its flags about 150 times, once for each view of its options, and
inspects each method of each DoFn in several steps of building. The tests have many hundreds of such runs. The answers
depend on nothing but the question, the first is Beam's own, and so are all of the processes that tests start and of
``make test-all``.
"""

import bz2
import copy
import functools
import inspect
import logging
import types
from argparse import Namespace
from collections.abc import Callable
from typing import Any

from apache_beam.internal import cloudpickle_pickler
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners.worker import statecache
from apache_beam.transforms import core, ptransform, userstate, util
from apache_beam.typehints import decorators, trivial_inference


@functools.cache
def install() -> None:
    """For this process."""
    _signatures()
    _options()
    _specs()
    _return_types()
    # Most of what is pickled was pickled before, by a run of the same pipeline.
    compress = _small(lambda data, **_: bz2.compress(data, 1))
    cloudpickle_pickler.bz2 = types.SimpleNamespace(compress=compress, decompress=_small(bz2.decompress))
    # Where a type was declared, for messages, and a look for `yield` beside `return`: both read source files.
    decorators.IOTypeHints._make_origin = classmethod(lambda *_, **more: [*more.get("msg", ())])
    core._check_fn_use_yield_and_return = lambda _: False
    statecache.get_deep_size = lambda *_: 100  # bytes: all together are far below the 100 MB that it may have


def _small(real: Callable[..., bytes]) -> Callable[..., bytes]:
    """Of small inputs."""
    remembered = functools.lru_cache(maxsize=2048)(real)

    def answer(data: bytes, **options: Any) -> bytes:
        return (remembered if len(data) < 20_000 else real)(data, **options)

    return answer


def _signatures() -> None:
    """Of functions and methods; a method has the same for each object of a class."""
    real: Callable[[Any], inspect.Signature] = decorators.get_signature
    of_function = functools.lru_cache(maxsize=4096)(real)

    @functools.lru_cache(maxsize=4096)
    def of_method(function: types.FunctionType, owner: type) -> inspect.Signature:
        return real(types.MethodType(function, owner))

    def get_signature(asked: Any) -> inspect.Signature:
        if isinstance(asked, types.FunctionType):
            return of_function(asked)
        if isinstance(asked, types.MethodType) and isinstance(asked.__func__, types.FunctionType):
            return of_method(asked.__func__, type(asked.__self__))
        return real(asked)

    for module in (decorators, core, ptransform, util):
        assert module.get_signature is real
        module.get_signature = get_signature


def _options() -> None:
    """What the flags say of Beam's own options."""
    real = PipelineOptions.__init__
    parsed: dict[tuple[Any, ...], Namespace] = {}

    def init(self: PipelineOptions, flags: list[str] | None = None, **others: Any) -> None:
        key = (type(self), *(flags or ()))
        if not isinstance(flags, list) or others or type(self).__module__ != PipelineOptions.__module__:
            real(self, flags, **others)
        elif key not in parsed:
            real(self, flags)
            parsed[key] = _copied(self._visible_options)
        else:
            logging.basicConfig()
            self._flags, self._visible_options = flags, _copied(parsed[key])
            self._all_options = dict(vars(self._visible_options))

    PipelineOptions.__init__ = init


def _copied(options: Namespace) -> Namespace:
    return Namespace(**{name: copy.copy(value) for name, value in vars(options).items()})


def _specs() -> None:
    """That no method of a DoFn asks for state or timers."""
    real = userstate.get_dofn_specs
    stateless = set()

    def get_dofn_specs(dofn: core.DoFn) -> tuple[set[userstate.StateSpec], set[userstate.TimerSpec]]:
        function = getattr(dofn, "_fn", None)  # of a DoFn that calls a function
        kind = type(dofn) if function is None else getattr(function, "__code__", dofn)
        if kind in stateless:
            return set(), set()
        states, timers = real(dofn)
        if not states and not timers:
            stateless.add(kind)
        return states, timers

    userstate.get_dofn_specs = get_dofn_specs


def _return_types() -> None:
    """Of functions, which Beam reads from their byte code."""
    real = trivial_inference.infer_return_type
    inferred: dict[Any, Any] = {}

    def infer_return_type(asked: Any, inputs: list[Any], *options: Any, **more: Any) -> Any:
        if not isinstance(asked, types.FunctionType) or asked.__closure__:  # which may say what it returns
            return real(asked, inputs, *options, **more)
        key = (asked.__code__, *map(str, inputs), *options, *more.items())
        if key not in inferred:
            inferred[key] = real(asked, inputs, *options, **more)
        return inferred[key]

    trivial_inference.infer_return_type = infer_return_type
