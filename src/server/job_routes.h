// The server's own HTTP interface, as docs/openapi.yaml describes it.
#pragma once

#include "net/router.h"
#include "server/access.h"
#include "server/job_book.h"

namespace flyball {

// Adds the routes. `book` and `access` must outlive the router.
void add_job_routes(Router& router, JobBook& book, const Access& access);

}  // namespace flyball
