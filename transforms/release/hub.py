"""A release on the Hugging Face Hub: its state, its differences, and the upload with huggingface_hub.

A push first reads the state, then takes the missing steps: it creates the repository, uploads the folder, and tags the
last commit with the version. The tag comes last, so that repeating a killed push completes it.
"""

from __future__ import annotations

import glob
import hashlib
import logging
import os
import time
import urllib.parse
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

import msgspec

from parapet.schemas.errors import InputError, MissingExtra, parapet_version
from parapet.schemas.release import SUMS, VERSION
from parapet.transforms.release.reading import Release, parse_version, printable
from parapet.transforms.release.verify import Findings, read_sums
from parapet.transforms.running.fence import THIS_MACHINE

if TYPE_CHECKING:
    from huggingface_hub import HfApi
    from huggingface_hub.hf_api import RepoFile

T = TypeVar("T")

ENDPOINT = "https://huggingface.co"
PACKAGE, EXTRA = "huggingface_hub", "hub"

WAITS = (2.0, 10.0)  # seconds before the second and the third attempt
TIMEOUT = 120.0  # seconds for an answer, because the client itself has no limit

# Files in these folders that the release lacks are deleted, because files of an older version would be loaded with the
FOLDERS = ("data/", "report/", "sgd/")


class HubError(InputError):
    """An error of the Hub or the network; ``passing`` if another attempt may succeed."""

    def __init__(self, reason: str, path: object = "", passing: bool = False) -> None:
        super().__init__(reason, path)
        self.passing = passing


class Plan(msgspec.Struct, frozen=True):
    """The steps of a push.

    Attributes:
      exists: whether the repository exists.
      private: whether it is private; for a new one, whether to create it as private.
      head: the last commit of its main branch; empty if there is none.
      tagged: the commit that has the version's tag; empty if there is none.
      new: the release's files missing from the repository, by path.
      changed: the files whose content in the repository differs.
      unchanged: the files with the same content.
      gone: files in the repository, below the release's folders, that the release lacks.
    """

    exists: bool
    private: bool
    head: str = ""
    tagged: str = ""
    new: list[str] = []
    changed: list[str] = []
    unchanged: list[str] = []
    gone: list[str] = []

    @property
    def different(self) -> list[str]:
        """The files in which the repository differs from the release."""
        return sorted([*self.new, *self.changed, *self.gone])


def endpoint_of(address: str) -> str:
    """Return the Hub's address: the argument, else HF_ENDPOINT, else huggingface.co. Raises InputError."""
    address = (address or os.environ.get("HF_ENDPOINT") or ENDPOINT).rstrip("/")
    try:
        parts = urllib.parse.urlsplit(address)
        right = parts.scheme in ("https", "http") and parts.hostname and not parts.username and parts.port != 0
    except ValueError:
        right = False
    if not right:
        raise InputError("is not an address such as https://huggingface.co", printable(address), "--endpoint")
    if parts.scheme == "http" and parts.hostname not in THIS_MACHINE:
        raise InputError("would receive the token unencrypted: give an https:// address", address, "--endpoint")
    return address


def find_token(needed: bool = True) -> str:
    """Return the token as huggingface_hub reads it: from HF_TOKEN, or from the file written by ``hf auth login``.

    Args:
      needed: whether a token is required; otherwise the result may be empty.

    Raises:
      MissingExtra: huggingface_hub is not installed.
      InputError: there is no token.
    """
    try:
        from huggingface_hub import get_token
    except ImportError:
        raise MissingExtra(PACKAGE, EXTRA) from None
    token = get_token()
    if not token and needed:
        reason = "no token for the Hugging Face Hub: set HF_TOKEN to a token that can write, or run: hf auth login"
        raise InputError(reason)
    return token or ""


class Hub:
    """A dataset repository of the Hub, with a token that has write access.

    Args:
      repo: OWNER/NAME.
      private: whether to create it as private.
      endpoint: the Hub's address, see :func:`endpoint_of`.
      token: sent to the endpoint, but neither logged nor printed. Without a token, only public repositories are
        visible.
    """

    def __init__(self, repo: str, private: bool, endpoint: str, token: str) -> None:
        from huggingface_hub import HfApi, get_session
        from huggingface_hub.utils import disable_progress_bars  # type: ignore[attr-defined]

        # These libraries log requested addresses and, at lower levels, the headers with the token.
        for name in ("httpcore", "httpx", "httpx2", PACKAGE):
            logging.getLogger(name).setLevel(logging.WARNING)
        disable_progress_bars()
        get_session().timeout = TIMEOUT
        self.api: HfApi = HfApi(endpoint, token=token or False)
        self.repo, self.private, self.endpoint, self._token = repo, private, endpoint, token
        self.url = f"{endpoint}/datasets/{repo}"

    def user(self) -> str:
        """Return the account of the token, empty without a token. Raises HubError if it is invalid or read-only."""
        if not self._token:
            return ""
        with self._explaining():
            account = self.api.whoami()
            role = ((account.get("auth") or {}).get("accessToken") or {}).get("role")
        if role == "read":
            how = f"create one that can write at {self.endpoint}/settings/tokens"
            raise HubError(f"the token of {account['name']} can only read: {how}", self.repo)
        return printable(str(account["name"]))

    def plan(self, release: Release) -> Plan:
        """Compare the release with the repository, without changing anything.

        Raises:
          HubError: the version exists with other content, or a newer version exists; the repository is public although
            a private one was requested; the Hub does not answer.
        """
        from huggingface_hub.errors import RepositoryNotFoundError

        with self._explaining():
            try:
                info = self.api.dataset_info(self.repo)
            except RepositoryNotFoundError:
                return self._compared(release, "", Plan(False, self.private))
            tags = {ref.name: ref.target_commit for ref in self.api.list_repo_refs(self.repo, repo_type="dataset").tags}
        if info.id != self.repo:
            raise HubError(f"has been renamed to {printable(info.id)}: give that as --repo", self.repo)
        if self.private and not info.private:
            raise HubError(f"is public: make it private at {self.url}/settings, or leave out --private", self.repo)
        version = release.manifest.version
        head, tagged = info.sha or "", tags.get(version, "")
        plan = self._compared(release, version if tagged else head, Plan(True, bool(info.private), head, tagged))
        if tagged and plan.different:
            reason = f"has a version {version} already, with different content ({_listed(plan.different)})"
            raise HubError(f"{reason}: a release never changes, so build the next version", self.repo)
        last = max(filter(VERSION.fullmatch, tags), key=parse_version, default=version)
        if parse_version(last) > parse_version(version) and not tagged:
            raise HubError(f"has version {last} already, which is newer than {version}: push in order", self.repo)
        return plan

    def _compared(self, release: Release, revision: str, plan: Plan) -> Plan:
        """Return the plan with the files of the release and of a revision of the repository."""
        from huggingface_hub.hf_api import RepoFile

        paths = {*(read_sums(release.root, Findings())), SUMS}
        remote_files: dict[str, RepoFile] = {}
        if revision:
            with self._explaining():
                tree = self.api.list_repo_tree(self.repo, recursive=True, revision=revision, repo_type="dataset")
                remote_files = {entry.path: entry for entry in tree if isinstance(entry, RepoFile)}
        same = {path for path in paths & remote_files.keys() if _is_same(release.read(path), remote_files[path])}
        return msgspec.structs.replace(
            plan,
            new=sorted(paths - remote_files.keys()),
            changed=sorted((paths & remote_files.keys()) - same),
            unchanged=sorted(same),
            gone=sorted(path for path in remote_files.keys() - paths if path.startswith(FOLDERS)),
        )

    def push(self, release: Release) -> None:
        """Take the missing steps. Raises HubError."""
        plan, version = self.plan(release), release.manifest.version
        if not plan.exists:
            with self._explaining():
                # None means public, unless the organization has another default.
                self.api.create_repo(self.repo, repo_type="dataset", private=self.private or None, exist_ok=True)
            plan = self.plan(release)
            if not plan.exists:
                raise HubError("cannot be created: a repository of another type may have the name", self.repo)
        title = f"{release.manifest.name} {version}"
        commit = plan.tagged or plan.head
        if plan.different:
            with self._explaining():
                done = self.api.upload_folder(
                    repo_id=self.repo,
                    folder_path=release.root,
                    repo_type="dataset",
                    commit_message=title,
                    commit_description=f"Uploaded by Parapet {parapet_version()}",
                    parent_commit=plan.head or None,
                    # created by downloads, and not part of the release
                    ignore_patterns=[".gitattributes", ".cache/**"],
                    delete_patterns=[glob.escape(path) for path in plan.gone] or None,
                )
            commit = str(done.oid)
            different = self._compared(release, commit, plan).different
            if different:
                reason = (
                    f"does not contain what was uploaded ({_listed(different)}): check whether the repository "
                    "has a .gitignore"
                )
                raise HubError(f"{reason} The version was not tagged", self.repo)
        if not plan.tagged:
            with self._explaining():
                self.api.create_tag(self.repo, tag=version, tag_message=title, revision=commit, repo_type="dataset")

    @contextmanager
    def _explaining(self) -> Iterator[None]:
        """Convert the client's errors to readable ones, and its warnings to messages."""
        from huggingface_hub.errors import HTTPError  # type: ignore[attr-defined]  # of httpx, or of its successor

        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", UserWarning)
            try:
                yield
            except (HTTPError, OSError, ValueError, RuntimeError, KeyError) as error:
                raise self._explained(error) from None
        for warning in caught:
            # about the card's metadata; other warnings are for developers
            if issubclass(warning.category, UserWarning):
                logging.warning("%s: %s", self.repo, self._readable(warning.message))

    def _explained(self, error: BaseException) -> HubError:
        from huggingface_hub.errors import HfHubHTTPError, OfflineModeIsEnabled
        from huggingface_hub.errors import HTTPError as AnyHTTPError  # type: ignore[attr-defined]

        error = error.__cause__ if isinstance(error, RuntimeError) and error.__cause__ is not None else error
        if isinstance(error, HfHubHTTPError):
            status = error.response.status_code
            message = self._readable(error.server_message or "")
            passing = status == 429 or status >= 500
            advice = {
                401: "the token was refused: set HF_TOKEN to a token that can write, or run: hf auth login",
                403: "the token is not allowed to write to it: change its permissions, or give another --repo",
                409: "was changed by somebody else in the meantime: check it, then run the same command again",
                412: "was changed by somebody else in the meantime: check it, then run the same command again",
            }.get(status, "the Hub refused the request")
            if passing:
                advice = "the Hub is down or busy: run the same command again later to continue"
            return HubError(f"{advice} (status {status}{f': {message}' if message else ''})", self.repo, passing)
        if isinstance(error, OfflineModeIsEnabled):
            return HubError("HF_HUB_OFFLINE is set: unset it to push", self.repo)
        message = self._readable(error) or type(error).__name__
        if isinstance(error, AnyHTTPError):
            return HubError(f"no answer: {message}: check the network and the address", self.endpoint, True)
        return HubError(f"the upload failed: {message}: run the same command again", self.repo)

    def _readable(self, text: object) -> str:
        """Return one short line without control characters and without the token, which a server may send back."""
        line = " ".join((str(text).replace(self._token, "…") if self._token else str(text)).split())
        return printable(line if len(line) <= 300 else f"{line[:300]}…")


def persevering(step: Callable[[], T]) -> T:
    """Call ``step``, and repeat it after a pause if it fails for a transient reason. Raises HubError."""
    for wait in WAITS:
        try:
            return step()
        except HubError as error:
            if not error.passing:
                raise
            logging.warning("%s; trying again in %d s", error, wait)
        time.sleep(wait)
    return step()


def _is_same(data: bytes, there: RepoFile) -> bool:
    """Whether a file of the Hub has this content: the Hub returns a SHA-256, or the hash of git."""
    if there.lfs is not None:
        return there.lfs.sha256 == hashlib.sha256(data).hexdigest()
    return hashlib.sha1(b"blob %d\0%s" % (len(data), data), usedforsecurity=False).hexdigest() == there.blob_id


def _listed(paths: Sequence[str]) -> str:
    """Format a list as ``a, b, c and 4 more``."""
    more = len(paths) - 3
    return ", ".join(map(printable, paths[:3])) + (f" and {more:,} more" if more > 0 else "")
