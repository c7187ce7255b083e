"""The README and ``docs/``: their examples run, their links lead somewhere, their tables are complete."""

from __future__ import annotations

import importlib
import re
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

import setup as packaging  # noqa: F401  (only where it can be imported without building)
