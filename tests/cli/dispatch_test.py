"""dispatch_test.py PROGRAM SOURCE_DIR TEST_DATA [unittest arguments]: bench --dispatch, and the picture
that scripts/plot_dispatch.py makes of it. TEST_DATA may be empty."""

import csv
import io
import json
import os
import subprocess
import sys
import xml.etree.ElementTree as ElementTree

from support import SOURCE_DIR, TINY, CliCase, main

SMALL = ("bench", "-m", TINY, "-n", "6", "-r", "2", "-t", "1", "--dispatch")
MODES = ["per-op", "session", "two-buffers", "recorded", "plan"]


class WaysTest(CliCase):
    def ways(self, *args):
        return [(r["dispatch"], r["fuse"], r["policy"])
                for r in self.json(*SMALL, *args, "--json", "-q")]

    def test_which_there_are(self):
        self.assertEqual(self.ways("all"), [
            ("per-op", "off", "recorded"), ("session", "off", "recorded"),
            ("two-buffers", "exact", "exact"), ("recorded", "exact", "exact"),
            ("plan", "exact", "exact")])
        fuse, policies = ["off", "exact", "all"], ["recorded", "greedy", "exact"]
        every = self.ways("plan,per-op,recorded", "--fuse", "off,exact,all", "--policy",
                          "recorded,greedy,exact")
        self.assertEqual(every, [("per-op", "off", "recorded")] +
                         [("recorded", f, p) for f in fuse for p in policies] +
                         [("plan", f, p) for f in fuse for p in policies])

    def test_wrong_usage(self):
        for args, says in (((*SMALL, "eager"), "eager"), ((*SMALL, "plan", "-p", "4"), "--n-prompt"),
                           ((*SMALL, "plan", "--fuse", "some"), "some"),
                           (("bench", "-m", TINY, "--fuse", "off"), "--dispatch"),
                           (("bench", "-m", TINY, "--policy", "exact"), "--dispatch"),
                           ((*SMALL, "plan", "--compare", "x"), "--compare"),
                           (("bench", "-m", TINY, "--dispatch", "plan", "-n", "0"), "--n-gen")):
            with self.subTest(args=args):
                self.fails(2, *args, says=[says])


class CountsTest(CliCase):
    def test_what_one_token_takes(self):
        rows = self.json(*SMALL, "all", "--fuse", "off,exact", "-d", "0,3", "--json", "-q")
        self.assertEqual(len(rows), 16)
        for r in rows:
            with self.subTest(test=r["test"]):
                mode, dispatches = r["dispatch"], rows[0]["dispatches"]
                one_each = mode == "per-op"
                if one_each:
                    self.assertEqual(r["submissions"], r["waits"])
                    # An op can take a dispatch in front of it, which quantizes its input.
                    self.assertGreater(r["submissions"], dispatches / 2)
                    self.assertLessEqual(r["submissions"], dispatches)
                else:
                    self.assertEqual(r["submissions"], 2 if mode == "two-buffers" else 1)
                    self.assertEqual(r["waits"], 1)
                if r["fuse"] == "exact":
                    self.assertLess(r["dispatches"], dispatches)
                else:
                    self.assertEqual(r["dispatches"], dispatches)
                issued, other = ("edges", "barriers") if mode == "plan" else ("barriers", "edges")
                if one_each:  # in front of products whose input is quantized
                    self.assertEqual(r[issued], r["dispatches"] - r["submissions"])
                else:
                    self.assertGreater(r[issued], 0)
                self.assertIsNone(r[other])
                self.assertGreater(r["outside_us_per_token"], 0.0)
                self.assertEqual(r["other_tokens"], 0)
                self.assertEqual(len(r["samples_ns"]), 2)
                self.assertAlmostEqual(r["us_per_token"] * 6e3 / max(r["samples_ns"]), 1.0, places=6)
        tests = [r["test"] for r in rows]
        self.assertEqual(len(set(tests)), 16)
        self.assertEqual(tests[0], "tg6 per-op off recorded")
        self.assertEqual(tests[-1], "tg6 @ d3 plan exact exact")

    def test_recorded_order_needs_more_barriers(self):
        model = ("-m", "synthetic:tiny-qwen3moe:q8_0")
        rows = self.json("bench", *model, *SMALL[3:], "recorded", "--fuse", "off",
                         "--policy", "recorded,greedy,exact", "--json", "-q")
        recorded, greedy, exact = (r["barriers"] for r in rows)
        self.assertGreater(recorded, exact)
        self.assertGreaterEqual(recorded, greedy)
        self.assertGreaterEqual(greedy, exact)


class OutputTest(CliCase):
    def test_formats(self):
        lines = [json.loads(line) for line in self.text(*SMALL, "all", "-o", "jsonl").splitlines()]
        self.assertEqual([r["dispatch"] for r in lines], MODES)
        table = list(csv.DictReader(io.StringIO(self.text(*SMALL, "all", "-o", "csv"))))
        self.assertEqual([r["dispatch"] for r in table], MODES)
        self.assertEqual(set(table[0]), set(lines[0]) - {"samples_ns", "samples_ts"})
        self.assertEqual([r["edges"] == "" for r in table], [True] * 4 + [False])
        markdown = self.text(*SMALL, "all").splitlines()
        self.assertEqual(len({len(line) for line in markdown}), 1)
        cells = [[c.strip() for c in line.strip("|").split("|")] for line in markdown]
        self.assertEqual([c[1] for c in cells], ["dispatch", "-" * 11, *MODES])
        self.assertRegex(cells[-1][-1], r"^\d+ edges$")
        self.assertRegex(cells[-2][-1], r"^\d+ barriers$")
        self.assertIn("CREATE TABLE IF NOT EXISTS onepass_dispatch",
                      self.text(*SMALL, "plan", "-o", "sql"))

    def test_rows_can_be_compared(self):
        rows = self.write("rows.json", self.ok(*SMALL, "session,plan", "--json").stdout)
        tests = self.json("bench", "--compare", rows, "--with", rows, "-o", "json", "--tolerance", "1")
        self.assertEqual([t["test"] for t in tests],
                         ["tg6 session off recorded", "tg6 plan exact exact"])


class PlotTest(CliCase):
    SCRIPT = os.path.join(SOURCE_DIR, "scripts", "plot_dispatch.py")

    def plot(self, *files, code=0):
        result = subprocess.run([sys.executable, self.SCRIPT, *files], capture_output=True, text=True,
                                check=False)
        self.assertEqual(result.returncode, code, result.stderr)
        return result

    def test_a_bar_for_each_row(self):
        rows = self.write("a.json", self.ok(*SMALL, "all", "--fuse", "off,all", "--json").stdout)
        more = self.write("b.jsonl", self.ok(*SMALL, "plan", "-d", "2", "-o", "jsonl").stdout)
        svg = ElementTree.fromstring(self.plot(rows, more).stdout)
        name = "{http://www.w3.org/2000/svg}"
        texts = [t.text for t in svg.iter(name + "text")]
        self.assertEqual(sum(t.endswith(", 1 thread") for t in texts), 2)
        for label in ("per-op", "session", "two-buffers, fuse off", "recorded, fuse all",
                      "plan, fuse exact"):
            self.assertIn(label, texts)
        # A paper, two squares of the legend, and two parts of each bar.
        rects = list(svg.iter(name + "rect"))
        self.assertEqual(len(rects), 3 + 2 * 9)
        widths = [float(r.get("width")) for r in rects[3:]]
        bars = [a + b for a, b in zip(widths[::2], widths[1::2])]
        times = [r["us_per_token"] for r in json.loads(self.read("a.json"))]
        for width, time in zip(bars, times):
            self.assertAlmostEqual(width / max(bars[:8]), time / max(times), delta=0.01)

    def test_other_files_are_refused(self):
        rows = self.write("a.json", self.ok("bench", "-m", TINY, "-p", "0", "-n", "1", "-r", "1",
                                            "--json").stdout)
        self.assertIn("no dispatch", self.plot(rows, code=1).stderr)
        self.assertIn("expected rows", self.plot(self.write("b", "{"), code=1).stderr)
        self.assertIn("no rows", self.plot(self.write("c", "[]"), code=1).stderr)


if __name__ == "__main__":
    main()
