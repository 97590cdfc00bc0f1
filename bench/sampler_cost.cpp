// What sampling costs: processor time of a process that reads 8 simulated boards, at most every 4 ms; and one board and
// all of them with energy counters that are as dear to read as an H100's, with and without the usual budget.
//
//   build/bench/bench/sampler_cost [SECONDS]
#include <fmt/format.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "driver/gpu_vendors.h"
#include "measure/meters.h"
#include "measure/sampler.h"
#include "sim/specification.h"

namespace flyball {
namespace {

double processor_seconds() {
  timespec time{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) / 1e9;
}

constexpr double kDearReadingSeconds = 0.0025;
constexpr double kOf16Processors = 16 * 0.0007;  // what sampling may cost there

struct Cost {
  double share = 0.0;     // of one core
  double late = 0.0;      // of the readings
  double readings = 0.0;  // a second, of all meters
};

Cost cost_of(std::vector<Meter> meters, double seconds, double most_cost = 0.0) {
  Sampler::Options options;
  options.most_cost = most_cost;
  Sampler sampler(std::move(meters), options);
  ::usleep(3'000'000);  // until the sensors' rhythm is known
  const double before = processor_seconds();
  const Nanoseconds begin = Sampler::now();
  ::usleep(static_cast<useconds_t>(seconds * 1e6));
  Cost cost;
  const double elapsed = to_seconds(Sampler::now() - begin).value();
  cost.share = (processor_seconds() - before) / elapsed;
  std::size_t late = 0;
  std::size_t readings = 0;
  for (std::size_t i = 0; i < sampler.meter_count(); ++i) {
    readings += sampler.samples_since(i, begin).size();
    late += sampler.state(i).late;
  }
  cost.late = static_cast<double>(late) / static_cast<double>(readings);
  cost.readings = static_cast<double>(readings) / elapsed;
  return cost;
}

void print(const char* what, const Cost& cost) {
  fmt::print("| {} | {:.2f} % | {:.0f} | {:.1f} us | {:.1f} % |\n", what, 100.0 * cost.share, cost.readings,
             1e6 * cost.share / cost.readings, 100.0 * cost.late);
}

void run(double seconds) {
  MachineRequest request;
  request.name = fmt::format("bench-{}", ::getpid());
  request.gpus = 8;
  const auto machine = Machine::create(request.name, specify_machine(request));
  ::setenv("FLYBALL_SIM", request.name.c_str(), 1);
  fmt::print(
      "| 8 meters every 4 ms, {:.0f} s | of one core | readings a second | per reading | more than 4 ms late |\n"
      "|---|---|---|---|---|\n",
      seconds);
  const OpenedGpus library = open_gpus({{"nvml", {FLYBALL_SIM_LIBRARY}, load_nvml}});
  std::vector<Meter> boards;
  std::vector<Meter> nothing;
  for (const auto& gpu : library.gpus) {
    boards.push_back(meter_of(gpu));
    nothing.push_back({gpu->label(), [] {
                         return MeterReading{std::nullopt, Watts(100) * to_seconds(Sampler::now())};
                       }});
  }
  print("the sampler alone (meters that cost nothing)", cost_of(nothing, seconds));
  print("with simulated boards", cost_of(boards, seconds));
  for (std::size_t board = 0; board < boards.size(); ++board) {
    BoardAccess access(*machine, board);
    static_cast<void>(
        add_fault(access.spec(), access.state(), {SimFaultKind::kCounterCosts, 0, kDearReadingSeconds, {}}));
    access.commit();
  }
  print("one board whose counter takes 2.5 ms to read", cost_of({boards.front()}, seconds));
  print("the same within 1.12 % of a core (0.07 % of 16)", cost_of({boards.front()}, seconds, kOf16Processors));
  print("eight such boards", cost_of(boards, seconds));
  print("the same within 1.12 % of a core", cost_of(boards, seconds, kOf16Processors));
  Machine::remove(request.name);
}

}  // namespace
}  // namespace flyball

int main(int argc, char** argv) {
  flyball::run(argc > 1 ? std::atof(argv[1]) : 10.0);
  return 0;
}
