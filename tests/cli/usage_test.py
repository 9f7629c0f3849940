"""usage_test.py PROGRAM SOURCE_DIR TEST_DATA [unittest arguments]: streams that are missing or full,
numbers out of range, options that do not go together, and messages that name what is wrong."""

import os
import subprocess
import unittest

from support import PROGRAM, STORIES, TINY, CliCase, clean_env, main


def in_shell(command):
    """The program is $0. Ends within seconds, whatever stream is missing."""
    return subprocess.run(["bash", "-c", command, PROGRAM], stdin=subprocess.DEVNULL,
                          capture_output=True, env=clean_env(), timeout=60, check=False)


class StreamsTest(CliCase):
    def all_fail(self, redirection, says, *commands):
        for command in commands:
            with self.subTest(command):
                result = in_shell(f'"$0" {command} {redirection}')
                self.assertEqual(result.returncode, 1)
                self.assertIn(says, result.stderr)

    def test_no_stdin(self):
        self.all_fail("<&-", b"Bad file descriptor", "tokenize", "detokenize", "generate -n 1 -p -")

    def test_no_stdout(self):
        self.all_fail(">&-", b"write to stdout", "generate -n 3 -p Once")

    def test_no_stderr(self):
        result = in_shell('"$0" generate -n 3 -p Once 2>&-')
        self.assertEqual(result.returncode, 0)
        self.assertGreater(len(result.stdout), 3)

    @unittest.skipUnless(os.path.exists("/dev/full"), "no /dev/full")
    def test_full_disk(self):
        self.all_fail(">/dev/full", b"No space left", "--help", "--version", "generate --help",
                      "bench -m synthetic:tiny:q8_0 -r 1 -n 2 --dispatch plan",
                      "bench -m synthetic:tiny:q8_0 -r 1 -n 2 --dispatch plan --json")

    def test_a_reader_that_leaves_is_no_error(self):
        result = in_shell('set -o pipefail; "$0" generate --help | head -1')
        self.assertEqual((result.returncode, result.stderr), (0, b""))


class UsageTest(CliCase):
    def test_threads(self):
        for args in (("generate", "-n", "1"), ("bench", "-m", TINY), ("quantize", STORIES, "x")):
            self.fails(2, *args, "-t", "100000", says=["--threads", "4096"])
        self.ok("generate", "-n", "2", "-t", "64")

    def test_numbers_that_are_too_large(self):
        self.fails(2, "generate", "-c", "99999999999", says=["-c", "99999999999", "too large"])
        self.fails(2, "generate", "-n", "x", says=["whole number of 0 or more"])

    def test_variables_are_named(self):
        self.fails(2, "info", env={"ONEPASS_JSON": "maybe"},
                   says=["ONEPASS_JSON=maybe", "expected 1, true, 0 or false"])
        self.fails(2, "generate", env={"ONEPASS_THREADS": "abc"}, says=["ONEPASS_THREADS=abc"])

    def test_variables_of_other_commands_do_no_harm(self):
        self.ok("bench", "-m", TINY, "-p", "1", "-n", "1", "-r", "1", env={"ONEPASS_WITH": "x"})
        for command in ("graph", "profile"):
            self.ok(command, "-m", TINY, env={"ONEPASS_CONTEXT": "auto"})
        table = self.text("bench", "-m", TINY, "-p", "1", "-n", "0", "-r", "1", "-o", "md",
                          env={"ONEPASS_JSON": "1"})
        self.assertTrue(table.startswith("|"), table)

    def test_the_command_line_wins_over_variables_that_do_not_go_with_it(self):
        both = {"ONEPASS_JSON": "1", "ONEPASS_JSONL": "1"}
        self.assertEqual(self.json("generate", "-n", "1", env=both)["stop"], "max_tokens")
        lines = self.text("generate", "-n", "1", "--jsonl", env=both).splitlines()
        self.assertGreater(len(lines), 2)
        tokens = {"ONEPASS_TOKENS": "1,2", "ONEPASS_JSON": "1"}
        self.assertEqual(self.json("generate", "-n", "1", env=tokens)["prompt_tokens"], 2)
        for prompt in (["-p", "Once"], ["-pOnce"], ["--prompt=Once"]):
            self.assertEqual(self.json("generate", "-n", "1", *prompt, env=tokens)["prompt"], "Once")

    def test_options_that_do_not_go_together(self):
        for args in (("bench", "--json", "-o", "md"), ("bench", "--with", "x"),
                     ("generate", "--json", "--jsonl"),
                     ("generate", "--chat", "-p", "a", "--show-prompt", "--json"),
                     ("help", "--search", "context", "--json"),
                     ("convert", STORIES, "x", "--group", "32"),
                     ("logits", "--tokens", "1", "--all"),
                     ("perplexity", "--kl", "x", "-c", "32")):
            with self.subTest(args):
                self.fails(2, *args, says=["--"])

    def test_nothing_to_do(self):
        self.fails(2, "bench", "--dispatch", "plan", "-n", "0", says=["--n-gen"])
        same = self.path("same")
        self.fails(2, "profile", "-m", TINY, "--html", same, "--trace", same, says=["same file"])
        self.assertFalse(os.path.exists(same))

    def test_a_dash_is_no_file(self):
        self.fails(2, "graph", "-m", TINY, "--dot", "-", says=["./-"], cwd=self.folder)
        self.assertEqual(os.listdir(self.folder), [])

    def test_sampling(self):
        text = self.fails(2, "generate", "--temp", "inf", says=["temperature is inf", "finite"])
        self.assertEqual(text.count("sampling:"), 1)

    def test_files_are_named(self):
        bad = self.write("bad.gguf", b"\xea\xea garbage")
        for args in (("info", bad), ("info", STORIES, "--diff", bad), ("generate", "-m", bad),
                     ("bench", "--compare", bad, "--with", bad)):
            with self.subTest(args):
                self.fails(1, *args, says=["bad.gguf"])
        missing = self.fails(1, "info", self.path("missing.gguf"), says=["missing.gguf"])
        self.assertEqual(missing.count("missing.gguf"), 1)

    def test_more_context_than_trained(self):
        says = "warning: the model was trained on 512 tokens"
        for args in (("generate", "-n", "1", "-c", "600"), ("profile", "-n", "1", "--prefill", "600"),
                     ("bench", "-p", "0", "-n", "1", "-d", "600", "-r", "1")):
            with self.subTest(args):
                self.assertIn(says, self.ok(*args).stderr.decode())

    def test_the_cache_that_is_told_is_the_one_that_is_made(self):
        for prompt in ("a", "Once upon a time there was", "日本語" * 40):
            result = self.ok("generate", "-n", "1", "-p", prompt, "--json")
            context = self.json("generate", "-q", "-n", "1", "-p", prompt, "--json")["context"]
            self.assertIn(f"cache for {context} tokens", result.stderr.decode())


if __name__ == "__main__":
    main()
