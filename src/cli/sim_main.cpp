// The program flyball-sim: the commands of `flyball sim` alone, for machines that want nothing but simulated GPUs.
#include <exception>
#include <memory>
#include <CLI/CLI.hpp>

#include "base/error.h"
#include "cli/command.h"
#include "cli/commands.h"
#include "cli/console.h"
#include "cli/help_format.h"
#include "cli/parse_line.h"

namespace {

void run(int argc, const char* const* argv) {
  using namespace flyball;
  CLI::App program("Simulated GPUs behind NVIDIA's own interface, for programs that know nothing of it.",
                   "flyball-sim");
  program.formatter(std::make_shared<HelpFormatter>());
  program.set_help_flag("-h,--help", "print this help and exit");
  program.set_version_flag("--version", "flyball-sim " FLYBALL_VERSION, "print the version and exit");
  add_sim_commands(Command(program));
  program.footer(
      "First steps:\n"
      "  flyball-sim up --gpus 4 --model h100\n"
      "  eval \"$(flyball-sim env)\"\n"
      "  python -c 'import pynvml as n; n.nvmlInit(); print(n.nvmlDeviceGetCount())'");
  parse_line(program, argc, argv);
}

}  // namespace

// The statuses are those of flyball (main.cpp), as far as simulated GPUs can end in them.
int main(int argc, char** argv) {
  try {
    run(argc, argv);
    return 0;
  } catch (const flyball::InputError& error) {
    flyball::print_error(error.what());
    return 3;
  } catch (const flyball::UsageError& error) {
    flyball::print_error(error.what());
    return 2;
  } catch (const std::exception& error) {
    flyball::print_error(error.what());
    return 1;
  }
}
