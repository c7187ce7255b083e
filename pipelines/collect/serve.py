"""``parapet collect serve``: serves the forms of ``parapet hits`` to people."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from parapet.pipelines import app, command
from parapet.pipelines.collect import output_file
from parapet.schemas.errors import InputError, MissingExtra
from parapet.schemas.limits import read_text
from parapet.transforms.core import fence, options
from parapet.transforms.core.options import REQUIRED, option

if TYPE_CHECKING:
    from parapet.transforms.crowd.serving.site import Run
    from parapet.transforms.crowd.serving.store import Form

PROLIFIC = "prolific"
_MOST_PEOPLE = 100_000
_ORIGIN = re.compile(r"https?://[^/?#\s]+/?", re.IGNORECASE)
_ADDRESS = "give the address under which people reach the server, without a path, such as https://crowd.example.org"


class Serve(app.Command["Run | None"]):
    """``parapet collect serve``."""

    name = "collect serve"
    description = """\
Serves the forms of 'parapet hits' to people, until Ctrl-C. Each person opens an invitation link, gets one task at a
time, and never names and describes the same service. Every answer is saved before the server confirms it. In public it
needs a reverse proxy with TLS in front of it: give the address that people use as --public_url."""
    example = "  parapet collect serve --hits my_hits --db answers.sqlite --people 18"
    stopped = "every acknowledged answer is in --db"
    hits: str = options.folder("output of 'parapet hits'")
    people: str = option("", "names, one a line, or how many to invite (default: as needed)", metavar="FILE|N")
    platform: Literal["in_house", "prolific"] = option("in_house", "people come by invitation links, or from a study")
    completion_url: str = option("", "with prolific: where people are sent when they are done", metavar="URL")
    study_id: str = option("", "with prolific: id of the study", metavar="ID")
    tasks_per_person: int | None = option(
        None, "tasks of one person (default: --max_per_worker of 'hits'; 1 with prolific)", ge=1
    )
    db: str = output_file("SQLite file in which everything is kept; an existing one is continued", REQUIRED)
    export: str = output_file("file of answers for 'compose' (default: the name of --db with .jsonl)")
    export_only: bool = option(False, "write --export from --db, and serve nothing", group=options.OUTPUT, rare=True)
    host: str = option("127.0.0.1", "address to listen on", group="server", metavar="ADDRESS")
    port: int = option(8000, "port; 0 for a free one", group="server", ge=0, le=65_535)
    public_url: str = option("", "address under which people reach the server", group="server", metavar="URL")

    @property
    def exported(self) -> Path:
        """The file of answers."""
        return Path(self.export or Path(self.db).with_suffix(".jsonl"))

    def check(self) -> Run | None:
        """Reads the forms; None if answers are only exported. Raises InputError if an option cannot be used."""
        try:
            from parapet.transforms.crowd.serving.site import Run
        except ImportError as error:
            raise MissingExtra(str(error.name), "collect") from None
        from parapet.transforms.crowd.serving.store import read_forms

        self._check_together()
        if self.export_only:
            return None
        forms = read_forms(self.hits)
        limit = self.tasks_per_person or (1 if self.platform == PROLIFIC else forms[0].max_per_worker)
        return self.settings_of(
            Run,
            forms=forms,
            db=Path(self.db),
            export=self.exported,
            invitations=Path(self.db).with_suffix(".invitations.csv"),
            people=_people(self.people, _least_people(forms, limit)),
            public_url=self.public_url.rstrip("/"),
            tasks_per_person=limit or None,
            study=self.study_id,
        )

    def act(self, run: Run | None) -> None:
        """Serves the forms, or only exports the answers."""
        from parapet.transforms.crowd.serving import site
        from parapet.transforms.crowd.serving.store import Store

        if run is None:
            with closing(Store(Path(self.db))) as store:
                n = site.export(store, self.exported)
            command.say(f"{command.counted(n, 'assignment')} in {self.exported}")
            return
        invited = run.people if isinstance(run.people, int) else len(run.people)
        if run.platform != PROLIFIC and invited < (needed := _least_people(run.forms, run.tasks_per_person or 0)):
            logging.warning("%d people cannot fill in all forms: invite at least %d", invited, needed)
        n = site.serve(run, command.say)
        command.say(f"stopped; {command.counted(n, 'assignment')} in {run.export}")

    def _check_together(self) -> None:
        is_public = self.host not in fence.THIS_MACHINE
        checks = [
            (not self.export_only or os.path.exists(self.db), "--db", f"there is no such file: {self.db}"),
            (self.hits or self.export_only, "--hits", "is required: give the output folder of 'parapet hits'"),
            (self.public_url or not is_public, "--public_url", f"is required with --host {self.host}: {_ADDRESS}"),
            (not self.public_url or _ORIGIN.fullmatch(self.public_url), "--public_url", f"is not valid: {_ADDRESS}"),
        ]
        if self.platform == PROLIFIC and not self.export_only:
            reason = "is required with --platform prolific"
            checks += [
                (self.completion_url, "--completion_url", reason),
                (not self.people, "--people", "is not for --platform prolific, where Prolific chooses the people"),
                (self.study_id.isalnum(), "--study_id", f"{reason}: letters and digits in the address of the study"),
            ]
        for is_valid, flag, reason in checks:
            if not is_valid:
                raise InputError(reason, flag)


def _least_people(forms: Sequence[Form], limit: int) -> int:
    """Returns how few people can fill in all forms, each at most ``limit`` of them (0: any number)."""
    from parapet.transforms.crowd.hits.page import least_workers

    return least_workers([(form.task, form.assignments) for form in forms], limit)


def _people(text: str, needed: int) -> list[str] | int:
    """Reads names from a file, or parses a number of people. Raises InputError for a file without names."""
    from parapet.transforms.crowd.serving.store import same_name

    if not text:
        return needed
    if text.isascii() and text.isdigit():
        if not 1 <= int(text) <= _MOST_PEOPLE:
            raise InputError(f"must be a number from 1 to {_MOST_PEOPLE:,}, or a file of names", "--people")
        return int(text)
    lines = [" ".join(line.split()) for line in read_text(Path(text)).splitlines()]
    names = {same_name(line): line for line in reversed(lines) if same_name(line)}  # of several spellings, the first
    if not names:
        raise InputError("the file contains no names", text, "--people")
    return list(reversed(names.values()))


COMMAND = Serve
