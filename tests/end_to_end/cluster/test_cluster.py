"""A pipeline on worker pools of two other machines; ``make test-machines`` runs all of them, and disturbs one."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from cluster.machines import ROOT, unavailable


@pytest.mark.thorough
def test_workers_on_two_other_machines_write_the_same() -> None:
    if reason := unavailable():
        pytest.skip(f"there can be no namespaces here: {reason}")
    path = os.pathsep.join([f"{ROOT}/tests", f"{ROOT}/tests/end_to_end"])
    run = subprocess.run(
        [sys.executable, "-m", "cluster", "compose"],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stdout + run.stderr
    assert "everything as it must be" in run.stdout
