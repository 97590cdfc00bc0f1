// One user who asks too much of the agent, clumsy or not, keeps it from nobody.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "support/agent_calls.h"
#include "support/agent_host.h"
#include "support/raw_socket.h"

namespace flyball {
namespace {

using testing::AgentHost;
using ::testing::AnyOf;
using ::testing::HasSubstr;
using testing::leases_at;
using testing::RawSocket;

LeaseRequest for_gpu(std::size_t gpu, Seconds timeout = Seconds(30)) {
  LeaseRequest request;
  request.gpus = {gpu};
  request.heartbeat_timeout = timeout;
  return request;
}

constexpr const char* kStreamRequest = "GET /v1/power HTTP/1.1\r\nHost: x\r\n\r\n";

// The status line of an answer.
std::string opened(const RawSocket& socket, const std::string& request = kStreamRequest) {
  socket.send(request);
  const std::string answer = socket.read_until("\r\n\r\n");
  return answer.substr(0, answer.find("\r\n"));
}

// 20 requests a second, of which 20 may come at once: of 200 as fast as they go most are refused, whatever the
// machine's speed up to 9 s for them all. The holder of a lease is heard all the same.
TEST(UserLimits, RequestsAreCountedByUserAndALeasesOwnApart) {
  AgentHost host(1, [](AgentConfig& config) { config.per_user.requests = 20; });
  AgentLease lease = AgentClient(host.endpoint(), "").lease(for_gpu(0));
  HttpClient http(host.endpoint());
  std::string refused;
  for (int i = 0; i < 200; ++i) {
    const Response answer = http.request("GET", "/v1/leases");
    if (answer.status == 429) refused = answer.body;
  }
  EXPECT_THAT(refused, HasSubstr("sends more than 20 requests a second"));
  lease.lock_sm_clocks(0, {Megahertz(1005), Megahertz(1005)});
  EXPECT_EQ(lease.lost(), "");
  EXPECT_EQ(http.request("GET", "/healthz").status, 200u);
  EXPECT_TRUE(host.eventually([&](AgentClient&) {
    const Response metrics = http.request("GET", "/metrics");
    EXPECT_THAT(metrics.status, AnyOf(200u, 429u));
    if (metrics.status != 200) return false;
    EXPECT_THAT(metrics.body, HasSubstr("flyball_agent_limited_total{what=\"requests\"}"));
    EXPECT_THAT(metrics.body, Not(HasSubstr("flyball_agent_limited_total{what=\"requests\"} 0\n")));
    return true;
  }));
}

TEST(UserLimits, StreamsAreCountedByUserAndGivenBack) {
  AgentHost host(1, [](AgentConfig& config) { config.per_user.streams = 3; });
  std::vector<std::unique_ptr<RawSocket>> streams;
  for (int i = 0; i < 3; ++i) {
    streams.push_back(std::make_unique<RawSocket>(host.config.socket_path));
    EXPECT_EQ(opened(*streams.back()), "HTTP/1.1 200 OK");
  }
  EXPECT_THAT(opened(RawSocket(host.config.socket_path)), HasSubstr("429"));
  EXPECT_THAT(opened(RawSocket(host.config.socket_path), "GET /gpu/stream_power HTTP/1.1\r\nHost: x\r\n\r\n"),
              HasSubstr("429"));
  streams.pop_back();
  EXPECT_TRUE(
      host.eventually([&](AgentClient&) { return opened(RawSocket(host.config.socket_path)) == "HTTP/1.1 200 OK"; }));
}

// Streams of 1 ms are 1,000 events a second each: of 4,000 that leaves four, and none of 100 ms beside them.
TEST(UserLimits, StreamedEventsAreCountedByUser) {
  AgentHost host(1);
  const std::string fast = "GET /v1/power?interval=1ms HTTP/1.1\r\nHost: x\r\n\r\n";
  std::vector<std::unique_ptr<RawSocket>> streams;
  for (int i = 0; i < 4; ++i) {
    streams.push_back(std::make_unique<RawSocket>(host.config.socket_path));
    EXPECT_EQ(opened(*streams.back(), fast), "HTTP/1.1 200 OK") << i;
  }
  HttpClient http(host.endpoint());
  const Response refused = http.request("GET", "/v1/power?interval=1ms");
  EXPECT_EQ(refused.status, 429u);
  EXPECT_THAT(refused.body, HasSubstr("ask for a longer interval"));
}

TEST(UserLimits, LeasesAreCountedByUser) {
  AgentHost host(3, [](AgentConfig& config) { config.per_user.leases = 2; });
  AgentClient client(host.endpoint(), "");
  AgentLease first = client.lease(for_gpu(0));
  {
    AgentLease second = client.lease(for_gpu(1));
    try {
      AgentLease third = client.lease(for_gpu(2));
      ADD_FAILURE() << "not refused";
    } catch (const AgentRefusal& refusal) {
      EXPECT_EQ(refusal.status(), 429u);
      EXPECT_THAT(refusal.what(), HasSubstr("holds 2 leases, which is the most"));
    }
    second.release();
  }
  AgentLease third = client.lease(for_gpu(2));
}

// What waits for the driver of one GPU is bounded and forgotten: a thousand wait, the rest are told at once.
TEST(UserLimits, CallsThatWaitForADriverThatHangsAreBounded) {
  AgentHost host(1, [](AgentConfig& config) {
    config.per_user.requests = 100'000;
    config.limits.connections_per_party = 0;
  });
  host.gpus[0]->hang_reads(true);
  std::vector<std::unique_ptr<RawSocket>> waiting;
  HttpClient http(host.endpoint());
  // A connection has one call at a time.
  bool refused = false;
  for (int i = 0; i < 1200 && !refused; ++i) {
    waiting.push_back(std::make_unique<RawSocket>(host.config.socket_path));
    waiting.back()->send("GET /gpu/get_power HTTP/1.1\r\nHost: x\r\n\r\n");
    if (i > 1100) refused = waiting.back()->read_until("\r\n").find("503") != std::string::npos;
  }
  EXPECT_TRUE(refused);
  host.gpus[0]->hang_reads(false);
}

// A lease's clock begins when it is granted: before, it is the journal (here: a call before it) that takes its time.
TEST(UserLimits, ALeaseThatIsLongPreparedDoesNotExpireMeanwhile) {
  AgentHost host(1);
  host.gpus[0]->hang_reads(true);
  RawSocket reader(host.config.socket_path);
  reader.send("GET /v1/gpus/0/clocks HTTP/1.1\r\nHost: x\r\n\r\n");
  ASSERT_TRUE(host.gpus[0]->wait_read_hanging());
  RawSocket asking(host.config.socket_path);
  const std::string body = R"({"gpus": [0], "heartbeat_timeout_s": 0.1})";
  asking.send("POST /v1/leases HTTP/1.1\r\nHost: x\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" +
              body);
  HttpClient http(host.endpoint());
  ASSERT_TRUE(host.eventually([&](AgentClient&) { return leases_at(host.endpoint()).size() == 1; }));
  std::this_thread::sleep_for(std::chrono::milliseconds(450));  // four time-outs; more only makes it harder
  host.gpus[0]->hang_reads(false);
  EXPECT_THAT(asking.read_until("\r\n"), HasSubstr("201 Created"));
}

}  // namespace
}  // namespace flyball
