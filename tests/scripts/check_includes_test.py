"""scripts/check_includes must find a forgotten header by what it declares, and nothing where a name only looks alike."""
import pathlib
import unittest

from small_tree import run_on

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "scripts/check_includes"

HEADERS = {
    "src/base/units.h": "namespace f {\nstruct Watts {\n  double value() const;\n};\nusing Joules = double;\n}\n",
    "src/base/text.h": "namespace f {\nstd::string trimmed(std::string_view text);\ninline constexpr int kLongest = 3;\n}\n",
    "src/plan/plan.h": '#include "base/units.h"\nnamespace f {\nWatts power_of(int plan);\n}\n',
}


def complaints(source, name="src/plan/plan.cpp"):
    run = run_on(SCRIPT, {**HEADERS, name: source})
    lines = run.stdout.splitlines()[:-1]
    assert run.returncode == (1 if lines else 0), run
    return lines


class CheckIncludes(unittest.TestCase):
    def test_finds_a_type_a_function_and_a_constant(self):
        self.assertEqual(complaints("Watts f() {\n  return g(kLongest, trimmed(text));\n}\n"), [
            "src/plan/plan.cpp uses Watts and does not include base/units.h",
            "src/plan/plan.cpp uses kLongest and does not include base/text.h",
            "src/plan/plan.cpp uses trimmed and does not include base/text.h"])

    def test_what_an_included_header_includes_is_included(self):
        self.assertEqual(complaints('#include "plan/plan.h"\nJoules f() {\n  return power_of(3).value();\n}\n'), [])

    def test_looks_at_headers_too(self):
        self.assertEqual(complaints("#pragma once\nWatts twice(int plan);\n", "src/plan/more.h"),
                         ["src/plan/more.h uses Watts and does not include base/units.h"])

    def test_members_locals_comments_and_texts_only_look_alike(self):
        for source in ["int f(Plan& p) {\n  return p.trimmed(3) + p->trimmed(4) + Plan::trimmed(5);\n}\n",
                       "int f() {\n  const auto trimmed = [] { return 3; };\n  return trimmed();\n}\n",
                       "int trimmed(int number) {\n  return number;\n}\nint f() {\n  return trimmed(3);\n}\n",
                       "// Watts, trimmed(text)\nint f() {\n  return g(\"Watts trimmed(kLongest)\");\n}\n",
                       "struct Watts {};\nWatts f();\n",
                       "class Watts;\nvoid f(const Watts& watts);\n"]:
            with self.subTest(source=source):
                self.assertEqual(complaints(source), [])

    def test_a_project_without_sources_is_refused(self):
        self.assertEqual(run_on(SCRIPT, {}).returncode, 1)


if __name__ == "__main__":
    unittest.main()
