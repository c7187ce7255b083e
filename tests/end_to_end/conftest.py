"""Chromium, for the tests of pages."""

import os
import shutil

import pytest

CHROMIUM = os.environ.get("PARAPET_CHROMIUM") or shutil.which("chromium")
OFF = ("gpu", "background-networking", "component-update", "sync")
FLAGS = ["--headless", "--no-sandbox", *(f"--disable-{what}" for what in OFF), "--no-first-run"]


@pytest.fixture(scope="module")
def browser():
    api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    if not CHROMIUM:
        pytest.skip("no chromium: install Debian's chromium package, or point PARAPET_CHROMIUM to one")
    with api.sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield started
        started.close()
