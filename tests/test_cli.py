"""The command line: what a person types and sees; a mistake is one line and exit code 2."""

from __future__ import annotations

import json
from typing import cast

import pandas as pd
import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from rolecall.probes.toy import toy_aligner
from rolecall.reports.cli import COMMANDS, main

pytestmark = pytest.mark.filterwarnings("ignore::rolecall.probes.registry.PluginWarning")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A tiny random model in Hugging Face form, with the toy tokenizer."""
    aligner = toy_aligner()
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=aligner.d_vocab,
        hidden_size=16,
        intermediate_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        max_position_embeddings=256,
        bos_token_id=0,
        eos_token_id=1,
    )
    path = tmp_path_factory.mktemp("model")
    LlamaForCausalLM(config).save_pretrained(path)
    aligner.tokenizer.save_pretrained(path)
    return path


def run(*arguments: object) -> int:
    with pytest.raises(SystemExit) as stop:
        main([str(a) for a in arguments])
    return cast("int", stop.value.code)


def test_help_lists_every_command(capsys):
    assert run("--help") == 0
    said = capsys.readouterr().out
    assert all(name in said for name in COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help_of_its_own(name, capsys):
    assert run(name, "--help") == 0
    assert "Usage" in capsys.readouterr().out


def test_scan_writes_the_run_folder_and_prints_the_leading_heads(folder, tmp_path, capsys):
    out = tmp_path / "run"
    assert run("scan", folder, "--role", "induction", "-n", 12, "--out", out) == 0
    said = capsys.readouterr().out
    assert "induction" in said
    assert str(out) in said
    assert len(pd.read_parquet(out / "scores.parquet")) == 4
    for kind in ("svg", "pdf", "png", "csv"):
        assert (out / "figures" / f"scores-induction.{kind}").stat().st_size > 0
    json.loads((out / "manifest.json").read_text(), parse_constant=pytest.fail)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["scan", "{folder}", "--role", "inductoin"], "Did you mean 'induction'"),
        (["scan", "/no/such/folder"], "/no/such/folder"),
        (["scan", "{folder}", "-n", "0"], "x>=1"),
        (["scan", "{folder}", "--device", "warp"], "warp"),
        (["scan", "{folder}", "--dtype", "int3"], "int3"),
        (["scan", "{folder}", "--out", "{folder}/config.json"], "is a file"),
        (["data", "show", "inductoin", "--model", "{folder}"], "Did you mean 'induction'"),
        (
            ["data", "export", "first_token", "--tasks", "--model", "{folder}", "--out", "x"],
            "no task",
        ),
        (["scna"], "scna"),
    ],
)
def test_a_mistake_is_one_line_and_exit_code_2(
    folder, arguments, said, capsys, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    assert run(*[a.format(folder=folder) for a in arguments]) == 2
    shown = capsys.readouterr().err.strip()
    assert said in shown
    assert "Traceback" not in shown
    assert (
        len([line for line in shown.splitlines() if line.startswith(("rolecall:", "Error:"))]) == 1
    )


def test_data_show_marks_the_link_in_the_text(folder, capsys):
    assert run("data", "show", "subject_verb", "--model", folder, "--show", 2) == 0
    said = capsys.readouterr().out
    assert "[[" in said
    assert "{{" in said
    assert "<<" in said


def test_data_export_writes_the_format_of_the_design(folder, tmp_path, capsys):
    out = tmp_path / "links.jsonl"
    assert run("data", "export", "induction", "--model", folder, "--out", out, "-n", 6) == 0
    for line in out.read_text().splitlines():
        example = json.loads(line)
        assert set(example) == {"token_ids", "template", "words", "links"}
        assert set(example["links"][0]) == {"query", "target", "rivals"}
    assert run("data", "export", "induction", "--tasks", "--model", folder, "--out", out) == 0
    assert set(json.loads(out.read_text().splitlines()[0])) >= {
        "token_ids",
        "template",
        "positions",
    }


def test_roles_lists_definition_source_and_templates(capsys):
    assert run("roles", "--json") == 0
    rows = {row["role"]: row for row in json.loads(capsys.readouterr().out)}
    assert rows["subject_verb"]["templates"] >= 8
    assert rows["induction"]["source"]
    assert all(row["definition"] for row in rows.values())


def test_check_prints_each_property(folder, capsys):
    assert run("check", folder) == 0
    assert "ok" in capsys.readouterr().out
