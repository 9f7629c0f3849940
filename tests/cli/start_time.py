"""start_time.py PROGRAM [RUNS]: seconds from the start of `PROGRAM generate -n 200` to its first
text and to its end, of each run; fails when the median exceeds 0.5 s or 2 s."""

import statistics
import subprocess
import sys
import time

MAX_FIRST, MAX_ALL = 0.5, 2.0


def measure(program):
    started = time.monotonic()
    with subprocess.Popen([program, "generate", "--device", "cpu", "-n", "200", "--seed", "1"],
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        process.stdout.read(1)
        first = time.monotonic() - started
        process.communicate()
        return first, time.monotonic() - started, process.returncode


def main(program, runs=5):
    results = [measure(program) for _ in range(runs)]
    for first, whole, code in results:
        print(f"first text {first:.3f} s, all {whole:.3f} s, exit {code}")
    first = statistics.median(r[0] for r in results)
    whole = statistics.median(r[1] for r in results)
    print(f"median: first text {first:.3f} s of {MAX_FIRST} s, all {whole:.3f} s of {MAX_ALL} s")
    return 0 if first <= MAX_FIRST and whole <= MAX_ALL and not any(r[2] for r in results) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], *map(int, sys.argv[2:3])))
