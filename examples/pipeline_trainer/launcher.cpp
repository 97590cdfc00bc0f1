#include "launcher.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <stdexcept>
#include <thread>

namespace trainer {

std::int64_t schedule_of_all(const std::vector<Answer>& answers) {
  const std::int64_t first = answers[0].state.schedule_version;
  for (const Answer& answer : answers) {
    if (answer.state.phase != FLYBALL_RUNNING || answer.state.schedule_version != first) return 0;
  }
  return first;
}

Launcher::Launcher(Job job) : job_(std::move(job)) {
  const auto stages = static_cast<std::size_t>(job_.stages());
  const int count = job_.stages() * job_.pipelines;
  std::vector<Links> links(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < links.size(); ++i) {
    if ((i + 1) % stages != 0) std::tie(links[i].after, links[i + 1].before) = Channel::pair();
    if (i + stages < links.size()) std::tie(links[i].above, links[i + stages].below) = Channel::pair();
  }
  for (Links& link : links) {
    Channel end;
    std::tie(end, link.launcher) = Channel::pair();
    stages_.push_back(std::move(end));
  }
  answers_.resize(links.size());
  most_held_.resize(links.size());
  std::fflush(nullptr);
  for (int rank = 0; rank < count; ++rank) {
    const pid_t process = fork();
    if (process < 0) throw std::runtime_error("fork failed");
    if (process == 0) {
      prctl(PR_SET_PDEATHSIG, SIGTERM);
      // Ctrl-C reaches the whole group; the launcher ends the stages in order.
      signal(SIGINT, SIG_IGN);
      Links mine = std::move(links[static_cast<std::size_t>(rank)]);
      links.clear();
      stages_.clear();
      // Without the parent's destructors and buffers.
      const int status = run_stage(job_, rank, std::move(mine));
      std::fflush(nullptr);
      _exit(status);
    }
    processes_.push_back(process);
  }
}

Launcher::~Launcher() {
  for (Channel& stage : stages_) {
    try {
      stage.send(Command{Request::kQuit});
    } catch (const Hangup&) {
      // It is gone already.
    }
    stage.close();
  }
  for (const pid_t process : processes_) waitpid(process, nullptr, 0);
}

void Launcher::command_all(const Command& command) {
  for (std::size_t i = 0; i < stages_.size(); ++i) {
    try {
      stages_[i].send(command);
    } catch (const Hangup&) {
      throw std::runtime_error("stage " + std::to_string(i) + " has died");
    }
  }
  collect();
}

void Launcher::collect() {
  for (std::size_t i = 0; i < stages_.size(); ++i) {
    try {
      answers_[i] = stages_[i].receive<Answer>();
    } catch (const Hangup&) {
      throw std::runtime_error("stage " + std::to_string(i) + " has died");
    }
  }
}

void Launcher::step() {
  if (interrupted && interrupted()) throw std::runtime_error("interrupted");
  const auto begin = std::chrono::steady_clock::now();
  // Stages that run different orders would wait for each other for ever.
  const std::int64_t held = answers_[0].order_held;
  const bool agreed =
      std::all_of(answers_.begin(), answers_.end(), [held](const Answer& answer) { return answer.order_held == held; });
  command_all({Request::kStep, 0.0, agreed ? held : 0});
  for (std::size_t i = 0; i < answers_.size(); ++i) most_held_[i] = answers_[i].most_held;
  double result = 0.0;
  for (const Answer& answer : answers_) result += answer.result;
  if (has_result_ && result != result_) throw std::runtime_error("the training computed something else than before");
  result_ = result;
  has_result_ = true;
  // The gradients of the other pipeline.
  std::this_thread::sleep_until(begin + std::chrono::duration_cast<std::chrono::steady_clock::duration>(
                                            std::chrono::duration<double>(least_step_s_)));
  command_all({Request::kSynchronised, 0.0});
}

bool Launcher::step_until(const std::function<bool(const std::vector<Answer>&)>& done, int most,
                          std::chrono::seconds patience) {
  const auto end = std::chrono::steady_clock::now() + patience;
  for (int i = 0; i < most || std::chrono::steady_clock::now() < end; ++i) {
    step();
    if (done(answers_)) return true;
  }
  return false;
}

// Other programs on this machine only ever slow an iteration down: parts go on until the two fastest agree.
Window Launcher::measure(const std::string& name, int steps) {
  constexpr int kParts = 3;
  constexpr int kMostParts = 12;
  constexpr int kLeastPart = 3;  // iterations: below, the sensors' own rhythm is told with each energy
  constexpr double kAgreement = 0.003;
  if (steps < kParts * kLeastPart) return measure_part(name, steps);
  std::vector<Window> parts;
  const auto agree = [&parts] { return parts[1].time_s <= (1.0 + kAgreement) * parts[0].time_s; };
  while (parts.size() < kParts || (parts.size() < kMostParts && !agree())) {
    parts.push_back(measure_part(name, steps / kParts));
    std::sort(parts.begin(), parts.end(), [](const Window& a, const Window& b) { return a.time_s < b.time_s; });
  }
  return parts[1];
}

// A window in which the plan is given up, as a busy machine may make the client do, is not one of the plan: it is
// measured again when the plan is in force again.
Window Launcher::measure_part(const std::string& name, int steps) {
  constexpr int kMostAttempts = 10;
  constexpr int kMostPause = 1000;  // iterations
  Window window = measure_once(name, steps);
  for (int i = 1; i < kMostAttempts && !window.same_schedule; ++i) {
    step_until([](const std::vector<Answer>& answers) { return schedule_of_all(answers) > 0; }, kMostPause);
    window = measure_once(name, steps);
  }
  return window;
}

Window Launcher::measure_once(const std::string& name, int steps) {
  const std::int64_t before = schedule_of_all(answers_);
  command_all({Request::kWindowBegin, 0.0});
  for (int i = 0; i < steps; ++i) step();
  Window window;
  window.name = name;
  window.steps = steps;
  window.planned_time_s = answers_[0].state.planned_time_s;
  window.planned_energy_j = answers_[0].state.planned_energy_j;
  window.straggler_w = answers_[0].state.straggler_w;
  window.schedule_version = answers_[0].state.schedule_version;
  window.order = answers_[0].state.order;
  window.most_held = most_held_;
  window.same_schedule = schedule_of_all(answers_) == before;
  command_all({Request::kWindowEnd, 0.0});
  window.time_s = answers_[0].time_s / steps;
  for (int stage = 0; stage < job_.stages(); ++stage) {
    const Answer& answer = answers_[static_cast<std::size_t>(stage)];
    window.energy_j += answer.energy_j / steps;
    window.complete = window.complete && answer.complete;
  }
  return window;
}

void Launcher::write_profile() {
  // One after the other: they append to one file.
  for (std::size_t i = 0; i < static_cast<std::size_t>(job_.stages()); ++i) {
    stages_[i].send(Command{Request::kWriteProfile, 0.0});
    answers_[i] = stages_[i].receive<Answer>();
  }
}

void Launcher::profile() { command_all({Request::kProfile, 0.0}); }

void Launcher::straggle(double degree, double usual_s, bool announce) {
  if (job_.pipelines > 1) {
    for (std::size_t i = 0; i < stages_.size(); ++i) {
      const bool last = i + static_cast<std::size_t>(job_.stages()) >= stages_.size();
      stages_[i].send(Command{Request::kSlow, last ? degree : 1.0});
    }
    return collect();
  }
  least_step_s_ = degree > 1.0 ? degree * usual_s / job_.time_scale : 0.0;
  if (announce) command_all({Request::kStraggler, degree});
}

}  // namespace trainer
