"""``parapet release``: build, verify, diff and push versioned dataset releases."""

from __future__ import annotations

import json
import logging
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from parapet.pipelines import app, progress
from parapet.pipelines.command import EXIT_FAILURE, check_input, counted, say
from parapet.schemas import layout, tasks
from parapet.schemas.errors import InputError
from parapet.transforms.core import options
from parapet.transforms.core.options import REQUIRED, option

if TYPE_CHECKING:
    import apache_beam as beam

    from parapet.schemas.release import Manifest, ReleaseConfig
    from parapet.transforms.release.plan import Plan
    from parapet.transforms.release.reading import Release

ACTIONS = {
    "build": "build a release from a release.toml: card, manifest, checksums",
    "verify": "check a release against its checksums, manifest and schemas",
    "diff": "compare two releases row by row, and suggest a version number",
    "push": "upload a release to the Hugging Face Hub",
}

ABOUT = """\
Builds versioned dataset releases: Parquet for 'datasets' and pandas, SGD JSON for
the published scripts, a dataset card, a manifest of all inputs, checksums. A
release never changes; a new version is written beside it."""
EXAMPLE = """\
  parapet release build --config release.toml --output releases
  parapet release verify releases/my_dataset/1.0.0"""

_RELEASE = "NAME/VERSION, or NAME for its latest; local or gs://"


@dataclass(frozen=True)
class Contents:
    """What a release is built from.

    Attributes:
      release: its ``release.toml``.
      plan: the contents.
      licence_text: the text of a licence without an SPDX identifier; otherwise empty.
      statistics: name to the content of a ``statistics.json``.
      parent: the preceding release, if any.
    """

    release: ReleaseConfig
    plan: Plan
    licence_text: str
    statistics: dict[str, object]
    parent: Release | None


class Build(app.Pipeline[Contents]):
    """``parapet release build``."""

    name = "release build"
    description = """Builds a release from the outputs of other commands: OUT/NAME/VERSION with Parquet, SGD JSON, a
        card, a manifest and checksums. docs/release.md shows a release.toml."""
    example = "  parapet release build --config release.toml --output releases"
    config: str = options.folder("release.toml: inputs, name, version, licence", "FILE", REQUIRED)

    def check(self) -> Contents:
        """Reads the configuration, the schemas and the inputs. Raises InputError if they cannot be released."""
        from parapet.schemas import limits
        from parapet.schemas.release import read_config
        from parapet.transforms.release import plan

        config = read_config(self.config)
        base = layout.as_path(self.config).parent
        licence_text = limits.read_text(base / config.licence_file, where="licence_file") if config.licence_file else ""
        statistics = {entry.name: _read_statistics(base / entry.path) for entry in config.statistics}
        for entries in (config.corpora, config.tasks, config.audits, config.tables):
            for path in (entry.path for entry in entries):
                check_input(path if "://" in path else str(base / path), "--config")
        return Contents(config, plan.make_plan(config, base), licence_text, statistics, self._parent(config))

    def inputs(self, contents: Contents) -> list[tuple[str, str]]:
        """Lists the files that workers read."""
        return [("--config", source.path) for source in contents.plan.sources]

    def _parent(self, config: ReleaseConfig) -> Release | None:
        from parapet.transforms.release import reading, verify

        place = layout.as_path(self.output) / config.name
        version = "" if config.parent == "none" else config.parent or reading.latest_version(place)
        if not version:
            return None
        if not reading.level_between(version, config.version) and not (place / config.version).exists():
            reason = f"{config.version} does not come after {version}: raise the version, or name its 'parent'"
            raise InputError(reason, self.config, "version")
        parent = reading.open_release(place / version)
        if reasons := verify.damage(parent):
            raise InputError(f"{reasons[0]}: 'parapet release verify' shows the details", parent.root)
        return parent

    def build(self, pipeline: beam.Pipeline, contents: Contents) -> None:
        """Wires the pipeline: converts files to shards and a summary, of which ``report`` makes the release."""
        from parapet.transforms.release import building

        if pipeline.options.get_all_options().get("template_location"):
            raise InputError("cannot be used here, as the command also finishes the release", "--template_location")
        building.prepare(self.output, contents.release)
        pipeline | "Build data" >> building.BuildData(contents.plan, building.staging_of(self.output, contents.release))

    def report(self, contents: Contents, counters: dict[str, int]) -> None:
        """Checks the pipeline's output, writes the documents and publishes. Raises InputError if a check fails."""
        from parapet.transforms.core.files import clear
        from parapet.transforms.release import building

        release, plan, parent = contents.release, contents.plan, contents.parent
        staging, folder = building.staging_of(self.output, release), building.folder_of(self.output, release)
        try:
            summary = building.read_summary(staging)
            building.check_faults(summary, release.allow_problems)
            if n := sum(summary.totals("fault").get(kind, 0) for kind in tasks.CONTRADICTIONS):
                contradicting = counted(n, "right value contradicts", "right values contradict")
                logging.warning("%s the schemas of their tasks' tools: 'parapet check' lists them", contradicting)
            manifest = building.make_manifest(release, plan, summary, contents.statistics)
            if parent is not None:
                building.follow(manifest, staging, parent)
            building.write_documents(manifest, plan.columns, staging, parent, contents.licence_text)
        except InputError:
            clear(staging)
            raise
        building.publish(staging, folder)
        building.update_latest(self.output, release.name)
        for name, config in manifest.configs.items():
            say(f"{name}: {', '.join(f'{split} {info.rows:,}' for split, info in config.splits.items())}")
        if manifest.parent is not None and manifest.changes is not None:
            say(f"after {manifest.parent.version}: a change at the {manifest.changes.level} level")
        say(f"{folder}: {counted(len(manifest.files) + 2, 'file')}, {manifest.size / 1e6:.1f} MB")


def _read_statistics(path: Any) -> Any:
    check_input(str(path), "statistics")
    path = path / "statistics.json" if path.is_dir() else path
    if not path.is_file():
        raise InputError("there is no such file", path, "statistics")
    return layout.parse_json(path.read_bytes(), path)


class Verify(app.Command[Path]):
    """``parapet release verify``; its settings are the folder of the release."""

    name = "release verify"
    description = """Checks a release: every file against its checksum, the manifest, columns and numbers of rows, and
        dialogues against their schemas. Prints a line for each mismatch."""
    example = "  parapet release verify releases/my_dataset          # the version that latest.json names"
    note = """A release that somebody changed as a whole, hashes included, passes: docs/release.md shows how to sign."""
    stopped = "nothing was changed"
    release: str = option(REQUIRED, _RELEASE, metavar="PATH", positional=True)
    json: bool = option(False, "print JSON", group=options.OUTPUT)

    def check(self) -> Path:
        """Finds the release. Raises InputError if there is none."""
        from parapet.transforms.release import reading

        return reading.find_release(self.release)

    def act(self, root: Path) -> int:
        """Verifies the release and prints the findings; returns the exit status."""
        from parapet.transforms.release.verify import examine

        with progress.running("parapet release verify"):
            done = examine(root)
        if self.json:
            print(json.dumps(msgspec.to_builtins(done), indent=2))
        else:
            for finding in done.findings:
                print(finding)
            say(f"{counted(done.files, 'file')}, {counted(done.rows, 'row')}, {counted(len(done.findings), 'finding')}")
        return EXIT_FAILURE if done.findings else 0


class Diff(app.Command["tuple[Release, Release]"]):
    """``parapet release diff``; its settings are the old and the new release."""

    name = "release diff"
    description = """Compares two releases row by row: which rows were added, removed and changed, in which columns the
        changed rows differ, and which version number that requires."""
    example = "  parapet release diff releases/my_dataset/1.0.0 releases/my_dataset/1.1.0"
    stopped = "nothing was changed"
    old: str = option(REQUIRED, _RELEASE, metavar="OLD", positional=True)
    new: str = option(REQUIRED, "the release to compare with it", metavar="NEW", positional=True)

    def check(self) -> tuple[Release, Release]:
        """Opens the releases. Raises InputError if one of them is not a release."""
        from parapet.transforms.release.reading import open_release

        return open_release(self.old), open_release(self.new)

    def act(self, releases: tuple[Release, Release]) -> None:
        """Compares the releases and prints the differences. Raises InputError if one is damaged."""
        from parapet.transforms.release import reading, verify

        sides = zip(("old", "new"), releases, strict=True)
        if damaged := [f"{side}: {reason}" for side, release in sides for reason in verify.damage(release)]:
            print("\n".join(damaged))
            raise InputError("the releases were not compared: 'parapet release verify' shows the details")
        print("\n".join(reading.diff_lines(reading.compare(*releases))))


class Push(app.Command["tuple[Path, Manifest, str, str]"]):
    """``parapet release push``; its settings are folder and manifest of the release, the repository and a token."""

    name = "release push"
    description = """Uploads a release to a dataset repository on the Hugging Face Hub: verifies it, creates the
        repository if there is none, uploads the folder, and tags the commit with the version. A version that is already
        there is never changed."""
    example = "  parapet release push releases/my_dataset --repo ada/my_dataset --private"
    note = "The token is read from HF_TOKEN, or from the file that 'hf auth login' writes; it must be able to write."
    stopped = "run the same command again to continue"
    release: str = option(REQUIRED, _RELEASE, metavar="PATH", positional=True)
    repo: str = option("", "dataset repository (default: 'hub' of release.toml)", group="the Hub", metavar="OWNER/NAME")
    private: bool = option(False, "create the repository as private (default: public)", group="the Hub")

    def check(self) -> tuple[Path, Manifest, str, str]:
        """Finds the release and the token. Raises InputError if release, repository or token is missing."""
        from parapet.schemas.release import HUB, NO_LICENCE
        from parapet.transforms.release import building, reading

        if "://" in self.release:
            raise InputError("is not on this machine: copy the release to it first", self.release)
        root = reading.find_release(self.release)
        manifest = reading.read_manifest(root)
        repo = self.repo or manifest.configuration.get("hub", "")
        if not repo:
            raise InputError("is required: give OWNER/NAME, here or as 'hub' in release.toml", "--repo")
        if not HUB.fullmatch(repo):
            raise InputError(f"{repo!r} must be OWNER/NAME, such as ada/{manifest.name}", "--repo")
        if manifest.licence == NO_LICENCE and not self.private:
            raise InputError("has no licence: name one in release.toml and build again, or push with --private", root)
        return root, manifest, repo, building.find_token()

    def act(self, upload: tuple[Path, Manifest, str, str]) -> None:
        """Verifies the release and uploads it. Raises InputError if it is damaged."""
        from parapet.transforms.release import building
        from parapet.transforms.release.verify import examine

        root, manifest, repo, token = upload
        with progress.running("parapet release push") as run:
            if findings := examine(root).findings:
                print("\n".join(map(str, findings)))
                raise InputError(f"{counted(len(findings), 'finding')} in the release: nothing was uploaded")
            run.stage(f"uploading {counted(len(manifest.files), 'file')}")
            url = building.push(root, manifest.version, repo, self.private, token)
        say(f"{url} has version {manifest.version}")


def command(action: str) -> type[app.Command[Any]]:
    """Returns the declaration of an action."""
    return {"build": Build, "verify": Verify, "diff": Diff, "push": Push}[action]
