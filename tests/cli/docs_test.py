"""docs_test.py PROGRAM SOURCE_DIR BIN_DIR [unittest arguments]: runs what README.md and the tutorials show

A block ```console is a session: lines that begin with "$ " are commands, those behind them what they
print. "..." stands for lines left out. Numbers with a decimal point and numbers in front of a unit of
time, speed or memory are measurements and may differ. In blocks ```sh of README.md, docs/guide.md and the tutorials the
commands of onepass itself are run, on smaller models; those with files that are not here are parsed only. All of it in one folder for each document, where build/dev/bin is BIN_DIR and model.gguf
the model in the box."""

import glob
import html
import os
import re
import subprocess
import sys
import tempfile
import unittest

PROGRAM, SOURCE_DIR, BIN_DIR = sys.argv[1:4]
sys.path.insert(0, os.path.join(SOURCE_DIR, "scripts", "checks"))
sys.path.insert(0, os.path.join(SOURCE_DIR, "scripts"))

import check_docs  # noqa: E402
import draw_schedule  # noqa: E402
import record_terminal  # noqa: E402

STORIES = os.path.join(SOURCE_DIR, "models", "stories-12m-q8_0.gguf")
SLOW = 120  # seconds until a command counts as stuck
UNIT = r"(?:(?:[nmu]?s|per second|tok(?:ens)?/s|[kMG]B(?:/s)?)\b|%)"
MEASURED = re.compile(rf"\d+\.\d+(?:e[-+]?\d+)?|\d+(?=\s*{UNIT})")


def without_measurements(line):
    line = re.sub(r"^(\S+ on \w+) \(.*\): ", r"\1: ", line)
    line = re.sub(r"\((?:[\d.]+ % of|in cache, memory gives) [\d.]+ [kMG]B/s(?: measured)?\)", "(#)", line)
    return " ".join(MEASURED.sub("#", line).split())


def commands_of(lines):
    """[(command, [expected line])] of a session."""
    found = []
    for line in lines:
        if line.startswith("$ "):
            found.append((line[2:], []))
        elif found:
            found[-1][1].append(line)
    return found


def difference(expected, printed):
    """What a session shows and the program does not print; None if there is nothing."""
    expected = [without_measurements(line) for line in expected if line.strip()]
    printed = [without_measurements(line) for line in printed if line.strip()]
    at, anywhere = 0, False
    for line in expected:
        if line == "...":
            anywhere = True
            continue
        if anywhere:
            while at < len(printed) and printed[at] != line:
                at += 1
            anywhere = False
        if at == len(printed) or printed[at] != line:
            return f"expected: {line}\n     got: {printed[at] if at < len(printed) else 'the end'}"
        at += 1
    return None if anywhere or at == len(printed) else f"not shown: {printed[at]}"


class Document(unittest.TestCase):
    def run_document(self, path):
        with tempfile.TemporaryDirectory() as folder:
            os.makedirs(os.path.join(folder, "build", "dev"))
            os.symlink(BIN_DIR, os.path.join(folder, "build", "dev", "bin"))
            os.mkdir(os.path.join(folder, "path"))
            os.symlink(PROGRAM, os.path.join(folder, "path", "onepass"))
            os.symlink(STORIES, os.path.join(folder, "model.gguf"))
            count = 0
            for number, info, lines in check_docs.blocks(check_docs.read(SOURCE_DIR, path)):
                where = f"{path}:{number}"
                if info == "console":
                    for command, expected in commands_of(lines):
                        self.compare(where, command, expected, self.shell(folder, where, command))
                        count += 1
                elif info == "sh" and path.startswith("docs/tutorials/"):
                    for line in lines:
                        if line.startswith("onepass "):
                            line = re.sub(r"synthetic:[\w.-]+:", "synthetic:tiny:", line)
                            # Slower than before is none of ours.
                            self.shell(folder, where, line, (0, 1) if "--compare" in line else (0,))
                            count += 1
        return count

    def shell(self, folder, where, command, right=(0,)):
        env = {k: v for k, v in os.environ.items() if not k.startswith("ONEPASS_")}
        env["PATH"] = os.path.join(folder, "path") + ":" + env["PATH"]
        env["ONEPASS_DEVICE"] = "cpu"
        env["ONEPASS_MODELS"] = os.path.dirname(STORIES)
        result = subprocess.run(["bash", "-o", "pipefail", "-c", command], cwd=folder, env=env,
                                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                stderr=subprocess.STDOUT, timeout=SLOW, text=True, check=False)
        self.assertIn(result.returncode, right, f"{where}: {command}\n{result.stdout}")
        return result.stdout.split("\n")

    def compare(self, where, command, expected, printed):
        wrong = difference(expected, printed)
        shown = "\n".join(printed)
        self.assertIsNone(wrong, f"{where}: {command}\n{wrong}\nall of it:\n{shown}")


class ReadmeTest(Document):
    def test_commands(self):
        """Of README.md; what needs another model than the one in the box is only parsed."""
        count = 0
        with tempfile.TemporaryDirectory() as folder:
            os.makedirs(os.path.join(folder, "path"))
            os.symlink(PROGRAM, os.path.join(folder, "path", "onepass"))
            os.symlink(STORIES, os.path.join(folder, "model.gguf"))
            for number, info, lines in check_docs.blocks(check_docs.read(SOURCE_DIR, "README.md")):
                for line in lines if info == "sh" else ():
                    words = line.split()
                    if words and words[0].startswith("scripts/"):
                        self.assertTrue(os.access(os.path.join(SOURCE_DIR, words[0]), os.X_OK), line)
                    elif words and words[0] == "onepass":
                        away = re.search(r"(\S+\.gguf)", line)[1] != "model.gguf"
                        printed = self.shell(folder, f"README.md:{number}", line + (" --device nowhere" if away else ""),
                                             (1,) if away else (0,))
                        self.assertRegex("".join(printed), "nowhere|No such file|not found" if away else ".")
                    else:
                        continue
                    count += 1
        self.assertGreaterEqual(count, 6)

    def test_figures_are_measured(self):
        text = check_docs.read(SOURCE_DIR, "README.md")
        section = text[text.index("## How fast it is"):text.index("## How it works")]
        measured = check_docs.read(SOURCE_DIR, "docs/benchmarks.md")
        rows = re.findall(r"^\| (\w[\w.-]*) (q\d_\d) \|(.*)\|$", section, re.MULTILINE)
        self.assertEqual(len(rows), 6)
        for model, form, cells in rows:
            found = [row for row in measured.split("\n") if re.match(rf"\| {re.escape(model)}[ -]{form} ", row)
                     and all(re.search(rf"(?<![\d.,]){re.escape(cell.strip())}(?![\d,]|\.\d)", row)
                             for cell in cells.split("|"))]
            self.assertTrue(found, f"{model} {form}{cells}: no such row in docs/benchmarks.md")
        for ratio in re.search(r"were at ([\d., and]+) times llama.cpp", section)[1].replace("and", ",").split(","):
            if ratio.strip():
                self.assertRegex(measured, rf"\| {re.escape(ratio.strip())}(?: \(required 1.1\))? \| \d+ % \|")

    def test_recording(self):
        """docs/terminal.svg shows what the program prints."""
        picture = check_docs.read(SOURCE_DIR, "docs/terminal.svg")
        shown = html.unescape(re.search(r"<desc>(.*)</desc>", picture, re.DOTALL)[1])
        _, printed = record_terminal.play(PROGRAM)
        self.assertEqual([line for line in shown.split("\n") if line.startswith("$ ")],
                         [f"$ {command}" for command in record_terminal.SESSION])
        self.assertIsNone(difference(shown.split("\n"), printed.split("\n")),
                          f"run scripts/record_terminal.py; it prints\n{printed}")

    def test_schedule(self):
        """docs/schedule.svg is the plan of today, on a machine of the same kind."""
        with tempfile.NamedTemporaryFile("r", suffix=".svg") as file:
            draw_schedule.main([PROGRAM, file.name])
            drawn = file.read()
        picture = check_docs.read(SOURCE_DIR, "docs/schedule.svg")
        texts = [re.sub(r"\d+ tiles?, ", "", text) for text in re.findall(r"<text[^>]*>([^<]*)<", picture)]
        self.assertEqual(texts, [re.sub(r"\d+ tiles?, ", "", text) for text in re.findall(r"<text[^>]*>([^<]*)<", drawn)])


class TutorialsTest(Document):
    def test_sessions(self):
        documents = sorted(glob.glob("docs/tutorials/*.md", root_dir=SOURCE_DIR))
        self.assertGreaterEqual(len(documents), 3)
        for path in documents:
            with self.subTest(path):
                self.assertGreater(self.run_document(path), 0)


class RulesTest(unittest.TestCase):
    """What counts as a difference."""

    def test_measurements_may_differ(self):
        self.assertIsNone(difference(["a 1.5 x, 20 ms, 3 tokens/s"], ["a   77.25 x, 1 ms, 99 tokens/s"]))
        self.assertIsNone(difference(["m.gguf on cpu (A(R) @ 2.80GHz, 2 threads): 3 MB"],
                                     ["m.gguf on cpu (B, 16 threads): 3 MB"]))
        self.assertIsNone(difference(["at 5.0 GB/s (10 % of 50 GB/s measured)"],
                                     ["at 90.1 GB/s (in cache, memory gives 50.5 GB/s)"]))
        self.assertIsNotNone(difference(["20 dispatches"], ["21 dispatches"]))
        self.assertIsNotNone(difference(["20 s"], ["20 slots"]))

    def test_lines_may_be_left_out_only_where_it_says_so(self):
        printed = ["a", "b", "c", "d"]
        self.assertIsNone(difference(["a", "...", "d"], printed))
        self.assertIsNone(difference(["a", "..."], printed))
        self.assertIsNone(difference(["...", "c", "d"], printed))
        for wrong in (["a", "d"], ["a", "b"], ["a", "...", "x"], ["...", "c"], [*printed, "e"]):
            self.assertIsNotNone(difference(wrong, printed), wrong)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[4:]])
