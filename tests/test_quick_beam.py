"""What Beam is made to remember is what it would find."""

from __future__ import annotations

import inspect

import pytest
import quick_beam
from apache_beam.coders import VarIntCoder
from apache_beam.options.pipeline_options import DirectOptions, PipelineOptions, StandardOptions, WorkerOptions
from apache_beam.transforms import core, userstate

plain = inspect.unwrap(core.get_function_args_defaults)
look_up = quick_beam.remembering_arguments(plain)
view_as = inspect.unwrap(PipelineOptions.view_as)
specs = inspect.unwrap(userstate.get_dofn_specs)


class Doubled:
    def process(self, element: int, times: int = 2) -> int:
        return element * times

    @classmethod
    def of(cls, n: int = 1) -> Doubled:
        return cls()


@pytest.mark.parametrize(
    "f", [Doubled().process, Doubled.process, Doubled.of, lambda x, y=3, *z, k=4: x, len, str.strip, "abc".strip, dict]
)
def test_the_arguments_of_a_function(f: object) -> None:
    first, again = look_up(f), look_up(f)
    assert first == again == plain(f)
    first[0].append("another")
    assert look_up(f) == again


def test_functions_that_look_alike_are_told_apart() -> None:
    made = [lambda x, k=k: x * k for k in range(3)]
    assert [look_up(f)[1] for f in made * 2] == [[0], [1], [2]] * 2


def test_views_share_their_options_and_none_is_of_another_pipeline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PipelineOptions, "view_as", quick_beam.remembering_options(view_as))
    flags = ["--runner=FnApiRunner", "--direct_num_workers=2", "--experiment=a"]
    first, second = PipelineOptions(flags), PipelineOptions(["--runner=DirectRunner"])
    for options in (first, second):
        for cls in (StandardOptions, DirectOptions, WorkerOptions):
            made, expected = options.view_as(cls), view_as(options, cls)
            assert (type(made), made.get_all_options(), str(made)) == (cls, expected.get_all_options(), str(expected))
    first.view_as(StandardOptions).runner = "Other"
    assert first.view_as(StandardOptions).runner == "Other"
    assert first.view_as(DirectOptions).direct_num_workers == 2
    assert second.view_as(StandardOptions).runner == "DirectRunner"
    assert second.view_as(DirectOptions).direct_num_workers == 1


COUNT = userstate.CombiningValueStateSpec("count", VarIntCoder(), sum)


class Counting(core.DoFn):
    TIMER = userstate.TimerSpec("timer", userstate.TimeDomain.WATERMARK)

    def process(self, element: object, count: object = core.DoFn.StateParam(COUNT)) -> None:  # type: ignore[override]
        """Does nothing."""

    @userstate.on_timer(TIMER)
    def rings(self, timer: object = core.DoFn.TimerParam(TIMER)) -> None:
        """Does nothing."""


def test_the_state_that_a_step_keeps() -> None:
    remembered = quick_beam.remembering_specs(specs)
    hiding, borrowing = Counting(), core.CallableWrapperDoFn(Counting().process)
    hiding.process = lambda element: None  # type: ignore[method-assign]
    steps = [Counting(), hiding, borrowing, core.CallableWrapperDoFn(len), core.CallableWrapperDoFn(lambda x: x)]
    for step in steps * 2:
        found = remembered(step)
        assert found == specs(step)
        found[0].add("another")
        assert remembered(step) == specs(step)
    assert [len(states) for states, _ in map(remembered, steps)] == [1, 0, 1, 0, 0]
    assert [len(timers) for _, timers in map(remembered, steps)] == [1, 1, 0, 0, 0]


def test_arguments_that_clash_are_told_each_time() -> None:
    class Twice(core.DoFn):
        def process(self, element: object, one: object = core.DoFn.StateParam(COUNT), two: object = None) -> None:  # type: ignore[override]
            """Does nothing."""

    Twice.process.__defaults__ = (core.DoFn.StateParam(COUNT), core.DoFn.StateParam(COUNT))
    remembered = quick_beam.remembering_specs(specs)
    for _ in range(2):
        with pytest.raises(ValueError, match="duplicate"):
            remembered(Twice())
