"""In a browser: the page renders, its console stays empty, and no request leaves it."""

import json
import re
import shutil
import subprocess

import pytest

from levyscreen.report import page
from levyscreen.report.screened import read_screened

CHROMIUM = shutil.which("chromium")
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
    "--enable-logging=stderr",
    "--dump-dom",
)
OF_THE_BROWSER = "not an origin"  # who asks, where it is no page

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no chromium on PATH")


@pytest.fixture
def opened(tmp_path):
    """Opens a file: its document as rendered, what the console says, and the addresses that it asked for."""

    def call(path):
        log = tmp_path / "net.json"
        words = [CHROMIUM, *FLAGS, f"--user-data-dir={tmp_path / 'profile'}", f"--log-net-log={log}", path.as_uri()]
        done = subprocess.run(words, capture_output=True, text=True, timeout=180, check=True)
        console = [line for line in done.stderr.splitlines() if ":CONSOLE" in line]
        return done.stdout, console, asked(json.loads(log.read_text()))

    return call


def asked(log):
    kind = log["constants"]["logEventTypes"]["URL_REQUEST_START_JOB"]
    events = [event.get("params", {}) for event in log["events"] if event["type"] == kind]
    return [e["url"] for e in events if "url" in e and e["initiator"] != OF_THE_BROWSER]


def test_the_report_renders_without_an_error_or_a_request(opened, folder, cohort, model, tmp_path):
    path = tmp_path / "report.html"
    page.write(path, page.report(read_screened(folder), cohort, model))
    document, console, requests = opened(path)
    assert len(re.findall("<article", document)) == 8
    assert console == []
    assert requests == []


def test_a_page_that_errs_and_asks_is_seen_to(opened, tmp_path):
    path = tmp_path / "other.html"
    path.write_text('<!DOCTYPE html><img src="http://127.0.0.1:9/x.png"><script>nothing.here()</script>')
    _, console, requests = opened(path)
    assert len(console) == 1
    assert requests == ["http://127.0.0.1:9/x.png"]
