#include "stage.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <memory>
#include <stdexcept>

#include "device.h"
#include "flyball/sim.h"

namespace trainer {
namespace {

// What travels between stages: an activation forwards, a gradient backwards.
struct Tensor {
  std::int32_t microbatch = 0;
  double value = 0.0;
};

void notice(void* user, const char* words) {
  const char* clear_line = isatty(STDERR_FILENO) != 0 ? "\r\033[K" : "";
  std::fprintf(stderr, "%sstage %d: %s\n", clear_line, *static_cast<const int*>(user), words);
}

class Stage {
 public:
  Stage(const Job& job, int stage, Links links)
      : job_(job), stage_(stage), links_(std::move(links)), device_(gpu(), job.run_ahead) {
    if (job.flyball) open();
    // Whenever nothing is computed, this process waits for others with a kernel on its GPU.
    flyball_sim_block(gpu());
  }
  ~Stage() { flyball_session_close(session_); }
  Stage(const Stage&) = delete;
  Stage& operator=(const Stage&) = delete;

  void serve() {
    while (true) {
      const auto command = links_.launcher.receive<Command>();
      Answer answer;
      switch (command.request) {
        case Request::kStep:
          if (job_.order == RunOrder::kPlanned) flyball_use_order(session_, command.order);
          answer.result = step();
          answer.most_held = most_held_;
          break;
        case Request::kSynchronised: flyball_step_end(session_); break;
        case Request::kProfile: flyball_profile_again(session_); break;
        case Request::kStraggler:
          // One rank speaks for the pipeline.
          if (stage_ == 0) flyball_set_straggler(session_, -1, 0.0, command.value);
          break;
        case Request::kWindowBegin: flyball_window_begin(session_); break;
        case Request::kWindowEnd: end_window(answer); break;
        case Request::kWriteProfile: write_profile(); break;
        case Request::kQuit: return;
      }
      if (job_.order == RunOrder::kPlanned && command.request != Request::kStep) {
        answer.order_held = flyball_order_held(session_);
      }
      answer.state.size = sizeof answer.state;
      flyball_session_get_state(session_, &answer.state);
      links_.launcher.send(answer);
    }
  }

 private:
  void end_window(Answer& answer) {
    const int result = flyball_window_end(session_, &answer.time_s, &answer.energy_j);
    answer.complete = result == FLYBALL_OK;
    if (!answer.complete) std::fprintf(stderr, "stage %d: %s\n", stage_, flyball_last_error());
  }

  [[nodiscard]] unsigned gpu() const { return static_cast<unsigned>(stage_); }
  [[nodiscard]] bool first() const { return stage_ == 0; }
  [[nodiscard]] bool last() const { return stage_ + 1 == job_.stages(); }

  void open() {
    flyball_session_options options;
    flyball_session_options_init(&options, sizeof options);
    options.server = job_.server.c_str();
    options.plan = job_.plan.c_str();
    options.plan_time_ratio = job_.plan_time_ratio;
    options.ca_file = job_.ca_file.c_str();
    options.job = job_.name.c_str();
    options.token = job_.token.c_str();
    options.planner = job_.planner.c_str();
    options.stages = job_.stages();
    options.microbatches = job_.microbatches;
    options.noise = job_.noise;
    options.switch_latency_s = job_.switch_latency_s;
    // No planner may assume that a stage holds more.
    std::vector<int> held = job_.memory_limit;
    for (int stage = static_cast<int>(held.size()); stage < job_.stages(); ++stage)
      held.push_back(std::min(job_.microbatches, job_.stages() - stage));
    options.memory_limit = held.data();
    options.executes_order = job_.order != RunOrder::kOwn ? 1 : 0;
    options.rank = stage_;
    options.pp_rank = stage_;
    options.gpu = gpu();
    options.clocks = job_.clocks.c_str();
    options.profile = 0;  // later, after the comparison without Flyball
    options.clock_stride = job_.clock_stride;
    options.steps_per_clock = job_.steps_per_clock;
    options.time_scale = job_.time_scale;
    // A scaled GPU's milliseconds are short ones here.
    options.sampling_s = std::max(0.001, options.sampling_s / job_.time_scale);
    options.clock_poll_s = std::max(0.0001, options.clock_poll_s / job_.time_scale);
    options.notice = notice;
    options.user = const_cast<int*>(&stage_);
    session_ = flyball_session_open(&options);
    if (session_ == nullptr) {
      if (!job_.plan.empty()) throw std::runtime_error(flyball_last_error());
      std::fprintf(stderr, "stage %d trains without Flyball: %s\n", stage_, flyball_last_error());
    }
  }

  void write_profile() {
    std::FILE* file = std::fopen(job_.profile.c_str(), first() ? "w" : "a");
    if (file == nullptr) throw std::runtime_error(job_.profile + ": " + std::strerror(errno));
    const char* csv = flyball_profile_csv(session_);
    if (!first()) csv = std::strchr(csv, '\n') + 1;  // one header is enough
    std::fputs(csv, file);
    std::fclose(file);
  }

  // With its stream, where Flyball is to act when the GPU comes to this place and not when this process does.
  void set_speed(const char* type) {
    job_.stream_clocks ? flyball_set_speed_in(session_, type, device_.stream()) : flyball_set_speed(session_, type);
  }

  void compute(const char* type, double seconds) {
    if (job_.stream_clocks) {
      flyball_begin_in(session_, type, device_.stream());
      device_.compute(type, seconds);
      flyball_end_in(session_, type, device_.stream());
    } else {
      flyball_begin(session_, type);
      device_.compute(type, seconds);
      if (measured_) device_.wait();
      flyball_end(session_, type);
    }
  }

  // Sent when all is computed that was queued before. Tensors that come in are waited for by this process.
  void send(const Channel& to, const Tensor& tensor) {
    struct Outgoing {
      const Channel& to;
      Tensor tensor;
    };
    device_.then(
        [](void* data) {
          const std::unique_ptr<Outgoing> outgoing(static_cast<Outgoing*>(data));
          try {
            outgoing->to.send(outgoing->tensor);
          } catch (const Hangup&) {
            // This process meets the same when it receives.
          }
        },
        std::make_unique<Outgoing>(Outgoing{to, tensor}).release());
  }

  // The clock is asked for before the wait for the input, so that the change happens during the wait where there is
  // one.
  void forward(int microbatch) {
    most_held_ = std::max(most_held_, ++held_);
    set_speed("forward");
    double activation = 1.0 + microbatch;
    if (!first()) activation = expect(links_.before, microbatch);
    compute("forward", job_.forward_s[static_cast<std::size_t>(stage_)]);
    activation = std::sqrt(activation + weight_);
    if (last()) {
      gradients_.push_back(activation);
    } else {
      send(links_.after, Tensor{microbatch, activation});
    }
  }

  void backward(int microbatch) {
    set_speed("backward");
    double gradient = 0.0;
    if (last()) {
      gradient = gradients_.at(static_cast<std::size_t>(microbatch));
    } else {
      gradient = expect(links_.after, microbatch);
    }
    compute("backward", job_.backward_s[static_cast<std::size_t>(stage_)]);
    gradient *= 0.5;
    sum_ += gradient;
    --held_;
    if (!first()) send(links_.before, Tensor{microbatch, gradient});
  }

  double expect(const Channel& from, int microbatch) {
    const auto tensor = from.receive<Tensor>();
    if (tensor.microbatch != microbatch) throw std::runtime_error("microbatches out of order");
    return tensor.value;
  }

  double step() {
    sum_ = 0.0;
    gradients_.clear();
    held_ = most_held_ = 0;
    flyball_step_begin(session_);
    measured_ = job_.run_ahead && is_measured();
    const flyball_computation* computations = nullptr;
    const std::size_t count = flyball_order_in_use(session_, &computations);
    for (std::size_t i = 0; i < count; ++i) {
      const flyball_computation& next = computations[i];
      std::strcmp(next.instruction, "forward") == 0 ? forward(next.microbatch) : backward(next.microbatch);
    }
    if (count == 0) run_1f1b();
    device_.wait();
    return sum_;
  }

  // Whether begin and end must be called when the GPU begins and ends a computation.
  [[nodiscard]] bool is_measured() const {
    flyball_session_state state{};
    state.size = sizeof state;
    flyball_session_get_state(session_, &state);
    return state.phase == FLYBALL_PROFILING || state.reconfiguring != 0;
  }

  // Forwards until the pipeline is full, one forward and one backward in turn, then the backwards that are left.
  void run_1f1b() {
    const int warm_up = std::min(job_.microbatches, job_.stages() - stage_ - 1);
    int forwards = 0;
    int backwards = 0;
    while (forwards < warm_up) forward(forwards++);
    while (forwards < job_.microbatches) {
      forward(forwards++);
      backward(backwards++);
    }
    while (backwards < job_.microbatches) backward(backwards++);
  }

  const Job& job_;
  const int stage_;
  Links links_;
  Device device_;
  bool measured_ = false;
  flyball_session* session_ = nullptr;
  const double weight_ = 0.25;
  std::vector<double> gradients_;  // of the last stage, per microbatch
  double sum_ = 0.0;
  int held_ = 0;  // microbatches that have gone forwards and not yet backwards
  int most_held_ = 0;
};

}  // namespace

int run_stage(const Job& job, int stage, Links links) {
  try {
    Stage(job, stage, std::move(links)).serve();
    return 0;
  } catch (const Hangup&) {
    return 0;  // the launcher knows why
  } catch (const std::exception& error) {
    std::fprintf(stderr, "stage %d: %s\n", stage, error.what());
    return 1;
  }
}

}  // namespace trainer
