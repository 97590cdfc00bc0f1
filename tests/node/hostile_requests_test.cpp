// Single requests of a stranger, sent to the agent as a process of its own: it refuses them and goes on.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "sim/simulated.h"
#include "support/agent_process.h"
#include "support/raw_socket.h"
#include "support/temp_folder.h"

namespace flyball::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

class HostileAgentRequests : public ::testing::Test {
 protected:
  HostileAgentRequests() : machine_("a100", 2, 1.0), agent_(machine_.name(), folder_.path()) { agent_.start(); }

  Response ask(std::string_view method, const std::string& target, const std::string& body = {}) {
    return HttpClient(agent_.endpoint()).request(method, target, body);
  }
  double metric(const std::string& name) {
    const std::string text = ask("GET", "/metrics").body;
    const std::size_t at = text.find("\n" + name + " ");
    return at == std::string::npos ? -1.0 : std::stod(text.substr(at + name.size() + 2));
  }

  TempFolder folder_;
  SimulatedMachine machine_;
  AgentProcess agent_;
};

TEST_F(HostileAgentRequests, DeepJsonIsRefused) {
  const std::string deep = std::string(100'000, '[') + std::string(100'000, ']');
  for (const std::string& body : {deep, "{\"purpose\":" + deep + "}", "{\"gpus\":" + deep + "}"}) {
    for (const char* path : {"/v1/leases", "/v1/sessions"}) {
      const Response answer = ask("POST", path, body);
      EXPECT_EQ(answer.status, 400u) << path;
      EXPECT_THAT(answer.body, HasSubstr("more than 64 deep")) << path;
    }
  }
  EXPECT_EQ(ask("GET", "/healthz").status, 200u);
  EXPECT_EQ(metric("flyball_agent_exceptions_total"), 0.0);
}

TEST_F(HostileAgentRequests, ALeaseOfAClientThatHasGoneIsNotKept) {
  {
    std::vector<std::unique_ptr<RawSocket>> clients;
    for (int i = 0; i < 50; ++i) {
      clients.push_back(std::make_unique<RawSocket>(agent_.endpoint().socket_path));
      clients.back()->send("POST /v1/leases HTTP/1.1\r\nHost: x\r\nContent-Length: 12\r\n\r\n{\"gpus\":[0]}");
    }
  }
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (metric("flyball_agent_connections") > 1.0 || metric("flyball_agent_leases") > 0.0) {
    ASSERT_LT(std::chrono::steady_clock::now(), end);
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

// As zeusd's framework and handlers say it: a query that cannot be read, and a GPU to be set that is not there, in
// plain text; an index that is none, in JSON.
TEST_F(HostileAgentRequests, ZeusdsRoutesRefuseAsZeusdDoes) {
  const std::string set = "/gpu/set_persistence_mode?";
  for (const auto& [query, words] : std::vector<std::pair<std::string, std::string>>{
           {"enabled=true&block=true", "Query deserialize error: missing field `gpu_ids`"},
           {"gpu_ids=0&enabled=yes&block=true", "Query deserialize error: "},
           {"gpu_ids=0&enabled=true&block=true&more=1",
            "Query deserialize error: unknown field `more`, expected one of"},
           {"gpu_ids=0,7&enabled=true&block=true", "GPU index 7 does not exist."}}) {
    const Response answer = ask("POST", set + query);
    EXPECT_EQ(answer.status, 400u) << query;
    EXPECT_EQ(answer.content_type, "text/plain; charset=utf-8") << query;
    EXPECT_THAT(answer.body, StartsWith(words)) << query;
  }
  const Response index = ask("POST", set + "gpu_ids=x&enabled=true&block=true");
  EXPECT_EQ(index.status, 400u);
  EXPECT_EQ(index.content_type, "application/json");
  EXPECT_EQ(index.body, R"({"error":"Invalid GPU index: 'x'"})");
}

}  // namespace
}  // namespace flyball::testing
