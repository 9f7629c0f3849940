"""quantize_test.py PROGRAM SOURCE_DIR TEST_DATA [unittest arguments]: quantize and convert as a user
meets them. ONEPASS_KILL_POINTS=100 kills as often as the full test of atomic output does."""

import hashlib
import json
import os
import random
import re
import shutil
import signal
import subprocess
import time

from support import STORIES, CliCase, main, spawn


def digest(path):
    with open(path, "rb") as f:
        return hashlib.sha256(f.read()).hexdigest()


class QuantizeTest(CliCase):
    def test_the_file_has_the_sizes_that_were_printed(self):
        out = self.path("out.gguf")
        dry = self.json("quantize", STORIES, out, "q4_0", "--dry-run", "--json")
        self.assertFalse(os.path.exists(out))
        self.assertFalse(dry["written"])
        wet = self.json("quantize", STORIES, out, "q4_0", "--json")
        self.assertTrue(wet.pop("written"))
        dry.pop("written")
        self.assertEqual(dry, wet)
        self.assertEqual(os.listdir(self.folder), ["out.gguf"])
        self.assertLess(os.path.getsize(out) - wet["after"]["bytes"], 2_000_000)  # metadata
        self.assertEqual(sum(k["bytes"] for k in wet["kinds"].values()), wet["after"]["bytes"])
        self.assertEqual(sum(t["bytes"] for t in wet["tensors"]), wet["after"]["bytes"])
        self.assertAlmostEqual(wet["kinds"]["q4_0"]["bits_per_weight"], 4.5)
        self.assertEqual(wet["kinds"]["f32"]["bits_per_weight"], 32)
        text = self.text("generate", "-m", out, "-p", "Once upon a time", "-n", "20", "--temp", "0")
        self.assertGreater(len(text), 20)

    def test_the_table(self):
        text = self.text("quantize", STORIES, "none", "Q8_0", "--dry-run")
        self.assertRegex(text, r"(?m)^q8_0 +\d+ +\d+ +[\d.]+ MB +8\.500$")
        self.assertRegex(text, r"(?m)^all ")
        self.assertRegex(text, r"(?m)^before ")

    def test_wrong_usage(self):
        out = self.path("out.gguf")
        self.fails(2, "quantize", STORIES, out, "q9_k", says=["q9_k", "q4_k_m"])
        self.fails(2, "quantize", STORIES, out)
        self.fails(1, "quantize", self.path("none"), out, "q4_0", says=["No such file"])
        self.fails(1, "quantize", STORIES, self.path("no/folder"), "q4_0", says=["No such file"])
        small = self.path("small.gguf")
        self.ok("quantize", STORIES, small, "q4_0")
        self.fails(1, "quantize", small, out, "q5_0", says=["--requantize"])
        self.ok("quantize", small, out, "q5_0", "--requantize")

    def test_the_example_of_help(self):
        shutil.copy(STORIES, self.path("model-f16.gguf"))
        text = self.text("quantize", "--help")
        examples = re.findall(r"(?m)^  onepass (quantize .*)$", text)
        self.assertEqual(len(examples), 2)
        for example in examples:
            self.ok(*example.split(), cwd=self.folder)
        self.assertEqual(sorted(os.listdir(self.folder)), ["model-f16.gguf", "model-q4_k_m.gguf"])


class ImatrixTest(CliCase):
    def setUp(self):
        super().setUp()
        self.text_file = self.write("text.txt", "Once upon a time there was a little girl. " * 60)
        self.matrix = self.path("imatrix.gguf")

    def test_a_matrix_and_a_file_that_needs_one(self):
        report = self.json("imatrix", "-m", STORIES, "-f", self.text_file, "-o", self.matrix, "-c",
                           "64", "--chunks", "3", "--json")
        self.assertEqual(report["chunks"], 3)
        self.assertEqual(report["chunk_tokens"], 64)
        self.assertEqual(report["tensors"], 7 * 8)
        again = self.path("again.gguf")
        result = self.ok("imatrix", "-m", STORIES, "-f", self.text_file, "-o", again, "-c", "64",
                         "--chunks", "3", "-t", "1")
        self.assertNotIn(b"\r", result.stderr)  # no progress in a pipe
        self.assertEqual(digest(again), digest(self.matrix))  # for any number of threads
        out = self.path("out.gguf")
        self.fails(1, "quantize", STORIES, out, "iq2_xxs", says=["onepass imatrix", "blk."])
        self.assertFalse(os.path.exists(out))
        plan = self.json("quantize", STORIES, out, "iq2_xxs", "--dry-run", "--json")
        self.assertIn("needed", {t["importance"] for t in plan["tensors"]})
        made = self.json("quantize", STORIES, out, "iq2_xxs", "--imatrix", self.matrix, "--json")
        used = {t["name"]: t["importance"] for t in made["tensors"]}
        self.assertEqual(used["blk.0.ffn_down.weight"], "used")
        self.assertEqual(used["token_embd.weight"], "none")
        self.ok("generate", "-m", out, "-n", "4")

    def test_wrong_usage(self):
        self.fails(2, "imatrix", "-m", STORIES, "-o", self.matrix, says=["--file"])
        self.fails(2, "imatrix", "-m", STORIES, "-f", self.text_file, says=["--output"])
        self.fails(1, "imatrix", "-m", STORIES, "-f", self.write("short", "Once."), "-o",
                   self.matrix, says=["two windows"])
        self.fails(1, "quantize", STORIES, "none", "q4_0", "--imatrix", self.text_file)
        self.fails(1, "quantize", STORIES, "none", "q4_0", "--imatrix", STORIES,
                   says=["importance matrix"])
        self.assertFalse(os.path.exists(self.matrix))


class KillTest(CliCase):
    def test_kill_leaves_the_old_file_or_the_new_one(self):
        points = int(os.environ.get("ONEPASS_KILL_POINTS", "6"))
        out, new = self.path("out.gguf"), self.path("new.gguf")
        begin = time.monotonic()
        self.ok("quantize", STORIES, new, "q4_k_m")
        seconds = time.monotonic() - begin
        expected = {digest(STORIES): "old", digest(new): "new"}
        rng = random.Random(1)
        seen = {"old": 0, "new": 0}
        for _ in range(points):
            shutil.copy(STORIES, out)
            process = spawn("quantize", STORIES, out, "q4_k_m", stdout=subprocess.DEVNULL,
                            stderr=subprocess.DEVNULL)
            time.sleep(rng.random() * seconds * 1.2)
            process.send_signal(signal.SIGKILL)
            process.wait()
            state = expected.get(digest(out))
            self.assertIsNotNone(state, "neither the old file nor the new one")
            seen[state] += 1
        print(f"killed {points} times: old file {seen['old']}, new file {seen['new']}")

    def test_ctrl_c_leaves_no_trace(self):
        out = self.path("out.gguf")
        process = spawn("quantize", STORIES, out, "q4_k_m", "-t", "1", stdout=subprocess.DEVNULL,
                        stderr=subprocess.DEVNULL)
        while process.poll() is None and not os.listdir(self.folder):
            time.sleep(0.001)
        process.send_signal(signal.SIGINT)
        code = process.wait()
        self.assertIn(code, (0, 130))
        self.assertEqual(os.listdir(self.folder), ["out.gguf"] if code == 0 else [])


class ConvertTest(CliCase):
    def greedy(self, model):
        return self.text("generate", "-m", model, "-p", "Once upon a time", "-n", "16", "--temp",
                         "0")

    def test_there_and_back(self):
        folder, back = self.path("folder"), self.path("back.gguf")
        report = self.json("convert", STORIES, folder, "--type", "f32", "--json")
        self.assertEqual(report["to"], "folder")
        self.assertTrue(report["tokenizer"])
        self.assertEqual(sorted(os.listdir(folder)), ["config.json", "model.safetensors",
                                                      "tokenizer.json", "tokenizer_config.json"])
        for name in ("config.json", "tokenizer.json", "tokenizer_config.json"):
            json.loads(self.read(os.path.join(folder, name)))
        self.ok("convert", folder, back, "--type", "q8_0")
        self.assertEqual(self.greedy(back), self.greedy(STORIES))
        self.fails(1, "convert", STORIES, folder, says=["exists"])

    def test_the_example_of_help(self):
        shutil.copy(STORIES, self.path("model.gguf"))
        examples = re.findall(r"(?m)^  onepass (convert .*)$", self.text("convert", "--help"))
        self.assertEqual(len(examples), 2)
        for example in reversed(examples):  # the second makes the folder of the first
            self.ok(*example.split(), cwd=self.folder)
        self.assertGreater(len(self.greedy(self.path("model.gguf"))), 16)

    def test_wrong_usage(self):
        self.fails(2, "convert", STORIES, self.path("x"), "--type", "q4_0", says=["bf16"])
        self.fails(2, "convert", STORIES, self.path("x"), "--bits", "7")
        self.fails(2, "convert", self.folder, self.path("x"), "--bits", "4", says=["--type"])
        self.fails(1, "convert", self.folder, self.path("x"), says=["config.json"])
        self.assertEqual(os.listdir(self.folder), [])


if __name__ == "__main__":
    main()
