"""types_test.py SOURCE_DIR [unittest arguments]: the package and every example as mypy --strict sees them."""

import glob
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

import support

# The one that belongs to an interpreter with NumPy.
MYPY = [sys.executable, "-m", "mypy"]
if subprocess.run([*MYPY, "--version"], check=False, capture_output=True).returncode != 0:
    if os.path.realpath(sys.executable) != os.path.realpath(support.SYSTEM_PYTHON) and os.path.exists(
            support.SYSTEM_PYTHON):
        os.execv(support.SYSTEM_PYTHON, [support.SYSTEM_PYTHON, *sys.argv])
    print("SKIPPED: no mypy")
    sys.exit(77)

MISTAKES = """
import numpy as np
import onepass
device = onepass.Device("cpu")
x = device.zeros(8)
recorder = device.record()
recorder.ad(x, x, x)
recorder.add(x, x)
recorder.rms_norm(x, np.ones(8), x)
recorder.rope(x, x, out=x, rope_mode="other")
model = onepass.Model("m.gguf")
model.generate("a", temprature=0.5)
length: str = model.generate("a").prompt_tokens
piece: int = next(model.stream("a"))
model.generate([{"role": object()}])
"""
RIGHT = """
import numpy as np
import onepass
device = onepass.Device("cpu")
x = device.array(np.ones((2, 8)))
recorder = device.record()
recorder.rms_norm(x, out=x, eps=1e-5)
recorder.rms_norm(x, None, x)
recorder.rope(x, device.array([0, 1]), out=x, rope_mode="neox")
total = float(np.sum(x.numpy())) + len(x)
model = onepass.Model("m.gguf", device)
tokens: "list[int]" = model.generate([{"role": "user", "content": "Hi"}], seed=3).tokens
text = "".join(piece.text for piece in model.stream([1, 2, 3]))
reveal_type(model.generate)
reveal_type(model.stream)
reveal_type(x.numpy())
reveal_type(model.sequence().logits())
"""


class TypesTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)

    def mypy(self, *paths):
        return subprocess.run([*MYPY, "--strict", "--cache-dir", os.path.join(self.folder, "cache"), *paths],
                              env=dict(os.environ, MYPYPATH=support.PYTHON_DIR), cwd=self.folder, check=False,
                              capture_output=True, text=True)

    def write(self, text):
        path = os.path.join(self.folder, "program.py")
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return path

    def test_package_and_examples(self):
        examples = sorted(glob.glob(os.path.join(support.SOURCE_DIR, "examples", "*.py")))
        self.assertGreaterEqual(len(examples), 3)
        result = self.mypy("--scripts-are-modules", os.path.join(support.PYTHON_DIR, "onepass"), *examples)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)

    def test_mistakes_are_seen_and_nothing_is_any(self):
        result = self.mypy(self.write(MISTAKES))
        lines = [int(line.split(":")[1]) for line in result.stdout.splitlines() if ": error:" in line]
        self.assertEqual(sorted(set(lines)), [7, 8, 9, 10, 12, 13, 14, 15], result.stdout)
        result = self.mypy(self.write(RIGHT))
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        revealed = [line for line in result.stdout.splitlines() if "Revealed type" in line]
        self.assertEqual(len(revealed), 4)
        for line in revealed:
            self.assertNotRegex(line, r"\bAny\b")


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]], verbosity=1)
