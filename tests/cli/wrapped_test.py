"""wrapped_test.py PROGRAM SOURCE_DIR TEST_DATA [unittest arguments]: the command-line tool on
devices that fail, or that run launches in an unlikely order (wrapped_device.cpp)."""

from support import CliCase, main

STORY = ("generate", "-n", "12", "--temp", "0")


class FaultTest(CliCase):
    def stop(self, call, number):
        """Runs the story on a device whose call fails; (stderr, the part of the story on stdout)."""
        failed = self.ok(*STORY, code=1, env={"TEST_BACKEND": f"fault {call} {number}"})
        part = failed.stdout.decode().rstrip("\n")
        self.assertTrue(self.text(*STORY).startswith(part), part)
        return failed.stderr.decode(), part

    def test_a_call_that_fails_is_the_error_of_the_command(self):
        for call, code in (("allocate", "out_of_memory"), ("write", "submission_failed"),
                           ("record", "kernel_build"), ("submit", "submission_failed"),
                           ("wait", "submission_failed")):
            with self.subTest(call=call):
                errors, _ = self.stop(call, 1)
                self.assertRegex(errors, f"onepass: {code}: .*injected failure of {call}")

    def test_what_was_written_before_stays(self):
        self.assertEqual(self.stop("submit", 1)[1], "")
        self.assertGreater(len(self.stop("submit", 8)[1].split()), 2)


class ShuffleTest(CliCase):
    def test_other_orders_give_the_same_text(self):
        expected = self.text(*STORY)
        for seed in (1, 2):
            shuffled = self.ok(*STORY, env={"TEST_BACKEND": f"shuffle {seed}"})
            self.assertEqual(shuffled.stdout.decode(), expected)
            self.assertIn(" on shuffle ", shuffled.stderr.decode())


if __name__ == "__main__":
    main()
