"""scripts/check_layers must accept a clean tree and refuse each kind of violation, naming the line."""
import pathlib
import unittest

from small_tree import run_on

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "scripts/check_layers"

CLEAN = {
    "cmake/layers.txt": "# bottom first\nbase:\nplan: base\napi: plan base\n",
    "src/README.md": "| folder | what |\n|---|---|\n| `api` | a |\n| `plan` | p |\n| `base` | b |\n",
    "src/base/units.h": "#include <vector>\n",
    "src/plan/planner.h": '#include "base/units.h"\n',
    "src/plan/planner.cpp": '#include "base/units.h"\n#include <fmt/format.h>\n',
    "src/api/state.h": '#include "base/units.h"\n',
    "src/api/api.cpp": '#include "flyball/flyball.h"\n#include "plan/planner.h"\n',
    "include/flyball/flyball.h": '#include <string>\n#include "flyball/types.h"\n',
    "include/flyball/types.h": "",
}


def run(changes, stream="stderr"):
    """Exit status and complaints, or another stream, for the clean tree with `changes` (path -> text; None removes)."""
    result = run_on(SCRIPT, {**CLEAN, **changes})
    return result.returncode, getattr(result, stream)


class CheckLayers(unittest.TestCase):
    def refused(self, changes, *expected):
        status, complaints = run(changes)
        self.assertEqual(status, 1, complaints)
        for text in expected:
            self.assertIn(text, complaints)
        self.assertEqual(complaints.count("\n"), 1, complaints)

    def test_accepts_a_clean_tree(self):
        self.assertEqual(run({}), (0, ""))

    def test_draws_a_folder_above_the_highest_that_it_includes(self):
        # base includes nothing; net and plan include base alone, so they are on floor 1; api includes plan: floor 2.
        changes = {"cmake/layers.txt": "base:\nnet: base\nplan: base\napi: plan base\n",
                   "src/README.md": CLEAN["src/README.md"] + "| `net` | n |\n",
                   "src/net/client.h": '#include "base/units.h"\n'}
        self.assertEqual(run(changes, "stdout"),
                         (0, "  floor 2  |  api\n  floor 1  |  net   plan\n  floor 0  |  base\n"))
        self.assertEqual(run({"src/api/state.h": ""}, "stdout"), (1, ""))

    def test_refuses_an_edge_upwards(self):
        self.refused({"src/base/units.h": '#include <vector>\n#include "plan/planner.h"\n'},
                     "src/base/units.h:2", "base may not include plan/planner.h")

    def test_refuses_an_edge_in_disguise(self):
        self.refused({"src/base/units.h": '  #  include   "plan/planner.h"\n'}, "src/base/units.h:1")
        self.refused({"src/base/units.h": "#include <plan/planner.h>\n"}, "src/base/units.h:1", "with quotes")
        self.refused({"src/base/units.h": '#include "../plan/planner.h"\n'}, "src/base/units.h:1")

    def test_refuses_an_include_without_its_folder(self):
        self.refused({"src/plan/planner.cpp": '#include "planner.h"\n'}, "src/plan/planner.cpp:1", '"plan/planner.h"')

    def test_refuses_public_headers_below_the_api(self):
        self.refused({"src/plan/planner.cpp": '#include "flyball/flyball.h"\n'}, "src/plan/planner.cpp:1")

    def test_refuses_a_public_header_that_leaves_include(self):
        for line in ['#include "base/units.h"', '#include "../src/base/units.h"', '#include "flyball/missing.h"',
                     '#include <flyball/../../src/base/units.h>', '#include "types.h"']:
            with self.subTest(line):
                self.refused({"include/flyball/flyball.h": line + "\n"}, "include/flyball/flyball.h:1")

    def test_refuses_a_folder_without_a_line(self):
        self.refused({"src/README.md": CLEAN["src/README.md"].replace("| `plan` | p |\n", "")},
                     "src/plan", "src/README.md")
        self.refused({"cmake/layers.txt": "base:\napi: base\n", "src/api/api.cpp": "", "src/plan/planner.cpp": "",
                      "src/plan/planner.h": ""},
                     "src/plan", "cmake/layers.txt")

    def test_refuses_a_line_without_a_folder(self):
        self.refused({"src/README.md": CLEAN["src/README.md"] + "| `wire` | w |\n"}, "src/wire", "does not exist")

    def test_refuses_an_edge_to_a_later_line(self):
        self.refused({"cmake/layers.txt": "base: plan\nplan: base\napi: plan base\n",
                      "src/base/units.h": '#include "plan/planner.h"\n'}, "layers.txt:1", "line above")

    def test_refuses_an_edge_that_no_file_uses(self):
        self.refused({"src/api/state.h": ""}, "src/api", "nothing of base", "layers.txt")

    def test_refuses_a_type_that_two_headers_define(self):
        once = {"src/base/units.h": "class Sum;\nclass Sum : public Base {\n  struct Part {};\n};\nstruct Sum::Rest {};\n"}
        self.assertEqual(run({**once, "src/plan/part.h": "struct Part {};\nclass Sum;\n"}), (0, ""))
        self.refused({**once, "src/plan/sum.h": "\nstruct Sum {};\n"}, "src/plan/sum.h:2", "Sum", "src/base/units.h:2")


if __name__ == "__main__":
    unittest.main()
