// The pages that people look at, at /: what they show they ask of the other routes. They need no other host, and
// whoever may read nothing sees nothing on them.
#pragma once

#include <string_view>

#include "net/router.h"

namespace flyball {

// The planning server's: fleet, jobs and nodes, now and over time.
void add_fleet_page(Router& router);
// An agent's: its node now, and since the page was opened.
void add_node_page(Router& router);

// Whether a path is a file of these pages, which hold nothing that is secret.
[[nodiscard]] bool is_page_file(std::string_view path);

}  // namespace flyball
