// Writes the events as text one by one, since a document of them would take many times the memory. A slice goes to the
// first thread of its stage and kind that is free when it begins, and counters are the steps of the stages' power
// curves.
#include "report/timeline_trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <numeric>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>
#include <nlohmann/json.hpp>

#include "base/index.h"
#include "base/json_text.h"
#include "draw/text_table.h"
#include "pipeline/instruction.h"
#include "pipeline/power_curve.h"
#include "report/chrome_trace.h"
#include "report/timeline_picture.h"

namespace flyball {
namespace {

// Viewers take a thread with its process's number for the main thread, and some find a thread's name by its number
// alone, so that threads are numbered through both processes, from a number beyond those of these.
constexpr int kFirstThread = 11;

// One plan's process.
class TracedPlan {
 public:
  TracedPlan(ChromeTraceText& out, const ReportInput& input, const RealisedPlan& plan, int process, std::size_t most)
      : out_(out),
        input_(input),
        plan_(plan),
        dag_(*plan.dag),
        timeline_(emulate(dag_, plan.durations)),
        process_(process),
        shown_(at(dag_.size()), true) {
    has_chunks_ = std::any_of(dag_.computations().begin(), dag_.computations().end(),
                              [](const Computation& one) { return one.chunk > 0; });
    for (const OperationType& type : dag_.types()) {
      categories_.push_back(dump_json(std::string(announced_name(type.instruction))));
    }
    if (shown_.size() > most) leave_out_beyond(most);
  }

  // Returns the number of the thread after the last one.
  int write(int thread) {
    thread_ = thread;
    std::string name = plan_heading(plan_, process_ == 1 ? nullptr : &input_.baseline);
    if (until_ >= 0) name += fmt::format(" (cut off at {} s)", format_fixed(to_seconds(until_).value(), 3));
    add_metadata("process_name", "name", dump_json(name), -1);
    add_metadata("process_labels", "labels", dump_json(input_.title), -1);
    add_metadata("process_sort_index", "sort_index", fmt::to_string(process_), -1);
    std::vector<std::vector<int>> transfers(at(dag_.stages()));
    for (int i = 0; i < dag_.size(); ++i) {
      if (!dag_.type_of(i).occupies_stage) transfers[at(dag_.type_of(i).stage)].push_back(i);
    }
    for (int stage = 0; stage < dag_.stages(); ++stage) {
      const auto order = dag_.stage_order(stage);
      add_threads(fmt::format("stage {}", stage), {order.begin(), order.end()});
      add_threads(fmt::format("stage {} transfers", stage), std::move(transfers[at(stage)]));
    }
    add_counters();
    return thread_;
  }

 private:
  [[nodiscard]] auto place(int i) const { return std::tuple(timeline_.start[at(i)], timeline_.finish[at(i)], i); }

  void leave_out_beyond(std::size_t most) {
    std::vector<int> operations(shown_.size());
    std::iota(operations.begin(), operations.end(), 0);
    std::sort(operations.begin(), operations.end(), [&](int a, int b) { return place(a) < place(b); });
    for (std::size_t k = most; k < operations.size(); ++k) shown_[at(operations[k])] = false;
    until_ = timeline_.start[at(operations[most])];
  }

  void add_metadata(std::string_view what, std::string_view key, std::string_view value, int thread) {
    out_.add_metadata(process_, thread, what, key, value);
  }

  // Operations of a DAG file may overlap although they occupy their stage.
  void add_threads(const std::string& name, std::vector<int> operations) {
    std::sort(operations.begin(), operations.end(), [&](int a, int b) { return place(a) < place(b); });
    std::vector<Nanoseconds> free;  // when each thread is
    for (const int i : operations) {
      if (!shown_[at(i)]) continue;
      const Nanoseconds start = timeline_.start[at(i)];
      std::size_t k = 0;
      while (k < free.size() && free[k] > start) ++k;
      const int thread = thread_ + static_cast<int>(k);
      if (k == free.size()) {
        free.push_back(0);
        const std::string suffix = k == 0 ? "" : fmt::format(" ({})", k + 1);
        add_metadata("thread_name", "name", dump_json(name + suffix), thread);
        add_metadata("thread_sort_index", "sort_index", fmt::to_string(thread), thread);
      }
      free[k] = timeline_.finish[at(i)];
      add_slice(i, thread);
    }
    thread_ += static_cast<int>(free.size());
  }

  void add_slice(int i, int thread) {
    const Computation& computation = dag_[i];
    const OperationType& type = dag_.type_of(i);
    const ClockOption& option = option_of(plan_, i);
    std::string& text = out_.next();
    const auto out = [&] { return std::back_inserter(text); };
    fmt::format_to(out(),
                   "{{\"ph\":\"X\",\"pid\":{},\"tid\":{},\"ts\":{},\"dur\":{},\"name\":{},\"cat\":{},\"args\":{{",
                   process_, thread, trace_time(timeline_.start[at(i)]), trace_time(plan_.durations[at(i)]),
                   dump_json(short_label(dag_, i)), categories_[static_cast<std::size_t>(computation.type)]);
    if (option.frequency > Megahertz(0)) fmt::format_to(out(), "\"clock_mhz\":{},", option.frequency.value());
    if (const OptionLabels& labels = type.labels.of(plan_.plan[at(i)]); !labels.empty()) {
      fmt::format_to(out(), "\"labels\":{},", dump_json(label_text(labels)));
    }
    fmt::format_to(out(), "\"power_w\":{},\"energy_j\":{},\"slack_s\":{},\"critical\":{}",
                   trace_watts(mean_power(option)), option.energy.value(),
                   to_seconds(timeline_.latest_start[at(i)] - timeline_.start[at(i)]).value(), timeline_.critical(i));
    if (computation.microbatch >= 0) fmt::format_to(out(), ",\"microbatch\":{}", computation.microbatch);
    if (has_chunks_ && computation.microbatch >= 0) fmt::format_to(out(), ",\"chunk\":{}", computation.chunk);
    text += "}}";
  }

  void add_counters() {
    const Nanoseconds straggler = input_.t_straggler ? to_nanoseconds(*input_.t_straggler) : 0;
    const std::vector<PowerCurve> curves =
        stage_power_curves(dag_, plan_.plan, input_.problem->blocking, timeline_, plan_.durations, straggler);
    std::vector<PowerDraw> all;
    for (std::size_t stage = 0; stage < curves.size(); ++stage) {
      const PowerCurve& curve = curves[stage];
      add_counter(fmt::format("stage {} power", stage), curve);
      for (std::size_t k = 0; k < curve.begin.size(); ++k) {
        all.push_back({curve.begin[k], curve.end_of(k), curve.power[k]});
      }
    }
    if (!input_.power || curves.empty()) return;
    add_counter("job power", sum_of(all, curves.front().period, input_.power->copies));
  }

  // A counter keeps its last value, so that the shorter iteration's has to end at zero.
  void add_counter(const std::string& name, const PowerCurve& curve) {
    const auto add = [&](Nanoseconds time, Watts power) {
      if (until_ < 0 || time <= until_) out_.add_watts(process_, time, name, power);
    };
    for (std::size_t k = 0; k < curve.begin.size(); ++k) add(curve.begin[k], curve.power[k]);
    add(curve.period, Watts(0));
  }

  ChromeTraceText& out_;
  const ReportInput& input_;
  const RealisedPlan& plan_;
  const ComputationDag& dag_;
  Timeline timeline_;
  int process_;
  std::vector<bool> shown_;
  Nanoseconds until_ = -1;  // where the iteration is cut off; -1: nowhere
  bool has_chunks_ = false;
  std::vector<std::string> categories_;  // of each type, as JSON
  int thread_ = 0;                       // the next one's number
};

}  // namespace

std::string timeline_trace(const ReportInput& input, std::size_t most_operations) {
  ChromeTraceText out;
  int thread = kFirstThread;
  int process = 0;
  for (const RealisedPlan* plan : {&input.baseline, &input.chosen}) {
    thread = TracedPlan(out, input, *plan, ++process, most_operations).write(thread);
  }
  return std::move(out).finished();
}

}  // namespace flyball
