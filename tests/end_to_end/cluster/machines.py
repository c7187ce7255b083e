"""Machines on this machine: each has a network, folders, processes and a name of its own, in namespaces of Linux.

The machines reach each other over a bridge, as over a switch. They share no folder that can be written: ``/tmp``, the
home folder and the like are empty and private, and the code is read-only, as in an image.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[3]
BRIDGE, BRIDGE_ADDRESS, DOMAIN = "br0", "10.77.0.1", "machines"
_OWN = ["--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]

# A directory that is hidden can still be mounted by its open descriptor.
_SETUP = """
set -e
mount --make-rprivate /
{opened}
for folder in {hidden}; do mount -t tmpfs tmpfs "$folder"; done
{code}
mount -o remount,bind,ro /
printf '%s\\n' '127.0.0.1 localhost' {hosts} > /tmp/hosts
mount --bind /tmp/hosts /etc/hosts
hostname {name}
ip link set lo up
echo there
exec sleep infinity
"""


def unavailable() -> str:
    """Why there can be no namespaces here; empty where there can."""
    try:
        run = subprocess.run(
            ["unshare", *_user(), *_OWN, "sh", "-c", f"ip link add {BRIDGE} type bridge && mount -t tmpfs tmpfs /tmp"],
            capture_output=True,
            text=True,
            check=False,
        )
    except OSError as error:
        return str(error)
    return run.stderr.strip().splitlines()[-1] if run.returncode else ""


def _user() -> list[str]:
    return ["--map-root-user"] if os.geteuid() else []


def enter(argv: Sequence[str]) -> int:
    """Runs a Python module where it may make machines: a network and processes of its own, which end with it."""
    return subprocess.run(["unshare", *_user(), *_OWN, sys.executable, "-m", *argv], check=False).returncode


def sh(*command: object) -> str:
    """Runs a command that must succeed; its output."""
    return subprocess.run([*map(str, command)], check=True, capture_output=True, text=True).stdout


def make_bridge() -> None:
    """The switch; the process that calls this is on the network, too."""
    sh("ip", "link", "set", "lo", "up")
    sh("ip", "link", "add", BRIDGE, "type", "bridge")
    sh("ip", "addr", "add", f"{BRIDGE_ADDRESS}/24", "dev", BRIDGE)
    sh("ip", "link", "set", BRIDGE, "up")


class Machine:
    """A machine that runs until it is killed.

    Args:
      name: its host name is ``NAME.machines``.
      address: its IPv4 address.
      hosts: name to address, of all machines.
      environment: the variables of its processes, besides ``PATH`` and ``HOME``.
    """

    def __init__(self, name: str, address: str, hosts: dict[str, str], environment: dict[str, str]) -> None:
        self.name, self.address = name, address
        self.environment = {
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "HOME": str(Path.home()),
            **environment,
        }
        self._holder = subprocess.Popen(
            ["unshare", *_OWN, "--uts", "--ipc", "sh", "-c", _setup(name, hosts)], stdout=subprocess.PIPE, text=True
        )
        assert self._holder.stdout is not None
        assert self._holder.stdout.readline() == "there\n"
        self.pid = int(Path(f"/proc/{self._holder.pid}/task/{self._holder.pid}/children").read_text())
        self.link = f"v-{name}"
        sh("ip", "link", "add", self.link, "type", "veth", "peer", "name", "eth0", "netns", self.pid)
        sh("ip", "link", "set", self.link, "master", BRIDGE, "up")
        sh(*self._inside, "ip", "addr", "add", f"{address}/24", "dev", "eth0")
        sh(*self._inside, "ip", "link", "set", "eth0", "up")

    @property
    def _inside(self) -> list[str]:
        spaces = ["--net", "--mount", "--uts", "--ipc", "--pid"]
        return ["nsenter", "--target", str(self.pid), *spaces, "env", "--chdir=/tmp"]

    def start(self, *command: object, **options: Any) -> subprocess.Popen[Any]:
        """Starts a process on it."""
        return subprocess.Popen([*self._inside, *map(str, command)], env=self.environment, **options)

    def run(self, *command: object) -> str:
        """Runs a process on it to its end; what it says."""
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
        return str(self.start(*command, **pipes).communicate()[0])

    def processes(self, text: str) -> list[int]:
        """The processes of a machine whose command line has a text, by their ids on it."""
        lines = self.run("ps", "-eo", "pid=,args=", "-ww").splitlines()
        return [int(line.split()[0]) for line in lines if text in line]

    def signal(self, name: str, *processes: int) -> None:
        """Sends a signal to processes, by their ids on it."""
        self.run("kill", f"-{name}", *processes)

    def slow_down(self, kilobits: int) -> None:
        """Limits what its network sends and receives a second."""
        limit = ["tbf", "rate", f"{kilobits}kbit", "burst", "32kbit", "latency", "400ms"]
        self.run("tc", "qdisc", "add", "dev", "eth0", "root", *limit)
        sh("tc", "qdisc", "add", "dev", self.link, "root", *limit)

    def speed_up(self) -> None:
        """Takes that back."""
        self.run("tc", "qdisc", "del", "dev", "eth0", "root")
        subprocess.run(["tc", "qdisc", "del", "dev", self.link, "root"], capture_output=True, check=False)

    def power_off(self) -> None:
        """Its network and its processes are gone, without a word to the others."""
        sh("ip", "link", "del", self.link)  # or the kernel would say goodbye for its connections
        self.stop()

    def stop(self) -> None:
        """Ends all its processes."""
        self._holder.kill()
        self._holder.wait()

    @property
    def is_off(self) -> bool:
        """Whether it was switched off."""
        return self._holder.poll() is not None

    def has(self, path: str) -> bool:
        """Whether a file is there."""
        return Path(f"/proc/{self.pid}/root{path}").exists()


def _setup(name: str, hosts: dict[str, str]) -> str:
    hidden = _outermost([*map(Path, ("/tmp", "/var/tmp", "/dev/shm")), Path.home(), Path(*ROOT.parts[:2])])
    code = [path for path in (ROOT, Path(sys.prefix), Path(sys.base_prefix)) if any(map(path.is_relative_to, hidden))]
    opened = {path: number for number, path in enumerate(_outermost(code), 3)}
    return _SETUP.format(
        opened="\n".join(f"exec {number}<{path}" for path, number in opened.items()),
        hidden=" ".join(map(str, hidden)),
        code="\n".join(
            f"mkdir -p {path}\nmount -c --bind /proc/self/fd/{number} {path}\nmount -o remount,bind,ro {path}"
            for path, number in opened.items()
        ),
        hosts=" ".join(f"'{address} {host}.{DOMAIN} {host}'" for host, address in hosts.items()),
        name=f"{name}.{DOMAIN}",
    )


def _outermost(paths: Sequence[Path]) -> list[Path]:
    """Folders without those that are in others."""
    there = sorted({path.resolve() for path in paths if path.is_dir()})
    return [path for path in there if not any(path != other and path.is_relative_to(other) for other in there)]
