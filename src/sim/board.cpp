// Between two changes the power is constant, so that energy and busy time grow linearly and temperature goes
// exponentially to its goal; advance() steps from one change to the next. Samples of the sums at multiples of 5 ms go
// into a ring, from which sensors take their means and the energy counter its value. Works that run at the same time
// share the board's time equally.
#include "sim/board.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>

#include "sim/chance.h"

namespace flyball {
namespace {

constexpr Nanoseconds kUtilisationPeriod = 200'000'000;
constexpr int kRampSteps = 4;

bool ideal(const BoardSpec& spec) { return spec.character.seed == 0; }

Megahertz memory_clock(const BoardSpec& spec, const BoardSettings& settings) {
  const double most = settings.memory_lock_maximum.value();
  if (most == 0.0) return spec.memory_clocks[0];
  for (std::uint32_t i = 0; i < spec.memory_clock_count; ++i) {
    if (spec.memory_clocks[i].value() <= most) return spec.memory_clocks[i];
  }
  return spec.memory_clocks[spec.memory_clock_count - 1];
}

Megahertz set_clock(const BoardSpec& spec, const BoardSettings& settings) {
  if (settings.lock_maximum.value() > 0.0) return settings.lock_maximum;
  return settings.application.value() > 0.0 ? settings.application : spec.maximum;
}

// The end of the ramp's step that the state is in; 0 where there is no ramp.
Nanoseconds end_of_ramp_step(const BoardSpec& spec, const BoardState& state) {
  if (state.ramp_from.value() == 0.0) return 0;
  const Nanoseconds step = std::max<Nanoseconds>(1, spec.character.ramp / kRampSteps);
  return state.ramp_begin + ((state.now - state.ramp_begin) / step + 1) * step;
}

// The clock that work is asked to run at. A ramp has steps of equal length, each with the clock of its middle.
Megahertz target_clock(const BoardSpec& spec, const BoardState& state) {
  Megahertz clock = set_clock(spec, state.applied);
  if (enforced_profiles(state.applied.power_profiles) == kSimMaxQ) {
    clock = std::min(clock, supported_clock(spec, spec.maximum * kSimMaxQClock));
  }
  if (state.ramp_from.value() > 0.0) {
    const Nanoseconds step = std::max<Nanoseconds>(1, spec.character.ramp / kRampSteps);
    const Nanoseconds passed = (state.now - state.ramp_begin) / step;
    clock = state.ramp_from + (clock - state.ramp_from) * ((static_cast<double>(passed) + 0.5) / kRampSteps);
  }
  if (find_fault(state, SimFaultKind::kHot) != nullptr) clock = std::min(clock, spec.throttle);
  return clock;
}

Watts mean_power(const BoardSpec& spec, const Activity& activity) {
  return spec.busy + activity.compute * activity.clocked_share + activity.memory * (1.0 - activity.clocked_share);
}

// Of a board that is not ideal: times as in the profiles' model, power of a form of its own. `hunger` is the board's
// and its temperature's.
Pace pace_by_character(const BoardSpec& spec, const Activity& activity, Watts limit, double hunger, Megahertz clock,
                       double memory_speed) {
  const BoardCharacter& own = spec.character;
  const Watts usual = 0.5 * (mean_power(spec, spec.forward) + mean_power(spec, spec.backward));
  const Watts full = own.full * (hunger * (mean_power(spec, activity) / usual));
  const auto share = [&own](double x) { return own.floor + (1.0 - own.floor) * std::pow(x, own.exponent); };
  double x = clock / spec.maximum;
  if (full * share(x) > limit) {
    const double allowed = (limit / full - own.floor) / (1.0 - own.floor);
    x = std::max(spec.minimum / spec.maximum, allowed > 0.0 ? std::pow(allowed, 1.0 / own.exponent) : 0.0);
  }
  Pace pace;
  pace.compute_clock_mhz = pace.memory_clock_mhz = spec.maximum.value() * x;
  pace.compute_time = activity.clocked_share / x;
  pace.memory_time = (1.0 - activity.clocked_share) / memory_speed;
  pace.compute_power = pace.memory_power = full * share(x);
  return pace;
}

// Copying takes its time at any clock, while the processors wait.
Pace pace_of_copying(const BoardSpec& spec, Megahertz clock) {
  Pace pace;
  pace.memory_time = 1.0;
  pace.compute_power = pace.memory_power = waiting_power(spec, clock);
  pace.compute_clock_mhz = pace.memory_clock_mhz = clock.value();
  return pace;
}

Pace pace_here(const BoardSpec& spec, const BoardState& state, const WorkKind& kind) {
  if (kind.nature != WorkNature::kComputes) return pace_of_copying(spec, target_clock(spec, state));
  const double set = state.applied.power_limit.value();
  const Watts limit = spec.phase_limit * (set > 0.0 ? set / spec.limit.value() : 1.0);
  const double memory_speed = memory_clock(spec, state.applied) / spec.memory_clocks[0];
  if (!ideal(spec)) {
    const double heat = 1.0 + spec.character.heat_per_kelvin * (state.heat_celsius - spec.full_celsius);
    return pace_by_character(spec, kind.activity, limit, spec.character.hunger * heat, target_clock(spec, state),
                             memory_speed);
  }
  return pace_of(spec.curve(), kind.activity, {limit, limit}, target_clock(spec, state).value(), memory_speed);
}

// What a computation takes at the maximum clock, in the unit of its pace.
double time_at_maximum(const BoardSpec& spec, const WorkKind& kind) {
  if (kind.nature != WorkNature::kComputes) return 1.0;
  const Watts limit = spec.phase_limit;
  if (!ideal(spec)) return pace_by_character(spec, kind.activity, limit, 1.0, spec.maximum, 1.0).time();
  return pace_of(spec.curve(), kind.activity, {limit, limit}, spec.maximum.value()).time();
}

// How much longer a piece of work takes than others of its kind on other boards.
double draw_length(const BoardSpec& spec, BoardState& state, const WorkKind& kind) {
  if (ideal(spec)) return 1.0;
  const BoardCharacter& own = spec.character;
  const double noise = kind.nature == WorkNature::kLoads ? own.load_noise : own.noise;
  const double length = 1.0 + noise * normally(own.seed, state.drawn++);
  return kind.nature == WorkNature::kComputes ? own.slowness * length : length;
}

bool lost(const BoardState& state) { return find_fault(state, SimFaultKind::kLost) != nullptr; }

unsigned running_works(const BoardState& state) {
  return static_cast<unsigned>(std::count_if(state.works.begin(), state.works.end(),
                                             [](const SimWork& work) { return work.state == WorkState::kRunning; }));
}

// How many seconds of the board a running piece of work still takes when `running` pieces share the board.
double seconds_left(const BoardSpec& spec, const BoardState& state, const SimWork& work, unsigned running) {
  return work.remaining * work.unit * pace_here(spec, state, work.kind).time() * running;
}

// Everything that grows in time, from the state's moment to `next`, while nothing changes.
void integrate(const BoardSpec& spec, BoardState& state, Nanoseconds next) {
  const BoardActivity now = activity_of(spec, state);
  const double busy = now.running > 0 || now.blocking ? 1.0 : 0.0;
  const Nanoseconds begin = state.now;
  const auto joules_at = [&](Nanoseconds t) {
    return state.joules.value() + (now.power * to_seconds(t - begin)).value();
  };
  const auto sum_at = [&](const CompensatedSum& sum, double rate, Nanoseconds t) {
    return sum.value() + rate * to_seconds(t - begin).value();
  };
  const Nanoseconds last = next / kSimHistoryStep;
  const Nanoseconds first = std::max(begin / kSimHistoryStep + 1, last - static_cast<Nanoseconds>(kSimHistory) + 1);
  for (Nanoseconds k = first; k <= last; ++k) {
    const Nanoseconds t = k * kSimHistoryStep;
    state.history[static_cast<std::size_t>(k) % kSimHistory] = {joules_at(t), sum_at(state.busy_seconds, busy, t),
                                                                sum_at(state.memory_seconds, now.memory_share, t)};
  }
  const Seconds span = to_seconds(next - begin);
  const double heat = (now.power - spec.idle) / (spec.limit - spec.idle);
  const double goal =
      now.hot ? spec.slowdown_celsius : spec.idle_celsius + heat * (spec.full_celsius - spec.idle_celsius);
  state.celsius = goal + (state.celsius - goal) * std::exp(-span.value() / spec.thermal_seconds);
  state.joules.add((now.power * span).value());
  state.busy_seconds.add(busy * span.value());
  state.memory_seconds.add(now.memory_share * span.value());
}

const SimHistory& history_at(const BoardState& state, Nanoseconds t) {
  return state.history[static_cast<std::size_t>(t / kSimHistoryStep) % kSimHistory];
}

// The latest moment at which a sensor of that period changed its reading.
Nanoseconds last_update(const BoardSpec& spec, const BoardState& state, Nanoseconds period) {
  if (state.now < spec.sensor_phase) return 0;
  return (state.now - spec.sensor_phase) / period * period + spec.sensor_phase;
}

// Evenly spread from -1 to 1. The sensor and its update alone decide, so that whoever reads a sensor twice reads the
// same.
double jitter_of(Nanoseconds update, const SensorSpec& sensor) {
  return evenly(static_cast<std::uint64_t>(update + sensor.window));
}

// What the energy counter has counted since the board was switched on.
double counted_joules(const BoardSpec& spec, const BoardState& state) {
  const BoardCharacter& own = spec.character;
  const Nanoseconds update = last_update(spec, state, spec.energy_period);
  if (ideal(spec)) return history_at(state, update).joules;
  const double off = own.counter_jitter.value() * evenly(own.seed ^ static_cast<std::uint64_t>(update));
  return own.gain * history_at(state, std::max<Nanoseconds>(0, update - own.counter_lag)).joules + off;
}

}  // namespace

BoardState switched_on(const BoardSpec& spec) {
  BoardState state{};
  state.celsius = state.heat_celsius = spec.idle_celsius;
  state.persistence = 1;
  return state;
}

Megahertz supported_clock(const BoardSpec& spec, Megahertz clock) {
  if (clock >= spec.maximum) return spec.maximum;
  // Counted from the top, as the list of clocks is.
  const double steps = std::ceil((spec.maximum - clock) / spec.step - 1e-9);
  const double most = std::floor((spec.maximum - spec.minimum) / spec.step + 1e-9);
  return spec.maximum - spec.step * std::min(steps, most);
}

Watts waiting_power(const BoardSpec& spec, Megahertz clock) {
  const double part = clock / spec.maximum;
  return spec.idle + (spec.waiting - spec.idle) * (part * part);
}

BoardActivity activity_of(const BoardSpec& spec, const BoardState& state) {
  BoardActivity now;
  now.memory_clock = memory_clock(spec, state.applied);
  now.hot = find_fault(state, SimFaultKind::kHot) != nullptr;
  now.power = spec.idle;
  const Megahertz target = target_clock(spec, state);
  now.clock_limited = state.applied.lock_maximum.value() > 0.0 ? state.applied.lock_maximum < spec.maximum
                                                               : state.applied.application.value() > 0.0;
  // A chip without work sinks to its lowest clock, or to the lowest that a lock leaves it.
  const bool locked = state.applied.lock_maximum.value() > 0.0;
  now.sm_clock = std::min(target, locked ? std::max(spec.minimum, state.applied.lock_minimum) : spec.minimum);
  if (lost(state)) {
    now.power = Watts(0);
    return now;
  }
  now.running = running_works(state);
  now.blocking = std::any_of(state.processes.begin(), state.processes.end(),
                             [](const SimProcess& process) { return process.pid != 0 && process.blocking > 0; });
  if (now.running > 0) {
    now.power = Watts(0);
    double clock = 0.0;
    for (const SimWork& work : state.works) {
      if (work.state != WorkState::kRunning) continue;
      const Pace pace = pace_here(spec, state, work.kind);
      const double share = 1.0 / now.running;
      now.power += pace.mean_power() * share;
      now.memory_share += share * pace.memory_time / pace.time();
      clock +=
          share * (pace.compute_clock_mhz * pace.compute_time + pace.memory_clock_mhz * pace.memory_time) / pace.time();
      now.power_limited |= pace.compute_clock_mhz < target.value() || pace.memory_clock_mhz < target.value();
    }
    now.sm_clock = Megahertz(clock);
  } else if (now.blocking) {
    now.power = waiting_power(spec, target);
    now.sm_clock = target;
  }
  return now;
}

void advance(const BoardSpec& spec, BoardState& state, Nanoseconds t) {
  while (state.now < t) {
    Nanoseconds next = t;
    if (state.effective_at > 0) next = std::min(next, std::max(state.effective_at, state.now));
    if (const Nanoseconds ramped = end_of_ramp_step(spec, state); ramped > 0) next = std::min(next, ramped);
    const unsigned running = lost(state) ? 0 : running_works(state);
    const bool heats = running > 0 && !ideal(spec);
    if (heats) next = std::min(next, (state.now / kSimHeatStep + 1) * kSimHeatStep);
    std::array<double, kSimWorks> left{};
    for (std::size_t i = 0; running > 0 && i < kSimWorks; ++i) {
      if (state.works[i].state != WorkState::kRunning) continue;
      left[i] = seconds_left(spec, state, state.works[i], running);
      // An end beyond what nanoseconds can count is not waited for.
      if (left[i] < 1e9) next = std::min(next, state.now + to_nanoseconds(Seconds(left[i])));
    }
    integrate(spec, state, next);
    const double span = to_seconds(next - state.now).value();
    state.now = next;
    for (std::size_t i = 0; running > 0 && i < kSimWorks; ++i) {
      SimWork& work = state.works[i];
      if (work.state != WorkState::kRunning) continue;
      if (left[i] - span < 1e-9) {
        work.state = WorkState::kDone;
        work.remaining = 0.0;
        work.end = next;
        work.end_joules = state.joules.value();
      } else {
        work.remaining *= (left[i] - span) / left[i];
      }
    }
    if (heats && state.now % kSimHeatStep == 0) state.heat_celsius = state.celsius;
    if (state.now - state.ramp_begin >= spec.character.ramp) state.ramp_from = Megahertz(0);
    if (state.effective_at > 0 && state.effective_at <= state.now) {
      if (spec.character.ramp > 0) {
        state.ramp_from = target_clock(spec, state);
        state.ramp_begin = state.now;
      }
      state.applied = state.requested;
      state.effective_at = 0;
    }
  }
}

Nanoseconds request_settings(const BoardSpec& spec, BoardState& state) {
  const BoardCharacter& own = spec.character;
  Nanoseconds latency = spec.switch_latency;
  if (const SimFault* early = find_fault(state, SimFaultKind::kEarlyAnswer)) {
    latency = to_nanoseconds(Seconds(early->value));
  } else if (!ideal(spec)) {
    latency = own.hold_mean +
              static_cast<Nanoseconds>(static_cast<double>(own.hold_spread) * evenly(own.seed + state.drawn++));
  }
  return state.effective_at = state.now + latency;
}

int start_work(const BoardSpec& spec, BoardState& state, std::uint32_t process, const WorkKind& kind, Seconds seconds) {
  const auto free = std::find_if(state.works.begin(), state.works.end(),
                                 [](const SimWork& work) { return work.state == WorkState::kFree; });
  if (free == state.works.end()) return -1;
  if (running_works(state) == 0) state.heat_celsius = state.celsius;
  const double length = draw_length(spec, state, kind);
  *free = {};
  free->state = WorkState::kRunning;
  free->process = process;
  free->kind = kind;
  free->unit = 1.0 / time_at_maximum(spec, kind);
  free->remaining = seconds.value() * length;
  free->begin = free->end = state.now;
  free->begin_joules = free->end_joules = state.joules.value();
  return static_cast<int>(free - state.works.begin());
}

Nanoseconds predicted_end(const BoardSpec& spec, const BoardState& state, std::size_t slot) {
  constexpr Nanoseconds kFar = 1'000'000'000'000'000'000;
  BoardState future = state;
  while (future.works[slot].state == WorkState::kRunning && !lost(future)) {
    // Goes on as far as the present pace takes the work, or to the next change of settings.
    const unsigned running = running_works(future);
    const double left = seconds_left(spec, future, future.works[slot], running);
    if (left > 1e8) return kFar;
    Nanoseconds next = future.now + std::max<Nanoseconds>(1, to_nanoseconds(Seconds(left)));
    if (future.effective_at > 0) next = std::min(next, std::max(future.effective_at, future.now + 1));
    if (const Nanoseconds ramped = end_of_ramp_step(spec, future); ramped > 0) next = std::min(next, ramped);
    advance(spec, future, next);
  }
  return future.works[slot].state == WorkState::kDone ? future.works[slot].end : kFar;
}

Watts reading_of(const BoardSpec& spec, const BoardState& state, const SensorSpec& sensor) {
  const Nanoseconds end = last_update(spec, state, sensor.period);
  const Nanoseconds begin = std::max<Nanoseconds>(0, end - sensor.window);
  if (begin == end) return spec.idle;
  const Watts mean = Joules(history_at(state, end).joules - history_at(state, begin).joules) / to_seconds(end - begin);
  const double gain = ideal(spec) ? 1.0 : spec.character.gain;
  return std::max(Watts(0), mean * gain + spec.sensor_jitter * jitter_of(end, sensor));
}

std::vector<SimPowerSample> power_samples_of(const BoardSpec& spec, const BoardState& state) {
  constexpr Nanoseconds kPeriod = 20'000'000;
  constexpr std::size_t kKept = 120;
  const double kept_in_a_step = std::exp(-to_seconds(kSimHistoryStep).value() / 0.015);
  const double gain = ideal(spec) ? 1.0 : spec.character.gain;
  const Nanoseconds last = last_update(spec, state, kPeriod);
  const Nanoseconds first =
      std::max<Nanoseconds>(0, last - static_cast<Nanoseconds>(kSimHistory - 2) * kSimHistoryStep);
  std::vector<SimPowerSample> samples;
  std::optional<Watts> filtered;
  for (Nanoseconds t = first + kSimHistoryStep; t <= last; t += kSimHistoryStep) {
    const Joules step(history_at(state, t).joules - history_at(state, t - kSimHistoryStep).joules);
    const Watts mean = step / to_seconds(kSimHistoryStep);
    filtered = mean + (filtered.value_or(mean) - mean) * kept_in_a_step;
    if ((last - t) % kPeriod == 0) samples.push_back({t, *filtered * gain});
  }
  if (samples.size() > kKept) samples.erase(samples.begin(), samples.end() - kKept);
  return samples;
}

std::uint64_t counter_millijoules(const BoardSpec& spec, const BoardState& state) {
  if (find_fault(state, SimFaultKind::kCounterFrozen) != nullptr) return state.frozen_millijoules;
  const double joules = counted_joules(spec, state);
  auto millijoules = static_cast<std::uint64_t>(std::max(0.0, joules - state.counter_base_joules) * 1e3);
  if (const SimFault* wrap = find_fault(state, SimFaultKind::kCounterWraps)) {
    millijoules %= static_cast<std::uint64_t>(wrap->value);
  }
  return millijoules;
}

Utilisation utilisation_of(const BoardSpec& spec, const BoardState& state) {
  const Nanoseconds end = last_update(spec, state, kUtilisationPeriod);
  const Nanoseconds begin = std::max<Nanoseconds>(0, end - kUtilisationPeriod);
  if (begin == end) return {};
  const double span = to_seconds(end - begin).value();
  const SimHistory& from = history_at(state, begin);
  const SimHistory& to = history_at(state, end);
  return {std::clamp((to.busy_seconds - from.busy_seconds) / span, 0.0, 1.0),
          std::clamp((to.memory_seconds - from.memory_seconds) / span, 0.0, 1.0)};
}

const SimFault* find_fault(const BoardState& state, SimFaultKind kind, const char* call) {
  for (const SimFault& fault : state.faults) {
    if (fault.kind != kind) continue;
    if (call == nullptr || std::strcmp(fault.call, call) == 0 || std::strcmp(fault.call, "*") == 0) return &fault;
  }
  return nullptr;
}

bool add_fault(const BoardSpec& spec, BoardState& state, const SimFault& fault) {
  if (fault.kind == SimFaultKind::kCounterFrozen) state.frozen_millijoules = counter_millijoules(spec, state);
  for (SimFault& slot : state.faults) {
    if (slot.kind == fault.kind && std::strcmp(slot.call, fault.call) == 0) return slot = fault, true;
  }
  for (SimFault& slot : state.faults) {
    if (slot.kind == SimFaultKind::kNone) return slot = fault, true;
  }
  return false;
}

void clear_faults(const BoardSpec& spec, BoardState& state) {
  if (lost(state)) {
    state.applied = state.requested = {};
    state.effective_at = 0;
    reset_counter(spec, state);
  }
  state.faults = {};
}

void reset_counter(const BoardSpec& spec, BoardState& state) {
  state.counter_base_joules = counted_joules(spec, state);
}

int process_slot(BoardState& state, std::int32_t pid, std::uint64_t started) {
  int free = -1;
  for (std::size_t i = 0; i < kSimProcesses; ++i) {
    SimProcess& process = state.processes[i];
    if (process.pid == pid && process.started == started) return static_cast<int>(i);
    if (process.pid == 0 && free < 0) free = static_cast<int>(i);
  }
  if (free >= 0) state.processes[static_cast<std::size_t>(free)] = {pid, 0, started};
  return free;
}

void drop_process(BoardState& state, std::size_t slot) {
  state.processes[slot] = {};
  for (SimWork& work : state.works) {
    if (work.state != WorkState::kFree && work.process == slot) work = {};
  }
}

}  // namespace flyball
