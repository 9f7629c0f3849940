"""chat_jinja_test.py CHAT_RENDER SOURCE_DIR TEST_DATA [unittest arguments]: chat templates rendered
by the library and by Jinja, which must agree. TEST_DATA may be empty; what needs it is then skipped."""

import datetime
import functools
import glob
import json
import os
import random
import struct
import subprocess
import sys
import unittest

CHAT_RENDER, SOURCE_DIR, TEST_DATA = sys.argv[1:4]
SYSTEM_PYTHON = "/usr/bin/python3"
HERE = os.path.dirname(os.path.abspath(__file__))
NOW = 1_700_000_000

try:
    import jinja2
    from jinja2.ext import Extension, loopcontrols
    from jinja2.sandbox import ImmutableSandboxedEnvironment
except ImportError:
    # The package of the system belongs to the interpreter of the system.
    if os.path.realpath(sys.executable) == os.path.realpath(SYSTEM_PYTHON) or not os.path.exists(
            SYSTEM_PYTHON):
        print("SKIPPED: no jinja2")
        sys.exit(77)
    os.execv(SYSTEM_PYTHON, [SYSTEM_PYTHON, *sys.argv])


class Generation(Extension):
    """The block that transformers uses to find the tokens of answers."""
    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("_same"), [], [], body).set_lineno(line)

    @staticmethod
    def _same(caller):
        return caller()


def environment():
    def raise_exception(message):
        raise jinja2.exceptions.TemplateError(message)

    def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
        return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators,
                          sort_keys=sort_keys)

    env = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True,
                                        extensions=[Generation, loopcontrols])
    env.filters["tojson"] = tojson
    env.globals["raise_exception"] = raise_exception
    env.globals["strftime_now"] = datetime.datetime.fromtimestamp(NOW).strftime
    return env


ENVIRONMENT = environment()


@functools.lru_cache(maxsize=None)
def compiled(text):
    return ENVIRONMENT.from_string(text)


def by_jinja(job):
    """The text, or None where Jinja has an error."""
    try:
        template = compiled(job["template"])
        return template.render(
            messages=job["messages"], tools=job.get("tools"), documents=None,
            add_generation_prompt=job["add_generation_prompt"], bos_token=job["bos_token"],
            eos_token=job["eos_token"], **job.get("variables", {}))
    except Exception:  # pylint: disable=broad-except
        return None


def by_library(jobs):
    lines = "".join(json.dumps(job) + "\n" for job in jobs)
    result = subprocess.run([CHAT_RENDER], input=lines.encode(), capture_output=True, timeout=120,
                            check=True)
    return [json.loads(line) for line in result.stdout.splitlines()]


def call(name, **arguments):
    return {"id": "call_0001", "type": "function",
            "function": {"name": name, "arguments": arguments}}


TOOLS = [
    {"type": "function", "function": {
        "name": "get_weather", "description": "Weather of a city, \"now\" & later",
        "parameters": {"type": "object", "properties": {
            "city": {"type": "string", "description": "Name, e.g. Zürich"},
            "days": {"type": "integer", "default": 3},
            "unit": {"type": "string", "enum": ["celsius", "kelvin"]}},
            "required": ["city"]},
        "return": {"type": "object", "additionalProperties": {"type": "number"}}}},
    {"type": "function", "function": {
        "name": "add", "description": "Adds numbers", "parameters": {
            "type": "object", "properties": {
                "values": {"type": "array", "items": {"type": "number"}, "description": "1.5, -2"},
                "exact": {"type": ["boolean", "null"]}}}}},
]
USER = {"role": "user", "content": "Hello, who are you?"}
ANSWER = {"role": "assistant", "content": "  I am a model. \n"}
CONVERSATIONS = {
    "one question": {"messages": [USER]},
    "system": {"messages": [{"role": "system", "content": "Be brief. /no_think"}, USER]},
    "several turns": {"messages": [
        {"role": "system", "content": "  Speak like <a pirate> & 'sing' \"loud\".\n"}, USER, ANSWER,
        {"role": "user", "content": "Straße, 世界, 🙂\nand a new line\t!"}]},
    "answer last": {"messages": [USER, ANSWER], "add_generation_prompt": False},
    "thinking": {"messages": [
        USER, {"role": "assistant", "content": "<think>\nhm, {{ x }}\n</think>\n\nFine."},
        {"role": "user", "content": "And now?"},
        {"role": "assistant", "content": "Good.", "reasoning_content": "They ask again.\n"}],
        "variables": {"enable_thinking": True}},
    "no thinking": {"messages": [USER], "variables": {"enable_thinking": False,
                                                      "date_string": "26 Jul 2024"}},
    "tools": {"messages": [{"role": "system", "content": "Use tools."}, USER], "tools": TOOLS},
    "tool calls": {"messages": [
        {"role": "user", "content": "Is it warm in Zürich?"},
        {"role": "assistant", "content": None,
         "tool_calls": [call("get_weather", city="Zürich", days=2, exact=True, limits=[1.5, None])]},
        {"role": "tool", "name": "get_weather", "content": "{\"celsius\": 21.5}"},
        {"role": "assistant", "content": "It is warm."}, {"role": "user", "content": "Thanks"}],
        "tools": TOOLS},
    "two tool calls": {"messages": [
        {"role": "user", "content": "Add"},
        {"role": "assistant", "content": "", "tool_calls": [call("add", values=[1, 2.5, -3e20]),
                                                            call("add", values=[])]},
        {"role": "tool", "content": "0.5"}, {"role": "tool", "content": "0"}], "tools": TOOLS},
    "parts": {"messages": [
        {"role": "user", "content": [{"type": "text", "text": " What is this? "},
                                     {"type": "image", "url": "a.png"}]},
        {"role": "assistant", "content": "A cat."}]},
    "wrong order": {"messages": [USER, USER, ANSWER]},
}


def job_for(template, conversation):
    job = {"template": template, "add_generation_prompt": True, "bos_token": "<s>",
           "eos_token": "</s>", "now": NOW, "messages": []}
    job.update(conversation)
    return job


class Compare(unittest.TestCase):
    maxDiff = None

    def agree(self, named_jobs):
        """Checks every (name, job); the number that Jinja renders."""
        rendered = 0
        answers = by_library([job for _, job in named_jobs])
        self.assertEqual(len(answers), len(named_jobs))
        for (name, job), answer in zip(named_jobs, answers):
            expected = by_jinja(job)
            with self.subTest(name=name):
                if expected is None:
                    self.assertIn("error", answer)
                else:
                    self.assertEqual(answer.get("text", answer), expected)
                    rendered += 1
        return rendered

    def agree_on_templates(self, templates):
        return self.agree([(f"{file}, {name}", job_for(template, conversation))
                           for file, template in templates
                           for name, conversation in CONVERSATIONS.items()])


def templates_in(*folder):
    """(file name, text) of the templates in a folder."""
    for path in sorted(glob.glob(os.path.join(*folder, "*.jinja"))):
        with open(path, encoding="utf-8") as file:
            yield os.path.basename(path), file.read()


def templates_of_models(*folder):
    """Likewise, of the GGUF files that have one."""
    key = b"tokenizer.chat_template" + struct.pack("<I", 8)
    for path in sorted(glob.glob(os.path.join(*folder, "*.gguf"))):
        with open(path, "rb") as file:
            data = file.read()
        at = data.find(key)
        if at >= 0:
            at += len(key)
            size, = struct.unpack_from("<Q", data, at)
            yield os.path.basename(path), data[at + 8:at + 8 + size].decode()


class TemplatesTest(Compare):
    def check(self, templates, what):
        rendered = self.agree_on_templates(templates)
        print(f"{len(templates)} templates {what}, {len(CONVERSATIONS)} conversations, "
              f"{rendered} rendered, the others refused by both")
        self.assertGreaterEqual(rendered, 6 * len(templates))

    def test_templates_in_the_style_of_known_models(self):
        templates = list(templates_in(HERE, "chat_templates"))
        self.assertGreaterEqual(len(templates), 20)
        self.check(templates, "of our own")

    @unittest.skipUnless(TEST_DATA and os.path.isdir(os.path.join(TEST_DATA, "templates")),
                         "no templates in ONEPASS_TEST_DATA")
    def test_published_templates(self):
        self.check(list(templates_in(TEST_DATA, "templates")), "as published")

    @unittest.skipUnless(TEST_DATA and os.path.isdir(os.path.join(TEST_DATA, "gguf")),
                         "no models in ONEPASS_TEST_DATA")
    def test_templates_of_models(self):
        self.check(list(templates_of_models(TEST_DATA, "gguf")), "of GGUF files")


class SnippetsTest(Compare):
    def test_snippets(self):
        with open(os.path.join(HERE, "chat_snippets.txt"), encoding="utf-8") as file:
            snippets = [line.rstrip("\n").replace("\\n", "\n") for line in file if line.strip()]
        conversation = {
            "messages": CONVERSATIONS["several turns"]["messages"], "tools": TOOLS,
            "variables": {"n": 7, "x": -2.5, "big": 10**15, "s": "Hello World", "e": "", "u": "Ärger 🙂",
                          "l": [3, 1, 2], "w": ["b", "A", "c", "a"], "d": {"b": 1, "a": [2, None]},
                          "m": [{"k": 1, "t": "x"}, {"k": 2, "t": "y"}, {"k": 1}],
                          "nested": {"a": {"b": [{"c": "deep"}]}}, "yes": True, "nil": None}}
        jobs = [(snippet, job_for(snippet, conversation)) for snippet in snippets]
        rendered = self.agree(jobs)
        print(f"{len(snippets)} snippets, {rendered} rendered")
        self.assertGreaterEqual(rendered, 0.6 * len(snippets))


class WhiteSpaceTest(Compare):
    """Random templates: which white space stays is where evaluators differ most."""
    GAPS = (" ", "  ", "\n", "\t", "a", "b\n", "\r\n", "\u00a0", "\x0b", "\u2028", "}", "%", "#")

    def setUp(self):
        self.random = random.Random(20240611)

    def gap(self):
        return "".join(self.random.choice(self.GAPS) for _ in range(self.random.randint(0, 5)))

    def tag(self, text):
        begin, end = (self.random.choice(("", "", "", "-", "+")) for _ in range(2))
        return f"{{%{begin} {text} {end}%}}"

    def part(self, depth):
        inner = self.parts(depth - 1) if depth > 0 else self.gap()
        begin, end = (self.random.choice(("", "-")) for _ in range(2))
        return self.random.choice((
            lambda: self.gap(),
            lambda: f"{{{{{begin} n {end}}}}}",
            lambda: f"{{#{begin} comment {end}#}}",
            lambda: f"{self.tag('raw').replace('+%', '%')}{self.gap()}{self.tag('endraw')}",
            lambda: self.tag("if n > 3") + inner + self.tag("else") + self.gap() + self.tag("endif"),
            lambda: self.tag("for i in l") + inner + self.tag("endfor"),
            lambda: self.tag("set q") + inner + self.tag("endset") + "[{{ q }}]",
            lambda: self.tag("generation") + inner + self.tag("endgeneration"),
            lambda: self.tag("macro f()") + inner + self.tag("endmacro") + "{{ f() }}"))()

    def parts(self, depth):
        return "".join(self.gap() + self.part(depth) for _ in range(self.random.randint(0, 3))) + self.gap()

    def test_random_templates(self):
        templates = [self.parts(3) for _ in range(1000)]
        jobs = [(template, job_for(template, {"variables": {"n": 7, "l": [1, 2]}}))
                for template in templates]
        self.assertGreaterEqual(self.agree(jobs), 900)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[4:]])
