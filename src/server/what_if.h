// POST /v1/what-if: plans a profile, or what a job has measured, to be looked at. No job's plan changes by it.
#pragma once

#include <cstddef>
#include <memory>

#include "net/router.h"
#include "server/access.h"
#include "server/job_book.h"

namespace flyball {

// A job is planned for whoever may read it, a profile for whoever may register jobs. Planners' threads do the work
// (JobBook::run_beside()): a minute at most for one request, for kMostAtOnce of them at once, and not once its client
// has gone. In the thread of the book's loop.
class WhatIf {
 public:
  static constexpr std::size_t kMostAtOnce = 4;

  WhatIf(JobBook& book, const Access& access) : book_(book), access_(access) {}

  void add_routes(Router& router);

 private:
  void answer(const Request& request, const Reply& reply);

  JobBook& book_;
  const Access& access_;
  // How many requests wait or are planned. Replies may outlive this object.
  std::shared_ptr<std::size_t> at_work_ = std::make_shared<std::size_t>(0);
};

}  // namespace flyball
