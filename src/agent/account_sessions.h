// Power traces that the agent records for its callers, from start to stop, whatever the caller does meanwhile: the
// sessions of `flyball account`. Each session has a name of its own among its owner's sessions. Sessions are kept in
// memory and are lost when the agent ends.
//
// AccountSessionLimits bounds their number, size and length. This file knows nothing of HTTP but the error type.
#pragma once

#include <cstddef>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "agent/lease_table.h"
#include "agent/power_feed.h"
#include "net/event_loop.h"
#include "wire/agent_messages.h"

namespace flyball {

struct AccountSessionLimits {
  std::size_t sessions = 16;       // of all users together, recording and ended
  std::size_t of_user = 4;         // of one user
  std::size_t bytes = 64u << 20u;  // of one trace: some hours of eight GPUs
  Seconds length{24.0 * 3600.0};   // of one recording
  Seconds kept{3600.0};            // how long a session that has ended can still be read
  bool remote = false;             // whether TCP clients, who are one owner together, may have any
};

// May be used in the loop's thread only; every callback is called there. All methods throw HttpError: 403 (a TCP client
// without a token), 404 (the owner has no such session), 409 (the session records already), 422 (there is nothing to
// record), 429 (there are too many sessions).
class AccountSessions {
 public:
  using Done = std::function<void(std::exception_ptr, const AccountSessionInfo&)>;

  // `feed` and `loop` must outlive this object.
  AccountSessions(EventLoop& loop, PowerFeed& feed, AccountSessionLimits limits);
  ~AccountSessions();
  AccountSessions(const AccountSessions&) = delete;
  AccountSessions& operator=(const AccountSessions&) = delete;

  // Starts a recording, and calls `done` once the sensors have been seen to change, so that nothing from then on is
  // missed; that takes half a second at most. Replaces a session of the same name that has ended.
  void start(const AccountSessionRequest& request, const Claimant& who, Done done);
  // Ends a recording, and calls `done` once the sensors have shown the energy until now; that takes half a second at
  // most. A session that has ended stays as it is.
  void stop(const std::string& name, const Claimant& who, Done done);
  void drop(const std::string& name, const Claimant& who);  // deletes a session with its trace

  [[nodiscard]] AccountSessionInfo find(const std::string& name, const Claimant& who) const;
  [[nodiscard]] std::vector<AccountSessionInfo> of(const Claimant& who) const;
  // Returns whole lines of the trace, 1 MiB or a little more, from `offset`, the byte at which the previous call ended
  // (0 at first); empty at the end of the trace.
  [[nodiscard]] std::string trace(const std::string& name, const Claimant& who, std::size_t offset) const;

  [[nodiscard]] std::size_t count() const { return sessions_.size(); }

 private:
  struct Session;
  struct Waiter;
  using Key = std::pair<std::string, std::string>;  // owner, name

  [[nodiscard]] std::string owner_of(const Claimant& who) const;
  [[nodiscard]] std::shared_ptr<Session> session(const std::string& name, const Claimant& who) const;
  [[nodiscard]] std::vector<std::size_t> meters_for(const AccountSessionRequest& request) const;
  void check_room(const std::string& owner) const;
  void when_settled(const std::shared_ptr<Session>& session, std::function<void()> action);
  void look_for_settled();
  void begin(Session& session);
  void take(Session& session, bool all);
  void end(Session& session, AccountSessionState why, const std::string& words, Nanoseconds time);
  void tick();

  EventLoop& loop_;
  PowerFeed& feed_;
  AccountSessionLimits limits_;
  std::map<Key, std::shared_ptr<Session>> sessions_;
  std::vector<Waiter> waiters_;
  EventLoop::Handle waiting_;  // while there are waiters
  EventLoop::Handle ticking_;  // while there are sessions
};

}  // namespace flyball
