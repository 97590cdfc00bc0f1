// How often the energy of an operation lies inside of the 90 % interval that `flyball account` states for it, on
// simulated programs whose energies are known, and how wide the interval is. Makes the tables of
// docs/performance-attribution.md#errors-of-attribution.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <iostream>
#include <string>
#include <vector>

#include "base/error.h"
#include "draw/text_table.h"
#include "support/attribution_coverage.h"

namespace {

using namespace flyball;
using testing::Coverage;
using testing::StepOrder;
using testing::UnkindShape;

struct Run {
  int programs = 50;  // of 40 operations: 2,000 rows
  std::uint64_t first_seed = 1;
  std::string only;  // worlds whose name has this in it
};

struct NamedOrder {
  const char* name;
  StepOrder order;
};
constexpr NamedOrder kOrders[] = {{"fixed", StepOrder::kFixed},
                                  {"random", StepOrder::kRandom},
                                  {"mixed", StepOrder::kMixed},
                                  {"locked", StepOrder::kLocked}};

void add_row(TextTable& table, const std::string& first, const std::string& order, const Coverage& c, int programs) {
  table.add_row({first, order, fmt::format("{}", c.rows), format_fixed(100.0 * c.inside_share(), 1),
                 format_fixed(100.0 * c.median_width(), 1), format_fixed(100.0 * c.median_error(), 2),
                 format_fixed(100.0 * c.median_sweep_error(), 2), fmt::format("{}/{}", c.regressed, programs),
                 fmt::format("{}", c.grouped), c.groups == 0 ? "-" : fmt::format("{}/{}", c.groups_inside, c.groups)});
}

TextTable table_of(const std::string& first) {
  return TextTable({"<" + first, "<order", "rows", "inside %", "+- %", "error %", "by sweep %", "regressed",
                    "in groups", "groups inside"});
}

Run run_of(int argc, char** argv) {
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  Run run;
  for (std::size_t i = 0; i < arguments.size(); i += 2) {
    if (i + 1 == arguments.size()) throw UsageError(arguments[i] + " needs a value");
    const std::string& value = arguments[i + 1];
    if (arguments[i] == "--programs") {
      run.programs = std::stoi(value);
    } else if (arguments[i] == "--first-seed") {
      run.first_seed = std::stoull(value);
    } else if (arguments[i] == "--only") {
      run.only = value;
    } else {
      throw UsageError("usage: attribution_error [--programs N] [--first-seed N] [--only WORLD]");
    }
  }
  return run;
}

}  // namespace

int main(int argc, char** argv) try {
  const Run run = run_of(argc, argv);
  const auto add_world = [&run](TextTable& table, const std::string& name, UnkindShape shape) {
    if (name.find(run.only) == std::string::npos) return;
    for (const NamedOrder& order : kOrders) {
      shape.order = order.order;
      add_row(table, name, order.name, testing::coverage_of(shape, run.programs, run.first_seed), run.programs);
    }
  };
  TextTable periods = table_of("period");
  for (const Nanoseconds period : {4, 10, 20, 40, 70, 100}) {
    UnkindShape shape;
    shape.period = period * kMillisecond;
    add_world(periods, fmt::format("{} ms", period), shape);
  }
  std::cout << periods.str() << '\n';
  TextTable things = table_of("a counter of 20 ms");
  const auto with = [&](const std::string& name, const auto& change) {
    UnkindShape shape;
    change(shape);
    add_world(things, name, shape);
  };
  with("noise of 5 W", [](UnkindShape& s) { s.noise_watts = 5.0; });
  with("noise of 20 W", [](UnkindShape& s) { s.noise_watts = 20.0; });
  with("executions that differ by 15 %", [](UnkindShape& s) { s.variation = 0.15; });
  with("ramps of 0.5 ms", [](UnkindShape& s) { s.ramp = kMillisecond / 2; });
  with("smoothed by 0.5 ms", [](UnkindShape& s) { s.smoothing = kMillisecond / 2; });
  with("smoothed by 2 ms", [](UnkindShape& s) { s.smoothing = 2 * kMillisecond; });
  with("stamps late by up to 1 ms", [](UnkindShape& s) { s.late = kMillisecond; });
  with("stamps late by up to 4 ms", [](UnkindShape& s) { s.late = 4 * kMillisecond; });
  with("ramps of 2 ms", [](UnkindShape& s) { s.ramp = 2 * kMillisecond; });
  with("a lag of 0.5 ms", [](UnkindShape& s) { s.lag = kMillisecond / 2; });
  with("a lag of 2 ms", [](UnkindShape& s) { s.lag = 2 * kMillisecond; });
  with("a lag of 10 ms", [](UnkindShape& s) { s.lag = 10 * kMillisecond; });
  with("a second stream, 10 %", [](UnkindShape& s) { s.second_stream = 0.1; });
  with("a second stream, 50 %", [](UnkindShape& s) { s.second_stream = 0.5; });
  with("no gaps", [](UnkindShape& s) { s.gap_share = 0.0; });
  with("operations of 50 to 400 ms", [](UnkindShape& s) {
    s.shortest = 50 * kMillisecond;
    s.longest = 400 * kMillisecond;
  });
  with("operations of 0.1 to 1 ms", [](UnkindShape& s) {
    s.shortest = kMillisecond / 10;
    s.longest = kMillisecond;
  });
  with("3 s long", [](UnkindShape& s) { s.length = 3 * kSecond; });
  // The method was not developed with these.
  with("streams that add 60 %", [](UnkindShape& s) {
    s.second_stream = 0.5;
    s.beside = 0.6;
  });
  with("powers that depend on the operation before", [](UnkindShape& s) { s.follows = 0.2; });
  with("a surge of 1 ms", [](UnkindShape& s) { s.surge = 0.5; });
  with("work that is not traced", [](UnkindShape& s) { s.untraced = 60.0; });
  std::cout << things.str();
  return 0;
} catch (const std::exception& error) {
  std::cerr << error.what() << '\n';
  return 1;
}
