// POST /v1/what-if: plans a profile, or what a job has measured, to be looked at. No job's plan changes by it.
#pragma once

#include <cstddef>
#include <memory>

#include "net/router.h"
#include "server/access.h"
#include "server/job_book.h"

namespace flyball {

// A job is planned for whoever may read it, a profile for whoever may register jobs. The planners' threads do the work,
// but for the one that is kept for jobs' short plans, and jobs' plans come first. One request takes a minute at most,
// and ends once its client has gone. In the thread of the book's loop.
class WhatIf {
 public:
  static constexpr std::size_t kMostAtOnce = 4;   // requests that wait or are planned
  static constexpr std::size_t kMostOfParty = 2;  // of these, one party's (Access::party_of())

  WhatIf(JobBook& book, const Access& access);

  void add_routes(Router& router);
  // Ends what is being planned, with 503.
  void stop();

 private:
  struct AtWork;

  void answer(const Request& request, const Reply& reply);

  JobBook& book_;
  const Access& access_;
  std::shared_ptr<AtWork> at_work_;  // work that has begun may outlive this object
};

}  // namespace flyball
