"""Machines to log in to, and a person at `head` who does."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

DRIVE = str(Path(__file__).with_name("drive.py"))
PYTHON = sys.executable


class Person:
    """Somebody at a host of an emulated cluster."""

    def __init__(self, cluster, transport, user="root"):
        self.cluster = cluster
        self.transport = transport
        self.user = user
        self.env = {}

    def file(self, host, path, text, mode="644"):
        written = self.cluster.run(host, ["sh", "-c", 'cat > "$0" && chmod "$1" "$0"', path, mode], given=text)
        assert written.returncode == 0, written.stderr

    def configure(self, text):
        self.file("head", "/root/.ssh/config", text)

    def shell(self, host, command):
        done = self.cluster.run(host, ["bash", "-c", command])
        assert done.returncode == 0, done.stderr
        return done.stdout

    def request(self, opens, **more):
        return json.dumps({"transport": self.transport, "opens": opens} | more)

    def open_all(self, opens, **more):
        given = self.request(opens, **more)
        done = self.cluster.run("head", [PYTHON, DRIVE], user=self.user, env=self.env, given=given, timeout_s=120)
        assert done.returncode == 0, done.stderr
        return [json.loads(line) for line in done.stdout.splitlines()]

    def open(self, address, *argv, given="", ssh=None, **more):
        wanted = {"address": address, "argv": argv or ["hostname"], "given": given}
        return self.open_all([wanted | ({} if ssh is None else {"ssh": ssh})], **more)[0]

    def start(self, opens, **more):
        """The program, once it has opened everything."""
        command = self.cluster.command("head", [PYTHON, DRIVE], env=self.env)
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        process.stdin.write(self.request(opens, hold=True, **more))
        process.stdin.close()
        process.stdin = None
        assert json.loads(process.stdout.readline()) == "open"
        return process


@pytest.fixture(params=["asyncssh", "ssh"])
def person(emulate, request):
    return Person(emulate(2), request.param)


@pytest.fixture(params=["asyncssh", pytest.param("ssh", marks=pytest.mark.slow)])
def reader(emulate, request):
    """Somebody whose way to log in has to read the configuration; OpenSSH itself can be trusted to."""
    return Person(emulate(2), request.param)
