"""rows_test.py PROGRAM SOURCE_DIR TEST_DATA [unittest arguments]: output that scripts read and
people compare: quiet runs, JSON lines and log-probabilities of generate, formats of bench, KL
divergence, tensors, hashes and differences of files, offsets of tokens, devices. TEST_DATA may be
empty; what needs it is then skipped."""

import contextlib
import csv
import hashlib
import io
import json
import math
import os
import re
import shutil
import signal
import sqlite3
import struct
import unittest

from support import SLOW, STORIES, TEST_DATA, TINY, CliCase, main, spawn

TEXT = "Once upon a time there was a little girl called Lily. She had a red ball. " * 30


class QuietTest(CliCase):
    def test_nothing_but_the_data(self):
        for args in (["generate", "-n", "4"], ["logits", "-m", TINY, "--tokens", "1,2"],
                     ["bench", "-m", TINY, "-p", "4", "-n", "0", "-r", "1"],
                     ["graph", "-m", TINY], ["plan", "show", "-m", TINY],
                     ["plan", "save", "-m", TINY, "--out", self.path("plan.json")],
                     ["info", STORIES], ["quantize", STORIES, "none", "q4_0", "--dry-run",
                                         "--requantize"]):
            with self.subTest(args=args):
                self.assertEqual(self.ok(*args, "-q").stderr, b"")
        loud = self.ok("generate", "-n", "4")
        self.assertEqual(loud.stdout, self.ok("generate", "-n", "4", "--quiet").stdout)
        self.assertEqual(self.ok("generate", "-n", "4", env={"ONEPASS_QUIET": "1"}).stderr, b"")
        self.assertGreaterEqual(loud.stderr.count(b"\n"), 2)

    def test_warnings_and_errors_stay(self):
        self.assertIn("context of 10 tokens is full",
                      self.ok("generate", "-q", "-c", "10", "-p", "Once upon a time").stderr.decode())
        self.fails(1, "generate", "-q", "-m", "/no/such.gguf", says=["/no/such.gguf"])
        self.fails(1, "generate", "-q", "-c", "3", "-p", "Once upon a time", says=["5 tokens", "of 3"])

    def test_chat(self):
        template = self.write("plain.jinja", "{{ bos_token }}{% for m in messages %}"
                                             "{{ m.content + ' ' }}{% endfor %}")
        args = ("chat", "--template", template, "-n", "5", "--temp", "0", "--stats")
        loud, quiet = (self.ok(*args, *more, stdin=b"Hello\n") for more in ([], ["-q"]))
        self.assertEqual(loud.stdout, quiet.stdout)
        self.assertIn(b"tok/s", loud.stderr)
        self.assertNotIn(b"tok/s", quiet.stderr)
        self.assertNotIn(b"device:", quiet.stderr)

    def test_the_sampler_is_told(self):
        def told(*args):
            text = self.ok("generate", "-v", "-n", "1", *args).stderr.decode()
            return re.search(r"(?m)^sampling: (.*)$", text).group(1)

        self.assertEqual(told(), "temp 0.7, then top-k 40, then top-p 0.95, then min-p 0.05; seed 1")
        self.assertEqual(told("--temp", "1", "--top-k", "0", "--min-p", "0", "--seed", "9"),
                         "temp 1, then top-p 0.95; seed 9")
        self.assertEqual(told("--temp", "0"), "the most likely token")
        data = self.json("generate", "-n", "1", "--top-p", "1", "--json")
        self.assertEqual(data["sampling"]["chain"], ["temp", "top-k", "min-p"])


class EventsTest(CliCase):
    ARGS = ("generate", "-n", "9", "-p", "Tom had a", "--seed", "5")

    def events(self, *args):
        lines = self.text(*args, "--jsonl").splitlines()
        return [json.loads(line, parse_constant=self.fail) for line in lines]

    def test_lines(self):
        start, *tokens, end = self.events(*self.ARGS)
        whole = self.json(*self.ARGS, "--json")
        self.assertEqual((start["event"], end["event"]), ("start", "end"))
        self.assertEqual({t["event"] for t in tokens}, {"token"})
        self.assertEqual(start["prompt_tokens"], whole["prompt_tokens"])
        self.assertEqual(start["sampling"], whole["sampling"])
        self.assertEqual([t["token"] for t in tokens if t["token"] is not None], whole["tokens"])
        self.assertEqual("".join(t["text"] for t in tokens), whole["text"])
        self.assertEqual([t["index"] for t in tokens], list(range(len(tokens))))
        times = [t["time_s"] for t in tokens]
        self.assertEqual(times, sorted(times))
        self.assertGreater(times[0], 0.0)
        for key in ("text", "tokens", "stop", "context", "prompt"):
            self.assertEqual(end[key], whole[key])
        self.assertGreater(end["timings"]["decode_tokens_per_s"], 0.0)
        self.assertNotIn("logprob", tokens[0])

    def test_logprobs_are_those_of_the_logits(self):
        data = self.json(*self.ARGS, "--json", "--logprobs", "4")
        self.assertEqual(len(data["logprobs"]), 9)
        events = self.events(*self.ARGS, "--logprobs", "4")[1:-1]
        self.assertEqual([e["logprob"] for e in events], data["logprobs"])
        self.assertEqual([e["top_logprobs"] for e in events], data["top_logprobs"])
        ids = [1, *map(int, self.text("tokenize", "Tom had a").split()), *data["tokens"]]
        out = self.path("all.f32")
        self.ok("logits", "--tokens", ",".join(map(str, ids)), "--all", "--out", out)
        values = struct.unpack(f"<{os.path.getsize(out) // 4}f", self.read_bytes(out))
        vocab = len(values) // len(ids)
        first = len(ids) - 10  # the row before the first new token
        for i, logprob in enumerate(data["logprobs"]):
            row = values[(first + i) * vocab:(first + i + 1) * vocab]
            top = max(row)
            rest = top + math.log(sum(math.exp(x - top) for x in row))
            self.assertAlmostEqual(logprob, row[data["tokens"][i]] - rest, places=4)
            best = sorted(range(vocab), key=lambda id: (-row[id], id))[:4]
            self.assertEqual([id for id, _ in data["top_logprobs"][i]], best)
            self.assertAlmostEqual(data["top_logprobs"][i][0][1], top - rest, places=4)
            self.assertLessEqual(logprob, data["top_logprobs"][i][0][1] + 1e-9)

    def test_the_text_does_not_depend_on_them(self):
        self.assertEqual(self.json(*self.ARGS, "--json", "--logprobs", "0")["text"] + "\n",
                         self.text(*self.ARGS))
        data = self.json(*self.ARGS, "--json", "--logprobs", "0")
        self.assertEqual(data["top_logprobs"], [[]] * 9)
        self.assertIn(b"--jsonl only", self.ok(*self.ARGS, "--logprobs", "0").stderr)

    def test_a_model_without_text(self):
        events = self.events("generate", "-m", TINY, "--tokens", "1,2", "-n", "3", "--logprobs", "1")
        self.assertEqual([e["text"] for e in events[1:-1]], [None] * 3)
        self.assertTrue(all(isinstance(e["token"], int) for e in events[1:-1]))

    def test_interrupt_ends_with_an_event(self):
        with spawn("generate", "-n", "50000", "-m", TINY, "-c", "50000", "--tokens", "1", "--jsonl",
                   bufsize=0) as process:
            # Unbuffered: communicate() does not return what a buffered readline() read ahead.
            first = process.stdout.readline() + process.stdout.readline()
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=SLOW)
        self.assertEqual(process.returncode, 130, err.decode())
        events = [json.loads(line) for line in (first + out).splitlines()]
        self.assertEqual((events[-1]["event"], events[-1]["stop"]), ("end", "cancelled"))
        self.assertEqual(events[-1]["tokens"], [e["token"] for e in events[1:-1]])

    def test_wrong_usage(self):
        self.fails(2, "generate", "--jsonl", "--logprobs", "many", says=["--logprobs"])
        self.fails(2, "generate", "--jsonl", "--logprobs", "1001", says=["--logprobs"])
        self.fails(1, "generate", "--jsonl", "-c", "2", "-p", "Once upon a time", "-m", "/no.gguf")

    def test_context_auto(self):
        self.assertEqual(self.json(*self.ARGS, "--json", "-c", "auto")["context"],
                         self.json(*self.ARGS, "--json")["context"])
        self.assertIn("(default: auto)", self.text("generate", "--help"))
        self.fails(2, "generate", "-c", "automatic", says=["--context = automatic"])


class BenchOutputTest(CliCase):
    SMALL = ("bench", "-m", TINY, "-p", "4", "-n", "3", "-r", "2", "-t", "1")

    def test_lines_and_what_they_carry(self):
        lines = self.text(*self.SMALL, "-o", "jsonl").splitlines()
        rows = [json.loads(line, parse_constant=self.fail) for line in lines]
        self.assertEqual([r["test"] for r in rows], ["pp4", "tg3"])
        facts = {f["name"]: f["value"] for f in self.json("doctor", "--quick", "--json")}
        for r in rows:
            self.assertEqual(f"{r['build_version']}, commit {r['build_commit']}", facts["onepass"])
            self.assertEqual(f"{r['build_type']}, {r['compiler']}", facts["build"])
            self.assertEqual(r["system"], facts["system"])
            self.assertTrue(r["device"])
            self.assertEqual(r["driver"], "")  # the CPU has none
            self.assertEqual(len(r["samples_ns"]), 2)
        self.assertEqual(set(rows[0]), set(self.json(*self.SMALL, "-o", "json")[0]))

    def test_two_formats_at_once(self):
        result = self.ok(*self.SMALL, "-q", "-o", "csv", "--output-err", "jsonl")
        table = list(csv.DictReader(io.StringIO(result.stdout.decode())))
        rows = [json.loads(line) for line in result.stderr.decode().splitlines()]
        self.assertEqual([r["test"] for r in table], ["pp4", "tg3"])
        for a, b in zip(table, rows):
            self.assertAlmostEqual(float(a["avg_ns"]) / b["avg_ns"], 1.0, places=6)
        both = self.ok(*self.SMALL, "-q", "-o", "json", "--output-err", "md")
        self.assertEqual(len(json.loads(both.stdout)), 2)
        self.assertIn(b"| tg", both.stderr.replace(b"  ", b""))
        self.fails(2, *self.SMALL, "--output-err", "xml", says=["xml"])

    def test_sql_can_be_read(self):
        with contextlib.closing(sqlite3.connect(":memory:")) as database:
            for name in ("one", "it's"):
                os.symlink(STORIES, self.path(name))
                database.executescript(self.text("bench", "-m", self.path(name), "-p", "4", "-n", "3",
                                                 "-r", "1", "-o", "sql"))
            rows = database.execute("SELECT test, avg_ts, read_share, model_filename "
                                    "FROM onepass_bench").fetchall()
        self.assertEqual([r[0] for r in rows], ["pp4", "tg3", "pp4", "tg3"])
        self.assertTrue(all(r[1] > 0 for r in rows), rows)
        self.assertIsNone(rows[0][2])  # a prompt has none
        self.assertEqual(rows[3][3], self.path("it's"))
        rows = self.write("rows.json", self.ok("bench", "-m", TINY, "-p", "4", "-n", "0", "-r", "1",
                                               "-o", "json").stdout)
        self.fails(2, "bench", "--compare", rows, "--with", rows, "-o", "sql", says=["--with"])

    def test_lines_can_be_compared(self):
        before = self.write("before.jsonl", self.ok(*self.SMALL, "-o", "jsonl").stdout)
        out = self.ok("bench", "--compare", before, "--with", before, "-o", "jsonl").stdout
        rows = [json.loads(line) for line in out.splitlines()]
        self.assertEqual([(r["test"], r["speed_ratio"]) for r in rows], [("pp4", 1.0), ("tg3", 1.0)])
        with open(before, "a", encoding="utf-8") as f:
            f.write("{\n")
        self.fails(1, "bench", "--compare", before, "--with", before, says=["line 3", "parse"])


class KlTest(CliCase):
    """The format is that of llama-perplexity --kl-divergence-base."""

    def setUp(self):
        super().setUp()
        self.file, self.base = self.write("text.txt", TEXT), self.path("base.kld")

    def save(self, *more):
        return self.json("perplexity", "-f", self.file, "-c", "32", "--chunks", "2",
                         "--save-logits", self.base, "--json", *more)

    def read_base(self):
        data = self.read_bytes(self.base)
        self.assertEqual(data[:8], b"_logits_")
        n_ctx, n_vocab, n_chunk = struct.unpack("<3i", data[8:20])
        at = 20 + 4 * n_ctx * n_chunk
        tokens = struct.unpack(f"<{n_ctx * n_chunk}i", data[20:at])
        width = (n_vocab + 1) // 2 * 2
        rows = []
        while at < len(data):
            step, least = struct.unpack("<2f", data[at:at + 8])
            values = struct.unpack(f"<{width}H", data[at + 8:at + 8 + 2 * width])[:n_vocab]
            rows.append([least + step * v for v in values])
            at += 8 + 2 * width
        return n_ctx, n_vocab, n_chunk, tokens, rows

    def test_file(self):
        plain = self.json("perplexity", "-f", self.file, "-c", "32", "--chunks", "2", "--json")
        self.assertEqual(self.save(), plain)
        n_ctx, n_vocab, n_chunk, tokens, rows = self.read_base()
        self.assertEqual((n_ctx, n_vocab, n_chunk, len(rows)), (32, 4096, 2, 30))
        self.assertEqual(list(tokens[1:32]), [int(i) for i in self.text("tokenize", TEXT).split()][:31])
        out = self.path("w.f32")
        self.ok("logits", "--tokens", ",".join(map(str, tokens[:32])), "--all", "--out", out)
        values = struct.unpack(f"<{32 * n_vocab}f", self.read_bytes(out))
        for p in (16, 30):
            row = values[p * n_vocab:(p + 1) * n_vocab]
            top = max(row)
            rest = top + math.log(sum(math.exp(x - top) for x in row))
            for x, stored in zip(row, rows[p - 16]):
                self.assertAlmostEqual(max(x, top - 16) - rest, stored, delta=16 / 65535)

    def test_against_itself_and_another(self):
        before = self.save()
        same = self.json("perplexity", "--kl", self.base, "--json")
        self.assertEqual(same["scored_tokens"], 30)
        self.assertEqual(same["perplexity"], before["perplexity"])
        # The file knows nothing below 1/e^16 of the most likely token.
        self.assertAlmostEqual(same["perplexity_ratio"], 1.0, delta=1e-2)
        self.assertAlmostEqual(same["kl_divergence"]["mean"], 0.0, delta=1e-4)
        self.assertEqual(same["same_top"], 1.0)
        small = self.path("small.gguf")
        self.ok("quantize", STORIES, small, "q4_0")
        other = self.json("perplexity", "-m", small, "--kl", self.base, "--json")
        kl = other["kl_divergence"]
        self.assertGreater(kl["mean"], 1e-4)
        self.assertTrue(kl["median"] <= kl["p90"] <= kl["p95"] <= kl["p99"] <= kl["p999"] <= kl["max"])
        self.assertEqual(other["base_perplexity"], same["base_perplexity"])
        self.check_by_hand(small, other)
        text = self.text("perplexity", "-m", small, "--kl", self.base)
        self.assertRegex(text, r"(?m)^KL divergence [0-9.]+ \+/- [0-9.]+, median")

    def check_by_hand(self, model, data):
        """The same figures from the logits of the model and the stored reference."""
        n_ctx, vocab, n_chunk, tokens, rows = self.read_base()
        total, same, change = 0.0, 0, 0.0
        for w in range(n_chunk):
            window = [1, *tokens[w * n_ctx + 1:(w + 1) * n_ctx]]
            out = self.path("w.f32")
            self.ok("logits", "-m", model, "--tokens", ",".join(map(str, window)), "--all", "--out",
                    out)
            values = struct.unpack(f"<{n_ctx * vocab}f", self.read_bytes(out))
            for k, p in enumerate(range(n_ctx // 2, n_ctx - 1)):
                row, base = values[p * vocab:(p + 1) * vocab], rows[w * 15 + k]
                top = max(row)
                rest = top + math.log(sum(math.exp(x - top) for x in row))
                total += sum(math.exp(b) * (b - (x - rest)) for x, b in zip(row, base) if b > -16)
                same += row.index(top) == base.index(max(base))
                change += math.exp(row[window[p + 1]] - rest) - math.exp(base[window[p + 1]])
        self.assertAlmostEqual(data["kl_divergence"]["mean"], total / 30, delta=2e-4)
        self.assertEqual(data["same_top"], same / 30)
        self.assertAlmostEqual(data["probability_change"]["mean"], change / 30, delta=1e-5)

    def test_bad_files(self):
        self.save()
        good = self.read_bytes(self.base)

        def bad(data, *says):
            self.fails(1, "perplexity", "--kl", self.write(self.base, data), says=["parse", *says])

        bad(b"", "magic")
        bad(b"_logits_" + good[8:15], "magic")
        bad(b"GGUF" + good[4:], "magic")
        bad(good[:-2], "bytes", "make")
        bad(good + b"\0\0", "bytes")
        bad(good[:8] + struct.pack("<I", 3) + good[12:], "n_ctx", "byte 8")
        bad(good[:12] + struct.pack("<I", 0) + good[16:], "n_vocab")
        bad(good[:16] + struct.pack("<I", 0) + good[20:], "n_chunk")
        bad(good[:8] + struct.pack("<3I", 1 << 26, 1 << 24, 1 << 20) + good[20:], "n_chunk")
        bad(good[:20] + struct.pack("<I", 4096) + good[24:], "token 4096", "byte 20")
        at = 20 + 4 * 64
        bad(good[:at] + struct.pack("<f", math.nan) + good[at + 4:], "not a number")

    def test_wrong_usage(self):
        self.save()
        self.fails(2, "perplexity", says=["--file"])
        self.fails(2, "perplexity", "-f", self.file, "--kl", self.base, says=["--kl"])
        self.fails(2, "perplexity", "--kl", self.base, "--save-logits", self.path("x"), says=["--kl"])
        self.fails(1, "perplexity", "--kl", self.path("none"), says=["not_found"])
        self.fails(1, "perplexity", "-f", self.file, "-c", "32", "--save-logits",
                   self.path("no/such"), says=["no/such"])
        if TEST_DATA and os.path.exists(os.path.join(TEST_DATA, "gguf", "stories260K-f32.gguf")):
            self.fails(1, "perplexity", "-m", os.path.join(TEST_DATA, "gguf", "stories260K-f32.gguf"),
                       "--kl", self.base, says=["4096", "512"])


class InfoTest(CliCase):
    def test_tensors(self):
        data = self.json("info", STORIES, "--tensors", "--json")
        self.assertEqual(len(data["tensor_list"]), data["tensors"])
        self.assertEqual(sum(t["bytes"] for t in data["tensor_list"]), data["bytes"])
        self.assertEqual(sum(math.prod(t["dims"]) for t in data["tensor_list"]), data["parameters"])
        first = data["tensor_list"][0]
        line = f"  {first['name']}  {first['type']} [{', '.join(map(str, first['dims']))}]  "
        self.assertIn(line, self.text("info", STORIES, "--tensors"))
        self.assertNotIn("tensor_list", self.json("info", STORIES, "--json"))
        synthetic = self.json("info", TINY, "--tensors", "--json")
        self.assertEqual(sum(math.prod(t["dims"]) for t in synthetic["tensor_list"]),
                         synthetic["parameters"])

    def test_kernels(self):
        data = self.json("info", STORIES, "--tensors", "--json")
        kernels = {t["name"]: t.get("kernel") for t in data["tensor_list"]}
        self.assertIn("q8_0", kernels["blk.0.attn_q.weight"])
        self.assertIsNone(kernels["blk.0.attn_norm.weight"])
        self.assertEqual(data["kernels"]["device"], "cpu")
        self.assertEqual(data["kernels"]["generic_share"], 0)
        text = self.text("info", STORIES, "--tensors")
        self.assertIn(kernels["blk.0.attn_q.weight"], text)
        self.assertRegex(text, r"(?m)^kernels +all matrices have one of their type's own on cpu$")

    @unittest.skipUnless(TEST_DATA, "needs model files")
    def test_slow_kernels_are_named(self):
        # Rows of 172 values are no whole groups of 32.
        model = os.path.join(TEST_DATA, "gguf", "stories260K-f32.gguf")
        data = self.json("info", model, "--tensors", "--json")
        slow = [t["name"] for t in data["tensor_list"] if t.get("generic")]
        self.assertEqual(slow, [f"blk.{i}.ffn_down.weight" for i in range(5)])
        self.assertEqual(data["kernels"]["generic_weights"], 5)
        self.assertGreater(data["kernels"]["generic_share"], 0.1)
        says = r"slow: [\d.]+ % of the weight bytes \(blk\.0\.ffn_down and 4 more\) go through "
        self.assertRegex(self.text("info", model), says + "generic kernels of cpu: matmul_f32_f32")
        told = self.ok("generate", "-m", model, "-p", "Once", "-n", "4").stderr.decode()
        self.assertRegex(told, says)
        self.assertNotIn("slow:", self.ok("generate", "-m", STORIES, "-n", "2").stderr.decode())
        self.assertRegex(self.text("profile", "-m", model, "-n", "4"),
                         r"(?m)^slow: generic kernels took [\d.]+ % of the time$")
        passes = self.json("profile", "-m", model, "-n", "4", "--json")["passes"]
        generic = [k for k in passes[-1]["kernels"] if k["generic"]]
        self.assertEqual({k["name"].split("+")[0] for k in generic}, {"matmul_f32_f32"})
        self.assertAlmostEqual(passes[-1]["generic_share"], sum(k["time_share"] for k in generic))
        self.assertNotIn("slow:", self.text("profile", "-m", STORIES, "-n", "2"))

    def test_hash(self):
        content = self.read_bytes(STORIES)
        data = self.json("info", STORIES, "--hash", "--tensors", "--json")
        self.assertEqual(data["files"], [{"path": STORIES,
                                          "sha256": hashlib.sha256(content).hexdigest()}])
        # Tensors lie one after the other, each at a multiple of 32.
        tensors = data["tensor_list"]
        at = len(content) - sum((t["bytes"] + 31) // 32 * 32 for t in tensors)
        for t in tensors:
            self.assertEqual(t["sha256"], hashlib.sha256(content[at:at + t["bytes"]]).hexdigest(),
                             t["name"])
            at += (t["bytes"] + 31) // 32 * 32
        self.assertIn(data["files"][0]["sha256"] + "  " + STORIES, self.text("info", STORIES, "--hash"))
        self.fails(1, "info", TINY, "--hash", says=["unsupported"])

    def test_hash_of_every_length(self):
        # Around the ends of blocks; config.json is what makes it a folder of a model.
        folder = self.path("model")
        shutil.copytree(self.data("safetensors", "tiny_qwen3_sharded"), folder)
        for n in (0, 1, 55, 56, 57, 63, 64, 65, 119, 120, 127, 128, 1000, (1 << 20) + 3):
            self.write(f"model/z{n}", bytes(i * 7 % 251 for i in range(n)))
        data = self.json("info", folder, "--hash", "--json")
        self.assertEqual([os.path.basename(f["path"]) for f in data["files"]],
                         sorted(os.listdir(folder)))
        for file in data["files"]:
            content = self.read_bytes(file["path"])
            self.assertEqual(file["sha256"], hashlib.sha256(content).hexdigest(), file["path"])

    def test_diff(self):
        same = self.json("info", STORIES, "--diff", STORIES, "--json", "--exit-code")
        self.assertTrue(same["same"])
        self.assertEqual(same["tensors"]["changed"] + same["metadata"]["changed"], [])
        content = bytearray(self.read_bytes(STORIES))
        content[-100] ^= 1  # in the last tensor
        other = self.write("other.gguf", content.replace(b"general.name", b"general.nome"))
        data = self.json("info", STORIES, "--diff", other, "--json")
        last = self.json("info", STORIES, "--tensors", "--json")["tensor_list"][-1]["name"]
        self.assertFalse(data["same"])
        self.assertEqual([e["key"] for e in data["metadata"]["removed"]], ["general.name"])
        self.assertEqual([e["key"] for e in data["metadata"]["added"]], ["general.nome"])
        self.assertEqual([(c["before"]["name"], c["values_differ"]) for c in data["tensors"]["changed"]],
                         [(last, True)])
        text = self.text("info", STORIES, "--diff", other)
        for part in ("- general.name (", "+ general.nome (", f"~ {last}  ", ", other values\n"):
            self.assertIn(part, text)
        self.ok("info", STORIES, "--diff", other, "--exit-code", code=1)

    def test_diff_of_types(self):
        small = self.path("small.gguf")
        self.ok("quantize", STORIES, small, "q4_0")
        data = self.json("info", STORIES, "--diff", small, "--json")
        changed = {c["before"]["name"]: c for c in data["tensors"]["changed"]}
        self.assertEqual(changed["blk.0.attn_q.weight"]["before"]["type"], "q8_0")
        self.assertEqual(changed["blk.0.attn_q.weight"]["after"]["type"], "q4_0")
        self.assertFalse(changed["blk.0.attn_q.weight"]["values_differ"])
        self.assertNotIn("blk.0.attn_norm.weight", changed)
        self.assertIn("general.file_type",
                      [c["before"]["key"] for c in data["metadata"]["changed"]])
        self.assertIn("~ blk.0.attn_q.weight  q8_0 [384, 384] -> q4_0 [384, 384]\n",
                      self.text("info", STORIES, "--diff", small))

    def test_diff_of_folders(self):
        folder, again = self.path("a"), self.path("b")
        self.ok("convert", STORIES, folder, "--type", "f16")
        shutil.copytree(folder, again)
        self.assertTrue(self.json("info", folder, "--diff", again, "--json")["same"])
        config = os.path.join(again, "config.json")
        data = json.loads(self.read(config))
        data["rope_theta"] = 12345.0
        self.write(config, json.dumps(data))
        diff = self.json("info", folder, "--diff", again, "--json")
        self.assertEqual([c["before"]["key"] for c in diff["metadata"]["changed"]], ["rope_theta"])
        formats = self.json("info", folder, "--diff", STORIES, "--json")
        self.assertTrue(formats["formats_differ"] and not formats["same"])

    def test_wrong_usage(self):
        self.fails(1, "info", STORIES, "--diff", "/no/such.gguf", says=["/no/such.gguf"])
        self.fails(2, "info", STORIES, "--exit-code", says=["--diff"])
        self.fails(2, "info", STORIES, "--diff", STORIES, "--hash", says=["--diff"])


class OffsetsTest(CliCase):
    def check(self, text, *args, model=STORIES):
        data = self.json("tokenize", "-m", model, "--json", *args, stdin=text)
        self.assertEqual(len(data["offsets"]), len(data["ids"]))
        at = 0
        for piece, offset in zip(data["pieces"], data["offsets"]):
            self.assertIsNotNone(offset, (text, data))
            self.assertGreaterEqual(offset[0], at)
            at = offset[1]
            part = text[offset[0]:offset[1]]
            self.assertIn(part.decode("utf-8", "replace"), (piece, piece[1:]))
        self.assertEqual(at, len(text))
        return data

    def test_every_byte_has_its_token(self):
        for text in (b"", b"Once upon a time", b" a", b"  two  spaces ", b"one\ntwo\n\n", "grün ✓ 😀".encode(),
                     b"\xff\xfe raw \x80", b"\x00"):
            with self.subTest(text=text):
                data = self.check(text)
                self.assertEqual(" ".join(map(str, data["ids"])) + "\n",
                                 self.text("tokenize", "-m", STORIES, stdin=text))

    def test_special_tokens(self):
        text = b"<s>Once upon</s> a time"
        data = self.check(text, "--special")
        self.assertEqual(text[slice(*data["offsets"][0])], b"<s>")

    def test_vocabularies(self):
        names = ("llama-spm", "llama-bpe", "gpt-2", "deepseek-coder")
        if not TEST_DATA:
            self.skipTest("no vocab in ONEPASS_TEST_DATA")
        for name in names:
            path = os.path.join(TEST_DATA, "vocab", f"ggml-vocab-{name}.gguf")
            if os.path.exists(path):
                with self.subTest(name=name):
                    self.check("Hello, wörld! 3.14 is not pi  \n\tok?".encode(), model=path)

    def test_where_the_text_is_changed(self):
        path = self.data("tokenizers", "qwen3")
        self.check("caf\u00e9 noir".encode(), model=path)
        # Normalized to the text above.
        data = self.json("tokenize", "-m", path, "--json", stdin="caf\u0065\u0301 noir".encode())
        self.assertIsNone(data["offsets"][-1])

    def test_lines(self):
        data = self.json("tokenize", "--json", "Once upon a time")
        lines = self.text("tokenize", "--pieces", "Once upon a time").splitlines()
        for line, id, piece, (begin, end) in zip(lines, data["ids"], data["pieces"], data["offsets"],
                                                 strict=True):
            self.assertEqual(line, f"{id}\t{begin}-{end}\t{json.dumps(piece)}")


class DevicesTest(CliCase):
    def test_list(self):
        devices = {d["name"]: d for d in self.json("devices", "--json")}
        cpu = devices["cpu"]
        self.assertTrue(cpu["available"])
        self.assertEqual(cpu["reason"], "")
        self.assertGreater(cpu["memory_bytes"], cpu["free_bytes"])
        self.assertGreater(cpu["free_bytes"], 1 << 26)
        self.assertGreaterEqual(cpu["compute_units"], 1)
        self.assertTrue(cpu["kernels"])
        for d in devices.values():
            self.assertEqual(d["available"], d["reason"] == "", d)
        lines = [line.split("\t") for line in self.text("devices").splitlines()]
        self.assertEqual([line[0] for line in lines], list(devices))
        self.assertRegex(lines[0][3], r"^\d+ threads?, [0-9.]+ [GT]B memory, [0-9.]+ [MGT]B free, "
                                      r"kernels \w+ \(")
        self.assertEqual(self.text("devices", "--names").split(), list(devices))

    def test_by_a_part_of_the_description(self):
        cpu = self.json("devices", "--json")[0]["description"]
        for part in (cpu, cpu.swapcase(), cpu[1:-1]):
            text = self.ok("generate", "-v", "-n", "1", "--device", part).stderr.decode()
            self.assertRegex(text.splitlines()[0], r"^device: cpu \(.*chosen with --device$")
        self.fails(1, "generate", "-n", "1", "--device", "abacus", says=["no device 'abacus'"])


if __name__ == "__main__":
    main()
