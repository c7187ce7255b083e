"""Every Beam pipeline on worker pools of two other machines, undisturbed, and with machines that fail or are slow.

``make test-machines``, or ``python -m cluster [PIPELINE...]`` with ``tests`` and ``tests/end_to_end`` on the path. The
command and its job service are on one machine, the worker pools on two others, the bucket is on a fourth.
"""

from __future__ import annotations

import itertools
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from dataflow.bucket import Bucket
from dataflow.commands import every, write_inputs
from folders import files_of

from cluster.machines import BRIDGE_ADDRESS, DOMAIN, ROOT, Machine, enter, make_bridge, unavailable
from parapet.pipelines.runners import LOST

INSIDE = "--inside"  # the namespaces
HOSTS = {"storage": BRIDGE_ADDRESS, "jobs": "10.77.0.2", "a": "10.77.0.3", "b": "10.77.0.4"}
POOL_PORT, JOB_PORT = 50000, 8099
KEY = {"PARAPET_WORKER_KEY": "a worker key for tests only"}
LONGEST = 240.0  # seconds of a command
VICTIM = "rewrite"  # the pipeline that is disturbed
PLACE = f"out/{VICTIM}/"  # its objects
STOPPED = 15.0  # seconds
SERVICE_GONE = "the job service has gone"
SERVICE = [
    "--runner=PortableRunner",
    f"--job_endpoint=localhost:{JOB_PORT}",
    "--environment_type=EXTERNAL",
    f"--environment_config=a.{DOMAIN}:{POOL_PORT},b.{DOMAIN}:{POOL_PORT}",
    "--experiments=disable_logging_submission_environment",
]
WORKER, POOL, JOBS = "SdkHarness", "worker_pool_main", "parapet.pipelines.job_service"


def log(text: str) -> None:
    """A line of the log."""
    print(text, flush=True)


Run = tuple[int | None, str, float]


class Cluster:
    """The machines, with what runs on them."""

    def __init__(self, folder: Path, bucket: Bucket) -> None:
        self.folder, self.bucket = folder, bucket
        path = [ROOT / "tests/end_to_end/cluster/site"]
        self.environment = {
            "STORAGE_EMULATOR_HOST": f"http://storage.{DOMAIN}:{bucket.server.server_port}",
            "GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT": "false",
            "PYTHONPATH": os.pathsep.join(map(str, path)),
            **KEY,
        }
        self.machines = {name: self.machine(name) for name in ("jobs", "a", "b")}
        self.local, self.remote = (
            every(str(folder), str(folder / "out")),
            every(f"{bucket.url}/in", f"{bucket.url}/out"),
        )
        for name in "ab":
            self.start_pool(name)
        self.start_jobs()

    def machine(self, name: str) -> Machine:
        return Machine(name, HOSTS[name], HOSTS, self.environment)

    def _start(self, machine: Machine, module: str, *flags: str) -> None:
        with (self.folder / f"{machine.name}.log").open("ab") as file:
            machine.start("python", "-m", module, *flags, stdout=file, stderr=file)

    def start_pool(self, name: str) -> None:
        """Starts a worker pool, on a new machine where that was switched off."""
        if self.machines[name].is_off:
            self.machines[name] = self.machine(name)
        self._start(self.machines[name], f"apache_beam.runners.worker.{POOL}", f"--service_port={POOL_PORT}")
        wait_until(lambda: _answers(HOSTS[name], POOL_PORT))

    def start_jobs(self) -> None:
        """Starts the job service."""
        machine = self.machines["jobs"]
        machine.run("rm", "-f", "/tmp/port")
        self._start(machine, JOBS, f"--port={JOB_PORT}", "--port_file=/tmp/port")
        wait_until(lambda: machine.has("/tmp/port"))

    def mend(self) -> None:
        """Starts again what was killed, on machines whose network is quick."""
        for name in "ab":
            if not self.machines[name].is_off:
                self.machines[name].speed_up()
            if self.machines[name].is_off or not self.machines[name].processes(POOL):
                self.start_pool(name)
        if not self.machines["jobs"].processes(JOBS):
            self.start_jobs()

    def run(self, name: str) -> Run:
        """Runs a pipeline on the machines."""
        return self.execute(self.remote[name])

    def execute(self, command: list[str]) -> Run:
        """Runs a command on the machines: status (none where it does not end), messages, seconds."""
        began = time.monotonic()
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        process = self.machines["jobs"].start("parapet", *command, *SERVICE, **pipes)
        try:
            _, messages = process.communicate(timeout=LONGEST)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            return None, "", LONGEST
        return process.returncode, messages.strip(), time.monotonic() - began

    def expect(self, name: str) -> dict[str, bytes]:
        """What a pipeline writes on one machine."""
        if not (self.folder / "out" / name).exists():
            program = Path(sys.executable).parent / "parapet"
            subprocess.run([program, *self.local[name]], check=True, env={**os.environ, **KEY})
        return files_of(self.folder / "out" / name)

    def wrote(self, name: str) -> dict[str, bytes]:
        return self.bucket.tree(f"out/{name}")

    def clear(self, name: str) -> None:
        for path in self.wrote(name):
            self.bucket.storage.delete_file(self.bucket.name, f"out/{name}/{path}")


def wait_until(holds: Callable[[], Any], seconds: float = 90) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, f"still not after {seconds} s"
        time.sleep(0.05)


def _answers(address: str, port: int) -> bool:
    try:
        socket.create_connection((address, port), timeout=1).close()
    except OSError:
        return False
    return True


def show_machines(cluster: Cluster) -> bool:
    """The machines have nothing in common but the network and the code, which they cannot write."""
    apart = True
    cluster.machines["jobs"].run("sh", "-c", "echo mine > /tmp/mine; echo mine > $HOME/mine")
    for name, machine in cluster.machines.items():
        address = machine.run("ip", "-brief", "-4", "addr", "show", "eth0").split()[2]
        others = name == "jobs" or not (machine.has("/tmp/mine") or machine.has(f"{Path.home()}/mine"))
        written = machine.run("sh", "-c", f"touch {ROOT}/pyproject.toml /etc/passwd 2>&1")
        apart &= others and written.count("Read-only file system") == 2
        visible = "its own" if others else "SHARED"
        log(f"{machine.run('hostname').strip():16} {address:14} /tmp and home: {visible}; code: read-only")
    return apart


def run_all(cluster: Cluster, names: list[str]) -> bool:
    """Every pipeline, with the bytes of a local run."""
    good, total = True, dict.fromkeys("ab", 0)
    log("\n| pipeline | status | files | as a local run | sent by a | by b | s |\n|---|--:|--:|---|--:|--:|--:|")
    for name in names:
        expected = cluster.expect(name)
        cluster.bucket.writes.clear()
        status, messages, seconds = cluster.run(name)
        same = cluster.wrote(name) == expected
        sent = {machine: cluster.bucket.writes[HOSTS[machine]] for machine in "ab"}
        total = {machine: total[machine] + sent[machine] for machine in "ab"}
        good &= status == 0 and same
        log(f"| {name} | {status} | {len(expected)} | {same} | {sent['a']} | {sent['b']} | {seconds:.0f} |")
        if messages:
            log(f"  {messages}")
    return good and all(total.values())


def staged(name: str) -> bool:
    """Whether an object is written while the workers work."""
    return name.startswith(f"{PLACE}.incomplete/v")


def moved(name: str) -> bool:
    """Whether an object is moved to where it belongs."""
    return name.startswith(f"{PLACE}v")


def manifest(name: str) -> bool:
    """Whether it is the last object, the manifest."""
    return name.startswith((f"{PLACE}run.json", f"{PLACE}.incomplete/run.json"))


class Disturbance(NamedTuple):
    """What is done just before the n-th object of a kind is written, and how the command then ends.

    Attributes:
      title: what the log says of it.
      objects: the kind.
      number: n.
      act: does it.
      message: the command's, which ends with status 1; empty where it ends well.
    """

    title: str
    objects: Callable[[str], bool]
    number: int
    act: Callable[[], object]
    message: str


def disturbances(cluster: Cluster) -> Iterator[Disturbance]:
    """One at a time: the next is asked for when the machines are as before."""

    def send(signal: str, *machines: str, text: str = WORKER) -> None:
        for name in machines:
            cluster.machines[name].signal(signal, *cluster.machines[name].processes(text))

    def kill_worker_and_pool() -> None:
        send("KILL", "a")
        send("KILL", "a", text=POOL)

    def stop_for_a_while() -> None:
        send("STOP", "a")
        threading.Timer(STOPPED, send, ("CONT", "a")).start()

    yield Disturbance("a worker is killed while it works", staged, 6, lambda: send("KILL", "b"), LOST)
    yield Disturbance("a worker is killed while files are moved", moved, 5, lambda: send("KILL", "a"), LOST)
    yield Disturbance("both workers are killed before run.json", manifest, 1, lambda: send("KILL", "a", "b"), LOST)
    yield Disturbance("a worker and its pool are killed", staged, 3, kill_worker_and_pool, LOST)
    yield Disturbance("a machine is switched off", staged, 8, cluster.machines["b"].power_off, LOST)
    yield Disturbance("the job service is killed", staged, 4, lambda: send("KILL", "jobs", text=JOBS), SERVICE_GONE)
    yield Disturbance(f"a worker is stopped for {STOPPED:.0f} s", staged, 6, stop_for_a_while, "")
    slow = cluster.machines["b"].slow_down
    yield Disturbance("a machine's network has 2 Mbit/s", staged, 1, lambda: slow(2000), "")


def run_disturbed(cluster: Cluster) -> bool:
    """What fails publishes nothing half; a rerun ends as an undisturbed run."""
    expected, good = cluster.expect(VICTIM), True
    log("\n| disturbance | status | run.json | message | s | a rerun | s |\n|---|--:|---|---|--:|---|--:|")
    for disturbance in disturbances(cluster):
        cluster.clear(VICTIM)
        numbers = itertools.count(1)

        def watch(name: str, disturbance: Disturbance = disturbance, numbers: Iterator[int] = numbers) -> None:
            if disturbance.objects(name) and next(numbers) == disturbance.number:
                disturbance.act()

        cluster.bucket.storage.watch = watch
        status, message, seconds = cluster.run(VICTIM)
        del cluster.bucket.storage.watch
        written = cluster.wrote(VICTIM)
        state = "none" if "run.json" not in written else "whole" if written == expected else "HALF"
        # A worker may be killed that has nothing left to do: then the others publish, and the status is 1 all the same.
        as_expected = status == 1 and state != "HALF" if disturbance.message else status == 0 and state == "whole"
        as_expected &= disturbance.message in message and "Traceback" not in message
        cluster.mend()
        again, _, seconds_again = cluster.run(VICTIM)
        same = again == 0 and cluster.wrote(VICTIM) == expected
        good &= as_expected and same
        cells = [disturbance.title, status, state, message, f"{seconds:.0f}"]
        cells += ["the same bytes" if same else f"DIFFERS ({again})", f"{seconds_again:.0f}"]
        log(f"| {' | '.join(map(str, cells))} |{'' if as_expected else ' NOT AS EXPECTED'}")
    return good


def run_elsewhere(cluster: Cluster) -> bool:
    """An output folder that each machine has for itself: the command says so, and ends with 1."""
    status, messages, _ = cluster.execute([*cluster.remote[VICTIM][:-2], "/tmp/out"])
    log(f"\n--output /tmp/out, of which each machine has its own: status {status}\n{messages}\n")
    return status == 1 and "Traceback" not in messages


def main(names: list[str]) -> int:
    """Runs all of it; 0 where everything is as it must be, or where there can be no namespaces."""
    if INSIDE not in names:
        if reason := unavailable():
            log(f"skipped: there can be no namespaces here: {reason}")
            return 0
        return enter(["cluster", INSIDE, *names])
    make_bridge()
    names = [name for name in names if name != INSIDE]
    with tempfile.TemporaryDirectory(prefix="cluster") as folder, Bucket("corpora", BRIDGE_ADDRESS) as bucket:
        write_inputs(Path(folder))
        bucket.put("in", Path(folder))
        cluster = Cluster(Path(folder), bucket)
        checks = [
            show_machines(cluster),
            run_all(cluster, [name for name in cluster.remote if name in names or not names]),
        ]
        checks += [run_disturbed(cluster), run_elsewhere(cluster)] if VICTIM in names or not names else []
        for machine in cluster.machines.values():
            machine.stop()
    log("everything as it must be" if all(checks) else "NOT everything as it must be")
    return 0 if all(checks) else 1


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
