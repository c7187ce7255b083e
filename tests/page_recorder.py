"""A local server in place of MTurk's: shows HIT pages, and keeps what their forms send."""

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import parse_qsl, unquote

from local_http import Answer, LocalService, Request

_UTF_8 = {"Content-Type": "text/html; charset=utf-8"}


class Recorder(LocalService):
    """Serves a folder's pages, with the form's address turned to itself, and keeps what is posted."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.folder, self.posted = folder, list[list[tuple[str, str]]]()

    def answer(self, request: Request) -> Answer:
        if request.method == "POST":
            self.posted.append(parse_qsl(request.body.decode(), keep_blank_values=True))
            return Answer("<title>thanks</title>")
        path = self.folder / unquote(request.path).lstrip("/")
        if not path.is_file():
            return Answer("", 404)
        return Answer(path.read_text(encoding="utf-8").replace("https://www.mturk.com", self.url), headers=_UTF_8)


def serve(folder: Path) -> Iterator[Recorder]:
    with Recorder(folder) as server:
        yield server
