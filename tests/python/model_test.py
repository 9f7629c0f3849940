"""model_test.py SOURCE_DIR [unittest arguments]: models from Python."""

import gc
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import weakref

import support
import numpy as np
import onepass


class ModelTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.device = onepass.Device("cpu", threads=2)
        cls.model = onepass.Model(support.STORIES, cls.device)

    def test_info(self):
        info = self.model.info
        self.assertEqual(info.architecture, "llama")
        self.assertEqual(info.tokenizer_error, "")
        self.assertGreater(info.vocab, 256)
        self.assertIn("llama", repr(self.model))

    def test_tokens_there_and_back(self):
        text = "Tom had a red ball. \u00e9\U0001f600"
        ids = self.model.tokenize(text)
        self.assertEqual(ids[1:], self.model.tokenize(text, special=False))
        self.assertEqual(self.model.detokenize(ids), text)
        self.assertNotEqual(self.model.detokenize(ids, special=True), text)
        self.assertEqual(self.model.tokenize("", special=False), [])
        self.assertEqual(self.model.detokenize([]), "")

    def test_generate_streams_and_continues(self):
        pieces = []
        sequence = self.model.sequence(context=256)
        whole = sequence.generate("Once upon a time", max_tokens=20, temperature=0,
                                  on_piece=lambda text, token: pieces.append((text, token)))
        self.assertEqual("".join(text for text, _ in pieces), whole.text)
        self.assertEqual([token for _, token in pieces if token is not None], whole.tokens)
        self.assertEqual((len(whole.tokens), whole.stop, whole.prompt_tokens), (20, "max_tokens", 5))
        self.assertEqual(len(sequence), 5 + 19)  # the last token is not computed yet
        self.assertEqual(sequence.context, 256)
        parts = self.model.sequence(context=256)
        tokens = parts.generate("Once upon a time", max_tokens=8, temperature=0).tokens
        tokens += parts.generate("", max_tokens=12, temperature=0).tokens
        self.assertEqual(tokens, whole.tokens)
        ids = self.model.tokenize("Once upon a time")
        self.assertEqual(self.model.generate(ids, context=256, max_tokens=20, temperature=0).tokens,
                         whole.tokens)

    def test_seeds(self):
        def tell(seed):
            return self.model.generate("One day", context=128, max_tokens=20, temperature=1.0, seed=seed).text
        self.assertEqual(tell(3), tell(3))
        self.assertNotEqual(tell(3), tell(4))

    def test_callers_end_texts(self):
        told = self.model.generate("Once", context=128, max_tokens=20, on_piece=lambda text, token: True)
        self.assertEqual((len(told.tokens), told.stop), (1, "caller"))

        def broken(text, token):
            raise KeyError("mine")
        with self.assertRaises(KeyError):
            self.model.generate("Once", context=128, on_piece=broken)

    def test_logits(self):
        sequence = self.model.sequence(context=64)
        with self.assertRaises(onepass.Error):
            sequence.logits()
        ids = self.model.tokenize("Once upon a time")
        sequence.append(ids)
        logits = sequence.logits()
        self.assertEqual((logits.dtype, logits.shape), (np.float32, (self.model.info.vocab,)))
        greedy = self.model.generate("Once upon a time", context=64, max_tokens=1, temperature=0).tokens
        self.assertEqual([int(logits.argmax())], greedy)
        sequence.truncate(2)
        self.assertEqual(len(sequence), 2)
        sequence.append(ids[2:])
        np.testing.assert_array_equal(sequence.logits(), logits)

    def test_a_sequence_goes_with_its_last_reference(self):
        sequence = self.model.sequence(context=64)
        sequence.generate("Once", max_tokens=3)
        sequence.append([5])
        with self.assertRaises(onepass.Error):
            sequence.generate([5] * 100, max_tokens=3)
        next(sequence.stream("Once", max_tokens=9))
        there = weakref.ref(sequence)
        gc.disable()
        try:
            del sequence
            self.assertIsNone(there())
        finally:
            gc.enable()

    def test_errors(self):
        with self.assertRaises(onepass.Error) as caught:
            onepass.Model("/nowhere/model.gguf", self.device)
        self.assertEqual(caught.exception.code, "not_found")
        with self.assertRaises(onepass.Error) as caught:
            self.model.sequence(context=8).generate("Once upon a time " * 10)
        self.assertEqual(caught.exception.code, "limit")
        with self.assertRaises(ValueError):
            self.model.sequence(kv="f8")
        with self.assertRaises(ValueError):
            self.model.generate("Once", max_tokens=0)
        with self.assertRaises(onepass.Error):
            self.model.generate("Once", context=64, temperature=-1.0)

    def test_a_name_is_no_device(self):
        with self.assertRaisesRegex(TypeError, "device is no onepass.Device, got str"):
            onepass.Model("synthetic:tiny:q8_0", "cpu")

    def test_numbers_that_do_not_fit_are_errors(self):
        sequence = self.model.sequence(context=64)
        small, large = "4294967295", "18446744073709551615"
        for wrong, message in (
                (lambda n: self.model.detokenize([1, n]), "ids[1] is {}, expected 0 to " + small),
                (sequence.truncate, "length is {}, expected 0 to " + small),
                (lambda n: sequence.append([n]), "tokens[0] is {}, expected 0 to " + small),
                (lambda n: sequence.generate([n]), "prompt[0] is {}, expected 0 to " + small),
                (lambda n: sequence.generate("a", max_tokens=n),
                 "max_tokens is {}, expected 1 to " + small),
                (lambda n: sequence.generate("a", top_k=n), "top_k is {}, expected 0 to " + small),
                (lambda n: sequence.generate("a", seed=n), "seed is {}, expected 0 to " + large),
                (lambda n: self.model.sequence(context=n),
                 "context is {}, expected 0 to " + small)):
            for number in (-1, 2**70):
                with self.assertRaises(ValueError) as caught:
                    wrong(number)
                self.assertEqual(str(caught.exception), message.format(number))
        self.assertEqual(len(sequence), 0)
        self.assertEqual(len(sequence.generate("a", max_tokens=1, seed=2**64 - 1).tokens), 1)

    def test_synthetic_and_progress(self):
        seen = []
        model = onepass.Model("synthetic:tiny:q4_0", self.device,
                              progress=lambda done, total: seen.append((done, total)))
        self.assertEqual(seen[-1][0], seen[-1][1])
        self.assertIn("synthetic", model.info.tokenizer_error)
        told = model.generate([1, 2, 3], context=32, max_tokens=4)
        self.assertEqual((len(told.tokens), told.text), (4, ""))
        with self.assertRaises(onepass.Error):
            model.tokenize("a")
        with self.assertRaises(onepass.Error) as caught:
            onepass.Model("synthetic:tiny:q4_0", self.device, progress=lambda done, total: True)
        self.assertEqual(caught.exception.code, "cancelled")

        def broken(done, total):
            raise KeyError("mine")
        with self.assertRaises(KeyError):
            onepass.Model("synthetic:tiny:q4_0", self.device, progress=broken)

    def test_example(self):
        environment = dict(os.environ, PYTHONPATH=support.PYTHON_DIR)
        path = os.path.join(support.SOURCE_DIR, "examples", "python_generate.py")
        result = subprocess.run([sys.executable, path, support.STORIES], env=environment, check=True,
                                capture_output=True, text=True)
        self.assertTrue(result.stdout.startswith("Once upon a time"))
        self.assertGreater(len(result.stdout), 60)
        self.assertEqual(len(result.stderr.splitlines()), 5)


class StreamTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.model = onepass.Model(support.STORIES, onepass.Device("cpu", threads=2))

    def test_pieces_are_the_text(self):
        pieces = list(self.model.stream("Tom had", max_tokens=30, seed=7))
        whole = self.model.generate("Tom had", max_tokens=30, seed=7)
        self.assertEqual("".join(piece.text for piece in pieces), whole.text)
        self.assertEqual([piece.token for piece in pieces if piece.token is not None], whole.tokens)

    def test_a_stream_that_is_left_ends(self):
        sequence = self.model.sequence(256)
        stream = sequence.stream("Tom had", max_tokens=200, temperature=0)
        first = [next(stream), next(stream)]
        # Nothing is computed until the next piece is asked for, and another call ends the stream.
        time.sleep(0.05)
        rest = sequence.generate("", max_tokens=10, temperature=0).tokens
        whole = self.model.generate("Tom had", max_tokens=12, temperature=0).tokens
        self.assertEqual([piece.token for piece in first] + rest, whole)
        self.assertEqual(list(stream), [])

    def test_a_program_that_leaves_a_stream_ends(self):
        program = ("import sys, onepass; stream = onepass.Model(sys.argv[1]).stream('Tom', max_tokens=200)\n"
                   "print(next(stream))")
        start = time.monotonic()
        subprocess.run([sys.executable, "-c", program, support.STORIES], check=True, timeout=60,
                       env=dict(os.environ, PYTHONPATH=support.PYTHON_DIR), capture_output=True)
        self.assertLess(time.monotonic() - start, 20)

    @unittest.skipUnless(os.environ.get("ONEPASS_PROGRAM"), "ONEPASS_PROGRAM is not set")
    def test_defaults_are_those_of_the_tool(self):
        told = self.model.generate("Tom had a red ball.")
        output = subprocess.run([os.environ["ONEPASS_PROGRAM"], "generate", "-q", "-m", support.STORIES, "--device",
                                 "cpu", "-p", "Tom had a red ball."], check=True, capture_output=True, text=True)
        self.assertEqual(told.text + "\n", output.stdout)
        self.assertGreater(len(told.tokens), 100)


class ChatTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        path = os.path.join(support.SOURCE_DIR, "tests", "text", "chat_templates", "zephyr.jinja")
        with open(path, encoding="utf-8") as file:
            cls.template = file.read()
        cls.model = onepass.Model(support.STORIES, onepass.Device("cpu", threads=2), chat_template=cls.template)

    def test_prompts(self):
        said = [{"role": "system", "content": "Be kind."}, {"role": "user", "content": "Hi \u00e9"}]
        text = self.model.chat_prompt(said)
        self.assertIn("Hi \u00e9", text)
        self.assertTrue(text.startswith(self.model.chat_prompt(said, answer=False)))
        self.assertNotEqual(text, self.model.chat_prompt(said, answer=False))
        model = onepass.Model(support.STORIES, chat_template="{{ tools }} {{ deep.er }}")
        self.assertEqual(model.chat_prompt([], tools=["a"], variables={"deep": {"er": 1}}), "['a'] 1")
        with self.assertRaises(onepass.Error) as caught:
            onepass.Model(support.STORIES).chat_prompt(said)
        self.assertEqual(caught.exception.code, "not_found")

    def test_a_conversation_computes_what_is_new(self):
        said = [{"role": "user", "content": "Tell me about Tom."}]
        sequence = self.model.sequence(256)
        first = sequence.generate(said, max_tokens=20)
        self.assertEqual(first, self.model.generate(said, max_tokens=20)._replace(
            prefill_ns=first.prefill_ns, first_token_ns=first.first_token_ns, decode_ns=first.decode_ns))
        said += [{"role": "assistant", "content": first.text}, {"role": "user", "content": "And Lily?"}]
        second = sequence.generate(said, max_tokens=20)
        alone = self.model.generate(said, max_tokens=20)
        self.assertEqual(second.text, alone.text)
        self.assertLess(second.prompt_tokens, alone.prompt_tokens / 2)
        # Another conversation is not taken for the one before.
        other = [{"role": "user", "content": "Tell me about Lily."}]
        self.assertEqual(sequence.generate(other, max_tokens=20).text, self.model.generate(other, max_tokens=20).text)


class ExampleTest(unittest.TestCase):
    def test_story(self):
        with tempfile.TemporaryDirectory() as folder:
            os.symlink(support.STORIES, os.path.join(folder, "model.gguf"))
            path = os.path.join(support.SOURCE_DIR, "examples", "python_story.py")
            result = subprocess.run([sys.executable, path], env=dict(os.environ, PYTHONPATH=support.PYTHON_DIR),
                                    cwd=folder, check=True, capture_output=True, text=True)
        self.assertEqual(result.stdout, onepass.Model(support.STORIES).generate("Once upon a time").text)

    def test_chat(self):
        environment = dict(os.environ, PYTHONPATH=support.PYTHON_DIR)
        folder = support.SOURCE_DIR
        result = subprocess.run(
            [sys.executable, os.path.join(folder, "examples", "python_chat.py"), support.STORIES,
             os.path.join(folder, "tests", "text", "chat_templates", "zephyr.jinja")],
            env=environment, check=True, capture_output=True, text=True)
        self.assertEqual(result.stdout.count("\n> ") + result.stdout.startswith("> "), 2)
        self.assertGreater(len(result.stdout), 150)


class InterruptTest(unittest.TestCase):
    """Ctrl-C reaches the caller within 50 ms. The best of a few tries: the machine may be busy."""

    def interrupt(self, action, after, check):
        best = 1.0
        for _ in range(8):
            sent = []

            def send():
                sent.append(time.monotonic())
                os.kill(os.getpid(), signal.SIGINT)
            timer = threading.Timer(after, send)
            timer.start()
            try:
                action()
            except KeyboardInterrupt as error:
                best = min(best, time.monotonic() - sent[0])
                check(error)
            else:
                self.fail("not interrupted")
            finally:
                timer.join()
            if best < 0.05:
                break
        self.assertLess(best, 0.05)

    def test_a_text(self):
        model = onepass.Model("synthetic:stories15m:q4_0", onepass.Device("cpu", threads=2))
        for on_piece in (None, lambda text, token: None):
            sequence = model.sequence(4096)

            def check(error):
                self.assertIsInstance(error, onepass.Interrupted)
                self.assertGreater(len(error.generated.tokens), 0)
                self.assertEqual(error.generated.stop, "caller")
                # What was made is what there is, and the sequence goes on.
                self.assertGreaterEqual(len(sequence) + 1, 3 + len(error.generated.tokens))
                sequence.generate([5], max_tokens=1)
                sequence.truncate(0)
            self.interrupt(lambda: sequence.generate([1, 2, 3], max_tokens=4000, on_piece=on_piece), 0.4, check)

            def take():
                for _ in sequence.stream([1, 2, 3], max_tokens=4000):
                    pass
        # In the library or in the loop: a KeyboardInterrupt in any case.
        self.interrupt(take, 0.4, lambda error: sequence.truncate(0))

    def test_a_long_prompt(self):
        model = onepass.Model("synthetic:smollm135m:q4_0", onepass.Device("cpu", threads=2))
        sequence = model.sequence(8192)
        ids = list(range(1, 8001))

        def check(error):
            self.assertEqual(getattr(error, "generated", None) and error.generated.tokens, [])
            self.assertEqual(len(sequence), 0)
        self.interrupt(lambda: sequence.generate(ids, max_tokens=5), 0.3, check)
        self.interrupt(lambda: sequence.append(ids), 0.3, lambda error: self.assertEqual(len(sequence), 0))

    def test_loading(self):
        self.interrupt(lambda: onepass.Model("synthetic:qwen3-0.6b:q8_0"), 0.2, lambda error: None)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]], verbosity=1)
