// flyball account, run as users run it.
#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "base/file_descriptor.h"
#include "cli/program.h"

namespace flyball::testing {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::Not;

// Two operations on a processor: 1.0 to 1.2 s and 1.1 to 1.4 s.
constexpr const char* kEvents = R"({"traceEvents": [
  {"ph": "M", "name": "process_name", "pid": 1, "args": {"name": "/device:CPU:0"}},
  {"ph": "X", "name": "m/layer_0/dense/MatMul", "pid": 1, "tid": 1, "ts": 1000000, "dur": 200000},
  {"ph": "X", "name": "m/layer_1/dense/MatMul", "pid": 1, "tid": 2, "ts": 1100000, "dur": 300000}
]})";

// 100 W from 0.9 s, 200 W from 1.3 s to 1.5 s. MatMul of layer 0: 0.1 s alone, 0.1 s of half: 15 J. Of layer 1: 5 J,
// 0.1 s at 100 W and 0.1 s at 200 W: 35 J. Before the first event 0.1 s at 100 W, and after the last about 0.1 s at 200
// W: a last reading holds for as long as the others, nearly. Something always runs in between.
constexpr const char* kPower = "timestamp,device,power_w\n0.9,CPU:0,100\n1.1,CPU:0,100\n1.3,CPU:0,200\n";

struct Traces {
  TempFolder folder;
  std::string events = folder / "events.json";
  std::string power = folder / "power.csv";
  Traces() {
    write_file(events, kEvents);
    write_file(power, kPower);
  }
};

TEST(Account, GivesEveryJouleToSomething) {
  const Traces traces;
  const Ran ran = run_flyball({"account", "--events", traces.events, "--power", traces.power, "--format", "json"});
  ASSERT_EQ(ran.status, 0) << ran.err;
  const json result = ran.json();
  const double measured = result.at("measured_j");
  EXPECT_NEAR(measured, 80.0, 0.5);
  EXPECT_NEAR(result.at("attributed_j"), 50.0, 50e-9);
  EXPECT_NEAR(result.at("idle_j"), 0.0, 1e-9);
  EXPECT_NEAR(result.at("outside_j").get<double>() + 50.0, measured, 1e-9 * measured);
  EXPECT_NEAR(result.at("profiled_s"), 0.4, 1e-12);
  ASSERT_EQ(result.at("devices").size(), 1u);
  EXPECT_EQ(result.at("devices").at(0).at("device"), "CPU:0");
  ASSERT_EQ(result.at("footprint").size(), 2u);
  const json& most = result.at("footprint").at(0);
  EXPECT_EQ(most.at("name"), "m/layer_1/dense/MatMul");
  EXPECT_EQ(most.at("device"), "CPU:0");
  EXPECT_NEAR(most.at("energy_j"), 35.0, 35e-9);
  EXPECT_NEAR(most.at("busy_s"), 0.3, 1e-9);
  EXPECT_NEAR(most.at("mean_power_w"), 35.0 / 0.3, 1e-6);
}

// 80 W for a second before anything runs, 200 W while it does, 80 W after. Layer 0 has 0.1 s alone and 0.1 s of half,
// 30 J in 0.15 s of the device's time: 80 W x 0.15 s = 12 J static. Layer 1 has 50 J in 0.25 s: 20 J static.
TEST(Account, TellsStaticAndDynamicEnergyApart) {
  const Traces traces;
  std::string power = "timestamp,device,power_w\n";
  for (int tenth = 0; tenth <= 20; ++tenth) {
    power += fmt::format("{},CPU:0,{}\n", tenth / 10.0, tenth >= 10 && tenth < 14 ? 200 : 80);
  }
  write_file(traces.power, power);
  const std::vector<std::string> command = {"account", "--events",   traces.events,
                                            "--power", traces.power, "--method",
                                            "sweep",   "--csv",      traces.folder / "account.csv"};
  const auto account = [&command](std::vector<std::string> more) {
    more.insert(more.begin(), command.begin(), command.end());
    return run_flyball(more);
  };
  json found = account({"--format", "json"}).json();
  EXPECT_EQ(found.at("footprint").at(0).at("name"), "m/layer_1/dense/MatMul");
  EXPECT_NEAR(found.at("footprint").at(0).at("static_j"), 20.0, 20e-9);
  EXPECT_NEAR(found.at("footprint").at(0).at("dynamic_j"), 30.0, 30e-9);
  EXPECT_NEAR(found.at("footprint").at(1).at("static_j"), 12.0, 12e-9);
  EXPECT_NEAR(found.at("footprint").at(1).at("dynamic_j"), 18.0, 18e-9);
  EXPECT_NEAR(found.at("devices").at(0).at("static_power_w"), 80.0, 80e-9);
  EXPECT_NEAR(found.at("devices").at(0).at("static_j"), 32.0, 32e-9);
  EXPECT_NEAR(found.at("devices").at(0).at("dynamic_j"), 48.0, 48e-9);
  const Ran text = account({});
  EXPECT_THAT(text.out, HasSubstr("32 J are static and 48 J dynamic (CPU:0 draws 80 W while nothing runs)"));
  EXPECT_THAT(text.out, HasSubstr("static (J)"));
  // What is given goes first. No row has more static energy than energy: 0.15 s x 300 W would be 45 J.
  found = account({"--static-power", "CPU:0=300W", "--format", "json"}).json();
  EXPECT_NEAR(found.at("footprint").at(1).at("static_j"), 30.0, 30e-9);
  EXPECT_NEAR(found.at("footprint").at(1).at("dynamic_j"), 0.0, 1e-9);
  EXPECT_THAT(account({"--static-power", "GPU:7=1"}).out, HasSubstr("--static-power GPU:7=... changes nothing"));
  EXPECT_THAT(account({"--static-power", "CPU:0=-1W"}).err, HasSubstr("--static-power takes a power in watts"));
  EXPECT_THAT(account({"--static-power", "CPU:0=nanW"}).err, HasSubstr("--static-power takes a power in watts"));
  EXPECT_THAT(account({"--static-power", "80W"}).err, HasSubstr("expected NAME=WATTS, such as GPU:0=80W"));

  // Where nothing ran for too short a time, or as much was drawn, nothing is guessed.
  write_file(traces.power, kPower);
  const Ran unknown = account({"--format", "json"});
  EXPECT_FALSE(unknown.json().at("footprint").at(0).contains("static_j"));
  EXPECT_THAT(unknown.out,
              HasSubstr("static and dynamic energy are not told apart of CPU:0: readings while nothing ran"));
  std::string level = "timestamp,device,power_w\n";
  for (int tenth = 0; tenth <= 20; ++tenth) {
    level += fmt::format("{},CPU:0,{}\n", tenth / 10.0, tenth >= 10 && tenth < 14 ? 200 : 201);
  }
  write_file(traces.power, level);
  EXPECT_THAT(account({}).out, HasSubstr("as much was drawn while nothing of the profile ran"));
}

// Events are on CPU:0 alone; the trace has 100 W of CPU:1 and 10 W of its memory, 0.4 s of which are profiled.
TEST(Account, SaysWhichSocketsWereMeasuredInVain) {
  const Traces traces;
  write_file(traces.power, std::string(kPower) + "0.9,CPU:1,100\n1.5,CPU:1,100\n0.9,DRAM:1,10\n1.5,DRAM:1,10\n");
  const Ran ran = run_flyball({"account", "--events", traces.events, "--power", traces.power});
  EXPECT_THAT(ran.out, HasSubstr("CPU:1, DRAM:1: 44.000 J within the profile are not attributed, since no event is on "
                                 "them; --power-device CPU:1=CPU:0 attributes them together"));
  const Ran together = run_flyball({"account", "--events", traces.events, "--power", traces.power, "--power-device",
                                    "CPU:1=CPU:0", "--power-device", "DRAM:1=CPU:0"});
  EXPECT_THAT(together.out, Not(HasSubstr("are not attributed, since")));
}

TEST(Account, WarnsOfRanksThatCallOneGpuTheSame) {
  const Traces traces;
  std::string gpu = kEvents;
  gpu.replace(gpu.find("CPU:0"), 5, "GPU:0");
  write_file(traces.events, gpu);
  write_file(traces.folder / "other.json", gpu);
  write_file(traces.power, "timestamp,device,power_w\n0.9,GPU:0,100\n1.5,GPU:0,100\n0.9,GPU:1,100\n1.5,GPU:1,100\n");
  std::vector<std::string> command = {"account", "--ranks",   "--events", traces.events, traces.folder / "other.json",
                                      "--power", traces.power};
  EXPECT_THAT(run_flyball(command).err, HasSubstr("0/GPU:0 and 1/GPU:0 are taken for one GPU, GPU:0; where each rank"));
  command.insert(command.end(), {"--event-device", "1/GPU:0=GPU:1"});
  EXPECT_THAT(run_flyball(command).err, Not(HasSubstr("are taken for one GPU")));
}

// Two runs, or ranks, have the mean, or the sum, of both parts.
TEST(Account, StaticEnergyOfSeveralRunsIsTheirMean) {
  const Traces traces;
  const Ran ran = run_flyball({"account", "--events", traces.events, traces.events, "--power", traces.power,
                               traces.power, "--static-power", "CPU:0=40", "--format", "json"});
  ASSERT_EQ(ran.status, 0) << ran.err;
  // Layer 0 has 0.15 s of the device's time, layer 1 has 0.25 s.
  EXPECT_NEAR(ran.json().at("footprint").at(0).at("static_j"), 10.0, 10e-9);
  EXPECT_NEAR(ran.json().at("footprint").at(1).at("static_j"), 6.0, 6e-9);
  EXPECT_NEAR(ran.json().at("devices").at(0).at("static_power_w"), 40.0, 1e-9);
}

// The timelines that flyball plan writes are an event trace, too. Something runs from the begin of the longer of the
// two iterations to its end, on a device that draws 100 W.
TEST(Account, ReadsThePlannedTimelines) {
  const TempFolder folder;
  const Ran planned = run_flyball({"plan", kBertProfile, "--microbatches", "8", "--switch-latency", "0", "--straggler",
                                   "1.1", "--out", folder / "out", "--format", "json"});
  ASSERT_EQ(planned.status, 0) << planned.err;
  const double before = planned.json().at("baseline").at("time");
  const double after = planned.json().at("selected").at("time");
  const double longest = std::max(before, after);
  write_file(folder / "power.csv", "timestamp,device,power_w\n0,CPU:0,100\n10,CPU:0,100\n20,CPU:0,100\n");
  const Ran ran = run_flyball(
      {"account", "--events", folder / "out/timeline.trace.json", "--power", folder / "power.csv", "--format", "json"});
  ASSERT_EQ(ran.status, 0) << ran.err;
  const json result = ran.json();
  EXPECT_NEAR(result.at("profiled_s"), longest, 1e-9);
  EXPECT_NEAR(result.at("attributed_j"), 100.0 * longest, 1e-6);
  EXPECT_NEAR(result.at("idle_j"), 0.0, 1e-6);
  // Forwards and backwards of eight microbatches: F0 to F7, B0 to B7.
  EXPECT_EQ(result.at("footprint").size(), 16u);
}

// The joules of an operation's events in the trace for Perfetto add up to its row, whatever the method; and the trace
// can be read again, where its events of the same times get the same joules.
TEST(Account, WritesEventsWithTheirJoules) {
  for (const char* method : {"sweep", "regress"}) {
    const Traces traces;
    const std::string chrome = traces.folder / "trace.json";
    const Ran written = run_flyball({"account", "--events", traces.events, "--power", traces.power, "--method", method,
                                     "--chrome", chrome, "--format", "json"});
    ASSERT_EQ(written.status, 0) << written.err;
    std::map<std::string, double> joules;
    const json trace = json::parse(file_text(chrome));
    for (const json& event : trace.at("traceEvents")) {
      if (event.at("ph") != "X") continue;
      const json& arguments = event.at("args");
      joules[arguments.at("operation")] += arguments.at("joules").get<double>();
    }
    const json rows = written.json().at("footprint");
    ASSERT_EQ(rows.size(), joules.size());
    for (const json& row : rows) {
      const double energy = row.at("energy_j");
      EXPECT_NEAR(joules.at(row.at("name")), energy, 1e-9 * energy) << method;
    }
    const Ran again = run_flyball({"account", "--events", chrome, "--power", traces.power, "--format", "json"});
    ASSERT_EQ(again.status, 0) << again.err;
    EXPECT_NEAR(again.json().at("attributed_j"), 50.0, 50e-9);
  }
  const Traces traces;
  const Ran several = run_flyball({"account", "--events", traces.events, "--events", traces.events, "--power",
                                   traces.power, "--power", traces.power, "--chrome", traces.folder / "trace.json"});
  EXPECT_EQ(several.status, 2);
  EXPECT_THAT(several.err, HasSubstr("--chrome shows the events of one run"));
  EXPECT_FALSE(std::filesystem::exists(traces.folder / "trace.json"));
}

// A run without power in its time: the trace is not left half-written.
TEST(Account, LeavesNoTraceOfWhatFails) {
  const Traces traces;
  const Ran failed = run_flyball({"account", "--events", traces.events, "--power", traces.folder / "none.csv",
                                  "--chrome", traces.folder / "trace.json"});
  EXPECT_NE(failed.status, 0);
  for (const auto& entry : std::filesystem::directory_iterator(traces.folder.path())) {
    EXPECT_THAT(entry.path().string(), Not(HasSubstr("trace.json")));
  }
}

// An export of Nsight Systems and 300 W from before its session until after it: 33 ms of GPU work.
TEST(Account, ReadsAnExportOfNsightSystems) {
  const Traces traces;
  write_file(traces.power,
             "timestamp,device,power_w\n1699999999,GPU:3,300\n1700000000,GPU:3,300\n1700000001,GPU:3,300\n");
  const Ran ran = run_flyball(
      {"account", "--events", "tests/trace/files/nsys-export.sqlite", "--power", traces.power, "--format", "json"});
  ASSERT_EQ(ran.status, 0) << ran.err;
  EXPECT_NEAR(ran.json().at("attributed_j"), 33e-3 * 300, 1e-6);
}

TEST(Account, PrintsTheTopConsumers) {
  const Traces traces;
  const Ran ran = run_flyball({"account", "--events", traces.events, "--power", traces.power, "--top", "1"});
  ASSERT_EQ(ran.status, 0) << ran.err;
  EXPECT_THAT(ran.out, HasSubstr(" J = attributed 50.000 J (62."));
  EXPECT_THAT(ran.out, HasSubstr(" + idle 0.000 J (0.0 %) + outside the profile "));
  EXPECT_THAT(ran.out, HasSubstr("m/layer_1/dense/MatMul"));
  EXPECT_THAT(ran.out, HasSubstr("and 1 more with 15.000 J"));
}

// 10 W for 10 s, then 50 W for 1 s: `long` has 100 J, `hot` 50 J.
TEST(Account, OrdersByPowerOnRequest) {
  const TempFolder folder;
  write_file(folder / "e.json", R"({"traceEvents": [
    {"ph": "X", "name": "long", "pid": 1, "tid": 1, "ts": 1000000, "dur": 10000000},
    {"ph": "X", "name": "hot", "pid": 1, "tid": 1, "ts": 11000000, "dur": 1000000}]})");
  std::string power = "timestamp,device,power_w\n";
  for (int second = 0; second <= 13; ++second) power += fmt::format("{},CPU:0,{}\n", second, second < 11 ? 10 : 50);
  write_file(folder / "p.csv", power);
  const auto account = [&](const char* order) {
    return run_flyball({"account", "--events", folder / "e.json", "--power", folder / "p.csv", "--order", order}).out;
  };
  const std::string by_energy = account("energy");
  EXPECT_LT(by_energy.find(" long\n"), by_energy.find(" hot\n")) << by_energy;
  const std::string by_power = account("power");
  EXPECT_LT(by_power.find(" hot\n"), by_power.find(" long\n")) << by_power;
}

TEST(Account, SummarisesAndWritesFiles) {
  const Traces traces;
  const Ran ran = run_flyball({"account", "--events", traces.events, "--power", traces.power, "--summary", "--json",
                               traces.folder / "f.json", "--csv", traces.folder / "f.csv", "--html",
                               traces.folder / "f.html", "--svg", traces.folder / "f.dot", "--module", "m"});
  ASSERT_EQ(ran.status, 0) << ran.err;
  const json footprint = json::parse(file_text(traces.folder / "f.json"));
  ASSERT_EQ(footprint.at("footprint").size(), 1u);
  EXPECT_EQ(footprint.at("footprint").at(0).at("name"), "m/layer_*/dense/MatMul");
  EXPECT_NEAR(footprint.at("footprint").at(0).at("energy_j"), 50.0, 1e-7);
  EXPECT_THAT(file_text(traces.folder / "f.csv"), HasSubstr("m/layer_*/dense/MatMul,CPU:0,forward,50"));
  EXPECT_THAT(file_text(traces.folder / "f.html"), HasSubstr("energy-data"));
  EXPECT_THAT(file_text(traces.folder / "f.html"), Not(HasSubstr("http://localhost")));
  EXPECT_THAT(file_text(traces.folder / "f.dot"), HasSubstr("layer_1\\n70.00 %"));
}

std::string between(const std::string& text, const std::string& begin, const std::string& end) {
  const std::size_t at = text.find(begin);
  return at == std::string::npos ? "" : text.substr(at, text.find(end, at) - at);
}

// Power whose clock is 1000 s ahead: once the events are moved there, the picture is that of clocks that agree.
TEST(Account, ThePictureHasTheClockOffsetOnce) {
  const Traces traces;
  const auto picture = [&](const std::string& offset) {
    const std::string page = traces.folder / "page.html";
    const Ran ran = run_flyball(
        {"account", "--events", traces.events, "--power", traces.power, "--clock-offset", offset, "--html", page});
    EXPECT_EQ(ran.status, 0) << ran.err;
    return between(file_text(page), "<h2>Power</h2>", "<h2>Top consumers");
  };
  const std::string agreeing = picture("0s");
  EXPECT_THAT(agreeing, HasSubstr("<polyline"));
  write_file(traces.power, "timestamp,device,power_w\n1000.9,CPU:0,100\n1001.1,CPU:0,100\n1001.3,CPU:0,200\n");
  EXPECT_EQ(picture("1000s"), agreeing);
}

TEST(Account, MethodsAgreeOnWhatTheyMeasured) {
  const Traces traces;
  const Ran ran = run_flyball(
      {"account", "--events", traces.events, "--power", traces.power, "--method", "regress", "--format", "json"});
  ASSERT_EQ(ran.status, 0) << ran.err;
  const double measured = ran.json().at("measured_j");
  EXPECT_NEAR(measured, 80.0, 0.5);
  EXPECT_NEAR(ran.json().at("attributed_j").get<double>() + ran.json().at("outside_j").get<double>(), measured,
              1e-9 * measured);
  EXPECT_NEAR(ran.json().at("outside_j"), 30.0, 0.5);
}

// Eight GPUs of (n + 1) * 100 W from 0 s to 10 s, n the index; a program that saw CUDA_VISIBLE_DEVICES=4 calls it GPU:0
// and ran on it from 2 s to 6 s: 4 s of 500 W. In all 3,600 W for 10 s.
TEST(Account, AProgramThatSeesOneGpuOfEight) {
  const Traces traces;
  write_file(traces.events, R"({"schemaVersion": 1, "deviceProperties": [{"id": 0}], "traceEvents": [
    {"ph": "X", "cat": "kernel", "name": "gemm", "pid": 0, "tid": 7, "ts": 2000000, "dur": 4000000,
     "args": {"device": 0, "correlation": 1}}]})");
  std::string power = "timestamp,device,energy_j\n";
  for (int second : {0, 10}) {
    for (int gpu = 0; gpu < 8; ++gpu) power += fmt::format("{},GPU:{},{}\n", second, gpu, second * (gpu + 1) * 100);
  }
  write_file(traces.power, power);
  const std::vector<std::string> account = {"account", "--events", traces.events, "--power", traces.power};
  const auto with = [&account](std::vector<std::string> more) {
    more.insert(more.begin(), account.begin(), account.end());
    return run_flyball(more);
  };
  const Ran ran = with({"--event-device", "GPU:0=GPU:4", "--format", "json"});
  ASSERT_EQ(ran.status, 0) << ran.err;
  EXPECT_NEAR(ran.json().at("measured_j"), 36'000.0, 36e-6);
  EXPECT_NEAR(ran.json().at("attributed_j"), 2'000.0, 2e-6);
  ASSERT_EQ(ran.json().at("devices").size(), 8u);
  const json footprint = ran.json();
  for (const json& device : footprint.at("devices")) {
    EXPECT_NEAR(device.at("attributed_j"), device.at("device") == "GPU:4" ? 2'000.0 : 0.0, 2e-6);
  }
  EXPECT_THAT(ran.out, Not(HasSubstr("is the sum of")));
  // The same from the other side adds the physical GPU:0 to it, and says so: 4 s of 600 W.
  const Ran other = with({"--power-device", "GPU:4=GPU:0"});
  ASSERT_EQ(other.status, 0) << other.err;
  EXPECT_THAT(other.out, HasSubstr("measured 36000.000 J = attributed 2400.000 J"));
  EXPECT_THAT(other.out, HasSubstr("GPU:0 is the sum of GPU:0 and GPU:4 of the power trace"));
  const Ran unmet = with({"--event-device", "GPU:9=GPU:4"});
  ASSERT_EQ(unmet.status, 0) << unmet.err;
  EXPECT_THAT(unmet.out, HasSubstr("--event-device GPU:9=... changes nothing"));
  EXPECT_THAT(unmet.out, HasSubstr("has GPU:0\n"));
  EXPECT_THAT(with({"--event-device", "GPU:0=GPU:4", "--event-device", "GPU:0=GPU:5"}).err, HasSubstr("given twice"));
  EXPECT_EQ(with({"--device", "GPU:0=GPU:4"}).status, 2);
}

// What ran on socket 1 says nothing of socket 0's energy.
TEST(Account, JiffiesDivideOnlyTheirOwnSocket) {
  const Traces traces;
  write_file(traces.power, "timestamp,device,power_w\n0.9,CPU:1,100\n1.1,CPU:1,100\n1.3,CPU:1,200\n");
  write_file(
      traces.folder / "j.csv",
      "timestamp,kind,id,cpu,busy,system\n0.9,cpu,0,0,0,0\n0.9,cpu,1,1,0,0\n1.5,cpu,0,0,60,0\n1.5,cpu,1,1,60,0\n");
  const Ran ran = run_flyball({"account", "--events", traces.events, "--power", traces.power, "--jiffies",
                               traces.folder / "j.csv", "--power-device", "CPU:1=CPU:0"});
  EXPECT_EQ(ran.status, 2);
  EXPECT_THAT(ran.err, HasSubstr("--power-device CPU:1=CPU:0: --jiffies would divide"));
}

// Bursts of 20 to 200 ms, as far apart, for 20 s, all in steps of 10 ms; a processor draws 260 W in them and 60 W else.
struct Bursts {
  std::string events = R"({"traceEvents": [
    {"ph": "M", "name": "process_name", "pid": 1, "args": {"name": "/device:CPU:0"}})";
  std::string power = "timestamp,device,energy_j\n";
  double busy_s = 0.0;

  // Power begins at 100 s on its clock, the events 2 s later; their clock is `behind_ms` behind that.
  explicit Bursts(int behind_ms) {
    std::mt19937 random(5);
    std::vector<bool> busy(2400);
    for (std::size_t at = 200; at < 2200;) {
      const std::size_t length = 2 + random() % 19;
      std::fill_n(busy.begin() + static_cast<std::ptrdiff_t>(at), length, true);
      events += fmt::format(R"(, {{"ph": "X", "name": "m/op", "pid": 1, "tid": 1, "ts": {}, "dur": {}}})",
                            (100'000 + static_cast<int>(at) * 10 - behind_ms) * 1000LL, length * 10'000);
      busy_s += static_cast<double>(length) / 100.0;
      at += length + 2 + random() % 19;
    }
    events += "]}";
    double joules = 0.0;
    for (std::size_t i = 0; i <= busy.size(); ++i) {
      power += fmt::format("{:.2f},CPU:0,{:.1f}\n", 100.0 + static_cast<double>(i) / 100.0, joules);
      if (i < busy.size()) joules += busy[i] ? 2.6 : 0.6;
    }
  }
};

Ran account_of(const Traces& traces, const Bursts& bursts, std::vector<std::string> more = {}) {
  write_file(traces.events, bursts.events);
  write_file(traces.power, bursts.power);
  more.insert(more.begin(), {"account", "--events", traces.events, "--power", traces.power, "--format", "json"});
  return run_flyball(more);
}

// The number behind `words`.
double number_behind(const std::string& text, const std::string& words) {
  const std::size_t at = text.find(words);
  return at == std::string::npos ? std::nan("") : std::strtod(text.c_str() + at + words.size(), nullptr);
}

TEST(Account, ClocksThatAgreeAreSaidTo) {
  const Traces traces;
  const Bursts right(0);
  const Ran ran = account_of(traces, right);
  ASSERT_EQ(ran.status, 0) << ran.err;
  EXPECT_EQ(ran.err, "");
  EXPECT_THAT(ran.out, HasSubstr("clocks agree: power follows the events best at"));
  EXPECT_NEAR(ran.json().at("attributed_j"), 260.0 * right.busy_s, 1e-6 * 260.0 * right.busy_s);
}

// The traces overlap, but 3 s wrong: each operation gets what another moment drew.
TEST(Account, AWrongClockIsNoticedWhereTheTracesOverlap) {
  const Traces traces;
  const Bursts wrong(3000);
  const Ran ran = account_of(traces, wrong);
  ASSERT_EQ(ran.status, 0) << ran.err;
  constexpr const char* kWords = "clocks apart, or the sensor late: power follows the events best with ";
  EXPECT_NEAR(number_behind(ran.err, kWords), 3.0, 0.002) << ran.err;
  EXPECT_THAT(ran.err, HasSubstr("warning: "));
  EXPECT_THAT(ran.err, HasSubstr("(certain: "));
  EXPECT_NEAR(number_behind(ran.out, kWords), 3.0, 0.002) << ran.out;
  const double true_joules = 260.0 * wrong.busy_s;
  EXPECT_LT(ran.json().at("attributed_j"), 0.8 * true_joules);  // half of 200 W are lost, and of 60 W nothing

  const Ran found = account_of(traces, wrong, {"--clock-offset", "auto"});
  EXPECT_EQ(found.err, "");
  EXPECT_NEAR(found.json().at("attributed_j"), true_joules, 0.01 * true_joules);
  // Who gives an offset is told, too, which one is better.
  const Ran given = account_of(traces, wrong, {"--clock-offset", "1s"});
  EXPECT_EQ(given.err, "");
  EXPECT_NEAR(number_behind(given.out, kWords), 3.0, 0.002) << given.out;
  const double offered = number_behind(given.out, "--clock-offset=");
  EXPECT_NEAR(offered, 3.0, 0.002) << given.out;
  const Ran taken = account_of(traces, wrong, {fmt::format("--clock-offset={}s", offered)});
  EXPECT_NEAR(taken.json().at("attributed_j"), true_joules, 0.01 * true_joules);
  EXPECT_NEAR(number_behind(taken.out, "clocks agree: power follows the events best at "), 3.0, 0.002) << taken.out;
}

TEST(Account, PowerOfAnotherDeviceDoesNotFollowTheEvents) {
  const Traces traces;
  Bursts other(0);
  std::mt19937 random(9);
  other.power = "timestamp,device,power_w\n";
  for (int i = 0; i <= 2400; ++i) other.power += fmt::format("{:.2f},CPU:0,{}\n", 100.0 + i / 100.0, random() % 100);
  EXPECT_THAT(account_of(traces, other).out, HasSubstr("clocks not checked: power hardly follows the events"));
  other.power = "timestamp,device,power_w\n100,CPU:0,50\n112,CPU:0,50\n";
  EXPECT_THAT(account_of(traces, other).out, HasSubstr("clocks not checked: no device is in both"));
}

// nvidia-smi writes local time: 13:00 where it is 12:00 UTC, 1706702400 s since 1970. The kernel has 1 s of 100 W.
TEST(Account, LocalTimesOfThePowerTrace) {
  const Traces traces;
  write_file(traces.power,
             "timestamp, index, power.draw [W]\n2024/01/31 13:00:00.000, 0, 100 W\n2024/01/31 13:00:01.000, 0, 100 W\n"
             "2024/01/31 13:00:02.000, 0, 100 W\n2024/01/31 13:00:03.000, 0, 100 W\n");
  write_file(traces.events, R"([{"ph": "X", "cat": "kernel", "name": "gemm", "pid": 0, "tid": 7,
    "ts": 1706702401000000, "dur": 1000000, "args": {"device": 0}}])");
  const Ran ran = run_flyball(
      {"account", "--events", traces.events, "--power", traces.power, "--utc-offset", "+01:00", "--format", "json"});
  ASSERT_EQ(ran.status, 0) << ran.err;
  EXPECT_NEAR(ran.json().at("attributed_j"), 100.0, 1e-6);
}

// A counter of RAPL that passes its range between 1 s and 2 s: 100 J up to it and 50 J from its begin; 50 J before
// and 100 J after.
TEST(Account, ACounterThatPassesItsRangeKeepsItsInterval) {
  const Traces traces;
  write_file(traces.power,
             "timestamp,device,energy_j\n0,CPU:0,261993.32885\n1,CPU:0,262043.32885\n2,CPU:0,50\n3,CPU:0,150\n");
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {"account", "--events", traces.events, "--power", traces.power, "--format", "json"});
    return run_flyball(more);
  };
  const Ran wrapped = with({"--counter-range", "CPU:0=262143.32885"});
  ASSERT_EQ(wrapped.status, 0) << wrapped.err;
  EXPECT_NEAR(wrapped.json().at("measured_j"), 300.0, 1e-6);
  EXPECT_NEAR(wrapped.json().at("attributed_j"), 60.0, 1e-6);  // 0.4 s of 150 W
  EXPECT_THAT(wrapped.out, HasSubstr("CPU:0: the counter passed its range 1 time"));
  const Ran anew = with({});
  EXPECT_NEAR(anew.json().at("measured_j"), 150.0, 1e-6);
  EXPECT_THAT(anew.out, HasSubstr("CPU:0: the counter began anew 1 time"));
  EXPECT_THAT(with({"--counter-range", "CPU:0=-1"}).err, HasSubstr("--counter-range"));
}

// Five rows of 100 W, 0.1 s apart; a thread's name tells the device, on which something runs for 0.2 s.
TEST(Account, RowsWithoutTimesAndThreadsThatAreDevices) {
  const Traces traces;
  std::string power = "#Entity POWER\nID W\n";
  for (int row = 0; row < 5; ++row) power += "GPU 1 100\n";
  write_file(traces.power, power);
  write_file(traces.events, R"([{"ph": "M", "name": "thread_name", "pid": 1, "tid": 5, "args": {"name": "GPU 1"}},
    {"ph": "X", "name": "a", "pid": 1, "tid": 5, "ts": 100000, "dur": 200000}])");
  const Ran ran = run_flyball({"account", "--events", traces.events, "--power", traces.power, "--row-period", "100ms",
                               "--chrome-device", "thread", "--format", "json"});
  ASSERT_EQ(ran.status, 0) << ran.err;
  EXPECT_NEAR(ran.json().at("measured_j"), 50.0, 1e-6);
  EXPECT_NEAR(ran.json().at("attributed_j"), 20.0, 1e-6);
}

// CPU:0 draws 100 W to 1.3 s and 200 W to about 1.5 s; the jiffies reach from 1.0 s to 1.2 s and give the program half.
TEST(Account, WhatJiffiesDoNotCoverIsSaid) {
  const Traces traces;
  write_file(
      traces.folder / "j.csv",
      "timestamp,kind,id,cpu,busy,system\n1.0,cpu,0,0,0,0\n1.0,task,7,0,0,0\n1.2,cpu,0,0,20,0\n1.2,task,7,0,10,0\n");
  const Ran ran = run_flyball(
      {"account", "--events", traces.events, "--power", traces.power, "--jiffies", traces.folder / "j.csv"});
  ASSERT_EQ(ran.status, 0) << ran.err;
  // 0.1 s of 100 W before; 0.1 s of 100 W and 0.2 s of 200 W after.
  EXPECT_NEAR(number_behind(ran.out, " s with "), 60.0, 0.5) << ran.out;
  EXPECT_THAT(ran.out, HasSubstr("lie outside the jiffies and were not divided among processes"));
}

// All of socket 0's time and half of socket 1's are the program's. Of CPU:1's 40 W it has 20 W: layer 0 has them for
// 0.1 s alone and for 0.1 s of which layer 1 has half, which then has 0.2 s alone. Of DRAM:1's 10 W it has 5 W.
TEST(Account, SocketsAndMemoriesOfWhichNoEventTellsAreDividedByWhatRanOnTheHost) {
  const Traces traces;
  write_file(traces.power,
             "timestamp,device,power_w\n0.9,CPU:0,100\n0.9,CPU:1,40\n0.9,DRAM:1,10\n1.1,CPU:0,100\n1.3,CPU:0,200\n"
             "1.2,CPU:1,40\n1.2,DRAM:1,10\n1.5,CPU:0,200\n1.5,CPU:1,40\n1.5,DRAM:1,10\n");
  const std::string jiffies = traces.folder / "j.csv";
  write_file(jiffies,
             "timestamp,kind,id,cpu,busy,system\n0.9,cpu,0,0,0,0\n0.9,cpu,1,1,0,0\n0.9,task,7,0,0,0\n0.9,task,8,1,0,0\n"
             "1.9,cpu,0,0,60,0\n1.9,cpu,1,1,60,0\n1.9,task,7,0,60,0\n1.9,task,8,1,30,0\n");
  const Ran ran = run_flyball({"account", "--events", traces.events, "--power", traces.power, "--jiffies", jiffies,
                               "--method", "sweep", "--format", "json"});
  ASSERT_EQ(ran.status, 0) << ran.err;
  std::map<std::pair<std::string, std::string>, double> joules;
  const nlohmann::json told = ran.json();
  for (const nlohmann::json& row : told.at("footprint"))
    joules[{row.at("device"), row.at("name")}] = row.at("energy_j");
  EXPECT_NEAR((joules[{"CPU:0", "m/layer_0/dense/MatMul"}]), 15.0, 1e-6);
  EXPECT_NEAR((joules[{"CPU:0", "m/layer_1/dense/MatMul"}]), 35.0, 1e-6);
  EXPECT_NEAR((joules[{"CPU:1", "m/layer_0/dense/MatMul"}]), 3.0, 1e-6);
  EXPECT_NEAR((joules[{"CPU:1", "m/layer_1/dense/MatMul"}]), 5.0, 1e-6);
  EXPECT_NEAR((joules[{"DRAM:1", "m/layer_0/dense/MatMul"}]), 0.75, 1e-6);
  EXPECT_NEAR((joules[{"DRAM:1", "m/layer_1/dense/MatMul"}]), 1.25, 1e-6);
  EXPECT_THAT(ran.out, HasSubstr("CPU:1, DRAM:1: no event is on them"));
  for (const nlohmann::json& device : told.at("devices")) {
    double sum = 0.0;
    for (const char* part : {"attributed_j", "idle_j", "outside_j", "other_processes_j", "system_j", "monitor_j"}) {
      sum += device.value(part, 0.0);
    }
    EXPECT_NEAR(sum, device.at("measured_j").get<double>(), 1e-9 * sum) << device;
  }
}

TEST(Account, RunsComparedAndJudged) {
  const Traces traces;
  const std::string a = traces.folder / "a.json";
  const std::string b = traces.folder / "b.json";
  ASSERT_EQ(run_flyball({"account", "--events", traces.events, "--power", traces.power, "--json", a}).status, 0);
  write_file(traces.power, "timestamp,device,power_w\n0.9,CPU:0,200\n1.1,CPU:0,200\n1.3,CPU:0,400\n");
  ASSERT_EQ(run_flyball({"account", "--events", traces.events, "--power", traces.power, "--json", b}).status, 0);
  const Ran diff = run_flyball({"account", "diff", a, b, "--format", "json"});
  ASSERT_EQ(diff.status, 0) << diff.err;
  EXPECT_NEAR(diff.json().at("energy_correlation"), 1.0, 1e-9);
  EXPECT_NEAR(diff.json().at("mean_energy_difference_j"), 25.0, 1e-6);
  EXPECT_EQ(diff.json().at("moves").at(0).at("name"), "m/layer_1/dense/MatMul");

  std::filesystem::create_directory(traces.folder / "run");
  write_file(traces.folder / "run/events.json", kEvents);
  write_file(traces.folder / "run/power.csv", kPower);
  const Ran quality = run_flyball({"account", "quality", a, traces.folder / "run", "--format", "json"});
  ASSERT_EQ(quality.status, 0) << quality.err;
  EXPECT_EQ(quality.json().at("stability").size(), 2u);
  EXPECT_EQ(quality.json().at("asss").at(0).at("every"), 1);

  const Ran mean =
      run_flyball({"account", "--events", traces.events, "--power", traces.power, "--events",
                   traces.folder / "run/events.json", "--power", traces.folder / "run/power.csv", "--format", "json"});
  ASSERT_EQ(mean.status, 0) << mean.err;
  EXPECT_EQ(mean.json().at("runs"), 2);
  EXPECT_NEAR(mean.json().at("measured_j"), 120.0, 1.0);  // of 80 and 160
  EXPECT_THAT(mean.out, HasSubstr(fmt::format("run 1 ({}): clocks ", traces.events)));
  EXPECT_THAT(mean.out, HasSubstr(fmt::format("run 2 ({}): clocks ", traces.folder / "run/events.json")));
  // 35 and 70 J: 35 / sqrt(2) around their mean
  EXPECT_NEAR(mean.json().at("footprint").at(0).at("energy_std_j"), 35.0 / std::sqrt(2.0), 1e-6);
}

// A counter of 100, 500, 700 and 900 J after 1, 2, 3 and 4 s, an operation in each second: 100, 400, 200 and 200 J.
// From every second reading it is 250, 250, 200 and 200 J. Around their means (-125, 175, -25, -25) and (25, 25, -25,
// -25), Pearson's correlation is 2,500 / (sqrt(47,500) * 50) = 0.2294.
TEST(Account, ThinsCountersOut) {
  const TempFolder folder;
  std::string events;
  for (int i = 0; i < 4; ++i) {
    events += R"(, {"ph": "X", "name": "part_)" + std::to_string(i) + R"(", "pid": 1, "tid": 1, "ts": )" +
              std::to_string(1000000 * i) + R"(, "dur": 1000000})";
  }
  std::filesystem::create_directory(folder / "run");
  write_file(folder / "run/events.json",
             R"({"traceEvents": [{"ph": "M", "name": "process_name", "pid": 1, "args": {"name": "/device:CPU:0"}})" +
                 events + "]}");
  write_file(folder / "run/power.csv",
             "timestamp,device,energy_j\n0,CPU:0,0\n1,CPU:0,100\n2,CPU:0,500\n3,CPU:0,700\n4,CPU:0,900\n");
  const Ran quality = run_flyball({"account", "quality", folder / "run", "--format", "json"});
  ASSERT_EQ(quality.status, 0) << quality.err;
  const json every_second = quality.json().at("asss").at(1);
  EXPECT_EQ(every_second.at("every"), 2);
  EXPECT_NEAR(every_second.at("similarity"), 2500.0 / (std::sqrt(47500.0) * 50.0), 1e-9);
}

// A counter at a constant 50 W, read in unequal steps, tells nothing of two operations. Three of its five readings lie
// in the profile, from 1.0 s to 1.4 s.
TEST(Account, RegressSaysWhenPowerTellsNothing) {
  const Traces traces;
  std::string power = "timestamp,device,energy_j\n";
  for (const char* row :
       {"0.9,CPU:0,45", "1.0,CPU:0,50", "1.14,CPU:0,57", "1.3,CPU:0,65", "1.4,CPU:0,70", "1.5,CPU:0,75"}) {
    power += std::string(row) + "\n";
  }
  write_file(traces.power, power);
  const Ran ran = run_flyball({"account", "--events", traces.events, "--power", traces.power, "--method", "regress"});
  ASSERT_EQ(ran.status, 0) << ran.err;
  EXPECT_THAT(ran.out, HasSubstr("3 powers fitted to 3 readings that do not vary"));
  EXPECT_THAT(ran.out, Not(HasSubstr("explain")));
}

// Three runs of twelve layers that draw 10, 20 and 30 J each: 120, 240 and 360 J of all, 120 J around their mean. Were
// the layers independent it would be 34.6 J.
TEST(Account, SummarisesEachRunBeforeItsStatistics) {
  const TempFolder folder;
  std::string events = R"({"traceEvents": [
    {"ph": "M", "name": "process_name", "pid": 1, "args": {"name": "/device:CPU:0"}})";
  for (int i = 0; i < 12; ++i) {
    events += R"(, {"ph": "X", "name": "layer_)" + std::to_string(i) + R"(/dense", "pid": 1, "tid": 1, "ts": )" +
              std::to_string(1000000 * i) + R"(, "dur": 1000000})";
  }
  write_file(folder / "events.json", events + "]}");
  std::vector<std::string> arguments = {"account", "--summary", "--format", "json"};
  for (const int watts : {10, 20, 30}) {
    const std::string power = folder / (std::to_string(watts) + ".csv");
    write_file(power, "timestamp,device,energy_j\n0,CPU:0,0\n12,CPU:0," + std::to_string(12 * watts) + "\n");
    arguments.insert(arguments.end(), {"--events", folder / "events.json", "--power", power});
  }
  const Ran ran = run_flyball(arguments);
  ASSERT_EQ(ran.status, 0) << ran.err;
  ASSERT_EQ(ran.json().at("footprint").size(), 1u);
  const json row = ran.json().at("footprint").at(0);
  EXPECT_EQ(row.at("name"), "layer_*/dense");
  EXPECT_NEAR(row.at("energy_j"), 240.0, 1e-9);
  EXPECT_NEAR(row.at("energy_std_j"), 120.0, 1e-9);
  EXPECT_NEAR(row.at("mean_power_std_w"), 10.0, 1e-9);
}

// A name that would clear the screen: escaped in text and errors, what it is in JSON and CSV.
TEST(Account, ForeignNamesDoNotReachTheTerminal) {
  const Traces traces;
  const std::string name = "m/\x1b[2Jlayer\xC2\x9B";
  write_file(traces.events,
             R"([{"ph": "X", "name": "m/\u001b[2Jlayer\u009b", "pid": 1, "tid": 1, "ts": 1000000, "dur": 1000}])");
  const std::vector<std::string> account = {"account", "--events", traces.events, "--power", traces.power};
  std::vector<std::string> arguments = account;
  arguments.insert(arguments.end(), {"--csv", traces.folder / "f.csv"});
  const Ran text = run_flyball(arguments);
  ASSERT_EQ(text.status, 0) << text.err;
  EXPECT_THAT(text.out, HasSubstr("m/\\u001b[2Jlayer\\u009b"));
  EXPECT_THAT(text.out, Not(HasSubstr("\x1b")));
  EXPECT_THAT(text.out, Not(HasSubstr("\x9B")));
  EXPECT_THAT(file_text(traces.folder / "f.csv"), HasSubstr(name + ",CPU:0,"));
  arguments = account;
  arguments.insert(arguments.end(), {"--format", "json"});
  EXPECT_EQ(run_flyball(arguments).json().at("footprint").at(0).at("name"), name);
  const Ran failed = run_flyball({"account", "--events", "\x1b[2J.json", "--power", traces.power});
  EXPECT_THAT(failed.err, HasSubstr("\\u001b[2J.json"));
  EXPECT_THAT(failed.err, Not(HasSubstr("\x1b")));
}

// Pipes hold the program where it shall be when Ctrl-C comes: in the middle of reading, and of writing.
TEST(Account, EndsAtOnceWhenInterrupted) {
  const Traces traces;
  const std::string pipe = traces.folder / "pipe.csv";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  {
    const Running reading({"account", "--events", traces.events, "--power", pipe}, "/dev/null", traces.folder.path());
    const FileDescriptor power(::open(pipe.c_str(), O_WRONLY | O_CLOEXEC));
    reading.interrupt();
    const Ran ran = reading.wait();
    EXPECT_EQ(ran.status, 130);
    EXPECT_EQ(ran.out, "");
    EXPECT_THAT(ran.err, HasSubstr("error: interrupted"));
  }
  std::string events = "[";  // whose footprint is more than a pipe takes
  for (int i = 0; i < 2000; ++i) {
    events += R"({"ph": "X", "name": "operation_)" + std::to_string(i) + R"(", "pid": 1, "tid": 1, "ts": )" +
              std::to_string(1000000 + i) + R"(, "dur": 1},)";
  }
  events.back() = ']';
  write_file(traces.events, events);
  const std::string result = traces.folder / "result.json";
  const Running writing({"account", "--events", traces.events, "--power", pipe, "--json", result}, "/dev/null",
                        traces.folder.path());
  const std::string partial = result + ".partial." + std::to_string(writing.pid());
  ASSERT_EQ(::mkfifo(partial.c_str(), 0600), 0);
  write_file(pipe, kPower);
  const FileDescriptor half(::open(partial.c_str(), O_RDONLY | O_CLOEXEC));
  writing.interrupt();
  EXPECT_EQ(writing.wait().status, 130);
  EXPECT_FALSE(std::filesystem::exists(partial));
  EXPECT_FALSE(std::filesystem::exists(result));
}

TEST(Account, SaysWhatIsWrong) {
  const Traces traces;
  const auto expect = [&](std::vector<std::string> arguments, int status, const std::string& said) {
    arguments.insert(arguments.begin(), "account");
    const Ran ran = run_flyball(arguments);
    EXPECT_EQ(ran.status, status) << ran.err;
    EXPECT_THAT(ran.err, HasSubstr(said));
  };
  expect({"--events", traces.events}, 2, "--power");
  expect({"--events", traces.events, "--power", traces.power, "--clock-offset", "soon"}, 2, "--clock-offset");
  expect({"--events", traces.events, "--power", traces.power, "--clock-offset", "1e10s"}, 2,
         "--clock-offset is 1e+10; it must be from -4e+09");
  expect({"--events", traces.events, "--power", traces.power, "--method", "sweep", "--sensor-window", "1s"}, 2,
         "--sensor-window is for the methods auto and regress");
  expect({"--events", traces.events, "--power", traces.power, "--similar", "(["}, 2, "pattern");
  expect({"--events", traces.events, "--power", traces.power, "--svg", traces.folder / "x.svg", "--module", "n"}, 2,
         "--module");
  expect({"--events", traces.folder / "none.json", "--power", traces.power}, 1, "none.json");
  expect({"--events", traces.power, "--power", traces.power}, 3, "power.csv");
  expect({"diff", traces.events, traces.events}, 3, "footprint");
  expect({"--events", traces.events, "--power", traces.power, "--utc-offset", "CET"}, 2, "--utc-offset");
  write_file(traces.folder / "empty.json", R"({"traceEvents": []})");
  expect({"--events", traces.folder / "empty.json", "--power", traces.power}, 3,
         "nothing ran in this trace: its list has 0 entries");
  write_file(traces.power, "time,watts,gpu\n1,70,0\n2,70,0\n");
  expect({"--events", traces.events, "--power", traces.power}, 3, "no column 'timestamp'");
}

// Four operations of 3, 5, 7 and 10 ms in a fixed order at 100, 180, 260 and 340 W, 2 ms of nothing at 50 W after each
// round, and a counter that is read every 20 ms. A round is 27 ms with 0.3 + 0.9 + 1.82 + 3.4 + 0.1 J; there are 400.
TEST(Account, ChoosesItsMethod) {
  const Traces traces;
  std::string events = R"({"traceEvents": [
    {"ph": "M", "name": "process_name", "pid": 1, "args": {"name": "/device:CPU:0"}})";
  constexpr int kLengths[] = {3, 5, 7, 10};
  std::vector<double> joules = {0.0};  // by the millisecond
  for (int round = 0; round < 400; ++round) {
    for (int i = 0; i < 4; ++i) {
      events += fmt::format(R"(, {{"ph": "X", "name": "op_{}", "pid": 1, "tid": 1, "ts": {}, "dur": {}}})", i,
                            1000 * (joules.size() - 1), 1000 * kLengths[i]);
      for (int ms = 0; ms < kLengths[i]; ++ms) joules.push_back(joules.back() + 1e-3 * (100.0 + 80.0 * i));
    }
    for (int ms = 0; ms < 2; ++ms) joules.push_back(joules.back() + 0.05);
  }
  write_file(traces.events, events + "]}");
  std::string power = "timestamp,device,energy_j\n";
  for (std::size_t ms = 0; ms < joules.size(); ms += 20) {
    power += fmt::format("{},CPU:0,{}\n", 1e-3 * static_cast<double>(ms), joules[ms]);
  }
  write_file(traces.power, power);
  const std::vector<std::string> arguments = {"account", "--events", traces.events, "--power", traces.power};
  const auto with = [&arguments](std::vector<std::string> more) {
    more.insert(more.begin(), arguments.begin(), arguments.end());
    const Ran ran = run_flyball(more);
    EXPECT_EQ(ran.status, 0) << ran.err;
    return ran;
  };
  const json found = with({"--format", "json"}).json();
  EXPECT_EQ(found.at("devices").at(0).at("method"), "both");
  const json swept = with({"--method", "sweep", "--format", "json"}).json();
  EXPECT_EQ(swept.at("devices").at(0).at("method"), "sweep");
  constexpr double kTruth[] = {120.0, 360.0, 728.0, 1360.0};
  for (const json& row : found.at("footprint")) {
    const double truth = kTruth[row.at("name").get<std::string>().back() - '0'];
    EXPECT_NEAR(row.at("energy_j"), truth, 0.01 * truth);
    EXPECT_LT(row.at("energy_error_j"), 0.02 * truth);
  }
  double furthest = 0.0;
  for (const json& row : swept.at("footprint")) {
    const double truth = kTruth[row.at("name").get<std::string>().back() - '0'];
    furthest = std::max(furthest, std::abs(row.at("energy_j").get<double>() - truth) / truth);
    EXPECT_GT(row.at("energy_error_j"), 0.05 * truth);
  }
  EXPECT_GT(furthest, 0.5) << "the sweep gives all nearly the same power";
  EXPECT_THAT(with({}).out, HasSubstr("known to 10 %: 4 rows with 100.0 % of the attributed energy\n"));
  EXPECT_THAT(with({}).out, HasSubstr("90 % +- (J)"));
}

}  // namespace
}  // namespace flyball::testing
