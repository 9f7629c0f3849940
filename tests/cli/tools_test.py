"""tools_test.py PROGRAM SOURCE_DIR TEST_DATA [unittest arguments]: what helps people to find their
way: help, examples, suggestions, sizes, environment variables, the memory estimate, doctor,
completion scripts and manual pages. Commands are taken from the program, so that new ones are
tested too."""

import json
import os
import re
import shlex
import shutil
import subprocess

from support import PROGRAM, SLOW, STORIES, TINY, CliCase, clean_env, main, run

# Makes the story model one for chats.
PLAIN = "{{ bos_token }}{% for m in messages %}{{ m.content + ' ' }}{% endfor %}"


def commands(top=None):
    """Every command of the program as `help --json` tells it, those below others included."""
    top = top or json.loads(run("help", "--json").stdout)
    found = []
    for command in top["commands"]:
        found += [command, *commands(command)] if command["commands"] else [command]
    return found


class ExampleCase(CliCase):
    """Runs the examples of some of the commands, in a folder with the files they name."""

    def setUp(self):
        super().setUp()
        for name in ("model.gguf", "model-f16.gguf"):
            shutil.copy(STORIES, self.path(name))
        self.write("text.txt",
                   "Once upon a time there was a little girl. She had a red ball. " * 60)
        self.write("prompt.txt", "Once upon a time")
        self.write("plain.jinja", PLAIN)
        os.mkdir(self.path("bin"))
        os.symlink(PROGRAM, self.path("bin", "onepass"))

    def shell(self, example):
        line = re.sub(r"synthetic:[a-z0-9.-]+:", "synthetic:tiny:", example)
        line = re.sub(r" -r \d+", " -r 1", line)
        # The story model has no chat template of its own.
        if "chat" in line:
            line = re.sub(r"(-m )?model\.gguf", r"\g<0> --template plain.jinja", line)
        env = clean_env({"ONEPASS_PREDICT": "4", "ONEPASS_REPETITIONS": "1",
                         "PATH": self.path("bin") + ":" + os.environ["PATH"]})
        return subprocess.run(["bash", "-o", "pipefail", "-c", line], cwd=self.folder, env=env,
                              stdin=subprocess.DEVNULL, capture_output=True, timeout=SLOW,
                              check=False)

    def run_examples(self, part, parts):
        # By words, so that commands below one share its part.
        names = sorted({c["command"].split()[1] for c in commands()})[part::parts]
        todo = [(c["command"], e) for c in commands() for e in c["examples"]
                if c["command"].split()[1] in names]
        # An example may need what another one makes.
        for _ in range(2):
            failed = []
            for command, example in todo:
                result = self.shell(example)
                # SIGPIPE of a reader that had enough is none of ours, nor a machine that became slower.
                slower = "--compare" in example and b"slower than before" in result.stderr
                if result.returncode not in (0, 141) and not slower:
                    failed.append((command, example, result.stderr.decode()))
            todo = [(command, example) for command, example, _ in failed]
        self.assertEqual(failed, [])


class FirstExamplesTest(ExampleCase):
    def test_run(self):
        self.run_examples(0, 3)


class SecondExamplesTest(ExampleCase):
    def test_run(self):
        self.run_examples(1, 3)


class ThirdExamplesTest(ExampleCase):
    def test_run(self):
        self.run_examples(2, 3)


class HelpTest(CliCase):
    def test_every_command_has_help_with_an_example(self):
        found = commands()
        self.assertGreater(len(found), 12)
        for command in found:
            with self.subTest(command=command["command"]):
                words = command["command"].split()[1:]
                text = self.text(*words, "--help")
                self.assertRegex(text, rf"(?m)^Examples?:\n  .*onepass {words[0]}")
                self.assertIn("Usage: " + command["command"], text)
                self.assertTrue(command["help"])
                for option in command["options"]:
                    self.assertTrue(any(name in text for name in option["names"]), option)
                self.assertEqual(self.text("help", *words), text)

    def test_top_is_grouped(self):
        text = self.text("--help")
        for part in ("\nText:\n", "\nModels:\n", "\nThis machine:\n", "\nExamples:\n"):
            self.assertIn(part, text)
        for command in self.json("help", "--json")["commands"]:
            self.assertRegex(text, rf"(?m)^  {command['command'].split()[1]} ")
        self.assertEqual(self.text("help"), text)
        self.assertLessEqual(max(map(len, text.splitlines())), 100)

    def test_options_are_grouped(self):
        text = self.text("generate", "--help")
        places = [text.index(part) for part in ("\nOptions:\n", "--predict N", "\nModel and device:\n",
                                                "--device DEVICE", "\nChat:\n", "--system",
                                                "\nSampling:\n", "--temp X")]
        self.assertEqual(len(places), len(set(places)))
        self.assertIn("(default: 256)", text)

    def test_values_are_what_the_option_takes(self):
        values = {(c["command"], o["names"][-1]): o["value"] for c in commands() for o in c["options"]}
        for command, option, value in (("profile", "--trace", "FILE"), ("graph", "--svg", "FILE"),
                                       ("plan diff", "after", "FILE"), ("bench", "--compare", "FILE"),
                                       ("convert", "--type", "TEXT"), ("man", "folder", "FOLDER"),
                                       ("info", "--model", "MODEL"), ("help", "command", "COMMAND"),
                                       ("chat", "--device", "DEVICE"), ("generate", "--seed", "TEXT"),
                                       ("generate", "--predict", "N"), ("generate", "--temp", "X")):
            self.assertEqual(values["onepass " + command, option], value, (command, option))

    def test_search(self):
        text = self.text("help", "--search", "CONTEXT")
        self.assertIn("onepass generate -c, --context N\n", text)
        self.assertIn("onepass perplexity -c, --context N\n", text)
        self.assertNotIn("--min-p", text)
        self.assertIn("--top-k", self.text("help", "--search", "ONEPASS_TOP_K"))
        self.fails(1, "help", "--search", "zebra", says=["'zebra'"])

    def test_unknown(self):
        self.fails(2, "help", "generat", says=["did you mean 'generate'"])


class SuggestTest(CliCase):
    def test_commands(self):
        for word, meant in (("generat", "generate"), ("genreate", "generate"), ("doktor", "doctor"),
                            ("benhc", "bench"), ("Info", "info"), ("perp", "perplexity")):
            self.fails(2, word, says=[f"unknown command '{word}'", f"did you mean '{meant}'?"])
        self.assertNotIn("did you mean", self.fails(2, "xylophone"))

    def test_options(self):
        for args, meant in ((["generate", "--tmep", "0"], "--temp"),
                            (["generate", "--top_k=3"], "--top-k"),
                            (["generate", "-seed", "3"], "--seed"),
                            (["logits", "--token", "1"], "--tokens"),  # one that is required
                            (["info", "--jsno"], "--json"),
                            (["--versoin"], "--version")):
            with self.subTest(args=args):
                self.fails(2, *args, says=[f"did you mean '{meant}'?"])
        self.assertNotIn("did you mean", self.fails(2, "info", "--xylophone"))

    def test_devices(self):
        self.fails(1, "generate", "-n", "1", "--device", "cpuu", says=["did you mean 'cpu'?"])
        self.fails(1, "generate", "-n", "1", "--device", "nul", says=["did you mean 'null'?"])

    def test_synthetic_models(self):
        for command in (["generate", "--tokens", "1"], ["info"], ["bench"]):
            self.fails(1, *command, "-m", "synthetic:lama1b:q4_0",
                       says=["did you mean 'synthetic:llama1b:q4_0'?"])
        self.fails(1, "info", "-m", "synthetic:tiny:q8-0", says=["'synthetic:tiny:q8_0'"])


class SizesTest(CliCase):
    def context(self, text):
        args = ("generate", "-m", TINY, "--tokens", "1", "-n", "1", "--json", "-c")
        return self.json(*args, text)["context"]

    def test_sizes(self):
        for text, tokens in (("1k", 1024), ("1K", 1024), ("1.5k", 1536), ("0.25k", 256),
                             ("2KiB", 2048), ("512", 512), ("0.001953125M", 2048)):
            with self.subTest(text=text):
                self.assertEqual(self.context(text), tokens)

    def test_in_lists(self):
        rows = self.json("bench", "-m", TINY, "-p", "0.125k,64", "-n", "0", "-r", "1", "--json")
        self.assertEqual([row["n_prompt"] for row in rows], [128, 64])

    def test_refused(self):
        for text in ("1.3k", "k", "1kk", "-1k", "1e3k", "99999999T", "1.5.5k"):
            with self.subTest(text=text):
                self.fails(2, "generate", "-n", text, says=["--predict"])
        self.fails(2, "generate", "-n", "1.3k", says=["no whole number"])
        self.fails(2, "generate", "-n", "many", says=["as 4096 or 32k"])
        self.fails(2, "bench", "-p", "1T")  # above what the option allows


class EnvTest(CliCase):
    def test_lists_every_variable(self):
        listed = {v["name"]: v for v in self.json("env", "--json")["variables"]}
        for command in commands():
            for option in command["options"]:
                if option["variable"]:
                    self.assertIn(option["variable"], listed)
        self.assertIn("generate --top-k", listed["ONEPASS_TOP_K"]["used_by"])
        self.assertIn("ONEPASS_MODELS", listed)
        self.assertIsNone(listed["ONEPASS_TOP_K"]["value"])
        self.assertNotIn("ONEPASS_HELP", listed)
        text = self.text("env", env={"ONEPASS_SEED": "5"})
        self.assertRegex(text, r"(?m)^ONEPASS_SEED += 5 ")
        only = self.text("env", "--set", env={"ONEPASS_SEED": "5", "ONEPASS_DEVICE": None})
        self.assertEqual(len(only.splitlines()), 1)

    def test_variables_set_options(self):
        def text(env, *args):
            return self.text("generate", "-n", "12", *args, env=env)

        self.assertEqual(text({"ONEPASS_SEED": "7"}), text({}, "--seed", "7"))
        self.assertNotEqual(text({"ONEPASS_SEED": "7"}), text({}))
        # The command line comes first, and an empty variable is none.
        self.assertEqual(text({"ONEPASS_SEED": "7"}, "--seed", "1"), text({}))
        self.assertEqual(text({"ONEPASS_SEED": ""}), text({}))
        self.fails(1, "generate", env={"ONEPASS_DEVICE": "abacus"}, says=["no device 'abacus'"])
        self.assertEqual(json.loads(text({"ONEPASS_JSON": "1"}))["stop"], "max_tokens")
        data = self.json("generate", "--tokens", "1", "-n", "1", "--json",
                         env={"ONEPASS_MODEL": TINY, "ONEPASS_CONTEXT": "1k"})
        self.assertEqual(data["context"], 1024)

    def test_wrong_values(self):
        self.fails(2, "generate", env={"ONEPASS_TEMP": "hot"}, says=["hot"])
        # Of another command: no harm.
        self.ok("devices", env={"ONEPASS_TEMP": "hot", "ONEPASS_POLICY": "none"})
        # A variable of an option that needs another does not exist.
        self.ok("generate", "-n", "1", env={"ONEPASS_SYSTEM": "x"})

    def test_unknown_ones_warn(self):
        for command in (["devices"], ["env"], ["generate", "-n", "1"], ["--version"]):
            with self.subTest(command=command):
                text = self.ok(*command, env={"ONEPASS_DEVCE": "cpu"}).stderr.decode()
                self.assertIn("unknown environment variable ONEPASS_DEVCE; did you mean "
                              "'ONEPASS_DEVICE'?", text)
        for env in ({"ONEPASS_DEVICE": None}, {"ONEPASS_FULL": "1"}, {"ONEPASS_DEVICE": "cpu"},
                    {"ONEPAS_X": "1"}):
            self.assertNotIn("unknown environment", self.ok("devices", env=env).stderr.decode())


class MemoryTest(CliCase):
    HUGE = ("-m", "synthetic:smollm135m:q4_0", "--tokens", "1", "-n", "1", "-c", "64M")

    def test_told_before_loading(self):
        text = self.ok("generate", "-n", "1", "-c", "1k", "-v").stderr.decode()
        self.assertRegex(text, r"(?m)^memory: [0-9.]+ MB weights, [0-9.]+ MB cache for 1024 tokens, "
                               r"[0-9.]+ MB scratch; [0-9.]+ [GT]B available$")

    def test_cache_is_counted_right(self):
        # 4 layers, keys and values, 4 heads of 32, in f16: 2 KiB a token.
        def cache(*args):
            text = self.ok("logits", "-m", TINY, "--tokens",
                           ",".join(["1"] * 1000), *args).stderr.decode()
            return re.search(r"([0-9.]+ [kM]B) cache for 1000 tokens", text).group(1)

        self.assertEqual(cache(), "2.0 MB")
        self.assertEqual(cache("--kv", "f32"), "4.1 MB")

    def test_refused_in_numbers(self):
        # 23 kB a token: 1.5 TB. Nobody waits for the weights.
        text = self.fails(1, "generate", *self.HUGE, says=[
            "out_of_memory", "weights", "cache for 67108864 tokens", "scratch", "available on cpu",
            "--force"])
        fits = int(re.search(r"a context of (\d+) tokens fits: -c (\d+)", text).group(1))
        self.assertEqual(fits % 256, 0)
        self.assertGreater(fits, 0)
        self.assertLess(fits, 67108864)

    def test_force(self):
        text = run("generate", *self.HUGE, "--force", "-v").stderr.decode()
        self.assertNotIn("--force tries anyway", text)
        self.assertIn("memory: ", text)


class DoctorTest(CliCase):
    def test_block(self):
        text = self.text("doctor", env={"ONEPASS_SEED": "3", "ONEPASS_TYPO": "x"})
        for pattern in (r"^onepass +\d+\.\d+\.\d+, commit \S+$", r"^build +\S+.*(g\+\+|clang) \d+",
                        r"^system +.*\S", r"^cpu +.+, \d+ of \d+ cores usable$", r"^cpu has ",
                        r"^cpu kernels +(avx512|avx2|neon|base) ",
                        r"^memory +[0-9.]+ [GT]B, [0-9.]+ [MGT]B available$",
                        r"^memory read +([0-9.]+ GB/s with \d+ threads|not measured)",
                        r"^device +cpu: .", r"^device +null: ",
                        r"^environment +ONEPASS_SEED=3$", r"^environment +ONEPASS_TYPO=x \(unknown\)$"):
            self.assertRegex(text, "(?m)" + pattern)
        rate = re.search(r"(?m)^memory read +([0-9.]+) GB/s", text)
        if rate:
            self.assertGreater(float(rate.group(1)), 0.1)

    def test_one_ruler(self):
        """Every command that tells how fast memory is tells the same."""
        env = {"XDG_CACHE_HOME": self.path("cache")}
        for _ in range(4):
            self.ok("doctor", env=env)
        kept = float(self.read(os.path.join("cache", "onepass", "bandwidth")).split()[2])
        told = [self.json("generate", "-n", "8", "--json", env=env)["bandwidth"]["measured_bytes_per_s"],
                self.json("bench", "-p", "0", "-n", "8", "-r", "1", "--json",
                          env=env)[0]["memory_bytes_per_second"],
                self.json("profile", "-n", "2", "--json", env=env)["roof_bytes_per_second"]]
        self.assertEqual(told, [kept] * 3)
        line = re.search(r"(?m)^memory read +([0-9.]+) GB/s", self.text("doctor", env=env))
        self.assertGreaterEqual(float(line.group(1)) * 1.01, kept / 1e9)
        # A damaged file and a folder that cannot be written are no error.
        self.write(os.path.join("cache", "onepass", "bandwidth"), b"\xff garbage\n1 2 3\n")
        self.ok("generate", "-n", "2", env=env)
        self.ok("generate", "-n", "2", env={"XDG_CACHE_HOME": "/dev/null/x"})

    def test_tells_why_devices_are_refused(self):
        listed = self.text("devices")
        text = self.text("doctor", "--quick")
        self.assertNotIn("memory read", text)
        for line in listed.splitlines():
            name, state, _ = line.split("\t", 2)
            if state == "unavailable":
                self.assertRegex(text, rf"(?m)^device +{name}: refused, .+")
            else:
                self.assertRegex(text, rf"(?m)^device +{name}: .+")

    def test_json(self):
        rows = self.json("doctor", "--quick", "--json")
        self.assertEqual(rows[0]["name"], "onepass")
        self.assertIn("device", {row["name"] for row in rows})


class CompletionTest(CliCase):
    def setUp(self):
        super().setUp()
        for name in ("bin", "home", "scripts"):
            os.mkdir(self.path(name))
        os.symlink(PROGRAM, self.path("bin", "onepass"))

    def script(self, shell):
        path = self.path("scripts", "_onepass" if shell == "zsh" else "onepass." + shell)
        self.ok("completion", shell, "--out", path)
        self.assertEqual(self.read(path), self.text("completion", shell))
        return path

    def shell(self, *args):
        if not shutil.which(args[0]):
            self.skipTest(f"no {args[0]}")
        home = self.path("home")
        env = clean_env({"PATH": self.path("bin") + ":" + os.environ["PATH"], "HOME": home,
                         "XDG_CONFIG_HOME": home, "XDG_DATA_HOME": home})
        result = subprocess.run(args, capture_output=True, text=True, timeout=SLOW, env=env,
                                stdin=subprocess.DEVNULL, check=False, cwd=home)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(result.stderr, "")
        return result.stdout

    def bash(self, line):
        """What bash offers behind a line."""
        ask = ("source {0}; COMP_LINE={1}; COMP_POINT=${{#COMP_LINE}}; read -ra COMP_WORDS <<< "
               "\"$COMP_LINE\"; COMP_CWORD=1; _onepass 2>/dev/null; printf '%s\\n' \"${{COMPREPLY[@]}}\"")
        return self.shell("bash", "--norc", "-c", ask.format(
            shlex.quote(self.script("bash")), shlex.quote(line))).split()

    def test_bash(self):
        self.shell("bash", "--norc", "-euc", "source " + shlex.quote(self.script("bash")))
        names = {c["command"].split()[1] for c in commands()}
        self.assertEqual(set(self.bash("onepass ")), names)
        self.assertEqual(self.bash("onepass gener"), ["generate"])
        self.assertEqual(self.bash("onepass generate --top-"), ["--top-k", "--top-p"])
        self.assertEqual(self.bash("onepass perplexity --kv "), ["f16", "f32"])
        self.assertEqual(self.bash("onepass completion "), ["bash", "zsh", "fish"])
        self.assertEqual(set(self.bash("onepass generate -m synthetic:tiny:q")),
                         {"q1_0", "q2_0", "q2_k", "q3_k", "q4_0", "q4_1", "q4_k", "q5_0", "q5_1", "q5_k", "q6_k", "q8_0"})
        self.assertEqual(self.bash("onepass generate -n "), [])
        self.assertIn("cpu", self.bash("onepass generate --device "))
        self.assertIn("doctor", self.bash("onepass help "))

    def test_bash_knows_every_option(self):
        script = self.text("completion", "bash")
        for command in commands():
            words = " ".join(command["command"].split()[1:])
            for option in command["options"]:
                for name in option["names"] if not option["positional"] else ():
                    self.assertRegex(script, rf"'{words}'\)\n +options='[^']*{re.escape(name)}\b")

    def test_zsh(self):
        path = self.script("zsh")
        self.shell("zsh", "-f", "-c", f"autoload -U compinit; compinit -D -u; source {shlex.quote(path)}; "
                                      "[[ $_comps[onepass] == _onepass ]]")
        self.shell("zsh", "-f", "-c", f"fpath=({shlex.quote(os.path.dirname(path))} $fpath); "
                                      "autoload -U compinit; compinit -D -u; "
                                      "[[ $_comps[onepass] == _onepass ]]; autoload +X _onepass")

    def test_fish(self):
        path = shlex.quote(self.script("fish"))

        def offered(line):
            out = self.shell("fish", "--no-config", "-c",
                             f"source {path}; complete -C {shlex.quote(line)}")
            return {entry.split("\t")[0] for entry in out.splitlines()}

        self.assertEqual(offered("onepass gener"), {"generate"})
        self.assertEqual(offered("onepass generate --top-"), {"--top-k", "--top-p"})
        self.assertEqual(offered("onepass perplexity --kv "), {"f16", "f32"})
        self.assertEqual(offered("onepass completion z"), {"zsh"})


class ManTest(CliCase):
    def test_pages(self):
        folder = self.path("a", "man1")
        self.ok("man", folder)
        found = commands()
        expected = {"onepass.1"} | {c["command"].replace(" ", "-") + ".1" for c in found}
        self.assertEqual(set(os.listdir(folder)), expected)
        if not shutil.which("man") or not shutil.which("groff"):
            self.skipTest("no man")
        for page in sorted(expected):
            with self.subTest(page=page):
                env = clean_env({"MANROFFSEQ": "", "MANWIDTH": "80", "LC_ALL": "C.UTF-8"})
                result = subprocess.run(["man", "--warnings", "-E", "UTF-8", "-l", "-Tutf8", "-Z",
                                         os.path.join(folder, page)], capture_output=True, text=True,
                                        timeout=SLOW, env=env, check=False)
                self.assertEqual(result.returncode, 0, result.stderr)
                self.assertEqual(result.stderr, "")
                self.assertGreater(len(result.stdout), 500)

    def test_page_tells_all(self):
        self.ok("man", self.folder)
        for command in commands():
            name = command["command"].replace(" ", "-") + ".1"
            text = self.read(name).replace("\\-", "-").replace("\\(dq", '"').replace("\\(aq", "'")
            for option in command["options"]:
                for option_name in option["names"]:
                    self.assertIn(f"\\fB{option_name}\\fP", text, name)
            self.assertRegex(text, r'(?m)^\.SH EXAMPLES$')
        self.assertIn('.TH "ONEPASS" 1', self.text("man"))

    def test_errors(self):
        self.fails(1, "man", "/dev/null/x", says=["/dev/null"])


if __name__ == "__main__":
    main()
