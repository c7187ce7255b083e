"""A Hugging Face Hub on this machine: the part of its API that huggingface_hub uses to create, upload, tag and read.

As the real one does, it stores Parquet files by their SHA-256 (LFS) and others by git's hash, shows a private
repository to its owner only, refuses a commit whose parent is not the last one, and gives long lists in pages.
"""

import base64
import hashlib
import json
import re
import threading
import urllib.parse
from collections.abc import Callable
from typing import Any

import msgspec
from local_http import LocalHandler, LocalServer

PAGE = 20  # files of a tree in one answer
TOKENS = {"hf_ada_writes": ("ada", "write"), "hf_ada_reads": ("ada", "read"), "hf_eve_writes": ("eve", "write")}
ATTRIBUTES = b"*.parquet filter=lfs diff=lfs merge=lfs -text\n"

# (step, method, pattern); the step is what faults are named by.
ROUTES = (
    ("whoami", "GET", r"/api/whoami-v2"),
    ("create", "POST", r"/api/repos/create"),
    ("validate", "POST", r"/api/validate-yaml"),
    ("refs", "GET", r"/api/(?P<kind>\w+)/(?P<repo>[^/]+/[^/]+)/refs"),
    ("tree", "GET", r"/api/(?P<kind>\w+)/(?P<repo>[^/]+/[^/]+)/tree/(?P<rev>[^/]+)(?:/(?P<path>.+))?"),
    ("paths", "POST", r"/api/(?P<kind>\w+)/(?P<repo>[^/]+/[^/]+)/paths-info/(?P<rev>[^/]+)"),
    ("preupload", "POST", r"/api/(?P<kind>\w+)/(?P<repo>[^/]+/[^/]+)/preupload/(?P<rev>[^/]+)"),
    ("commit", "POST", r"/api/(?P<kind>\w+)/(?P<repo>[^/]+/[^/]+)/commit/(?P<rev>[^/]+)"),
    ("tag", "POST", r"/api/(?P<kind>\w+)/(?P<repo>[^/]+/[^/]+)/tag/(?P<rev>[^/]+)"),
    ("info", "GET", r"/api/(?P<kind>\w+)/(?P<repo>[^/]+/[^/]+)(?:/revision/(?P<rev>[^/]+))?"),
    ("lfs", "POST", r"/(?P<kind>\w+)/(?P<repo>[^/]+/[^/]+)\.git/info/lfs/objects/batch"),
    ("upload", "PUT", r"/lfs/(?P<oid>[0-9a-f]{64})"),
    ("resolve", "GET", r"/(?P<kind>\w+)/(?P<repo>[^/]+/[^/]+)/resolve/(?P<rev>[^/]+)/(?P<path>.+)"),
)


def git_sha1(data: bytes) -> str:
    return hashlib.sha1(b"blob %d\0%s" % (len(data), data)).hexdigest()


def is_large(path: str) -> bool:
    return path.endswith(".parquet")


def entry(path: str, data: bytes) -> dict[str, Any]:
    """A file as trees list it."""
    found: dict[str, Any] = {"type": "file", "path": path, "size": len(data), "oid": git_sha1(data)}
    if is_large(path):
        found["lfs"] = {"oid": hashlib.sha256(data).hexdigest(), "size": len(data), "pointerSize": 130}
    return found


def address_of(hub: "HubServer") -> str:
    """Of some repository: the client wants one where a repository is there already."""
    return f"{hub.address}/datasets/some/repo"


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
        return next((one for one in self.commits if one.oid == oid), None)


class Refused(Exception):
    """An answer with another status than 200."""

    def __init__(self, status: int, message: str, code: str = "") -> None:
        self.status, self.message, self.code = status, message, code


class HubServer:
    """The server. ``faults`` has for a step what is to go wrong with its next requests, in order.

    A number is a status; ``cut`` breaks the connection off before, ``cut_after`` after the work is done; ``hang`` and
    ``hang_after`` never answer, and set ``hanging``; a text in ``<>`` is sent as a page; "" is nothing.
    """

    def __init__(self) -> None:
        self.repos: dict[str, Repo] = {}  # datasets/ada/x
        self.blobs: dict[str, bytes] = {}
        self.faults: dict[str, list[int | str]] = {}
        self.requests: list[tuple[str, str]] = []  # step, path
        self.ignored: str = ""  # files whose path starts with it are left out, as .gitignore does
        self.notice = ""  # what is warned of the metadata of a card
        self.before: Callable[[str], None] = lambda step: None
        self.hanging, self.stopping = threading.Event(), threading.Event()
        self.lock = threading.Lock()
        self._http = _HttpServer(self, _Handler)
        self.address = f"http://127.0.0.1:{self._http.server_port}"
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.01,), daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self.stopping.set()
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()

    def steps(self) -> list[str]:
        """What was asked for, in order."""
        return [step for step, _ in self.requests]

    def state(self, repo: str) -> tuple[bool, list[tuple[str, str, dict[str, bytes]]], dict[str, str]]:
        """All that a user sees of a dataset repository."""
        found = self.repos[f"datasets/{repo}"]
        return found.private, [(one.oid, one.message, one.files) for one in found.commits], dict(found.tags)


class _HttpServer(LocalServer):
    def handle_error(self, *_: object) -> None:
        """A client that was killed is no news."""


class _Handler(LocalHandler):
    def do_GET(self) -> None:
        self._answer("GET")

    do_HEAD = do_GET

    def do_POST(self) -> None:
        self._answer("POST")

    def do_PUT(self) -> None:
        self._answer("PUT")

    def _answer(self, method: str) -> None:
        hub = self.server.owner
        self.body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        address = urllib.parse.urlsplit(self.path)
        self.query = dict(urllib.parse.parse_qsl(address.query))
        matches = ((name, re.fullmatch(route, address.path)) for name, verb, route in ROUTES if verb == method)
        step, match = next(((name, found) for name, found in matches if found), ("", None))
        if match is None:
            return self._send(404, {"error": f"no {method} {address.path}"})
        given = {name: urllib.parse.unquote(value or "") for name, value in match.groupdict().items()}
        hub.before(step)
        with hub.lock:
            hub.requests.append((step, address.path))
            faults = hub.faults.get(step, [])
            fault = faults.pop(0) if faults else ""
            if fault in ("cut", "hang") or isinstance(fault, int) or str(fault).startswith("<"):
                answer: Any = fault
            else:
                try:
                    answer = getattr(self, step)(hub, **given)
                except Refused as refused:
                    answer = refused
        if fault in ("hang", "hang_after"):
            hub.hanging.set()
            hub.stopping.wait(60)
        if fault in ("cut", "cut_after", "hang", "hang_after"):
            self.close_connection = True
        elif isinstance(answer, int):
            self._send(answer, {"error": f"fault {self.headers.get('Authorization', '')}", "url": address_of(hub)})
        elif isinstance(answer, Refused):
            headers = {"X-Error-Message": answer.message} | ({"X-Error-Code": answer.code} if answer.code else {})
            self._send(answer.status, {"error": answer.message, "url": address_of(hub)}, headers)
        elif isinstance(answer, bytes):
            self._send_file(answer, given)
        elif isinstance(answer, str) or answer is not None:
            self._send(200, answer)

    def _send_file(self, data: bytes, given: dict[str, str]) -> None:
        etag = hashlib.sha256(data).hexdigest() if is_large(given["path"]) else git_sha1(data)
        first, last, status = 0, len(data) - 1, 200
        if asked := re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", "")):
            first, last, status = int(asked[1]), min(int(asked[2] or last), last), 206
        part = data[first : last + 1]
        self.send_response(status)
        for name, value in {
            "Content-Length": str(len(part)),
            "Content-Range": f"bytes {first}-{last}/{len(data)}",
            "ETag": f'"{etag}"',
            "X-Repo-Commit": self.commit_id,
            "Accept-Ranges": "bytes",
        }.items():
            if name != "Content-Range" or status == 206:
                self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(part)

    # Who asks, and for what.

    def _user(self, required: bool = True) -> tuple[str, str]:
        token = self.headers.get("Authorization", "").removeprefix("Bearer ")
        if token in TOKENS:
            return TOKENS[token]
        if token or required:
            raise Refused(401, "Invalid credentials in Authorization header")
        return "", ""

    def _repo(self, hub: HubServer, kind: str, repo: str, write: bool = False) -> Repo:
        user, role = self._user(required=write)
        found = hub.repos.get(f"{kind}/{repo}")
        if found is None or (found.private and found.owner != user):
            raise Refused(404, "Repository not found", "RepoNotFound")
        if write and (found.owner != user or role != "write"):
            raise Refused(403, f"You are not the owner of {repo}")
        return found

    def _commit_of(self, repo: Repo, revision: str) -> Commit:
        commit = repo.at(revision or "main")
        if commit is None:
            raise Refused(404, f"Invalid rev id: {revision}", "RevisionNotFound")
        return commit

    # The steps.

    def whoami(self, hub: HubServer) -> Any:
        user, role = self._user()
        token = {"displayName": "a token", "role": role}
        return {"type": "user", "name": user, "orgs": [], "auth": {"type": "access_token", "accessToken": token}}

    def create(self, hub: HubServer) -> Any:
        given = json.loads(self.body)
        user, role = self._user()
        kind = f"{given.get('type', 'model')}s"
        name = f"{given['organization'] or user}/{given['name']}"
        if f"{kind}/{name}" in hub.repos:
            raise Refused(409, "You already created this repo")
        if name.split("/")[0] != user or role != "write":
            raise Refused(403, f"You don't have the rights to create a {given['type']} under this namespace")
        private = given.get("visibility") == "private" or bool(given.get("private"))
        hub.repos[f"{kind}/{name}"] = repo = Repo(user, private, [])
        repo.add({".gitattributes": ATTRIBUTES}, "initial commit")
        return {"url": f"{hub.address}/{kind}/{name}", "name": name}

    def validate(self, hub: HubServer) -> Any:
        assert json.loads(self.body)["repoType"] == "dataset"
        return {"warnings": [{"message": hub.notice}] if hub.notice else [], "errors": []}

    def info(self, hub: HubServer, kind: str, repo: str, rev: str) -> Any:
        found = self._repo(hub, kind, repo)
        commit = self._commit_of(found, rev)
        fixed = {"gated": False, "disabled": False, "downloads": 0, "likes": 0, "tags": []}
        dates = dict.fromkeys(("lastModified", "createdAt"), "2026-01-02T00:00:00.000Z")
        own = {"id": repo, "author": found.owner, "sha": commit.oid, "private": found.private}
        return {**own, **fixed, **dates, "siblings": [{"rfilename": path} for path in sorted(commit.files)]}

    def refs(self, hub: HubServer, kind: str, repo: str) -> Any:
        found = self._repo(hub, kind, repo)
        branch = {"name": "main", "ref": "refs/heads/main", "targetCommit": found.commits[-1].oid}
        tags = [{"name": tag, "ref": f"refs/tags/{tag}", "targetCommit": oid} for tag, oid in found.tags.items()]
        return {"branches": [branch], "converts": [], "tags": tags}

    def tree(self, hub: HubServer, kind: str, repo: str, rev: str, path: str) -> Any:
        files = self._commit_of(self._repo(hub, kind, repo), rev).files
        below = f"{path}/" if path else ""
        inside = {name: data for name, data in files.items() if name.startswith(below)}
        if path and not inside:
            raise Refused(404, f"{path} does not exist", "EntryNotFound")
        deep = self.query.get("recursive", "").lower() in ("true", "1")
        entries: dict[str, Any] = {}
        for name in sorted(inside):
            parts = name.removeprefix(below).split("/")
            for i in range(1, len(parts) if deep else min(2, len(parts))):
                folder = below + "/".join(parts[:i])
                entries.setdefault(folder, {"type": "directory", "path": folder, "oid": "0" * 40, "size": 0})
            if deep or len(parts) == 1:
                entries[name] = entry(name, inside[name])
        first = int(self.query.get("cursor", 0))
        listed = list(entries.values())
        headers = {}
        if first + PAGE < len(listed):
            query = urllib.parse.urlencode({**self.query, "cursor": first + PAGE})
            headers = {"Link": f'<{hub.address}{urllib.parse.urlsplit(self.path).path}?{query}>; rel="next"'}
        self._send(200, listed[first : first + PAGE], headers)

    def paths(self, hub: HubServer, kind: str, repo: str, rev: str) -> Any:
        files = self._commit_of(self._repo(hub, kind, repo), rev).files
        form = self.headers.get("Content-Type", "").startswith("application/json")
        asked = json.loads(self.body)["paths"] if form else urllib.parse.parse_qs(self.body.decode())["paths"]
        found = []
        for path in asked:
            if path in files:
                found.append(entry(path, files[path]))
            elif any(name.startswith(f"{path}/") for name in files):
                found.append({"type": "directory", "path": path, "oid": "0" * 40, "size": 0})
        return found

    def preupload(self, hub: HubServer, kind: str, repo: str, rev: str) -> Any:
        files = self._commit_of(self._repo(hub, kind, repo, write=True), rev).files
        answers = []
        for path in (file["path"] for file in json.loads(self.body)["files"]):
            there = files.get(path)
            oid = None if there is None else entry(path, there).get("lfs", {}).get("oid") or git_sha1(there)
            ignore = bool(hub.ignored) and path.startswith(hub.ignored)
            mode = "lfs" if is_large(path) else "regular"
            answers.append({"path": path, "uploadMode": mode, "shouldIgnore": ignore, "oid": oid})
        return {"files": answers}

    def lfs(self, hub: HubServer, kind: str, repo: str) -> Any:
        self._repo(hub, kind, repo, write=True)
        objects = []
        for one in json.loads(self.body)["objects"]:
            there = one["oid"] in hub.blobs
            upload = {"upload": {"href": f"{hub.address}/lfs/{one['oid']}"}}
            objects.append({**one, **({} if there else {"actions": upload})})
        return {"transfer": "basic", "objects": objects}

    def upload(self, hub: HubServer, oid: str) -> Any:
        if hashlib.sha256(self.body).hexdigest() != oid:
            raise Refused(400, "another SHA-256")
        hub.blobs[oid] = self.body
        return {}

    def commit(self, hub: HubServer, kind: str, repo: str, rev: str) -> Any:
        found = self._repo(hub, kind, repo, write=True)
        files = dict(found.commits[-1].files)
        message = ""
        for line in self.body.decode().splitlines():
            record = json.loads(line)
            value = record["value"]
            if record["key"] == "header":
                message = value["summary"]
                if value.get("parentCommit") not in (None, found.commits[-1].oid):
                    raise Refused(412, "A commit has happened since. Please refresh and try again.")
            elif record["key"] == "file":
                files[value["path"]] = base64.b64decode(value["content"])
            elif record["key"] == "lfsFile":
                if value["oid"] not in hub.blobs:
                    raise Refused(400, "a LFS pointer pointed to a file that does not exist")
                files[value["path"]] = hub.blobs[value["oid"]]
            elif record["key"] == "deletedFile":
                del files[value["path"]]
        done = found.add(files, message)
        return {"success": True, "commitOid": done.oid, "commitUrl": f"{hub.address}/datasets/{repo}/commit/{done.oid}"}

    def tag(self, hub: HubServer, kind: str, repo: str, rev: str) -> Any:
        found = self._repo(hub, kind, repo, write=True)
        name = json.loads(self.body)["tag"]
        if name in found.tags:
            raise Refused(409, f"Tag reference exists already: {name}")
        found.tags[name] = self._commit_of(found, rev).oid
        return {}

    def resolve(self, hub: HubServer, kind: str, repo: str, rev: str, path: str) -> Any:
        commit = self._commit_of(self._repo(hub, kind, repo), rev)
        if path not in commit.files:
            raise Refused(404, "Entry not found", "EntryNotFound")
        self.commit_id = commit.oid
        return commit.files[path]
