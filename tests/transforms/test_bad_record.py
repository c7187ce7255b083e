"""What becomes of an error that is raised while a record is handled."""

import errno
import pickle
import types

from apache_beam.io.filesystem import BeamIOError
from kit import cases, raised

from parapet.schemas.errors import MissingExtra, NoRoomError, UserCodeError
from parapet.transforms.core.counts import Counts
from parapet.transforms.core.fence import Fault, Stopped, bad_record, fatal, trace_of

PLUGIN = """
def perturb(counts):
    return counts.add("turns", n="one")

class Perturbation:
    pass
"""


def thrown(error):
    def throw():
        raise error

    return raised(type(error), throw)


def plugin():
    module = types.ModuleType("some_plugin.sub")
    exec(compile(PLUGIN, "/home/someone/some_plugin/sub.py", "exec"), module.__dict__)
    return module


def wrong_count():
    return raised(TypeError, plugin().perturb, Counts())


@cases(
    "error",
    NoRoomError("full"),
    MemoryError(),
    OSError(errno.EIO, "disk"),
    ConnectionResetError(),
    TimeoutError(),
    Stopped("daily_limit"),
    MissingExtra("torch", "models"),
    BeamIOError("bucket"),
    ids=lambda error: type(error).__name__,
)
def test_what_is_no_fault_of_a_record_is_passed_on(error):
    assert raised(type(error), bad_record, error) is error


def test_a_fault_of_parapet_has_the_innermost_place_in_it():
    fault = bad_record(wrong_count())
    assert isinstance(fault, Fault)
    head = "unsupported operand type(s) for +=: 'int' and 'str' (transforms/core/counts.py:"
    assert fault.reason.startswith(f"internal_error: TypeError: {head}")
    assert fault.reason.endswith(", in add)")
    assert fault.trace.startswith("Traceback (most recent call last):\n")
    assert 'transforms/core/counts.py", line ' in fault.trace
    assert "self[CountKey(name, set, split, value)] += n" in fault.trace
    assert str(fatal(fault)).startswith("a bug in Parapet: TypeError: ")
    assert "please report it at https://" in str(fatal(fault))
    again = pickle.loads(pickle.dumps(fault))
    assert (again.reason, again.trace) == (fault.reason, fault.trace)


def test_what_code_of_the_users_has_reported_itself():
    fault = bad_record(UserCodeError("tracker.py:T failed in predict:\nTraceback ...\nKeyError: 'x'", "--model"))
    assert fault.reason == "plugin_error: tracker.py:T failed in predict"
    assert trace_of(fault) == "Traceback ...\nKeyError: 'x'"


def test_messages_are_short_one_line_and_the_same_in_each_run():
    reason = bad_record(thrown(ValueError(f"<thing at 0x7f1c2d3e4f50>\n\n is\ud800 {'x' * 1000}"))).reason
    assert reason.startswith("internal_error: ValueError: <thing at 0x...> is\\ud800 xxx")
    assert len(reason) < 400

    class Odd(Exception):
        def __str__(self):
            raise KeyError

    assert bad_record(thrown(Odd())).reason.startswith("internal_error: Odd (")


def test_private_messages_are_withheld():
    fault = bad_record(thrown(KeyError("Ada Lovelace")), is_private=True)
    assert fault.reason.startswith("internal_error: KeyError (")
    assert "Lovelace" not in fault.reason
    assert trace_of(fault).endswith("\nKeyError")


def test_a_recursion_error_is_the_records_and_its_traceback_is_short():
    def deeper(n):
        return deeper(n + 1)

    fault = bad_record(raised(RecursionError, deeper, 0))
    assert "RecursionError: maximum recursion depth exceeded" in fault.reason
    assert trace_of(fault).count("\n") < 30
