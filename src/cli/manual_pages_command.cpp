// flyball manual-pages: the pages for man(1), as a package installs them.
#include <fmt/format.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "base/text.h"
#include "cli/command_tree.h"
#include "cli/commands.h"
#include "cli/console.h"
#include "cli/manual_pages.h"
#include "cli/option_values.h"

namespace flyball {

void add_manual_pages_command(const Command& program) {
  const Command command = program.add_subcommand("manual-pages", "write the manual pages of all commands");
  const auto folder = std::make_shared<std::string>();
  command.add_option("DIR", *folder, "folder to write to, which is made").type_name("DIR").required();
  command.hide();
  command.footer("Examples:\n  flyball manual-pages out/man");
  command.callback([program, folder] {
    const std::filesystem::path to = parse_path("manual-pages", *folder);
    const std::vector<ManualPage> pages = manual_pages(describe(program), FLYBALL_VERSION);
    for (const ManualPage& page : pages) write_text_file(to / page.file, page.text);
    print_result(fmt::format("wrote {} manual pages to {}\n", pages.size(), to.string()));
  });
}

}  // namespace flyball
