"""model_commands_test.py PROGRAM SOURCE_DIR TEST_DATA [unittest arguments]: logits, perplexity, bench
and graph as a user meets them. TEST_DATA may be empty; what needs it is then skipped."""

import array
import csv
import io
import json
import math
import os
import resource
import struct

from support import STORIES, TINY, CliCase, main

ARCHITECTURES = ("tiny", "tiny-qwen2", "tiny-qwen3", "tiny-qwen3moe", "tiny-gemma2", "tiny-gemma3",
                 "tiny-phi3")


def floats(path):
    values = array.array("f")
    with open(path, "rb") as f:
        values.frombytes(f.read())
    return values


class LogitsTest(CliCase):
    def test_json_agrees_with_the_file(self):
        out = self.path("a.f32")
        data = self.json("logits", "-m", TINY, "--tokens", "1,2,3", "--out", out, "--json")
        values = floats(out)
        self.assertEqual(data["n_vocab"], 4096)
        self.assertEqual(len(values), 4096)
        self.assertAlmostEqual(data["mean"], sum(values) / 4096, places=6)
        self.assertAlmostEqual(data["rms"], math.sqrt(sum(v * v for v in values) / 4096), places=6)
        order = sorted(range(4096), key=lambda i: (-values[i], i))[:10]
        self.assertEqual([i for i, _ in data["top"]], order)
        for i, logit in data["top"]:
            self.assertAlmostEqual(logit, values[i], places=6)
        self.assertEqual(os.listdir(self.folder), ["a.f32"])

    def test_all_positions(self):
        every, last = self.path("all.f32"), self.path("last.f32")
        for kv in ("f16", "f32"):
            self.ok("logits", "-m", TINY, "--tokens", "5,6,7", "--all", "--out", every, "--kv", kv)
            values = floats(every)
            self.assertEqual(len(values), 3 * 4096)
            for n in (1, 2, 3):
                ids = ",".join(map(str, range(5, 5 + n)))
                self.ok("logits", "-m", TINY, "--tokens", ids, "--out", last, "--kv", kv)
                self.assertEqual(values[(n - 1) * 4096:n * 4096], floats(last))

    def test_text(self):
        lines = self.text("logits", "-m", STORIES, "--tokens", "1").splitlines()
        self.assertEqual(len(lines), 13)
        self.assertRegex(lines[0], r"^n_vocab \d+$")
        for line in lines[3:]:
            self.assertRegex(line, r"^ *\d+ +-?\d+\.\d{6}$")

    def test_threads_make_no_difference(self):
        one, two = (self.text("logits", "-m", TINY, "--tokens", "9,8,7,6", "--json", "-t", n)
                    for n in (1, 2))
        self.assertEqual(one, two)

    def test_full_disk_leaves_nothing(self):
        def small_files():
            resource.setrlimit(resource.RLIMIT_FSIZE, (5000, 5000))

        out = self.path("a.f32")
        # Without restored signals a file that grows too large is an error, not a signal.
        self.fails(1, "logits", "-m", TINY, "--tokens", "1", "--out", out, "--json",
                   preexec_fn=small_files, restore_signals=False, says=("a.f32", "io:"))
        self.assertEqual(os.listdir(self.folder), [])
        self.fails(1, "logits", "-m", TINY, "--tokens", "1", "--out", "/dev/full", says=("/dev/full",))

    def test_bad_input(self):
        self.fails(2, "logits", "-m", TINY, says=("--tokens",))
        self.fails(2, "logits", "-m", TINY, "--tokens", "1", "--kv", "q4_0", says=("--kv",))
        self.fails(2, "logits", "-m", TINY, "--tokens", "1,x", says=("'x'",))
        self.fails(2, "logits", "-m", TINY, "--tokens", "", says=("--tokens",))
        self.fails(1, "logits", "-m", TINY, "--tokens", "4096", says=("4096", "vocabulary"))
        self.fails(1, "logits", "-m", "synthetic:huge:q4_0", "--tokens", "1", says=("huge", "tiny"))
        self.fails(1, "logits", "-m", self.path("none.gguf"), "--tokens", "1", says=("none.gguf",))


class PerplexityTest(CliCase):
    TEXT = ("Once upon a time there was a little girl named Lily. She loved to play outside in the "
            "park with her friends. One day she saw a big red ball. ") * 6

    def setUp(self):
        super().setUp()
        self.file = self.write("text.txt", self.TEXT)

    def surprises(self, model, window):
        """Of the second half of a window, by the logits before each token."""
        out = self.path("w.f32")
        self.ok("logits", "-m", model, "--tokens", ",".join(map(str, window)), "--all", "--out", out)
        values = floats(out)
        vocab = len(values) // len(window)
        for p in range(len(window) // 2, len(window) - 1):
            row = values[p * vocab:(p + 1) * vocab]
            top = max(row)
            yield top + math.log(sum(math.exp(x - top) for x in row)) - row[window[p + 1]]

    def test_agrees_with_logits(self):
        data = self.json("perplexity", "-m", STORIES, "-f", self.file, "-c", 32, "--chunks", 2,
                         "--json")
        ids = [int(i) for i in self.text("tokenize", "-m", STORIES, self.TEXT).split()]
        bos = 1
        ids = [bos] + ids
        each = [x for w in range(2)
                for x in self.surprises(STORIES, [bos] + ids[w * 32 + 1:(w + 1) * 32])]
        count, mean = len(each), sum(each) / len(each)
        ppl = math.exp(mean)
        error = ppl * math.sqrt((sum(x * x for x in each) / count - mean * mean) / (count - 1))
        self.assertEqual(data["scored_tokens"], count)
        self.assertEqual(data["windows"], 2)
        self.assertAlmostEqual(data["perplexity"] / ppl, 1.0, places=5)
        self.assertAlmostEqual(data["standard_error"] / error, 1.0, places=4)

    def test_begin_token(self):
        key = b"tokenizer.ggml.add_bos_token" + struct.pack("<I", 7)
        data = self.read_bytes(STORIES)
        self.assertEqual(data.count(key + b"\1"), 1)
        model = self.write("asks-for-none.gguf", data.replace(key + b"\1", key + b"\0"))
        ids = [int(i) for i in self.text("tokenize", "-m", model, self.TEXT).split()][:32]
        for window, option in ((ids, []), ([1] + ids[1:], ["--bos"])):
            each = list(self.surprises(model, window))
            found = self.json("perplexity", "-m", model, "-f", self.file, "-c", 32, "--chunks", 1,
                              "--json", *option)["perplexity"]
            self.assertAlmostEqual(found / math.exp(sum(each) / len(each)), 1.0, places=5)

    def test_text_and_stdin(self):
        line = self.text("perplexity", "-m", STORIES, "-f", self.file, "-c", 64)
        self.assertRegex(line, r"^perplexity [0-9.]+ \+/- [0-9.]+\n$")
        piped = self.text("perplexity", "-m", STORIES, "-f", "-", "-c", 64,
                          stdin=self.TEXT.encode())
        self.assertEqual(line, piped)

    def test_a_story_is_less_surprising_than_noise(self):
        story = self.json("perplexity", "-m", STORIES, "-f", self.file, "-c", 64, "--json")
        self.write("text.txt", "zq xv 93 %% kjw 11 ((; bnm. " * 60)
        noise = self.json("perplexity", "-m", STORIES, "-f", self.file, "-c", 64, "--chunks", 1,
                          "--json")
        self.assertLess(story["perplexity"] * 3, noise["perplexity"])

    def test_bad_input(self):
        self.fails(1, "perplexity", "-m", STORIES, "-f", self.file, "-c", 4096,
                   says=("two windows of 4096",))
        self.fails(1, "perplexity", "-m", STORIES, "-f", self.path("none.txt"), says=("none.txt",))
        self.fails(1, "perplexity", "-m", TINY, "-f", self.file, says=("tokenizer",))
        self.fails(2, "perplexity", "-m", STORIES, says=("--file",))
        self.fails(2, "perplexity", "-m", STORIES, "-f", self.file, "-c", "2", says=("--context",))


class BenchTest(CliCase):
    SMALL = ("bench", "-m", TINY, "-p", "4,8", "-n", "3", "-d", "0,5", "-r", "2", "-t", "1")
    TESTS = ["pp4", "pp8", "tg3", "pp4 @ d5", "pp8 @ d5", "tg3 @ d5"]

    def test_markdown(self):
        lines = self.text(*self.SMALL).splitlines()
        cells = [[c.strip() for c in line.strip("|").split("|")] for line in lines]
        self.assertEqual(cells[0], ["model", "size", "params", "backend", "threads", "test", "t/s"])
        self.assertEqual([c[5] for c in cells[2:]], self.TESTS)
        for row in cells[2:]:
            self.assertEqual(row[:5], ["llama 5.0M Q8_0", "5.12 MiB", "5.05 M", "CPU", "1"])
            self.assertRegex(row[6], r"^[0-9.]+ ± [0-9.]+$")
        self.assertEqual(len({len(line) for line in lines}), 1)

    def test_json(self):
        rows = self.json(*self.SMALL, "-o", "json")
        self.assertEqual(rows, json.loads(json.dumps(rows, allow_nan=False)))
        self.assertEqual([r["test"] for r in rows], self.TESTS)
        for r in rows:
            n = r["n_prompt"] + r["n_gen"]
            speeds = [n * 1e9 / ns for ns in r["samples_ns"]]
            self.assertEqual(len(speeds), 2)
            self.assertAlmostEqual(r["avg_ts"] / (sum(speeds) / 2), 1.0, places=6)
            self.assertAlmostEqual(r["stddev_ts"], abs(speeds[0] - speeds[1]) / math.sqrt(2),
                                   delta=1e-6 * r["avg_ts"])
            self.assertGreater(r["memory_bytes_per_second"], 1e8)
            self.assertIn(r["in_cache"], (0, 1))
            if r["in_cache"]:
                self.assertGreater(r["bytes_per_token"] * r["avg_ts"], r["memory_bytes_per_second"])
                self.assertIsNone(r["read_share"])
            elif r["n_gen"]:
                self.assertLessEqual(r["read_share"], 1.0)
                self.assertAlmostEqual(
                    r["read_share"] * r["memory_bytes_per_second"] /
                    (r["bytes_per_token"] * r["avg_ts"]), 1.0, places=6)
            else:
                self.assertIsNone(r["read_share"])
        # Everything but most rows of the embedding, which has 4096 rows of 256.
        self.assertAlmostEqual(rows[0]["bytes_per_token"], rows[0]["model_size"] * 0.793, delta=1e5)

    def test_csv(self):
        rows = list(csv.DictReader(io.StringIO(self.text(*self.SMALL, "-o", "csv"))))
        self.assertEqual([r["test"] for r in rows], self.TESTS)
        for r in rows:
            self.assertGreater(float(r["avg_ts"]), 0.0)
            self.assertEqual(r["model_filename"], TINY)
            self.assertEqual(r["read_share"] == "", r["n_gen"] == "0" or r["in_cache"] == "1")

    def test_bad_input(self):
        self.fails(2, "bench", "-m", TINY, "-p", "0", "-n", "0", says=("nothing to measure",))
        self.fails(2, "bench", "-m", TINY, "-o", "xml", says=("xml",))
        self.fails(2, "bench", "-m", TINY, "-p", "many", says=("--n-prompt",))
        self.fails(2, "bench", "-m", TINY, "-r", "10001", says=("--repetitions",))


class GraphTest(CliCase):
    def schedule(self, *args):
        return self.json("graph", *args, "--json")

    def test_every_architecture(self):
        for name in ARCHITECTURES:
            for more in ((), ("--prefill", "100"), ("--no-fuse",), ("--policy", "greedy")):
                with self.subTest(name=name, more=more):
                    g = self.schedule("-m", f"synthetic:{name}:q4_0", *more)
                    self.assertEqual(g["hazards"], 0)
                    self.assertEqual(g["barriers"] + 1, g["levels"])
                    if "greedy" in more:
                        self.assertGreaterEqual(g["levels"], g["longest_path"])
                    else:
                        self.assertEqual(g["levels"], g["longest_path"])
                    self.assertEqual(g["rows"], 128 if "--prefill" in more else 1)
                    self.assertEqual(g["fused"] == {}, "--no-fuse" in more)
                    if g["architecture"] == "llama" and "--no-fuse" not in more:
                        self.assertLessEqual(g["dispatches_per_layer"], 8)

    def test_the_model_in_the_box(self):
        g = self.schedule()
        self.assertLessEqual(g["dispatches_per_layer"], 8)
        self.assertGreater(g["fused"]["gate"], 0)
        self.assertLess(g["arena_bytes"], g["scratch_bytes"])
        text = self.text("graph")
        self.assertIn(f"dispatches   {g['dispatches']:8}   {g['dispatches_per_layer']} per layer", text)
        self.assertIn(f"levels       {g['levels']:8}   longest path {g['longest_path']}", text)
        self.assertEqual((g["order"], g["programmatic"], g["added"]), ("edges", 0, 0))
        self.assertIn(f"edges        {g['edges']:8}   {g['edges_issued']} edges issued", text)

    def test_picture(self):
        dot = self.path("graph.dot")
        g = self.schedule("-m", TINY, "--dot", dot)
        text = self.read(dot)
        self.assertTrue(text.startswith("digraph"))
        self.assertEqual(text.count("label="), g["dispatches"])
        self.assertEqual(text.count("->"), g["edges"])
        self.assertEqual(os.listdir(self.folder), ["graph.dot"])

    def test_bad_input(self):
        self.fails(2, "graph", "--policy", "best", says=("best",))
        self.fails(2, "graph", "--prefill", "0", says=("--prefill",))
        self.fails(1, "graph", "-m", TINY, "--dot", self.path("no/graph.dot"), says=("no/graph.dot",))


class HelpTest(CliCase):
    def test_examples_run(self):
        for command in ("logits", "bench", "graph", "perplexity"):
            text = self.text(command, "--help")
            self.assertRegex(text, rf"Examples?:\n  onepass {command} ")


if __name__ == "__main__":
    main()
