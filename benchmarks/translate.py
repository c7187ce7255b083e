"""Times ``parapet back_translate`` against the bare Google client that sends the same batches one after the other.

    python -m benchmarks.translate [--texts 20000] [--folder bench-output]

Both call a local gRPC server in its own process, one that answers at once and one that takes 50 ms, with one pivot,
there and back. The pipeline also reads and composes schemas, stores every answer, and writes memory, audit and report.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
PIVOT = "ko"


def main() -> int:
    """Prints the table."""
    flags = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    flags.add_argument("--texts", type=int, default=20_000)
    flags.add_argument("--folder", type=Path, default=Path("bench-output"))
    flags.add_argument("--serve", type=float, help=argparse.SUPPRESS)
    flags.add_argument("--ask", metavar="URL", help=argparse.SUPPRESS)
    args = flags.parse_args()
    schema = args.folder / f"translate-{args.texts}.json"
    if args.serve is not None:
        serve(args.serve)
    elif args.ask:
        ask(args.ask, schema)
    else:
        args.folder.mkdir(parents=True, exist_ok=True)
        schema.write_text(json.dumps(services(args.texts)))
        compare(schema, args)
    return 0


def compare(schema: Path, args: argparse.Namespace) -> None:
    """Runs the client, then the pipeline, with each server."""
    print(f"{args.texts:,} texts, there and back")
    print(f"{'server':10}{'':14}{'seconds':>9}{'ratio':>7}{'texts/s':>10}{'CPU s':>8}")
    ours = [
        sys.executable,
        "-m",
        "parapet.pipelines.back_translate",
        "--schemas",
        str(schema),
        "--pivots",
        PIVOT,
        "--quiet",
    ]
    this = [sys.executable, "-m", "benchmarks.translate", "--texts", str(args.texts), "--folder", str(args.folder)]
    for name, delay in (("at once", 0.0), ("50 ms", 0.05)):
        server = subprocess.Popen([*this, "--serve", str(delay)], stdout=subprocess.PIPE, text=True)
        try:
            assert server.stdout is not None
            url = server.stdout.readline().strip()
            google = ["--engine", "google", "--google_project", "p", "--google_endpoint", url]
            commands = {
                "client alone": [*this, "--ask", url],
                "pipeline": [*ours, *google, "--output", str(args.folder / "translate")],
            }
            first = 0.0
            for what, command in commands.items():
                shutil.rmtree(args.folder / "translate", ignore_errors=True)
                seconds, cpu = measure(command)
                first = first or seconds
                rate = 2 * args.texts / seconds
                print(f"{name:10}{what:14}{seconds:9.1f}{seconds / first:7.2f}{rate:10,.0f}{cpu:8.1f}", flush=True)
        finally:
            server.kill()
            server.wait()


def measure(command: list[str]) -> tuple[float, float]:
    """Measures seconds and CPU seconds of a command. Raises CalledProcessError if it fails."""
    started = time.monotonic()
    process = subprocess.Popen(command, env={**os.environ, "PYTHONPATH": str(ROOT)})
    _, status, usage = os.wait4(process.pid, 0)
    seconds = time.monotonic() - started
    if status:
        raise subprocess.CalledProcessError(os.waitstatus_to_exitcode(status), command)
    return seconds, usage.ru_utime + usage.ru_stime


def services(texts: int) -> list[dict]:
    """Makes services of 20 slots and an intent with distinct names and descriptions: 43 texts each."""
    made = []
    for n in range(-(-texts // 43)):
        slots = [
            {
                "name": f"{_word(n)}_{_word(i)}_slot",
                "description": f"What {_word(n)} says of {_word(i)} when it is asked for that",
                "is_categorical": False,
                "possible_values": [],
            }
            for i in range(20)
        ]
        intent = {
            "name": f"Find{_word(n).capitalize()}",
            "description": f"Search for {_word(n)}",
            "is_transactional": False,
            "required_slots": [],
            "optional_slots": {},
            "result_slots": [],
        }
        service = {
            "service_name": f"S{n}_1",
            "description": f"All about {_word(n)}",
            "slots": slots,
            "intents": [intent],
        }
        made.append(service)
    return made


def _word(n: int) -> str:
    letters = "abcdefghijklmnopqrstuvwxyz"
    word = ""
    for _ in range(4):
        word, n = letters[n % 26] + word, n // 26
    return f"w{word}"


def serve(delay: float) -> None:
    """Answers until it is killed."""
    sys.path.insert(0, str(ROOT / "tests"))
    from google_server import GoogleServer

    def wait(_: object) -> str:
        time.sleep(delay)
        return ""

    with GoogleServer(wait) as server:
        print(server.url, flush=True)
        time.sleep(10**6)


def ask(url: str, schema: Path) -> None:
    """Runs the client alone: the same texts in the same batches, there and back, one request after the other."""
    import grpc
    from google.cloud import translate_v3
    from google.cloud.translate_v3.services.translation_service.transports import TranslationServiceGrpcTransport

    from parapet.schemas.layout import read_root, services_by_name
    from parapet.transforms.translation.memory import Limits, make_batches
    from parapet.transforms.variants.back_translation import texts_of

    channel = grpc.insecure_channel(url.removeprefix("http://"))
    client = translate_v3.TranslationServiceClient(transport=TranslationServiceGrpcTransport(channel=channel))
    texts = texts_of(services_by_name(read_root(schema)).values())
    for source, target in (("en", PIVOT), (PIVOT, "en")):
        answers = []
        for batch in make_batches(texts, source, target, Limits(1024, 5_000))[0]:
            answer = client.translate_text(
                parent="projects/p/locations/global",
                contents=list(batch.texts),
                mime_type="text/plain",
                source_language_code=source,
                target_language_code=target,
            )
            answers += [translation.translated_text for translation in answer.translations]
        texts = sorted(set(answers))


if __name__ == "__main__":
    sys.exit(main())
