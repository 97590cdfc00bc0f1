// What a real GPU and its driver do, as far as that can be measured without changing a setting: what reading a value
// costs, how often and how late the energy counter moves, what host functions in a stream cost, and what the board
// draws idle, while a kernel waits, and while it multiplies matrices.
//
//   build/bench/bench/gpu_check [--gpu N] [--output FILE] [--trace FILE]
//
// On a GPU without CUDA only the readings are measured. docs/manual/devices.md says how to read the report.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <functional>
#include <map>
#include <random>
#include <string>
#include <thread>
#include <vector>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/monotonic_time.h"
#include "driver/gpu_vendors.h"
#include "driver/stream_library.h"
#include "gpu_kernels.h"
#include "measure/energy_track.h"

namespace flyball {
namespace {

using Json = nlohmann::ordered_json;

constexpr Nanoseconds kUs = 1000;

void pause_until(Nanoseconds time) {
  const Nanoseconds now = monotonic_now();
  if (time > now) std::this_thread::sleep_for(std::chrono::nanoseconds(time - now));
}

double seconds(Nanoseconds time) { return static_cast<double>(time) / 1e9; }

double us_since(Nanoseconds begin) { return static_cast<double>(monotonic_now() - begin) / 1e3; }

double quantile(std::vector<double> values, double share) {
  if (values.empty()) return 0.0;
  const auto at = values.begin() + std::lround(share * static_cast<double>(values.size() - 1));
  std::nth_element(values.begin(), at, values.end());
  return *at;
}

Json spread(const std::vector<double>& values) {
  return {{"count", values.size()},       {"p10", quantile(values, 0.1)},  {"median", quantile(values, 0.5)},
          {"p90", quantile(values, 0.9)}, {"p99", quantile(values, 0.99)}, {"most", quantile(values, 1.0)}};
}

std::string as_text(const Json& spread, const char* unit) {
  return fmt::format("median {:.1f}, p10 {:.1f}, p90 {:.1f}, p99 {:.1f}, most {:.1f} {}",
                     spread["median"].get<double>(), spread["p10"].get<double>(), spread["p90"].get<double>(),
                     spread["p99"].get<double>(), spread["most"].get<double>(), unit);
}

// ---- Readings ----

struct Row {
  Nanoseconds time = 0;  // in the middle of the calls
  double joules = 0.0;
  double watts = 0.0;
  double megahertz = 0.0;
};

// Reads energy, power and clock as fast as the driver answers, at most every 250 us, from construction to stop().
class FastReader {
 public:
  explicit FastReader(std::shared_ptr<const GpuDevice> gpu)
      : thread_([this, gpu = std::move(gpu)] {
          for (Nanoseconds next = monotonic_now(); !ended_; next = std::max(next + 250 * kUs, monotonic_now())) {
            pause_until(next);
            Row row;
            const Nanoseconds begin = monotonic_now();
            row.joules = gpu->total_energy().value_or(Joules(0.0)).value();
            row.time = begin + (monotonic_now() - begin) / 2;
            row.watts = gpu->power().value();
            row.megahertz = gpu->sm_clock().value();
            rows_.push_back(row);
          }
        }) {}
  ~FastReader() { stop(); }
  FastReader(const FastReader&) = delete;
  FastReader& operator=(const FastReader&) = delete;

  std::vector<Row> stop() {
    ended_ = true;
    if (thread_.joinable()) thread_.join();
    return std::move(rows_);
  }

 private:
  std::atomic<bool> ended_ = false;
  std::vector<Row> rows_;
  std::thread thread_;
};

Nanoseconds processor_time() {
  timespec time{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return time.tv_sec * kSecond + time.tv_nsec;
}

Json call_costs(const GpuDevice& gpu) {
  const std::vector<std::pair<const char*, std::function<void()>>> calls = {
      {"total_energy", [&] { static_cast<void>(gpu.total_energy()); }},
      {"power", [&] { static_cast<void>(gpu.power()); }},
      {"sm_clock", [&] { static_cast<void>(gpu.sm_clock()); }},
      {"memory_clock", [&] { static_cast<void>(gpu.memory_clock()); }},
      {"temperature", [&] { static_cast<void>(gpu.temperature_celsius()); }},
      {"throttle_reasons", [&] { static_cast<void>(gpu.throttle_reasons()); }},
      {"utilisation", [&] { static_cast<void>(gpu.utilisation()); }},
      {"power_limit", [&] { static_cast<void>(gpu.power_limit()); }},
      {"compute_processes", [&] { static_cast<void>(gpu.compute_processes()); }},
  };
  Json costs;
  for (const auto& [name, call] : calls) {
    std::vector<double> us;
    try {
      const Nanoseconds processor = processor_time();
      for (int i = 0; i < 300; ++i) {
        const Nanoseconds begin = monotonic_now();
        call();
        us.push_back(us_since(begin));
      }
      costs[name] = spread(us);
      costs[name]["processor"] = static_cast<double>(processor_time() - processor) / 300e3;
    } catch (const DeviceError& error) {
      costs[name] = {{"problem", error.what()}};
    }
  }
  return costs;
}

// How often the value that `pick` takes out of a row changes (ms), and by how much (its unit).
template <class Pick>
Json changes_of(const std::vector<Row>& rows, const Pick& pick) {
  std::vector<double> gaps_ms;
  std::vector<double> steps;
  Nanoseconds last = 0;
  for (std::size_t i = 1; i < rows.size(); ++i) {
    const double step = std::abs(pick(rows[i]) - pick(rows[i - 1]));
    if (step == 0.0) continue;
    steps.push_back(step);
    if (last != 0) gaps_ms.push_back(static_cast<double>(rows[i].time - last) / 1e6);
    last = rows[i].time;
  }
  return {{"gap_ms", spread(gaps_ms)}, {"step", spread(steps)}};
}

// Mean power by the counter over the rows of [begin, end], between its changes.
double mean_watts(const std::vector<Row>& rows, Nanoseconds begin, Nanoseconds end) {
  const Row* first = nullptr;
  const Row* last = nullptr;
  for (std::size_t i = 1; i < rows.size(); ++i) {
    if (rows[i].time < begin || rows[i].time > end || rows[i].joules == rows[i - 1].joules) continue;
    if (first == nullptr) first = &rows[i];
    last = &rows[i];
  }
  if (first == nullptr || first == last) return 0.0;
  return (last->joules - first->joules) / seconds(last->time - first->time);
}

double mean_of(const std::vector<Row>& rows, Nanoseconds begin, Nanoseconds end, double Row::*member) {
  double sum = 0.0;
  std::size_t count = 0;
  for (const Row& row : rows) {
    if (row.time < begin || row.time > end) continue;
    sum += row.*member;
    ++count;
  }
  return count == 0 ? 0.0 : sum / static_cast<double>(count);
}

struct Pulse {
  Nanoseconds begin = 0;
  Nanoseconds end = 0;
  double length_s = 0.0;  // as wanted
};

// The energy that Flyball finds for a pulse when its sampler reads every 4 ms (measure/energy_track.h).
struct PulseEnergies {
  double wanted_s = 0.0;
  double count = 0.0;
  double seconds = 0.0;
  double joules = 0.0;
};

std::vector<PulseEnergies> pulse_energies(const std::vector<Row>& rows, const std::vector<Pulse>& pulses) {
  constexpr Nanoseconds kPeriod = 4 * kMillisecond;
  EnergyTrack track(kPeriod, rows.size());
  Nanoseconds next = 0;
  for (const Row& row : rows) {
    if (row.time < next) continue;
    track.add(row.time, {Watts(row.watts), Joules(row.joules)});
    next = row.time + kPeriod - 125 * kUs;
  }
  std::map<double, PulseEnergies> sums;
  for (const Pulse& pulse : pulses) {
    PulseEnergies& sum = sums[pulse.length_s];
    sum.wanted_s = pulse.length_s;
    sum.count += 1.0;
    sum.seconds += seconds(pulse.end - pulse.begin);
    sum.joules += track.energy_between(pulse.begin, pulse.end).energy.value();
  }
  std::vector<PulseEnergies> all;
  for (const auto& [length, sum] : sums) all.push_back(sum);
  return all;
}

// ---- Streams ----

// What a function or an event costs that is queued behind each of 50 kernels of half a millisecond: the caller for
// queueing, and the GPU, compared with the kernels alone.
template <class Queue>
Json stream_cost(Kernels& kernels, const Queue& queue) {
  Json cost;
  std::vector<double> queueing_us;
  kernels.wait();
  for (int i = 0; i < 40; ++i) {  // as many as a driver takes without waiting
    const Nanoseconds begin = monotonic_now();
    queue();
    queueing_us.push_back(us_since(begin));
  }
  kernels.release();
  kernels.finish();
  cost["caller_us"] = spread(queueing_us);
  std::vector<double> held_up_us;
  for (int i = 0; i < 20; ++i) {
    constexpr int kKernels = 50;
    const auto time = [&](bool with) {
      return kernels
          .time_of([&] {
            for (int k = 0; k < kKernels; ++k) {
              kernels.multiply(Seconds(0.0005));
              if (with) queue();
            }
          })
          .value();
    };
    const double without = time(false);
    held_up_us.push_back((time(true) - without) / kKernels * 1e6);
  }
  cost["gpu_us"] = spread(held_up_us);
  return cost;
}

// How long after a waiting kernel is let go a function is called that `queue` queues behind it.
template <class Queue>
Json called_after_us(Kernels& kernels, const Queue& queue) {
  std::vector<double> called_us;
  for (int i = 0; i < 300; ++i) {
    std::atomic<Nanoseconds> at = 0;
    kernels.wait();
    queue([](void* to) { static_cast<std::atomic<Nanoseconds>*>(to)->store(monotonic_now()); }, &at);
    pause_until(monotonic_now() + kMillisecond);
    const Nanoseconds begin = monotonic_now();
    kernels.release();
    kernels.finish();
    while (at == 0) std::this_thread::yield();
    called_us.push_back(static_cast<double>(at - begin) / 1e3);
  }
  return spread(called_us);
}

// How many calls of `queue` the driver takes behind a waiting kernel before it makes the caller wait; kMostAhead: more.
constexpr std::size_t kMostAhead = 5000;
template <class Queue>
std::size_t taken_ahead(Kernels& kernels, const Queue& queue) {
  std::atomic<std::size_t> taken = 0;
  std::size_t ahead = 0;
  kernels.wait();
  std::thread release([&] {
    pause_until(monotonic_now() + 500 * kMillisecond);
    ahead = taken;
    kernels.release();
  });
  for (; taken < kMostAhead; ++taken) queue();
  release.join();
  kernels.finish();
  return ahead;
}

Json stream_costs(Kernels& kernels) {
  const StreamLibrary library;
  StreamFollower follower(library);
  StreamEvent event(library);
  const auto within = [&](StreamLibrary::Function function, void* data) { kernels.queue_function(function, data); };
  const auto beside = [&](StreamLibrary::Function function, void* data) {
    follower.queue(kernels.stream(), function, data);
  };
  const StreamLibrary::Function nothing = [](void*) {};
  Json costs;
  costs["function in the stream"] = stream_cost(kernels, [&] { within(nothing, nullptr); });
  costs["function in the stream"]["called_after_us"] = called_after_us(kernels, within);
  costs["function beside it"] = stream_cost(kernels, [&] { beside(nothing, nullptr); });
  costs["function beside it"]["called_after_us"] = called_after_us(kernels, beside);
  costs["function in the stream"]["taken_ahead"] = taken_ahead(kernels, [&] { within(nothing, nullptr); });
  costs["function beside it"]["taken_ahead"] = taken_ahead(kernels, [&] { beside(nothing, nullptr); });
  costs["event"] = stream_cost(kernels, [&] { event.record(kernels.stream()); });
  return costs;
}

// ---- The check ----

struct Asked {
  std::size_t gpu = 0;
  std::string output;
  std::string trace;
};

void say(const std::string& line) {
  std::fputs((line + "\n").c_str(), stdout);
  std::fflush(stdout);
}

void say_costs(const Json& costs) {
  for (const auto& [name, cost] : costs.items()) {
    say(fmt::format("    {:<18}{}", name,
                    cost.contains("problem") ? cost["problem"].get<std::string>()
                                             : fmt::format("{}; {:.1f} us of the processor", as_text(cost, "us"),
                                                           cost["processor"].get<double>())));
  }
}

// Power by the counter, by readings, and the mean clock over the last `share` of a load.
Json power_of(const std::vector<Row>& rows, Nanoseconds begin, Nanoseconds end, double share) {
  const auto from = end - static_cast<Nanoseconds>(static_cast<double>(end - begin) * share);
  return {{"counter_w", mean_watts(rows, from, end)},
          {"power_w", mean_of(rows, from, end, &Row::watts)},
          {"sm_clock_mhz", mean_of(rows, from, end, &Row::megahertz)}};
}

void say_power(const char* what, const Json& power) {
  say(fmt::format("    {:<18}{:.1f} W by the counter, {:.1f} W by the power readings, SM clock {:.0f} MHz", what,
                  power["counter_w"].get<double>(), power["power_w"].get<double>(),
                  power["sm_clock_mhz"].get<double>()));
}

std::vector<Pulse> run_pulses(Kernels& kernels) {
  std::mt19937 chance(1);
  std::uniform_real_distribution<double> pauses(0.15, 0.35);
  std::vector<double> lengths;
  for (const auto& [length, count] :
       std::vector<std::pair<double, int>>{{0.01, 16}, {0.02, 16}, {0.05, 12}, {0.1, 12}, {0.2, 10}, {0.5, 6}}) {
    lengths.insert(lengths.end(), static_cast<std::size_t>(count), length);
  }
  std::shuffle(lengths.begin(), lengths.end(), chance);
  std::vector<Pulse> pulses;
  for (const double length : lengths) {
    pause_until(monotonic_now() + to_nanoseconds(Seconds(pauses(chance))));
    Pulse pulse{monotonic_now(), 0, length};
    kernels.multiply(Seconds(length));
    kernels.finish();
    pulse.end = monotonic_now();
    pulses.push_back(pulse);
  }
  return pulses;
}

// How much later than the load the counter's slope changes: where the straight lines of before and of work meet.
std::vector<double> lags_ms(const std::vector<Row>& rows, const std::vector<Pulse>& pulses, double idle_w) {
  std::vector<double> lags;
  for (const Pulse& pulse : pulses) {
    if (pulse.length_s < 0.5) continue;
    const Row* before = nullptr;
    const Row* first = nullptr;  // change within the work
    const Row* last = nullptr;
    for (std::size_t i = 1; i < rows.size(); ++i) {
      if (rows[i].joules == rows[i - 1].joules) continue;
      if (rows[i].time < pulse.begin) before = &rows[i];
      if (first == nullptr && rows[i].time > pulse.begin + 50 * kMillisecond) first = &rows[i];
      if (rows[i].time < pulse.end) last = &rows[i];
    }
    if (before == nullptr || first == nullptr || last == nullptr || last->time <= first->time) continue;
    const double busy_w = (last->joules - first->joules) / seconds(last->time - first->time);
    // joules gained = idle * (span - worked) + busy * worked
    const double span = seconds(first->time - before->time);
    const double worked = (first->joules - before->joules - idle_w * span) / (busy_w - idle_w);
    lags.push_back((seconds(first->time - pulse.begin) - worked) * 1e3);
  }
  return lags;
}

Json run(const Asked& asked) {
  const OpenedGpus opened = open_gpus(gpu_vendors());
  if (asked.gpu >= opened.gpus.size()) {
    throw UsageError(fmt::format("there is no GPU:{}; flyball devices lists what there is", asked.gpu));
  }
  const std::shared_ptr<GpuDevice> gpu = opened.gpus[asked.gpu];
  Json report = {{"name", gpu->identity().name},
                 {"driver", opened.drivers.empty() ? "" : opened.drivers.front().version},
                 {"power_limit_w", gpu->power_limit().value()},
                 {"temperature_c", gpu->temperature_celsius()}};
  say(fmt::format("{}: {}, driver {}, power limit {:.0f} W, {:.0f} degrees", gpu->label(), gpu->identity().name,
                  report["driver"].get<std::string>(), gpu->power_limit().value(), gpu->temperature_celsius()));
  std::vector<Row> rows;
  const auto record = [&](const auto& work) {
    FastReader reader(gpu);
    pause_until(monotonic_now() + 500 * kMillisecond);
    const Nanoseconds begin = monotonic_now();
    work();
    const Nanoseconds end = monotonic_now();
    pause_until(end + 300 * kMillisecond);
    rows = reader.stop();
    return std::pair(begin, end);
  };
  say("\nWhat a reading costs while the GPU is idle");
  say_costs(report["calls_idle"] = call_costs(*gpu));
  const auto unused = record([] { pause_until(monotonic_now() + 2000 * kMillisecond); });
  say("\nPower");
  say_power("no program", report["power"]["no_program"] = power_of(rows, unused.first, unused.second, 1.0));
  std::unique_ptr<Kernels> kernels;
  try {
    kernels = std::make_unique<Kernels>(gpu->identity().pci_bus_id);
  } catch (const Error& error) {
    say(fmt::format("Left out what needs kernels: {}", error.what()));
    report["kernels"] = {{"problem", error.what()}};
    return report;
  }
  const auto idle = record([] { pause_until(monotonic_now() + 2000 * kMillisecond); });
  say_power("a context", report["power"]["context"] = power_of(rows, idle.first, idle.second, 0.5));
  const auto waiting = record([&] {
    kernels->wait();
    pause_until(monotonic_now() + 3000 * kMillisecond);
    kernels->release();
    kernels->finish();
  });
  say_power("a waiting kernel", report["power"]["waiting"] = power_of(rows, waiting.first, waiting.second, 0.5));
  const auto work_for = [&](Seconds time) {
    // One at a time: the GPU stands still for some microseconds of each 50 ms.
    for (const Nanoseconds end = monotonic_now() + to_nanoseconds(time); monotonic_now() < end;) {
      kernels->multiply(Seconds(0.05));
      kernels->finish();
    }
  };
  const auto working = record([&] { work_for(Seconds(5.0)); });
  Json& busy = report["power"]["products"] = power_of(rows, working.first, working.second, 0.5);
  busy["tflops"] = kernels->tflops();
  say_power("matrix products", busy);
  say(fmt::format("    {:<18}{:.0f} TFLOP/s in registers, {} multiprocessors", "", kernels->tflops(),
                  kernels->multiprocessors()));
  say("\nSensors under matrix products");
  report["counter"] = changes_of(rows, [](const Row& row) { return row.joules; });
  report["power_reading"] = changes_of(rows, [](const Row& row) { return row.watts; });
  say(fmt::format("    {:<18}{}", "energy every", as_text(report["counter"]["gap_ms"], "ms")));
  say(fmt::format("    {:<18}{}", "power every", as_text(report["power_reading"]["gap_ms"], "ms")));
  std::vector<Pulse> pulses;
  record([&] { pulses = run_pulses(*kernels); });
  // Between pulses the board stays at the clock of work, and draws more than long before them.
  std::vector<double> between;
  for (std::size_t i = 1; i < pulses.size(); ++i) {
    const double watts = mean_watts(rows, pulses[i].begin - 100 * kMillisecond, pulses[i].begin);
    if (watts > 0.0) between.push_back(watts);
  }
  const double idle_w = quantile(between, 0.5);
  const Json lag = spread(lags_ms(rows, pulses, idle_w));
  report["counter"]["lag_ms"] = lag;
  say(fmt::format("    {:<18}{}", "energy late by", as_text(lag, "ms")));
  say("\nEnergy of pulses of matrix products, as Flyball finds it by readings every 4 ms");
  Json windows = Json::array();
  for (const PulseEnergies& sum : pulse_energies(rows, pulses)) {
    windows.push_back({{"length_s", sum.wanted_s},
                       {"count", sum.count},
                       {"mean_s", sum.seconds / sum.count},
                       {"mean_j", sum.joules / sum.count},
                       {"mean_w", sum.joules / sum.seconds}});
    say(fmt::format("    {:>4.0f} ms, {:>2.0f} times   {:8.3f} J each, {:6.1f} W", sum.wanted_s * 1e3, sum.count,
                    sum.joules / sum.count, sum.joules / sum.seconds));
  }
  report["pulses"] = windows;
  report["between_pulses_w"] = idle_w;
  if (!asked.trace.empty()) {
    std::ofstream file(asked.trace);
    file << "time_us,energy_mj,power_mw,sm_clock_mhz\n";
    for (const Row& row : rows) {
      file << fmt::format("{},{:.0f},{:.0f},{:.0f}\n", (row.time - rows.front().time) / kUs,
                          (row.joules - rows.front().joules) * 1e3, row.watts * 1e3, row.megahertz);
    }
    for (const Pulse& pulse : pulses) {
      file << fmt::format("# pulse {} {}\n", (pulse.begin - rows.front().time) / kUs,
                          (pulse.end - rows.front().time) / kUs);
    }
  }
  say("\nWhat a reading costs under load");
  std::atomic<bool> ended = false;
  std::thread load([&] {
    kernels->use_in_this_thread();
    while (!ended) work_for(Seconds(0.1));
  });
  say_costs(report["calls_busy"] = call_costs(*gpu));
  ended = true;
  load.join();
  say("\nIn a stream");
  const Json stream = stream_costs(*kernels);
  for (const auto& [name, costs] : stream.items()) {
    for (const auto& [what, cost] : costs.items()) {
      say(fmt::format("    {:<24}{:<18}{}", name, what, cost.is_object() ? as_text(cost, "us") : cost.dump()));
    }
  }
  report["streams"] = stream;
  return report;
}

int check(int argc, char** argv) {
  CLI::App app{"measure what a GPU and its driver do, without changing a setting"};
  Asked asked;
  app.add_option("--gpu", asked.gpu, "the GPU, as flyball devices counts (default 0)");
  app.add_option("--output", asked.output, "write the report to this file as JSON");
  app.add_option("--trace", asked.trace, "write the readings during pulses to this file as CSV");
  CLI11_PARSE(app, argc, argv);
  const Json report = run(asked);
  if (!asked.output.empty()) std::ofstream(asked.output) << report.dump(2) << "\n";
  return 0;
}

}  // namespace
}  // namespace flyball

int main(int argc, char** argv) {
  try {
    return flyball::check(argc, argv);
  } catch (const flyball::Error& error) {
    std::fprintf(stderr, "gpu_check: %s\n", error.what());
    return 1;
  }
}
