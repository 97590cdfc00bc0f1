// The program flyball. The one place where the command line catches errors and turns them into exit statuses:
// 0 success, 1 failure, 2 wrong usage, 3 bad input, 130 interrupted; a measured program's own where one ran.
#include <exception>
#include <new>

#include "base/error.h"
#include "cli/command_line.h"
#include "cli/console.h"
#include "cli/exit_status.h"
#include "cli/interrupt.h"

int main(int argc, char** argv) {
  using namespace flyball;
  try {
    run_command_line(argc, argv);
    return 0;
  } catch (const ExitStatus& end) {
    return end.status;
  } catch (const InputError& error) {
    print_error(error.what());
    return 3;
  } catch (const UsageError& error) {
    print_error(error.what());
    return 2;
  } catch (const Interrupted& error) {
    print_error(error.what());
    return 130;
  } catch (const std::bad_alloc&) {
    print_error("out of memory; a longer --unit-time or fewer microbatches need less");
    return 1;
  } catch (const std::exception& error) {
    print_error(error.what());
    return 1;
  }
}
