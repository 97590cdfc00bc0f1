// The page that people look at, at /: what it shows it asks of the other routes. It needs no other host, and whoever
// may read nothing sees nothing on it.
#pragma once

#include "net/router.h"

namespace flyball {

void add_page_routes(Router& router);

}  // namespace flyball
