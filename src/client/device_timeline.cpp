// Calls are taken from a ring in turn. When the session ends, functions in the driver's thread find it closed. Who
// comes last, the session or a function that was still queued, frees the ring.
#include "client/device_timeline.h"

#include <thread>
#include <utility>

#include "base/monotonic_time.h"

namespace flyball {

DeviceTimeline::DeviceTimeline(ClockController* controller) : state_(new State) {
  state_->controller = controller;
  for (Call& call : state_->calls) call.state = state_.get();
}

DeviceTimeline::~DeviceTimeline() {
  state_->closed.store(true);
  wait_for_those_inside();
}

void DeviceTimeline::LetGo::operator()(State* state) const noexcept {
  if (state->users.fetch_sub(1) == 1) delete state;
}

void DeviceTimeline::step_begin(Nanoseconds patience) {
  patience_ = patience;
  first_ = true;
}

void DeviceTimeline::forget_clocks() {
  state_->generation.fetch_add(1);
  wait_for_those_inside();
}

// For less than a microsecond, unless the driver's thread is held up just there.
void DeviceTimeline::wait_for_those_inside() const {
  while (state_->inside.load() > 0) std::this_thread::yield();
}

bool DeviceTimeline::take_late() { return state_->late.exchange(false); }

void DeviceTimeline::set(void* stream, Megahertz clock, std::optional<std::size_t> number) {
  if (state_->controller == nullptr) return;
  std::atomic<Nanoseconds>* const moment = number ? fresh_moment(*number) : nullptr;
  Call* call = free_call();
  if (call == nullptr) return state_->controller->set(clock);
  call->moment = moment;
  call->asks = true;
  call->clock = clock;
  call->generation = state_->generation.load();
  call->patience = patience_;
  call->first = std::exchange(first_, false);
  queue(stream, *call);
}

std::atomic<Nanoseconds>* DeviceTimeline::fresh_moment(std::size_t number) {
  while (state_->moments.size() <= number) state_->moments.emplace_back(0);
  std::atomic<Nanoseconds>& moment = state_->moments[number];
  moment.store(0);
  return &moment;
}

void DeviceTimeline::note(void* stream, std::size_t number) {
  std::atomic<Nanoseconds>* const moment = fresh_moment(number);
  Call* call = free_call();
  if (call == nullptr) return;  // as if the GPU never came to it
  call->moment = moment;
  call->asks = false;
  queue(stream, *call);
}

Nanoseconds DeviceTimeline::moment(std::size_t number) const {
  return number < state_->moments.size() ? state_->moments[number].load() : 0;
}

// Null where all are queued.
DeviceTimeline::Call* DeviceTimeline::free_call() {
  Call& call = state_->calls[next_];
  if (call.queued.load(std::memory_order_acquire)) return nullptr;
  next_ = (next_ + 1) % kMostQueued;
  return &call;
}

void DeviceTimeline::queue(void* stream, Call& call) {
  call.queued.store(true, std::memory_order_relaxed);
  state_->users.fetch_add(1);
  try {
    library_.queue(stream, &DeviceTimeline::perform, &call);
  } catch (...) {
    state_->users.fetch_sub(1);
    call.queued.store(false, std::memory_order_relaxed);
    throw;
  }
}

// In the driver's thread.
void DeviceTimeline::perform(void* data) noexcept {
  Call& call = *static_cast<Call*>(data);
  State& state = *call.state;
  // Who closes or forgets does so first and then looks inside; here it is the other way round, so that one sees the
  // other.
  state.inside.fetch_add(1);
  if (!state.closed.load()) {
    if (call.moment != nullptr) call.moment->store(monotonic_now());
    if (call.asks) ask(state, call);
  }
  state.inside.fetch_sub(1);
  call.queued.store(false, std::memory_order_release);
  LetGo()(&state);
}

void DeviceTimeline::ask(State& state, const Call& call) noexcept {
  if (call.generation != state.generation.load()) return;
  if (call.first) state.late_at.store(call.patience > 0 ? monotonic_now() + call.patience : 0);
  const Nanoseconds late_at = state.late_at.load();
  if (late_at > 0 && monotonic_now() >= late_at) {
    // What is late already would be later still at lower clocks.
    state.late.store(true);
    state.controller->release();
    return;
  }
  state.controller->set(call.clock);
}

}  // namespace flyball
