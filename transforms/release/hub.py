"""A release on the Hugging Face Hub: what is there, what is missing, and the upload with huggingface_hub.

A push looks first, then does what is missing: it creates the repository, uploads all files in one commit, tags the
commit with the version. The commit is all or nothing, and the tag comes last: a push that was killed and is run again
ends like one that was not.
"""

from __future__ import annotations

import hashlib
import logging
import os
import time
import urllib.parse
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import msgspec

from parapet.schemas.distribution import parapet_version
from parapet.schemas.errors import InputError, MissingExtra
from parapet.schemas.release_config import VERSION
from parapet.schemas.release_manifest import SIGNATURE, SUMS
from parapet.transforms.release.diff.differences import printable
from parapet.transforms.release.opening import Release
from parapet.transforms.release.signing import read_signature
from parapet.transforms.release.versions import parse

if TYPE_CHECKING:
    from huggingface_hub import HfApi
    from huggingface_hub.hf_api import RepoFile

T = TypeVar("T")

ENDPOINT = "https://huggingface.co"
PACKAGE, EXTRA = "huggingface_hub", "hub"

WAITS = (2.0, 10.0)  # seconds before the second and the third attempt
TIMEOUT = 120.0  # seconds for an answer; the client itself would wait for ever

# What is in them and not in the release is deleted: a file of an older version would be loaded with the new ones.
# Other files of the repository stay.
FOLDERS = ("data/", "report/", "sgd/")

_LOCAL = ("localhost", "127.0.0.1", "::1")
_BLOCK = 1 << 20


class HubError(InputError):
    """What the Hub, or the way to it, refuses; ``passing`` where another attempt may succeed."""

    def __init__(self, reason: str, path: object = "", passing: bool = False) -> None:
        super().__init__(reason, path)
        self.passing = passing


class Plan(msgspec.Struct, frozen=True):
    """What a push would do.

    Attributes:
      exists: whether the repository is there.
      private: whether it is private; of a new one, whether it is to be.
      head: the last commit of its main branch; empty where there is none.
      tagged: the commit that has the version's tag; empty where there is none.
      new: the release's files that are not there, by path.
      changed: those that are there with another content.
      unchanged: those that are there.
      gone: files that are there, below the release's folders, and not in it.
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
    """The Hub's address: as it is given, or else in HF_ENDPOINT, or else huggingface.co. Raises InputError."""
    address = (address or os.environ.get("HF_ENDPOINT") or ENDPOINT).rstrip("/")
    try:
        parts = urllib.parse.urlsplit(address)
        right = parts.scheme in ("https", "http") and parts.hostname and not parts.username and parts.port != 0
    except ValueError:
        right = False
    if not right:
        raise InputError("is no address such as https://huggingface.co", printable(address), "--endpoint")
    if parts.scheme == "http" and parts.hostname not in _LOCAL:
        raise InputError("would get the token unencrypted: give an https:// address", address, "--endpoint")
    return address


def find_token() -> str:
    """The token as huggingface_hub finds it: in HF_TOKEN, or where ``hf auth login`` has put it.

    Raises:
      MissingExtra: huggingface_hub is not installed.
      InputError: there is no token.
    """
    try:
        from huggingface_hub import get_token
    except ImportError:
        raise MissingExtra(PACKAGE, EXTRA) from None
    token = get_token()
    if not token:
        reason = "no token for the Hugging Face Hub: set HF_TOKEN to one that can write, or run: hf auth login"
        raise InputError(reason)
    return token


def sums_of(release: Release) -> dict[str, str]:
    """The release's files, path to SHA-256: those that SHA256SUMS lists, itself, and the signature if there is one."""
    data = release.read(SUMS)
    sums = {path: digest for digest, _, path in (line.partition("  ") for line in data.decode().splitlines())}
    signature = read_signature(release.root)
    signed = {} if signature is None else {SIGNATURE: hashlib.sha256(signature).hexdigest()}
    return {**sums, SUMS: hashlib.sha256(data).hexdigest(), **signed}


class Hub:
    """A dataset repository of the Hub, with a token that may write to it.

    Args:
      repo: OWNER/NAME.
      private: whether it is created as a private one.
      endpoint: the Hub's address, see :func:`endpoint_of`.
      token: is sent to the endpoint, and neither logged nor printed.
    """

    def __init__(self, repo: str, private: bool, endpoint: str, token: str) -> None:
        from huggingface_hub import HfApi, get_session
        from huggingface_hub.utils import disable_progress_bars  # type: ignore[attr-defined]

        # They say which addresses they ask, and at lower levels with what headers.
        for name in ("httpcore", "httpx", "httpx2", PACKAGE):
            logging.getLogger(name).setLevel(logging.WARNING)
        disable_progress_bars()
        get_session().timeout = TIMEOUT
        self.api: HfApi = HfApi(endpoint, token=token)
        self.repo, self.private, self.endpoint, self._token = repo, private, endpoint, token
        self.url = f"{endpoint}/datasets/{repo}"

    def user(self) -> str:
        """The account that the token is of. Raises HubError where it is not valid, or can only read."""
        with self._explaining():
            found = self.api.whoami()
            role = ((found.get("auth") or {}).get("accessToken") or {}).get("role")
        if role == "read":
            how = f"make one that can write at {self.endpoint}/settings/tokens"
            raise HubError(f"the token of {found['name']} can only read: {how}", self.repo)
        return printable(str(found["name"]))

    def plan(self, release: Release) -> Plan:
        """Compares the release with what is there. Asks, and changes nothing.

        Raises:
          HubError: the version is there with another content, or a newer one is there; the repository is public, and a
            private one is wanted; the Hub does not answer.
        """
        from huggingface_hub.errors import RepositoryNotFoundError

        sums = sums_of(release)
        with self._explaining():
            try:
                info = self.api.dataset_info(self.repo)
            except RepositoryNotFoundError:
                return Plan(False, self.private, new=sorted(sums))
            tags = {ref.name: ref.target_commit for ref in self.api.list_repo_refs(self.repo, repo_type="dataset").tags}
        if info.id != self.repo:
            raise HubError(f"is called {printable(info.id)} now: give that as --repo", self.repo)
        if self.private and not info.private:
            raise HubError(f"is public: make it private at {self.url}/settings, or leave out --private", self.repo)
        version = release.manifest.version
        head, tagged = info.sha or "", tags.get(version, "")
        plan = _compared(
            release.root, sums, self._files(version if tagged else head), Plan(True, bool(info.private), head, tagged)
        )
        if tagged and plan.different:
            reason = f"has a version {version} already, with another content ({_listed(plan.different)})"
            raise HubError(f"{reason}: a release never changes, build the next version", self.repo)
        newer = [tag for tag in tags if VERSION.fullmatch(tag) and parse(tag) > parse(version)]
        if newer and not tagged:
            last = max(newer, key=parse)
            raise HubError(f"has version {last} already, which is newer than {version}: push in order", self.repo)
        return plan

    def push(self, release: Release) -> Plan:
        """Does what is missing; gives the state before. Raises HubError."""
        before = plan = self.plan(release)
        if not plan.exists:
            self._create()
            plan = self.plan(release)
            if not plan.exists:
                raise HubError("cannot be created: a repository of another type may have the name", self.repo)
        commit = plan.tagged or plan.head
        if plan.different:
            commit = self._commit(release, plan)
            after = _compared(release.root, sums_of(release), self._files(commit), Plan(True, plan.private, commit))
            if after.different:
                reason = f"has not got what was uploaded ({_listed(after.different)}): is there a .gitignore in it?"
                raise HubError(f"{reason} The version was not tagged", self.repo)
        if not plan.tagged:
            self._tag(release, commit)
        return before

    def _create(self) -> None:
        with self._explaining():
            # None: public, unless the organization has another default.
            self.api.create_repo(self.repo, repo_type="dataset", private=self.private or None, exist_ok=True)

    def _commit(self, release: Release, plan: Plan) -> str:
        """Uploads what differs; gives the commit.

        ``upload_folder`` would make several commits of it, and a killed push leave some of them.
        """
        from huggingface_hub import CommitOperationAdd, CommitOperationDelete

        added = [CommitOperationAdd(path, str(release.root / path)) for path in sorted([*plan.new, *plan.changed])]
        deleted = [CommitOperationDelete(path, is_folder=False) for path in plan.gone]
        with self._explaining():
            done = self.api.create_commit(
                self.repo,
                [*added, *deleted],
                commit_message=f"{release.manifest.name} {release.manifest.version}",
                commit_description=f"Uploaded by Parapet {parapet_version()}",
                repo_type="dataset",
                parent_commit=plan.head or None,
            )
        return str(done.oid)

    def _tag(self, release: Release, commit: str) -> None:
        manifest = release.manifest
        with self._explaining():
            self.api.create_tag(
                self.repo,
                tag=manifest.version,
                tag_message=f"{manifest.name} {manifest.version}",
                revision=commit,
                repo_type="dataset",
            )

    def _files(self, revision: str) -> list[RepoFile]:
        from huggingface_hub.hf_api import RepoFile

        if not revision:
            return []
        with self._explaining():
            tree = self.api.list_repo_tree(self.repo, recursive=True, revision=revision, repo_type="dataset")
            return [entry for entry in tree if isinstance(entry, RepoFile)]

    @contextmanager
    def _explaining(self) -> Iterator[None]:
        """Turns the client's errors into those that a user should read, and its warnings into messages."""
        from huggingface_hub.errors import HTTPError  # type: ignore[attr-defined]  # of httpx, or of its successor

        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", UserWarning)
            try:
                yield
            except (HTTPError, OSError, ValueError, RuntimeError, KeyError) as error:
                raise self._explained(error) from None
        for warning in caught:
            if issubclass(warning.category, UserWarning):  # of the card's metadata; others are for developers
                logging.warning("%s: %s", self.repo, self._readable(warning.message))

    def _explained(self, error: BaseException) -> HubError:
        from huggingface_hub.errors import HfHubHTTPError, OfflineModeIsEnabled
        from huggingface_hub.errors import HTTPError as AnyHTTPError  # type: ignore[attr-defined]

        error = error.__cause__ if isinstance(error, RuntimeError) and error.__cause__ is not None else error
        if isinstance(error, HfHubHTTPError):
            status = error.response.status_code
            passing = status == 429 or status >= 500
            said = self._readable(error.server_message or "")
            reason = self._advice(status) + f" (status {status}{f': {said}' if said else ''})"
            return HubError(reason, self.repo, passing)
        if isinstance(error, OfflineModeIsEnabled):
            return HubError("HF_HUB_OFFLINE is set: unset it to push", self.repo)
        said = self._readable(error) or type(error).__name__
        if isinstance(error, AnyHTTPError):
            return HubError(f"no answer: {said}: is the network up, and the address right?", self.endpoint, True)
        return HubError(f"the upload failed: {said}: run the same command again", self.repo)

    def _advice(self, status: int) -> str:
        tokens = f"{self.endpoint}/settings/tokens"
        if status == 401:
            return f"the token was refused: make one at {tokens}, set HF_TOKEN to it, or run: hf auth login"
        if status == 403:
            return f"the token may not write to it: change that at {tokens}, or give another --repo"
        if status in (409, 412):
            return "was changed by somebody else meanwhile: look at it, then run the same command again"
        if status == 429 or status >= 500:
            return "the Hub is out of order or busy: run the same command again later, it goes on from here"
        return "the Hub refuses the request"

    def _readable(self, text: object) -> str:
        """One line without control characters, cut off where it is long; a server may send the token back."""
        line = " ".join(str(text).replace(self._token, "…").split())
        return printable(line if len(line) <= 300 else f"{line[:300]}…")


def persevering(step: Callable[[], T]) -> T:
    """Calls ``step``; again, after a while, where it fails for what may pass. Raises HubError."""
    for wait in WAITS:
        try:
            return step()
        except HubError as error:
            if not error.passing:
                raise
            logging.warning("%s; trying again in %d s", error, wait)
        time.sleep(wait)
    return step()


def _compared(root: Path, sums: Mapping[str, str], files: Iterable[RepoFile], plan: Plan) -> Plan:
    """The plan with the files by what is to be done with them."""
    there = {file.path: file for file in files}
    same = {path for path, sha256 in sums.items() if path in there and _is_same(root / path, sha256, there[path])}
    return msgspec.structs.replace(
        plan,
        new=sorted(sums.keys() - there.keys()),
        changed=sorted(sums.keys() & there.keys() - same),
        unchanged=sorted(same),
        gone=sorted(path for path in there.keys() - sums.keys() if path.startswith(FOLDERS)),
    )


def _is_same(path: Path, sha256: str, there: RepoFile) -> bool:
    """Whether a file of the Hub has the content of one here: the Hub gives a SHA-256, or the hash of git."""
    if there.lfs is not None:
        return there.lfs.sha256 == sha256
    size = path.stat().st_size
    return size == there.size and _git_sha1(path, size) == there.blob_id


def _git_sha1(path: Path, size: int) -> str:
    digest = hashlib.sha1(b"blob %d\0" % size, usedforsecurity=False)
    with path.open("rb") as handle:
        while block := handle.read(_BLOCK):
            digest.update(block)
    return digest.hexdigest()


def _listed(paths: Sequence[str]) -> str:
    """``a, b, c and 4 more``."""
    more = len(paths) - 3
    return ", ".join(map(printable, paths[:3])) + (f" and {more:,} more" if more > 0 else "")
