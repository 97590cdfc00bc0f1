#include "profile/synth.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include "base/text.h"
#include "profile/gpu_model.h"
#include "profile/workload_model.h"
#include "support/expect_error.h"

namespace flyball {
namespace {

namespace fs = std::filesystem;

const fs::path kExamples = fs::path(FLYBALL_SOURCE_DIR) / "examples";

struct Shipped {
  const char* workload;
  const char* gpu;
  int stages;
};

const std::vector<Shipped> kPerseusA100 = {
    {"gpt3-1.3b", "a100", 4}, {"bert-1.3b", "a100", 4},           {"t5-3b", "a100", 4},
    {"bloom-3b", "a100", 4},  {"wide-resnet101-1.5b", "a100", 4},
};
const std::vector<Shipped> kPerseusA40 = {
    {"gpt3-2.7b", "a40", 8}, {"bert-1.3b", "a40", 8},           {"t5-3b", "a40", 8},
    {"bloom-3b", "a40", 8},  {"wide-resnet101-1.5b", "a40", 8},
};
const std::vector<Shipped> kOthers = {
    {"gpt3-1.3b", "a40", 4},
    {"gpt3-6.7b", "a40", 4},
    {"gpt3-175b", "a100-sxm", 8},
    {"bloom-176b", "a100-sxm", 8},
    {"gpt3-175b", "a40", 8},
    {"bloom-176b", "a40", 8},
    {"bert-336m", "v100", 4},
    {"gpt-125m", "v100", 4},
    {"megatron-125m", "v100", 4},
    {"resnet-152", "v100", 4},
    {"megatron-1.3b", "v100", 4},
    {"megatron-1.3b", "v100", 8},
    {"bert-1.3b-envpipe", "rtx3090", 4},
    {"bert-3.9b", "rtx3090", 4},
    {"gpt-350m", "rtx3090", 4},
    {"megatron-350m", "rtx3090", 4},
    {"megatron-760m", "rtx3090", 4},
};

std::vector<Shipped> all_shipped() {
  std::vector<Shipped> all = kPerseusA100;
  all.insert(all.end(), kPerseusA40.begin(), kPerseusA40.end());
  all.insert(all.end(), kOthers.begin(), kOthers.end());
  return all;
}

SynthProfile synth(const Shipped& shipped, double noise = SynthRequest{}.noise_relative, std::uint64_t seed = 1) {
  return synthesize_profile({shipped.gpu, shipped.workload, shipped.stages, noise, seed});
}

// With FLYBALL_WRITE_EXAMPLES set, examples/ is written instead of compared.
void expect_shipped(const fs::path& path, const std::string& text) {
  if (std::getenv("FLYBALL_WRITE_EXAMPLES") != nullptr) write_text_file(path, text);
  ASSERT_TRUE(fs::exists(path)) << path;
  EXPECT_EQ(read_text_file(path), text) << path << "\nto rewrite: FLYBALL_WRITE_EXAMPLES=1 and run this test again";
}

std::size_t files_in(const fs::path& folder) {
  return static_cast<std::size_t>(std::distance(fs::directory_iterator(folder), fs::directory_iterator()));
}

TEST(Synth, ShippedProfilesAreWhatTheGeneratorWrites) {
  for (const Shipped& shipped : all_shipped()) {
    const SynthProfile made = synth(shipped);
    const std::string text = write_profile(made.profile, made.comment);
    const std::string name =
        std::string(shipped.workload) + "-" + shipped.gpu + "-" + std::to_string(shipped.stages) + "stage.csv";
    expect_shipped(kExamples / "profiles" / name, text);
    EXPECT_LT(text.size(), 100'000u) << name;
    EXPECT_TRUE(text.starts_with("# SYNTHETIC profile")) << name;
    EXPECT_EQ(read_profile(name, text).operations.size(), made.profile.operations.size());
  }
  EXPECT_EQ(files_in(kExamples / "profiles"), all_shipped().size());
}

TEST(Synth, ShippedLayerTimesAreWhatTheGeneratorWrites) {
  std::size_t count = 0;
  for (const std::string& name : synth_workloads()) {
    for (const std::string gpu : {"a100-pcie", "a40"}) {
      const WorkloadModel workload = load_workload_model(name, load_gpu_model(gpu));
      if (workload.partitions.empty()) continue;
      const std::string file = name + (gpu == "a40" ? "-a40.csv" : "-a100.csv");
      expect_shipped(kExamples / "partition" / file, synthesize_layer_times(gpu, name));
      ++count;
    }
  }
  EXPECT_EQ(count, 32u);  // the 16 models of Perseus table 7 on both GPUs
  EXPECT_EQ(files_in(kExamples / "partition"), count);
}

// No operation draws more than the limit but for the noise, its clocks above the knee take one time, and below it the
// clocks are those of a board without a limit.
TEST(Synth, UnderAPowerLimitTheTopOfTheSweepIsFlat) {
  SynthRequest request{"a40", "gpt3-175b", 8, 0.0, 1};
  const Profile free = synthesize_profile(request).profile;
  request.power_limit = Watts(240);
  const SynthProfile made = synthesize_profile(request);
  EXPECT_THAT(made.comment, testing::Contains(testing::HasSubstr("--power-limit 240")));
  for (std::size_t i = 0; i < made.profile.operations.size(); ++i) {
    const std::vector<ClockOption>& options = made.profile.operations[i].options;
    const std::vector<ClockOption>& unlimited = free.operations[i].options;
    std::size_t flat = 0;
    while (options[flat].time == options[0].time) ++flat;
    EXPECT_GT(flat, 3u);
    ASSERT_LT(flat + 5, options.size()) << "the sweep goes on until energy rises";
    for (std::size_t k = 0; k < options.size(); ++k) {
      EXPECT_LE(options[k].energy / options[k].time, Watts(240 * (1 + 1e-9)));
      if (k < flat) EXPECT_EQ(options[k].energy, options[0].energy);
      if (k >= flat) EXPECT_DOUBLE_EQ(options[k].energy.value(), unlimited[k].energy.value());
    }
  }
  request.noise_relative = SynthRequest{}.noise_relative;
  for (const OperationProfile& operation : synthesize_profile(request).profile.operations) {
    EXPECT_EQ(operation.options.back().frequency, made.profile.operations[0].options.back().frequency)
        << "noise in the flat part ends no sweep";
  }
}

// The limit is one of what the profile says that is drawn, whatever scale its powers have.
TEST(Synth, APowerLimitHoldsScaledPowers) {
  ASSERT_GT(load_workload_model("bert-1.3b", load_gpu_model("a100")).power_scale.value_or(1.0), 1.1);
  const SynthRequest request{"a100", "bert-1.3b", 4, 0.0, 1, Watts(280)};
  for (const OperationProfile& operation : synthesize_profile(request).profile.operations) {
    EXPECT_NEAR((operation.options[0].energy / operation.options[0].time).value(), 280.0, 1e-6);
    EXPECT_EQ(operation.options[1].time, operation.options[0].time);
    EXPECT_LT(operation.options.back().energy / operation.options.back().time, Watts(280));
  }
}

TEST(Synth, APowerLimitBelowWhatTheBoardDrawsIsRefused) {
  SynthRequest request;
  request.workload = "t5-3b";  // without a scale of power
  request.power_limit = Watts(90);
  expect_usage_error([&] { (void)synthesize_profile(request); },
                     "a power limit of 90 W: a100-pcie draws 105 W while it computes, whatever the clock");
}

// --- Stage partitions (Perseus table 7) -----------------------------------------------------------------------------

// Least ratio of longest to shortest stage over all contiguous splits, by trying every segment as the shortest stage
// and then finding the shortest longest stage among splits that have no shorter one.
double least_imbalance(const std::vector<Layer>& layers, std::size_t stages) {
  const std::size_t n = layers.size();
  std::vector<double> prefix(n + 1, 0.0);
  for (std::size_t i = 0; i < n; ++i) prefix[i + 1] = prefix[i] + layers[i].forward.value();
  double best = std::numeric_limits<double>::infinity();
  std::vector<double> tried;
  for (std::size_t from = 0; from < n; ++from) {
    for (std::size_t to = from + 1; to <= n; ++to) {
      const double shortest = prefix[to] - prefix[from];
      if (shortest * static_cast<double>(stages) > prefix[n] * (1 + 1e-9)) break;
      const double tolerance = 1e-9 * shortest;
      if (std::any_of(tried.begin(), tried.end(), [&](double t) { return std::abs(t - shortest) < tolerance; }))
        continue;
      tried.push_back(shortest);
      std::vector<double> longest(n + 1, std::numeric_limits<double>::infinity());
      longest[0] = 0.0;
      for (std::size_t s = 0; s < stages; ++s) {
        std::vector<double> next(n + 1, std::numeric_limits<double>::infinity());
        for (std::size_t i = 0; i < n; ++i) {
          if (std::isinf(longest[i])) continue;
          for (std::size_t j = i + 1; j <= n; ++j) {
            const double stage = prefix[j] - prefix[i];
            if (stage < shortest - tolerance) continue;
            if (stage > best * shortest) break;
            next[j] = std::min(next[j], std::max(longest[i], stage));
          }
        }
        longest = next;
      }
      best = std::min(best, longest[n] / shortest);
    }
  }
  return best;
}

TEST(Synth, PublishedPartitionsHaveThePrintedImbalanceAndAreLeast) {
  int checked = 0;
  for (const std::string& name : synth_workloads()) {
    for (const std::string& gpu : synth_gpus()) {
      const WorkloadModel workload = load_workload_model(name, load_gpu_model(gpu));
      for (const PublishedPartition& partition : workload.partitions) {
        SCOPED_TRACE(::testing::Message() << name << " on " << gpu << ", " << partition.bounds.size() - 1 << " stages");
        ASSERT_EQ(partition.bounds.front(), 0);
        ASSERT_EQ(partition.bounds.back(), static_cast<int>(workload.layers.size()));
        if (partition.imbalance == 0.0) continue;
        std::vector<double> stage_times;
        for (std::size_t s = 0; s + 1 < partition.bounds.size(); ++s) {
          double time = 0.0;
          for (int i = partition.bounds[s]; i < partition.bounds[s + 1]; ++i) {
            time += workload.layers[static_cast<std::size_t>(i)].forward.value();
          }
          stage_times.push_back(time);
        }
        const auto [shortest, longest] = std::minmax_element(stage_times.begin(), stage_times.end());
        const double imbalance = *longest / *shortest;
        EXPECT_NEAR(imbalance, partition.imbalance, 0.005 + 1e-9);  // printed with two digits
        EXPECT_NEAR(least_imbalance(workload.layers, stage_times.size()), imbalance, 1e-9);
        ++checked;
      }
    }
  }
  EXPECT_EQ(checked, 66);  // 16 models, 2 GPUs, 2 stage counts, less 2 misprints; the 2 largest on the SXM board, too
}

TEST(Synth, WithoutAPublishedPartitionTheLongestStageIsShortest) {
  const std::vector<Layer> layers = {{"a", Seconds(3)}, {"a", Seconds(1)}, {"a", Seconds(1)}, {"a", Seconds(4)}};
  EXPECT_EQ(balanced_bounds(layers, 1), (std::vector<int>{0, 4}));
  EXPECT_EQ(balanced_bounds(layers, 2), (std::vector<int>{0, 2, 4}));  // 4 | 5; 5 | 4 is later
  EXPECT_EQ(balanced_bounds(layers, 3), (std::vector<int>{0, 1, 3, 4}));
  EXPECT_EQ(balanced_bounds(layers, 4), (std::vector<int>{0, 1, 2, 3, 4}));
  const SynthProfile made = synth({"gpt3-1.3b", "h100", 5});
  EXPECT_EQ(made.bounds.size(), 6u);
  EXPECT_THAT(made.comment, testing::Contains(testing::HasSubstr("split for the shortest longest stage")));
  EXPECT_THAT(made.comment, testing::Contains(testing::HasSubstr("No energy published for this workload")));
  EXPECT_THAT(synth({"t5-3b", "a100", 4}).comment,
              testing::Contains(testing::HasSubstr("set by hand for this workload on this GPU")));
}

// --- Calibration ----------------------------------------------------------------------------------------------------

const ClockOption& least_energy(const OperationProfile& operation) {
  return *std::min_element(operation.options.begin(), operation.options.end(),
                           [](const ClockOption& a, const ClockOption& b) { return a.energy < b.energy; });
}

// Points of a real A40 that the Zeus manual prints: GPT-3 on four stages.
TEST(Synth, ReproducesThePublishedA40Points) {
  const GpuModel gpu = load_gpu_model("a40");
  const WorkloadModel workload = load_workload_model("gpt3-1.3b", gpu);
  const PublishedPartition* partition = workload.published(4);
  ASSERT_NE(partition, nullptr);
  const auto stage_forward = [&](std::size_t stage) {
    Seconds time;
    for (int i = partition->bounds[stage]; i < partition->bounds[stage + 1]; ++i) {
      time += workload.layers[static_cast<std::size_t>(i)].forward;
    }
    return time;
  };
  struct Point {
    std::size_t stage;
    bool forward;
    double mhz, seconds, joules;
  };
  for (const Point& point : std::vector<Point>{{0, true, 1740, 0.0937, 28.49},
                                               {0, true, 1710, 0.0938, 28.29},
                                               {0, false, 1740, 0.2453, 69.57},
                                               {0, false, 1710, 0.2455, 68.89},
                                               {3, false, 690, 0.4185, 68.12},
                                               {3, false, 675, 0.4246, 68.78},
                                               {3, false, 660, 0.4306, 69.40}}) {
    const Seconds forward = stage_forward(point.stage);
    const ClockOption option =
        point.forward ? gpu.run(workload.forward, forward, Megahertz(point.mhz))
                      : gpu.run(workload.backward, forward * workload.backward_ratio, Megahertz(point.mhz));
    EXPECT_NEAR(option.time.value() / point.seconds, 1.0, 0.01) << point.stage << " at " << point.mhz;
    EXPECT_NEAR(option.energy.value() / point.joules, 1.0, 0.01) << point.stage << " at " << point.mhz;
  }
}

TEST(Synth, LeastEnergyClocksOfEnvPipe) {
  for (const auto& [workload, gpu, clock] :
       {std::tuple{"bert-336m", "v100", 1020.0}, std::tuple{"bert-1.3b-envpipe", "rtx3090", 1350.0}}) {
    for (const OperationProfile& operation : synth({workload, gpu, 4}, 0.0).profile.operations) {
      const ClockOption& least = least_energy(operation);
      EXPECT_NEAR(least.frequency.value(), clock, 30.0) << gpu;
      const double stretch = least.time / operation.options.front().time;
      EXPECT_GT(stretch, 1.195) << gpu;
      EXPECT_LT(stretch, 1.25) << gpu;
    }
  }
}

struct Iteration {
  double time = 0.0;
  double energy = 0.0;
};

// One 1F1B iteration in which every operation runs at the option that `choose` picks: energy of Perseus eq. 3.
template <class Choose>
Iteration iterate(const SynthProfile& made, Choose choose) {
  const auto stages = static_cast<std::size_t>(made.profile.stages);
  const auto microbatches = static_cast<std::size_t>(made.microbatches);
  std::vector<ClockOption> forward;
  std::vector<ClockOption> backward;
  double busy = 0.0;
  Iteration result;
  for (std::size_t s = 0; s < stages; ++s) {
    forward.push_back(choose(*made.profile.find(static_cast<int>(s), "forward")));
    backward.push_back(choose(*made.profile.find(static_cast<int>(s), "backward")));
    busy += made.microbatches * (forward[s].time + backward[s].time).value();
    result.energy += made.microbatches * (forward[s].energy + backward[s].energy).value();
  }
  // End times are relaxed in the order of the schedule until nothing moves: slow, but nothing can be wrong in it.
  std::vector<std::vector<double>> f(stages, std::vector<double>(microbatches, 0.0));
  std::vector<std::vector<double>> b = f;
  for (bool moved = true; moved;) {
    moved = false;
    for (std::size_t s = 0; s < stages; ++s) {
      const std::size_t warm_up = std::min(stages - s, microbatches);
      double free = 0.0;
      const auto run = [&](std::vector<std::vector<double>>& ends, std::size_t m, double ready, double time) {
        const double end = std::max(free, ready) + time;
        moved = moved || end != ends[s][m];
        free = ends[s][m] = end;
      };
      const auto run_forward = [&](std::size_t m) { run(f, m, s > 0 ? f[s - 1][m] : 0.0, forward[s].time.value()); };
      const auto run_backward = [&](std::size_t m) {
        run(b, m, s + 1 < stages ? b[s + 1][m] : 0.0, backward[s].time.value());
      };
      for (std::size_t m = 0; m < warm_up; ++m) run_forward(m);
      for (std::size_t m = 0; m < microbatches; ++m) {
        run_backward(m);
        if (m + warm_up < microbatches) run_forward(m + warm_up);
      }
      result.time = std::max(result.time, free);
    }
  }
  result.energy += made.blocking.value() * (static_cast<double>(stages) * result.time - busy);
  return result;
}

// Iterations at maximum clocks that Perseus's authors recorded (artifact of SOSP'24, sosp24_data/perseus, point 1 of
// each workload): time and energy were fitted to them, with one number each.
TEST(Synth, IterationsTakeTheMeasuredTimeAndEnergy) {
  struct Measured {
    Shipped shipped;
    double seconds, joules;
  };
  for (const Measured& measured : std::vector<Measured>{{{"gpt3-1.3b", "a100", 4}, 60.00688, 66819.738},
                                                        {{"bert-1.3b", "a100", 4}, 6.34365, 6814.4845},
                                                        {{"bert-1.3b", "a40", 8}, 7.941364, 14844.502},
                                                        {{"bloom-3b", "a40", 8}, 81.26473, 161579.12},
                                                        {{"wide-resnet101-1.5b", "a40", 8}, 15.70421, 31892.878}}) {
    SCOPED_TRACE(::testing::Message() << measured.shipped.workload << " on " << measured.shipped.gpu);
    const SynthProfile made = synth(measured.shipped);
    const Iteration iteration = iterate(made, [](const OperationProfile& o) { return o.options.front(); });
    EXPECT_NEAR(iteration.time / measured.seconds, 1.0, 0.002);
    EXPECT_NEAR(iteration.energy / measured.joules, 1.0, 0.002);
    EXPECT_THAT(made.comment, testing::Contains(testing::HasSubstr("\"Fitted to measured iterations\"")));
  }
  EXPECT_THAT(synth({"bloom-3b", "a100", 4}).comment,
              testing::Not(testing::Contains(testing::HasSubstr("measured one"))));
}

// Mean over workloads of what is saved, in per cent, when every operation runs at its least-energy clock.
double mean_potential(const std::vector<Shipped>& workloads) {
  double sum = 0.0;
  for (const Shipped& shipped : workloads) {
    const SynthProfile made = synth(shipped);
    const Iteration fast = iterate(made, [](const OperationProfile& o) { return o.options.front(); });
    const Iteration slow = iterate(made, [](const OperationProfile& o) { return least_energy(o); });
    sum += 100.0 * (1.0 - slow.energy / fast.energy);
  }
  return sum / static_cast<double>(workloads.size());
}

double mean_stretch(const std::vector<Shipped>& workloads) {
  double sum = 0.0;
  double count = 0.0;
  for (const Shipped& shipped : workloads) {
    for (const OperationProfile& operation : synth(shipped, 0.0).profile.operations) {
      sum += least_energy(operation).time / operation.options.front().time;
      count += 1.0;
    }
  }
  return sum / count;
}

TEST(Synth, PotentialSavingsOfPerseus) {
  EXPECT_NEAR(mean_potential(kPerseusA100), 16.0, 1.0);
  EXPECT_NEAR(mean_potential(kPerseusA40), 27.0, 1.5);
  for (const auto& workloads : {kPerseusA100, kPerseusA40}) {
    EXPECT_GE(mean_stretch(workloads), 1.20);
    EXPECT_LE(mean_stretch(workloads), 1.30);
  }
}

// --- Generator ------------------------------------------------------------------------------------------------------

TEST(Synth, SameRequestSameBytesAndSeedsDiffer) {
  const Shipped shipped{"gpt3-1.3b", "a100", 4};
  const auto text = [&](double noise, std::uint64_t seed) {
    return write_profile(synth(shipped, noise, seed).profile, {});
  };
  EXPECT_EQ(text(0.001, 7), text(0.001, 7));
  EXPECT_NE(text(0.001, 7), text(0.001, 8));
  EXPECT_EQ(text(0.0, 7), text(0.0, 8));
}

TEST(Synth, NoiseHasTheDeviationAskedFor) {
  const Shipped shipped{"gpt3-2.7b", "a40", 8};
  const SynthProfile exact = synth(shipped, 0.0);
  const SynthProfile noisy = synth(shipped, 0.002);
  double squares = 0.0;
  double sum = 0.0;
  double count = 0.0;
  for (std::size_t i = 0; i < exact.profile.operations.size(); ++i) {
    const auto& a = exact.profile.operations[i].options;
    const auto& b = noisy.profile.operations[i].options;
    for (std::size_t j = 0; j < std::min(a.size(), b.size()); ++j) {
      for (const double deviation : {b[j].time / a[j].time - 1.0, b[j].energy / a[j].energy - 1.0}) {
        squares += deviation * deviation;
        sum += deviation;
        count += 1.0;
      }
    }
  }
  EXPECT_NEAR(std::sqrt(squares / count), 0.002, 0.0001);
  EXPECT_NEAR(sum / count, 0.0, 0.0002);
}

TEST(Synth, SweepStopsAfterFiveRisesInARow) {
  for (const OperationProfile& operation : synth({"bert-1.3b", "a100", 4}).profile.operations) {
    std::vector<bool> rose;
    for (std::size_t i = 1; i < operation.options.size(); ++i) {
      EXPECT_LT(operation.options[i].frequency, operation.options[i - 1].frequency);
      rose.push_back(operation.options[i].energy > operation.options[i - 1].energy);
    }
    ASSERT_GT(rose.size(), 6u);
    int run = 0;
    for (std::size_t i = 0; i < rose.size(); ++i) {
      run = rose[i] ? run + 1 : 0;
      EXPECT_EQ(run == 5, i + 1 == rose.size());
    }
  }
}

TEST(Synth, ARowDoesNotDependOnTheOthers) {
  const SynthProfile four = synth({"gpt3-6.7b", "a40", 4});
  const SynthProfile eight = synth({"gpt3-6.7b", "a40", 8});  // stage 0 has 8 and 4 layers
  const double ratio = four.profile.operations[0].options[3].energy / eight.profile.operations[0].options[3].energy;
  EXPECT_NEAR(ratio, 2.0, 1e-12);
}

TEST(Synth, EveryPairOfGpuAndWorkloadWorks) {
  for (const std::string& gpu : synth_gpus()) {
    for (const std::string& workload : synth_workloads()) {
      const SynthProfile made = synthesize_profile({gpu, workload, 3, 0.001, 1});
      const std::string text = write_profile(made.profile, made.comment);
      EXPECT_EQ(read_profile(workload, text).stages, 3) << gpu << " " << workload;
    }
  }
}

TEST(Synth, RefusesWhatItCannotMake) {
  expect_usage_error([] { (void)synthesize_profile({"a100", "gpt5", 4, 0.0, 1}); }, "unknown workload 'gpt5'");
  expect_usage_error([] { (void)synthesize_profile({"voodoo", "gpt3-1.3b", 4, 0.0, 1}); }, "unknown GPU 'voodoo'");
  expect_usage_error([] { (void)synthesize_profile({"a100", "gpt3-1.3b", 26, 0.0, 1}); }, "choose 1 to 25");
  expect_usage_error([] { (void)synthesize_profile({"a100", "gpt3-1.3b", 0, 0.0, 1}); }, "0 stages");
  expect_usage_error([] { (void)synthesize_profile({"a100", "gpt3-1.3b", 4, 0.2, 1}); }, "noise 0.2");
  expect_usage_error([] { (void)synthesize_profile({"a100", "gpt3-1.3b", 4, std::nan(""), 1}); }, "noise");
}

}  // namespace
}  // namespace flyball
