#!/usr/bin/env python3
"""count_tests.py JUNIT: prints "passed failed skipped" of a file written by ctest --output-junit."""

import sys
import xml.etree.ElementTree as ElementTree


def outcomes(junit_path):
    """Yields (test name, "passed" | "failed" | "skipped")."""
    for case in ElementTree.parse(junit_path).getroot().iter("testcase"):
        if case.find("failure") is not None or case.get("status") == "fail":
            yield case.get("name"), "failed"
        elif case.find("skipped") is not None or case.get("status") in ("notrun", "disabled"):
            yield case.get("name"), "skipped"
        else:
            yield case.get("name"), "passed"


def count(junit_path):
    results = [outcome for _, outcome in outcomes(junit_path)]
    return tuple(results.count(kind) for kind in ("passed", "failed", "skipped"))


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    try:
        print(*count(sys.argv[1]))
    except (OSError, ElementTree.ParseError) as error:
        sys.exit(f"count_tests: {sys.argv[1]}: {error}")
