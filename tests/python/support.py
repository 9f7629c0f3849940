"""For tests of the Python package: NumPy's interpreter, the package's folder, the source tree."""

import os
import sys

SOURCE_DIR = sys.argv[1]
SYSTEM_PYTHON = "/usr/bin/python3"

try:
    import numpy
except ImportError:
    # The package of the system belongs to the interpreter of the system.
    if os.path.realpath(sys.executable) == os.path.realpath(SYSTEM_PYTHON) or not os.path.exists(
            SYSTEM_PYTHON):
        print("SKIPPED: no numpy")
        sys.exit(77)
    os.execv(SYSTEM_PYTHON, [SYSTEM_PYTHON, *sys.argv])

PYTHON_DIR = os.path.join(SOURCE_DIR, "python")
STORIES = os.path.join(SOURCE_DIR, "models", "stories-12m-q8_0.gguf")
sys.path.insert(0, PYTHON_DIR)
assert numpy
