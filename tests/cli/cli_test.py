"""cli_test.py PROGRAM SOURCE_DIR TEST_DATA [unittest arguments]: the command-line tool as a user
meets it. TEST_DATA may be empty; what needs it is then skipped."""

import json
import os
import pty
import re
import signal
import subprocess
import sys
import time
import unittest

from support import SLOW, STORIES, TEST_DATA, TINY, CliCase, main, run, spawn


class GenerateTest(CliCase):
    def test_tells_a_story(self):
        text = self.text("generate", "-n", "40")
        self.assertGreater(len(text.split()), 15)
        self.assertTrue(text[0].isalpha() and text.endswith("\n"), text)
        self.assertNotIn("</s>", text)

    def test_says_the_device_and_the_figures(self):
        lines = self.ok("generate", "-n", "12", "-v", "-p", "Once upon a time").stderr.decode().splitlines()
        self.assertRegex(lines[0], r"^device: cpu \(.+ threads?\), .+--device")
        last = lines[-1]
        for pattern in (r"first token after [0-9.]+ s", r"prompt 5 tokens at [0-9]+ tok/s",
                        r"then 11 tokens at [0-9.]+ tok/s", r"peak memory [0-9.]+ [kMG]B",
                        r"[0-9.]+ GB/s \((\d\d? %|100 %|in cache,) (of|memory gives) [0-9.]+ GB/s\)",
                        r"[0-9]+ dispatches and [0-9]+ edges per token"):
            self.assertRegex(last, pattern)
        chosen = self.ok("generate", "-n", "1", "-v", "--device", "cpu", "-t", "1").stderr.decode()
        self.assertRegex(chosen.splitlines()[0], r"1 thread\), chosen with --device")
        usable = [d["name"] for d in self.json("devices", "--json") if d["available"]]
        usable.remove("null")  # taken only by its name
        found = self.ok("generate", "-v", "-n", "1", env={"ONEPASS_DEVICE": None}).stderr.decode()
        self.assertRegex(found, rf"(?m)^device: ({'|'.join(usable)}) \(.+ \d+ \w+\), "
                                r".+ \(--device to choose\)")

    def test_lower_cpu_paths_give_the_same_text(self):
        best = self.ok("generate", "-n", "12", "--temp", "0", "--device", "cpu")
        base = self.ok("generate", "-n", "12", "--temp", "0", "--device", "cpu",
                       "--cpu-features", "base")
        self.assertEqual(best.stdout, base.stdout)
        self.fails(2, "generate", "-n", "1", "--cpu-features", "fast", says=("--cpu-features",))

    def test_stdout_has_nothing_but_the_text(self):
        result = self.ok("generate", "-n", "20", "-p", "Tom had a")
        data = self.json("generate", "-n", "20", "-p", "Tom had a", "--json")
        self.assertEqual(result.stdout.decode(), data["text"] + "\n")
        self.assertNotIn(b"\r", result.stderr)  # no progress bar: stderr is no terminal

    def test_json(self):
        result = self.ok("generate", "-n", "9", "-p", "A \"cat\"", "--seed", "5", "--json")
        data = json.loads(result.stdout)
        self.assertEqual(result.stdout.count(b"\n"), 1)
        self.assertEqual(data["prompt"], "A \"cat\"")
        self.assertEqual(len(data["tokens"]), 9)
        self.assertEqual(data["sampling"]["seed"], 5)
        self.assertEqual(data["stop"], "max_tokens")
        for key in ("load_s", "first_token_s", "prompt_s", "decode_s", "prompt_tokens_per_s",
                    "decode_tokens_per_s"):
            self.assertGreater(data["timings"][key], 0.0)
        self.assertGreater(data["peak_memory_bytes"], 12_000_000)
        self.assertGreater(data["dispatches_per_token"], data["barriers_per_token"])
        self.assertEqual(data["levels_per_token"], data["barriers_per_token"] + 1)
        self.assertEqual(data["order"], "edges")
        self.assertGreaterEqual(data["edges_per_token"], data["dispatches_per_token"] - 1)
        text = self.text("detokenize", *data["tokens"])
        self.assertEqual(text.strip(), data["text"].strip())

    def test_equal_seeds_give_equal_texts(self):
        texts = {seed: self.ok("generate", "-n", "30", "--seed", seed).stdout for seed in (1, 2, 3)}
        self.assertEqual(len(set(texts.values())), 3)
        self.assertEqual(self.ok("generate", "-n", "30").stdout, texts[1])
        for more in (["-t", "1"], ["-c", "100"], ["-t", "3", "-c", "512"]):
            self.assertEqual(self.ok("generate", "-n", "30", "--seed", "2", *more).stdout, texts[2])
        self.ok("generate", "-n", "2", "--seed", "random")
        greedy = [self.ok("generate", "-n", "20", "--temp", "0", "--seed", s).stdout for s in (1, 2)]
        self.assertEqual(greedy[0], greedy[1])

    def test_sampling_options_matter(self):
        def text(*options):
            return self.ok("generate", "-n", "25", "-p", "Once", *options).stdout

        greedy = text("--temp", "0")
        self.assertEqual(text("--temp", "1.5", "--top-k", "1"), greedy)
        self.assertEqual(text("--temp", "1.5", "--top-k", "0", "--top-p", "0.0001"), greedy)
        self.assertEqual(text("--temp", "1.5", "--top-k", "0", "--min-p", "1"), greedy)
        self.assertNotEqual(text("--temp", "1.5", "--top-k", "0", "--top-p", "1", "--min-p", "0"),
                            greedy)

    def test_prompt_from_stdin(self):
        direct = self.ok("generate", "-n", "8", "-p", "Lily and Tom")
        piped = self.ok("generate", "-n", "8", "-p", "-", stdin=b"Lily and Tom")
        self.assertEqual(piped.stdout, direct.stdout)

    def test_tokens(self):
        ids = self.text("tokenize", "Once upon a time").split()
        fed = self.ok("generate", "-n", "8", "--tokens", "1," + ",".join(ids))
        self.assertEqual(fed.stdout, self.ok("generate", "-n", "8", "-p", "Once upon a time").stdout)
        bare = self.ok("generate", "-m", TINY, "-n", "5", "--tokens", "1,2,3")
        self.assertRegex(bare.stdout.decode(), r"^[0-9]+( [0-9]+){4}\n$")
        data = self.json("generate", "-m", TINY, "-n", "5", "--tokens", "1,2,3", "--json")
        self.assertEqual(" ".join(map(str, data["tokens"])) + "\n", bare.stdout.decode())
        self.assertIsNone(data["text"])
        self.fails(1, "generate", "-m", TINY, "-p", "Once", says=["tokenizer"])
        self.fails(1, "generate", "--tokens", "1,99999", says=["99999", "4096"])

    def test_special_tokens_in_the_prompt(self):
        def count(*args):
            return self.json("generate", "-n", "1", "--json", *args)["prompt_tokens"]

        plain = count("-p", "Once")
        self.assertEqual(count("-p", "</s>Once", "--special"), plain + 1)
        self.assertGreater(count("-p", "</s>Once"), plain + 1)
        self.assertEqual(count("-p", "<s>Once", "--special"), plain)  # one begin token is enough

    def test_context_limit(self):
        self.fails(1, "generate", "-c", "3", "-p", "Once upon a time", says=["5 tokens", "of 3"])
        result = self.ok("generate", "-c", "10", "-p", "Once upon a time", "-n", "100")
        self.assertGreater(len(result.stdout), 5)
        self.assertIn("the context of 10 tokens is full", result.stderr.decode())

    def test_nothing_to_generate(self):
        self.assertEqual(self.ok("generate", "-n", "0").stdout, b"\n")

    def test_wrong_usage(self):
        for args, says in (
                (["--temp", "-1"], ["temperature", "-1", "0 or more"]),
                (["--temp", "nan"], ["temperature"]),
                (["--temp", "hot"], ["--temp = hot", "expected a number"]),
                (["--top-p", "0"], ["top_p", "above 0"]),
                (["--top-p", "1.5"], ["top_p", "1.5"]),
                (["--min-p", "2"], ["min_p"]),
                (["--top-k", "-3"], ["--top-k"]),
                (["--seed", "abc"], ["--seed", "abc", "random"]),
                (["--seed", "-1"], ["--seed", "-1"]),
                (["-n", "many"], ["--predict = many", "expected a whole number"]),
                (["-c", "-5"], ["-c"]),
                (["--tokens", "1,x"], ["--tokens", "'x'"]),
                (["--tokens", "1", "-p", "a"], ["--prompt"]),
                (["--bogus"], ["--bogus"]),
                (["a", "b", "extra"], ["extra"])):
            with self.subTest(args=args):
                self.fails(2, "generate", *args, says=says)
        self.fails(2, says=["no command"])
        self.fails(2, "bogus", says=["'bogus'", "expected one of", "generate"])

    def test_errors(self):
        self.fails(1, "generate", "-m", "/no/such.gguf", says=["not_found", "/no/such.gguf"])
        self.fails(1, "generate", "-m", "synthetic:giant:q8_0", says=["giant"])
        self.fails(1, "generate", "--device", "abacus", says=["abacus"])
        bad = b"GGUF\3\0\0\0nonsense"
        self.fails(1, "generate", "-m", self.write("bad.gguf", bad),
                   says=["limit", "header.tensor_count", "byte 8"])
        bad += self.read_bytes(STORIES)[:100_000]
        self.fails(1, "generate", "-m", self.write("bad.gguf", bad))

    def test_built_in_model_elsewhere(self):
        env = {"ONEPASS_MODELS": self.folder}
        self.fails(1, "generate", env=env, says=[self.folder])
        os.symlink(STORIES, self.path(os.path.basename(STORIES)))
        self.ok("generate", "-n", "1", env=env)

    def test_interrupt_keeps_the_text(self):
        with spawn("generate", "-n", "50000", "-m", TINY, "-c", "50000", "--tokens", "1",
                   bufsize=0) as process:
            first = process.stdout.read(20)
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=SLOW)
        self.assertEqual(process.returncode, 130, err.decode())
        self.assertRegex((first + out).decode(), r"^[0-9]+( [0-9]+)*\n$")
        self.assertIn("edges per token", err.decode().splitlines()[-1])

    def test_interrupt_while_waiting_for_stdin(self):
        with spawn("generate", "-p", "-", stdin=subprocess.PIPE) as process:
            time.sleep(0.5)
            process.send_signal(signal.SIGINT)
            process.wait(timeout=SLOW)
            self.assertEqual(process.returncode, 130)

    def test_interrupted_json_is_whole(self):
        with spawn("generate", "-n", "60000", "-m", TINY, "-c", "60000", "--tokens", "1",
                   "--json") as process:
            self.assertIn(b"seed", process.stderr.readline())
            time.sleep(0.3)
            process.send_signal(signal.SIGINT)
            out, _ = process.communicate(timeout=SLOW)
        self.assertEqual(process.returncode, 130)
        self.assertEqual(json.loads(out)["stop"], "cancelled")

    def test_closed_pipe_ends_quietly(self):
        with spawn("generate", "-n", "8000", "-m", TINY, "-c", "8192", "--tokens",
                   "1") as process:
            process.stdout.read(5)
            process.stdout.close()
            err = process.stderr.read().decode()
            process.wait(timeout=SLOW)
        self.assertEqual(process.returncode, 0, err)
        self.assertNotIn("onepass:", err)

    @unittest.skipUnless(os.path.exists("/dev/full"), "no /dev/full")
    def test_full_disk_is_an_error(self):
        for args in (["generate", "-n", "3"], ["tokenize", "a"], ["info"], ["detokenize", "400"]):
            with self.subTest(args=args), open("/dev/full", "wb") as full:
                result = run(*args, stdout=full)
                self.assertEqual(result.returncode, 1)
                self.assertIn(b"No space left", result.stderr)

    def test_progress_on_a_terminal(self):
        reader, writer = pty.openpty()
        with spawn("generate", "-m", "synthetic:stories15m:f32", "-n", "1", "--tokens", "1,2",
                   stderr=writer) as process:
            os.close(writer)
            shown = b""
            try:
                while part := os.read(reader, 4096):
                    shown += part
            except OSError:  # how a terminal says that nobody writes any more
                pass
            self.assertRegex(process.stdout.read(), rb"^[0-9]+\n$")
        os.close(reader)
        self.assertEqual(process.returncode, 0)
        self.assertIn(b"\rloading", shown)
        self.assertRegex(shown.splitlines()[-1], rb"edges per token$")


class TokenizeTest(CliCase):
    def ids(self, *args, **more):
        line = self.text("tokenize", *args, **more)
        self.assertRegex(line, r"^([0-9]+( [0-9]+)*)?\n$")
        return [int(word) for word in line.split()]

    def test_adds_nothing(self):
        ids = self.ids("Once upon a time")
        self.assertEqual(len(ids), 4)
        self.assertNotIn(1, ids)
        self.assertEqual(self.ids("-", stdin=b"Once upon a time"), ids)
        self.assertEqual(self.ids(stdin=b"Once upon a time"), ids)
        self.assertEqual(self.ids(""), [])
        self.assertEqual(self.ids("-", stdin=b""), [])
        self.assertNotEqual(self.ids("-", stdin=b"Once upon a time\n"), ids)

    def test_special_tokens_only_when_asked(self):
        self.assertGreater(len(self.ids("</s>")), 1)
        self.assertEqual(self.ids("--special", "</s>"), [2])
        self.assertEqual(self.ok("detokenize", "2").stdout, b"")
        self.assertEqual(self.ok("detokenize", "--special", "2").stdout, b"</s>")

    def test_every_byte_comes_back(self):
        texts = [b"", b" ", b"  two  spaces ", b"line\nline\r\n", "Grüße, 世界 🙂".encode(),
                 bytes(range(1, 256)), b"\0zero", b"tab\tend"]
        for text in texts:
            with self.subTest(text=text):
                line = self.ok("tokenize", stdin=text).stdout
                self.assertEqual(self.ok("detokenize", stdin=line).stdout, text)

    def test_forms_of_ids(self):
        expected = self.ok("detokenize", "389", "388").stdout
        self.assertEqual(expected, b"Once upon")
        for args in (["389,388"], ["389, 388"], ["389 388"]):
            self.assertEqual(self.ok("detokenize", *args).stdout, expected)
        self.assertEqual(self.ok("detokenize", "-", stdin=b"389\n388\n").stdout, expected)

    def test_json(self):
        data = self.json("tokenize", "--json", "Hi there")
        self.assertEqual(len(data["ids"]), len(data["pieces"]))
        self.assertEqual("".join(data["pieces"]).strip(), "Hi there")
        text = self.json("detokenize", "--json", *data["ids"])["text"]
        self.assertEqual(text, "Hi there")

    def test_errors(self):
        self.fails(2, "detokenize", "12", "x9", says=["'x9'", "expected"])
        self.fails(2, "detokenize", "4294967296", says=["4294967296"])
        self.fails(1, "detokenize", "4096", says=["4096"])
        self.fails(1, "tokenize", "-m", "/no/such.gguf", "a", says=["/no/such.gguf"])
        self.fails(1, "tokenize", "-m", TINY, "a", says=["tokenizer"])

    def test_published_vocabularies(self):
        folder = os.path.join(TEST_DATA, "vocab")
        names = sorted(n for n in os.listdir(folder) if n.endswith(".gguf")) if TEST_DATA else []
        if not names:
            self.skipTest("no vocab in ONEPASS_TEST_DATA")
        cases = 0
        for name in names:
            path = os.path.join(folder, name)
            texts = self.read_bytes(path + ".inp").split(b"\n__ggml_vocab_test__\n")
            lines = self.read(path + ".out").splitlines()
            # One process for each case takes long under a sanitizer: every sixth case, others in turn.
            for i in range(len(name) % 6, len(lines), 6):
                with self.subTest(name=name, case=i):
                    ids = self.ids("-m", path, stdin=texts[i])
                    self.assertEqual(ids, [int(word) for word in lines[i].split()])
                    cases += 1
        self.assertGreaterEqual(cases, 25)
        print(f"{cases} cases of {len(names)} vocabularies", file=sys.stderr)


class InfoTest(CliCase):
    def test_built_in_model(self):
        text = self.text("info")
        for part in ("stories-12m-q8_0.gguf (GGUF v3)", "llama, can be run", "11803008", "q8_0",
                     "8 layers, width 384", "512 tokens", "4096 tokens", "llama.block_count (u32) = 8"):
            self.assertIn(part, text)
        self.assertLess(max(map(len, text.splitlines())), 300)

    def test_json(self):
        data = self.json("info", STORIES, "--json")
        self.assertTrue(data["runs"])
        self.assertEqual(data["architecture"], "llama")
        self.assertEqual(data["parameters"], 11803008)
        self.assertEqual(data["parameters"], sum(t["elements"] for t in data["types"].values()))
        self.assertEqual(data["bytes"], sum(t["bytes"] for t in data["types"].values()))
        self.assertEqual((data["context"], data["vocabulary"]), (512, 4096))
        self.assertTrue(data["tokenizer_works"])
        self.assertIn("general.architecture", [entry["key"] for entry in data["metadata"]])

    def test_synthetic(self):
        data = self.json("info", "synthetic:llama1b:q4_0", "--json")
        self.assertEqual((data["layers"], data["dim"]), (16, 2048))
        self.assertTrue(1.2e9 < data["parameters"] < 1.6e9, data["parameters"])
        self.assertIn("q4_0", data["types"])

    def test_architecture_that_cannot_be_run(self):
        model = self.write("other.gguf", self.read_bytes(STORIES).replace(b"llama", b"gizmo"))
        text = self.text("info", model)
        self.assertIn("gizmo, cannot be run: ", text)
        data = self.json("info", model, "--json")
        self.assertFalse(data["runs"])
        self.assertEqual(data["context"], 512)
        self.fails(1, "generate", "-m", model, says=["gizmo"])

    def test_vocabulary_only(self):
        text = self.text("info", self.data("vocab", "ggml-vocab-llama-bpe.gguf"))
        self.assertIn("vocabulary only", text)
        self.assertIn("128256 tokens", text)

    def test_folder(self):
        path = self.data("safetensors", "tiny_qwen3_sharded")
        data = self.json("info", path, "--json")
        self.assertEqual((data["architecture"], data["shards"]), ("qwen3", 2))
        self.assertTrue(data["runs"])
        self.assertIsNone(data["tokenizer"])
        layer = (64 * 64 * 2 + 2 * 32 * 64 + 3 * 64 * 128  # q and o, k and v, feed-forward
                 + 2 * 64 + 2 * 16)  # norms
        self.assertEqual(data["parameters"], 2 * 256 * 64 + 2 * layer + 64)
        self.assertTrue(any(name.startswith("affine") for name in data["types"]), data["types"])

    def test_reads_no_tensor(self):
        # A model with a hole behind it: reading all of it would take minutes.
        model = self.write("model.gguf", self.read_bytes(STORIES))
        os.truncate(model, 1 << 36)
        started = time.monotonic()
        self.ok("info", model)
        self.assertLess(time.monotonic() - started, 30)

    def test_errors(self):
        self.fails(1, "info", "/no/such.gguf", says=["not_found", "/no/such.gguf"])
        self.fails(1, "info", "/", says=["config.json"])
        self.fails(1, "info", self.write("empty", b""), says=["parse"])


class HelpTest(CliCase):
    def test_every_command_shows_an_example(self):
        text = self.text("--help")
        for command in ("chat", "convert", "detokenize", "generate", "info", "quantize", "tokenize"):
            self.assertRegex(text, rf"(?m)^  {command} ")
            own = self.text(command, "--help")
            self.assertRegex(own, rf"Examples?:(.|\n)*onepass {command}")

    def test_version(self):
        self.assertTrue(re.fullmatch(r"\d+\.\d+\.\d+\n", self.text("--version")))


if __name__ == "__main__":
    main()
