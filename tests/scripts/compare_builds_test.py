import json
import os
import sys
import unittest

from script_test import SCRIPTS, ScriptTest

sys.path.append(os.path.join(SCRIPTS, "experiments"))
import compare_builds  # noqa: E402

# Prints what the real program would, its times from times.json: {test: ns}, and logs its folder.
PROGRAM = """#!{python}
import json, os, sys
folder = os.path.dirname(os.path.abspath(__file__))
with open(os.path.join(folder, "..", "log"), "a") as log:
    log.write(os.path.basename(folder) + " ")
times = json.load(open(os.path.join(folder, "times.json")))
if sys.argv[1] == "bench":
    print(json.dumps([{{"test": t, "samples_ns": [ns * 2, ns]}} for t, ns in times.items()]))
else:
    rows = [{{"run_name": t, "real_time": ns / 1e3, "time_unit": "us"}} for t, ns in times.items()]
    again = [dict(row, run_name=row["run_name"] + "2/min_time:0.02/repeats:20") for row in rows]
    rows += [dict(row, aggregate_name="best") for row in again]
    rows += [dict(row, aggregate_name="cv", real_time=1.0) for row in again]
    print(json.dumps({{"benchmarks": rows}}))
"""


class CompareBuilds(ScriptTest):
    def build(self, name, times):
        for program in ("onepass", "a_bench"):
            os.chmod(self.write(f"{name}/{program}", PROGRAM.format(python=sys.executable)), 0o755)
        self.write(f"{name}/times.json", json.dumps(times))
        return os.path.join(self.root, name)

    def compare(self, before, now, *options, status=0):
        sys.argv = ["compare_builds.py", self.build("before", before), self.build("now", now), "--rounds", "2",
                    "--max-rounds", "3", "--models", "m.gguf", "--benches", "", *options]
        got, text = self.run_main(compare_builds.main)
        self.assertEqual(got, status, text)
        return text

    def test_tells_both_times_and_their_ratio(self):
        text = self.compare({"tg8": 3000.0, "old": 1.0}, {"tg8": 2000.0, "new": 1.0})
        self.assertIn("| m tg8 | 3 µs | 2 µs | 2 | 1.500 | 1.500 to 1.500 |  |", text)
        self.assertNotIn("old", text)
        self.assertNotIn("new", text)

    def test_benches_are_compared_too(self):
        text = self.compare({"b": 2000.0}, {"b": 4000.0}, "--models", "", "--benches", "a_bench", status=1)
        self.assertIn("| a_bench b | 2 µs | 4 µs | 2 | 0.500 |", text)
        self.assertIn("| a_bench b2 | 2 µs | 4 µs | 2 | 0.500 |", text)

    def test_builds_take_turns(self):
        self.compare({"t": 1.0}, {"t": 1.0})
        with open(os.path.join(self.root, "log"), encoding="utf-8") as log:
            self.assertEqual(log.read().split(), ["before", "now", "now", "before"])

    def test_a_slower_build_misses(self):
        self.assertIn("| missed |", self.compare({"t": 97.0}, {"t": 100.0}, status=1))
        self.assertIn("| missed |", self.compare({"t": 99.0}, {"t": 100.0}, status=1))  # all below 1
        self.compare({"t": 97.0}, {"t": 97.0})

    def ratios(self, *ratios):
        """From here on the rounds have these."""
        left = iter(ratios)
        self.addCleanup(setattr, compare_builds, "time_model", compare_builds.time_model)
        compare_builds.time_model = lambda folder, *_: {"t": next(left) if folder.endswith("before") else 1.0}

    def test_a_median_below_the_least_misses_however_wide_the_interval(self):
        self.ratios(0.9, 1.0, 0.9)
        self.assertIn("| 3 | 0.900 | 0.900 to 1.000 | missed |", self.compare({}, {}, status=1))

    def test_rounds_are_added_while_an_interval_is_wide(self):
        self.ratios(1.0, 1.2, 1.2)
        self.assertIn("| 3 | 1.200 | 1.000 to 1.200 | wide |", self.compare({}, {}))

    def test_nothing_in_common_is_no_success(self):
        self.compare({"a": 1.0}, {"b": 1.0}, status=2)


if __name__ == "__main__":
    unittest.main()
