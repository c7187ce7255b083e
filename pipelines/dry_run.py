"""What ``--dry_run`` prints of a pipeline: its steps and, for Dataflow, what would be sent there."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextvars import copy_context
from pathlib import Path
from typing import TYPE_CHECKING

from parapet.schemas.layout import sample_root

if TYPE_CHECKING:
    import apache_beam as beam
    from apache_beam.options.pipeline_options import PipelineOptions


def steps(build: Callable[[beam.Pipeline], None]) -> Iterator[str]:
    """Builds a pipeline without running it, and yields its steps, with the parts of those that are not Beam's own."""
    import apache_beam as beam
    from apache_beam.runners.portability.fn_api_runner import FnApiRunner

    from parapet.transforms.storage.files import planning

    pipeline = beam.Pipeline(FnApiRunner())
    context = copy_context()
    context.run(planning.set, True)
    context.run(build, pipeline)
    yield "steps"
    for step in pipeline.transforms_stack[0].parts:
        yield f"  {step.full_label}"
        if not type(step.transform).__module__.startswith("apache_beam."):
            yield from (f"    {part.full_label.removeprefix(step.full_label + '/')}" for part in step.parts)


def staged(options: PipelineOptions) -> Iterator[str]:
    """Yields what a job would stage, as Beam's ``Stager`` does, but packs and downloads nothing."""
    from apache_beam.options.pipeline_options import DebugOptions, SetupOptions

    setup = options.view_as(SetupOptions)
    yield "pipeline.pb: these steps"
    if setup.requirements_file:
        yield f"requirements.txt: {setup.requirements_file}, and the packages that it names"
    if setup.setup_file:
        yield f"workflow.tar.gz: the package that {setup.setup_file} builds"
    yield from (f"{Path(file).name}: {file}" for file in setup.files_to_stage or ())
    if setup.extra_packages:
        yield from (f"{Path(file).name}: {file}" for file in setup.extra_packages)
        yield "extra_packages.txt: the names of these packages"
    if setup.save_main_session:
        yield "pickled_main_session: the global variables of the main module"
    if not options.view_as(DebugOptions).lookup_experiment("disable_logging_submission_environment"):
        yield "submission_environment_dependencies.txt: the packages that are installed on this machine"


def dataflow_plan(
    options: PipelineOptions, program: str, output: str, inputs: Iterable[tuple[str, str]], step_lines: list[str]
) -> Iterator[str]:
    """Yields what would run on Dataflow."""
    beam_options = options.get_all_options(drop_default=True)
    yield f"would run 'parapet {program}' on Dataflow, and write {output}"
    yield from (f"  {flag}: {path}" for flag, path in inputs)
    yield from (f"  --{name}: {value}" for name, value in sorted(beam_options.items()) if name != "runner")
    yield from step_lines
    yield f"would be staged in {beam_options.get('staging_location') or beam_options['temp_location']}"
    yield from (f"  {line}" for line in staged(options))
    yield "dry run: the flags are checked; nothing was read from the cloud or sent to it"


def stand_ins() -> Mapping[str, object]:
    """Returns what replaces inputs in a bucket, by option, where the option has no default that would do."""
    return {"variants": str(sample_root()), "responses": [str(sample_root() / "crowd/names.csv")]}
