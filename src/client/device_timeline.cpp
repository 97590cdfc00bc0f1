// Calls are taken from a ring in turn. When the session ends, functions in the driver's thread find it closed. Who
// comes last, the session or a function that was still queued, frees the ring.
#include "client/device_timeline.h"

#include <algorithm>
#include <thread>
#include <utility>

#include "base/monotonic_time.h"

namespace flyball {
namespace {

// By then the clocks of CPU and GPU are apart by less than a millisecond, and the time between two events, of which the
// driver tells 24 bits, is known to a microsecond.
constexpr Nanoseconds kReferenceAge = 10 * kSecond;
constexpr Nanoseconds kReferencePatience = 20 * kMillisecond;

}  // namespace

DeviceTimeline::DeviceTimeline(ClockController* controller, double time_scale)
    : time_scale_(time_scale),
      follower_(library_),
      reference_events_{StreamEvent(library_), StreamEvent(library_)},
      state_(new State) {
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
  first_note_ = true;
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
  if (number) fresh_moment(*number).by_event = false;
  Call* call = free_call();
  if (call == nullptr) return state_->controller->set(clock);
  call->moment = number ? &state_->moments[*number] : nullptr;
  call->patience = patience_;
  call->first = std::exchange(first_, false);
  queue_clock(stream, *call, clock, -1);
}

bool DeviceTimeline::set_after(void* stream, Megahertz clock, Nanoseconds later) {
  if (state_->controller == nullptr || state_->users.load() > StreamFollower::kMostWaiting / 2) return false;
  Call* call = free_call();
  if (call == nullptr) return false;
  call->moment = nullptr;
  call->first = false;
  queue_clock(stream, *call, clock, later);
  return true;
}

void DeviceTimeline::queue_clock(void* stream, Call& call, Megahertz clock, Nanoseconds later) {
  call.asks = true;
  call.clock = clock;
  call.later = later;
  call.generation = state_->generation.load();
  queue(stream, call);
}

DeviceTimeline::Noted& DeviceTimeline::fresh_moment(std::size_t number) {
  while (noted_.size() <= number) {
    state_->moments.emplace_back(0);
    noted_.emplace_back();
  }
  state_->moments[number].store(0);
  return noted_[number];
}

void DeviceTimeline::note(void* stream, std::size_t number) {
  Noted& noted = fresh_moment(number);
  noted.by_event = false;
  if (!has_reference(stream)) return;  // as if the GPU never came to it
  if (noted.event == nullptr) noted.event = std::make_unique<StreamEvent>(library_);
  noted.event->record(stream);
  noted.by_event = true;
  noted.reference = reference_;
  noted.queued_at = monotonic_now();
}

// Takes another pair of a function's time and an event behind it where the last is old and a step begins, so that a
// step's moments go by one. The pair before stays for moments that were noted with it.
bool DeviceTimeline::has_reference(void* stream) {
  const Nanoseconds now = monotonic_now();
  const bool is_first = std::exchange(first_note_, false);
  if (reference_asked_ != 0 && (!is_first || now < reference_asked_ + kReferenceAge)) return true;
  Call* call = free_call();
  if (call == nullptr) return reference_asked_ != 0;
  const std::size_t next = 1 - reference_;
  state_->references[next].store(0);
  call->moment = &state_->references[next];
  call->asks = false;
  reference_events_[next].record(queue(stream, *call));
  reference_ = next;
  reference_asked_ = now;
  return true;
}

Nanoseconds DeviceTimeline::moment(std::size_t number) const {
  if (number >= noted_.size()) return 0;
  const Noted& noted = noted_[number];
  if (!noted.by_event) return state_->moments[number].load();
  const StreamEvent& reference = reference_events_[noted.reference];
  if (!noted.event->reached()) return 0;
  // The function of a pair is called some 100 us after the stream came to its place.
  for (const Nanoseconds until = monotonic_now() + kReferencePatience; !reference.reached();) {
    if (monotonic_now() > until) return 0;
    std::this_thread::yield();
  }
  const Nanoseconds at =
      state_->references[noted.reference].load() + to_nanoseconds(noted.event->since(reference) / time_scale_);
  return std::max(at, noted.queued_at);  // the pair is apart by some microseconds
}

// Null where all are queued.
DeviceTimeline::Call* DeviceTimeline::free_call() {
  Call& call = state_->calls[next_];
  if (call.queued.load(std::memory_order_acquire)) return nullptr;
  next_ = (next_ + 1) % kMostQueued;
  return &call;
}

// Returns the stream that the function was put into. In the training's own it holds the GPU up, but never the training
// thread.
void* DeviceTimeline::queue(void* stream, Call& call) {
  call.queued.store(true, std::memory_order_relaxed);
  const bool beside = state_->users.fetch_add(1) - 1 < StreamFollower::kMostWaiting;
  try {
    if (beside) {
      follower_.queue(stream, &DeviceTimeline::perform, &call);
    } else {
      library_.queue(stream, &DeviceTimeline::perform, &call);
    }
  } catch (...) {
    state_->users.fetch_sub(1);
    call.queued.store(false, std::memory_order_relaxed);
    throw;
  }
  return beside ? follower_.stream() : stream;
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
  if (call.later >= 0) return state.controller->set_at(call.clock, monotonic_now() + call.later);
  state.controller->set(call.clock);
}

}  // namespace flyball
