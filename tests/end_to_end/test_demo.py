"""The demo tells its story to the end, with the shipped history and with any other."""

import json
import os
import re
import subprocess
import sys
import tempfile
from importlib.resources import as_file, files
from pathlib import Path

from tests.fixtures.embedded import discard

RUN = """
import sys
from pathlib import Path
from rich.console import Console
from memoriale.adapters.demo.story import run
file, home = (None if argument == "-" else argument for argument in sys.argv[1:])
console = Console(markup=False, width=100)
sys.exit(run(file, None if home is None else Path(home), console))
"""


def tell(
    file: Path | None, home: Path | None, folder: Path, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Runs the demo in a process of its own with its temporary files in ``folder``."""
    arguments = ["-" if path is None else str(path) for path in (file, home)]
    return subprocess.run(
        [sys.executable, "-c", RUN, *arguments],
        env=os.environ | {"TMPDIR": str(folder), **environment},
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def test_the_demo_keeps_every_promise(tmp_path: Path) -> None:
    """With nothing given, every step does what it says, digests are equal, the whole ends with
    exit code 0, and nothing is left; settings of the user are not used."""
    with tempfile.TemporaryDirectory(prefix="demo-", dir="/tmp") as name:
        run = tell(
            None,
            None,
            Path(name),
            MEMORIALE_DATABASE_URL="postgresql://nobody@localhost:1/none",
            MEMORIALE_HOME=str(tmp_path / "untouched"),
        )
        assert run.returncode == 0, run.stdout + run.stderr
        assert list(Path(name).iterdir()) == []
    assert not (tmp_path / "untouched").exists()
    told = run.stdout
    assert "✗" not in told
    assert "Traceback" not in run.stderr
    headings = re.findall(r"^\d+\. (\w+)", told, re.MULTILINE)
    assert headings == [
        *("Import", "Ask", "Correct", "Invalidate", "Ask", "Fork", "Look", "Hand"),
        *("Fork", "Look", "Kill", "Rebuild", "Verify"),
    ]
    assert "Tarek is allergic to hazelnuts" in told
    assert "said in confidence, not to be kept" in told
    for view in ("recall", "stats"):
        row = re.search(rf"^ +{view} +\d+ +[\d,]+ +(\w+) +(\w+)", told, re.MULTILINE)
        assert row is not None
        assert row[1] == row[2]


def test_the_demo_tells_any_history_and_keeps_a_home_that_is_given(tmp_path: Path) -> None:
    """A file of one hostile turn, without questions or dates, goes through every step, twice in
    one home; control characters and markup of its texts are shown, not obeyed."""
    turn = {"speaker": "A\x1b[31m", "dia_id": "D1:1", "text": "a [red]boat[/red] \u202eat sea"}
    file = tmp_path / "history.json"
    file.write_text(json.dumps([{"sample_id": "[bold]", "conversation": {"session_1": [turn]}}]))
    with tempfile.TemporaryDirectory(prefix="demo-", dir="/tmp") as name:
        home = Path(name) / "home"
        try:
            for _ in range(2):
                run = tell(file, home, tmp_path)
                assert run.returncode == 0, run.stdout + run.stderr
                assert "[red]boat[/red]" in run.stdout
                assert "\x1b" not in run.stdout
                assert "\u202e" not in run.stdout
            assert home.is_dir()
        finally:
            discard(home)


def test_a_terminal_of_another_encoding_is_no_error(tmp_path: Path) -> None:
    """Characters that the output cannot show stand as escapes."""
    with as_file(files("memoriale.adapters.demo") / "history.json") as history:
        shortened = json.loads(history.read_text())
    sessions = shortened["conversation"]
    shortened["conversation"] = {name: sessions[name] for name in ("session_1", "session_11")}
    file = tmp_path / "history.json"
    file.write_text(json.dumps(shortened))
    run = tell(file, None, tmp_path, PYTHONIOENCODING="ascii")
    assert run.returncode == 0, run.stdout + run.stderr
    assert "\\u2713" in run.stdout


def test_a_file_of_another_format_is_refused(tmp_path: Path) -> None:
    """What is not of the LoCoMo format ends the demo before anything is made."""
    file = tmp_path / "history.json"
    file.write_text("{}")
    run = tell(file, None, tmp_path)
    assert run.returncode != 0
    assert "sample_id cannot be used" in run.stderr
