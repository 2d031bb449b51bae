"""Two ways to run the command line in tests: in this process, which is quick, and in a process of its own."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import warnings
from collections.abc import Mapping
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from unittest.mock import patch

from psephos.cli.main import run

SRC = Path(__file__).parents[1] / "src"

Done = subprocess.CompletedProcess[str]


def run_here(*args: str | Path, cwd: Path) -> Done:
    """Run ``psephos ARGS`` in this process by the function that the installed command calls.

    Both streams are bytes underneath, as those of a process are, so what cannot be encoded is caught here too. An
    exception that the command does not turn into an exit code of its own is raised.
    """
    command = ["psephos", *map(str, args)]
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="ascii", newline="\n") for _ in range(2))
    before = Path.cwd()
    os.chdir(cwd)
    try:
        with (
            warnings.catch_warnings(),
            patch.object(sys, "argv", command),
            patch.object(warnings, "showwarning", warnings.showwarning),
            redirect_stdout(out),
            redirect_stderr(err),
        ):
            warnings.simplefilter("error")  # what a command shows are warnings of ours and of users' data
            warnings.simplefilter("default", UserWarning)
            run()
        raise AssertionError("the command line returned")
    except SystemExit as left:
        code = left.code or 0
    finally:
        os.chdir(before)
    texts = []
    for stream in (out, err):
        stream.flush()
        texts.append(stream.buffer.getvalue().decode("utf-8"))
    return Done(command, code, *texts)


def run_process(*args: str | Path | bytes, cwd: Path, env: Mapping[str, str] | None = None) -> Done:
    """Run ``python -m psephos ARGS`` in a process of its own: for what only a process shows."""
    command = [sys.executable, "-m", "psephos", *(a if isinstance(a, bytes) else str(a) for a in args)]
    variables = {**os.environ, "PYTHONPATH": str(SRC), "PYTHONIOENCODING": "utf-8", **(env or {})}
    done = subprocess.run(command, cwd=cwd, env=variables, capture_output=True, timeout=1200, check=False)
    out, err = done.stdout.decode("utf-8"), done.stderr.decode("utf-8", "replace")
    assert "Traceback" not in err, err
    return Done(command, done.returncode, out, err)


def checked(done: Done, code: int | None) -> Done:
    """The run, if its exit code is ``code`` (``None``: any); a run that fails prints nothing on stdout."""
    assert code in {None, done.returncode}, f"exit code {done.returncode}, wanted {code}\n{done.stdout}\n{done.stderr}"
    if code:
        assert done.stdout == ""
    return done
