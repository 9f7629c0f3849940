import subprocess
import sys
import unittest

from script_test import CHECKS, ScriptTest

import count_tests

JUNIT = """<?xml version="1.0" encoding="UTF-8"?>
<testsuite name="(empty)" tests="5" failures="1" disabled="1" skipped="1">
  <testcase name="A.one" status="run"><system-out>[  SKIPPED ] in text only</system-out></testcase>
  <testcase name="A.two" status="run"/>
  <testcase name="A.three" status="fail"><failure message=""/><system-out>early
late</system-out></testcase>
  <testcase name="A.four" status="notrun"><skipped message="SKIP_REGULAR_EXPRESSION_MATCHED"/></testcase>
  <testcase name="A.five" status="disabled"><properties/></testcase>
</testsuite>
"""


class CountTests(ScriptTest):
    def test_counts(self):
        self.assertEqual(count_tests.count(self.write("d/junit.xml", JUNIT)), (2, 1, 2))

    def test_failures_come_with_the_end_of_their_output(self):
        path = self.write("d/junit.xml", JUNIT)
        self.assertEqual(list(count_tests.failures(path, lines=1)), [("A.three", ["late"])])
        run = subprocess.run([sys.executable, CHECKS + "/count_tests.py", "--failed", path],
                             capture_output=True, text=True)
        self.assertEqual(run.stdout, "failed: A.three\n    early\n    late\n")

    def test_unreadable_file_is_an_error(self):
        for path in (self.root + "/none.xml", self.write("d/cut.xml", JUNIT[:200])):
            run = subprocess.run([sys.executable, CHECKS + "/count_tests.py", path],
                                 capture_output=True, text=True)
            self.assertNotEqual(run.returncode, 0)
            self.assertEqual(run.stdout, "")
            self.assertIn("count_tests: ", run.stderr)


if __name__ == "__main__":
    unittest.main()
