"""Which variables reach workers, and which values are never written down."""

import json
import os
import subprocess
import sys

import pytest

from autodist.carriers import Horovod
from autodist.coordination import WorkerEnvironment
from autodist.errors import UsageError
from autodist.launch import Job, forwarded_environment, requested_environment
from autodist.launch._secrets import mask_command, mask_secrets, without_secrets
from autodist.resource_spec import Host, ResourceSpec, Ssh

STEP = "w.steps_taken += 1\n"


def test_variables_that_steer_libraries_travel():
    wanted = {
        "TF_CPP_MIN_LOG_LEVEL": "0", "KERAS_BACKEND": "tensorflow", "XLA_FLAGS": "--x", "HOROVOD_CYCLE_TIME": "1",
        "NCCL_DEBUG": "INFO", "OMP_NUM_THREADS": "2", "MKL_NUM_THREADS": "2", "PYTHONHASHSEED": "0",
        "PYTHONWARNINGS": "error", "AUTODIST_OVERLAP": "0", "AUTODIST_DEBUG": "1", "AUTODIST_STEP_TIMEOUT_S": "9",
    }  # fmt: skip
    assert forwarded_environment(wanted) == wanted


@pytest.mark.parametrize(
    "name",
    [
        "PATH", "LD_LIBRARY_PATH", "LD_PRELOAD", "HOME", "VIRTUAL_ENV", "PYTHONPATH", "PYTHONHOME", "PWD", "TMPDIR",
        "USER", "SSH_AUTH_SOCK", "HF_TOKEN", "AWS_SECRET_ACCESS_KEY", "KERAS_HOME", "TF_CONFIG", "CUDA_VISIBLE_DEVICES",
        "tf_x", "HOROVOD_GLOO_RENDEZVOUS_ADDR", "HOROVOD_GLOO_RENDEZVOUS_PORT", *sorted(Horovod.own_variables),
        *sorted(WorkerEnvironment().to_environ().keys() - {"AUTODIST_STEP_TIMEOUT_S"}),
    ],
)  # fmt: skip
def test_variables_of_this_machine_and_of_a_place_in_a_run_stay(name):
    assert forwarded_environment({name: "x"}) == {}


def test_travelling_variables_are_by_default_those_of_this_process(monkeypatch):
    monkeypatch.setenv("TF_OF_THIS_TEST", "1")
    assert forwarded_environment()["TF_OF_THIS_TEST"] == "1"


def test_requested_variables(tmp_path):
    first, second = tmp_path / "first.env", tmp_path / "second.env"
    first.write_text("# a comment\n\n  A=1\nB = 'x \"y\" '\nexport C=$HOME `ls` #no comment\nD=\nMINE\nE=a=b\r\n")
    second.write_text("A=2\nF=\u00e9\x85x")
    found = requested_environment(["A=3", "G=x\ny", "MINE2"], [first, second], {"MINE": "m ", "MINE2": ""})
    assert found == {
        "A": "3", "B": 'x "y" ', "C": "$HOME `ls` #no comment", "D": "", "MINE": "m ", "E": "a=b", "F": "\u00e9\x85x",
        "G": "x\ny", "MINE2": "",
    }  # fmt: skip


def test_all_mistakes_are_told_and_no_value(tmp_path):
    file = tmp_path / "some.env"
    file.write_text("GOOD=1\nhunter2 is my password=x\nRANK=3\nN=\0")
    binary = tmp_path / "binary.env"
    binary.write_bytes(b"\xff\xfe")
    with pytest.raises(UsageError) as caught:
        requested_environment(
            ["NOT_SET", "=hunter2", "hunter2!", "AUTODIST_SEED=hunter2", "CUDA_VISIBLE_DEVICES=0"],
            [file, tmp_path / "none", binary],
            {},
        )
    assert caught.value.message.splitlines() == [
        f"the file `{tmp_path / 'none'}` of `--env-file` can't be read: No such file or directory",
        f"the file `{binary}` of `--env-file` can't be read: it is not UTF-8 text",
        f"`{file}:2`: the name of a variable is missing: it has letters, digits and `_`",
        f"`{file}:3`: `RANK` is for the launcher to set",
        f"`{file}:4`: the value of `N` has a NUL character",
        "`--env`: the variable `NOT_SET` is not set",
        "`--env`: the name of a variable is missing: it has letters, digits and `_`",
        "`--env`: the name of a variable is missing: it has letters, digits and `_`",
        "`--env`: `AUTODIST_SEED` is for the launcher to set, use `--seed`",
        "`--env`: `CUDA_VISIBLE_DEVICES` is for the launcher to set, use `gpus` of the host in the resource spec",
    ]
    assert "hunter2" not in str(caught.value)
    assert caught.value.hint


# --- secrets


@pytest.mark.parametrize(
    "name",
    ["HF_TOKEN", "AWS_SECRET_ACCESS_KEY", "WANDB_API_KEY", "DB_PASS", "MYSQL_PWD", "GITHUB_PAT", "A_DSN", "my_token"],
)
def test_secrets_are_known_by_their_names(name):
    harmless = {"PWD": "/work", "LD_LIBRARY_PATH": "/x", "TF_AUTHOR": "me"}
    assert mask_secrets({name: "abc", **harmless}) == {name: "***", **harmless}


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("http://me:hunter2@proxy:8080/x", "http://me:***@proxy:8080/x"),
        ("a https://u:p:w@h b", "a https://u:***@h b"),
        ("http://proxy:8080/@x", "http://proxy:8080/@x"),
        ("host:/path@x", "host:/path@x"),
    ],
)
def test_passwords_in_urls_are_masked(url, shown):
    assert mask_secrets({"HTTP_PROXY": url}) == {"HTTP_PROXY": shown}


def test_command_is_kept_without_secrets_and_works_again():
    argv = ["autodist", "run", "t.py", "--env", "HF_TOKEN=a b", "--env=A_KEY=x=y", "--env", "N=1", "--env", "K_TOKEN"]
    tail = ["--", "--env", "HF_TOKEN=of the script"]
    assert mask_command([*argv, *tail]) == [
        *("autodist", "run", "t.py", "--env", "HF_TOKEN", "--env=A_KEY", "--env", "N=1", "--env", "K_TOKEN"), *tail,
    ]  # fmt: skip


def test_spec_is_kept_without_secrets():
    spec = ResourceSpec(
        (
            Host("a", "a", env=(("A_TOKEN", "x"), ("N", "1")), ssh=Ssh(shared_envs=(("B_KEY", "x"), ("M", "2")))),
            Host("b", "b"),
        )
    )
    kept = without_secrets(spec)
    assert (kept.hosts[0].env, kept.hosts[0].ssh.shared_envs) == ((("N", "1"),), (("M", "2"),))
    assert kept.hosts[1] == spec.hosts[1]


def test_no_secret_in_a_repr(tmp_path):
    (tmp_path / "t.py").touch()
    assert "hunter2" not in repr(Job(tmp_path / "t.py", ResourceSpec.local(1), env={"X": "hunter2"}))


def test_secrets_reach_workers_and_nothing_else(tmp_path):
    """A variable from each source; the script has them all, the run directory and the console none."""
    (tmp_path / "cluster.yml").write_text("nodes:\n  - address: localhost\n    env: {SPEC_TOKEN: hunter2-spec}\n")
    (tmp_path / "vars.env").write_text("FILE_TOKEN=hunter2-file\nAUTODIST_MY_KEY=hunter2-kept")
    (tmp_path / "train.py").write_text(
        "import os\nfrom autodist.coordination import current_worker; current_worker().steps_taken += 1\n"
        "names = ['SPEC_TOKEN', 'FILE_TOKEN', 'CLI_TOKEN', 'OWN_TOKEN', 'AUTODIST_MY_KEY']\n"
        "print([os.environ[name].partition('-')[2] for name in names])\n"
        "print(len(os.environ['AUTODIST_TOKEN']))\n"
    )
    command = [
        *(sys.executable, "-m", "autodist", "run", "train.py", "--env-file", "vars.env", "--env", "OWN_TOKEN"),
        *("--env", "CLI_TOKEN=hunter2-cli", "-v", "--debug"),
    ]
    env = {**os.environ, "OWN_TOKEN": "hunter2-own"}
    for extra in ([], ["--dry-run"]):
        result = subprocess.run(
            [*command, *extra], cwd=tmp_path, env=env, capture_output=True, text=True, timeout=120, check=False
        )
        assert result.returncode == 0, result.stderr
        assert "hunter2" not in result.stdout + result.stderr
        assert "warning: everybody on this machine can see the value of `CLI_TOKEN`" in result.stderr
        assert "`OWN_TOKEN`" not in result.stderr
        if not extra:
            assert "[0] ['spec', 'file', 'cli', 'own', 'kept']\n[0] 32\n" in result.stdout
        else:
            assert "FILE_TOKEN='***'" in result.stdout
    kept = {path: path.read_text() for path in (tmp_path / "runs").rglob("*") if path.is_file()}
    assert len(kept) >= 5
    assert [path for path, text in kept.items() if "hunter2" in text] == []
    run = (tmp_path / "runs" / "latest").resolve()
    assert "--env CLI_TOKEN" in kept[run / "command.txt"]
    assert json.loads(kept[run / "env.json"])["AUTODIST_MY_KEY"] == "***"
