// What an operator asks about all jobs and nodes together: GET /v1/nodes, /v1/fleet and /v1/events, who had which GPU,
// the past of a node and of a job, what energy all took, and what the cluster's controller does. It asks the nodes'
// agents and that controller, ends leases, and keeps a row of figures of each node and job a second (fleet/).
#pragma once

#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>
#include <nlohmann/json_fwd.hpp>

#include "fleet/controller_watch.h"
#include "fleet/history.h"
#include "fleet/node_watch.h"
#include "net/event_loop.h"
#include "net/router.h"
#include "server/access.h"
#include "server/history_notes.h"
#include "server/job_book.h"
#include "wire/fleet_messages.h"

namespace flyball {

struct FleetOptions {
  NodeWatchOptions nodes;
  ControllerWatchOptions controller;
  std::string history;  // file; empty: in memory
  // What a kWh costs and sets free; told to readers, and not used by the server itself.
  std::optional<double> price_per_kwh;
  std::optional<double> carbon_g_per_kwh;
  std::size_t event_streams = 64;
  std::function<void(const std::string&)> log;  // what operators order; empty: nothing is logged
};

// Loop's thread only.
class FleetDesk {
 public:
  // Opens the history and begins to ask. `loop`, `book` and `access` must outlive this object. Throws what NodeWatch,
  // ControllerWatch and History do.
  FleetDesk(EventLoop& loop, const JobBook& book, const Access& access, FleetOptions options);

  void add_routes(Router& router);
  // Notes what has changed of a job since it was noted last, and its history tells that within a second. What changes
  // and is undone between two seconds is told only if it is noted here.
  void note(const Job& job);

 private:
  // What the power that was read in one second comes to.
  struct Reading {
    Seconds second;                // Unix time
    std::optional<Joules> energy;  // none: nothing was read
    Seconds time;                  // for which it was
    Seconds complete;              // of that: of all GPUs of all nodes
  };

  void look();
  // Once for each look.
  const Reading& read(Seconds now, const FleetStatus& all);
  // `all`: fleet(nodes).
  void keep(const WatchedNodes& nodes, const FleetStatus& all);
  void keep_notes(std::size_t table, const std::string& source, std::vector<HistoryNote> notes);
  void tell(const WatchedNodes& nodes, const FleetStatus& all);
  // Tells the stream all that there is, and from then on what changes.
  void subscribe(std::shared_ptr<EventStream> stream);
  [[nodiscard]] std::vector<JobListing> listings() const;
  void emit(std::string_view name, const nlohmann::ordered_json& data);
  // The nodes as they were told last; for others than an administrator without leases' identifiers, which end leases.
  [[nodiscard]] WatchedNodes nodes(bool for_administrator) const;
  // As an administrator with a token has said.
  void end_lease(const Request& request, const Reply& reply);
  // The time that a request asks for. Throws HttpError 400.
  struct Stretch {
    Seconds from;
    Seconds until;
    Seconds now;
  };
  [[nodiscard]] static Stretch stretch_of(const Request& request);
  // Takes what the history has found to the loop's thread, where `show` makes the answer of it.
  template <class Found>
  std::function<void(Found, std::exception_ptr)> answering(const Reply& reply,
                                                           std::function<Response(const Found&)> show);
  void answer_energy(const Request& request, const Reply& reply);
  void answer_allocations(const Request& request, const Reply& reply);
  void answer_history(std::size_t table, const std::string& source, const Request& request, const Reply& reply,
                      std::function<Response(const History::Rows&)> show);
  [[nodiscard]] FleetStatus fleet(const WatchedNodes& nodes) const;

  EventLoop& loop_;
  const JobBook& book_;
  const Access& access_;
  FleetOptions options_;
  NodeWatch watch_;
  ControllerWatch controller_;
  History history_;
  std::vector<std::shared_ptr<EventStream>> streams_;
  Reading reading_;
  Nanoseconds read_at_ = 0;                      // by the monotonic clock; 0: not yet
  std::map<std::string, JobNotes> job_notes_;    // by the histories' names of jobs
  std::map<std::string, NodeNotes> node_notes_;  // by node
  std::vector<History::Event> noted_;            // and not yet kept
  std::map<std::string, bool> silent_;           // nodes, as they were told last
  std::map<std::string, std::string> jobs_;      // listings, as they were told last
  EventLoop::Handle timer_;
};

}  // namespace flyball
