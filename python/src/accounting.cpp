// flyball._native's accounting: account/account_run.h and client/agent_client.h for python/flyball/accounting.py, which
// holds the interface that people use. A connection per call: nothing to share between threads, nothing to lose at a
// fork.
#include "accounting.h"

#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>
#include <unistd.h>

#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "account/account_options.h"
#include "account/footprint_file.h"
#include "base/record.h"
#include "client/agent_client.h"
#include "measure/jiffies_recorder.h"
#include "report/footprint_report.h"

namespace nb = nanobind;

namespace flyball {
namespace {

AgentClient client_at(const std::optional<std::string>& agent) {
  return AgentClient(agent ? parse_endpoint(*agent) : default_agent_endpoint());
}

// As JSON: the options that `flyball messages SessionRequest` lists in, what the agent says of the session out.
std::string start(const std::optional<std::string>& agent, const std::string& options) {
  const auto request = read_options_text<AccountSessionRequest>("flyball.account_session", options);
  return to_json(client_at(agent).start_session(request)).dump();
}

// As JSON: options in, the footprint out.
std::string footprint(const std::string& options) {
  const AccountRequest request = read_account_options("flyball.account", options);
  AccountResult result = account_runs(request);
  return footprint_json(result.asked(request), result.notes);
}

// As JSON: options in, the footprint out; and the page that `flyball account --html` writes.
std::pair<std::string, std::string> footprint_and_page(const std::string& options, const std::string& title) {
  AccountRequest request = read_account_options("flyball.account", options);
  const bool summary_is_asked = request.summary;
  request.summary = request.tree = request.picture = true;
  const AccountResult result = account_runs(request);
  return {footprint_json(summary_is_asked ? result.summary : result.footprint, result.notes),
          footprint_html(footprint_page(title, result))};
}

}  // namespace

void add_accounting(nb::module_& module) {
  const auto released = nb::call_guard<nb::gil_scoped_release>();
  module.def("footprint", footprint, nb::arg("options"), released);
  module.def("footprint_and_page", footprint_and_page, nb::arg("options"), nb::arg("title"), released);
  // Of this process and those below it, which are the program. Used by one thread at a time.
  nb::class_<JiffiesRecorder>(module, "JiffiesRecorder")
      .def("__init__",
           [](JiffiesRecorder* self) {
             new (self) JiffiesRecorder("/proc", "/sys", ::getpid(), JiffiesRecorder::Self::kProgram);
           })
      .def_static("header", &JiffiesRecorder::header)
      .def("sample", &JiffiesRecorder::sample, nb::arg("unix_time_ns"), released);
  module.def("start_session", start, nb::arg("agent").none(), nb::arg("options"), released);
  module.def(
      "stop_session",
      [](const std::optional<std::string>& agent, const std::string& name) {
        return to_json(client_at(agent).stop_session(name)).dump();
      },
      nb::arg("agent").none(), nb::arg("name"), released);
  module.def(
      "drop_session",
      [](const std::optional<std::string>& agent, const std::string& name) { client_at(agent).drop_session(name); },
      nb::arg("agent").none(), nb::arg("name"), released);
  module.def(
      "session_trace",
      [](const std::optional<std::string>& agent, const std::string& name) {
        return client_at(agent).session_trace(name);
      },
      nb::arg("agent").none(), nb::arg("name"), released);
}

}  // namespace flyball
