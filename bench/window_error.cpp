// How far the measured energy of a window is from the true energy of simulated boards, by the window's length.
//
//   build/bench/bench/window_error [SECONDS]
//
// Two loads. "training": 30 ms of forward, 60 ms of backward, a pause of 15 ms, over and over; windows begin anywhere.
// "burst": work between pauses of 150 to 350 ms; the window is the burst. For each length: the mean error (bias) and
// the error that 95 % of the windows stay below, in per cent of the true energy.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "driver/gpu_vendors.h"
#include "flyball/sim.h"
#include "measure/meters.h"
#include "measure/sampler.h"
#include "sim/specification.h"

namespace flyball {
namespace {

struct Point {
  Nanoseconds time;  // of the sampler's clock
  double joules;
};

struct Board {
  const char* model;
  std::vector<Point> truth;
};

constexpr double kLengths[] = {0.001, 0.002, 0.005, 0.010, 0.020, 0.050, 0.100, 0.200, 0.500, 1.000};

void pause_for(double seconds) { std::this_thread::sleep_for(std::chrono::duration<double>(seconds)); }

double joules_at(const std::vector<Point>& truth, Nanoseconds time) {
  const auto after = std::lower_bound(truth.begin(), truth.end(), time,
                                      [](const Point& point, Nanoseconds t) { return point.time < t; });
  if (after == truth.begin()) return after->joules;
  const auto before = after - 1;
  const double share = static_cast<double>(time - before->time) / static_cast<double>(after->time - before->time);
  return before->joules + share * (after->joules - before->joules);
}

struct Errors {
  std::vector<double> relative;
  double measured = 0.0;
  double truth = 0.0;

  void add(double measured_joules, double true_joules) {
    relative.push_back(std::abs(measured_joules - true_joules) / true_joules);
    measured += measured_joules;
    truth += true_joules;
  }
  [[nodiscard]] std::string text() {
    std::sort(relative.begin(), relative.end());
    return fmt::format("{:+.2f} / {:.2f}", 100.0 * (measured - truth) / truth,
                       100.0 * relative[relative.size() * 95 / 100]);
  }
};

// Loads all boards and samples them for a while; what is measured is judged afterwards.
void print_training(const Machine& machine, std::vector<Board>& boards, Sampler& sampler, double seconds) {
  std::atomic<bool> stop = false;
  std::vector<std::thread> loads;
  for (unsigned gpu = 0; gpu < boards.size(); ++gpu) {
    loads.emplace_back([gpu, &stop] {
      while (!stop) {
        flyball_sim_work(gpu, "forward", 0.030, nullptr);
        flyball_sim_work(gpu, "backward", 0.060, nullptr);
        pause_for(0.015);
      }
    });
  }
  const Nanoseconds begin = Sampler::now();
  while (to_seconds(Sampler::now() - begin).value() < seconds) {
    for (unsigned gpu = 0; gpu < boards.size(); ++gpu) {
      Point point{};
      double time = 0.0;
      flyball_sim_true_energy(gpu, &point.joules, &time);
      point.time = machine.wall_time_of(to_nanoseconds(Seconds(time)));
      boards[gpu].truth.push_back(point);
    }
    pause_for(0.0004);
  }
  stop = true;
  for (std::thread& load : loads) load.join();

  fmt::print("\ntraining, windows that begin anywhere: bias / 95 % below, per cent\n\n| window |");
  for (const Board& board : boards) fmt::print(" {} |", board.model);
  fmt::print("\n|---|---|---|---|\n");
  std::mt19937_64 random(1);
  for (const double length : kLengths) {
    fmt::print("| {:.0f} ms |", length * 1e3);
    for (std::size_t gpu = 0; gpu < boards.size(); ++gpu) {
      Errors errors;
      const Nanoseconds span = to_nanoseconds(Seconds(length));
      std::uniform_int_distribution<Nanoseconds> begins(begin + 2'000'000'000,
                                                        begin + to_nanoseconds(Seconds(seconds - 0.5)) - span);
      for (int i = 0; i < 2'000; ++i) {
        const Nanoseconds from = begins(random);
        errors.add(sampler.energy_between(gpu, from, from + span).energy.value(),
                   joules_at(boards[gpu].truth, from + span) - joules_at(boards[gpu].truth, from));
      }
      fmt::print(" {} |", errors.text());
    }
    fmt::print("\n");
  }
}

void print_bursts(const Machine& machine, const std::vector<Board>& boards, Sampler& sampler, double seconds) {
  fmt::print("\nbursts between pauses, the window is the burst: bias / 95 % below, per cent\n\n| burst |");
  for (const Board& board : boards) fmt::print(" {} |", board.model);
  fmt::print("\n|---|---|---|---|\n");
  for (const double length : kLengths) {
    std::vector<Errors> errors(boards.size());
    std::vector<std::thread> loads;
    const int count = std::max(10, static_cast<int>(seconds / 2.0 / (0.25 + length)));
    for (unsigned gpu = 0; gpu < boards.size(); ++gpu) {
      loads.emplace_back([&, gpu] {
        std::mt19937 random(gpu);
        std::uniform_real_distribution<double> pause(0.15, 0.35);
        for (int i = 0; i < count; ++i) {
          pause_for(pause(random));
          flyball_sim_run run{};
          flyball_sim_work(gpu, "forward", length, &run);
          const Nanoseconds from = machine.wall_time_of(to_nanoseconds(Seconds(run.begin_s)));
          const Nanoseconds to = machine.wall_time_of(to_nanoseconds(Seconds(run.end_s)));
          pause_for(0.25);
          errors[gpu].add(sampler.energy_between(gpu, from, to).energy.value(), run.energy_j);
        }
      });
    }
    for (std::thread& load : loads) load.join();
    fmt::print("| {:.0f} ms |", length * 1e3);
    for (Errors& error : errors) fmt::print(" {} |", error.text());
    fmt::print("\n");
  }
}

void run(double seconds) {
  std::vector<Board> boards{{"V100 (20 ms)", {}}, {"A100 PCIe (100 ms)", {}}, {"H100 (100 ms)", {}}};
  MachineRequest request;
  request.name = fmt::format("bench-{}", ::getpid());
  request.gpus = 1;
  MachineSpec all;
  for (const char* model : {"v100", "a100-pcie", "h100-sxm"}) {
    request.gpu = model;
    MachineSpec one = specify_machine(request);
    all.boards.push_back(one.boards.front());
  }
  const auto machine = Machine::create(request.name, all);
  ::setenv("FLYBALL_SIM", request.name.c_str(), 1);
  {
    const OpenedGpus library = open_gpus({{"nvml", {FLYBALL_SIM_LIBRARY}, load_nvml}});
    std::vector<Meter> meters;
    for (const auto& gpu : library.gpus) meters.push_back(meter_of(gpu));
    Sampler sampler(std::move(meters));
    print_training(*machine, boards, sampler, seconds);
    print_bursts(*machine, boards, sampler, seconds);
  }
  Machine::remove(request.name);
}

}  // namespace
}  // namespace flyball

int main(int argc, char** argv) {
  flyball::run(argc > 1 ? std::clamp(std::atof(argv[1]), 5.0, 55.0) : 40.0);
  return 0;
}
