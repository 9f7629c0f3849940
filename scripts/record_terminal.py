#!/usr/bin/env python3
"""record_terminal.py PROGRAM SVG: runs the session below on a pseudo-terminal and draws it

The picture plays at the speed of the run, except that every command waits a second. Its description is the
session as text, which tests/cli/docs_test.py runs again."""

import codecs
import os
import pty
import re
import select
import sys
import tempfile
import time
from xml.sax.saxutils import escape

ROOT = os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
SESSION = ('onepass generate -p "Tom had a red ball." --seed 7 -n 48',
           "onepass graph -q | head -8")
COLUMNS = 72
LINE, LETTER, MARGIN = 18, 7.83, 16  # pixels
PAUSE = 1.0  # seconds before a command runs
STYLE = """svg{font-family:ui-monospace,Menlo,Consolas,'DejaVu Sans Mono',monospace;font-size:13px}
.frame{fill:#14181f}.bar{fill:#232a35}text{fill:#d5dbe3;white-space:pre}.note{fill:#8d99a8}.command{fill:#8fd0ff}
.late{animation:wait step-end}@keyframes wait{from{opacity:0}}
@media (prefers-reduced-motion:reduce){.late{animation:none}}"""
NOTE = re.compile(r"^\S+ on \w+ \(|^loaded in ")  # of what goes to stderr
ESCAPE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


def run(command, environment, folder):
    """[(seconds, text)] as they come."""
    start, chunks = time.monotonic(), []
    child, terminal = pty.fork()
    if child == 0:
        os.chdir(folder)
        os.execvpe("bash", ["bash", "-c", command], environment)
    decoder = codecs.getincrementaldecoder("utf-8")()
    while True:
        try:
            data = os.read(terminal, 65536)
        except OSError:  # the other side is closed
            break
        text = ESCAPE.sub("", decoder.decode(data).replace("\r\n", "\n"))
        chunks.append((time.monotonic() - start, text))
    os.close(terminal)
    if os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) != 0:
        sys.exit("".join(text for _, text in chunks))
    return chunks


class Screen:
    """Texts where and when they stand on the terminal."""

    def __init__(self):
        self.spans = []  # (row, column, seconds, class, text)
        self.row = self.column = 0
        self.begin = 0  # of the line that is being written, in spans

    def write(self, when, text, kind=""):
        for part in re.split(r"([\n\r])", text):
            if part == "\n":
                line = self.spans[self.begin:]
                if NOTE.match("".join(span[4] for span in line)):
                    self.spans[self.begin:] = [(*span[:3], "note", span[4]) for span in line]
                self.row, self.column, self.begin = self.row + 1, 0, len(self.spans)
            elif part == "\r":  # a progress bar is written again
                del self.spans[self.begin:]
                self.column = 0
            while part not in ("", "\n", "\r"):
                if self.column >= COLUMNS:
                    self.row, self.column = self.row + 1, 0
                room = part[:COLUMNS - self.column]
                self.spans.append((self.row, self.column, when, kind, room))
                self.column += len(room)
                part = part[len(room):]


def play(program):
    """The screen after the session, and the session as text."""
    with tempfile.TemporaryDirectory() as folder:
        os.symlink(os.path.abspath(program), os.path.join(folder, "onepass"))
        environment = {k: v for k, v in os.environ.items() if not k.startswith("ONEPASS_")}
        environment.update(PATH=folder + ":" + environment["PATH"], ONEPASS_DEVICE="cpu", TERM="dumb",
                           ONEPASS_MODELS=os.path.join(ROOT, "models"))
        screen, said, clock = Screen(), [], 0.0
        for command in SESSION:
            if screen.column:
                screen.write(clock, "\n")
            screen.write(clock, f"$ {command}\n", "command")
            clock += PAUSE
            chunks = run(command, environment, folder)
            for when, text in chunks:
                screen.write(clock + when, text)
            clock += chunks[-1][0]
            printed = "".join(text for _, text in chunks).rstrip("\n")
            said.append(f"$ {command}\n" + re.sub(r"[^\n]*\r", "", printed))
    return screen, "\n".join(said)


def picture(screen, said):
    width = round(2 * MARGIN + COLUMNS * LETTER)
    height = 30 + 2 * MARGIN + (screen.row + 1) * LINE
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
             f'viewBox="0 0 {width} {height}" role="img">', "<title>onepass in a terminal</title>",
             f"<desc>{escape(said)}</desc>", f"<style>{STYLE}</style>",
             f'<rect class="frame" width="{width}" height="{height}" rx="8"/>',
             f'<path class="bar" d="M0 8a8 8 0 0 1 8-8h{width - 16}a8 8 0 0 1 8 8v22h-{width}z"/>']
    parts += [f'<circle cx="{20 + 18 * i}" cy="15" r="5.5" fill="{color}"/>'
              for i, color in enumerate(("#e0675c", "#dfb03e", "#5fb04f"))]
    for row, column, when, kind, text in screen.spans:
        x, y = MARGIN + column * LETTER, 30 + MARGIN + row * LINE + 13
        late = f' style="animation-duration:{when:.3f}s"' if when else ""
        parts.append(f'<text class="{" ".join(["late"] * bool(when) + [kind])}"{late} x="{x:.1f}" y="{y}" '
                     f'xml:space="preserve" textLength="{len(text) * LETTER:.1f}">{escape(text)}</text>')
    return "\n".join([*parts, "</svg>", ""])


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__.splitlines()[0])
    with open(sys.argv[2], "w", encoding="utf-8") as file:
        file.write(picture(*play(sys.argv[1])))
