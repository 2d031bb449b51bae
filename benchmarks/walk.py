"""How much of the package one command passes through: distinct functions of psephos, and the files they stand in.

    python benchmarks/walk.py consensus examples/burlington2006.toi --epsilon 1

Whoever follows a release from the command line to its noise and back has so much to read. Counted are functions that
are called by name, not lambdas and comprehensions, nor what runs on import. With ``--list`` first each is printed, in
the order of the first calls.
"""

from __future__ import annotations

import contextlib
import io
import sys
from pathlib import Path
from types import CodeType, FrameType

import psephos

ROOT = Path(psephos.__file__).parent


def walked(command: list[str]) -> list[CodeType]:
    """The code of each function of the package that the command calls, in the order of the first calls."""
    from psephos.cli.main import run

    seen: dict[CodeType, None] = {}
    importing = 0

    def watch(frame: FrameType, event: str, _argument: object) -> None:
        nonlocal importing
        code = frame.f_code
        if event not in ("call", "return") or not code.co_filename.startswith(str(ROOT)):
            return
        if code.co_name == "<module>":
            importing += 1 if event == "call" else -1
        elif not importing and not code.co_name.startswith("<"):
            seen.setdefault(code)

    sys.argv = ["psephos", *command]
    sys.setprofile(watch)
    try:
        with contextlib.suppress(SystemExit), contextlib.redirect_stdout(io.StringIO()):
            run()
    finally:
        sys.setprofile(None)
    return list(seen)


def main() -> None:
    listed = sys.argv[1:2] == ["--list"]
    command = sys.argv[1 + listed :]
    functions = walked(command)
    if listed:
        for code in functions:
            print(f"{Path(code.co_filename).relative_to(ROOT)}:{code.co_firstlineno} {code.co_qualname}")
    files = {code.co_filename for code in functions}
    print(f"{len(functions)} functions in {len(files)} files: psephos {' '.join(command)}")


if __name__ == "__main__":
    main()
