"""Credentials: whether there are some, and where from. No network is asked, and no secret is read further than needed.

Whether they are valid only their service knows.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from parapet.pipelines.doctor.packages import Finding, installed
from parapet.schemas.errors import InputError, install_line
from parapet.transforms.crowd import worker_ids

# What botocore asks that needs neither a network nor another program.
_QUIET = ("env", "shared-credentials-file", "config-file", "boto-config")

# What names other credentials in a profile: told, not tried.
_LOUD = {
    "role_arn": "a role",
    "sso_session": "single sign-on",
    "sso_start_url": "single sign-on",
    "login_session": "aws login",
    "credential_process": "a program",
}


def credentials() -> list[Finding]:
    """What is said of each account."""
    return [_aws(), *_google(), _azure(), _libretranslate(), _hugging_face(), _worker_key()]


def _aws() -> Finding:
    enables = "mturk publish, collect, topup, pay, stop"
    if installed("boto3") is None:
        return Finding("AWS", "missing", enables, "boto3 is not installed", install_line("mturk"))
    try:
        source = aws_source()
    except Exception as error:  # of a profile that is not there, a file that cannot be read
        return Finding("AWS", "wrong", enables, f"{type(error).__name__}: {error}", "mend ~/.aws, or set AWS_PROFILE")
    if source:
        return Finding("AWS", "there", enables, f"from {source}")
    how = "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or run: aws configure"
    return Finding("AWS", "missing", enables, "none found (roles of a machine are not asked for)", how)


def aws_source() -> str:
    """Where boto3 would find credentials; empty where it would not, but perhaps of a network."""
    from botocore.session import Session

    logging.getLogger("botocore").setLevel(logging.WARNING)  # at lower levels it says what it finds
    session = Session()
    named = f"the profile {session.profile or 'default'!r}"
    profile: dict[str, Any] = session.get_scoped_config()
    for provider in session.get_component("credential_provider").providers:
        if provider.METHOD in _QUIET and provider.load() is not None:
            return "the environment" if provider.METHOD == "env" else f"{named}, {provider.METHOD}"
    return next((f"{what}, as {named} says; not tried here" for key, what in _LOUD.items() if key in profile), "")


def _google() -> Iterator[Finding]:
    enables = "back_translate --engine google; gs:// paths; Dataflow"
    variable = "GOOGLE_APPLICATION_CREDENTIALS"
    given = os.environ.get(variable)
    place = Path(given) if given else google_default()
    kind, login = _kind_of(place), "gcloud auth application-default login"
    if kind:
        yield Finding("Google", "there", enables, f"from {variable if given else place} ({kind})")
    elif given:
        reason = f"{variable} names {given}, which holds no credentials"
        yield Finding("Google", "wrong", enables, reason, f"mend the path, or: {login}")
    else:
        yield Finding("Google", "missing", enables, "no application default credentials", login)
    name, enables = "Google project", "who pays"
    if project := os.environ.get("GOOGLE_CLOUD_PROJECT"):
        yield Finding(name, "there", f"{enables}, without --google_project", project)
    else:
        how = "set GOOGLE_CLOUD_PROJECT, or give --google_project"
        yield Finding(name, "missing", enables, "GOOGLE_CLOUD_PROJECT is not set", how)


def google_default() -> Path:
    """Where gcloud keeps application default credentials."""
    base = os.environ.get("CLOUDSDK_CONFIG") or Path.home() / ".config" / "gcloud"
    return Path(base) / "application_default_credentials.json"


def _kind_of(place: Path) -> str:
    """``service_account`` and the like; empty where there is no file with credentials."""
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
    return Finding("LibreTranslate", "missing", enables, f"{name} is not set; servers of one's own want none")


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
        return Finding(name, "there", enables, f"{place} is made on the first run")
    if os.name == "posix" and place.stat().st_mode & 0o077:
        return Finding(name, "wrong", enables, f"others can read {place}", f"chmod 600 {place}")
    return Finding(name, "there", enables, str(place))
