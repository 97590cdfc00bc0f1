#include "client/session.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <condition_variable>
#include <filesystem>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/json_object.h"
#include "base/monotonic_time.h"
#include "base/record.h"
#include "net/event_loop.h"
#include "net/server.h"

namespace flyball {
namespace {

using ::testing::AnyOf;
using ::testing::Contains;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr auto kLong = std::chrono::seconds(60);

// A GPU whose power follows what it does and at which clock, and that can refuse to be set.
class FakeGpu {
 public:
  MeterReading read() {
    std::unique_lock lock(mutex_);
    if (failing_) throw SystemError("the counter fails");
    changed_.wait(lock, [this] { return !hanging_; });
    advance();
    return {std::nullopt, Joules(joules_)};
  }
  // Answers at once, and obeys when obey_after() says.
  void set(double mhz) {
    const std::scoped_lock lock(mutex_);
    if (refusing_ && mhz > 0) throw SystemError("not permitted");
    advance();
    before_mhz_ = mhz_;
    mhz_ = mhz;
    obeys_at_ = time_ + obeys_after_;
    history_.push_back(mhz);
    changed_.notify_all();
  }
  void obey_after(Nanoseconds time) {
    const std::scoped_lock lock(mutex_);
    obeys_after_ = time;
  }
  // Computes what takes so long at 1,000 MHz, at the clocks that hold meanwhile.
  void work(double milliseconds) {
    std::unique_lock lock(mutex_);
    advance();
    busy_ = true;
    double left_ns = milliseconds * 1e6;
    while (left_ns > 0) {
      const double speed = present_mhz() / 1000.0;
      auto until = time_ + static_cast<Nanoseconds>(left_ns / speed) + 1;
      if (time_ < obeys_at_) until = std::min(until, obeys_at_);
      const Nanoseconds since = time_;
      const std::size_t settings = history_.size();
      (void)changed_.wait_for(lock, std::chrono::nanoseconds(until - since),
                              [&] { return history_.size() > settings; });
      advance();
      left_ns -= static_cast<double>(std::min(time_, until) - since) * speed;
    }
    busy_ = false;
  }
  void refuse(bool refusing) {
    const std::scoped_lock lock(mutex_);
    refusing_ = refusing;
  }
  // Readings of the counter, from now on.
  void fail_readings(bool failing) {
    const std::scoped_lock lock(mutex_);
    failing_ = failing;
  }
  void hang_readings(bool hanging) {
    const std::scoped_lock lock(mutex_);
    hanging_ = hanging;
    changed_.notify_all();
  }
  [[nodiscard]] double clock() const {
    const std::scoped_lock lock(mutex_);
    return mhz_ > 0 ? mhz_ : 1000.0;
  }
  [[nodiscard]] bool at_default() const {
    const std::scoped_lock lock(mutex_);
    return mhz_ == 0;
  }
  [[nodiscard]] std::vector<double> take_history() {
    const std::scoped_lock lock(mutex_);
    return std::exchange(history_, {});
  }

 private:
  [[nodiscard]] double present_mhz() const {
    const double mhz = time_ < obeys_at_ ? before_mhz_ : mhz_;
    return mhz > 0 ? mhz : 1000.0;
  }
  void advance() {
    const Nanoseconds now = monotonic_now();
    // Least energy at 700 MHz: below, the constant 100 W last longer than what the dynamic power saves.
    const double clock = present_mhz() / 1000.0;
    joules_ += (busy_ ? 100.0 + 146.0 * clock * clock * clock : 30.0 + 20.0 * clock) * to_seconds(now - time_).value();
    time_ = now;
  }

  mutable std::mutex mutex_;
  Nanoseconds time_ = monotonic_now();
  double joules_ = 0.0;
  double mhz_ = 0.0;
  double before_mhz_ = 0.0;
  Nanoseconds obeys_after_ = 0;
  Nanoseconds obeys_at_ = 0;
  bool busy_ = false;
  bool refusing_ = false;
  bool failing_ = false;
  bool hanging_ = false;
  std::condition_variable changed_;
  std::vector<double> history_;
};

class FakeSink : public ClockSink {
 public:
  explicit FakeSink(FakeGpu& gpu) : gpu_(gpu) {}
  void hold(Megahertz clock) override { gpu_.set(clock.value()); }
  void release() override { gpu_.set(0); }

 private:
  FakeGpu& gpu_;
};

// What the planning server says to one rank, over a Unix socket; it can go away and come back, with or without what it
// knew.
class JobServer {
 public:
  JobServer()
      : folder_(std::filesystem::temp_directory_path() /
                ("flyball-session-" + std::to_string(getpid()) + "-" + std::to_string(counter()++))) {
    std::filesystem::create_directory(folder_);
  }
  ~JobServer() {
    stop();
    std::filesystem::remove_all(folder_);
  }

  [[nodiscard]] std::string address() const { return (folder_ / "server.sock").string(); }

  void start() {
    loop_ = std::make_unique<EventLoop>();
    server_ = std::make_unique<HttpServer>(*loop_, routes(), ServerLimits{});
    server_->listen_unix(address(), 0600);
    thread_ = std::thread([this] {
      const auto timer = loop_->every(Seconds(0.02), [this] { answer_waiting(); });
      loop_->run();
    });
  }
  void stop() {
    if (!thread_.joinable()) return;
    loop_->post([this] {
      waiting_.clear();
      server_->stop(Seconds(0), [this] { loop_->stop(); });
    });
    thread_.join();
    server_.reset();
    loop_.reset();
  }
  void forget() {
    const std::scoped_lock lock(mutex_);
    registered = false;
    profiled = false;
    reports.clear();
  }

  // A new version, with these clocks in forwards and backwards, in turn.
  void publish(const std::vector<int>& clocks, bool report_steps = false) {
    const std::scoped_lock lock(mutex_);
    RankSchedule schedule;
    schedule.job = "job";
    schedule.version = ++version_;
    schedule.report_steps = report_steps;
    schedule.iteration_time = Seconds(1);
    schedule.iteration_energy = Joules(100);
    schedule.allowed_time = Seconds(1);
    for (std::size_t i = 0; i < clocks.size(); ++i) {
      schedule.computations.push_back({i % 2 == 0 ? "forward" : "backward", static_cast<int>(i / 2), 0, clocks[i]});
    }
    schedule_ = to_json(schedule).dump();
  }

  // Waits until the condition on what has been heard holds.
  template <class Condition>
  bool wait_for(Condition condition) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, kLong, [&] { return condition(*this); });
  }

  // Those of the reports from that one on. For conditions, and after wait_for.
  [[nodiscard]] std::size_t measurements_from(std::size_t first) const {
    std::size_t count = 0;
    for (std::size_t i = first; i < reports.size(); ++i) count += reports[i].measurements.size();
    return count;
  }

  // For conditions, and after wait_for.
  std::vector<MeasurementReport> reports;
  std::vector<StragglerNotice> stragglers;
  std::vector<StepReport> steps;
  bool registered = false;
  bool profiled = false;
  bool refuse_next = false;
  int joins = 0;

 private:
  static std::atomic<int>& counter() {
    static std::atomic<int> count{0};
    return count;
  }

  static Response json(const nlohmann::ordered_json& body, unsigned status = 200) {
    Response response;
    response.status = status;
    response.body = body.dump();
    return response;
  }

  Router routes() {
    Router router;
    router.add({"POST", "/v1/jobs", Handler([](const Request& request) {
                  const JobRequest job = read_message<JobRequest>(parse_json("test", request.body));
                  return json(to_json(JobRegistered{job.id, "", true}));
                })});
    router.add({"POST", "/v1/jobs/job/ranks", Handler([this](const Request& request) {
                  (void)read_message<RankRequest>(parse_json("test", request.body));
                  const std::scoped_lock lock(mutex_);
                  RankRegistered answer;
                  answer.created = !std::exchange(registered, true);
                  answer.last_sequence = reports.empty() ? -1 : reports.back().sequence;
                  ++joins;
                  changed_.notify_all();
                  return json(to_json(answer));
                })});
    router.add({"POST", "/v1/jobs/job/measurements", Handler([this](const Request& request) {
                  const std::scoped_lock lock(mutex_);
                  if (std::exchange(refuse_next, false)) throw InputError({"test"}, "not this one", "");
                  reports.push_back(read_message<MeasurementReport>(parse_json("test", request.body)));
                  changed_.notify_all();
                  return json(to_json(MeasurementsTaken{reports.back().sequence, false}));
                })});
    router.add({"POST", "/v1/jobs/job/ranks/{rank}/profiled", Handler([this](const Request&) {
                  const std::scoped_lock lock(mutex_);
                  profiled = true;
                  changed_.notify_all();
                  Response nothing;
                  nothing.status = 204;
                  return nothing;
                })});
    router.add({"POST", "/v1/jobs/job/stragglers", Handler([this](const Request& request) {
                  const std::scoped_lock lock(mutex_);
                  stragglers.push_back(read_message<StragglerNotice>(parse_json("test", request.body)));
                  changed_.notify_all();
                  return json(to_json(StragglerTaken{}));
                })});
    router.add({"POST", "/v1/jobs/job/steps", Handler([this](const Request& request) {
                  const std::scoped_lock lock(mutex_);
                  steps.push_back(read_message<StepReport>(parse_json("test", request.body)));
                  changed_.notify_all();
                  Response nothing;
                  nothing.status = 204;
                  return nothing;
                })});
    router.add(
        {"GET", "/v1/jobs/job/ranks/{rank}/schedule", AsyncHandler([this](const Request& request, const Reply& reply) {
           waiting_.push_back({std::stoll(std::string(request.query.find("after_version").value())),
                               monotonic_now() + 2000 * kMillisecond, reply});
           answer_waiting();
         })});
    return router;
  }

  void answer_waiting() {
    const std::scoped_lock lock(mutex_);
    std::erase_if(waiting_, [&](const Waiting& one) {
      Response response;
      response.status = 204;
      if (version_ > one.after) {
        response.status = 200;
        response.body = schedule_;
      } else if (monotonic_now() < one.until) {
        return false;
      }
      one.reply.send(response);
      return true;
    });
  }

  struct Waiting {
    std::int64_t after = 0;
    Nanoseconds until = 0;
    Reply reply;
  };

  const std::filesystem::path folder_;
  std::unique_ptr<EventLoop> loop_;
  std::unique_ptr<HttpServer> server_;
  std::thread thread_;
  std::vector<Waiting> waiting_;  // the loop's

  std::mutex mutex_;
  std::condition_variable changed_;
  std::int64_t version_ = 0;
  std::string schedule_;
};

// A session, its GPU and its training loop: two microbatches of a forward and a backward per step.
class SessionTest : public ::testing::Test {
 protected:
  SessionOptions options(bool with_server) {
    SessionOptions options;
    if (with_server) {
      options.server = server_.address();
      options.job.id = "job";
      options.job.token = std::string(32, 't');
      options.job.stages = 1;
      options.job.microbatches = 2;
    }
    options.sweep.steps_per_clock = 2;
    options.sweep.rises_to_stop = 2;
    options.settle = Seconds(0);
    options.sampling_period = Seconds(0.001);
    options.controller.first_retry = Seconds(0.005);
    options.controller.longest_retry = Seconds(0.01);
    options.notice = [this](const std::string& words) {
      const std::scoped_lock lock(mutex_);
      notices_.push_back(words);
    };
    return options;
  }

  void open(const SessionOptions& options) {
    SessionGpu gpu;
    for (double mhz = 1000; mhz >= 300; mhz -= 100) gpu.clocks.emplace_back(mhz);
    gpu.sink = std::make_unique<FakeSink>(gpu_);
    gpu.meter = {"GPU:0", [this] { return gpu_.read(); }};
    session_ = std::make_unique<Session>(options, std::move(gpu));
  }

  void compute(const char* type, double milliseconds) {
    session_->set_speed(type);
    session_->begin(type);
    gpu_.work(slowness_ * milliseconds);
    session_->end(type);
  }

  void step(double milliseconds = 1.0) {
    session_->step_begin();
    // For its input; so long that it is measured.
    std::this_thread::sleep_for(std::chrono::duration<double, std::milli>(milliseconds));
    for (int microbatch = 0; microbatch < 2; ++microbatch) {
      compute("forward", milliseconds);
      compute("backward", 2 * milliseconds);
    }
    session_->step_end();
  }

  template <class Condition>
  bool train_until(Condition condition, double milliseconds = 1.0) {
    return rounds_until([&] {
      step(milliseconds);
      return condition();
    });
  }

  template <class Round>
  static bool rounds_until(Round round) {
    const auto deadline = std::chrono::steady_clock::now() + kLong;
    while (std::chrono::steady_clock::now() < deadline) {
      if (round()) return true;
    }
    return false;
  }

  bool train_until_swept() {
    return train_until([&] { return session_->state().phase != SessionPhase::kProfiling; }, 4.0);
  }

  [[nodiscard]] std::vector<std::string> notices() {
    const std::scoped_lock lock(mutex_);
    return notices_;
  }

  std::mutex mutex_;
  std::vector<std::string> notices_;
  double slowness_ = 1.0;  // of the hardware
  FakeGpu gpu_;
  JobServer server_;
  std::unique_ptr<Session> session_;
};

TEST_F(SessionTest, ProfilesReportsAndRunsTheScheduleThatComesBack) {
  server_.start();
  open(options(true));
  ASSERT_TRUE(train_until_swept());
  ASSERT_TRUE(server_.wait_for([](const JobServer& server) { return server.profiled; }));
  // Every clock of the sweep, from the highest down, with both instructions.
  ASSERT_GE(server_.reports.size(), 3u);
  std::size_t with_waiting = 0;
  const std::size_t clocks = server_.reports.size() - 1;
  for (std::size_t i = 0; i < clocks; ++i) {
    const MeasurementReport& report = server_.reports[i];
    const Megahertz clock(1000.0 - 100.0 * static_cast<double>(i));
    EXPECT_EQ(report.sequence, static_cast<std::int64_t>(i));
    ASSERT_GE(report.measurements.size(), 2u);
    EXPECT_EQ(report.measurements[0].clock, clock);
    EXPECT_EQ(report.measurements[0].instruction, "forward");
    EXPECT_EQ(report.measurements[1].instruction, "backward");
    EXPECT_GT(report.measurements[1].time, report.measurements[0].time);
    EXPECT_GT(report.measurements[0].energy, Joules(0));
    if (report.measurements.size() == 2) continue;  // a busy machine may tell nothing of a clock's waiting
    ++with_waiting;
    ASSERT_THAT(report.measurements, SizeIs(3));
    EXPECT_EQ(report.measurements[2].instruction, "waiting");
    EXPECT_EQ(report.measurements[2].clock, clock);
    EXPECT_EQ(report.measurements[2].time, Seconds(1));
    EXPECT_GT(report.measurements[2].energy, Joules(0));
  }
  EXPECT_GT(with_waiting, 0u);
  // The last report has what a clock change takes.
  ASSERT_THAT(server_.reports.back().measurements, SizeIs(1));
  const InstructionMeasurement& change = server_.reports.back().measurements[0];
  EXPECT_EQ(change.instruction, "clock_change");
  EXPECT_GT(change.time, Seconds(0));
  EXPECT_EQ(server_.reports.back().sequence, static_cast<std::int64_t>(clocks));
  EXPECT_GT(session_->state().waiting_power, Watts(0));
  EXPECT_THAT(session_->profile_csv(), HasSubstr("\n0,waiting,"));
  EXPECT_THAT(session_->measurements(), SizeIs(2 * clocks + with_waiting + 1));
  EXPECT_EQ(session_->state().phase, SessionPhase::kWaiting);
  server_.publish({900, 800, 700, 600});
  ASSERT_TRUE(train_until([&] { return session_->state().schedule_version == 1; }));
  EXPECT_EQ(session_->state().phase, SessionPhase::kRunning);
  EXPECT_EQ(session_->state().planned_energy, Joules(100));
  // Long enough computations for every clock to arrive.
  (void)gpu_.take_history();
  step(20.0);
  std::vector<double> history = gpu_.take_history();
  if (!history.empty() && history.front() == 600) history.erase(history.begin());  // the step before's last
  EXPECT_THAT(history, ElementsAre(900, 800, 700, 600));

  session_.reset();
  EXPECT_TRUE(gpu_.at_default());
}

// The driver answers within microseconds, and the board's clock changes 20 ms after a computation was begun.
TEST_F(SessionTest, ADriverThatAnswersBeforeTheBoardObeysIsNoticed) {
  SessionOptions chosen = options(false);
  chosen.sweep.clock_stride = 3;  // 1000, 700 and 400 MHz
  open(chosen);
  gpu_.obey_after(20 * kMillisecond);
  ASSERT_TRUE(train_until([&] { return session_->state().phase != SessionPhase::kProfiling; }, 30.0));
  const std::vector<InstructionMeasurement> all = session_->measurements();
  ASSERT_FALSE(all.empty());
  EXPECT_EQ(all.back().instruction, "clock_change");
  EXPECT_NEAR(all.back().time.value(), 0.020, 0.005);
  EXPECT_LT(session_->state().clocks.ages.percentile(0.5), 10 * kMillisecond);
}

// Steps that run different computations tell nothing: what the driver's answers took counts, no more than the slowest,
// to a histogram's bucket (AgeHistogram).
TEST_F(SessionTest, WhereComputationsDoNotTellItTheDriversAnswersCount) {
  open(options(false));
  int steps = 0;
  ASSERT_TRUE(rounds_until([&] {
    session_->step_begin();
    compute("forward", 4.0);
    compute("backward", 8.0);
    if (++steps % 2 == 0) compute("forward", 4.0);
    session_->step_end();
    return session_->state().phase != SessionPhase::kProfiling;
  }));
  const std::vector<InstructionMeasurement> all = session_->measurements();
  ASSERT_FALSE(all.empty());
  EXPECT_EQ(all.back().instruction, "clock_change");
  EXPECT_GT(all.back().time, Seconds(0));
  EXPECT_LE(all.back().time, 1.1 * to_seconds(session_->state().clocks.ages.largest()));
}

TEST_F(SessionTest, ANewScheduleIsAdoptedWithTheNextStep) {
  server_.start();
  server_.publish({900, 900, 900, 900});
  SessionOptions chosen = options(true);
  chosen.profile = false;
  open(chosen);
  ASSERT_TRUE(train_until([&] { return session_->state().schedule_version == 1; }));
  server_.publish({500, 500, 500, 500});
  ASSERT_TRUE(train_until([&] { return session_->state().schedule_version == 2; }));
  step(10.0);
  EXPECT_EQ(gpu_.clock(), 500);
  EXPECT_THAT(server_.reports, IsEmpty());
}

// Times of the four computations, in the schedule's order and on one clock; steps that ran something else are left out.
TEST_F(SessionTest, TellsOfTheStepsThatTheServerWantsToKnow) {
  server_.start();
  server_.publish({900, 800, 700, 600}, true);
  SessionOptions chosen = options(true);
  chosen.profile = false;
  chosen.time_scale = 2.0;
  open(chosen);
  ASSERT_TRUE(train_until([&] { return session_->state().reconfiguring; }));
  session_->step_begin();
  compute("backward", 1.0);
  session_->step_end();
  step(2.0);
  const auto told = static_cast<std::int64_t>(session_->state().steps);
  ASSERT_TRUE(server_.wait_for(
      [&](const JobServer& server) { return !server.steps.empty() && server.steps.back().step == told; }));
  for (const StepReport& report : server_.steps) {
    EXPECT_EQ(report.version, 1);
    EXPECT_NE(report.step, told - 1);
    ASSERT_THAT(report.begin, SizeIs(4));
  }
  // 2 and 4 ms of work at lower clocks, twice as long in the GPU's time.
  const StepReport& last = server_.steps.back();
  EXPECT_GE(last.end[0] - last.begin[0], Seconds(2 * 0.002));
  EXPECT_GE(last.end[1] - last.begin[1], Seconds(2 * 0.004));
  for (std::size_t i = 1; i < 4; ++i) EXPECT_GE(last.begin[i], last.end[i - 1]);

  server_.publish({900, 800, 700, 600});
  ASSERT_TRUE(train_until([&] { return session_->state().schedule_version == 2; }));
  EXPECT_FALSE(session_->state().reconfiguring);
  step();
  session_->set_straggler(straggler_notice(-1, Seconds(0), 1.5));
  ASSERT_TRUE(server_.wait_for([](const JobServer& server) { return !server.stragglers.empty(); }));
  for (const StepReport& report : server_.steps) EXPECT_EQ(report.version, 1);
}

// An engine that does not say what comes next is given the schedule's order.
TEST_F(SessionTest, SetsTheNextSpeedInTheOrderOfTheSchedule) {
  server_.start();
  server_.publish({900, 800, 700, 600});
  SessionOptions chosen = options(true);
  chosen.profile = false;
  open(chosen);
  session_->set_next_speed();  // of nothing yet
  ASSERT_TRUE(train_until([&] { return session_->state().schedule_version == 1; }));
  session_->step_begin();
  for (const double clock : {900, 800, 700, 600}) {
    session_->set_next_speed();
    EXPECT_EQ(session_->state().clocks.requested, Megahertz(clock));
  }
  session_->set_next_speed();  // the step is over
  EXPECT_EQ(session_->state().clocks.requested, Megahertz(600));
  session_->step_end();
}

// No server at first: training goes on, one word is said; when it comes, it gets everything.
TEST_F(SessionTest, TrainsWithoutItsServerAndTellsItEverythingLater) {
  open(options(true));
  ASSERT_TRUE(train_until_swept());
  EXPECT_FALSE(session_->state().server_reachable);
  EXPECT_THAT(notices(), ElementsAre(HasSubstr("training goes on")));
  server_.start();
  ASSERT_TRUE(server_.wait_for([](const JobServer& server) { return server.profiled; }));
  EXPECT_EQ(server_.measurements_from(0), session_->measurements().size());
  ASSERT_TRUE(train_until([&] { return notices().size() == 2; }));
  EXPECT_THAT(notices()[1], HasSubstr("answers again"));
}

// The server is killed, loses what it knew, and comes back: the schedule stays in force meanwhile, the measurements are
// sent once more, and a schedule with a smaller version is taken.
TEST_F(SessionTest, AServerThatForgotIsToldAgain) {
  server_.start();
  open(options(true));
  ASSERT_TRUE(train_until_swept());
  ASSERT_TRUE(server_.wait_for([](const JobServer& server) { return server.profiled; }));
  const std::size_t reports = server_.reports.size();
  server_.publish({900, 900, 900, 900});
  ASSERT_TRUE(train_until([&] { return session_->state().schedule_version == 1; }));
  server_.stop();
  ASSERT_TRUE(train_until([&] { return !session_->state().server_reachable; }));
  step(10.0);
  EXPECT_EQ(gpu_.clock(), 900);
  EXPECT_EQ(session_->state().phase, SessionPhase::kRunning);
  server_.forget();
  server_.start();
  ASSERT_TRUE(server_.wait_for([&](const JobServer& server) { return server.reports.size() == reports; }));
  EXPECT_EQ(server_.reports[0].sequence, 0);
  EXPECT_TRUE(server_.wait_for([](const JobServer& server) { return server.profiled; }));
}

// The driver refuses in the middle of the sweep: default clocks, one word, and training goes on; when it allows it
// again, so does the sweep.
TEST_F(SessionTest, ARefusedClockStopsTheSweepAndNotTheTraining) {
  open(options(false));
  ASSERT_TRUE(train_until([&] { return session_->state().sweep.clocks_done >= 1; }, 4.0));
  gpu_.refuse(true);
  ASSERT_TRUE(train_until([&] { return session_->state().clocks.failed >= 2; }, 4.0));
  EXPECT_TRUE(gpu_.at_default());
  EXPECT_THAT(notices(), ElementsAre(HasSubstr("not permitted")));
  const int done = session_->state().sweep.clocks_done;
  for (int i = 0; i < 5; ++i) step(4.0);
  EXPECT_LE(session_->state().sweep.clocks_done, done + 1);  // one may have been complete
  gpu_.refuse(false);
  ASSERT_TRUE(train_until_swept());
  EXPECT_EQ(session_->state().phase, SessionPhase::kIdle);
  EXPECT_THAT(notices(), ElementsAre(HasSubstr("not permitted"), HasSubstr("set again")));
  step();
  ASSERT_TRUE(train_until([&] { return gpu_.at_default(); }));
}

// Forwards take 4 ms at 1000 MHz; then the hardware becomes three times slower: 12 ms. Sleeping never takes less, so
// that no mean of the two sweeps can be as long. Every clock stands once in the profile, and the server is told to
// forget.
TEST_F(SessionTest, ASecondSweepReplacesTheFirst) {
  server_.start();
  open(options(true));
  ASSERT_TRUE(train_until_swept());
  ASSERT_TRUE(server_.wait_for([](const JobServer& server) { return server.profiled; }));
  const std::size_t first = server_.reports.size();
  slowness_ = 3.0;
  session_->profile_again();
  EXPECT_THAT(session_->measurements(), IsEmpty());
  ASSERT_TRUE(train_until_swept());
  const std::vector<InstructionMeasurement> all = session_->measurements();
  ASSERT_TRUE(server_.wait_for([&](const JobServer& server) { return server.measurements_from(first) == all.size(); }));
  std::set<std::pair<std::string, double>> known;
  for (const InstructionMeasurement& one : all) {
    EXPECT_TRUE(known.emplace(one.instruction, one.clock.value()).second) << one.instruction << one.clock.value();
    if (one.instruction == "forward") {
      EXPECT_GE(one.time.value(), 0.012 * 1000.0 / one.clock.value());
    }
  }
  EXPECT_GE(known.size(), 6u);
  for (std::size_t i = 0; i < server_.reports.size(); ++i) {
    EXPECT_EQ(server_.reports[i].begins_sweep, i == first) << i;
    EXPECT_EQ(server_.reports[i].sequence, static_cast<std::int64_t>(i));
  }
}

// A rank before us has died; the server has counted its report 7. Ours, measured before we could tell it, are not taken
// for those.
TEST_F(SessionTest, ComesAfterTheReportsOfAnEarlierSession) {
  server_.reports.push_back({0, 7, {}, false});
  open(options(true));
  ASSERT_TRUE(train_until_swept());
  const std::size_t measured = session_->measurements().size();
  server_.start();
  ASSERT_TRUE(server_.wait_for([](const JobServer& server) { return server.profiled; }));
  ASSERT_EQ(server_.measurements_from(1), measured);
  EXPECT_EQ(server_.reports[1].sequence, 8);
  EXPECT_TRUE(server_.reports[1].begins_sweep);
}

// A report that the server calls bad does not keep the others back.
TEST_F(SessionTest, ARefusedReportIsLeftOut) {
  server_.refuse_next = true;
  server_.start();
  open(options(true));
  ASSERT_TRUE(train_until_swept());
  ASSERT_TRUE(server_.wait_for([](const JobServer& server) { return server.profiled; }));
  EXPECT_EQ(server_.reports.front().sequence, 1);
  // Of the sweep's first clock it has nothing: forward, backward and, if it was told, waiting.
  const std::size_t missing = session_->measurements().size() - server_.measurements_from(0);
  EXPECT_GE(missing, 2u);
  EXPECT_LE(missing, 3u);
  // A busy machine may have something to say of the counter as well.
  EXPECT_THAT(notices(), Contains(HasSubstr("not this one")).Times(1));
  EXPECT_THAT(notices(), Each(AnyOf(HasSubstr("not this one"), HasSubstr("was not told whole"))));
}

TEST_F(SessionTest, StragglersAreToldInTheBackground) {
  server_.start();
  SessionOptions chosen = options(true);
  chosen.profile = false;
  open(chosen);
  StragglerNotice notice;
  notice.straggler = 3;
  notice.degree = 1.2;
  session_->set_straggler(notice);
  ASSERT_TRUE(server_.wait_for([](const JobServer& server) { return !server.stragglers.empty(); }));
  EXPECT_EQ(std::get<int>(server_.stragglers[0].straggler), 3);
  EXPECT_EQ(server_.stragglers[0].degree, 1.2);
}

TEST_F(SessionTest, AWindowsEnergyIsTheCounters) {
  SessionOptions chosen = options(false);
  chosen.profile = false;
  chosen.time_scale = 10.0;
  open(chosen);
  step();
  // A machine that stalls between the window's ends and the counter's spoils a window, not all of them.
  double off = 1.0;
  for (int attempt = 0; attempt < 10 && off > 0.05; ++attempt) {
    const Nanoseconds begin = monotonic_now();
    session_->window_begin();
    const Joules before = *gpu_.read().total;
    for (int i = 0; i < 20; ++i) step();
    const Joules after = *gpu_.read().total;
    const StepsEnergy window = session_->window_end();
    off = std::abs(window.energy / (after - before) - 1.0);
    EXPECT_LE(window.time, 10.0 * to_seconds(monotonic_now() - begin));
    EXPECT_GE(window.time, Seconds(10.0 * 20 * 0.006));
  }
  EXPECT_LE(off, 0.05);
}

// 300 W are promised and the counter stops telling: the figure is less, and says so.
TEST_F(SessionTest, AWindowThatTheCounterDidNotTellWholeSaysSo) {
  SessionOptions chosen = options(false);
  chosen.profile = false;
  open(chosen);
  for (int i = 0; i < 5; ++i) step();
  session_->window_begin();
  for (int i = 0; i < 5; ++i) step();
  const StepsEnergy whole = session_->window_end();
  EXPECT_TRUE(whole.complete) << whole.problem;
  EXPECT_EQ(whole.problem, "");

  session_->window_begin();
  gpu_.fail_readings(true);
  for (int i = 0; i < 20; ++i) step();
  const StepsEnergy failed = session_->window_end();
  EXPECT_FALSE(failed.complete);
  EXPECT_THAT(failed.problem, HasSubstr("of GPU:0's readings failed: the counter fails"));
  EXPECT_THAT(notices(), ::testing::Contains(HasSubstr("the energy of this window is not complete: ")));
  gpu_.fail_readings(false);

  session_->window_begin();
  gpu_.hang_readings(true);
  for (int i = 0; i < 20; ++i) step();
  const StepsEnergy hung = session_->window_end();
  gpu_.hang_readings(false);
  EXPECT_FALSE(hung.complete);
  EXPECT_NE(hung.problem, "");
}

// The counter hangs for longer than it is waited for: what comes of the clocks that ran meanwhile is no figure, so each
// is measured once more, and what the counter does not tell then either is left out. All of it is said.
TEST_F(SessionTest, AClockThatTheCounterDidNotTellWholeIsMeasuredAgain) {
  open(options(false));
  const auto said = [&](const char* words) {
    const auto all = notices();
    return static_cast<std::size_t>(std::count_if(
        all.begin(), all.end(), [&](const std::string& one) { return one.find(words) != std::string::npos; }));
  };
  ASSERT_TRUE(train_until([&] { return session_->state().sweep.clocks_done >= 1; }));
  gpu_.hang_readings(true);
  ASSERT_TRUE(train_until([&] { return said("it is measured again") > 0; }));
  gpu_.hang_readings(false);
  ASSERT_TRUE(train_until([&] { return session_->state().phase != SessionPhase::kProfiling; }));
  std::set<double> measured;
  for (const InstructionMeasurement& one : session_->measurements()) {
    if (one.instruction != "clock_change") measured.insert(one.clock.value());
  }
  const auto done = static_cast<std::size_t>(session_->state().sweep.clocks_done);
  EXPECT_EQ(measured.size() + said("left out of the profile") + said("it is measured again"), done);
}

TEST_F(SessionTest, CallsThatDoNotFitTogetherAreRefused) {
  SessionOptions chosen = options(false);
  chosen.profile = false;
  open(chosen);
  EXPECT_THROW(session_->end("forward"), UsageError);
  EXPECT_THROW(session_->step_end(), UsageError);
  session_->step_begin();
  EXPECT_THROW(session_->step_begin(), UsageError);
  session_->begin("forward");
  EXPECT_THROW(session_->begin("backward"), UsageError);
  EXPECT_THROW(session_->end("backward"), UsageError);
  EXPECT_THROW(session_->step_end(), UsageError);
  session_->end("forward");
  EXPECT_THROW(session_->begin(""), UsageError);
  session_->step_end();
  EXPECT_THROW((void)session_->window_end(), UsageError);
  EXPECT_THROW(session_->set_straggler({}), UsageError);
  SessionOptions nameless = options(true);
  nameless.job.id.clear();
  EXPECT_THROW(open(nameless), UsageError);
}

}  // namespace
}  // namespace flyball
