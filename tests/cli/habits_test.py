"""habits_test.py PROGRAM SOURCE_DIR TEST_DATA [unittest arguments]: what users of llama.cpp and ollama
type without thinking, and the answer each gets. TEST_DATA may be empty; what needs it is then skipped."""

import json
import os
import shutil
import subprocess

from support import PROGRAM, SOURCE_DIR, STORIES, TINY, CliCase, clean_env, main, run

GREEDY = ["--temp", "0"]
NOT_YET = "not there yet"
DOWNLOAD = "nothing is downloaded"

# What is typed, and a part of the JSON that it gives.
WORK = (
    (["--max-tokens", "3"], {"n": 3}),
    (["--n-predict", "3"], {"n": 3}),
    (["--num-predict=3"], {"n": 3}),
    (["--max-new-tokens", "3"], {"n": 3}),
    (["-n", "3"], {"n": 3}),
    (["--temperature", "0.5", "-n", "1"], {"temp": 0.5}),
    (["--ctx-size", "300", "-n", "1"], {"context": 300}),
    (["--num-ctx", "1k", "-n", "1"], {"context": 1024}),
    (["-ngl", "0", "-n", "1"], {"device": "cpu"}),
    (["-ngl", "99", "-n", "1"], {"device": "cpu"}),
    (["--n-gpu-layers", "all", "-n", "1"], {"device": "cpu"}),
    (["-s", "7", "-n", "1"], {"seed": 7}),
    (["-dev", "cpu", "-n", "1"], {"device": "cpu"}),
    (["-m", STORIES, "-n", "1"], {"prompt": ""}),
    ([STORIES, "-n", "1"], {"prompt": ""}),
    ([STORIES, "Once upon", "-n", "1"], {"prompt": "Once upon"}),
    (["Once upon", "-n", "1"], {"prompt": "Once upon"}),
    (["-m", STORIES, "Once upon", "-n", "1"], {"prompt": "Once upon"}),
    ([STORIES, "-p", "Once upon", "-n", "1"], {"prompt": "Once upon"}),
    (["-n", "1", "-p", "--max-tokens"], {"prompt": "--max-tokens"}),  # a value is no name
)

# What is typed, the exit code, and what stderr says.
TOLD = (
    (["generate", "-hf", "ggml-org/gemma-3-1b-it-GGUF"], 2, DOWNLOAD),
    (["generate", "--hf-repo", "ggml-org/gemma-3-1b-it-GGUF"], 2, DOWNLOAD),
    (["generate", "-mu", "https://example.org/m.gguf"], 2, DOWNLOAD),
    (["generate", "-m", "llama3.2"], 1, DOWNLOAD),
    (["chat", "llama3.2:1b"], 1, DOWNLOAD),
    (["generate", "llama3.2", "Why is the sky blue?"], 1, DOWNLOAD),
    (["generate", "--repeat-penalty", "1.1"], 2, NOT_YET),
    (["generate", "--repeat-last-n", "64"], 2, NOT_YET),
    (["generate", "--presence-penalty", "0.5"], 2, NOT_YET),
    (["generate", "--logit-bias", "15043+1"], 2, NOT_YET),
    (["generate", "--mirostat", "2"], 2, NOT_YET),
    (["generate", "--typical", "0.9"], 2, NOT_YET),
    (["generate", "--grammar-file", "json.gbnf"], 2, NOT_YET),
    (["generate", "--json-schema", "{}"], 2, NOT_YET),
    (["generate", "--lora", "adapter.gguf"], 2, NOT_YET),
    (["generate", "-md", "draft.gguf"], 2, NOT_YET),
    (["generate", "--mmproj", "mmproj.gguf"], 2, NOT_YET),
    (["generate", "-ctk", "q8_0"], 2, NOT_YET),
    (["generate", "-ts", "1,1"], 2, "--device"),
    (["generate", "-fa"], 2, "nothing to turn on"),
    (["generate", "-b", "512"], 2, "chosen by the decoder"),
    (["generate", "--ignore-eos"], 2, "go on yet"),
    (["generate", "-cnv"], 2, "onepass chat"),
    (["generate", "-i"], 2, "onepass chat"),
    (["generate", "--chat-template", "chatml"], 2, "--template"),
    (["generate", "-e", "-p", "a\\nb"], 2, "-f FILE"),
    (["generate", "--log-disable"], 2, "-q"),
    (["generate", "--no-display-prompt"], 2, "never has the prompt"),
    (["generate", "--list-devices"], 2, "onepass devices"),
    (["generate", "--max-tokns", "3"], 2, "'--max-tokens'"),
    (["generate", "-hx"], 2, "--help"),
    (["generate", "-m", ""], 2, "empty name"),
    (["generate", "--model="], 2, "empty name"),
    (["generate", "", "Hello"], 2, "empty name"),
    (["chat", ""], 2, "empty name"),
    (["generate", "-m", STORIES, STORIES, "Hello"], 2, "second model"),
    (["generate", "-p", "Hello", STORIES, "you"], 2, "second prompt"),
    (["generate", "-p", "Once", "upon"], 1, "'Once'|'upon'"),
    (["generate", "Once", "upon", "a"], 2, "quotes"),
    (["generate", "-ngl", "many"], 2, "expected a number"),
    (["generate", "-ngl", "0", "--device", "cuda"], 2, "0 is the CPU"),
    (["generate", "--stop", ""], 2, "empty"),
    (["run", "llama3.2"], 2, "onepass chat"),
    (["pull", "llama3.2"], 2, DOWNLOAD),
    (["list"], 2, "files of yours"),
    (["show", "llama3.2"], 2, "onepass info"),
    (["serve"], 2, NOT_YET),
    (["ps"], 2, "onepass devices"),
    (["create", "mine", "-f", "Modelfile"], 2, "onepass convert"),
    (["-m", STORIES, "-p", "Hello"], 2, "onepass generate -m"),
    ([STORIES], 2, "onepass chat"),
    (["Tell me a story"], 2, "onepass generate"),
    ([], 2, "--help"),
)


def tree(test):
    """A folder with models in forms that people try to open."""
    files = {"a.gguf": STORIES, "b-00001-of-00002.gguf": STORIES, "b-00002-of-00002.gguf": STORIES}
    os.mkdir(test.path("models"))
    for name, source in files.items():
        os.symlink(source, test.path("models", name))
    os.mkdir(test.path("folder"))
    for name in ("config.json", "model.safetensors"):
        test.write(os.path.join("folder", name), "{}")


class HabitsTest(CliCase):
    def test_there_are_enough(self):
        self.assertGreaterEqual(len(WORK) + len(TOLD), 60)

    def test_spellings_that_work(self):
        for args, expected in WORK:
            with self.subTest(args):
                found = self.json("generate", *args, "--json")
                found |= found["sampling"] | {"n": len(found["tokens"])}
                self.assertEqual({k: found[k] for k in expected}, expected)

    def test_spellings_that_are_told(self):
        for args, code, says in TOLD:
            with self.subTest(args):
                text = self.fails(code, *args)
                self.assertTrue(any(part in text for part in says.split("|")), text)
                self.assertNotRegex(text, r"\[\w+\.(cpp|h):\d+\]")

    def test_no_advice_for_what_there_is(self):
        """A row of the table is wrong once its option is there."""
        top = self.json("help", "--json")
        names = {name for c in top["commands"] if c["command"] in ("onepass generate", "onepass chat")
                 for option in c["options"] for name in option["names"]}
        with open(os.path.join(SOURCE_DIR, "tools", "onepass", "options", "habits.def"),
                  encoding="utf-8") as file:
            rows = file.read()
        for name in names:
            self.assertNotIn(f'HABIT("{name}",', rows)
        for command in top["commands"]:
            self.assertNotIn(f'OTHER_COMMAND("{command["command"].split()[1]}",', rows)

    def test_aliases_are_documented(self):
        self.assertIn("--predict", self.text("help", "--search", "--max-tokens"))
        options = next(c for c in self.json("help", "--json")["commands"]
                       if c["command"] == "onepass generate")["options"]
        predict = next(o for o in options if "--predict" in o["names"])
        self.assertIn("--max-tokens", predict["aliases"])
        self.ok("man", self.folder)
        self.assertIn("max\\-tokens", self.read("onepass-generate.1"))


class FilesTest(CliCase):
    def test_a_file_of_tensors_names_its_folder(self):
        tree(self)
        self.fails(1, "generate", "-m", "folder/model.safetensors", cwd=self.folder,
                   says=["holds tensors only", "'folder'"])

    def test_a_folder_of_models_lists_them(self):
        tree(self)
        text = self.fails(1, "generate", "models", cwd=self.folder,
                          says=["models/a.gguf", "models/b-00001-of-00002.gguf"])
        self.assertNotIn("00002-of", text)
        self.fails(1, "info", "models", cwd=self.folder, says=["models/a.gguf"])

    def test_a_truncated_file_is_called_so(self):
        with open(STORIES, "rb") as file:
            data = file.read()
        for n in (10, 100, 5000, 90000, len(data) // 2, len(data) - 1):
            path = self.write("half.gguf", data[:n])
            self.fails(1, "generate", "-m", path, says=["truncated"])
        shutil.copytree(self.data("safetensors", "tiny_llama3"), self.path("half"))
        name = os.path.join("half", "model.safetensors")
        whole = self.read_bytes(name)
        self.write(name, whole[:len(whole) - 100])
        self.fails(1, "info", self.path("half"), says=["truncated"])

    def test_where_in_the_sources_is_told_to_those_who_ask(self):
        args = ("info", "/no/such.gguf")
        self.assertNotRegex(self.fails(1, *args), r"\.cpp:\d+")
        self.assertRegex(self.fails(1, *args, "--verbose"), r"\[\w+\.cpp:\d+\]")


class BannerTest(CliCase):
    def test_one_line(self):
        text = self.ok("generate", "-n", "2").stderr.decode()
        self.assertEqual(len(text.splitlines()), 2, text)  # and one behind the answer
        self.assertRegex(text, r"^stories-12m-q8_0\.gguf on cpu \(.+ threads?\): [0-9.]+ MB weights, "
                               r"[0-9.]+ MB cache for 256 tokens; seed 1\n")
        more = self.ok("generate", "-n", "2", "-v").stderr.decode()
        for part in ("device: cpu", "memory: ", "sampling: "):
            self.assertIn("\n" + part, "\n" + more)

    def test_the_same_text_without_it(self):
        texts = {self.ok("generate", "-n", "9", *more).stdout for more in ([], ["-v"], ["-q"])}
        self.assertEqual(len(texts), 1)

    def test_no_card_for_layers(self):
        self.assertIn("no effect", self.ok("generate", "-n", "1", "-ngl", "99",
                                           env={"CUDA_VISIBLE_DEVICES": "", "ONEPASS_DEVICE": None}
                                           ).stderr.decode() + "no effect" * self.has_card())

    def has_card(self):
        return any(line.split("\t")[1] == "available" and line.split("\t")[0] not in ("cpu", "null")
                   for line in self.text("devices").splitlines())


class PromptTest(CliCase):
    ARGS = ("generate", "-n", "8", *GREEDY)

    def setUp(self):
        super().setUp()
        self.wanted = self.text(*self.ARGS, "-p", "Once upon a time")

    def test_a_pipe(self):
        for stdin in (b"Once upon a time", b"Once upon a time\n", b"Once upon a time\r\n"):
            self.assertEqual(self.text(*self.ARGS, stdin=stdin), self.wanted)
        self.assertEqual(self.text(*self.ARGS, STORIES, stdin=b"Once upon a time\n"), self.wanted)
        self.assertEqual(self.text(*self.ARGS, "-p", "-", stdin=b"Once upon a time\n"), self.wanted)

    def test_a_file(self):
        path = self.write("text.txt", "Once upon a time\n")
        self.assertEqual(self.text(*self.ARGS, "-f", path), self.wanted)
        self.assertEqual(self.text(*self.ARGS, "--file", path), self.wanted)
        with open(path, "rb") as file:
            result = subprocess.run([PROGRAM, *self.ARGS], stdin=file, env=clean_env(),
                                    capture_output=True, check=True)
        self.assertEqual(result.stdout.decode(), self.wanted)
        self.fails(2, *self.ARGS, "-f", path, "-p", "x", says=["--file"])
        self.fails(1, *self.ARGS, "-f", self.path("none"), says=["none"])

    def test_a_pipe_beside_a_prompt_is_told(self):
        result = subprocess.run(["bash", "-c", 'echo More | (sleep 0.2; exec "$0" generate -n 1 -p Once)',
                                 PROGRAM], env=clean_env(), capture_output=True, check=True)
        self.assertIn("what is on stdin is not read", result.stderr.decode())
        # A loop over lines keeps its lines.
        result = subprocess.run(["bash", "-c", 'printf "a\\nb\\nc\\n" | while read -r line; do '
                                 '"$0" generate -q -n 1 -p "$line" --json; done', PROGRAM],
                                env=clean_env(), capture_output=True, check=True)
        self.assertEqual([json.loads(l)["prompt"] for l in result.stdout.decode().splitlines()],
                         ["a", "b", "c"])


class StopTest(CliCase):
    ARGS = ("generate", "-p", "Once upon a time", "-n", "40", *GREEDY)

    def test_ends_before_the_text(self):
        whole = self.text(*self.ARGS)
        for at in range(3, 60, 9):
            stop = whole[at:at + 5]
            args = ("--stop", "never said", "--stop", stop)
            self.assertEqual(self.text(*self.ARGS, *args), whole[:whole.index(stop)] + "\n")
        found = self.json(*self.ARGS, "--json", "--stop", whole[10:14])
        self.assertEqual((found["text"], found["stop"]), (whole[:10], "stop_text"))

    def test_nothing_leaks(self):
        whole = self.text(*self.ARGS)
        stop = whole[7:15]
        out = "".join(json.loads(line)["text"] for line in
                      self.text(*self.ARGS, "--jsonl", "--stop", stop).splitlines()[1:-1])
        self.assertEqual(out, whole[:whole.index(stop)])

    def test_a_beginning_that_comes_to_nothing_is_printed(self):
        whole = self.text(*self.ARGS).rstrip("\n")
        self.assertEqual(self.text(*self.ARGS, "--stop", whole[-4:] + "ZZZ"), whole + "\n")

    def test_errors(self):
        self.fails(2, *self.ARGS, "--stop", "\udcff", says=["UTF-8"])
        self.assertNotEqual(run("generate", "-m", TINY, "--tokens", "1", "-n", "2", "--stop", "x")
                            .returncode, 0)


if __name__ == "__main__":
    main()
