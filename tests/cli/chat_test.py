"""chat_test.py PROGRAM SOURCE_DIR TEST_DATA [unittest arguments]: conversations as a user has them.
TEST_DATA may be empty; what needs it is then skipped."""

import os
import re
import shlex
import signal
import subprocess
import unittest

from support import PROGRAM, SLOW, SOURCE_DIR, TEST_DATA, TINY, CliCase, clean_env, main, spawn

TEMPLATES = os.path.join(SOURCE_DIR, "tests", "text", "chat_templates")
MINIMIND = os.path.join(TEST_DATA, "gguf", "minimind2-small-q4_k_m.gguf") if TEST_DATA else ""
# Makes the story model one for chats.
PLAIN = ("{{ bos_token }}{% for m in messages %}{% if m.role == 'assistant' %}{{ ' ' + m.content + "
         "'\\n' }}{% elif m.role == 'system' %}{{ m.content + ' ' }}{% else %}{{ m.content }}"
         "{% endif %}{% endfor %}")
STATS = re.compile(r"^\[(\d+) tokens at [0-9.]+ tok/s, first after [0-9.]+ s; prompt (\d+) tokens, "
                   r"(\d+) of them from the cache; context (\d+) of (\d+)\]$", re.MULTILINE)


class ChatCase(CliCase):
    def setUp(self):
        super().setUp()
        self.plain = self.write("plain.jinja", PLAIN)


class GenerateChatTest(ChatCase):
    def test_prompt_with_its_template(self):
        path = os.path.join(TEMPLATES, "chatml.jinja")
        shown = self.text("generate", "--chat", "--template", path, "--system", "Be brief.", "-p",
                          "Hi", "--show-prompt")
        self.assertEqual(shown, "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>"
                         "user\nHi<|im_end|>\n<|im_start|>assistant\n")
        shown = self.text("generate", "--chat", "--template", self.plain, "-p", "-",
                          "--show-prompt", stdin="Grüße".encode())
        self.assertEqual(shown, "<s>Grüße")

    def test_generates_from_it(self):
        args = ["-n", "12", "--temp", "0", "--json"]
        plain = self.json("generate", "-p", "Once upon a time", *args)
        chat = self.json("generate", "--chat", "--template", self.plain, "-p", "Once upon a time",
                         *args)
        self.assertEqual(chat["tokens"], plain["tokens"])  # one begin token, not two
        self.assertEqual(chat["prompt_tokens"], plain["prompt_tokens"])

    def test_variables(self):
        template = self.write("v.jinja", "{{ [a, b, c, d] | tojson }}")
        shown = self.json("generate", "--chat", "--template", template, "-p", "x", "--show-prompt",
                          "--template-var", "a=false", "--template-var", "b=[1, 2.5]",
                          "--template-var", "c=plain text", "--template-var", "d=x=y")
        self.assertEqual(shown, [False, [1, 2.5], "plain text", "x=y"])

    def test_variables_replace_what_templates_are_given(self):
        template = self.write("v.jinja", "{{ [tools, bos_token, messages | length] | tojson }}")
        shown = self.json("generate", "--chat", "--template", template, "-p", "x", "--show-prompt",
                          "--template-var", "tools=[1]", "--template-var", "bos_token=X")
        self.assertEqual(shown, [[1], "X", 1])

    def test_errors(self):
        # The model in the box only continues texts.
        for command in (["generate", "--chat", "-p", "Hi"], ["chat"],
                        ["generate", "--chat", "-p", "Hi", "--show-prompt"]):
            self.fails(1, *command, says=["has no chat template", "--template FILE",
                                          "onepass generate"])
        bad = self.write("bad.jinja", "{% for m in messages %}\n{{ m | frobnicate }}{% endfor %}")
        self.fails(1, "generate", "--chat", "-p", "Hi", "--template", bad,
                   says=["line 2, column 8", "filter 'frobnicate' is not supported"])
        refuses = self.write("refuses.jinja", "{{ raise_exception('no system message, please') }}")
        self.fails(1, "generate", "--chat", "-p", "Hi", "--template", refuses,
                   says=["no system message, please"])
        self.fails(1, "generate", "--chat", "-p", "Hi", "--template", "/no/such.jinja",
                   says=["/no/such.jinja"])
        self.fails(1, "chat", "-m", TINY, says=["no chat template"])

    def test_wrong_usage(self):
        self.fails(2, "generate", "--chat", says=["--chat", "-p"])
        self.fails(2, "generate", "-p", "x", "--system", "y", says=["--chat"])
        self.fails(2, "generate", "--chat", "--tokens", "1", says=["--tokens"])
        self.fails(2, "generate", "--chat", "-p", "x", "--template", self.plain, "--show-prompt",
                   "--template-var", "novalue", says=["novalue", "NAME=VALUE"])


class ChatTest(ChatCase):
    def test_one_message_per_line(self):
        args = ["chat", "--template", self.plain, "-n", "10", "--temp", "0", "--stats"]
        result = self.ok(*args, stdin=b"Once upon a time\n\n  \nTom had a ball.\r\nThe end")
        answers = result.stdout.decode().splitlines()
        self.assertEqual(len(answers), 3, answers)
        turns = [tuple(map(int, m.groups())) for m in STATS.finditer(result.stderr.decode())]
        self.assertEqual(len(turns), 3, result.stderr.decode())
        self.assertEqual(turns[0][2], 0)
        for before, turn in zip(turns, turns[1:]):
            self.assertGreaterEqual(turn[2], before[1])  # at least the prompt is in the cache
            self.assertGreater(turn[1], turn[2])
        first = self.ok("generate", "-p", "Once upon a time", "-n", "10", "--temp", "0")
        self.assertEqual(answers[0], first.stdout.decode().strip("\n").lstrip())

    def test_shows_prompts(self):
        result = self.ok("chat", "--template", self.plain, "-n", "3", "--temp", "0", "--system",
                         "A story.", "--show-prompt", stdin=b"One\nTwo\n")
        first, second = result.stdout.decode().splitlines()
        shown = result.stderr.decode()
        self.assertIn("<s>A story. One\n", shown)
        self.assertIn(f"<s>A story. One {first}\nTwo\n", shown)
        self.assertNotIn("<s>", first + second)

    def test_lines_that_look_like_commands_are_messages(self):
        result = self.ok("chat", "--template", self.plain, "-n", "2", "--stats", stdin=b"/quit\n/help\n")
        self.assertEqual(len(STATS.findall(result.stderr.decode())), 2)

    def test_nothing_to_say(self):
        self.assertEqual(self.ok("chat", "--template", self.plain, stdin=b"").stdout, b"")

    def test_full_context(self):
        lines = b"Once upon a time there was a girl.\n" * 12
        result = self.ok("chat", "--template", self.plain, "-c", "64", "-n", "8", stdin=lines,
                         code=1)
        self.assertIn("the context holds 64", result.stderr.decode())
        self.assertGreater(result.stdout.count(b"\n"), 1)

    def test_two_hundred_turns_in_a_full_context(self):
        """Each answer is that of a fresh run of what was kept."""
        plain = self.write("lines.jinja", PLAIN.replace("m.content + '\\n'", "m.content + '|'"))
        lines = "".join(f"Then girl number {i} came.\n" for i in range(200))
        for policy in ("drop", "restart"):
            result = self.ok("chat", "--template", plain, "-c", "96", "-n", "8", "--temp", "0",
                             "--system", "A story.", "--stop", "\n", "--stop", "|", "--show-prompt",
                             "--when-full", policy, stdin=lines.encode())
            answers = result.stdout.decode().splitlines()
            told = result.stderr.decode()
            prompts = re.findall(r"^<s>(.*)$", told, re.MULTILINE)
            self.assertEqual((len(answers), len(prompts)), (200, 200))
            self.assertGreater(told.count("oldest messages are forgotten"), 10)
            for i in range(0, 200, 10):
                self.assertTrue(prompts[i].startswith("A story. "), prompts[i])
                fresh = self.text("generate", "--special", "-p", "<s>" + prompts[i], "-n", "8",
                                  "--temp", "0", "-c", "96", "--stop", "\n", "--stop", "|")
                self.assertEqual(fresh.strip(), answers[i].strip(), (policy, i))

    def test_seeds_are_random_and_told(self):
        seeds = set()
        for _ in range(3):
            text = self.ok("chat", "--template", self.plain, "-n", "1", stdin=b"Hi\n").stderr.decode()
            seeds.add(re.search(r"; seed (\d+)$", text, re.MULTILINE).group(1))
        self.assertEqual(len(seeds), 3)
        args = ("chat", "--template", self.plain, "-n", "20", "--temp", "1")
        first = self.ok(*args, stdin=b"Once\n")
        seed = re.search(r"; seed (\d+)$", first.stderr.decode(), re.MULTILINE).group(1)
        again = self.ok(*args, "--seed", seed, stdin=b"Once\n")
        self.assertEqual(first.stdout, again.stdout)

    def test_stops_before_a_text(self):
        args = ("chat", "--template", self.plain, "-n", "30", "--temp", "0")
        whole = self.text(*args, stdin=b"Once upon a time\n")
        cut = self.text(*args, "--stop", whole[5:9], stdin=b"Once upon a time\n")
        self.assertEqual(cut, whole[:whole.index(whole[5:9])] + "\n")

    def test_interrupt_keeps_the_text(self):
        with spawn("chat", "--template", self.plain, "-n", "100000", stdin=subprocess.PIPE,
                   bufsize=0) as process:
            process.stdin.write(b"Once upon a time\nnever asked\n")
            process.stdin.flush()
            first = process.stdout.read(1)
            process.send_signal(signal.SIGINT)
            process.stdin.close()
            process.stdin = None
            out, err = process.communicate(timeout=SLOW)
        # A short story may have ended before the signal came.
        self.assertIn(process.returncode, (0, 130), err.decode())
        self.assertTrue((first + out).endswith(b"\n"))

    def test_help_has_examples(self):
        text = self.text("chat", "--help")
        self.assertIn("/help", text)
        examples = re.findall(r"^  (.*onepass chat .*)$", text, re.MULTILINE)
        self.assertEqual(len(examples), 2)
        for example in examples:
            command = re.sub(r"(-m )?model\.gguf", "--template " + shlex.quote(self.plain) + " -n 2", example)
            command = command.replace("onepass chat", shlex.quote(PROGRAM) + " chat")
            result = subprocess.run(command, shell=True, stdin=subprocess.DEVNULL, timeout=SLOW,
                                    env=clean_env(), capture_output=True, check=False)
            self.assertEqual(result.returncode, 0, result.stderr.decode())

    @unittest.skipUnless(os.path.exists(MINIMIND), "no minimind in ONEPASS_TEST_DATA")
    def test_a_model_for_chats(self):
        shown = self.text("generate", "--chat", "-m", MINIMIND, "-p", "Hi", "--show-prompt")
        self.assertIn("<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant", shown)
        result = self.ok("chat", "-m", MINIMIND, "-n", "24", "--temp", "0", "--stats",
                         stdin="Hello, who are you?\nAnd what can you do?\n".encode())
        answers = result.stdout.decode()
        self.assertGreater(len(answers.split()), 4)
        self.assertNotIn("<|im_", answers)
        turns = [tuple(map(int, m.groups())) for m in STATS.finditer(result.stderr.decode())]
        self.assertEqual(len(turns), 2)
        self.assertGreaterEqual(turns[1][2], turns[0][1])


if __name__ == "__main__":
    main()
