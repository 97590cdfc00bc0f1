// What the tests of sessions share: a GPU and a planning server that do what a test says, and a training loop.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <filesystem>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/json_object.h"
#include "base/monotonic_time.h"
#include "base/record.h"
#include "client/session.h"
#include "net/event_loop.h"
#include "net/server.h"

namespace flyball {

inline constexpr auto kPatience = std::chrono::seconds(60);

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
  void limit(double watts) {
    const std::scoped_lock lock(mutex_);
    limits_.push_back(watts);
  }
  // All limits that were set, 0 for what held before.
  [[nodiscard]] std::vector<double> limits() const {
    const std::scoped_lock lock(mutex_);
    return limits_;
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
  std::vector<double> limits_;
};

class FakeSink : public ClockSink {
 public:
  explicit FakeSink(FakeGpu& gpu) : gpu_(gpu) {}
  void hold(Megahertz clock) override { gpu_.set(clock.value()); }
  void release() override { gpu_.set(0); }
  void hold_limit(Watts limit) override { gpu_.limit(limit.value()); }
  void release_limit() override { gpu_.limit(0); }

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
    RankSchedule schedule = schedule_of(clocks);
    schedule.report_steps = report_steps;
    publish(std::move(schedule));
  }
  static RankSchedule schedule_of(const std::vector<int>& clocks) {
    RankSchedule schedule;
    for (std::size_t i = 0; i < clocks.size(); ++i) {
      schedule.computations.push_back({i % 2 == 0 ? "forward" : "backward", static_cast<int>(i / 2), 0, clocks[i]});
    }
    return schedule;
  }
  // A new version, of these computations. It allows 1 s unless it says otherwise.
  void publish(RankSchedule schedule) {
    const std::scoped_lock lock(mutex_);
    schedule.job = "job";
    schedule.version = ++version_;
    schedule.iteration_time = Seconds(1);
    schedule.iteration_energy = Joules(100);
    if (schedule.allowed_time == Seconds(0)) schedule.allowed_time = Seconds(1);
    schedule_ = to_json(schedule).dump();
  }

  // Waits until the condition on what has been heard holds.
  template <class Condition>
  bool wait_for(Condition condition) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, kPatience, [&] { return condition(*this); });
  }

  // Looks at what has been heard, without waiting.
  template <class Look>
  bool look(Look look) {
    const std::scoped_lock lock(mutex_);
    return look(*this);
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
  StepTaken handovers;  // the answer to steps of a sweep
  std::vector<StepReport> steps;
  std::vector<OrderReport> orders;
  std::vector<PromiseReport> promises;
  std::vector<PaceReport> paces;
  int ended = 0;  // ranks that said so
  bool registered = false;
  bool profiled = false;
  bool refuse_next = false;
  bool knows_own_names = true;     // of first and last microbatches; refuses reports with them otherwise
  bool knows_drifts = true;        // likewise
  bool knows_step_clocks = true;   // of steps' times; refuses steps with one otherwise
  bool knows_unprofiled = true;    // ranks; refuses them otherwise
  bool knows_clocks_ahead = true;  // refuses jobs with them otherwise
  RankRequest rank;                // as it has registered last
  int joins = 0;
  int refused = 0;

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

  static Response nothing() {
    Response response;
    response.status = 204;
    return response;
  }

  // A route that keeps what is reported, and answers nothing.
  template <class Report>
  void keep_reports(Router& router, const char* path, std::vector<Report>& kept) {
    router.add({"POST", path, Handler([this, &kept](const Request& request) {
                  const std::scoped_lock lock(mutex_);
                  if (!knows_drifts && request.body.find("operations") != std::string::npos) {
                    ++refused;
                    throw InputError({"test"}, "there is no field 'operations'", "");
                  }
                  kept.push_back(read_message<Report>(parse_json("test", request.body)));
                  changed_.notify_all();
                  return nothing();
                })});
  }

  Router routes() {
    Router router;
    router.add({"POST", "/v1/jobs", Handler([this](const Request& request) {
                  const std::scoped_lock lock(mutex_);
                  if (!knows_clocks_ahead && request.body.find("clocks_ahead") != std::string::npos) {
                    ++refused;
                    throw InputError({"test"}, "there is no field 'clocks_ahead'", "");
                  }
                  const JobRequest job = read_message<JobRequest>(parse_json("test", request.body));
                  return json(to_json(JobRegistered{job.id, "", true}));
                })});
    router.add({"POST", "/v1/jobs/job/ranks", Handler([this](const Request& request) {
                  const std::scoped_lock lock(mutex_);
                  if (!knows_unprofiled && request.body.find("unprofiled_cause") != std::string::npos) {
                    ++refused;
                    throw InputError({"test"}, "there is no field 'unprofiled_cause'", "");
                  }
                  rank = read_message<RankRequest>(parse_json("test", request.body));
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
                  auto report = read_message<MeasurementReport>(parse_json("test", request.body));
                  for (const InstructionMeasurement& one : report.measurements) {
                    if (knows_own_names || !is_own_name(one.instruction)) continue;
                    ++refused;
                    throw InputError({"test"}, "'" + one.instruction + "' is no instruction", "");
                  }
                  reports.push_back(std::move(report));
                  changed_.notify_all();
                  return json(to_json(MeasurementsTaken{reports.back().sequence, false}));
                })});
    router.add({"POST", "/v1/jobs/job/ranks/{rank}/profiled", Handler([this](const Request&) {
                  const std::scoped_lock lock(mutex_);
                  profiled = true;
                  changed_.notify_all();
                  return nothing();
                })});
    router.add({"POST", "/v1/jobs/job/stragglers", Handler([this](const Request& request) {
                  const std::scoped_lock lock(mutex_);
                  stragglers.push_back(read_message<StragglerNotice>(parse_json("test", request.body)));
                  changed_.notify_all();
                  return json(to_json(StragglerTaken{}));
                })});
    router.add({"POST", "/v1/jobs/job/steps", Handler([this](const Request& request) {
                  const std::scoped_lock lock(mutex_);
                  if (!knows_step_clocks && request.body.find("clock") != std::string::npos) {
                    ++refused;
                    throw InputError({"test"}, "there is no field 'clock'", "");
                  }
                  steps.push_back(read_message<StepReport>(parse_json("test", request.body)));
                  changed_.notify_all();
                  return steps.back().version == 0 ? json(to_json(handovers)) : nothing();
                })});
    keep_reports(router, "/v1/jobs/job/promises", promises);
    keep_reports(router, "/v1/jobs/job/orders", orders);
    keep_reports(router, "/v1/jobs/job/paces", paces);
    router.add({"POST", "/v1/jobs/job/ranks/{rank}/ended", Handler([this](const Request&) {
                  const std::scoped_lock lock(mutex_);
                  ++ended;
                  changed_.notify_all();
                  return nothing();
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

// A session, its GPU and its training loop: microbatches of a forward and a backward per step.
class SessionTest : public ::testing::Test {
 protected:
  SessionOptions options(bool with_server) {
    SessionOptions options;
    if (with_server) {
      options.server = server_.address();
      options.job.id = "job";
      options.job.token = std::string(32, 't');
      options.job.stages = 1;
      options.job.microbatches = microbatches_;
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
    gpu.held_back = [this] {
      const std::scoped_lock lock(mutex_);
      return throttled_;
    };
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
    for (int microbatch = 0; microbatch < microbatches_; ++microbatch) {
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
    const auto deadline = std::chrono::steady_clock::now() + kPatience;
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
  int microbatches_ = 2;
  double slowness_ = 1.0;  // of the hardware
  std::string throttled_;  // what the driver says of it; guarded by mutex_
  FakeGpu gpu_;
  JobServer server_;
  std::unique_ptr<Session> session_;
};

}  // namespace flyball
