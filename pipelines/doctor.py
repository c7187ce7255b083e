"""``parapet doctor``: reports which extras, models, credentials and plug-ins are installed, and what each enables.

It reads the metadata of packages and imports none of them. It uses no network, so it cannot tell whether credentials
are valid, and reads no more of a secret than it needs.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import platform
import re
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from importlib.metadata import PackageNotFoundError, entry_points, metadata, requires, version
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import msgspec
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

from parapet.pipelines.command import EXIT_FAILURE, counted, run_checked
from parapet.pipelines.flags import INPUT, OUTPUT, StrictParser
from parapet.pipelines.workers import memory_bytes
from parapet.schemas.errors import DISTRIBUTION, InputError, install_line
from parapet.transforms.crowd import worker_ids

if TYPE_CHECKING:
    from parapet.transforms.storage.checkpoints import Checkpoint


# What may be uninstalled, and why nothing is lost by it.
SPARE = {"python-levenshtein": "not installed: rapidfuzz gives the same values"}

# The purpose of each extra. Extras without an entry are listed without a purpose.
ENABLES = {
    "azure": "speech_errors --engine azure",
    "collect": "collect serve",
    "docs": "make docs (for developers)",
    "gcp": "Dataflow; gs:// paths in every pipeline",
    "google": "back_translate, language_variations: --engine google",
    "hub": "release push",
    "lint": "make lint (for developers)",
    "llm": "language_variations --engine llm, collect llm: language models behind an endpoint",
    "local": "back_translate, language_variations: --engine local; evaluate --scorer nli; train: checkpoints",
    "models": "train and predict, without checkpoints",
    "fluency": "all perturbations: how likely a language model finds the changed turns, in the card",
    "meaning": "language_variations: the meaning of paraphrases by MiniLM",
    "mturk": "mturk",
    "notebooks": "the notebooks of docs/notebooks; Beam in any notebook",
    "pandas": "parapet.to_pandas",
    "sign": "release sign; release verify, of signed releases",
    "speech": "speech_errors, offline",
    "test": "make test (for developers)",
    "translate": "back_translate, language_variations: --engine embedded, without a network",
}

_SHOWN = 4  # packages listed for an extra

# ``missing``: optional and not installed. ``wrong``: a problem to fix.
State = Literal["there", "missing", "wrong"]


class Finding(msgspec.Struct, frozen=True):
    """One line of the report.

    Attributes:
      name: the item that was checked.
      enables: the commands and flags that need it.
      detail: what was detected, or what is wrong; never a secret.
      next: what to do, a command where possible; empty if nothing is to be done.
    """

    name: str
    state: State
    enables: str = ""
    detail: str = ""
    next: str = ""


def python_is_enough(running: str) -> tuple[bool, str]:
    """Checks whether the distribution supports this Python version; also returns the supported range."""
    wanted = str(metadata(DISTRIBUTION)["Requires-Python"] or "")
    return SpecifierSet(wanted).contains(running, prereleases=True), wanted


def core() -> list[Finding]:
    """Checks the requirements of the core: one line for each problem, and one for everything that is installed.

    Raises:
      PackageNotFoundError: the distribution is not installed.
    """
    wanted, findings = requirements_of(DISTRIBUTION), list[Finding]()
    for requirement in wanted:
        wrong = "; ".join(problems(requirement))
        name, spare = requirement.name, SPARE.get(canonicalize_name(requirement.name))
        install = f"pip install '{name}{requirement.specifier}'"
        if wrong and spare and installed(name) is None:
            findings.append(Finding(name, "missing", detail=spare, next=install))
        elif wrong:
            findings.append(Finding(name, "wrong", "everything", wrong, install))
    good = f"{len(wanted) - len(findings)} of {len(wanted)} with a supported version"
    return [Finding("packages", "there", detail=good), *findings]


def extras() -> list[Finding]:
    """Checks for each extra whether all of its packages are installed."""
    return [_extra(name) for name in sorted(metadata(DISTRIBUTION).get_all("Provides-Extra") or ())]


def _extra(name: str) -> Finding:
    wanted = requirements_of(DISTRIBUTION, name)
    wrong = [problem for requirement in wanted for problem in problems(requirement)]
    # With all packages installed, a wrong version is an error; otherwise the extra was probably never requested.
    is_broken = all(installed(requirement.name) is not None for requirement in wanted)
    state: State = "there" if not wrong else "wrong" if is_broken else "missing"
    listed = wrong or [f"{requirement.name} {installed(requirement.name)}" for requirement in wanted]
    more = f", and {len(listed) - _SHOWN} more" if len(listed) > _SHOWN else ""
    detail = ", ".join(listed[:_SHOWN]) + more
    return Finding(name, state, ENABLES.get(name, ""), detail, install_line(name) if wrong else "")


def requirements_of(distribution: str, extra: str = "") -> list[Requirement]:
    """Lists the requirements of a distribution on this platform: of its core, or only those of an extra."""
    every = [Requirement(line) for line in requires(distribution) or ()]

    def holds(requirement: Requirement, extra: str) -> bool:
        return requirement.marker is None or requirement.marker.evaluate({"extra": extra})

    if extra:
        return [requirement for requirement in every if holds(requirement, extra) and not holds(requirement, "")]
    return [requirement for requirement in every if holds(requirement, "")]


def problems(requirement: Requirement, seen: Iterable[str] = ()) -> Iterator[str]:
    """Yields the problems of a requirement: not installed, wrong version, or incomplete extras."""
    name, version = requirement.name, installed(requirement.name)
    if version is None:
        yield f"{name} is not installed"
    elif not requirement.specifier.contains(version, prereleases=True):
        yield f"{name} {version} is installed, {requirement.specifier} is required"
    else:
        for extra in sorted(requirement.extras - set(seen)):
            for further in requirements_of(name, extra):
                yield from problems(further, {*seen, extra})


@cache
def installed(name: str) -> str | None:
    """Returns the version of a distribution; None if it is not installed."""
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def models() -> Iterator[Finding]:
    """Checks the models that are installed as packages: spaCy's, and those of the offline speech engines."""
    enables, name = "anonymise, compose: --spacy_model", ""
    for point in sorted(entry_points(group="spacy_models"), key=lambda point: point.name):
        name = point.name
        source = f"{point.dist.name} {point.dist.version}, " if point.dist is not None else ""
        yield Finding(name, "there", enables, f"{source}spaCy {installed('spacy')}")
    if not name:
        how = "python -m spacy download en_core_web_sm"
        yield Finding("spaCy models", "missing", enables, "none is installed", how)
    yield data_of("Hibari model", "hibari", "assets", "speech_errors: the speaker")
    yield data_of("Moonshine model", "moonshine_voice", "assets/tiny-en", "speech_errors: the listener")


def data_of(name: str, module: str, folder: str, enables: str) -> Finding:
    """Checks whether a package's data folder exists."""
    spec, install = find_spec(module), install_line("speech")  # the package is top-level, so find_spec imports nothing
    if spec is None:
        return Finding(name, "missing", enables, f"{module} is not installed", install)
    for place in spec.submodule_search_locations or ():
        if (path := Path(place) / folder).is_dir():
            return Finding(name, "there", enables, str(path))
    return Finding(name, "wrong", enables, f"{module} has no {folder}", f"{install} --force-reinstall")


_GPUS = Path("/proc/driver/nvidia/gpus")
_FEW = 4 * 2**30  # less memory than this is tight for Beam together with a model


def machine(folder: Path) -> list[Finding]:
    """Checks this machine.

    Args:
      folder: the current folder, where outputs would go.
    """
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    detail = f"{cores}; large inputs use them all" if cores > 1 else f"{cores}"
    return [_python(), Finding("cores", "there", detail=detail), _memory(), _torch(), _writable(folder)]


def _python() -> Finding:
    running = platform.python_version()
    enough, wanted = python_is_enough(running)
    detail = f"{running} on {platform.system()} {platform.machine()}"
    if enough:
        return Finding("Python", "there", detail=detail)
    return Finding("Python", "wrong", "everything", f"{detail}; {wanted} is required", "install another Python")


def _memory() -> Finding:
    total = memory_bytes()
    if total is None:
        return Finding("memory", "there", detail="not known on this system")
    detail = f"{total / 2**30:.1f} GiB"
    if total < _FEW:
        return Finding("memory", "missing", detail=f"{detail}: large corpora and models may not fit")
    return Finding("memory", "there", detail=detail)


def _torch() -> Finding:
    """Checks whether models would run on a GPU: there is one, and the installed torch is built for it."""
    cards, version = gpus(), installed("torch")
    has = ", ".join(cards) or "no NVIDIA GPU"
    if version is None:
        enables = "train and predict with nets, --engine local, --scorer nli"
        return Finding("torch", "missing", enables, f"not installed; {has}", install_line("local"))
    cuda = torch_cuda()
    built = f"torch {version}, built for {f'CUDA {cuda}' if cuda else 'the CPU'}; {has}"
    if cards and not cuda:
        fix = "pip install --force-reinstall torch   (a build for CUDA: https://pytorch.org/get-started/locally)"
        return Finding("torch", "missing", "training on a GPU", built, fix)
    return Finding("torch", "there", detail=f"{built}: computes on the {'GPU' if cards else 'CPU'}")


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def gpus(folder: Path = _GPUS) -> list[str]:
    """Lists the models of the NVIDIA GPUs that the driver knows."""
    models = [re.search(r"^Model:\s*(.+)$", _read(path / "information"), re.M) for path in sorted(folder.glob("*"))]
    cards = [model[1].strip() if model else "a GPU" for model in models]
    # In a container, the driver's files may be missing although its devices exist.
    return cards or ["a GPU" for path in Path("/dev").glob("nvidia*") if path.name[6:].isdigit()]


def torch_cuda() -> str:
    """Reads the CUDA version that torch is built for from its ``version.py``; empty for a CPU build."""
    spec = find_spec("torch")
    places: Sequence[str] = spec.submodule_search_locations or () if spec is not None else ()
    versions = [re.search(r"^cuda[^=]*=\s*'([\d.]+)'", _read(Path(place) / "version.py"), re.M) for place in places]
    return next((version[1] for version in versions if version), "")


def _writable(folder: Path) -> Finding:
    try:
        with tempfile.TemporaryFile(dir=folder):  # only creating a file shows whether that is possible
            pass
        free = shutil.disk_usage(folder).free
    except OSError as error:
        reason = f"{folder} cannot be written: {error.strerror}"
        how = "change to another folder, or give an --output elsewhere"
        return Finding("folder", "missing", "outputs in the current folder", reason, how)
    return Finding("folder", "there", detail=f"{folder} is writable, {free / 2**30:,.1f} GiB free")


# botocore's credential providers that need neither a network nor another program.
_QUIET = ("env", "shared-credentials-file", "config-file", "boto-config")

# Settings of a profile that need other credentials; the report names them and does not try them.
_LOUD = {
    "role_arn": "a role",
    "sso_session": "single sign-on",
    "sso_start_url": "single sign-on",
    "login_session": "aws login",
    "credential_process": "a program",
}


def credentials() -> list[Finding]:
    """Checks the credentials of each account."""
    return [_aws(), *_google(), _azure(), _libretranslate(), _hugging_face(), _worker_key()]


def _aws() -> Finding:
    enables = "mturk publish, collect, topup, pay, stop"
    if installed("boto3") is None:
        return Finding("AWS", "missing", enables, "boto3 is not installed", install_line("mturk"))
    try:
        source = aws_source()
    except Exception as error:  # of a profile that is not there, a file that cannot be read
        return Finding(
            "AWS", "wrong", enables, f"{type(error).__name__}: {error}", "correct ~/.aws, or set AWS_PROFILE"
        )
    if source:
        return Finding("AWS", "there", enables, f"from {source}")
    how = "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or run: aws configure"
    return Finding("AWS", "missing", enables, "none found (instance roles are not checked)", how)


def aws_source() -> str:
    """Names the source where boto3 would find credentials; empty if it would find none without the network."""
    from botocore.session import Session

    logging.getLogger("botocore").setLevel(logging.WARNING)  # at lower levels it logs the credentials' source
    session = Session()
    named = f"the profile {session.profile or 'default'!r}"
    profile: dict[str, Any] = session.get_scoped_config()
    for provider in session.get_component("credential_provider").providers:
        if provider.METHOD in _QUIET and provider.load() is not None:
            return "the environment" if provider.METHOD == "env" else f"{named}, {provider.METHOD}"
    return next(
        (f"{source}, according to {named}; not tried here" for key, source in _LOUD.items() if key in profile), ""
    )


def _google() -> Iterator[Finding]:
    enables = "back_translate --engine google; gs:// paths; Dataflow"
    variable = "GOOGLE_APPLICATION_CREDENTIALS"
    value = os.environ.get(variable)
    place = Path(value) if value else google_default()
    kind, login = _kind_of(place), "gcloud auth application-default login"
    if kind:
        yield Finding("Google", "there", enables, f"from {variable if value else place} ({kind})")
    elif value:
        reason = f"{variable} names {value}, which contains no credentials"
        yield Finding("Google", "wrong", enables, reason, f"correct the path, or run: {login}")
    else:
        yield Finding("Google", "missing", enables, "no application default credentials", login)
    name, enables = "Google project", "who pays"
    if project := os.environ.get("GOOGLE_CLOUD_PROJECT"):
        yield Finding(name, "there", f"{enables}, without --google_project", project)
    else:
        how = "set GOOGLE_CLOUD_PROJECT, or give --google_project"
        yield Finding(name, "missing", enables, "GOOGLE_CLOUD_PROJECT is not set", how)


def google_default() -> Path:
    """Returns the path at which gcloud stores application default credentials."""
    base = os.environ.get("CLOUDSDK_CONFIG") or Path.home() / ".config" / "gcloud"
    return Path(base) / "application_default_credentials.json"


def _kind_of(place: Path) -> str:
    """Returns the type of credentials, such as ``service_account``; empty if the file has none."""
    try:
        content = json.loads(place.read_bytes())
    except (OSError, ValueError, RecursionError):
        return ""
    return str(content.get("type", "")) if isinstance(content, dict) else ""


def _azure() -> Finding:
    name, enables, key, region = (
        "Azure Speech",
        "speech_errors --engine azure",
        "AZURE_SPEECH_KEY",
        "AZURE_SPEECH_REGION",
    )
    if not os.environ.get(key):
        return Finding(name, "missing", enables, f"{key} is not set", f"set {key} and {region}")
    if where := os.environ.get(region):
        return Finding(name, "there", enables, f"{key} is set; {where}")
    return Finding(name, "there", enables, f"{key} is set, {region} is not", f"set {region}, or give --azure_region")


def _libretranslate() -> Finding:
    name, enables = "LIBRETRANSLATE_API_KEY", "back_translate --engine libretranslate, where its server wants a key"
    if os.environ.get(name):
        return Finding("LibreTranslate", "there", enables, f"{name} is set")
    return Finding("LibreTranslate", "missing", enables, f"{name} is not set; your own server may not need one")


def _hugging_face() -> Finding:
    name, enables = "Hugging Face", "release push"
    for variable in ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"):
        if os.environ.get(variable):
            return Finding(name, "there", enables, f"{variable} is set")
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    home = os.environ.get("HF_HOME") or Path(cache) / "huggingface"
    place = Path(os.environ.get("HF_TOKEN_PATH") or Path(home) / "token").expanduser()
    if place.is_file() and place.stat().st_size:
        return Finding(name, "there", enables, f"from {place}")
    return Finding(name, "missing", enables, "no token", "set HF_TOKEN, or run: hf auth login")


def _worker_key() -> Finding:
    name, enables = "worker key", "compose: the same worker has the same hash in every run"
    if os.environ.get(worker_ids.VARIABLE):
        try:
            worker_ids.load_worker_key()
        except InputError as error:
            return Finding(name, "wrong", enables, str(error), "set a longer one")
        return Finding(name, "there", enables, f"from {worker_ids.VARIABLE}")
    place = worker_ids.key_file()
    if not place.is_file():
        return Finding(name, "there", enables, f"{place} is created on the first run")
    if os.name == "posix" and place.stat().st_mode & 0o077:
        return Finding(name, "wrong", enables, f"others can read {place}", f"chmod 600 {place}")
    return Finding(name, "there", enables, str(place))


Report = Mapping[str, Sequence["Finding"]]

DESCRIPTION = """\
Shows what is installed and set up: the core, extras, models, credentials, plug-ins, the machine; and for what is
missing, what it would enable and how to install it. Makes no network requests, writes nothing, shows no secret."""

EXAMPLE = """\
  parapet doctor
  parapet doctor --model opus-mt-en-de roberta-large-mnli         # what these folders could be used for
  parapet doctor --format json"""

NOTE = "The status is 0 where the core works, whatever else is missing, and 1 where it does not."

TRANSLATES = ("marian", "m2m_100")  # NLLB has the architecture of M2M100


def parser() -> StrictParser:
    """Builds the command line."""
    parser = StrictParser("doctor", DESCRIPTION, EXAMPLE, NOTE)
    text = "folders with models: shows which commands take them"
    parser.group(INPUT)("--model", nargs="+", default=[], metavar="DIR", help=text)
    parser.group(OUTPUT)("--format", choices=("text", "json"), default="text", help="format of the report")
    return parser


def run(argv: Sequence[str] | None = None) -> int:
    """Runs the command. Returns the exit status, 1 if the core does not work."""
    return run_checked(parser(), argv, lambda args: args, act, "nothing was written")


def act(args: argparse.Namespace) -> int:
    """Checks everything and prints the report. Raises InputError if Parapet is not installed."""
    from importlib.metadata import PackageNotFoundError

    try:
        report = look_around(args.model)
    except PackageNotFoundError as error:
        raise InputError(f"{error.name} is not installed: {install_line()}") from None
    works = not any(finding.state == "wrong" for finding in report["core"])
    if args.format == "json":
        content = {"core_works": works, **msgspec.to_builtins(dict(report))}
        print(json.dumps(content, indent=2, ensure_ascii=False))
    elif not args.quiet or not works:
        from rich.console import Console

        plain = not (sys.stdout.encoding or "").lower().startswith("utf")
        console = Console(highlight=False, soft_wrap=True, emoji=False)
        for line, style in lines(report, works, plain):
            console.print(line, style=style or None, markup=False)
    return 0 if works else EXIT_FAILURE


def look_around(folders: Sequence[str]) -> Report:
    """Checks everything and returns the findings by section.

    Args:
      folders: folders with models.
    """
    from parapet.transforms.running import plugins

    python, *others = machine(Path.cwd())
    return {
        "core": [python, *core()],
        "extras": extras(),
        "models": [*models(), *(inspect(folder) for folder in folders)],
        "credentials": credentials(),
        "plug-ins": [
            Finding(plugin.name, "there", title, f"{plugin.distribution} {plugin.version} ({plugin.target})")
            for group, title in plugins.GROUPS.items()
            for plugin in plugins.installed(group)
            if not plugin.built_in
        ],
        "machine": others,
    }


def inspect(folder: str) -> Finding:
    """Reports which commands accept the model in a folder, or why none does."""
    from parapet.transforms.storage.checkpoints import opened, read_json

    try:
        if model := read_json(Path(folder), "model.json").get("model"):
            return Finding(folder, "there", f"predict {model} --model {folder}", f"a model of 'parapet train {model}'")
        checkpoint = opened(folder)
    except InputError as error:
        return Finding(folder, "wrong", detail=error.reason)
    uses: list[str] = []
    reasons: dict[str, None] = {}
    for flags, check in _uses(folder, checkpoint).items():
        try:
            check()
            uses.append(flags)
        except InputError as error:
            reasons[error.reason] = None
    description = checkpoint.heads[0] if checkpoint.heads else f"a model of type {checkpoint.kind or 'unknown'!r}"
    if uses:
        return Finding(folder, "there", "; ".join(uses), description)
    return Finding(folder, "wrong", detail=f"{description}: {'; '.join(reasons) or 'no command takes it'}")


def _uses(folder: str, checkpoint: Checkpoint) -> dict[str, Callable[[], Any]]:
    """Maps each flag that might accept such a model to the check that its command makes."""
    from parapet.evaluation.generation import scoring
    from parapet.evaluation.models.saving import models_of
    from parapet.transforms.storage import checkpoints
    from parapet.transforms.translation import local

    kind = checkpoint.kind
    uses: dict[str, Callable[[], Any]] = {}
    if kind in TRANSLATES or (Path(folder) / local.CONVERTED).is_file():
        uses[f"back_translate --engine local --model {folder}"] = lambda: local.inspect(folder)
    if any(head.endswith("ForSequenceClassification") for head in checkpoint.heads):
        uses[f"evaluate --task generation --scorer nli --nli_model {folder}"] = lambda: scoring.inspect(folder)
    if models := models_of(kind):
        uses[f"train {', '.join(models)} --checkpoint {folder}"] = lambda: checkpoints.inspect(folder, (kind,))
    return uses


MARKS = {"there": ("✓", "ok", "green"), "missing": ("–", "--", "yellow"), "wrong": ("✗", "!!", "red")}


def lines(found: Report, works: bool, plain: bool = False) -> Iterator[tuple[str, str]]:
    """Yields the lines of the report, each with its style.

    Args:
      found: the findings by section.
      works: whether the core works.
      plain: whether to use ASCII marks.
    """
    for section, findings in found.items():
        yield section.capitalize(), "bold"
        width = max((len(finding.name) for finding in findings if len(finding.name) < 20), default=0)
        for finding in findings:
            mark, ascii_mark, colour = MARKS[finding.state]
            head = f"  {ascii_mark if plain else mark} {finding.name:{width}}  {finding.enables or finding.detail}"
            yield head.rstrip(), colour
            margin = " " * (width + 6 + plain)
            if finding.enables and finding.detail:
                yield f"{margin}{finding.detail}", "dim"
            if finding.next:
                yield f"{margin}{'->' if plain else '→'} {finding.next}", ""
        if not findings:
            yield "  none", "dim"
        yield "", ""
    states = [finding.state for name, findings in found.items() if name != "core" for finding in findings]
    rest = f"{counted(states.count('missing'), 'optional part')} missing, {states.count('wrong'):,} wrong"
    yield (f"The core works; {rest}." if works else "The core does not work: see above."), "bold"
