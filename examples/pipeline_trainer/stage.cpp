#include "stage.h"

#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "device.h"
#include "exchange.h"
#include "flyball/sim.h"

namespace trainer {
namespace {

void notice(void* user, const char* words) {
  const char* clear_line = isatty(STDERR_FILENO) != 0 ? "\r\033[K" : "";
  std::fprintf(stderr, "%s%s: %s\n", clear_line, static_cast<const std::string*>(user)->c_str(), words);
}

// The name of a rank in what people read.
std::string name_of(const Job& job, int rank) {
  std::string stage = "stage " + std::to_string(rank % job.stages());
  if (job.pipelines == 1) return stage;
  return "pipeline " + std::to_string(rank / job.stages()) + ", " + stage;
}

class Stage {
 public:
  Stage(const Job& job, int rank, Links links)
      : job_(job),
        rank_(rank),
        stage_(rank % job.stages()),
        name_(name_of(job, rank)),
        links_(std::move(links)),
        before_(links_.before, transfer_s(stage_ - 1)),
        after_(links_.after, transfer_s(stage_)),
        device_(gpu(), job.run_ahead()) {
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
          if (rank_ == 0) flyball_set_straggler(session_, -1, 0.0, command.value);
          break;
        case Request::kSlow: slowness_ = command.value; break;
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
    if (!answer.complete) std::fprintf(stderr, "%s: %s\n", name_.c_str(), flyball_last_error());
  }

  [[nodiscard]] unsigned gpu() const { return static_cast<unsigned>(rank_); }
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
    options.transfers_occupy_both = job_.transfer_s.empty() ? 0 : 1;
    options.places_transfers = 1;
    options.executes_order = job_.order != RunOrder::kOwn ? 1 : 0;
    options.data_parallel = job_.pipelines;
    options.rank = rank_;
    options.pp_rank = stage_;
    options.dp_rank = rank_ / job_.stages();
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
    options.user = &name_;
    session_ = flyball_session_open(&options);
    if (session_ == nullptr) {
      if (!job_.plan.empty()) throw std::runtime_error(flyball_last_error());
      std::fprintf(stderr, "%s trains without Flyball: %s\n", name_.c_str(), flyball_last_error());
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

  [[nodiscard]] double transfer_s(int link) const {
    const auto at = static_cast<std::size_t>(link);
    return link >= 0 && at < job_.transfer_s.size() ? job_.transfer_s[at] : 0.0;
  }

  // With its stream, where Flyball is to act when the GPU comes to this place and not when this process does.
  void set_speed(const char* type) {
    job_.launch == Launch::kStream ? flyball_set_speed_in(session_, type, device_.stream())
                                   : flyball_set_speed(session_, type);
  }

  void begin(const char* type) {
    if (job_.launch == Launch::kStream) {
      flyball_begin_in(session_, type, device_.stream());
      return;
    }
    if (measured_) device_.wait();
    flyball_begin(session_, type);
  }

  void end(const char* type) {
    if (job_.launch == Launch::kStream) {
      flyball_end_in(session_, type, device_.stream());
      return;
    }
    if (measured_) device_.wait();
    flyball_end(session_, type);
  }

  void compute(const char* type, const char* kind, double seconds) {
    begin(type);
    device_.compute(kind, seconds);
    end(type);
  }

  // The batch at the first stage, and at the last what the model's output is compared with.
  void load() {
    if (job_.load_s > 0.0 && (first() || last())) compute("data_load", "load", job_.load_s);
  }

  // Posts so many of the messages that were made, and asks for so many others.
  void exchange(const flyball_transfers& transfers) {
    std::vector<Exchange::Side> sent;
    std::vector<Exchange::Side> received;
    const int to_send[] = {transfers.send_forward, transfers.send_backward};
    const int to_receive[] = {transfers.receive_forward, transfers.receive_backward};
    for (int back = 0; back < 2; ++back) {
      for (int i = 0; i < to_send[back]; ++i) {
        if (made_[back].empty()) throw std::runtime_error("a message is to be sent that was not made");
        sent.push_back(made_[back].front());
        made_[back].pop_front();
      }
      for (int i = 0; i < to_receive[back]; ++i) {
        received.push_back({back != 0 ? &after_ : &before_, asked_for_[back]++, 0.0});
      }
    }
    if (job_.transfer_s.empty()) {
      for (const Exchange::Side& side : sent) send(side);
      return;
    }
    if (sent.empty() && received.empty()) return;
    const auto posted =
        std::make_shared<Exchange>(sent, received, static_cast<std::uint64_t>(stage_) << 32u | ++exchanges_);
    for (const Exchange::Side& side : received) arriving_[side.link == &after_ ? 1 : 0][side.microbatch] = posted;
    on_device(posted, [](Exchange& one) { one.meet(); });
    // Where a stage talks to both sides at once, or several times, nothing tells how long one transfer takes.
    const bool told =
        sent.size() == 1 && (received.empty() || (received.size() == 1 && received[0].link == sent[0].link));
    const char* type = told && sent[0].link == &before_ ? "p2p_back" : "p2p";
    if (told) begin(type);
    on_device(posted, [](Exchange& one) { one.transfer(); });
    if (told) end(type);
  }

  // What is posted where nothing else is planned: all that was made, and what the next computation needs.
  [[nodiscard]] flyball_transfers at_once(bool receive_forward, bool receive_backward) const {
    return {static_cast<int>(made_[0].size()), receive_forward ? 1 : 0, static_cast<int>(made_[1].size()),
            receive_backward ? 1 : 0};
  }

  double arrived(bool back, int microbatch) {
    LinkEnd& from = back ? after_ : before_;
    if (job_.transfer_s.empty()) return receive(from, microbatch);
    const auto found = arriving_[back ? 1 : 0].find(microbatch);
    if (found == arriving_[back ? 1 : 0].end()) throw std::runtime_error("a microbatch was not asked for");
    const double value = found->second->received(from, microbatch);
    arriving_[back ? 1 : 0].erase(found);
    return value;
  }

  template <class Step>
  void on_device(const std::shared_ptr<Exchange>& posted, Step) {
    device_.then(
        [](void* data) {
          const std::unique_ptr<std::shared_ptr<Exchange>> own(static_cast<std::shared_ptr<Exchange>*>(data));
          Step{}(**own);
        },
        new std::shared_ptr<Exchange>(posted));
  }

  // Sent when all is computed that was queued before; nobody waits for the receiver.
  void send(const Exchange::Side& side) {
    device_.then(
        [](void* data) {
          const std::unique_ptr<Exchange::Side> own(static_cast<Exchange::Side*>(data));
          try {
            own->link->post({0, own->microbatch, own->value});
          } catch (const Hangup&) {
            // This process meets the same when it receives.
          }
        },
        std::make_unique<Exchange::Side>(side).release());
  }

  static double receive(LinkEnd& from, int microbatch) {
    const Message message = from.next(false);
    if (message.microbatch != microbatch) throw std::runtime_error("microbatches out of order");
    return message.value;
  }

  // The clock is asked for before the wait for the input, so that the change happens during the wait where there is
  // one.
  void forward(int microbatch, const flyball_transfers* planned = nullptr) {
    most_held_ = std::max(most_held_, ++held_);
    set_speed("forward");
    exchange(planned != nullptr ? *planned : at_once(!first(), false));
    double activation = first() ? 1.0 + microbatch : arrived(false, microbatch);
    load();
    compute("forward", "forward", slowness_ * job_.forward_s[static_cast<std::size_t>(stage_)]);
    activation = std::sqrt(activation + weight_);
    if (last()) {
      gradients_.push_back(activation);
    } else {
      made_[0].push_back({&after_, microbatch, activation});
    }
  }

  void backward(int microbatch, const flyball_transfers* planned = nullptr) {
    set_speed("backward");
    exchange(planned != nullptr ? *planned : at_once(false, !last()));
    double gradient = last() ? gradients_.at(static_cast<std::size_t>(microbatch)) : arrived(true, microbatch);
    // The first one has no gradients to add its own to.
    const double share = backwards_++ == 0 ? 1.0 - job_.first_backward_saves : 1.0;
    compute("backward", "backward", slowness_ * share * job_.backward_s[static_cast<std::size_t>(stage_)]);
    gradient *= 0.5;
    sum_ += gradient;
    --held_;
    if (!first()) made_[1].push_back({&before_, microbatch, gradient});
  }

  double step() {
    sum_ = 0.0;
    gradients_.clear();
    held_ = most_held_ = backwards_ = 0;
    asked_for_[0] = asked_for_[1] = 0;
    flyball_step_begin(session_);
    measured_ = job_.run_ahead() && is_measured();
    const flyball_computation* computations = nullptr;
    const std::size_t count = flyball_order_in_use(session_, &computations);
    const flyball_transfers* transfers = nullptr;
    const bool placed = flyball_transfers_in_use(session_, &transfers) > 0 && !job_.transfer_s.empty();
    for (std::size_t i = 0; i < count; ++i) {
      const flyball_computation& next = computations[i];
      const flyball_transfers* planned = placed ? &transfers[i] : nullptr;
      std::strcmp(next.instruction, "forward") == 0 ? forward(next.microbatch, planned)
                                                    : backward(next.microbatch, planned);
    }
    if (count == 0) run_1f1b();
    exchange(at_once(false, false));
    if (job_.pipelines > 1) device_.then([](void* self) { static_cast<Stage*>(self)->add_pipelines(); }, this);
    if (job_.reduce_s > 0.0) compute("gradient_sync", "transfer", job_.reduce_s);
    device_.wait();
    return sum_;
  }

  // The gradients of all pipelines, added up from the last to the first and told back. Whoever comes first waits with
  // its GPU; what the reduction itself takes comes after.
  void add_pipelines() noexcept {
    try {
      if (links_.above.descriptor() >= 0) sum_ += links_.above.receive<double>();
      if (links_.below.descriptor() >= 0) {
        links_.below.send(sum_);
        sum_ = links_.below.receive<double>();
      }
      if (links_.above.descriptor() >= 0) links_.above.send(sum_);
    } catch (const Hangup&) {
      // The launcher finds that the other process is gone.
    }
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
  const int rank_;
  const int stage_;
  std::string name_;
  Links links_;
  LinkEnd before_;
  LinkEnd after_;
  Device device_;
  // Of forwards and of backwards: what was made and not sent, how many messages were asked for in this iteration, and
  // with what those come that were.
  std::deque<Exchange::Side> made_[2];
  int asked_for_[2] = {0, 0};
  std::map<int, std::shared_ptr<Exchange>> arriving_[2];
  std::uint64_t exchanges_ = 0;
  bool measured_ = false;
  flyball_session* session_ = nullptr;
  const double weight_ = 0.25;
  std::vector<double> gradients_;  // of the last stage, per microbatch
  double slowness_ = 1.0;          // of this stage's computations
  double sum_ = 0.0;
  int held_ = 0;  // microbatches that have gone forwards and not yet backwards
  int most_held_ = 0;
  int backwards_ = 0;  // of this iteration
};

}  // namespace

int run_stage(const Job& job, int rank, Links links) {
  // What wakes up late counts time_scale times.
  prctl(PR_SET_TIMERSLACK, 1000UL);
  try {
    Stage(job, rank, std::move(links)).serve();
    return 0;
  } catch (const Hangup&) {
    return 0;  // the launcher knows why
  } catch (const std::exception& error) {
    std::fprintf(stderr, "rank %d: %s\n", rank, error.what());
    return 1;
  }
}

}  // namespace trainer
