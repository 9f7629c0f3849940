"""What the tests of the command-line tool share; to be imported by a script that is called with
PROGRAM SOURCE_DIR TEST_DATA [unittest arguments]. TEST_DATA may be empty; what needs it is then
skipped."""

import json
import os
import subprocess
import sys
import tempfile
import unittest

PROGRAM, SOURCE_DIR, TEST_DATA = sys.argv[1:4]
STORIES = os.path.join(SOURCE_DIR, "models", "stories-12m-q8_0.gguf")
TINY = "synthetic:tiny:q8_0"
SLOW = 120  # seconds until a command counts as stuck


def clean_env(env=None):
    """The environment without variables of onepass but ONEPASS_DEVICE=cpu, and with those of env;
    None takes a variable out."""
    full = {k: v for k, v in os.environ.items() if not k.startswith("ONEPASS_")}
    full |= {"ONEPASS_DEVICE": "cpu"} | (env or {})
    return {k: v for k, v in full.items() if v is not None}


def run(*args, stdin=b"", env=None, **more):
    """Runs the program to its end; env as in clean_env()."""
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "timeout": SLOW} | more
    return subprocess.run([PROGRAM, *map(str, args)], input=stdin, env=clean_env(env), check=False,
                          **options)


def spawn(*args, env=None, **more):
    """Starts the program and does not wait for it; env as in clean_env()."""
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | more
    return subprocess.Popen([PROGRAM, *map(str, args)], env=clean_env(env), **options)


def main():
    unittest.main(argv=[sys.argv[0], *sys.argv[4:]])


class CliCase(unittest.TestCase):
    """A test with a folder of its own. Names of files are below it or absolute; more: see run()."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def path(self, *names):
        return os.path.join(self.folder, *names)

    def write(self, name, content):
        """Content is text or bytes; returns the path."""
        data = content.encode() if isinstance(content, str) else content
        with open(self.path(name), "wb") as file:
            file.write(data)
        return self.path(name)

    def read(self, name):
        return self.read_bytes(name).decode()

    def read_bytes(self, name):
        with open(self.path(name), "rb") as file:
            return file.read()

    def data(self, *names):
        """A path in TEST_DATA; skips the test where there is none."""
        path = os.path.join(TEST_DATA, *names)
        if not TEST_DATA or not os.path.exists(path):
            self.skipTest(f"no {names[0]} in ONEPASS_TEST_DATA")
        return path

    def ok(self, *args, code=0, **more):
        """Ends with code; returns the CompletedProcess, with bytes."""
        result = run(*args, **more)
        self.assertEqual(result.returncode, code, result.stderr.decode())
        return result

    def text(self, *args, **more):
        """What ok() printed."""
        return self.ok(*args, **more).stdout.decode()

    def json(self, *args, **more):
        """What ok() printed, which is strict JSON."""
        return json.loads(self.text(*args, **more), parse_constant=self.fail)

    def fails(self, code, *args, says=(), **more):
        """Ends with code, prints nothing, and stderr has every part of says; returns stderr."""
        result = self.ok(*args, code=code, **more)
        self.assertEqual(result.stdout, b"")
        text = result.stderr.decode()
        for part in says:
            self.assertIn(part, text)
        return text
