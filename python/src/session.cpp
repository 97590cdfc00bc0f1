// flyball._native.Session: client/session.h for python/flyball/session.py, which holds the interface that people use.
#include "session.h"

#include <nanobind/nanobind.h>
#include <nanobind/stl/array.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>
#include <unistd.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json_text.h"
#include "base/record.h"
#include "client/clock_sinks.h"
#include "client/session.h"

namespace nb = nanobind;

namespace flyball {
namespace {

// One Session, which a forked child must not touch: its threads have stayed with the parent. None once it is closed.
class OwnSession {
 public:
  // `given`: the options in JSON, by the names of flyball.Session's arguments; `notice` is a function, or none.
  OwnSession(const std::string& given, nb::object notice) : process_(getpid()) {
    auto options = read_options_text<SessionOptions>("flyball.Session", given);
    if (!notice.is_none()) {
      // The session's threads call it, and may be ending with the interpreter's lock held elsewhere.
      options.notice = [notice = std::make_shared<Callable>(std::move(notice))](const std::string& words) {
        notice->call(words);
      };
    }
    const nb::gil_scoped_release others_may_run;
    SessionGpu gpu = open_session_gpu(options);
    session_ = std::make_unique<Session>(std::move(options), std::move(gpu));
  }
  OwnSession(const OwnSession&) = delete;
  OwnSession& operator=(const OwnSession&) = delete;
  ~OwnSession() {
    const nb::gil_scoped_release others_may_run;  // the session's threads may be about to tell something
    close();
  }

  void close() {
    if (getpid() == process_) {
      session_.reset();
    } else {
      static_cast<void>(session_.release());
    }
  }

  [[nodiscard]] Session& open() const {
    if (!session_) throw Error("this session is closed");
    if (getpid() != process_) throw Error("this session belongs to the process that forked");
    return *session_;
  }

 private:
  // A Python function that may be called, and let go, by threads without the interpreter's lock.
  class Callable {
   public:
    explicit Callable(nb::object function) : function_(std::move(function)) {}
    Callable(const Callable&) = delete;
    Callable& operator=(const Callable&) = delete;
    ~Callable() {
      const nb::gil_scoped_acquire lock;
      function_.reset();
    }
    void call(const std::string& words) {
      const nb::gil_scoped_acquire lock;
      try {
        function_(words);
      } catch (nb::python_error& error) {
        error.discard_as_unraisable("flyball.Session's notice");
      }
    }

   private:
    nb::object function_;
  };

  pid_t process_;
  std::unique_ptr<Session> session_;
};

std::string state_of(const OwnSession& session) { return to_json(session.open().state()).dump(); }

using Computations = std::vector<std::tuple<std::string, int, int, int>>;

Computations tuples_of(const std::vector<ScheduledComputation>& from) {
  Computations computations;
  for (const ScheduledComputation& one : from) {
    computations.emplace_back(one.instruction, one.microbatch, one.chunk, one.clock_mhz);
  }
  return computations;
}

void set_straggler(const OwnSession& session, int id, double delay_s, double degree) {
  session.open().set_straggler(straggler_notice(id, Seconds(delay_s), degree));
}

void* stream_of(std::uintptr_t handle) { return reinterpret_cast<void*>(handle); }

// Time, energy, and why the energy is not all that flowed; empty where it is.
std::tuple<double, double, std::string> window_end(const OwnSession& session) {
  const StepsEnergy window = session.open().window_end();
  return {window.time.value(), window.energy.value(), window.problem};
}

}  // namespace

void add_session(nb::module_& module) {
  const auto released = nb::call_guard<nb::gil_scoped_release>();
  // The calls between two computations take tens of nanoseconds: letting the interpreter's lock go would cost more.
  nb::class_<OwnSession>(module, "Session")
      .def(nb::init<const std::string&, nb::object>(), nb::arg("options"), nb::arg("notice").none())
      .def("close", &OwnSession::close, released)
      .def("step_begin", [](const OwnSession& session) { session.open().step_begin(); })
      .def("step_end", [](const OwnSession& session) { session.open().step_end(); })
      .def("set_speed", [](const OwnSession& session, const char* type) { session.open().set_speed(type); })
      .def("set_next_speed", [](const OwnSession& session) { session.open().set_next_speed(); })
      .def("begin", [](const OwnSession& session, const char* type) { session.open().begin(type); })
      .def("end", [](const OwnSession& session, const char* type) { session.open().end(type); })
      // Streams are handles. The driver may let the caller wait while its own queue is full.
      .def(
          "set_speed_in",
          [](const OwnSession& session, const char* type, std::uintptr_t stream) {
            session.open().set_speed_in(type, stream_of(stream));
          },
          released)
      .def(
          "set_next_speed_in",
          [](const OwnSession& session, std::uintptr_t stream) { session.open().set_next_speed_in(stream_of(stream)); },
          released)
      .def(
          "begin_in",
          [](const OwnSession& session, const char* type, std::uintptr_t stream) {
            session.open().begin_in(type, stream_of(stream));
          },
          released)
      .def(
          "end_in",
          [](const OwnSession& session, const char* type, std::uintptr_t stream) {
            session.open().end_in(type, stream_of(stream));
          },
          released)
      .def("measures_step", [](const OwnSession& session) { return session.open().measures_step(); })
      .def("find_handovers", [](const OwnSession& session) { session.open().find_handovers(); })
      .def("set_straggler", &set_straggler, released)
      .def("profile_again", [](const OwnSession& session) { session.open().profile_again(); })
      .def("state", &state_of)
      .def("set_memory",
           [](const OwnSession& session, std::int64_t microbatch_bytes, std::int64_t activation_bytes) {
             session.open().set_memory(microbatch_bytes, activation_bytes);
           })
      .def("order_held", [](const OwnSession& session) { return session.open().order_held(); })
      .def("use_order", [](const OwnSession& session, std::int64_t order) { session.open().use_order(order); })
      .def("order_in_use", [](const OwnSession& session) { return tuples_of(session.open().order_in_use()); })
      .def("transfers_in_use", [](const OwnSession& session) { return session.open().transfers_in_use(); })
      .def("schedule", [](const OwnSession& session) { return tuples_of(session.open().schedule()); })
      .def("profile_csv", [](const OwnSession& session) { return session.open().profile_csv(); })
      .def(
          "window_begin", [](const OwnSession& session) { session.open().window_begin(); }, released)
      .def("window_end", &window_end, released);
}

}  // namespace flyball
