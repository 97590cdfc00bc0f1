// A session listens to the power feed's sampler and owns a PowerRecorder, which a tick of 0.25 s asks for new rows;
// the trace is kept in pieces of about 1 MiB, so that a read copies one piece. Begin and end wait, in steps of 5 ms
// and for half a second at most, until every sensor has changed since the request. The same tick ends recordings that
// are too large or too long, and forgets those that ended long ago.
#include "agent/account_sessions.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "agent/log.h"
#include "measure/power_recorder.h"
#include "net/http.h"

namespace flyball {
namespace {

constexpr std::size_t kPiece = 1u << 20u;
constexpr Seconds kSessionTick{0.25};
constexpr Seconds kLook{0.005};
constexpr Seconds kLongestSensorWait{0.5};

}  // namespace

struct AccountSessions::Session {
  AccountSessionInfo info;
  std::string owner;
  PowerRecorder::Options recording;
  std::unique_ptr<PowerFeed::Listener> listener;  // while it records
  std::unique_ptr<PowerRecorder> recorder;        // from its begin to its end
  Nanoseconds end = 0;
  std::vector<std::string> pieces;  // each holds whole lines
  bool dropped = false;

  void append(std::string text) {
    info.bytes += text.size();
    if (pieces.empty() || pieces.back().size() >= kPiece) {
      pieces.push_back(std::move(text));
    } else {
      pieces.back() += text;
    }
  }
};

struct AccountSessions::Waiter {
  std::shared_ptr<Session> session;
  Nanoseconds time = 0;
  std::function<void()> action;
};

AccountSessions::AccountSessions(EventLoop& loop, PowerFeed& feed, AccountSessionLimits limits)
    : loop_(loop), feed_(feed), limits_(limits) {}

AccountSessions::~AccountSessions() = default;

std::string AccountSessions::owner_of(const Claimant& who) const {
  if (who.local) return fmt::format("uid {}", who.uid);
  if (!limits_.remote) {
    throw HttpError(403,
                    "a session belongs to a user, and over TCP without a token nobody can be told from others: use the "
                    "agent's socket, or start it with --token-file");
  }
  return "remote";
}

std::shared_ptr<AccountSessions::Session> AccountSessions::session(const std::string& name, const Claimant& who) const {
  const auto found = sessions_.find({owner_of(who), name});
  if (found != sessions_.end()) return found->second;
  throw HttpError(404,
                  fmt::format("you have no session '{}' here; a session belongs to the user who started it, and goes "
                              "with its agent or {:g} s after its end",
                              name, limits_.kept.value()));
}

std::vector<std::size_t> AccountSessions::meters_for(const AccountSessionRequest& request) const {
  const std::vector<std::string>& labels = feed_.devices();
  std::vector<std::size_t> meters;
  const auto is_gpu = [&](std::size_t meter) { return labels[meter].starts_with("GPU:"); };
  if (request.gpus) {
    for (const std::size_t gpu : *request.gpus) {
      const auto found = std::find(labels.begin(), labels.end(), fmt::format("GPU:{}", gpu));
      if (found == labels.end()) {
        throw HttpError(404, fmt::format("there is no GPU:{}; this node can record {}", gpu, fmt::join(labels, ", ")));
      }
      const auto meter = static_cast<std::size_t>(found - labels.begin());
      if (std::find(meters.begin(), meters.end(), meter) == meters.end()) meters.push_back(meter);
    }
  }
  for (std::size_t meter = 0; meter < labels.size(); ++meter) {
    if (is_gpu(meter) ? !request.gpus : request.cpus) meters.push_back(meter);
  }
  if (meters.empty())
    throw HttpError(422, "there is nothing to record: no GPU is named, and no processor can be measured");
  return meters;
}

void AccountSessions::check_room(const std::string& owner) const {
  std::vector<std::string> own;
  for (const auto& [key, session] : sessions_) {
    if (key.first == owner) own.push_back(key.second);
  }
  if (own.size() >= limits_.of_user) {
    throw HttpError(
        429, fmt::format("you have {} sessions, which is the most: {}; drop one", own.size(), fmt::join(own, ", ")));
  }
  if (sessions_.size() >= limits_.sessions) {
    throw HttpError(
        429,
        fmt::format(
            "this agent has {} sessions of all its users, which is the most; each is forgotten {:g} s after its end",
            sessions_.size(), limits_.kept.value()));
  }
}

void AccountSessions::start(const AccountSessionRequest& request, const Claimant& who, Done done) {
  tick();  // ends and drops the sessions that are due
  const std::string owner = owner_of(who);
  const Key key(owner, request.name);
  const auto before = sessions_.find(key);
  if (before != sessions_.end() && before->second->info.recording()) {
    throw HttpError(409, fmt::format("session '{}' records already, for {:.0f} s; stop it first, or take another name",
                                     request.name, find(request.name, who).length.value()));
  }
  if (request.row_period > Seconds(0) && request.row_period < feed_.period()) {
    throw HttpError(422, fmt::format("rows every {:g} ms are asked for, and this agent samples every {:g} ms; start it "
                                     "with a shorter --period, or ask for less",
                                     request.row_period.value() * 1e3, feed_.period().value() * 1e3));
  }
  auto session = std::make_shared<Session>();
  session->recording.sampling_period = feed_.period();
  session->recording.row_period = request.row_period;
  session->recording.meters = meters_for(request);
  if (before != sessions_.end()) {
    sessions_.erase(before);
  } else {
    check_room(owner);
  }
  session->owner = owner;
  session->info.name = request.name;
  for (const std::size_t meter : session->recording.meters) session->info.devices.push_back(feed_.devices()[meter]);
  session->listener = std::make_unique<PowerFeed::Listener>(feed_);
  sessions_.emplace(key, session);
  if (!ticking_) ticking_ = loop_.every(kSessionTick, [this] { tick(); });
  log_event(LogLevel::kInfo, "session_started",
            {{"session", request.name},
             {"owner", who.as_holder().text()},
             {"devices", fmt::format("{}", fmt::join(session->info.devices, ","))}});
  when_settled(session, [this, session, who, done = std::move(done)] {
    if (session->dropped) {
      return done(std::make_exception_ptr(HttpError(410, "the session was dropped before it began")), {});
    }
    begin(*session);
    done(nullptr, find(session->info.name, who));
  });
}

void AccountSessions::stop(const std::string& name, const Claimant& who, Done done) {
  const std::shared_ptr<Session> stopped = session(name, who);
  if (!stopped->info.recording()) return done(nullptr, stopped->info);
  const Nanoseconds time = Sampler::now();
  // A session that has not begun yet ends after what waits for its begin.
  when_settled(stopped, [this, stopped, time, done = std::move(done)] {
    if (stopped->dropped) {
      return done(std::make_exception_ptr(HttpError(410, "the session was dropped before it ended")), {});
    }
    end(*stopped, AccountSessionState::kStopped, "it was stopped", time);
    done(nullptr, stopped->info);
  });
}

void AccountSessions::drop(const std::string& name, const Claimant& who) {
  const std::shared_ptr<Session> dropped = session(name, who);
  end(*dropped, AccountSessionState::kStopped, "it was dropped", Sampler::now());
  dropped->dropped = true;
  sessions_.erase({dropped->owner, name});
  if (sessions_.empty()) ticking_.reset();
}

AccountSessionInfo AccountSessions::find(const std::string& name, const Claimant& who) const {
  const std::shared_ptr<Session> found = session(name, who);
  AccountSessionInfo info = found->info;
  if (!found->recorder) return info;
  info.length = to_seconds(Sampler::now() - found->recorder->begin());
  info.failures = found->recorder->failures();
  return info;
}

std::vector<AccountSessionInfo> AccountSessions::of(const Claimant& who) const {
  std::vector<AccountSessionInfo> infos;
  const std::string owner = owner_of(who);
  for (const auto& [key, session] : sessions_) {
    if (key.first == owner) infos.push_back(find(key.second, who));
  }
  return infos;
}

std::string AccountSessions::trace(const std::string& name, const Claimant& who, std::size_t offset) const {
  const std::shared_ptr<Session> read = session(name, who);
  std::size_t begin = 0;
  for (const std::string& piece : read->pieces) {
    if (offset < begin + piece.size()) return piece.substr(offset - begin);
    begin += piece.size();
  }
  if (offset > begin) throw HttpError(400, fmt::format("offset is {}; the trace has {} bytes", offset, begin));
  return {};
}

// --- Begin and end -------------------------------------------------------------------------------------------------

void AccountSessions::when_settled(const std::shared_ptr<Session>& session, std::function<void()> action) {
  waiters_.push_back({session, Sampler::now(), std::move(action)});
  if (!waiting_) waiting_ = loop_.every(kLook, [this] { look_for_settled(); });
}

void AccountSessions::look_for_settled() {
  std::vector<Waiter> ready;
  std::erase_if(waiters_, [&](Waiter& waiter) {
    const bool waited = Sampler::now() - waiter.time > to_nanoseconds(kLongestSensorWait);
    const bool settled =
        !waiter.session->listener || waited || waiter.session->listener->sampler().settle(waiter.time, Seconds(0));
    if (settled) ready.push_back(std::move(waiter));
    return settled;
  });
  for (const Waiter& waiter : ready) waiter.action();
  if (waiters_.empty()) waiting_.reset();
}

void AccountSessions::begin(Session& session) {
  session.recorder = std::make_unique<PowerRecorder>(session.listener->sampler(), session.recording);
  session.info.begin = to_seconds(session.recorder->begin() + session.recorder->clock_offset());
  take(session, false);
}

void AccountSessions::take(Session& session, bool all) {
  session.append(session.recorder->take(all));
  session.info.rows = session.recorder->row_count();
}

void AccountSessions::end(Session& session, AccountSessionState why, const std::string& words, Nanoseconds time) {
  if (!session.info.recording()) return;
  session.info.state = why;
  session.info.ended = words;
  session.end = time;
  if (session.recorder) {
    take(session, true);
    session.append(fmt::format("# ended: {}\n", words));
    session.info.length = to_seconds(std::max<Nanoseconds>(0, session.end - session.recorder->begin()));
    session.info.failures = session.recorder->failures();
  }
  session.recorder.reset();
  session.listener.reset();
  log_event(why == AccountSessionState::kStopped ? LogLevel::kInfo : LogLevel::kNotice, "session_ended",
            {{"session", session.info.name},
             {"owner", session.owner},
             {"why", std::string(name_of(why))},
             {"rows", fmt::to_string(session.info.rows)}});
}

void AccountSessions::tick() {
  const Nanoseconds now = Sampler::now();
  for (auto at = sessions_.begin(); at != sessions_.end();) {
    Session& session = *at->second;
    const bool old = !session.info.recording() && now - session.end > to_nanoseconds(limits_.kept);
    if (old) {
      at = sessions_.erase(at);
      continue;
    }
    ++at;
    if (!session.recorder) continue;
    take(session, false);
    if (session.info.bytes >= limits_.bytes) {
      end(session, AccountSessionState::kTooLarge,
          fmt::format("it had reached {:.1f} MiB, the most for one trace",
                      static_cast<double>(limits_.bytes) / (1u << 20u)),
          now);
    } else if (now - session.recorder->begin() > to_nanoseconds(limits_.length)) {
      end(session, AccountSessionState::kTooLong,
          fmt::format("it had gone on for {:g} s, the most for one recording", limits_.length.value()), now);
    }
  }
  if (sessions_.empty()) ticking_.reset();
}

}  // namespace flyball
