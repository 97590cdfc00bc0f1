"""What scripts/check_manual runs and compares, on pages made up for it and a program that prints what it is told."""

import pathlib
import subprocess
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).parents[2] / "scripts" / "check_manual"
FENCE = "```"


def sh(*lines):
    return "\n".join([FENCE + "sh", *lines, FENCE, ""])


def output(*lines):
    return "\n".join([FENCE, *lines, FENCE, ""])


class CheckManual(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.page = pathlib.Path(self.folder.name) / "page.md"
        self.build = pathlib.Path(self.folder.name) / "build"
        self.build.mkdir()
        (self.build / "flyball").write_text('#!/bin/sh\n[ "$1" != fail ] || exit 3\necho "$@"\n')
        (self.build / "flyball").chmod(0o755)

    def check(self, *parts, options=()):
        self.page.write_text("\n".join(parts))
        done = subprocess.run([SCRIPT, "--build", self.build, *options, self.page], capture_output=True, text=True,
                              check=False)
        self.assertEqual(done.stderr, "")
        return done.returncode, done.stdout

    def assert_fails(self, words, *parts):
        status, said = self.check(*parts)
        self.assertEqual(status, 1, said)
        self.assertIn(words, said)

    def assert_passes(self, *parts):
        status, said = self.check(*parts)
        self.assertEqual(status, 0, said)
        return said

    def test_what_is_printed_is_what_is_shown(self):
        said = self.assert_passes(sh("flyball one", "flyball two"), output("one", "two"))
        self.assertIn("1 blocks of commands; 1 steps run, 1 outputs compared, 0 not run", said)

    def test_a_difference_is_shown_with_its_place(self):
        self.page.write_text("")
        status, said = self.check("Words.\n", sh("flyball saves 12.61 %"), output("saves 12.60 %"))
        self.assertEqual(status, 1)
        self.assertIn("page.md:3: flyball saves 12.61 %", said)
        self.assertIn("-saves 12.60 %", said)
        self.assertIn("+saves 12.61 %", said)

    def test_a_command_that_fails_is_found_even_where_nothing_is_shown_and_others_follow(self):
        self.assert_fails("status 3: flyball fail", sh("flyball fail", "flyball goes on"))

    def test_errors_count_as_printed(self):
        self.assert_passes(sh("flyball warning >&2"), output("warning"))

    def test_blocks_share_one_shell_and_one_folder(self):
        self.assert_passes(sh("X=5; mkdir sub; cd sub"), sh('flyball "$X" "$(basename "$PWD")"'), output("5 sub"))

    def test_console_blocks_hold_commands_and_what_they_print(self):
        page = "\n".join([FENCE + "console", "$ flyball a \\", "  b", "a b", "$ flyball c", "c", FENCE])
        self.assertIn("2 outputs compared", self.assert_passes(page))
        self.assert_fails("+c", page.replace("\nc\n", "\nd\n"))

    def test_what_is_not_run_is_told_with_its_reason(self):
        said = self.assert_passes("<!-- check: not run: wants a GPU -->", sh("flyball fail"))
        self.assertIn("line 2 not run: wants a GPU", said)
        self.assert_fails("needs a reason", "<!-- check: not run -->", sh("flyball fail"))

    def test_what_is_needed_and_not_there_is_told(self):
        said = self.assert_passes("<!-- check: needs false: wants a moon -->", sh("flyball fail"))
        self.assertIn("not run: wants a moon", said)
        self.assert_fails("status 3", "<!-- check: needs true: nothing -->", sh("flyball fail"))

    def test_dots_leave_lines_and_words_open(self):
        self.assert_passes(sh("printf '%s\\n' one two three 'four of 4'"), output("one", "...", "four ... 4"))
        self.assert_fails("-five", sh("printf '%s\\n' one two three four"), output("one", "...", "five"))

    def test_figures_may_vary_where_it_is_said_but_words_may_not(self):
        vary = "<!-- check: figures vary: a clock -->"
        self.assert_passes(sh("flyball took 12.5 s"), vary, output("took  3 s"))
        self.assert_fails("+took 12.5 s", sh("flyball took 12.5 s"), vary, output("lasted 3 s"))

    def test_figures_may_differ_by_what_is_said(self):
        within = "<!-- check: figures within 5 %: a meter -->"
        self.assert_passes(sh("flyball 103 J"), within, output("100 J"))
        self.assert_fails("+106 J", sh("flyball 106 J"), within, output("100 J"))

    def test_the_status_may_be_part_of_the_page(self):
        self.assert_passes("<!-- check: status 3 -->", sh("flyball fail"))
        self.assert_fails("expected status 3", "<!-- check: status 3 -->", sh("flyball works"))

    def test_hidden_commands_come_first_and_placeholders_are_read(self):
        self.assert_passes("<!-- check: first: FILE=input.csv -->", "<!-- check: read: PLAN.csv as $FILE -->",
                           sh("flyball PLAN.csv"), output("input.csv"))
        self.assert_fails("does not have 'NAME'", "<!-- check: read: NAME as x -->", sh("flyball PLAN.csv"))

    def test_tables_and_figures_in_prose(self):
        table = "<!-- check: table: printf '| a | b |\\n| - | - |\\n| 1 | 2 |\\n' -->\n\n| a | b |\n| - | - |\n| 1 | {} |\n"
        self.assert_passes(table.format(2))
        self.assert_fails("+| 1 | 2 |", table.format(3))
        prose = "<!-- check: prose: flyball saves 4 % -->\nIt\nsaves {} % of all.\n"
        self.assert_passes(prose.format(4))
        self.assert_fails("has not: saves 4 %", prose.format(5))

    def test_a_shown_text_without_its_command_is_refused(self):
        self.assert_fails("name its language", output("made up"))
        self.assert_fails("put it between fences", "Words.\n\n    flyball plan\n")
        self.assert_fails("unknown directive", "<!-- check: nothing -->", sh("true"))
        self.assert_fails("no block follows", "<!-- check: not run: why -->", "Words.")

    def test_write_puts_in_what_was_printed_and_only_that(self):
        status, said = self.check("Words.\n", sh("printf '%s\\n' one two three"), output("eins", "...", "three"),
                                  options=["--write"])
        self.assertEqual(status, 1)  # this time; the next is well
        self.assertIn("1 outputs written", said)
        self.assertEqual(self.page.read_text().splitlines()[-5:-1], [FENCE, "one", "...", "three"])
        self.assert_passes(self.page.read_text())

    def test_whoever_is_left_in_the_background_is_ended(self):
        mark = self.build / "mark"
        self.assert_passes('<!-- check: first: export MARK="$(dirname "$(readlink -f build/flyball)")/mark" -->',
                           "<!-- check: runs on -->",
                           sh("sh -c 'trap \"echo ended > $MARK; exit\" TERM; : > $MARK.on; while :; do sleep 0.01; done'"),
                           "<!-- check: first: wait_for test -e $MARK.on -->", sh("flyball done"))
        self.assertEqual(mark.read_text(), "ended\n")


if __name__ == "__main__":
    unittest.main()
