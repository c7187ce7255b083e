"""``parapet collect prolific``: a study that sends participants to ``parapet collect serve``, and their payment."""

from __future__ import annotations

import argparse
import logging
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from decimal import ROUND_CEILING, Decimal
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from parapet.pipelines.command import EXIT_FAILURE, counted, run_checked, say
from parapet.pipelines.flags import INPUT, RUNNING, StrictParser, add_dry_run
from parapet.schemas.errors import InputError

if TYPE_CHECKING:
    from parapet.transforms.crowd.collection.prolific import Settings, Study
    from parapet.transforms.crowd.collection.prolific_api import Prolific

NAME = "collect prolific"

# The flags of each action, then the flags that it requires.
_OWN = {
    "create": ("hits", "public_url", "name", "description", "reward", "minutes", "places", "tasks_per_person"),
    "publish": (),
    "list": (),
    "approve": ("responses", "all"),
    "reject": ("rejections",),
    "bonus": ("bonuses", "last_payment"),
}
_NEEDED = {"create": ("hits", "public_url"), "reject": ("rejections",)}

DESCRIPTION = """\
Creates a study at Prolific that sends participants to 'parapet collect serve', publishes it, lists its submissions,
approves or rejects them and pays bonuses. Everything is kept in the folder --study. Costs are shown first. Run an
interrupted command again: nothing is made or paid twice.

The token is read from PROLIFIC_TOKEN. This follows Prolific's documentation and was never tried against the service:
begin with a study of one or two places."""

EXAMPLE = """\
  parapet collect prolific create --study my_study --hits my_hits --public_url https://crowd.example.org
  parapet collect prolific publish --study my_study
  parapet collect prolific list --study my_study
  parapet collect prolific approve --study my_study --responses answers.jsonl
  parapet collect prolific bonus --study my_study --bonuses bonuses.csv"""

_STUDY = "study"
_CREATE, _SETTLE = "create", "approve, reject, bonus"
_SHOWN = 5  # ids shown of a long list
_PLACEHOLDERS = "&".join(f"{name}={{{{%{name}%}}}}" for name in ("PROLIFIC_PID", "STUDY_ID", "SESSION_ID"))
_TITLE = "Write short names or descriptions for the parts of an app"
_TEXT = (
    "You see the parts of an app, such as one that sells tickets, and write a short name or a short description for "
    "each in your own words. No special knowledge is needed. The form records how long you spend on each answer, how "
    "often you press keys and how often you paste; it does not record which keys. Please do not use language models."
)


def parser() -> StrictParser:
    """Builds the command line of ``parapet collect prolific``."""
    parser = StrictParser(NAME, DESCRIPTION, EXAMPLE)
    add = parser.group(INPUT)
    add("action", choices=tuple(_OWN), metavar="ACTION", help=f"one of {', '.join(_OWN)}")
    add = parser.group(_STUDY)
    add("--study", required=True, metavar="DIR", help="folder of the study; 'create' makes it")
    add = parser.group(_CREATE)
    add("--hits", metavar="DIR", reads=True, help="output of 'parapet hits', which the server serves")
    add("--public_url", metavar="URL", help="address of 'parapet collect serve' for participants")
    text = "payment for a submission, in the account's currency (default: the mean reward of the forms)"
    add("--reward", metavar="AMOUNT", help=text)
    add(
        "--minutes",
        rare=True,
        type=int,
        metavar="N",
        help="time that a submission takes (default: mean of the forms)",
    )
    add("--places", rare=True, type=int, metavar="N", help="participants (default: as many as the forms need)")
    add("--tasks_per_person", rare=True, type=int, metavar="N", help="as for 'parapet collect serve' (default: 1)")
    add("--name", rare=True, metavar="TEXT", help="title that participants see (default: about the parts of an app)")
    add("--description", rare=True, metavar="TEXT", help="what they read of it (default: task, telemetry, no models)")
    add = parser.group(_SETTLE)
    text = "approve those with answers in this file of 'collect serve'"
    add("--responses", metavar="FILE", reads=True, help=text)
    add("--all", action="store_true", help="approve all submissions that await review")
    text = "CSV with submission_id, category and message to reject"
    add("--rejections", metavar="FILE", reads=True, help=text)
    add("--bonuses", metavar="FILE", reads=True, help="CSV with submission_id and amount: one bonus each")
    text = "what you have seen at Prolific of a payment whose answer was lost"
    add("--last_payment", rare=True, choices=("paid", "unpaid"), help=text)
    add = parser.group(RUNNING)
    add("--yes", action="store_true", help="go on without asking")
    add_dry_run(parser)
    text = "address of the API (default: Prolific's)"
    add("--endpoint_url", rare=True, metavar="URL", help=text)
    return parser


def run(argv: Sequence[str] | None = None) -> int:
    """Runs ``parapet collect prolific``. Returns the exit status."""
    stopped = "run the same command again: it checks first what was done"
    return run_checked(parser(), argv, check, lambda act: act(), stopped)


def check(args: argparse.Namespace) -> Callable[[], int]:
    """Checks the flags and returns a function that does the work. Raises InputError if a flag cannot be used."""
    from parapet.transforms.crowd.collection.prolific_api import TOKEN, URL, Prolific

    action = args.action
    for name in (name for own in _OWN.values() for name in own):
        if getattr(args, name) not in (None, False) and name not in _OWN[action]:
            raise InputError(f"'{action}' does not take this flag", f"--{name}")
    for name in _NEEDED.get(action, ()):
        if getattr(args, name) is None:
            raise InputError(f"'{action}' requires this flag", f"--{name}")
    if action == "approve" and (args.responses is None) != args.all:
        raise InputError("'approve' requires either --responses FILE or --all")
    if action == "bonus" and (args.bonuses is None) == (args.last_payment is None):
        raise InputError("'bonus' requires --bonuses FILE, or --last_payment after the answer to a payment was lost")
    settings = _settings(args) if action == "create" else None
    acts: dict[str, Callable[[Study, argparse.Namespace], int]] = {
        "create": _create,
        "publish": _publish,
        "list": _list,
        "approve": _approve,
        "reject": _reject,
        "bonus": _bonus,
    }
    token = os.environ.get(TOKEN, "")
    client = Prolific(args.endpoint_url or URL, token or None if args.dry_run and action == "create" else token)
    return partial(_act, args, client, settings, acts[action])


def _act(
    args: argparse.Namespace,
    client: Prolific,
    settings: Settings | None,
    act: Callable[[Study, argparse.Namespace], int],
) -> int:
    from parapet.transforms.crowd.collection.prolific import Study

    writable = args.action != "list" and not args.dry_run
    try:
        with Study(Path(args.study), client, settings, writable) as study:
            return act(study, args)
    finally:
        client.close()


def _settings(args: argparse.Namespace) -> Settings:
    """Reads the settings of a new study. Raises InputError if a flag cannot be used."""
    from parapet.schemas.service import TASKS
    from parapet.transforms.crowd.collection.prolific import Settings
    from parapet.transforms.crowd.collection.prolific_files import cents_of
    from parapet.transforms.crowd.hits.page import read_manifest
    from parapet.transforms.crowd.hits.people import needed_people

    for flag in ("minutes", "places", "tasks_per_person"):
        if (value := getattr(args, flag)) is not None and value < 1:
            raise InputError("must be 1 or more", f"--{flag}")
    url = urlsplit(args.public_url)
    if url.scheme != "https" or not url.netloc or url.path.strip("/") or url.query or url.fragment:
        raise InputError(
            "must be an address that participants can reach, such as https://crowd.example.org", "--public_url"
        )
    records = [record for _, record in read_manifest(args.hits)]
    if not records:
        raise InputError("contains no pages: 'parapet hits' found nothing to ask", args.hits, "--hits")
    tasks = args.tasks_per_person or 1
    forms = [(r.service_name if r.task in TASKS else "", r.task, r.assignments) for r in records]
    total = sum(record.assignments for record in records)
    reward = sum((Decimal(record.reward) * record.assignments for record in records), Decimal(0)) * 100 * tasks / total
    minutes = Decimal(sum(record.estimated_seconds * record.assignments for record in records)) * tasks / total / 60
    cents = _up(reward) if args.reward is None else cents_of(args.reward)
    if not cents:
        raise InputError(f"{args.reward!r} is not an amount of money such as 2.50", "--reward")
    return Settings(
        name=args.name or _TITLE,
        description=args.description or _TEXT,
        url=f"{args.public_url.rstrip('/')}/start?{_PLACEHOLDERS}",
        places=args.places or needed_people(forms, tasks),
        minutes=args.minutes or _up(minutes),
        reward=cents,
    )


def _up(number: Decimal) -> int:
    return int(number.to_integral_value(ROUND_CEILING))


def _agree(args: argparse.Namespace, what: str) -> bool:
    """Asks for confirmation; returns False for a dry run. Raises InputError if the answer is not yes."""
    if args.dry_run:
        say("dry run: nothing was changed")
        return False
    if not args.yes:
        print(f"{what} Type yes to continue: ", end="", file=sys.stderr, flush=True)
        if sys.stdin.readline().strip().lower() != "yes":
            raise InputError("the answer was not yes: nothing was changed", "--yes")
    return True


def _say_cost(study: Study) -> str:
    from parapet.transforms.crowd.collection.prolific import money

    settings, cost = study.settings, study.cost()
    hourly = money(_up(Decimal(settings.reward) * 60 / settings.minutes))
    say(
        f"{counted(settings.places, 'place')}, {money(settings.reward)} each for {counted(settings.minutes, 'minute')} "
        f"({hourly} an hour), in the account's currency"
    )
    if cost is None:
        shown = f"{money(settings.reward * settings.places)} and Prolific's fees"
    else:
        shown = f"{money(cost)} with Prolific's fees and taxes"
    say(f"cost: {shown}")
    return shown


def _create(study: Study, args: argparse.Namespace) -> int:
    if not study.id:
        _say_cost(study)
        if args.dry_run:
            say("dry run: nothing was changed")
            return 0
        study_id = study.create()
        say(f"draft {'created' if study_id else 'found again'}: study {study.id}; no money is spent before 'publish'")
    else:
        say(f"study {study.id} exists already")
    say(f"completion url: {study.completion_url}")
    say(
        f"next: parapet collect serve --hits {args.hits} --db answers.sqlite --platform prolific "
        f"--public_url {args.public_url} --study_id {study.id} --completion_url '{study.completion_url}'"
    )
    return 0


def _publish(study: Study, args: argparse.Namespace) -> int:
    from parapet.transforms.crowd.collection.prolific import DRAFT

    if (status := study.status()) != DRAFT:
        say(f"study {study.id} is published already, with status {status}")
        return 0
    if _agree(args, f"This publishes study {study.id} and spends up to {_say_cost(study)}."):
        study.publish()
        say(f"study {study.id} is published")
    return 0


def _list(study: Study, args: argparse.Namespace) -> int:
    from parapet.transforms.crowd.collection.prolific import counts_of

    say(f"study {study.id}: {study.status()}")
    submissions = study.submissions()
    counts = counts_of(submissions)
    say(f"{counted(len(submissions), 'submission')}" + "".join(f", {n:,} {status}" for status, n in counts.items()))
    for submission in submissions:
        say(f"{submission.id}  {submission.status:16}{submission.started}".rstrip())
    return 0


def _approve(study: Study, args: argparse.Namespace) -> int:
    from parapet.transforms.crowd.collection.prolific import AWAITING, money
    from parapet.transforms.crowd.collection.prolific_files import read_participants

    participants = None if args.all else read_participants(args.responses)
    waiting = [submission for submission in study.submissions() if submission.status == AWAITING]
    ready = [each.id for each in waiting if participants is None or each.participant in participants]
    if left := [each.id for each in waiting if each.id not in set(ready)]:
        n = counted(len(left), "submission")
        logging.warning(
            "%s left unchanged, because %s has no answers from these participants: %s", n, args.responses, _ids(left)
        )
    amount = money(study.settings.reward * len(ready))
    say(f"{counted(len(ready), 'submission')} to approve: {amount} and Prolific's fees")
    if not ready or not _agree(args, "This pays them; it cannot be undone."):
        return 0
    return _settle_all(study, {submission_id: {"action": "APPROVE"} for submission_id in ready}, "approved")


def _reject(study: Study, args: argparse.Namespace) -> int:
    from parapet.transforms.crowd.collection.prolific import to_settle
    from parapet.transforms.crowd.collection.prolific_files import read_rejections

    rejections = read_rejections(args.rejections)
    ready, left = to_settle(study.submissions(), rejections)
    for reason, n in Counter(reason for _, reason in left).items():
        ids = [submission_id for submission_id, why in left if why == reason]
        logging.warning("%s left unchanged: %s: %s", counted(n, "submission"), reason, _ids(ids))
    say(f"{counted(len(ready), 'submission')} to reject: these participants are not paid")
    if not ready or not _agree(args, "It cannot be undone."):
        return 0
    return _settle_all(study, {submission_id: rejections[submission_id] for submission_id in ready}, "rejected")


def _settle_all(study: Study, bodies: dict[str, dict[str, str]], what: str) -> int:
    reasons = {submission_id: study.settle(submission_id, body) for submission_id, body in bodies.items()}
    failed = {submission_id: reason for submission_id, reason in reasons.items() if reason}
    for reason, n in Counter(failed.values()).most_common():
        ids = [submission_id for submission_id, why in failed.items() if why == reason]
        logging.error("%s not %s: %s: %s", counted(n, "submission"), what, reason, _ids(ids))
    say(f"{counted(len(bodies) - len(failed), 'submission')} {what}")
    return EXIT_FAILURE if failed else 0


def _bonus(study: Study, args: argparse.Namespace) -> int:
    from parapet.transforms.crowd.collection.prolific import UNSURE, money, to_settle
    from parapet.transforms.crowd.collection.prolific_files import read_bonuses

    if args.last_payment:
        n = len(study.unsure())
        if not args.dry_run:
            study.declare(args.last_payment == "paid")
        say(f"{counted(n, 'payment')} recorded as {args.last_payment}")
        return 0
    if study.unsure():
        raise InputError(UNSURE)
    every = read_bonuses(args.bonuses)
    bonuses = study.unpaid(every)
    _, left = to_settle(study.submissions(), bonuses)
    if strange := [submission_id for submission_id, reason in left if reason.startswith("the study has no")]:
        raise InputError(f"the study has no submission {_ids(strange)}", args.bonuses, "--bonuses")
    before = len(every) - len(bonuses)
    amount = money(sum(bonuses.values()))
    say(
        f"bonuses for {counted(len(bonuses), 'submission')}: {amount} and Prolific's fees; {before:,} were paid earlier"
    )
    if args.dry_run or not bonuses:
        say("dry run: nothing was changed" if args.dry_run else "there is nothing to pay")
        return 0
    bulk, total = study.prepare_bonuses(bonuses)
    say(f"cost: {money(total)} with Prolific's fees and taxes")
    if _agree(args, "This pays them; it cannot be undone."):
        study.pay_bonuses(bulk, bonuses)
        say(f"{counted(len(bonuses), 'submission')} paid a bonus; Prolific carries it out within minutes")
    return 0


def _ids(ids: Iterable[str]) -> str:
    ids = list(ids)
    return ", ".join(ids[:_SHOWN]) + (", …" if len(ids) > _SHOWN else "")
