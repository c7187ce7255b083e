"""Upload of a release to the Hugging Face Hub, with huggingface_hub."""

from __future__ import annotations

import logging
import os
from pathlib import Path

from parapet.schemas.errors import InputError, MissingExtra

# Files below these that the release does not have are deleted: 'datasets' would load those of an older version, too.
_FOLDERS = ("bfcl/*", "data/*", "report/*", "sgd/*")


def find_token() -> str:
    """Return the token from HF_TOKEN, or from the file written by ``hf auth login``.

    Raises:
      MissingExtra: huggingface_hub is not installed.
      InputError: there is no token.
    """
    try:
        from huggingface_hub import get_token
    except ImportError:
        raise MissingExtra("huggingface_hub", "hub") from None
    if not (token := get_token()):
        reason = "no token for the Hugging Face Hub: set HF_TOKEN to a token that can write, or run: hf auth login"
        raise InputError(reason)
    return token


def push(root: Path, version: str, repo: str, private: bool, token: str) -> str:
    """Upload a release to a dataset repository, and tag it with the version.

    Args:
      root: the folder of the release.
      version: the version of the release.
      repo: OWNER/NAME; the repository is created if it does not exist.
      private: whether it must be private.
      token: a token that can write.

    Returns:
      The address of the repository.

    Raises:
      InputError: the repository is public, but must be private; it has the version already; or the Hub refuses the
        request or does not answer.
    """
    from huggingface_hub import HfApi
    from huggingface_hub.errors import HTTPError  # type: ignore[attr-defined]  # of httpx, or of its successor
    from huggingface_hub.utils import disable_progress_bars  # type: ignore[attr-defined]

    for name in ("httpx", "httpx2"):  # they log each request
        logging.getLogger(name).setLevel(logging.WARNING)
    disable_progress_bars()
    api = HfApi(os.environ.get("HF_ENDPOINT"), token=token)
    try:
        # None means public, unless the organization has another default.
        api.create_repo(repo, repo_type="dataset", private=private or None, exist_ok=True)
        if private and not api.dataset_info(repo).private:
            raise InputError("is public: make it private in its settings, or leave out --private", repo)
        if version in {ref.name for ref in api.list_repo_refs(repo, repo_type="dataset").tags}:
            reason = f"has version {version} already, and a release never changes: build the next version"
            raise InputError(reason, repo)
        commit = api.upload_folder(
            repo_id=repo,
            folder_path=root,
            repo_type="dataset",
            commit_message=f"Version {version}",
            ignore_patterns=[".gitattributes", ".cache/**"],  # created by downloads, and not part of the release
            delete_patterns=list(_FOLDERS),
        )
        api.create_tag(repo, tag=version, revision=commit.oid, repo_type="dataset")
    except (HTTPError, OSError, ValueError, RuntimeError) as error:
        raise InputError(_reason(error), repo) from None
    return f"{api.endpoint}/datasets/{repo}"


def _reason(error: Exception) -> str:
    from huggingface_hub.errors import HfHubHTTPError

    if not isinstance(error, HfHubHTTPError):
        message = " ".join(str(error).split())[:300] or type(error).__name__
        return f"the upload failed: {message}: check the network, and run the same command again"
    if error.response.status_code in (401, 403):
        advice = "the token cannot write to it: set HF_TOKEN to a token that can, or give another --repo"
    else:
        advice = "the Hub refused the request: run the same command again later"
    return f"{advice} (status {error.response.status_code}: {error.server_message})"
