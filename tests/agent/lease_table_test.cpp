#include "agent/lease_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace flyball {
namespace {

using Reason = LeaseRefused::Reason;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

Claimant user(uid_t uid, pid_t pid, std::uint64_t connection = 1) {
  Claimant who;
  who.local = true;
  who.uid = uid;
  who.pid = pid;
  who.connection = connection;
  return who;
}

Claimant remote(std::uint64_t connection) {
  Claimant who;
  who.connection = connection;
  who.name = "10.0.0.7:999";
  return who;
}

LeaseRequest for_gpus(std::vector<std::size_t> gpus) {
  LeaseRequest request;
  request.gpus = std::move(gpus);
  request.heartbeat_timeout = Seconds(1);
  return request;
}

SettingsChange clocks(double mhz) {
  SettingsChange change;
  change.sm_clocks = ClockBounds{Megahertz(mhz), Megahertz(mhz)};
  return change;
}

template <class Action>
Reason refusal(Action action, const std::string& words = "") {
  try {
    action();
  } catch (const LeaseRefused& refused) {
    EXPECT_THAT(refused.what(), HasSubstr(words));
    return refused.reason();
  }
  ADD_FAILURE() << "not refused";
  return Reason::kNoSuchGpu;
}

TEST(LeaseTable, AGpuHasOneHolder) {
  LeaseTable table(4, {});
  const std::string id = table.grant(for_gpus({0, 1}), user(1000, 10), 0).id;
  EXPECT_EQ(refusal(
                [&] {
                  table.grant(for_gpus({1, 2}), user(1001, 11), 0);
                },
                "GPU 1 is leased to uid 1000, pid 10"),
            Reason::kHeld);
  EXPECT_EQ(table.on_gpu(2), nullptr) << "a refused request must leave nothing behind";
  table.grant(for_gpus({2}), user(1001, 11), 0);
  EXPECT_TRUE(table.end(id, LeaseEnd::kReleased).has_value());
  EXPECT_EQ(table.on_gpu(0), nullptr);
  table.grant(for_gpus({0, 1}), user(1001, 11), 0);
}

TEST(LeaseTable, TheSameHolderDoesNotGetAGpuTwice) {
  LeaseTable table(1, {});
  table.grant(for_gpus({0}), user(1000, 10), 0);
  EXPECT_EQ(refusal([&] { table.grant(for_gpus({0}), user(1000, 10), 0); }), Reason::kHeld);
}

TEST(LeaseTable, AGpuThatIsNotThereIsRefused) {
  LeaseTable table(2, {});
  EXPECT_EQ(refusal([&] { table.grant(for_gpus({2}), user(1000, 10), 0); }, "this node has 2"), Reason::kNoSuchGpu);
}

TEST(LeaseTable, OnlyTheHoldersProcessMayWrite) {
  LeaseTable table(2, {});
  const std::string id = table.grant(for_gpus({0}), user(1000, 10), 0).id;
  const std::vector<Knob> sm = {Knob::kSmClocks};
  table.check_write(id, 0, sm, user(1000, 10, 2), 0);  // on another connection of its own
  EXPECT_EQ(refusal([&] { table.check_write(id, 0, sm, user(1000, 99, 2), 0); }, "\"shared\": true"),
            Reason::kForbidden);
  Claimant reused = user(1000, 10, 2);
  reused.started = 77;  // another process that was given the number
  EXPECT_EQ(refusal([&] { table.check_write(id, 0, sm, reused, 0); }), Reason::kForbidden);
  EXPECT_EQ(refusal([&] { static_cast<void>(table.check_release(id, user(1001, 99, 2))); }), Reason::kForbidden);
  EXPECT_EQ(refusal([&] { table.heard_from(id, user(1000, 99, 2), 0); }), Reason::kForbidden);
  EXPECT_EQ(refusal([&] { table.check_write(id, 0, sm, user(1001, 10), 0); }, "belongs to"), Reason::kForbidden);
  EXPECT_EQ(refusal([&] { table.check_write(id, 0, sm, user(0, 1), 0); }), Reason::kForbidden);
  EXPECT_EQ(refusal([&] { table.check_write(id, 1, sm, user(1000, 10), 0); }, "does not cover GPU 1"),
            Reason::kForbidden);
}

TEST(LeaseTable, ASharedLeaseIsAllOfItsUsersProcesses) {
  LeaseTable table(1, {});
  LeaseRequest request = for_gpus({0});
  request.shared = true;
  const std::string id = table.grant(request, user(1000, 10), 0).id;
  table.check_write(id, 0, {Knob::kSmClocks}, user(1000, 99, 2), 0);
  EXPECT_EQ(refusal([&] { table.check_write(id, 0, {Knob::kSmClocks}, user(1001, 10, 2), 0); }), Reason::kForbidden);
  EXPECT_EQ(table.check_release(id, user(1000, 99, 2)).id, id);
}

// Of a process outside the agent's sight, in another container, all that is known is its connection.
TEST(LeaseTable, AProcessThatIsNotSeenIsItsConnection) {
  LeaseTable table(1, {});
  const std::string id = table.grant(for_gpus({0}), user(1000, 0, 5), 0).id;
  table.check_write(id, 0, {Knob::kSmClocks}, user(1000, 0, 5), 0);
  EXPECT_EQ(refusal([&] { table.check_write(id, 0, {Knob::kSmClocks}, user(1000, 0, 6), 0); }), Reason::kForbidden);
}

// 128 random bits in hexadecimal; shown to the user's own and to those who may end every lease.
TEST(LeaseTable, IdentifiersAreNotGuessedAndNotShownToOthers) {
  LeaseTable table(2, {});
  const Lease& lease = table.grant(for_gpus({0}), user(1000, 10), 0);
  const std::string other = table.grant(for_gpus({1}), user(1000, 10), 0).id;
  EXPECT_THAT(lease.id, ::testing::MatchesRegex("[0-9a-f]{32}"));
  EXPECT_NE(lease.id.substr(0, 16), other.substr(0, 16));
  EXPECT_EQ(table.info_for(lease, user(1000, 11, 2), 0).id, lease.id);
  EXPECT_EQ(table.info_for(lease, user(0, 1, 2), 0).id, lease.id);
  EXPECT_EQ(table.info_for(lease, user(1001, 10, 2), 0).id, "");
  EXPECT_EQ(table.info_for(lease, remote(3), 0).id, "");
  AccessRules rules;
  rules.remote_ends_leases = true;
  LeaseTable open(1, rules);
  const Lease& theirs = open.grant(for_gpus({0}), user(1000, 10), 0);
  EXPECT_EQ(open.info_for(theirs, remote(3), 0).id, theirs.id);
  rules.remote = false;  // as of an agent without a token
  LeaseTable closed(1, rules);
  const Lease& safe = closed.grant(for_gpus({0}), user(1000, 10), 0);
  EXPECT_EQ(closed.info_for(safe, remote(3), 0).id, "");
}

// What is written before a lease begins is the agent's time: asked for at 0, begun at 5 s, silent until 6 s.
TEST(LeaseTable, ALeaseInPreparationIsNotSilent) {
  LeaseTable table(1, {});
  const std::string id = table.grant(for_gpus({0}), user(1000, 10), 0).id;
  table.prepare(id);
  EXPECT_EQ(table.next_deadline(), std::nullopt);
  EXPECT_THAT(table.expired(4 * kSecond), IsEmpty());
  table.begin(id, 5 * kSecond);
  EXPECT_EQ(table.next_deadline(), 6 * kSecond);
  EXPECT_EQ(table.find(id)->info(5 * kSecond).age, Seconds(0));
}

TEST(LeaseTable, OnlyWhatWasAskedForMayBeSet) {
  LeaseTable table(1, {});
  LeaseRequest request = for_gpus({0});
  request.may_set = {Knob::kSmClocks};
  const std::string id = table.grant(request, user(1000, 10), 0).id;
  table.check_write(id, 0, {Knob::kSmClocks}, user(1000, 10), 0);
  EXPECT_EQ(refusal([&] { table.check_write(id, 0, {Knob::kPowerLimit}, user(1000, 10), 0); }, "power_limit"),
            Reason::kForbidden);
}

// Who may kill the process may end its lease: its user and root; over TCP who has the token, where the rules say so.
TEST(LeaseTable, ItsUserAndOperatorsMayEndALeaseAndOthersMayNot) {
  LeaseTable table(1, {});
  const std::string id = table.grant(for_gpus({0}), user(1000, 10), 0).id;
  EXPECT_EQ(refusal([&] { static_cast<void>(table.check_release(id, user(1001, 10))); }), Reason::kForbidden);
  EXPECT_EQ(refusal([&] { static_cast<void>(table.check_release(id, remote(5))); }), Reason::kForbidden);
  EXPECT_EQ(table.check_release(id, user(0, 1)).id, id);
  EXPECT_EQ(table.check_release(id, user(1000, 99, 2)).id, id);
  AccessRules rules;
  rules.remote_ends_leases = true;
  LeaseTable open(1, rules);
  const std::string other = open.grant(for_gpus({0}), user(1000, 10), 0).id;
  EXPECT_EQ(open.check_release(other, remote(5)).id, other);
}

// A trainer takes a new lease within milliseconds of losing one: for ten minutes it does not get it.
TEST(LeaseTable, AProcessWhoseLeaseWasTakenAwayHasToWait) {
  LeaseTable table(3, {});
  const Lease taken = table.grant(for_gpus({0, 1}), user(1000, 10), 0);
  table.bar(taken, 5 * kSecond);
  table.end(taken.id, LeaseEnd::kTakenAway);
  EXPECT_EQ(refusal([&] { table.grant(for_gpus({1}), user(1000, 10, 2), 5 * kSecond); }, "the next one in 600 s"),
            Reason::kForbidden);
  EXPECT_EQ(refusal([&] { table.implicit(0, user(1000, 10), {}, false, Seconds(0), 604 * kSecond); }, "in 1 s"),
            Reason::kForbidden);
  table.end(table.grant(for_gpus({0}), user(1000, 11, 9), 6 * kSecond).id, LeaseEnd::kReleased);  // another process
  table.grant(for_gpus({2}), user(1000, 10), 6 * kSecond);                                        // another GPU
  // Nor does it come back by taking over what another process of its user has set meanwhile.
  const std::string implicit = table.implicit(1, user(1000, 12, 8), {}, true, Seconds(0), 7 * kSecond).id;
  EXPECT_EQ(refusal([&] { table.implicit(1, user(1000, 10), {}, true, Seconds(0), 8 * kSecond); }), Reason::kForbidden);
  table.end(implicit, LeaseEnd::kReleased);
  table.grant(for_gpus({0, 1}), user(1000, 10), 605 * kSecond);
}

// Who keeps a budget states a limit for the loss of the lease, and is to have its GPUs again.
TEST(LeaseTable, AHolderThatKeepsABudgetNeedNotWait) {
  LeaseTable table(1, {});
  const std::string id = table.grant(for_gpus({0}), user(0, 10), 0).id;
  SettingsChange change;
  change.lost_power_limit = Watts(180);
  table.note_change(id, 0, change);
  table.bar(*table.find(id), 0);
  table.end(id, LeaseEnd::kTakenAway);
  table.grant(for_gpus({0}), user(0, 10), kSecond);
}

TEST(LeaseTable, SilenceEndsALeaseAndSignsOfLifeDoNot) {
  LeaseTable table(2, {});
  const std::string a = table.grant(for_gpus({0}), user(1000, 10), 0).id;
  const std::string b = table.grant(for_gpus({1}), user(1000, 11), kSecond / 2).id;
  EXPECT_EQ(table.next_deadline(), kSecond);
  EXPECT_THAT(table.expired(kSecond - 1), IsEmpty());
  EXPECT_THAT(table.expired(kSecond), ElementsAre(a));
  table.heard_from(a, user(1000, 10), kSecond - 1);
  EXPECT_THAT(table.expired(kSecond), IsEmpty());
  EXPECT_EQ(table.next_deadline(), kSecond / 2 + kSecond);
  table.check_write(b, 1, {Knob::kSmClocks}, user(1000, 11), kSecond);
  EXPECT_EQ(table.next_deadline(), 2 * kSecond - 1);
  EXPECT_THAT(table.expired(10 * kSecond), ::testing::UnorderedElementsAre(a, b));
}

TEST(LeaseTable, WhoAsksForAnEndedLeaseHearsWhy) {
  LeaseTable table(1, {});
  const std::string id = table.grant(for_gpus({0}), user(1000, 10), 0).id;
  table.end(id, LeaseEnd::kSilent);
  EXPECT_EQ(refusal([&] { table.heard_from(id, user(1000, 10), 1); }, "its heartbeats stopped"), Reason::kEnded);
  EXPECT_EQ(refusal([&] { table.heard_from("L77", user(1000, 10), 1); }), Reason::kNoSuchLease);
  EXPECT_FALSE(table.end(id, LeaseEnd::kSilent).has_value());
}

TEST(LeaseTable, OverTcpTheConnectionIsTheHolder) {
  LeaseTable table(1, {});
  const std::string id = table.grant(for_gpus({0}), remote(5), 0).id;
  table.check_write(id, 0, {Knob::kSmClocks}, remote(5), 0);
  EXPECT_EQ(refusal([&] { table.check_write(id, 0, {Knob::kSmClocks}, remote(6), 0); }, "10.0.0.7:999"),
            Reason::kForbidden);
  EXPECT_THAT(table.of_connection(5), ElementsAre(id));
}

TEST(LeaseTable, AProcessMustBeVisibleToBeWatched) {
  LeaseTable table(1, {});
  LeaseRequest request = for_gpus({0});
  request.binding = LeaseBinding::kProcess;
  EXPECT_EQ(refusal([&] { table.grant(request, remote(5), 0); }), Reason::kForbidden);
  EXPECT_EQ(refusal([&] { table.grant(request, user(1000, 0), 0); }), Reason::kForbidden);
  const std::string id = table.grant(request, user(1000, 10, 5), 0).id;
  EXPECT_THAT(table.of_connection(5), IsEmpty()) << "its connection's end does not end it";
  EXPECT_NE(table.find(id), nullptr);
}

TEST(LeaseTable, AccessRulesNameUsersPerGpu) {
  AccessRules rules;
  rules.everywhere = std::set<uid_t>{1000};
  rules.of_gpu[1] = {1001};
  rules.remote = false;
  LeaseTable table(2, rules);
  EXPECT_EQ(refusal([&] { table.grant(for_gpus({1}), user(1000, 10), 0); }, "may not set GPU 1"), Reason::kForbidden);
  EXPECT_EQ(refusal([&] { table.grant(for_gpus({0}), user(1001, 10), 0); }), Reason::kForbidden);
  EXPECT_EQ(refusal([&] { table.grant(for_gpus({0}), remote(1), 0); }), Reason::kForbidden);
  table.grant(for_gpus({1}), user(1001, 10), 0);
  table.grant(for_gpus({0}), user(0, 10), 0);
}

// A cap outlasts its lease, so that nothing would end it when another user's process comes.
TEST(LeaseTable, OnlyWhoMaySlowOthersLeavesACap) {
  LeaseRequest request = for_gpus({0});
  request.lost_power_limit = Watts(180);
  LeaseTable table(1, {});
  EXPECT_EQ(refusal([&] { table.grant(request, user(1000, 10), 0); }, "access.slow_others"), Reason::kForbidden);
  EXPECT_EQ(refusal([&] { table.check_cap(0, user(1000, 10)); }), Reason::kForbidden);
  table.end(table.grant(request, user(0, 10), 0).id, LeaseEnd::kReleased);
  table.end(table.grant(request, remote(5), 0).id, LeaseEnd::kReleased);
  AccessRules rules;
  rules.slow_others = true;
  LeaseTable(1, rules).grant(request, user(1000, 10), 0);
  rules.remote = false;
  EXPECT_EQ(refusal([&] { LeaseTable(1, rules).check_cap(0, remote(5)); }, "over TCP"), Reason::kForbidden);
}

TEST(LeaseTable, AWriteWithoutALeaseMakesOneOfItsProcess) {
  LeaseTable table(1, {});
  const std::string id = table.implicit(0, user(1000, 10), {}, false, Seconds(0), 0).id;
  EXPECT_EQ(table.next_deadline(), std::nullopt) << "its process is watched instead";
  EXPECT_EQ(refusal([&] { table.implicit(0, user(1000, 11, 2), {}, false, Seconds(0), 5); }), Reason::kHeld);
  const Lease& taken_over = table.implicit(0, user(1000, 11, 2), {}, true, Seconds(0), 5);
  EXPECT_EQ(taken_over.id, id) << "where the configuration lets a user's processes share";
  EXPECT_EQ(taken_over.holder.pid, 11);
  EXPECT_EQ(refusal([&] { table.implicit(0, user(1001, 12, 3), {}, true, Seconds(0), 5); }), Reason::kHeld);
}

TEST(LeaseTable, AWriteOverTcpLastsForItsTimeAndIsRenewed) {
  LeaseTable table(1, {});
  const std::string id = table.implicit(0, remote(5), {}, false, Seconds(2), 0).id;
  EXPECT_EQ(table.next_deadline(), 2 * kSecond);
  EXPECT_EQ(table.implicit(0, remote(6), {}, false, Seconds(2), kSecond).id, id)
      << "the same client on a new connection";
  EXPECT_EQ(table.next_deadline(), 3 * kSecond);
  EXPECT_EQ(refusal([&] { table.implicit(0, user(1000, 1, 2), {}, false, Seconds(0), kSecond); }), Reason::kHeld);
}

TEST(LeaseTable, AWriteWithoutALeaseUsesTheOneOfItsProcess) {
  LeaseTable table(1, {});
  const std::string id = table.grant(for_gpus({0}), user(1000, 10), 0).id;
  EXPECT_EQ(table.implicit(0, user(1000, 10), {}, false, Seconds(0), 0).id, id);
  EXPECT_EQ(refusal([&] { table.implicit(0, user(1000, 11, 2), {}, false, Seconds(0), 0); }), Reason::kHeld);
}

TEST(LeaseTable, RemembersWhatIsSet) {
  LeaseTable table(1, {});
  const std::string id = table.grant(for_gpus({0}), user(1000, 10), 0).id;
  table.note_change(id, 0, clocks(1005));
  EXPECT_EQ(table.find(id)->info(0).settings.at(0).sm_clocks, (ClockBounds{Megahertz(1005), Megahertz(1005)}));
  SettingsChange reset;
  reset.sm_clocks = std::optional<ClockBounds>();
  table.note_change(id, 0, reset);
  EXPECT_TRUE(table.find(id)->info(0).settings.at(0).all_default());
}

}  // namespace
}  // namespace flyball
