"""The package as a stranger meets it: names, import side effects, what importing loads."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import psephos

ROOT = Path(__file__).parent.parent


def run(code):
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=True
    ).stdout


def test_public_names_load_and_are_documented():
    for name in psephos.__all__:
        assert getattr(psephos, name) is not None
        if name != "__version__":
            assert getattr(psephos, name).__doc__
    assert dir(psephos) == sorted(psephos.__all__)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = psephos.nothing


def test_importing_and_help_load_nothing_heavy():
    code = "import psephos, psephos.cli.main, sys; print(*sys.modules)"
    loaded = set(run(code).split())
    assert not loaded & {"numpy", "scipy", "highspy", "flint", "pandas", "jax", "duckdb"}
    assert {name.split(".")[1] for name in loaded if name.startswith("psephos.")} == {"cli"}


def test_reading_ballots_loads_no_solver_and_no_privacy():
    code = "import psephos; psephos.read_preflib; import sys; print('highspy' in sys.modules, 'flint' in sys.modules)"
    assert run(code) == "False False\n"


def test_version_agrees_with_the_metadata():
    import tomllib

    assert tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"] == psephos.__version__


def test_every_extra_is_imported_somewhere():
    """An extra that nothing imports installs what nobody uses; test tools aside, which are for tests."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    sources = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "src").rglob("*.py"))
    for extra in extras.keys() - {"test", "all"}:
        for requirement in extras[extra]:
            name = re.match(r"[a-z_]+", requirement).group()
            assert re.search(rf"import {name}\b|from {name}\b|[\"']{name}[\"'.]", sources), (extra, requirement)
    assert extras["all"] == [f"psephos[{','.join(name for name in extras if name not in ('test', 'all'))}]"]


def test_missing_extras_name_the_install_line():
    from psephos._extras import load_extra
    from psephos.errors import MissingExtraError

    with pytest.raises(MissingExtraError, match=r"pip install 'psephos\[report\]'"):
        load_extra("a_module_that_does_not_exist", "report")
    assert load_extra("json", "report").__name__ == "json"


def test_no_print_and_no_assert_on_user_input():
    """Results go through the command line's writers; `assert` vanishes under -O."""
    for path in (ROOT / "src").rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        lines = [line.strip() for line in text.splitlines() if ">>>" not in line and "    ... " not in line]
        assert not any(line.startswith("assert ") for line in lines), path
        if path.parent.name != "cli":
            assert not any("print(" in line for line in lines), path
