#include "report/report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <regex>
#include <set>
#include <string>
#include <string_view>
#include <vector>
#include <nlohmann/json.hpp>

#include "pipeline/pipeline_spec.h"
#include "report/page_scripts.h"
#include "report/timeline_picture.h"
#include "support/pipelines.h"

namespace flyball {
namespace {

using ::testing::HasSubstr;
using ::testing::IsSupersetOf;
using ::testing::Not;

// A problem with a few plans of every kind: what the pictures show need not be a good frontier.
struct Scene {
  Profile profile;
  ComputationDag dag;
  PlanProblem problem;
  Frontier frontier;
  Frontier single;

  explicit Scene(const PipelineSpec& spec, const std::vector<double>& stages = {0.03, 0.04})
      : profile(testing::modelled_profile(stages)),
        dag(build_dag(spec, profile)),
        problem(make_problem(dag, std::vector<Watts>(stages.size(), Watts(75)), 1'000'000, CostModel::kExponential)),
        frontier(problem.total_blocking()),
        single(problem.total_blocking()) {
    for (std::uint16_t step = 0; step < 8; ++step) add(frontier, step);
    frontier.finish();
    add(single, 9);
  }

  static PipelineSpec spec(int microbatches) {
    PipelineSpec spec;
    spec.microbatches = microbatches;
    spec.p2p = ConstantOperation{Seconds(0.001), Joules(0)};
    spec.data_load = ConstantOperation{Seconds(0), Joules(0)};
    spec.gradient_sync = ConstantOperation{Seconds(0.01), Joules(1)};
    return spec;
  }

  // Everything `step` clocks below the highest.
  ClockPlan plan(std::uint16_t step) const {
    ClockPlan plan;
    for (int i = 0; i < dag.size(); ++i) plan.push_back(dag.type_of(i).options.size() > step ? step : std::uint16_t{0});
    return plan;
  }

  void add(Frontier& to, std::uint16_t step) const {
    const RealisedPlan realised = realise_plan("", dag, plan(step), problem.blocking);
    const Joules idle = problem.total_blocking() * to_seconds(realised.makespan);
    to.add(
        {realised.makespan, (realised.energy.total() - idle).value(), (realised.energy.total() - idle).value() - 1.0},
        plan(step));
  }

  ReportInput input() const {
    ReportInput input;
    input.title = "test";
    input.problem = &problem;
    input.baseline = realise_plan("all-maximum clocks", dag, max_clock_plan(problem), problem.blocking);
    input.chosen = realise_plan("perseus", dag, frontier.plan(2), problem.blocking);
    input.planners = {{"perseus", &dag, &frontier, 2}, {"uniform", &dag, &single, 0}};
    for (std::size_t i = 0; i < frontier.size(); ++i)
      input.lower_bound.push_back({frontier.time(i), frontier.lower_bound(i)});
    input.t_min = frontier.time(0);
    input.t_star = frontier.time(frontier.size() - 1);
    input.t_least_total = frontier.time(frontier.least_total_energy());
    input.summary = {{"Computations", "32", ""}};
    input.commands = {"flyball plan test.csv"};
    return input;
  }
};

// Every element that is opened is closed, in order; void elements of HTML excepted. Empty when all is well.
std::string unbalanced(const std::string& markup) {
  std::vector<std::string> open;
  const std::regex tag(R"(<(/?)([a-zA-Z][a-zA-Z0-9]*)((?:"[^"]*"|[^">])*)>)");
  std::smatch match;
  std::string rest = markup;
  while (std::regex_search(rest, match, tag)) {
    const std::string name = match[2];
    const std::string tail = match[3];
    const bool is_void = name == "meta" || name == "input" || name == "br" || (!tail.empty() && tail.back() == '/');
    std::size_t skip = static_cast<std::size_t>(match.position()) + static_cast<std::size_t>(match.length());
    if (match[1].length() > 0) {
      if (open.empty() || open.back() != name)
        return "</" + name + "> after " + (open.empty() ? "nothing" : open.back());
      open.pop_back();
    } else if (!is_void) {
      open.push_back(name);
      if (name == "script" || name == "style") skip = rest.find("</" + name + ">", skip);
    }
    rest.erase(0, skip);
  }
  return open.empty() ? "" : open.back() + " is never closed";
}

std::vector<std::string> all_output(const ReportInput& input) {
  return {timeline_picture(input).standalone(),
          timeline_picture(input, 400).standalone(),
          frontier_picture(input).standalone(),
          frontier_picture(input, 360).standalone(),
          cost_curve_picture(input).standalone(),
          cost_curve_picture(input, 320).standalone(),
          html_report(input)};
}

void expect_sound(const ReportInput& input) {
  for (const std::string& text : all_output(input)) {
    EXPECT_EQ(unbalanced(text), "");
    // Neither numbers that are none nor anything from the network.
    EXPECT_FALSE(std::regex_search(text, std::regex("[\"=: ,(](-?nan|-?inf)[\", )]"))) << text.substr(0, 200);
    const std::string without_namespace = std::regex_replace(text, std::regex("http://www.w3.org/2000/svg"), "");
    EXPECT_THAT(without_namespace, Not(HasSubstr("http")));
    EXPECT_THAT(without_namespace, Not(HasSubstr("url(")));
  }
}

TEST(Report, IsSoundAndDeterministic) {
  const Scene scene(Scene::spec(6));
  const ReportInput input = scene.input();
  expect_sound(input);
  const Scene again(Scene::spec(6));
  EXPECT_EQ(all_output(input), all_output(again.input()));
}

TEST(Report, SmallestInputs) {
  const Scene scene(Scene::spec(1), {0.03});
  ReportInput input = scene.input();
  input.planners = {{"uniform", &scene.dag, &scene.single, {}}};
  input.lower_bound.clear();
  input.t_least_total.reset();
  input.t_star = input.t_min;
  input.chosen = input.baseline;
  input.summary.clear();
  input.commands.clear();
  expect_sound(input);
  input.planners.clear();
  expect_sound(input);
}

TEST(Report, SaysWhatIsSaved) {
  const Scene scene(Scene::spec(6));
  ReportInput input = scene.input();
  // One figure is enough to see that the headline is of the plans given: their energies, whole joules.
  const auto joules = [](const RealisedPlan& plan) {
    return std::to_string(std::lround(plan.energy.total().value())) + "&nbsp;J";
  };
  EXPECT_THAT(html_report(input),
              HasSubstr("less energy</strong>: " + joules(input.chosen) + " instead of " + joules(input.baseline)));
  std::swap(input.baseline, input.chosen);
  EXPECT_THAT(html_report(input), HasSubstr("more energy</strong>"));
}

TEST(Report, NamesTheStraggler) {
  const Scene scene(Scene::spec(6));
  ReportInput input = scene.input();
  const Nanoseconds straggler = 2 * input.baseline.makespan;
  input.t_straggler = to_seconds(straggler);
  input.baseline =
      realise_plan("all-maximum clocks", scene.dag, input.baseline.plan, scene.problem.blocking, straggler);
  EXPECT_GT(input.baseline.energy.straggler_wait, Joules(0));
  expect_sound(input);
  EXPECT_THAT(frontier_picture(input).standalone(), HasSubstr("straggler"));
  EXPECT_THAT(html_report(input), HasSubstr("waiting for the straggler"));
}

TEST(Report, HostileNamesStayText) {
  const Scene scene(Scene::spec(2));
  ReportInput input = scene.input();
  const std::string hostile = "</script><img src=x onerror=alert(1)>&\"'";
  input.title = hostile;
  input.baseline.name = hostile;
  input.chosen.name = hostile;
  input.planners[0].name = hostile;
  input.summary = {{hostile, hostile, hostile}};
  input.commands = {hostile};
  for (const std::string& text : all_output(input)) {
    EXPECT_EQ(unbalanced(text), "");
    EXPECT_THAT(text, Not(HasSubstr("<img")));
  }
}

TEST(Report, TimelineShowsEveryOperationOfAShortIteration) {
  const Scene scene(Scene::spec(4));
  const std::string svg = timeline_picture(scene.input()).standalone();
  for (int microbatch = 0; microbatch < 4; ++microbatch) {
    for (const char* letter : {"F", "B"}) {
      const std::string title = "<title>" + std::string(letter) + std::to_string(microbatch) + " stage 1\n";
      const std::size_t first = svg.find(title);
      ASSERT_NE(first, std::string::npos) << title;
      EXPECT_NE(svg.find(title, first + 1), std::string::npos) << "once before and once after";
    }
  }
}

// 16 stages x 512 microbatches: 16,384 computations in each of two timelines.
TEST(Report, StaysSmallForLongIterations) {
  const Scene scene(Scene::spec(512), std::vector<double>(16, 0.03));
  const ReportInput input = scene.input();
  EXPECT_LT(html_report(input).size(), 3U << 20);
  EXPECT_LT(timeline_picture(input).standalone().size(), 1U << 20);
}

// A stage whose forwards take 1 s behind three of 1 ms, backwards twice as long: the cut picture, too, shows some of
// each.
TEST(Report, UnevenIterationsShowEveryKindOfOperation) {
  const Scene scene(Scene::spec(128), {0.001, 0.001, 0.001, 1.0});
  ReportInput input = scene.input();
  input.chosen = input.baseline;
  EXPECT_THAT(timeline_picture(input).standalone(), HasSubstr("<title>B0 stage 3\n"));
}

// A page's timelines take as much room however long operations take: each has five columns and its options under some
// plans, a byte or two each. Ten plans of 1,028 + 768 operations and their transfers are below 64 kB.
TEST(Report, UnevenIterationsKeepThePageSmall) {
  for (const double slow : {1.0, 1e3, 1e6}) {
    const Scene scene(Scene::spec(128), {0.001, 0.001, 0.001, slow});
    EXPECT_LT(timeline_view(scene.input()).size(), 64U << 10) << slow;
  }
}

TEST(Report, ScriptsFindWhatTheyAskFor) {
  const Scene scene(Scene::spec(6));
  const std::string view = timeline_view(scene.input());
  testing::expect_parts("plan_timeline.js", view + html_report(scene.input()));
  testing::expect_parts("tips.js", timeline_picture(scene.input()).standalone());
  const nlohmann::json data = testing::unpacked_data(view);
  std::set<std::string> read;
  for (const char* script : {"plan_set.js", "plan_picker.js", "plan_timeline.js", "timeline.js", "timeline_row.js"}) {
    read.merge(testing::members_read(script, "set"));
  }
  read.insert({"blocking_w", "not_planned"});  // for the planning server's page
  EXPECT_THAT(read, IsSupersetOf(testing::keys_of(data)));
  EXPECT_EQ(testing::members_read("plan_set.js", "text"), testing::keys_of(data.at("orders").at(0)));
}

// Two options of one clock: the picture names what tells them apart, and marks the one that the plan uses.
TEST(Report, OptionsAreShownWithTheirLabels) {
  const Profile profile = read_profile("p.csv",
                                       "stage,instruction,frequency,sm,time,energy\n"
                                       "0,forward,1410,12,0.1,30\n0,forward,1410,6,0.12,20\n"
                                       "0,backward,1410,,0.2,60\n0,backward,1200,,0.22,50\n");
  const ComputationDag dag = testing::dag_of(profile, 1);
  const PlanProblem problem = testing::problem_of(dag);
  EXPECT_EQ(setting_text(dag.type_of(0), 1), "1410 MHz, sm=6");
  EXPECT_EQ(setting_text({0, "f", {{Megahertz(0), Seconds(1), Joules(1)}}}, 0), "");
  ReportInput input;
  input.problem = &problem;
  input.baseline = realise_plan("all-maximum clocks", dag, {0, 0}, problem.blocking);
  input.chosen = realise_plan("perseus", dag, {1, 0}, problem.blocking);
  const std::string svg = cost_curve_picture(input, 300).standalone();
  EXPECT_THAT(svg, HasSubstr("1410 MHz, sm=6\n120 ms"));
  EXPECT_THAT(svg, HasSubstr("1410 MHz, sm=12\n100 ms"));
  std::size_t used = 0;
  for (std::size_t at = svg.find("class=\"used\""); at != std::string::npos; at = svg.find("class=\"used\"", at + 1))
    ++used;
  EXPECT_EQ(used, 3u);  // the forward's, the backward's, and the legend's
}

}  // namespace
}  // namespace flyball
