// Sessions of `flyball account` in the agent: whose they are, how many, and what ends them. GPUs in memory.
#include "agent/account_sessions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <thread>
#include <type_traits>

#include "net/http.h"
#include "support/memory_gpu.h"

namespace flyball {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::MemoryGpu;

Claimant claimant(uid_t uid) {
  Claimant who;
  who.local = true;
  who.uid = uid;
  who.pid = 4242;
  who.name = "python3";
  return who;
}

const Claimant kAlice = claimant(1000);
const Claimant kBob = claimant(1001);

AccountSessionRequest named(const std::string& name) {
  AccountSessionRequest request;
  request.name = name;
  return request;
}

// The sessions of an agent, its loop in a thread.
class Keeper {
 public:
  explicit Keeper(AccountSessionLimits limits = {}, std::size_t gpu_count = 2) {
    for (std::size_t i = 0; i < gpu_count; ++i) gpus.push_back(std::make_shared<MemoryGpu>(i));
    const std::vector<std::shared_ptr<GpuDevice>> devices(gpus.begin(), gpus.end());
    feed_ = std::make_unique<PowerFeed>(devices, std::vector<std::shared_ptr<CpuDevice>>(), Sampler::Options{});
    sessions_ = std::make_unique<AccountSessions>(loop_, *feed_, limits);
    thread_ = std::thread([this] { loop_.run(); });
  }
  ~Keeper() {
    loop_.stop();
    thread_.join();
  }
  Keeper(const Keeper&) = delete;
  Keeper& operator=(const Keeper&) = delete;

  AccountSessionInfo start(const AccountSessionRequest& request, const Claimant& who) {
    return wait([&](const AccountSessions::Done& done) { sessions_->start(request, who, done); });
  }
  AccountSessionInfo start_and_drop(const AccountSessionRequest& request, const Claimant& who) {
    return wait([&](const AccountSessions::Done& done) {
      sessions_->start(request, who, done);
      sessions_->drop(request.name, who);
    });
  }
  AccountSessionInfo stop(const std::string& name, const Claimant& who) {
    return wait([&](const AccountSessions::Done& done) { sessions_->stop(name, who, done); });
  }
  void drop(const std::string& name, const Claimant& who) {
    on_loop([&] {
      sessions_->drop(name, who);
      return true;
    });
  }
  AccountSessionInfo find(const std::string& name, const Claimant& who) {
    return on_loop([&] { return sessions_->find(name, who); });
  }
  std::string trace(const std::string& name, const Claimant& who, std::size_t offset = 0) {
    return on_loop([&] { return sessions_->trace(name, who, offset); });
  }
  std::size_t listeners() {
    return on_loop([&] { return feed_->listeners(); });
  }
  std::vector<std::string> names_of(const Claimant& who) {
    return on_loop([&] {
      std::vector<std::string> names;
      for (const AccountSessionInfo& info : sessions_->of(who)) names.push_back(info.name);
      return names;
    });
  }

  std::vector<std::shared_ptr<MemoryGpu>> gpus;

 private:
  // A refusal goes from thread to thread by value and is thrown here anew: the thread sanitizer does not see how
  // libstdc++ counts an exception's owners.
  struct Refusal {
    unsigned status = 0;
    std::string words;
  };

  template <class Result>
  struct Answer {
    std::optional<Result> result;
    Refusal refusal;
  };

  static Refusal refusal_of(const std::exception_ptr& error) {
    try {
      std::rethrow_exception(error);
    } catch (const HttpError& refused) {
      return {refused.status(), refused.what()};
    }
  }

  template <class Result>
  static Result taken(const std::shared_ptr<std::promise<Answer<Result>>>& promise) {
    Answer<Result> answer = promise->get_future().get();
    if (!answer.result) throw HttpError(answer.refusal.status, answer.refusal.words);
    return std::move(*answer.result);
  }

  template <class Action>
  std::invoke_result_t<Action> on_loop(Action action) {
    using Result = std::invoke_result_t<Action>;
    const auto promise = std::make_shared<std::promise<Answer<Result>>>();
    loop_.post([promise, &action] {
      try {
        promise->set_value({action(), {}});
      } catch (const HttpError&) {
        promise->set_value({std::nullopt, refusal_of(std::current_exception())});
      }
    });
    return taken(promise);
  }

  AccountSessionInfo wait(const std::function<void(const AccountSessions::Done&)>& call) {
    const auto promise = std::make_shared<std::promise<Answer<AccountSessionInfo>>>();
    loop_.post([promise, &call] {
      try {
        call([promise](const std::exception_ptr& error, const AccountSessionInfo& info) {
          error ? promise->set_value({std::nullopt, refusal_of(error)}) : promise->set_value({info, {}});
        });
      } catch (const HttpError&) {
        promise->set_value({std::nullopt, refusal_of(std::current_exception())});
      }
    });
    return taken(promise);
  }

  EventLoop loop_;
  std::unique_ptr<PowerFeed> feed_;
  std::unique_ptr<AccountSessions> sessions_;
  std::thread thread_;
};

template <class Action>
unsigned refused_status(Action action, const std::string& words) {
  try {
    action();
  } catch (const HttpError& error) {
    EXPECT_THAT(error.what(), HasSubstr(words));
    return error.status();
  }
  ADD_FAILURE() << "not refused";
  return 0;
}

bool eventually(const std::function<bool()>& holds) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (std::chrono::steady_clock::now() < end) {
    if (holds()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return false;
}

TEST(AccountSessions, RecordFromStartToStop) {
  Keeper keeper;
  const AccountSessionInfo started = keeper.start(named("epoch"), kAlice);
  EXPECT_TRUE(started.recording());
  EXPECT_THAT(started.devices, ElementsAre("GPU:0", "GPU:1"));
  EXPECT_EQ(keeper.listeners(), 1u);
  const AccountSessionInfo stopped = keeper.stop("epoch", kAlice);
  EXPECT_EQ(stopped.state, AccountSessionState::kStopped);
  EXPECT_EQ(keeper.listeners(), 0u) << "the sampler rests again";
  const std::string trace = keeper.trace("epoch", kAlice);
  EXPECT_EQ(trace.size(), stopped.bytes);
  EXPECT_THAT(trace, ::testing::StartsWith("# flyball power trace, version 1\n"));
  EXPECT_THAT(trace, ::testing::EndsWith("# ended: it was stopped\n"));
  EXPECT_EQ(keeper.trace("epoch", kAlice, trace.size()), "");
  EXPECT_EQ(refused_status([&] { keeper.trace("epoch", kAlice, trace.size() + 1); }, "the trace has"), 400u);
  EXPECT_EQ(keeper.stop("epoch", kAlice).bytes, stopped.bytes) << "stopping again changes nothing";
}

TEST(AccountSessions, ASecondStartIsRefusedWhileItRecordsAndReplacesWhatHasEnded) {
  Keeper keeper;
  keeper.start(named("epoch"), kAlice);
  EXPECT_EQ(refused_status([&] { keeper.start(named("epoch"), kAlice); }, "'epoch' records already"), 409u);
  keeper.stop("epoch", kAlice);
  EXPECT_TRUE(keeper.start(named("epoch"), kAlice).recording());
  EXPECT_THAT(keeper.names_of(kAlice), ElementsAre("epoch"));
}

TEST(AccountSessions, BelongToTheUserWhoStartedThem) {
  Keeper keeper;
  keeper.start(named("epoch"), kAlice);
  EXPECT_EQ(refused_status([&] { keeper.trace("epoch", kBob); }, "you have no session 'epoch' here"), 404u);
  EXPECT_EQ(refused_status([&] { keeper.stop("epoch", kBob); }, "no session"), 404u);
  EXPECT_EQ(refused_status([&] { keeper.drop("epoch", kBob); }, "no session"), 404u);
  EXPECT_TRUE(keeper.names_of(kBob).empty());
  keeper.start(named("epoch"), kBob);  // a name is one of its owner's
  keeper.drop("epoch", kBob);
  EXPECT_TRUE(keeper.find("epoch", kAlice).recording());
}

TEST(AccountSessions, OverTcpNobodyHasThemWithoutAToken) {
  Claimant remote;
  remote.name = "127.0.0.1:5000";
  Keeper without;
  EXPECT_EQ(refused_status([&] { without.start(named("a"), remote); }, "--token-file"), 403u);
  AccountSessionLimits limits;
  limits.remote = true;
  Keeper with(limits);
  EXPECT_TRUE(with.start(named("a"), remote).recording());
}

TEST(AccountSessions, AreCounted) {
  AccountSessionLimits limits;
  limits.of_user = 2;
  limits.sessions = 3;
  Keeper keeper(limits);
  keeper.start(named("a"), kAlice);
  keeper.start(named("b"), kAlice);
  EXPECT_EQ(refused_status([&] { keeper.start(named("c"), kAlice); }, "you have 2 sessions, which is the most: a, b"),
            429u);
  keeper.start(named("a"), kBob);
  EXPECT_EQ(refused_status([&] { keeper.start(named("b"), kBob); }, "has 3 sessions of all its users"), 429u);
  keeper.drop("a", kAlice);
  keeper.start(named("b"), kBob);
}

TEST(AccountSessions, EndByThemselvesWhenTheyAreTooLong) {
  AccountSessionLimits limits;
  limits.length = Seconds(0.01);
  Keeper keeper(limits);
  keeper.start(named("a"), kAlice);
  ASSERT_TRUE(eventually([&] { return !keeper.find("a", kAlice).recording(); }));
  const AccountSessionInfo ended = keeper.stop("a", kAlice);
  EXPECT_EQ(ended.state, AccountSessionState::kTooLong);
  EXPECT_EQ(ended.ended, "it had gone on for 0.01 s, the most for one recording");
  EXPECT_THAT(keeper.trace("a", kAlice), HasSubstr("# ended: it had gone on"));
  EXPECT_EQ(keeper.listeners(), 0u);
}

TEST(AccountSessions, EndByThemselvesWhenTheyAreTooLarge) {
  AccountSessionLimits limits;
  limits.bytes = 100;  // less than the header
  Keeper keeper(limits);
  keeper.start(named("a"), kAlice);
  ASSERT_TRUE(eventually([&] { return keeper.find("a", kAlice).state == AccountSessionState::kTooLarge; }));
  EXPECT_EQ(keeper.listeners(), 0u);
}

TEST(AccountSessions, AreForgottenAWhileAfterTheirEnd) {
  AccountSessionLimits limits;
  limits.kept = Seconds(0.01);
  Keeper keeper(limits);
  keeper.start(named("a"), kAlice);
  keeper.stop("a", kAlice);
  EXPECT_TRUE(eventually([&] { return keeper.names_of(kAlice).empty(); }));
}

TEST(AccountSessions, RecordWhatIsAskedFor) {
  Keeper keeper;
  AccountSessionRequest request = named("a");
  request.gpus = {{1, 1}};
  EXPECT_THAT(keeper.start(request, kAlice).devices, ElementsAre("GPU:1"));
  request.name = "b";
  request.gpus = {{7}};
  EXPECT_EQ(refused_status([&] { keeper.start(request, kAlice); }, "no GPU:7; this node can record GPU:0, GPU:1"),
            404u);
  request.gpus.emplace();
  EXPECT_EQ(refused_status([&] { keeper.start(request, kAlice); }, "nothing to record"), 422u);
  request.gpus.reset();
  request.row_period = Seconds(0.001);
  EXPECT_EQ(refused_status([&] { keeper.start(request, kAlice); }, "this agent samples every 4 ms"), 422u);
  Keeper bare({}, 0);
  EXPECT_EQ(refused_status([&] { bare.start(named("a"), kAlice); }, "nothing to record"), 422u);
}

TEST(AccountSessions, TellOfADeviceThatIsLostMeanwhile) {
  Keeper keeper;
  EXPECT_TRUE(keeper.start(named("a"), kAlice).failures.empty());
  keeper.gpus[1]->lose();
  ASSERT_TRUE(eventually([&] { return !keeper.find("a", kAlice).failures.empty(); }));
  const AccountSessionInfo ended = keeper.stop("a", kAlice);
  EXPECT_EQ(ended.state, AccountSessionState::kStopped);
  EXPECT_THAT(ended.failures, ElementsAre(HasSubstr("readings failed, rows are missing: GPU:1")));
}

TEST(AccountSessions, ADroppedSessionEndsWhoeverWaitsForIt) {
  Keeper keeper;
  EXPECT_EQ(refused_status([&] { keeper.start_and_drop(named("a"), kAlice); }, "was dropped before it began"), 410u);
  EXPECT_EQ(keeper.listeners(), 0u);
}

}  // namespace
}  // namespace flyball
