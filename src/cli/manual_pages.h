// Pages for man(1), made of what --help shows.
#pragma once

#include <string>
#include <vector>

#include "cli/command_tree.h"

namespace flyball {

struct ManualPage {
  std::string file;  // "flyball-plan.1"
  std::string text;  // roff with the macros of man(7)
};

// Makes a page for the program and each command below it: in section 8 for those that run as services, else in 1.
// `version` stands at the foot of the pages.
[[nodiscard]] std::vector<ManualPage> manual_pages(const CommandDescription& program, const std::string& version);

}  // namespace flyball
