// Power traces: every format by a few rows whose segments follow from their numbers.
#include "trace/power_trace.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "base/time_text.h"
#include "support/expect_error.h"

namespace flyball {
namespace {

struct ReadPower {
  std::vector<std::string> segments;  // "GPU:0 1.5-2 s 70 W"
  PowerTraceStats stats;
  DeviceTable devices;

  [[nodiscard]] const PowerTraceSensor& device(std::string_view name) const {
    return *std::find_if(stats.sensors.begin(), stats.sensors.end(),
                         [&](const PowerTraceSensor& one) { return one.name == name; });
  }
  [[nodiscard]] std::uint64_t dropped(std::string_view reason) const {
    for (const DroppedReadings& one : stats.dropped) {
      if (one.reason.find(reason) != std::string::npos) return one.count;
    }
    return 0;
  }
};

// Times less `origin`, in s.
ReadPower read(std::string_view text, const PowerTraceOptions& options = {}, Nanoseconds origin = 0) {
  ReadPower result;
  const auto trace = open_power_text("power.csv", text, options, result.devices);
  PowerSegment segment;
  Nanoseconds before = std::numeric_limits<Nanoseconds>::min();
  while (trace->next(segment)) {
    EXPECT_GE(segment.begin, before);
    before = segment.begin;
    result.segments.push_back(fmt::format("{} {}-{} s {:.6g} W", result.devices.name(segment.device),
                                          static_cast<double>(segment.begin - origin) / 1e9,
                                          static_cast<double>(segment.end - origin) / 1e9, segment.power.value()));
  }
  result.stats = trace->stats();
  return result;
}

using Segments = std::vector<std::string>;

TEST(PowerCsv, PowerHoldsUntilTheNextReading) {
  const ReadPower power =
      read("timestamp,device,power_w\n1,GPU:0,10\n2,GPU:0,20\n2.5,CPU:0,7\n3,GPU:0,30\n4.5,CPU:0,8\n");
  // The last readings hold for as long as usual: 1 s of the GPU, 2 s of the processor.
  EXPECT_EQ(power.segments, (Segments{"GPU:0 1-2 s 10 W", "GPU:0 2-3 s 20 W", "CPU:0 2.5-4.5 s 7 W", "GPU:0 3-4 s 30 W",
                                      "CPU:0 4.5-6.5 s 8 W"}));
  EXPECT_EQ(power.stats.format, PowerFormat::kCsv);
  EXPECT_DOUBLE_EQ(power.device("GPU:0").energy.value(), 60.0);
  EXPECT_EQ(power.stats.first, kSecond);
  EXPECT_EQ(power.stats.last, 13 * kSecond / 2);
}

TEST(PowerCsv, GapIsNotBridged) {
  // A period of 1 s; 10 s are more than five of them: the reading at 3 s holds for 1 s, and 9 s are not known.
  const ReadPower power =
      read("timestamp,device,power_w\n1,GPU:0,10\n2,GPU:0,10\n3,GPU:0,20\n13,GPU:0,30\n14,GPU:0,30\n");
  EXPECT_EQ(power.segments[2], "GPU:0 3-4 s 20 W");
  EXPECT_EQ(power.segments[3], "GPU:0 13-14 s 30 W");
  const PowerTraceSensor& gpu = power.device("GPU:0");
  EXPECT_EQ(gpu.gaps, 1u);
  EXPECT_DOUBLE_EQ(gpu.gap_time.value(), 9.0);
}

TEST(PowerCsv, CounterGivesMeanPowerAndBridgesGaps) {
  const ReadPower power =
      read("device,timestamp,energy_j,note\nGPU:0,1,100,a\nGPU:0,2,150,b\nGPU:0,3,200,c\nGPU:0,23,400,d\n");
  EXPECT_EQ(power.segments, (Segments{"GPU:0 1-2 s 50 W", "GPU:0 2-3 s 50 W", "GPU:0 3-23 s 10 W"}));
  EXPECT_EQ(power.device("GPU:0").bridged, 1u);
  EXPECT_EQ(power.device("GPU:0").gaps, 0u);
  EXPECT_DOUBLE_EQ(power.device("GPU:0").energy.value(), 300.0);
}

TEST(PowerCsv, CounterThatFallsBeganAnewOrWrapped) {
  constexpr const char* kText = "timestamp,device,energy_j\n1,CPU:0,80\n2,CPU:0,95\n3,CPU:0,10\n4,CPU:0,20\n";
  const ReadPower reset = read(kText);
  EXPECT_EQ(reset.segments, (Segments{"CPU:0 1-2 s 15 W", "CPU:0 3-4 s 10 W"}));
  EXPECT_EQ(reset.device("CPU:0").resets, 1u);
  EXPECT_DOUBLE_EQ(reset.device("CPU:0").gap_time.value(), 1.0);
  PowerTraceOptions options;
  options.counter_ranges = {{"CPU:0", Joules(100)}};
  const ReadPower wrapped = read(kText, options);
  EXPECT_EQ(wrapped.segments[1], "CPU:0 2-3 s 15 W");  // 95 to 100 and on to 10
  EXPECT_EQ(wrapped.device("CPU:0").wraps, 1u);
  options.counter_ranges = {{"CPU:1", Joules(100)}};
  EXPECT_EQ(read(kText, options).device("CPU:0").resets, 1u);  // another device's range
}

TEST(PowerCsv, LaterOfTwoAtOneStampCountsAndOrderDoesNotMatter) {
  const ReadPower power = read("timestamp,device,energy_j\n3,GPU:0,40\n1,GPU:0,0\n2,GPU:0,99\n2,GPU:0,10\n");
  EXPECT_EQ(power.segments, (Segments{"GPU:0 1-2 s 10 W", "GPU:0 2-3 s 30 W"}));
  EXPECT_EQ(power.device("GPU:0").duplicates, 1u);
}

// Two sockets onto one, from 10 s before the clock's zero: 1,000 J and 200 J in 10 s are 120 W.
TEST(PowerCsv, DevicesThatBecomeOneAreAddedUp) {
  PowerTraceOptions options;
  options.device_names = {{"CPU:1", "CPU:0"}};
  const ReadPower counters =
      read("timestamp,device,energy_j\n-10,CPU:0,0\n-10,CPU:1,0\n-10,GPU:0,0\n0,CPU:0,1000\n0,CPU:1,200\n0,GPU:0,50\n",
           options);
  EXPECT_EQ(counters.segments, (Segments{"GPU:0 -10-0 s 5 W", "CPU:0 -10-0 s 120 W"}));
  ASSERT_EQ(counters.stats.sums.size(), 1u);
  EXPECT_EQ(counters.stats.sums[0].sensors, (Segments{"CPU:0", "CPU:1"}));
  EXPECT_EQ(counters.stats.sums[0].partial.value(), 0.0);
  EXPECT_EQ(counters.device("CPU:1").energy.value(), 200.0);
  // 10 W from 1 to 4 s and 4 W from 1.5 to 3.5 s: 30 J and 8 J. In the first and the last half second only one is
  // known.
  const ReadPower powers =
      read("timestamp,device,power_w\n1,CPU:0,10\n1.5,CPU:1,4\n2,CPU:0,10\n2.5,CPU:1,4\n3,CPU:0,10\n", options);
  EXPECT_EQ(powers.segments, (Segments{"CPU:0 1-1.5 s 10 W", "CPU:0 1.5-2 s 14 W", "CPU:0 2-2.5 s 14 W",
                                       "CPU:0 2.5-3 s 14 W", "CPU:0 3-3.5 s 14 W", "CPU:0 3.5-4 s 10 W"}));
  EXPECT_DOUBLE_EQ(powers.stats.sums.at(0).partial.value(), 1.0);
  // Exchanged, nothing is added up.
  options.device_names = {{"CPU:1", "CPU:0"}, {"CPU:0", "CPU:1"}};
  const ReadPower exchanged = read("timestamp,device,energy_j\n0,CPU:0,0\n0,CPU:1,0\n1,CPU:0,7\n1,CPU:1,9\n", options);
  EXPECT_EQ(exchanged.segments, (Segments{"CPU:1 0-1 s 7 W", "CPU:0 0-1 s 9 W"}));
  EXPECT_TRUE(exchanged.stats.sums.empty());
}

TEST(PowerCsv, DatesZonesAndLineEnds) {
  PowerTraceOptions options;
  options.utc_offset = Seconds(3600);
  const Nanoseconds noon = *parse_date_time("2024-01-31T12:00:00Z", Seconds(0));
  EXPECT_EQ(noon, 1'706'702'400 * kSecond);
  const ReadPower power = read(
      "\xEF\xBB\xBFtimestamp,device,power_w\r\n\"2024-01-31T12:00:00Z\",gpu 1,5\r\n"
      "2024-01-31 13:00:01.5,GPU:1,6\r\n1706702402.25,GPU1,nan\r\n2024-01-31T14:00:02+02:00,GPU:1,7",
      options, noon);
  EXPECT_EQ(power.segments[0], "GPU:1 0-1.5 s 5 W");
  EXPECT_EQ(power.segments[1], "GPU:1 1.5-2 s 6 W");
  EXPECT_EQ(power.dropped("no value"), 1u);
}

TEST(PowerFlyball, MeanPowerLooksBackAndTheLastRowMayBeCutOff) {
  const ReadPower power = read(
      "# flyball power trace, version 1\n"
      "# timestamp: s since 1970 (Unix time) = CLOCK_MONOTONIC + 1795179492.322089197 s\n"
      "timestamp,device,power_w\n1,GPU:0,10.000\n2,GPU:0,20.000\n# device GPU:0: from here on integrated power\n"
      "3,GPU:0,30.000\n4,GPU:0,4");
  EXPECT_EQ(power.segments, (Segments{"GPU:0 1-2 s 20 W", "GPU:0 2-3 s 30 W"}));
  EXPECT_EQ(power.stats.format, PowerFormat::kFlyball);
  EXPECT_EQ(power.stats.monotonic_offset, Nanoseconds{1'795'179'492'322'089'197});
  EXPECT_TRUE(power.stats.truncated);
}

// Both devices take 10 J, 30 J in the second in which a reading failed, and 10 J. What the counter says is what flowed,
// and what was added up from power is a guess.
TEST(PowerFlyball, EnergyOverFailedReadingsIsTheCountersOrUnknown) {
  const ReadPower power = read(
      "# flyball power trace, version 1\n# device GPU:0: counter\n"
      "# device GPU:1: integrated power, sensor_period_s: 0.1000\ntimestamp,device,energy_j\n"
      "0.5,GPU:1,\n1,GPU:0,0\n1,GPU:1,0\n2,GPU:0,10\n2,GPU:1,10\n2.5,GPU:0,\n2.5,GPU:1,\n3,GPU:0,40\n3,GPU:1,40\n"
      "4,GPU:0,50\n4,GPU:1,50\n4.5,GPU:0,\n");
  EXPECT_EQ(power.segments, (Segments{"GPU:0 1-2 s 10 W", "GPU:1 1-2 s 10 W", "GPU:0 2-3 s 30 W", "GPU:1 3-4 s 10 W",
                                      "GPU:0 3-4 s 10 W"}));
  const PowerTraceSensor& counter = power.device("GPU:0");
  EXPECT_EQ(counter.gaps, 0u);
  EXPECT_EQ(counter.bridged, 1u);
  EXPECT_EQ(counter.failures, 2u);
  EXPECT_TRUE(counter.ends_failing);
  EXPECT_DOUBLE_EQ(counter.energy.value(), 50.0);
  const PowerTraceSensor& added_up = power.device("GPU:1");
  EXPECT_EQ(added_up.gaps, 1u);
  EXPECT_DOUBLE_EQ(added_up.gap_time.value(), 1.0);
  EXPECT_FALSE(added_up.ends_failing);
  EXPECT_DOUBLE_EQ(added_up.energy.value(), 20.0);
  EXPECT_EQ(power.dropped("no value"), 0u);
}

// Its counter stops at 3 s: from there on its energy is added up, also where a reading fails.
TEST(PowerFlyball, WhereEnergyComesFromMayChange) {
  const ReadPower power = read(
      "# flyball power trace, version 1\n# device GPU:0: counter\ntimestamp,device,energy_j\n"
      "1,GPU:0,0\n1.5,GPU:0,\n2,GPU:0,10\n3,GPU:0,20\n"
      "# device GPU:0: from here on frozen counter, integrated power\n"
      "# device GPU:0: read every 41 ms to cost less\n3.5,GPU:0,\n4,GPU:0,30\n");
  EXPECT_EQ(power.segments, (Segments{"GPU:0 1-2 s 10 W", "GPU:0 2-3 s 10 W"}));
  EXPECT_EQ(power.device("GPU:0").gaps, 1u);
}

TEST(PowerNvidiaSmi, UnitsLocaleAndAbsentValues) {
  const Nanoseconds origin = *parse_date_time("2024/01/31 12:00:00", Seconds(0));
  const ReadPower power = read(
      "timestamp, index, name, power.draw [W]\n2024/01/31 12:00:00.500, 0, A100, 65.25 W\n"
      "2024/01/31 12:00:01.500, 0, A100, 66,5 W\n2024/01/31 12:00:02.000, 1, A100, [N/A]\n"
      "2024/01/31 12:00:02.500, 0, A100, 67.00 W\n",
      {}, origin);
  EXPECT_EQ(power.segments, (Segments{"GPU:0 0.5-1.5 s 65.25 W", "GPU:0 1.5-2.5 s 66.5 W", "GPU:0 2.5-3.5 s 67 W"}));
  EXPECT_EQ(power.dropped("no value"), 1u);
  // noheader,nounits
  const ReadPower bare = read("2024/01/31 12:00:00.500, 3, 65.25\n2024/01/31 12:00:01.500, 3, 66\n", {}, origin);
  EXPECT_EQ(bare.stats.format, PowerFormat::kNvidiaSmi);
  EXPECT_EQ(bare.segments[0], "GPU:3 0.5-1.5 s 65.25 W");
  // By identity, in order of coming or as given.
  PowerTraceOptions options;
  options.device_names = {{"GPU-b", "GPU:7"}};
  const ReadPower named = read(
      "timestamp, uuid, power.draw [W]\n2024/01/31 12:00:00, GPU-a, 1 W\n2024/01/31 12:00:00, GPU-b, 2 W\n"
      "2024/01/31 12:00:01, GPU-a, 1 W\n2024/01/31 12:00:01, GPU-b, 2 W\n",
      options, origin);
  EXPECT_EQ(named.segments[0], "GPU:0 0-1 s 1 W");
  EXPECT_EQ(named.segments[1], "GPU:7 0-1 s 2 W");
}

TEST(PowerZeus, BothMonitors) {
  const ReadPower columns =
      read("1700000000.5,70.5,80.25\n1700000001.5,71.5,nan\n1700000002.5,72,81\n", {}, 1'700'000'000 * kSecond);
  EXPECT_EQ(columns.stats.format, PowerFormat::kZeus);
  EXPECT_EQ(columns.segments, (Segments{"GPU:0 0.5-1.5 s 70.5 W", "GPU:1 0.5-2.5 s 80.25 W", "GPU:0 1.5-2.5 s 71.5 W",
                                        "GPU:0 2.5-3.5 s 72 W", "GPU:1 2.5-4.5 s 81 W"}));
  const Nanoseconds origin = *parse_date_time("2022-07-13 02:07:36", Seconds(0));
  const ReadPower dates =
      read("Time,Power\n2022-07-13 02:07:36.500000000,32402\n2022-07-13 02:07:37.000000000,32402\n", {}, origin);
  EXPECT_EQ(dates.segments[0], "GPU:0 0.5-1 s 32.402 W");
}

TEST(PowerDcgm, CounterBeatsPowerAndRowsHaveAPeriod) {
  PowerTraceOptions options;
  options.row_period = Seconds(0.5);
  const ReadPower rows = read(
      "#Entity   POWER     TOTEC\nID        W         mJ\nGPU 0     43.123    1000\nGPU 1     50.0      N/A\n"
      "GPU 0     44.0      26000\nGPU 1     60.0      N/A\n\n#Entity   POWER     TOTEC\nID   W   mJ\nGPU 0 45 51000\n",
      options);
  EXPECT_EQ(rows.stats.format, PowerFormat::kDcgm);
  EXPECT_EQ(rows.segments,
            (Segments{"GPU:0 0-0.5 s 50 W", "GPU:1 0-0.5 s 50 W", "GPU:0 0.5-1 s 50 W", "GPU:1 0.5-1 s 60 W"}));
  EXPECT_EQ(rows.dropped("power beside an energy counter"), 3u);
  const ReadPower stamped = read("7.5 #Entity POWER\n7.5 ID W\n7.5 GPU 0 43\n8.5 GPU 0 44\n");
  EXPECT_EQ(stamped.segments[0], "GPU:0 7.5-8.5 s 43 W");
}

TEST(PowerPrometheus, TextWithStamps) {
  const ReadPower power = read(
      "# TYPE DCGM_FI_DEV_POWER_USAGE gauge\n"
      "DCGM_FI_DEV_POWER_USAGE{gpu=\"2\",UUID=\"GPU-\\\"a\"} 100 1000\n"
      "DCGM_FI_DEV_POWER_MGMT_LIMIT{gpu=\"2\"} 400 1000\n"
      "DCGM_FI_DEV_POWER_USAGE{gpu=\"2\"} 110 2000\n"
      "flyball_dram_energy_joules_total{package=\"1\"} 5 1000\nflyball_dram_energy_joules_total{package=\"1\"} 9 "
      "3000\n");
  EXPECT_EQ(power.segments, (Segments{"GPU:2 1-2 s 100 W", "DRAM:1 1-3 s 2 W", "GPU:2 2-3 s 110 W"}));
  expect_input_error([] { static_cast<void>(read("# HELP x y\nDCGM_FI_DEV_POWER_USAGE{gpu=\"0\"} 100\n")); }, 2, 38,
                     "no time stamp");
}

TEST(PowerPrometheus, RangeQuery) {
  const ReadPower power = read(R"({"status":"success","data":{"resultType":"matrix","result":[
    {"metric":{"__name__":"DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION","gpu":"0"},
     "values":[[1.5,"1000"],[2.5,"61000"],[3.5,"NaN"]]},
    {"metric":{"index":"1"},"values":[[1.5,"70"],[2.5,"80"]]},
    {"metric":{"__name__":"up","job":"x"},"values":[[1.5,"1"]]}]}})");
  EXPECT_EQ(power.segments, (Segments{"GPU:0 1.5-2.5 s 60 W", "GPU:1 1.5-2.5 s 70 W", "GPU:1 2.5-3.5 s 80 W"}));
  EXPECT_EQ(power.dropped("no power or energy: up"), 1u);
  expect_input_error([] { static_cast<void>(read(R"({"status":"error","error":"too many points"})")); }, 0, 0,
                     "too many points");
  expect_input_error([] { static_cast<void>(read("{\"status\"")); }, 0, 0, "no JSON");
}

TEST(BrokenPower, SaysWhatAndWhere) {
  const auto action = [](const char* text) { return [text] { static_cast<void>(read(text)); }; };
  expect_input_error(action(""), 0, 0, "no header and no rows");
  expect_input_error(action("timestamp,device\n"), 1, 1, "no column 'power_w or energy_j'");
  expect_input_error(action("timestamp,device,power_w\n1,GPU:0,5 W\n"), 2, 9, "not a number");
  // Neither Zeus's nor ours: its third column is no second GPU's power.
  expect_input_error(action("time,watts,gpu\n1,70,0\n2,70,0\n"), 1, 1, "no column 'timestamp'");
  expect_input_error(action("Time,Power,GPU\n1,70,0\n2,70,0\n"), 1, 1, "no column 'timestamp'");
  expect_input_error(action("timestamp,device,power_w\n\nsoon,GPU:0,5\n"), 3, 1, "'soon' is no time");
  expect_input_error(action("timestamp,device,power_w\n1706702400000,GPU:0,5\n"), 2, 1, "not milliseconds");
  expect_input_error(action("timestamp,device,power_w\n1,GPU:0,5,6\n"), 2, 11, "the row has 4 fields");
  expect_input_error(action("timestamp,device,power_w\n1,GPU:0,5\n"), 0, 0, "no device has two readings");
  expect_input_error(action("timestamp, index, power.draw [W]\n2024/01/31 12:00:00, 0, much\n"), 2, 25,
                     "not a number of watts");
  DeviceTable devices;
  EXPECT_THROW(static_cast<void>(open_power_trace("/nowhere.csv", {}, devices)), SystemError);
}

TEST(LargePower, OrderOfTheRowsDoesNotMatter) {
  std::vector<std::string> rows;
  std::mt19937 random(5);
  for (int i = 0; i < 30'000; ++i) {
    rows.push_back(fmt::format("{}.{:03},GPU:{},{}\n", i / 100, i % 100 * 10, i % 3, 50 + random() % 100));
  }
  const std::string header = "timestamp,device,power_w\n";
  std::string sorted = header;
  for (const std::string& row : rows) sorted += row;
  std::shuffle(rows.begin(), rows.end(), random);
  std::string shuffled = header;
  for (const std::string& row : rows) shuffled += row;
  const ReadPower one = read(sorted);
  const ReadPower other = read(shuffled);
  EXPECT_EQ(one.segments.size(), 30'000u);
  EXPECT_EQ(other.segments, one.segments);
}

}  // namespace
}  // namespace flyball
