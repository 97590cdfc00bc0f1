#include "wire/job_messages.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/json_object.h"
#include "base/record.h"
#include "support/expect_error.h"
#include "wire/step_messages.h"

namespace flyball {
namespace {

using ::testing::ElementsAre;

// As it arrives at the other end.
template <class Message>
nlohmann::json sent(const Message& message) {
  return parse_json("the wire", to_json(message).dump());
}

TEST(JobMessages, RequestsArriveAsTheyWereSent) {
  JobRequest job;
  job.id = "run-12";
  job.token = std::string(64, 'a');
  job.name = "GPT-3 \"large\" \xc3\xa9";
  job.planner = "envpipe";
  job.schedule = "interleaved-1f1b";
  job.stages = 4;
  job.microbatches = 8;
  job.chunks = 2;
  job.data_parallel = 3;
  job.tensor_parallel = 5;
  job.blocking_power = {Watts(70), Watts(71), Watts(72), Watts(73.5)};
  job.memory_limit = {8, 7, 6, 5};
  job.unit_time = Seconds(1e-4);
  job.noise = 0.01;
  job.switch_latency = Seconds(0.01);
  job.min_dwell = Seconds(0.05);
  job.target_time = Seconds(0.1 + 0.2);
  job.patience = Seconds(0);
  job.executed_steps = true;
  EXPECT_EQ(read_message<JobRequest>(sent(job)), job);
  EXPECT_EQ(job.ranks(), 60);
  job.chunks = 1;
  job.transfers_occupy_both = true;
  EXPECT_EQ(read_message<JobRequest>(sent(job)), job);

  const RankRequest rank{7, 1, 2, 3, {1410, 1395}};
  EXPECT_EQ(read_message<RankRequest>(sent(rank)), rank);

  const MeasurementReport report{
      7, 41, {{"forward.1", Megahertz(1410), Seconds(0.1 + 0.2), Joules(1.0 / 3.0), 1'000'000'000'000}}};
  const MeasurementReport read = read_message<MeasurementReport>(sent(report));
  EXPECT_EQ(read.rank, 7);
  EXPECT_EQ(read.sequence, 41);
  EXPECT_EQ(read.measurements, report.measurements);
  EXPECT_FALSE(read.begins_sweep);
  EXPECT_TRUE(read_message<MeasurementReport>(sent(MeasurementReport{7, 42, {}, true})).begins_sweep);

  for (const StragglerId& id : {StragglerId(3), StragglerId("rack-7/pdu:2")}) {
    const StragglerNotice notice = read_message<StragglerNotice>(sent(StragglerNotice{id, 1.25, Seconds(2.5), 9}));
    EXPECT_EQ(notice.straggler, id);
    EXPECT_EQ(notice.degree, 1.25);
    EXPECT_EQ(notice.delay, Seconds(2.5));
    EXPECT_EQ(notice.sequence, 9);
  }

  StepReport step{
      7, 3, 41, {Seconds(-0.5), Seconds(1.0 / 3.0)}, {Seconds(0.1 + 0.2), Seconds(1.0 / 3.0)}, StepClock::kDevice};
  const StepReport step_read = read_message<StepReport>(sent(step));
  EXPECT_EQ(step_read.rank, 7);
  EXPECT_EQ(step_read.version, 3);
  EXPECT_EQ(step_read.step, 41);
  EXPECT_EQ(step_read.begin, step.begin);
  EXPECT_EQ(step_read.end, step.end);
  EXPECT_EQ(step_read.clock, StepClock::kDevice);
}

// The server stores these bytes and compares them with what is sent again: they stay as they are.
TEST(JobMessages, ARequestIsWrittenInOneWay) {
  JobRequest job;
  job.stages = 2;
  job.microbatches = 4;
  EXPECT_EQ(to_json(job).dump(),
            R"({"name":"","schedule":"1f1b","stages":2,"microbatches":4,"chunks":1,)"
            R"("data_parallel":1,"tensor_parallel":1,"unit_time_s":0.001,"noise":0.0,"patience_s":300.0})");
  job.id = "run";
  job.token = std::string(32, 'a');
  job.blocking_power = {Watts(70)};
  job.memory_limit = {8, 7};
  job.switch_latency = Seconds(0.01);
  job.min_dwell = Seconds(0.5);
  job.target_time = Seconds(2);
  job.executed_steps = true;
  job.transfers_occupy_both = true;
  EXPECT_EQ(to_json(job).dump(),
            R"({"id":"run","token":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","name":"","schedule":"1f1b",)"
            R"("stages":2,"microbatches":4,"chunks":1,"data_parallel":1,"tensor_parallel":1,"blocking_power_w":[70.0],)"
            R"("memory_limit":[8,7],"unit_time_s":0.001,"noise":0.0,"switch_latency_s":0.01,"min_dwell_s":0.5,)"
            R"("target_time_s":2.0,"patience_s":300.0,"executed_steps":true,"transfers_occupy_both":true})");
  EXPECT_EQ(to_json(RankRequest{7, 1, 2, 3, {1410}}).dump(),
            R"({"rank":7,"dp_rank":1,"pp_rank":2,"tp_rank":3,"clocks_mhz":[1410]})");
}

TEST(JobMessages, LeavesOutWhatHasADefault) {
  const JobRequest job =
      read_message<JobRequest>(parse_json("x", R"({"stages":2,"microbatches":4,"blocking_power_w":60})"));
  EXPECT_EQ(job.planner, "");  // by the order: planner_of()
  EXPECT_EQ(job.schedule, "1f1b");
  EXPECT_EQ(job.unit_time, Seconds(1e-3));
  EXPECT_THAT(job.blocking_power, ElementsAre(Watts(60)));
  EXPECT_FALSE(job.target_time);
  EXPECT_FALSE(job.switch_latency);
  EXPECT_FALSE(to_json(job).contains("switch_latency_s")) << "older servers refuse it";
  EXPECT_FALSE(read_message<StragglerNotice>(parse_json("x", R"({"straggler":0,"degree":1})")).sequence);
}

TEST(JobMessages, AnswersArriveAsTheyWereSentAndMaySayMore) {
  RankSchedule schedule;
  schedule.job = "run-12";
  schedule.rank = 7;
  schedule.stage = 2;
  schedule.version = 3;
  schedule.point = 41;
  schedule.iteration_time = Seconds(1.0 / 7.0);
  schedule.iteration_energy = Joules(1234.5);
  schedule.allowed_time = Seconds(0.15);
  schedule.computations = {{"forward", 0, 0, 1410}, {"backward", 0, 1, 1200}, {"optimizer", -1, 0, 0}};
  schedule.computations.push_back({"forward", 1, 0, 900, {0, 1, 0, 0}});
  schedule.computations.push_back({"backward", 1, 0, 800, {1, 0, 0, 2}, 41'500});
  schedule.computations.push_back({"backward", 2, 0, 700, {}, 0});
  nlohmann::json json = sent(schedule);
  json["something_new"] = {1, 2, 3};
  json["computations"][0].push_back("more");
  const RankSchedule read = read_message<RankSchedule>(json);
  EXPECT_EQ(read.job, schedule.job);
  EXPECT_EQ(read.iteration_time, schedule.iteration_time);
  EXPECT_EQ(read.allowed_time, schedule.allowed_time);
  EXPECT_EQ(read.computations, schedule.computations);

  JobStatus status;
  status.job = "run-12";
  status.state = JobState::kPlanning;
  status.waiting_for = {3, 4};
  status.stragglers = {{StragglerId("rack"), 1.5, 4, {{1.0, 5, Seconds(60)}}}};
  const JobStatus told = read_message<JobStatus>(sent(status));
  EXPECT_EQ(told.state, JobState::kPlanning);
  EXPECT_THAT(told.waiting_for, ElementsAre(3, 4));
  ASSERT_EQ(told.stragglers.size(), 1u);
  EXPECT_EQ(told.stragglers[0].announced.at(0).remaining, Seconds(60));
  for (const JobState state : values_of<JobState>()) EXPECT_EQ(value_named<JobState>(name_of(state)), state);
  EXPECT_FALSE(value_named<JobState>("asleep"));
}

TEST(JobMessages, EventsAreWrittenInOneWay) {
  EXPECT_EQ(to_json(PlanningProgress{"run-12", 0.5}).dump(), R"({"job":"run-12","planning_progress":0.5})");
  EXPECT_EQ(to_json(SchedulesReplaced{"run-12", 3, 2, Seconds(0.25)}).dump(),
            R"({"job":"run-12","version":3,"frontier_version":2,"allowed_time_s":0.25})");
  EXPECT_EQ(to_json(JobTrouble{"run-12", "why"}).dump(), R"({"job":"run-12","trouble":"why"})");
  EXPECT_EQ(to_json(JobDeleted{"run-12", "why"}).dump(), R"({"job":"run-12","why":"why"})");
}

TEST(JobMessages, RefusalsNameTheField) {
  const auto refused = [](auto read, const char* text, const std::string& words) {
    expect_input_error([&] { (void)read(parse_json("the request", text)); }, 0, 0, words);
  };
  refused(read_message<JobRequest>, R"({"microbatches":4})", "stages: is missing");
  refused(read_message<JobRequest>, R"({"stages":2,"microbatches":4.5})", "microbatches");
  refused(read_message<JobRequest>, R"({"stages":2,"microbatches":4,"chunk":2})", "did you mean chunks?");
  refused(read_message<JobRequest>, R"({"stages":2,"microbatches":4,"id":"a/b"})", "id: holds other characters");
  refused(read_message<JobRequest>, R"({"stages":2,"microbatches":4,"id":".."})", "id");
  refused(read_message<JobRequest>, R"({"stages":2,"microbatches":4,"token":"short"})", "token: has 5 characters");
  refused(read_message<JobRequest>, R"({"stages":2,"microbatches":4,"blocking_power_w":[1,2,3]})", "blocking_power_w");
  refused(read_message<JobRequest>, R"({"stages":2,"microbatches":4,"blocking_power_w":[]})", "has 0 entries");
  refused(read_message<StepReport>, R"({"rank":0,"version":1,"step":1,"end_s":[1]})", "begin_s: is missing");
  refused(read_message<StepReport>, R"({"rank":0,"version":1,"step":1,"begin_s":[-1e6],"end_s":[1]})",
          "end_s: has an iteration of more than 1000000 s");
  refused(read_message<JobRequest>, R"({"stages":2,"microbatches":4,"blocking_power_w":[1,"x"]})", "blocking_power_w");
  refused(read_message<JobRequest>, R"({"stages":2,"microbatches":4,"switch_latency_s":-1})", "switch_latency_s");
  refused(read_message<JobRequest>, R"({"stages":2,"microbatches":4,"min_dwell_s":61})", "min_dwell_s");
  refused(read_message<JobRequest>, R"({"stages":1000,"microbatches":4,"data_parallel":1000})", "1000000 ranks");
  refused(read_message<RankRequest>, R"({"rank":-1,"dp_rank":0,"pp_rank":0,"tp_rank":0})", "rank");
  refused(read_message<RankRequest>, R"({"rank":1,"dp_rank":0,"pp_rank":0,"tp_rank":0,"clocks_mhz":[1,-2]})",
          "clocks_mhz[1]");
  refused(read_message<MeasurementReport>, R"({"rank":0,"sequence":0,"measurements":{}})", "measurements");
  refused(read_message<MeasurementReport>, R"({"rank":0,"sequence":9223372036854775808})", "sequence");
  // 2^62 is the last; 2^63 - 2, which a notice without a number could not have followed twice, is none.
  const auto notice = parse_json("t", R"({"straggler":0,"degree":1.5,"sequence":4611686018427387904})");
  EXPECT_EQ(read_message<StragglerNotice>(notice).sequence, kLastSequence);
  for (const char* late : {"4611686018427387905", "9223372036854775806"}) {
    const std::string notice_text = fmt::format(R"({{"straggler":0,"degree":1.5,"sequence":{}}})", late);
    refused(read_message<StragglerNotice>, notice_text.c_str(), "from 0 to 4611686018427387904");
    const std::string report_text = fmt::format(R"({{"rank":0,"sequence":{}}})", late);
    refused(read_message<MeasurementReport>, report_text.c_str(), "from 0 to 4611686018427387904");
  }
  for (const char* wrong : {"null", "1"}) {
    const std::string words = std::string(": is ") + wrong + ", not true or false";
    refused(read_message<MeasurementReport>,
            (R"({"rank":0,"sequence":0,"begins_sweep":)" + std::string(wrong) + "}").c_str(), "begins_sweep" + words);
    refused(read_message<JobRequest>,
            (R"({"stages":2,"microbatches":4,"executed_steps":)" + std::string(wrong) + "}").c_str(),
            "executed_steps" + words);
  }
  const auto step_refused = [&](const std::string& times, const std::string& words) {
    refused(read_message<StepReport>, (R"({"rank":0,"version":1,"step":1,)" + times + "}").c_str(), words);
  };
  step_refused(R"("begin_s":[0,1],"end_s":[1])", "end_s: has 1 entries, begin_s 2");
  step_refused(R"("begin_s":[0,1],"end_s":[2,3])", "begin_s[1]: is out of order");
  step_refused(R"("begin_s":[2],"end_s":[1])", "begin_s[0]: is out of order");
  step_refused(R"("begin_s":[0],"end_s":["x"])", "end_s[0]");
  step_refused(R"("begin_s":0,"end_s":[1])", "begin_s");
  refused(read_message<StragglerNotice>, R"({"straggler":"","degree":2})", "straggler");
  refused(read_message<StragglerNotice>, R"({"straggler":1,"degree":2,"delay_s":-1})", "delay_s");
  refused(read_message<StragglerNotice>, R"({"straggler":null,"degree":2})", "straggler");
}

TEST(JobMessages, NumbersBeyondADoubleAreBadInput) {
  expect_input_error([] { (void)parse_json("the request", "[1e999]"); }, 0, 0, "too large");
}

}  // namespace
}  // namespace flyball
