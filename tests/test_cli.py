"""The command line: what a person types and sees; a mistake is one line and exit code 2."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import cast

import click
import pandas as pd
import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from rolecall.probes.toy import toy_aligner
from rolecall.reports import option_types
from rolecall.reports.cli import COMMANDS, cli, main

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
        (["scan", "{folder}", "-n", "0"], "1<=x"),
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
        assert set(example) == {"token_ids", "tokens", "twin", "template", "words", "links"}
        assert set(example["links"][0]) == {"query", "target", "rivals"}
    assert run("data", "export", "induction", "--tasks", "--model", folder, "--out", out) == 0
    assert set(json.loads(out.read_text().splitlines()[0])) >= {
        "token_ids",
        "template",
        "positions",
    }


@pytest.mark.parametrize(
    ("name", "asked"),
    [("coreference", "antecedent"), ("antecedent", "antecedent"), ("pronoun", "pronoun")],
)
def test_a_task_is_exported_by_its_name_and_a_roles_own_by_the_role(
    folder, tmp_path, capsys, name, asked
):
    out = tmp_path / "items.jsonl"
    assert run("data", "export", name, "--tasks", "--model", folder, "--out", out, "-n", 18) == 0
    said = [json.loads(line)["answer_token"][0] for line in out.read_text().splitlines()]
    pronouns = {"he", "she", "him", "her", "his", "himself", "herself"}
    assert len(said) == 18
    assert all((word.strip() in pronouns) == (asked == "pronoun") for word in said)


def test_a_task_is_no_role(folder, tmp_path, capsys):
    out = tmp_path / "links.jsonl"
    assert run("data", "export", "pronoun", "--model", folder, "--out", out) == 2
    assert "no role is named 'pronoun'" in capsys.readouterr().err
    assert not out.exists()


def test_roles_lists_definition_source_and_templates(capsys):
    assert run("roles", "--json") == 0
    rows = {row["role"]: row for row in json.loads(capsys.readouterr().out)}
    assert rows["subject_verb"]["templates"] >= 8
    assert rows["induction"]["source"]
    assert all(row["definition"] for row in rows.values())


def test_check_prints_each_property(folder, capsys):
    assert run("check", folder) == 0
    assert "ok" in capsys.readouterr().out


BAD = {
    "device": ["banana", "", "cpu:x"],
    "role": ["corefrence", ""],
    "task": ["corefrence", "", "first_token"],
    "head": ["", "L1", "H1L1", "head 1"],
    "heads": ["", ",", "L1H1+", "L1H1,x"],
    "path": [""],
    "task file": ["", "absent.jsonl", "{folder}", "{empty}"],
    "treebank": ["", "absent.conllu", "{folder}"],
    "folder to write": ["", "{empty}", "{empty}/below", "/proc/none", "y" * 300],
    "file to write": ["", "{folder}", "{empty}/below", "/proc/none/file"],
    "whole number": ["", "x", "-1", "1.5", "9" * 30],
    "number": ["", "x", "nan", "inf", "-1"],
    "choice": ["", "banana"],
    "text": [],
}
"""For each kind of value, such as are refused."""

GOOD = {
    "--to": "L1H1",
    "--task": "induction",
    "--out": "out",
    "role": "induction",
    "run": "run",
    "runs": "run",
    "head": "L0H0",
    "name": "scores",
}


def kind_of(option: click.Parameter) -> str:
    """The kind of an option's value; an option of no kind named here fails the test."""
    named = {
        id(option_types.PATH): "path",
        id(option_types.TASK_FILE): "task file",
        id(option_types.TREEBANK): "treebank",
        id(option_types.OUT_FOLDER): "folder to write",
        id(option_types.OUT_FILE): "file to write",
    }
    if id(option.type) in named:
        return named[id(option.type)]
    if isinstance(option.type, click.Choice):
        return "choice"
    if isinstance(option.type, option_types.Checked):
        return option.type.name
    if isinstance(option.type, option_types.Whole):
        assert None not in (option.type.min, option.type.max), option
        return "whole number"
    if isinstance(option.type, option_types.Real):
        return "number"
    assert option.type is click.STRING, (option.name, option.type)
    return "text"


def every_command():
    for name in COMMANDS:
        command = cli.get_command(click.Context(cli), name)
        inner = getattr(command, "commands", {"": command})
        for below, one in inner.items():
            yield (name, *([below] if below else [])), one


def mistakes(folder, empty):
    """Every command line with one value that can be seen to be wrong, all others being right."""
    for words, command in every_command():
        valued = [o for o in command.params if not getattr(o, "is_flag", False)]
        # `head --model` may stand without a value.
        valued = [o for o in valued if (words, o.name) != (("head",), "model")]
        for option in valued:
            for bad in BAD[kind_of(option)]:
                line = list(words)
                for other in valued:
                    key = other.opts[0]
                    value = bad if other is option else GOOD.get(key)
                    wanted = other is option or other.required
                    if wanted and value is not None:
                        value = value.format(folder=folder, empty=empty)
                        line += [key, value] if key.startswith("-") else [value]
                yield line
        if any(option.name == "model" for option in valued):
            needed = ["--to", "L1H1", "--task", "induction"] if words == ("paths",) else []
            model = ["--model"] if words[0] == "data" else []
            role = ["induction"] if words[0] == "data" else []
            out = ["--out", "out"] if words == ("data", "export") else []
            for bad in ("", " ", "no/such/folder", f"{empty}", "missing.gguf", f"{empty.parent}"):
                if words[0] != "head":
                    yield [*words, *role, *model, bad, *needed, *out]
    yield from (
        ["scan", "--revision", "main"],
        ["paths", "--to", "L1H1"],
        ["paths", "--to", "L0H1", "--task", "induction"],
        ["paths", "--to", "L1H1", "--from", "L0H1,L1H0", "--task", "induction"],
        ["compare", "run"],
        ["compare", "run", "run", "--steps", "1,2"],
        ["compare", "run", "run", "--steps", "5,5", "--out", "out"],
        ["compare", "run", "run", "--steps=-1,2", "--out", "out"],
        ["compare", "run", "run", "--steps", "1", "--out", "out"],
        ["check", "--seed", "3"],
        ["check", "--out", "out"],
        ["check", "--planted", "some/model"],
        ["prune", "--out", "absent"],
        ["verdict", "absent"],
        ["data", "export", "first_token", "--tasks", "--out", "out"],
        ["scan", "--no-such-option"],
    )


RUN_ALL = """
import contextlib, io, json, sys
from rolecall.reports.cli import main
for line in json.load(sys.stdin):
    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said):
            main(line)
        code = 0
    except SystemExit as stop:
        code = stop.code
    print(json.dumps([line, code, "torch" in sys.modules, said.getvalue()]))
    sys.stdout.flush()
    if "torch" in sys.modules:
        break
"""


def test_what_can_be_seen_to_be_wrong_is_said_without_torch_and_leaves_nothing(tmp_path):
    empty, folder, here = tmp_path / "empty", tmp_path / "folder", tmp_path / "here"
    folder.mkdir()
    here.mkdir()
    empty.touch()
    lines = list(mistakes(folder, empty))
    done = subprocess.run(
        [sys.executable, "-c", RUN_ALL],
        input=json.dumps(lines),
        capture_output=True,
        text=True,
        check=True,
        cwd=here,
    )
    rows = [json.loads(row) for row in done.stdout.splitlines()]
    for line, code, torch_came, said in rows:
        last = said.strip().splitlines()[-1:]
        assert not torch_came, (line, said)
        assert code == 2, (line, said)
        assert " ".join(last).startswith("rolecall: "), (line, said)
        assert "Errno" not in said, (line, said)
    assert len(rows) == len(lines)
    assert list(here.iterdir()) == list(folder.iterdir()) == []


STOPPED = """
import os, signal, sys
from rolecall.analyses import {module} as module
signal.signal(signal.SIGHUP, signal.SIG_DFL)  # tests run under nohup ignore it
def stop(*_, **__):
    os.kill(os.getpid(), signal.{signal})
    signal.sigtimedwait([], 5)
module.{name} = stop
sys.argv = ["rolecall", *{arguments}]
from rolecall.reports.cli import main
main()
"""


SCAN = ["scan", "--role", "induction", "-n", "4"]
ABLATE = ["ablate", "--task", "induction", "-n", "2", "--damage", "0"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("signal", "module", "name", "arguments"),
    [
        ("SIGINT", "evidence", "_to_arrow", SCAN),
        ("SIGTERM", "evidence", "_to_arrow", SCAN),
        ("SIGHUP", "evidence", "_to_arrow", SCAN),
        ("SIGINT", "item_store", "_note", ABLATE),
        ("SIGTERM", "planted_verdict", "scan", ["check", "--planted", "--models", "1"]),
    ],
)
def test_what_is_stopped_leaves_no_half_file_and_no_scratch(
    signal, module, name, arguments, tmp_path, folder
):
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    own = [] if "--planted" in arguments else [str(folder)]
    line = [arguments[0], *own, *arguments[1:], "--out", "run"]
    code = STOPPED.format(module=module, signal=signal, name=name, arguments=line)
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "TMPDIR": str(scratch)},
        check=False,
    )
    assert done.returncode == 130, done.stderr
    assert done.stderr.strip().splitlines()[-1].startswith("stopped;")
    assert "Traceback" not in done.stderr
    assert not list(scratch.iterdir())
    assert not list((tmp_path / "run").rglob("*.partial"))
