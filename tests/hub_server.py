"""A Hugging Face Hub on this machine: the part of its API that huggingface_hub uses to create, upload, tag and read.

As the real one does, it stores Parquet files by their SHA-256 (LFS) and others by git's hash, shows a private
repository to its owner only, refuses a commit whose parent is not the last one, and gives long lists in pages.
"""

import base64
import hashlib
import json
import re
import urllib.parse
from collections.abc import Callable
from typing import Any

import msgspec
from local_http import Answer, LocalService, Request

PAGE = 20  # files of a tree in one answer
TOKENS = {"hf_ada_writes": ("ada", "write"), "hf_ada_reads": ("ada", "read"), "hf_eve_writes": ("eve", "write")}
ATTRIBUTES = b"*.parquet filter=lfs diff=lfs merge=lfs -text\n"

ROUTES: list[tuple[str, re.Pattern[str], Callable[..., Any]]] = []
_REPO = r"/datasets/(?P<repo>[^/]+/[^/]+)"


def route(method: str, pattern: str) -> Callable[..., Any]:
    """Makes a method of the server the one that answers such requests: a step, by which faults are named."""

    def add(step: Callable[..., Any]) -> Callable[..., Any]:
        ROUTES.append((method, re.compile(pattern), step))
        return step

    return add


def git_sha1(data: bytes) -> str:
    return hashlib.sha1(b"blob %d\0%s" % (len(data), data)).hexdigest()


def stored_as(path: str, data: bytes) -> str:
    return hashlib.sha256(data).hexdigest() if path.endswith(".parquet") else git_sha1(data)


def entry(path: str, data: bytes) -> dict[str, Any]:
    """A file as trees list it."""
    listed = {"type": "file", "path": path, "size": len(data), "oid": git_sha1(data)}
    lfs = {"oid": stored_as(path, data), "size": len(data), "pointerSize": 130}
    return {**listed, "lfs": lfs} if path.endswith(".parquet") else listed


def folder_entry(path: str) -> dict[str, Any]:
    return {"type": "directory", "path": path, "oid": "0" * 40, "size": 0}


class Commit(msgspec.Struct):
    """All files after it, and its message."""

    oid: str
    files: dict[str, bytes]
    message: str


class Repo(msgspec.Struct):
    """A repository: its commits, of which the last is the head of main, and its tags."""

    owner: str
    private: bool
    commits: list[Commit]
    tags: dict[str, str] = {}

    def add(self, files: dict[str, bytes], message: str) -> Commit:
        """Commits."""
        text = "\n".join([str(len(self.commits)), *(f"{path} {git_sha1(files[path])}" for path in sorted(files))])
        self.commits.append(Commit(hashlib.sha1(text.encode()).hexdigest(), files, message))
        return self.commits[-1]

    def at(self, revision: str) -> Commit | None:
        """The commit of a branch, a tag or an id."""
        oid = self.commits[-1].oid if revision == "main" else self.tags.get(revision, revision)
        return next((commit for commit in self.commits if commit.oid == oid), None)


class Refused(Exception):
    """An answer with another status than 200."""

    def __init__(self, status: int, message: str, code: str = "") -> None:
        self.status, self.headers = status, {"X-Error-Message": message} | ({"X-Error-Code": code} if code else {})


class HubServer(LocalService):
    """The server, and what its repositories contain.

    ``faults`` has the status with which a step fails.
    """

    def __init__(self) -> None:
        super().__init__()
        self.repos: dict[str, Repo] = {}
        self.blobs: dict[str, bytes] = {}
        self.faults: dict[str, int] = {}

    def state(self, name: str) -> tuple[bool, list[tuple[str, str, dict[str, bytes]]], dict[str, str]]:
        """All that a user sees of a repository."""
        repo = self.repos[name]
        return repo.private, [(commit.oid, commit.message, commit.files) for commit in repo.commits], dict(repo.tags)

    def answer(self, request: Request) -> Answer | None:
        method = "GET" if request.method == "HEAD" else request.method
        matches = ((step, pattern.fullmatch(request.path)) for verb, pattern, step in ROUTES if verb == method)
        step, match = next((step, match) for step, match in matches if match)
        with self.lock:
            self.requests.append(step.__name__)
            if step.__name__ in self.faults:
                return self._error(self.faults[step.__name__], "out of order", {})
            try:
                parts = {name: urllib.parse.unquote(value or "") for name, value in match.groupdict().items()}
                answer = step(self, request, **parts)
            except Refused as refused:
                return self._error(refused.status, refused.headers["X-Error-Message"], refused.headers)
        return answer if isinstance(answer, Answer) else Answer(answer)

    def _error(self, status: int, message: str, headers: dict[str, str]) -> Answer:
        # Where a repository exists already, the client wants the address of one.
        return Answer({"error": message, "url": f"{self.url}/datasets/some/repo"}, status, headers)

    def _user(self, request: Request, required: bool = True) -> tuple[str, str]:
        token = request.headers.get("Authorization", "").removeprefix("Bearer ")
        if token not in TOKENS and (token or required):
            raise Refused(401, "Invalid credentials in Authorization header")
        return TOKENS.get(token, ("", ""))

    def _repo(self, request: Request, name: str, write: bool = False) -> Repo:
        user, role = self._user(request, required=write)
        repo = self.repos.get(name)
        if repo is None or (repo.private and repo.owner != user):
            raise Refused(404, "Repository not found", "RepoNotFound")
        if write and (repo.owner != user or role != "write"):
            raise Refused(403, f"You are not the owner of {name}")
        return repo

    def _commit(self, request: Request, repo: str, revision: str, write: bool = False) -> Commit:
        commit = self._repo(request, repo, write).at(revision or "main")
        if commit is None:
            raise Refused(404, f"Invalid rev id: {revision}", "RevisionNotFound")
        return commit

    @route("POST", "/api/repos/create")
    def create(self, request: Request) -> Any:
        wanted = request.json
        user, role = self._user(request)
        name = f"{wanted['organization'] or user}/{wanted['name']}"
        if name in self.repos:
            raise Refused(409, "You already created this repo")
        if name.split("/")[0] != user or role != "write":
            raise Refused(403, "You don't have the rights to create a dataset under this namespace")
        private = wanted.get("visibility") == "private" or bool(wanted.get("private"))
        self.repos[name] = repo = Repo(user, private, [])
        repo.add({".gitattributes": ATTRIBUTES}, "initial commit")
        return {"url": f"{self.url}/datasets/{name}", "name": name}

    @route("POST", "/api/validate-yaml")
    def validate(self, request: Request) -> Any:
        assert request.json["repoType"] == "dataset"
        return {"warnings": [], "errors": []}

    @route("GET", f"/api{_REPO}(?:/revision/(?P<rev>[^/]+))?")
    def info(self, request: Request, repo: str, rev: str) -> Any:
        commit = self._commit(request, repo, rev)
        siblings = [{"rfilename": path} for path in sorted(commit.files)]
        return {"id": repo, "sha": commit.oid, "private": self.repos[repo].private, "tags": [], "siblings": siblings}

    @route("GET", f"/api{_REPO}/refs")
    def refs(self, request: Request, repo: str) -> Any:
        stored = self._repo(request, repo)
        branch = {"name": "main", "ref": "refs/heads/main", "targetCommit": stored.commits[-1].oid}
        tags = [{"name": tag, "ref": f"refs/tags/{tag}", "targetCommit": oid} for tag, oid in stored.tags.items()]
        return {"branches": [branch], "converts": [], "tags": tags}

    @route("GET", f"/api{_REPO}/tree/(?P<rev>[^/]+)(?:/(?P<path>.+))?")
    def tree(self, request: Request, repo: str, rev: str, path: str) -> Any:
        files = self._commit(request, repo, rev).files
        below = f"{path}/" if path else ""
        inside = sorted(name.removeprefix(below) for name in files if name.startswith(below))
        if path and not inside:
            raise Refused(404, f"{path} does not exist", "EntryNotFound")
        deep = request.query.get("recursive", "").lower() in ("true", "1")
        entries: dict[str, Any] = {}
        for parts in (name.split("/") for name in inside):
            for depth in range(1, len(parts) + 1 if deep else 2):
                name = below + "/".join(parts[:depth])
                entries[name] = folder_entry(name) if depth < len(parts) else entry(name, files[name])
        first = int(request.query.get("cursor", 0))
        headers = {}
        if first + PAGE < len(entries):
            query = urllib.parse.urlencode({**request.query, "cursor": first + PAGE})
            headers = {"Link": f'<{self.url}{request.path}?{query}>; rel="next"'}
        return Answer([*entries.values()][first : first + PAGE], headers=headers)

    @route("POST", f"/api{_REPO}/preupload/(?P<rev>[^/]+)")
    def preupload(self, request: Request, repo: str, rev: str) -> Any:
        files = self._commit(request, repo, rev, write=True).files
        answers = []
        for path in (file["path"] for file in request.json["files"]):
            mode = "lfs" if path.endswith(".parquet") else "regular"
            oid = stored_as(path, files[path]) if path in files else None
            answers.append({"path": path, "uploadMode": mode, "shouldIgnore": False, "oid": oid})
        return {"files": answers}

    @route("POST", rf"{_REPO}\.git/info/lfs/objects/batch")
    def lfs(self, request: Request, repo: str) -> Any:
        self._repo(request, repo, write=True)
        objects = request.json["objects"]
        for wanted in objects:
            if wanted["oid"] not in self.blobs:
                wanted["actions"] = {"upload": {"href": f"{self.url}/lfs/{wanted['oid']}"}}
        return {"transfer": "basic", "objects": objects}

    @route("PUT", "/lfs/(?P<oid>[0-9a-f]{64})")
    def upload(self, request: Request, oid: str) -> Any:
        assert hashlib.sha256(request.body).hexdigest() == oid
        self.blobs[oid] = request.body
        return {}

    @route("POST", f"/api{_REPO}/commit/(?P<rev>[^/]+)")
    def commit(self, request: Request, repo: str, rev: str) -> Any:
        stored = self._repo(request, repo, write=True)
        files, message = dict(stored.commits[-1].files), ""
        for line in request.body.splitlines():
            record = json.loads(line)
            kind, value = record["key"], record["value"]
            if kind == "header":
                message = value["summary"]
                if value.get("parentCommit") not in (None, stored.commits[-1].oid):
                    raise Refused(412, "A commit has happened since. Please refresh and try again.")
            elif kind == "file":
                files[value["path"]] = base64.b64decode(value["content"])
            elif kind == "lfsFile":
                files[value["path"]] = self.blobs[value["oid"]]
            elif kind == "deletedFile":
                del files[value["path"]]
        oid = stored.add(files, message).oid
        return {"success": True, "commitOid": oid, "commitUrl": f"{self.url}/datasets/{repo}/commit/{oid}"}

    @route("POST", f"/api{_REPO}/tag/(?P<rev>[^/]+)")
    def tag(self, request: Request, repo: str, rev: str) -> Any:
        commit, tags, name = self._commit(request, repo, rev, write=True), self.repos[repo].tags, request.json["tag"]
        if name in tags:
            raise Refused(409, f"Tag reference exists already: {name}")
        tags[name] = commit.oid
        return {}

    @route("GET", f"{_REPO}/resolve/(?P<rev>[^/]+)/(?P<path>.+)")
    def resolve(self, request: Request, repo: str, rev: str, path: str) -> Any:
        commit = self._commit(request, repo, rev)
        if path not in commit.files:
            raise Refused(404, "Entry not found", "EntryNotFound")
        data = commit.files[path]
        headers = {"ETag": f'"{stored_as(path, data)}"', "X-Repo-Commit": commit.oid, "Accept-Ranges": "bytes"}
        span = re.fullmatch(r"bytes=(\d+)-(\d*)", request.headers.get("Range", ""))
        if span is None:
            return Answer(data, headers=headers)
        first, last = int(span[1]), min(int(span[2] or len(data)), len(data) - 1)
        return Answer(data[first : last + 1], 206, {**headers, "Content-Range": f"bytes {first}-{last}/{len(data)}"})
