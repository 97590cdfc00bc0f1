#include "cluster/job_trace.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <string>

#include "base/text.h"
#include "support/expect_error.h"
#include "support/shared_data.h"

namespace flyball {
namespace {

TEST(JobTrace, ReadsAndSorts) {
  const JobTrace trace = read_job_trace("t.csv",
                                        "submit_time,num_gpus,duration,model,batch_size\n"
                                        "20,1,5,vgg16,64\n10,4,7.5,,\n10,2,1,gpt2,\n");
  ASSERT_EQ(trace.jobs.size(), 3u);
  EXPECT_EQ(trace.jobs[0].gpus, 4);
  EXPECT_EQ(trace.jobs[0].line, 3u);
  EXPECT_EQ(trace.jobs[0].model, "");
  EXPECT_DOUBLE_EQ(trace.jobs[0].duration.value(), 7.5);
  EXPECT_EQ(trace.jobs[1].gpus, 2) << "those of one time keep their order";
  EXPECT_EQ(trace.jobs[1].batch_size, 0);
  EXPECT_EQ(trace.jobs[2].batch_size, 64);
}

TEST(JobTrace, WritesWhatItReads) {
  const std::string text = "# made\nsubmit_time,num_gpus,duration,model,batch_size\n0,1,5,vgg16,64\n3.25,2,1,,\n";
  EXPECT_EQ(write_job_trace(read_job_trace("t.csv", text), {"made"}), text);
  const std::string plain = "submit_time,num_gpus,duration\n0,1,5\n";
  EXPECT_EQ(write_job_trace(read_job_trace("t.csv", plain), {}), plain);
}

TEST(JobTrace, ComplainsWithLineAndColumn) {
  const auto read = [](const std::string& text) { (void)read_job_trace("t.csv", text); };
  const std::string header = "submit_time,num_gpus,duration,model,batch_size\n";
  expect_input_error([&] { read(""); }, 0, 0, "no header");
  expect_input_error([&] { read("submit_time,num_gpus\n"); }, 1, 1, "no column 'duration'");
  expect_input_error([&] { read("submit_time,num_gpus,duration,batch_size\n"); }, 1, 1, "batch_size but no model");
  expect_input_error([&] { read(header); }, 1, 1, "no jobs");
  expect_input_error([&] { read(header + "-1,1,1,,\n"); }, 2, 1, "submit_time is -1");
  expect_input_error([&] { read(header + "1e12,1,1,,\n"); }, 2, 1, "submit_time is 1e12");
  expect_input_error([&] { read(header + "1,1,1,,\n1,0,1,,\n"); }, 3, 3, "num_gpus is 0");
  expect_input_error([&] { read(header + "1,2.5,1,,\n"); }, 2, 3, "not a whole number");
  expect_input_error([&] { read(header + "1,99999,1,,\n"); }, 2, 3, "num_gpus is 99999");
  expect_input_error([&] { read(header + "1,1,0,,\n"); }, 2, 5, "duration is 0");
  expect_input_error([&] { read(header + "1,1,nan,,\n"); }, 2, 5, "not a finite number");
  expect_input_error([&] { read(header + "1,1,1,vgg16,0\n"); }, 2, 13, "batch_size is 0");
  expect_input_error([&] { read(header + "1,1,1,,64\n"); }, 2, 8, "without a model");
  expect_input_error([&] { read(header + "1,1,1\n"); }, 2, 5, "3 fields");
}

TEST(TraceSynthesis, SameRequestSameBytes) {
  TraceSynthesis request;
  request.pool = {{"vgg16", {32, 64}}, {"gpt2", {8}}};
  const JobTrace trace = synthesize_job_trace(request);
  EXPECT_EQ(write_job_trace(trace, {}), write_job_trace(synthesize_job_trace(request), {}));
  ASSERT_EQ(trace.jobs.size(), 1901u);
  EXPECT_TRUE(std::is_sorted(trace.jobs.begin(), trace.jobs.end(),
                             [](const TraceJob& a, const TraceJob& b) { return a.submit < b.submit; }));
  EXPECT_LT(trace.jobs.back().submit.value(), 86400.0);
  // Most jobs ask for one GPU (70 %), half take less than the median.
  const auto share = [&](const auto& holds) {
    return static_cast<double>(std::count_if(trace.jobs.begin(), trace.jobs.end(), holds)) / 1901.0;
  };
  EXPECT_NEAR(share([](const TraceJob& one) { return one.gpus == 1; }), 0.70, 0.04);
  EXPECT_NEAR(share([](const TraceJob& one) { return one.duration.value() < 500.0; }), 0.50, 0.04);
  // Read back, it is the same trace.
  const std::string text = write_job_trace(trace, {"synthetic"});
  EXPECT_EQ(write_job_trace(read_job_trace("t.csv", text), {"synthetic"}), text);
  request.seed = 2;
  EXPECT_NE(write_job_trace(synthesize_job_trace(request), {"synthetic"}), text);
}

// Creation, schedule and deletion: waits are no duration. Pods without GPUs or that never ran are left out.
TEST(TraceConversion, Alibaba) {
  std::size_t dropped = 0;
  const JobTrace trace = convert_job_trace(TraceFormat::kAlibaba, "pods.csv",
                                           "name,num_gpu,creation_time,deletion_time,scheduled_time\n"
                                           "a,1,1000,1500,1100\nb,0,1000,1500,1000\nc,8,900,1900,900\nd,1,950,1000,\n",
                                           &dropped);
  EXPECT_EQ(write_job_trace(trace, {}), "submit_time,num_gpus,duration\n0,8,1000\n100,1,400\n");
  EXPECT_EQ(dropped, 2u);
}

// All attempts count, with the GPUs of the last.
TEST(TraceConversion, Philly) {
  const std::string log = R"([
    {"submitted_time": "2017-10-09 07:00:00", "attempts": [
      {"start_time": "2017-10-09 07:01:00", "end_time": "2017-10-09 07:02:00", "detail": [{"gpus": ["gpu0"]}]},
      {"start_time": "2017-10-09 08:00:00", "end_time": "2017-10-09 08:00:30",
       "detail": [{"gpus": ["gpu0", "gpu1"]}, {"gpus": ["gpu0", "gpu1"]}]}]},
    {"submitted_time": "2017-10-10 07:00:00", "attempts": []},
    {"submitted_time": "None", "attempts": []},
    {"submitted_time": "2017-10-08 06:59:00", "attempts": [
      {"start_time": "2017-10-08 23:59:59", "end_time": "2017-10-09 00:00:09", "detail": [{"gpus": ["gpu3"]}]},
      {"start_time": "2017-10-09 00:00:00", "end_time": null, "detail": []}]}])";
  std::size_t dropped = 0;
  const JobTrace trace = convert_job_trace(TraceFormat::kPhilly, "log.json", log, &dropped);
  EXPECT_EQ(write_job_trace(trace, {}), "submit_time,num_gpus,duration\n0,1,10\n86460,4,90\n");
  EXPECT_EQ(dropped, 2u);
  expect_input_error([] { (void)convert_job_trace(TraceFormat::kPhilly, "x", "[\n{]"); }, 2, 2, "no JSON");
  expect_input_error([] { (void)convert_job_trace(TraceFormat::kPhilly, "x", "{}"); }, 1, 1, "no array");
  expect_input_error([] { (void)convert_job_trace(TraceFormat::kPhilly, "x", "[]"); }, 0, 0, "no jobs");
}

// From 7:00 until 7:01 and from 23:59:59 until midnight: 61 s. A zone behind the seconds is the same for all times.
TEST(TraceConversion, PhillyTimesMayHaveAZone) {
  const JobTrace trace = convert_job_trace(TraceFormat::kPhilly, "log.json", R"([
    {"submitted_time": "2017-10-09 06:59:00 PDT", "attempts": [
      {"start_time": "2017-10-09 07:00:00 PDT", "end_time": "2017-10-09 07:01:00 PDT", "detail": [{"gpus": ["gpu0"]}]},
      {"start_time": "2017-10-09 23:59:59 PDT", "end_time": "2017-10-10 00:00:00 PDT",
       "detail": [{"gpus": ["gpu0"]}]}]},
    {"submitted_time": "2017-02-29 06:59:00", "attempts": []}, {"submitted_time": "2017-10-09", "attempts": []}])");
  EXPECT_EQ(write_job_trace(trace, {}), "submit_time,num_gpus,duration\n0,1,61\n");
}

// Bert is "medium": 3 GPU-hours, on 4 GPUs 2,700 s.
TEST(TraceConversion, Pollux) {
  const JobTrace trace = convert_job_trace(TraceFormat::kPollux, "w.csv",
                                           "name,time,application,num_replicas,batch_size\nbert-1,60,bert,4,12\n");
  EXPECT_EQ(write_job_trace(trace, {}), "submit_time,num_gpus,duration\n0,4,2700\n");
  expect_input_error(
      [] { (void)convert_job_trace(TraceFormat::kPollux, "w", "time,application,num_gpus\n1,doom,1\n"); }, 2, 3,
      "unknown application 'doom'");
  expect_input_error([] { (void)convert_job_trace(TraceFormat::kPollux, "w", "time,application\n"); }, 1, 1,
                     "neither num_replicas nor num_gpus");
}

TEST(TraceConversion, RealTraces) {
  const std::optional<std::filesystem::path> data = testing::shared_data();
  if (!data) GTEST_SKIP() << testing::kNoSharedData;
  const std::filesystem::path traces = *data / "traces";
  EXPECT_EQ(read_job_trace_file(traces / "philly-2017-10-10.csv").jobs.size(), 2442u);
  const std::string alibaba = (traces / "alibaba-openb-2023.csv").string();
  EXPECT_GT(convert_job_trace(TraceFormat::kAlibaba, alibaba, read_text_file(alibaba)).jobs.size(), 5000u);
}

}  // namespace
}  // namespace flyball
