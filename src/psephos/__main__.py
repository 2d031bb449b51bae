"""``python -m psephos`` is the command line."""

from psephos.cli.main import run

if __name__ == "__main__":
    run()
