"""model_test.py SOURCE_DIR [unittest arguments]: models from Python."""

import os
import subprocess
import sys
import unittest

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
        whole = sequence.generate("Once upon a time", max_tokens=20,
                                  on_piece=lambda text, token: pieces.append((text, token)))
        self.assertEqual("".join(text for text, _ in pieces), whole.text)
        self.assertEqual([token for _, token in pieces if token is not None], whole.tokens)
        self.assertEqual((len(whole.tokens), whole.stop, whole.prompt_tokens), (20, "max_tokens", 5))
        self.assertEqual(len(sequence), 5 + 19)  # the last token is not computed yet
        self.assertEqual(sequence.context, 256)
        parts = self.model.sequence(context=256)
        tokens = parts.generate("Once upon a time", max_tokens=8).tokens
        tokens += parts.generate("", max_tokens=12).tokens
        self.assertEqual(tokens, whole.tokens)
        ids = self.model.tokenize("Once upon a time")
        self.assertEqual(self.model.generate(ids, context=256, max_tokens=20).tokens, whole.tokens)

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
        greedy = self.model.generate("Once upon a time", context=64, max_tokens=1).tokens
        self.assertEqual([int(logits.argmax())], greedy)
        sequence.truncate(2)
        self.assertEqual(len(sequence), 2)
        sequence.append(ids[2:])
        np.testing.assert_array_equal(sequence.logits(), logits)

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


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]], verbosity=1)
