"""What Beam is made to remember is what it would find."""

from __future__ import annotations

import inspect

import pytest
import quick_beam
from apache_beam.options.pipeline_options import DirectOptions, PipelineOptions, StandardOptions, WorkerOptions
from apache_beam.transforms import core

plain = inspect.unwrap(core.get_function_args_defaults)
look_up = quick_beam.remembering_arguments(plain)
view_as = inspect.unwrap(PipelineOptions.view_as)


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
