"""Folders are layers, and what should be cheap to import is."""

import subprocess
import sys

import pytest


def imported_by(code: str) -> set[str]:
    script = f"{code}\nimport sys\nprint('\\n'.join(sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", script], check=True, capture_output=True, text=True
    )
    return set(done.stdout.split())


@pytest.mark.parametrize(
    ("code", "heavy"),
    [
        ("import rolecall.reports.cli", {"torch", "pandas", "transformers", "matplotlib"}),
        ("import rolecall.analyses", {"torch", "pandas", "transformers"}),
        ("import rolecall.analyses.tables", {"torch", "transformers"}),
        ("import rolecall.reports.heatmap", {"torch", "transformers", "transformer_lens"}),
    ],
)
def test_importing_stays_cheap(code, heavy):
    assert imported_by(code).isdisjoint(heavy)


def test_help_imports_neither_torch_nor_pandas():
    code = (
        "from click.testing import CliRunner\n"
        "from rolecall.reports.cli import cli\n"
        "assert CliRunner().invoke(cli, ['--help']).exit_code == 0"
    )
    assert imported_by(code).isdisjoint({"torch", "pandas", "transformers"})
