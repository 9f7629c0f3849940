"""terminal_test.py PROGRAM SOURCE_DIR TEST_DATA [unittest arguments]: chats on a pseudo terminal:
editing, history, paste, Ctrl-C, a window that changes, UTF-8 and wide characters."""

import fcntl
import json
import os
import pty
import re
import signal
import stat
import struct
import termios
import time
import unittest

from support import SLOW, CliCase, main, spawn

# Makes the story model one for chats; the answer to a message is what follows it.
PLAIN = ("{{ bos_token }}{% for m in messages %}{% if m.role == 'assistant' %}{{ ' ' + m.content + "
         "'\\n' }}{% elif m.role == 'system' %}{{ m.content + ' ' }}{% else %}{{ m.content }}"
         "{% endif %}{% endfor %}")
ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b[=>]|\x1b\([A-Z0-9]")
LEFT, RIGHT, UP, DOWN, HOME, END = (f"\x1b[{key}" for key in "DCABHF")
DELETE, CTRL_C, CTRL_D, CTRL_A, CTRL_E, CTRL_W = "\x1b[3~", "\x03", "\x04", "\x01", "\x05", "\x17"


class Chat:
    """A program on a terminal of its own; everything it prints comes back in one stream."""

    def __init__(self, test, *args, template=None, size=(24, 80), env=None):
        reader, writer = pty.openpty()
        self.test, self.reader, self.seen = test, reader, ""
        self.resize(*size)

        def take_terminal():  # so that Ctrl-C becomes a signal
            fcntl.ioctl(writer, termios.TIOCSCTTY, 0)

        env = {"TERM": "xterm-256color", "HOME": test.folder, "XDG_STATE_HOME": None,
               "LC_ALL": "C.UTF-8", "NO_COLOR": "1"} | (env or {})
        self.process = spawn("chat", "--template", template or test.plain, "--stats", *args,
                             stdin=writer, stdout=writer, stderr=writer, start_new_session=True,
                             preexec_fn=take_terminal, env=env)
        os.close(writer)
        test.addCleanup(os.close, reader)
        test.addCleanup(self.process.wait)
        test.addCleanup(self.process.kill)

    def resize(self, rows, columns):
        fcntl.ioctl(self.reader, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def read(self):
        try:
            part = os.read(self.reader, 4096)
        except OSError:  # how a terminal says that nobody writes any more
            part = b""
        self.seen += part.decode(errors="replace").replace("\r\n", "\n")
        return part

    def wait_for(self, text):
        end = time.monotonic() + SLOW
        while text not in ESCAPES.sub("", self.seen):
            self.test.assertLess(time.monotonic(), end, self.seen)
            if not self.read():
                self.test.fail(f"{text!r} never came: {self.seen}")
        before, self.seen = ESCAPES.sub("", self.seen).split(text, 1)
        return before

    def type(self, keys):
        os.write(self.reader, keys.encode())

    def say(self, keys):
        self.type(keys + "\n")

    def prompt(self):
        return self.wait_for("> ")

    def ask(self, keys):
        """Says it and waits for the next prompt."""
        self.say(keys)
        self.wait_for("of them from the cache")
        self.wait_for("]")
        self.prompt()

    def shown(self):
        """The conversation as the model gets it."""
        self.say("/show")
        self.wait_for("/show\n")
        return self.prompt()

    def modes(self):
        return termios.tcgetattr(self.reader)[3]

    def ends_with(self, code):
        self.test.assertEqual(self.process.wait(timeout=SLOW), code)


class TerminalCase(CliCase):
    # Typing races with an answer: what fails is tried once more, what is broken fails twice.
    def run(self, result=None):
        first = unittest.TestResult()
        super().run(first)
        if first.failures or first.errors:
            return super().run(result)
        result.startTest(self)
        for _, reason in first.skipped:
            result.addSkip(self, reason)
        if not first.skipped:
            result.addSuccess(self)
        result.stopTest(self)
        return result

    def setUp(self):
        super().setUp()
        self.plain = self.write("plain.jinja", PLAIN)

    def chat(self, *args, **more):
        chat = Chat(self, *args, **more)
        chat.prompt()
        return chat

    def said(self, keys, *args, **more):
        """What becomes a message when these keys are typed."""
        chat = self.chat("-n", "1", "--system", "[", "--temp", "0", *args, **more)
        chat.ask(keys)
        path = self.path("said.json")
        chat.say("/save " + path)
        chat.wait_for("saved")
        chat.prompt()
        chat.say("/bye")
        chat.ends_with(0)
        with open(path, encoding="utf-8") as file:
            return [m["content"] for m in json.load(file)["messages"] if m["role"] == "user"][-1]


class EditingTest(TerminalCase):
    def test_keys(self):
        for keys, line in (("dog" + LEFT * 3 + "a ", "a dog"),
                           ("og" + CTRL_A + "d" + CTRL_E + "s", "dogs"),
                           ("og" + HOME + "d" + END + "s", "dogs"),
                           ("xdog" + HOME + DELETE, "dog"),
                           ("dogx\x7f", "dog"),
                           ("one two" + CTRL_W + "three", "one three"),
                           ("big dog" + "\x1b[1;5D" + "red ", "big red dog")):
            with self.subTest(keys):
                self.assertEqual(self.said(keys), line)

    def test_utf8_and_wide_characters(self):
        for keys, line in (("Grüße", "Grüße"),
                           ("Grüße" + LEFT * 2 + "\x7f" + "u", "Gruße"),
                           ("日本" + LEFT + "x", "日x本"),
                           ("日本語" + "\x7f", "日本"),
                           ("a😀b" + LEFT * 2 + DELETE, "ab"),
                           ("日" * 60 + HOME + "x", "x" + "日" * 60)):
            with self.subTest(keys):
                self.assertEqual(self.said(keys), line)

    def test_in_a_locale_without_them(self):
        self.assertEqual(self.said("Grüße" + LEFT + "x", env={"LC_ALL": "C"}), "Grüßxe")

    def test_messages_of_several_lines(self):
        self.assertEqual(self.said("one\x1b\rtwo"), "one\ntwo")
        self.assertEqual(self.said('"""one\ntwo"""'), "one\ntwo")

    def test_paste(self):
        text = "first line\nsecond /line\tat a tab\nthird"
        pasted = "\x1b[200~" + text.replace("\n", "\r") + "\r\x1b[201~"
        self.assertEqual(self.said(pasted), text)
        self.assertEqual(self.said("see: " + pasted + " done"), "see: " + text + " done")
        long = "\n".join(f"line {i} with some words in it" for i in range(200))
        self.assertEqual(self.said("\x1b[200~" + long.replace("\n", "\r") + "\x1b[201~",
                                   "-c", "8k"), long)

    def test_the_window_changes(self):
        chat = self.chat("-n", "1")
        chat.type("a long line of words that is ")
        chat.resize(24, 30)
        os.kill(chat.process.pid, signal.SIGWINCH)
        chat.type("broken" + HOME + "x")
        chat.say("")
        chat.wait_for("from the cache")
        chat.prompt()
        self.assertIn("xa long line of words that is broken ", chat.shown())

    def test_a_terminal_without_keys(self):
        chat = self.chat("-n", "1", env={"TERM": "dumb"})
        chat.ask("Once")
        chat.say("/bye")
        chat.ends_with(0)


class HistoryTest(TerminalCase):
    def file(self):
        return self.path(".local", "state", "onepass", "chat_history")

    def say_and_leave(self, *lines, args=()):
        chat = self.chat("-n", "1", *args)
        for line in lines:
            chat.ask(line)
        chat.say("/bye")
        chat.ends_with(0)

    def test_comes_back(self):
        self.say_and_leave("first", "second\x1b\rline")
        self.assertEqual(stat.S_IMODE(os.stat(self.file()).st_mode), 0o600)
        self.assertEqual(self.said(UP * 2), "second\nline")  # behind it is /bye
        self.assertEqual(self.said(UP * 8 + "!"), "first!")

    def test_none(self):
        self.say_and_leave("first", args=["--no-history"])
        self.assertFalse(os.path.exists(self.file()))
        other = self.path("mine")
        self.say_and_leave("first", args=["--history", other])
        self.assertEqual(self.read("mine"), "first\n/bye\n")
        self.assertFalse(os.path.exists(self.file()))

    def test_two_at_a_time(self):
        chats = [self.chat("-n", "1") for _ in range(2)]
        for i in range(8):
            for number, chat in enumerate(chats):
                chat.ask(f"line {i} of {number}")
        for chat in chats:
            chat.say("/bye")
            chat.ends_with(0)
        with open(self.file(), encoding="utf-8") as file:
            lines = file.read().splitlines()
        self.assertEqual(lines[:-2], [f"line {i} of {n}" for i in range(8) for n in range(2)])

    def test_bounded(self):
        os.makedirs(os.path.dirname(self.file()))
        self.write(self.file(), "".join(f"line {i}\n" for i in range(5000)))
        self.say_and_leave("newest")
        with open(self.file(), encoding="utf-8") as file:
            lines = file.read().splitlines()
        self.assertLessEqual(len(lines), 1100)
        self.assertEqual(lines[-2:], ["newest", "/bye"])
        self.assertIn("line 4999", lines)

    def test_damaged(self):
        os.makedirs(os.path.dirname(self.file()))
        self.write(self.file(), b"\xff\xfe\\\n\n\x00binary\nlast\n")
        self.assertEqual(self.said(UP), "last")
        os.remove(self.file())
        os.mkdir(self.file())
        chat = Chat(self, "-n", "1")
        chat.wait_for("no history")
        chat.prompt()
        chat.ask("Once")


class CommandsTest(TerminalCase):
    def test_a_conversation(self):
        chat = self.chat("-n", "6", "--system", "A story.")
        chat.say("/help")
        self.assertIn("/reset", chat.prompt())
        chat.ask("Once upon a time")
        self.assertIn("<s>A story. Once upon a time ", chat.shown())
        chat.say("/reset")
        chat.wait_for("starts over")
        chat.prompt()
        self.assertIn("<s>A story. \n", chat.shown())
        chat.say("/nonsense")
        chat.wait_for("unknown command '/nonsense'")
        chat.prompt()
        chat.say("/sve x")
        chat.wait_for("did you mean '/save'?")
        chat.prompt()
        chat.say("/system Be brief.")
        chat.wait_for("is set")
        chat.prompt()
        self.assertIn("<s>Be brief. \n", chat.shown())
        chat.say("/quit")
        chat.ends_with(0)

    def test_undo_and_regen(self):
        chat = self.chat("-n", "6", "--temp", "1.5", "--top-k", "0", "--seed", "1")
        chat.say("/undo")
        chat.wait_for("no message to take back")
        chat.prompt()
        chat.say("/regen")
        chat.wait_for("no answer to make again")
        chat.prompt()
        chat.ask("Once upon a time")
        first = chat.shown()
        chat.ask("/regen")
        again = chat.shown()
        self.assertNotEqual(first, again)
        self.assertIn("<s>Once upon a time ", again)
        chat.ask("And then")
        chat.say("/undo")
        chat.wait_for("taken back")
        chat.prompt()
        self.assertEqual(chat.shown(), again)

    def test_save_and_load(self):
        chat = self.chat("-n", "6", "--system", "A story.")
        chat.ask("Once upon a \"time\" – Grüße")
        before = chat.shown()
        path = self.path("chat.json")
        chat.say("/save " + path)
        chat.wait_for("saved 3 messages")
        chat.prompt()
        whole = self.read("chat.json")
        for i, bad in enumerate(("", "{", whole[:len(whole) // 2], '{"messages": 3}', "\x00" * 50,
                                 '{"messages": [{"role": "king", "content": "x"}]}',
                                 '{"messages": [{"role": "user", "content": 7}]}',
                                 '{"messages": [{"role": "user"}]}')):
            chat.say("/load " + self.write(f"bad{i}.json", bad))
            chat.wait_for("stays as it was")
            chat.prompt()
        chat.say("/load " + self.path("none.json"))
        chat.wait_for("none.json")
        chat.prompt()
        self.assertEqual(chat.shown(), before)
        chat.say("/reset")
        chat.wait_for("starts over")
        chat.prompt()
        chat.say("/load " + path)
        chat.wait_for("loaded 3 messages")
        chat.prompt()
        self.assertEqual(chat.shown(), before)
        chat.say("/save /no/such/folder/x")
        chat.wait_for("/no/such/folder")
        chat.prompt()
        self.assertEqual(os.listdir(self.folder).count("chat.json"), 1)

    def test_settings(self):
        chat = self.chat("-n", "6", "--temp", "0.7")
        for line, says in (("/set temp 0.25", None), ("/set seed=7", None), ("/set full drop", None),
                           ("/set temp hot", "expected a number"), ("/set temp -1", "temperature"),
                           ("/set tmep 1", "did you mean 'temp'?"), ("/set full never", "restart"),
                           ("/set stats maybe", "on or off")):
            chat.say(line)
            if says:
                chat.wait_for(says)
            chat.prompt()
        chat.say("/set")
        chat.wait_for("/set\n")
        rows = dict(line.split() for line in chat.prompt().splitlines() if line)
        self.assertEqual((rows["temp"], rows["seed"], rows["full"], rows["n"]),
                         ("0.25", "7", "drop", "6"))

    def test_stats(self):
        chat = self.chat("-n", "2")
        chat.say("/set stats off")
        chat.prompt()
        chat.say("Once")
        self.assertNotIn("tok/s", chat.prompt())
        chat.say("/stats")
        chat.wait_for("from the cache")

    def test_a_full_context_is_announced(self):
        chat = self.chat("-n", "24", "-c", "64", "--temp", "0")
        chat.say("the dog ran to the big tree and sat on the swing all day " * 2)
        chat.wait_for("the context will soon be full")
        chat.prompt()
        chat.say("dog cat " * 40)
        chat.wait_for("the context holds 64")
        chat.wait_for("/undo or /reset makes room")
        chat.prompt()
        chat.say("/set full drop")
        chat.prompt()
        chat.say("dog cat " * 10)
        chat.wait_for("are forgotten")
        chat.wait_for("from the cache")


class InterruptTest(TerminalCase):
    def test_ctrl_c_stops_the_answer_only(self):
        template = self.write("long.jinja",
                              "{{ bos_token }}Once upon a time{{ messages[-1].content }}")
        chat = self.chat("-n", "100000", "-c", "32k", "--temp", "1.5", "--top-k", "0",
                         template=template)
        chat.say(" there was")
        chat.wait_for("there was")
        time.sleep(0.05)
        chat.type(CTRL_C)
        chat.wait_for("from the cache")
        chat.prompt()
        chat.shown()
        chat.type(CTRL_D)
        chat.ends_with(0)

    def test_ctrl_c_at_the_prompt_asks_once(self):
        for _ in range(3):  # just before the wait for a line, or in it
            chat = self.chat("-n", "1")
            chat.type("half a line" + CTRL_C)
            chat.wait_for("Ctrl-C once more ends")
            chat.prompt()
            chat.type(CTRL_C)
            chat.ends_with(130)
            self.assertNotEqual(chat.modes() & termios.ECHO, 0)
        chat = self.chat("-n", "1")
        chat.type("half" + CTRL_C)
        chat.wait_for("once more")
        chat.prompt()
        chat.ask("whole")  # what was half typed is gone, and the question with it
        self.assertIn("<s>whole ", chat.shown())
        chat.type(CTRL_C)
        chat.wait_for("once more")
        chat.prompt()
        chat.type(CTRL_D)
        chat.ends_with(0)

    def test_typing_during_an_answer_is_kept(self):
        chat = self.chat("-n", "3000", "-c", "4k", "--temp", "1.5", "--top-k", "0", "--no-wrap")
        chat.say("Once upon a time")
        chat.wait_for("Once upon a time\n")
        self.assertEqual(chat.modes() & termios.ECHO, 0)
        chat.type("typed zwölf ahead")
        answer = chat.wait_for("from the cache")
        self.assertNotIn("ahead", answer)
        chat.prompt()
        chat.ask("!")
        self.assertIn("typed zwölf ahead! ", chat.shown())


class LooksTest(TerminalCase):
    def test_words_are_kept_whole(self):
        chat = self.chat("-n", "80", "--temp", "0", size=(24, 24))
        chat.say("Once upon a time")
        chat.wait_for("a time\n")
        lines = chat.wait_for("[").splitlines()
        self.assertGreater(len(lines), 3)
        self.assertLessEqual(max(map(len, lines)), 24)
        text = " ".join(line for line in lines if line)
        whole = self.text("chat", "-q", "--template", self.plain, "-n", "80", "--temp", "0",
                          stdin=b"Once upon a time\n")
        self.assertEqual(text.split(), whole.split())

    def test_colour(self):
        for env, coloured in (({"NO_COLOR": None}, True), ({"NO_COLOR": ""}, True),
                              ({"NO_COLOR": "1"}, False)):
            chat = Chat(self, "-n", "1", env=env)
            while "> " not in chat.seen:
                chat.read()
            self.assertEqual("\x1b[1;32m" in chat.seen, coloured, chat.seen)


if __name__ == "__main__":
    main()
