// A job's way from what it has to what it is to have: it is told to stop, put back into the queue, resized and started.
// One that can, and is to keep some of its nodes, is told which, and the others are taken from it once it has said that
// it goes on without them (controller_shrinks.cpp).
//
// What is to be done next follows from what is wanted and from what the engine shows, and from nothing else. What is
// wanted is on the disk before anything is done. A controller that is killed at any moment therefore goes on where it
// was, and does nothing twice: the one act that would harm a second time, to put a job back into the queue, is done
// only while the engine has counted no restart more than when the change was decided. All others, done again, change
// nothing.
#pragma once

#include <cstdint>
#include <optional>

#include "base/units.h"
#include "controller/cluster_engine.h"

namespace flyball {

struct Transition {
  std::int64_t job = 0;
  int restarts = 0;  // that the engine had counted of the job when this was decided
  GpuShape target;   // without nodes: none, the job waits
  int speed = 0;
  Seconds since;  // Unix time
};

enum class TransitionStep {
  kWait,
  kAskToStop,  // answer the job's next report so; it ends by itself
  kAskToKeep,  // tell it in the same way which of its nodes it keeps; it goes on with those
  kTakeNodes,  // it does, so that the others are no longer its
  kRequeue,
  kHold,
  kResize,
  kStart,
  kSettled,   // the job is where it is to be
  kMisplaced  // the job runs somewhere else, not by us
};

struct TransitionFacts {
  bool asks = false;    // the job reports, so that it can be asked to stop
  bool told = false;    // it has been told to stop since it started, so that it will not stay even where it is to be
  bool room = true;     // the target's GPUs are free, and there is power for them
  Seconds now;          // Unix time
  Seconds stop_within;  // how long a job that was asked to stop may take, after `asked`
  std::optional<Seconds> asked = std::nullopt;  // when it was first asked to; Transition::since where nothing is here
  bool shrinks = false;                         // the target can be reached while the job runs
  bool keeps = false;  // and the job has said that it has gone on with the target's nodes alone
};

[[nodiscard]] TransitionStep next_step(const Transition& wanted, const EngineJob& seen, const TransitionFacts& facts);

// Returns the GPUs that a job has as nodes with the same number on each, or nothing where these differ. A job without
// GPUs has the empty shape.
[[nodiscard]] std::optional<GpuShape> shape_of(const EngineJob& job);

}  // namespace flyball
