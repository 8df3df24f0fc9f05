"""How an explorer is started and ended: from the command line, and from a handle."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

import pytest

import ducklake_spark
from ducklake_spark import ClosedError, InvalidInputError, Lake


def status(url: str) -> int:
    try:
        with urllib.request.urlopen(url, timeout=30) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code


def test_a_handle_starts_one_explorer_and_ends_it_when_it_is_closed(
    lake: Lake, capsys: pytest.CaptureFixture[str]
) -> None:
    explorer = lake.explore()
    assert capsys.readouterr().out == f"The lake explorer: {explorer.url}\n"
    assert lake.explore() is explorer
    assert status(explorer.url) == 200
    assert status(explorer.url.partition("?")[0]) == 401
    lake.close()
    assert not explorer.is_running
    with pytest.raises(urllib.error.URLError):
        status(explorer.url)
    with pytest.raises(ClosedError):
        lake.explore()


def test_an_explorer_that_was_closed_is_started_anew(lake: Lake) -> None:
    first = lake.explore()
    first.close()
    second = lake.explore()
    assert second is not first and status(second.url) == 200


def test_an_explorer_listens_on_this_computer_only(lake: Lake) -> None:
    port = int(re.findall(r":(\d+)/", lake.explore().url)[0])
    outside = socket.gethostbyname(socket.gethostname())
    if outside.startswith("127."):
        pytest.skip("this computer has no other address")
    with pytest.raises(OSError), socket.create_connection((outside, port), timeout=5):
        pass


@pytest.mark.parametrize("port", [-1, 65536, "80", True, 1.5])
def test_a_port_is_a_number(lake: Lake, port: object) -> None:
    with pytest.raises(InvalidInputError, match="port takes a whole number"):
        lake.explore(port=port)  # type: ignore[arg-type]


def test_a_port_that_is_taken_is_named(lake: Lake) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        with pytest.raises(InvalidInputError, match=f"Port {port} of 127.0.0.1 cannot be used"):
            lake.explore(port=port)


def test_the_command_prints_its_url_and_ends_with_ctrl_c(tmp_path: Path) -> None:
    path = str(tmp_path / "shop.ducklake")
    ducklake_spark.attach(f"ducklake:{path}").close()
    command = [sys.executable, "-m", "ducklake_spark", "explore", path, "--no-browser"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=dict(os.environ)
    ) as done:
        assert done.stdout is not None
        url = done.stdout.readline().partition(": ")[2].strip()
        assert done.stdout.readline() == "Ctrl-C ends it.\n"
        assert status(url) == 200
        done.send_signal(signal.SIGINT)
        out, err = done.communicate(timeout=60)
    assert (done.returncode, out, err) == (0, "", "")


def test_the_command_never_makes_a_lake(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "ducklake_spark", "explore", str(tmp_path / "typo.ducklake")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1 and "There is no lake at" in done.stderr
    assert not list(tmp_path.iterdir())
