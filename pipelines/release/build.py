"""``parapet release build``: outputs of the pipelines and a ``release.toml`` -> one release."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from parapet.pipelines.command import check_input, counted, run_command, say
from parapet.pipelines.flags import INPUT, Parser
from parapet.schemas.errors import InputError

if TYPE_CHECKING:
    import apache_beam as beam

    from parapet.schemas.release import Manifest, ReleaseConfig
    from parapet.transforms.release.opening import Release
    from parapet.transforms.release.plan import Plan

EXAMPLE = """\
  parapet release build --config release.toml --output releases
  parapet release verify releases/my_dataset/1.0.0"""


class Config(msgspec.Struct, frozen=True):
    """A release to be built.

    Attributes:
      output: the folder of releases.
      release: its ``release.toml``.
      plan: what goes in.
      licence_text: of its own licence; empty for one that has an SPDX identifier.
      statistics: name to the content of a ``statistics.json``.
      parent: the release that it follows, if any.
    """

    output: str
    release: ReleaseConfig
    plan: Plan
    licence_text: str
    statistics: dict[str, object]
    parent: Release | None


def parser() -> Parser:
    """The flags."""
    what = (
        "Builds a release from the outputs of other commands: OUT/NAME/VERSION with Parquet, SGD JSON, a card, a "
        "manifest and checksums. docs/release.md shows a release.toml."
    )
    parser = Parser("release build", what, EXAMPLE)
    text = "release.toml: inputs, name, version, licence"
    parser.group(INPUT)("--config", required=True, metavar="FILE", reads=True, help=text)
    return parser


def run(argv: Sequence[str] | None = None) -> int:
    """Runs the command. Returns the exit status."""
    return run_command(parser(), argv, check, build, finish, inputs)


def check(args: argparse.Namespace) -> Config:
    """Reads the configuration, the schemas and what there is. Raises InputError where no release can come of it."""
    from parapet.schemas.layout import as_path
    from parapet.schemas.limits import read_text
    from parapet.schemas.release import read_config
    from parapet.transforms.release.documents import licences
    from parapet.transforms.release.plan import make_plan
    from parapet.transforms.release.sources import check_kinds

    config = read_config(args.config)
    base = as_path(args.config).parent
    check_kinds(config.allow_problems)
    licence_text = read_text(base / config.licence_file, where="licence_file") if config.licence_file else ""
    for problem in licences.problems(config.licence, config.sources, bool(licence_text)):
        raise InputError(problem, args.config, "licence")
    statistics = {given.name: _numbers(base / given.path) for given in config.statistics}
    inputs = (config.corpora, config.audits, config.tables)
    for path in (str(given.path) for kind in inputs for given in kind):
        check_input(path if "://" in path else str(base / path), "--config")
    plan = make_plan(config, base)
    return Config(args.output, config, plan, licence_text, statistics, _parent(args.output, config, args.config))


def inputs(config: Config) -> list[tuple[str, str]]:
    """The files that workers read."""
    return [("--config", source.path) for source in config.plan.sources]


def _numbers(path: Any) -> Any:
    from parapet.schemas.errors import NOT_FINITE, not_finite_in, surrogate_in
    from parapet.schemas.layout import parse_json

    check_input(str(path), "statistics")
    path = path / "statistics.json" if path.is_dir() else path
    if not path.is_file():
        raise InputError("there is no such file", path, "statistics")
    found = parse_json(path.read_bytes(), path)
    if (at := not_finite_in(found)) is not None:
        raise InputError(NOT_FINITE, path, at)
    if (at := surrogate_in(found)) is not None:
        raise InputError("half a surrogate pair, which UTF-8 cannot have", path, at)
    return found


def _parent(output: str, config: ReleaseConfig, path: str) -> Release | None:
    from parapet.schemas.layout import as_path
    from parapet.transforms.release.diff import damage, level_between
    from parapet.transforms.release.opening import latest_version, open_release

    if config.parent == "none":
        return None
    place = as_path(output) / config.name
    version = config.parent or latest_version(place)
    if not version:
        return None
    if not level_between(version, config.version) and not (place / config.version).exists():
        reason = f"{config.version} does not come after {version}: raise it, or name its 'parent'"
        raise InputError(reason, path, "version")
    parent = open_release(place / version)
    if reasons := damage(parent, quick=True):
        raise InputError(f"{reasons[0]}: 'parapet release verify' says more", parent.root)
    return parent


def build(pipeline: beam.Pipeline, config: Config) -> None:
    """Files -> rows -> shards; what stands goes into a summary, from which ``finish`` makes the release."""
    from parapet.transforms.release.building import BuildData
    from parapet.transforms.release.publishing import prepare, staging_of

    if pipeline.options.get_all_options().get("template_location"):
        raise InputError("a release is finished by the command that ran its job: leave it out", "--template_location")
    prepare(config.output, config.release)
    pipeline | "Build data" >> BuildData(config.plan, staging_of(config.output, config.release))


def finish(config: Config, counters: dict[str, int]) -> None:
    """Checks what the pipeline made, writes the documents, publishes. Raises InputError where nothing may be."""
    from parapet.transforms.files import clear
    from parapet.transforms.release import publishing
    from parapet.transforms.release.building import read_summary
    from parapet.transforms.release.manifest import check_faults, follow, make_manifest

    staging = publishing.staging_of(config.output, config.release)
    folder = publishing.folder_of(config.output, config.release)
    try:
        summary = read_summary(staging)
        check_faults(summary, config.release.allow_problems)
        manifest = make_manifest(config.release, config.plan, summary, config.statistics)
        if config.parent is not None:
            follow(manifest, staging, config.parent)
        columns = {name: kept.columns for name, kept in config.plan.configs.items()}
        publishing.write_documents(manifest, columns, staging, config.parent, config.licence_text)
    except InputError:
        clear(staging)
        raise
    publishing.publish(staging, folder)
    publishing.update_latest(config.output, config.release.name)
    _say(manifest, folder)


def _say(manifest: Manifest, folder: str) -> None:
    for name, kept in manifest.configs.items():
        rows = ", ".join(f"{split} {info.rows:,}" for split, info in kept.splits.items())
        say(f"{name}: {rows}")
    if manifest.parent is not None and manifest.changes is not None:
        say(f"after {manifest.parent.version}: a change at the {manifest.changes.level} level")
    say(f"{folder}: {counted(len(manifest.files) + 2, 'file')}, {manifest.size / 1e6:.1f} MB")
    say(f"report: {folder}/report/index.html")


if __name__ == "__main__":
    sys.exit(run())
