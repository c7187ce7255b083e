"""``parapet release build``: outputs of the pipelines and a ``release.toml`` -> one release."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from parapet.pipelines.command import Parser, counted, run_command
from parapet.schemas.errors import InputError

if TYPE_CHECKING:
    import apache_beam as beam

    from parapet.schemas.release_config import ReleaseConfig
    from parapet.schemas.release_manifest import Manifest
    from parapet.transforms.release.opening import Release

EXAMPLE = """\
  parapet release build --config release.toml --output releases
  parapet release verify releases/my_dataset/1.0.0"""


def parser() -> Parser:
    """The flags."""
    what = (
        "Outputs of the pipelines + release.toml -> OUT/NAME/VERSION: Parquet, SGD JSON, card, manifest, checksums.\n"
        "docs/release.md shows a release.toml."
    )
    flags = Parser("release build", what, EXAMPLE)
    flags.add_argument("--config", required=True, metavar="FILE", help="release.toml: what goes in, what it is called")
    return flags


def run(argv: Sequence[str] | None = None) -> int:
    """Runs the command. Returns the exit status."""
    return run_command(parser(), argv, check, build, finish, inputs)


def check(args: argparse.Namespace) -> argparse.Namespace:
    """Reads the configuration, the schemas and what there is. Raises InputError where no release can come of it."""
    from parapet.schemas.layout import as_path
    from parapet.schemas.release_config import read_config
    from parapet.transforms.release.checks import check_kinds
    from parapet.transforms.release.documents import licences
    from parapet.transforms.release.plan import make_plan

    args.release = config = read_config(args.config)
    base = as_path(args.config).parent
    check_kinds(config.allow_problems)
    args.licence_text = _text(base / config.licence_file) if config.licence_file else ""
    for problem in licences.problems(config.licence, config.sources, bool(args.licence_text)):
        raise InputError(problem, args.config, "licence")
    args.statistics = {one.name: _numbers(base / one.path) for one in config.statistics}
    args.plan = make_plan(config, base)
    args.parent = _parent(args.output, config, args.config)
    return args


def inputs(args: argparse.Namespace) -> list[tuple[str, str]]:
    """The files that workers read."""
    return [("--config", source.path) for source in args.plan.sources]


def _text(path: Any) -> str:
    try:
        return str(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"cannot be read: {error}", path, "licence_file") from None


def _numbers(path: Any) -> Any:
    from parapet.schemas.layout import parse_json

    path = path / "statistics.json" if path.is_dir() else path
    if not path.is_file():
        raise InputError("there is no such file", path, "statistics")
    return parse_json(path.read_bytes(), path)


def _parent(output: str, config: ReleaseConfig, path: str) -> Release | None:
    from parapet.schemas.layout import as_path
    from parapet.transforms.release.opening import latest_version, open_release
    from parapet.transforms.release.versions import level_between

    if config.parent == "none":
        return None
    place = as_path(output) / config.name
    version = config.parent or latest_version(place)
    if not version:
        return None
    if not level_between(version, config.version) and not (place / config.version).exists():
        reason = f"{config.version} does not come after {version}: raise it, or name its 'parent'"
        raise InputError(reason, path, "version")
    return open_release(place / version)


def build(pipeline: beam.Pipeline, args: argparse.Namespace) -> None:
    """Files -> rows -> shards; what stands goes into a summary, from which ``finish`` makes the release."""
    from parapet.transforms.release.publishing import prepare, staging_of
    from parapet.transforms.release.summary import BuildData

    if pipeline.options.get_all_options().get("template_location"):
        raise InputError("a release is finished by the command that ran its job: leave it out", "--template_location")
    prepare(args.output, args.release)
    pipeline | "Build data" >> BuildData(args.plan, staging_of(args.output, args.release))


def finish(args: argparse.Namespace, counters: dict[str, int]) -> None:
    """Checks what the pipeline made, writes the documents, publishes. Raises InputError where nothing may be."""
    from parapet.transforms.files import clear
    from parapet.transforms.release import publishing

    staging = publishing.staging_of(args.output, args.release)
    folder = publishing.folder_of(args.output, args.release)
    try:
        manifest = _manifest(args, staging)
        publishing.write_documents(manifest, staging, args.parent, args.licence_text)
    except InputError:
        clear(staging)
        raise
    publishing.publish(staging, folder)
    publishing.update_latest(args.output, args.release.name)
    if not args.quiet:
        _say(manifest, folder)


def _manifest(args: argparse.Namespace, staging: str) -> Manifest:
    from parapet.transforms.release import manifest
    from parapet.transforms.release.summary import read_summary

    summary = read_summary(staging)
    manifest.check_faults(summary, args.release.allow_problems)
    made = manifest.make_manifest(args.release, args.plan, summary, args.statistics)
    manifest.follow(made, staging, args.parent)
    return made


def _say(manifest: Manifest, folder: str) -> None:
    for name, config in manifest.configs.items():
        rows = ", ".join(f"{split} {info.rows:,}" for split, info in config.splits.items())
        print(f"{name}: {rows}")
    if manifest.parent is not None and manifest.changes is not None:
        print(f"after {manifest.parent.version}: a change at the {manifest.changes.level} level")
    size = sum(file.bytes for file in manifest.files)
    print(f"{folder}: {counted(len(manifest.files) + 2, 'file')}, {size / 1e6:.1f} MB")
    print(f"report: {folder}/report/index.html")


if __name__ == "__main__":
    sys.exit(run())
