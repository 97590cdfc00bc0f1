// Servers that answer what no server of ours would: the training process gets an error, and goes on.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "base/utf8.h"
#include "client/agent_client.h"
#include "client/plan_server.h"
#include "net/http_host.h"

namespace flyball {
namespace {

using ::testing::HasSubstr;
using testing::Host;
using testing::route;
using testing::text;

const std::string kDeep = std::string(100'000, '[') + std::string(100'000, ']');

// Answers every request that the clients below make with `body`.
Router answering(unsigned status, const std::string& body) {
  Router router;
  const auto answer = [status, body](const Request&) {
    Response response = text(body);
    response.status = status;
    return response;
  };
  for (const char* path : {"/v1/jobs", "/v1/jobs/{job}/ranks", "/v1/leases", "/v1/sessions"}) {
    router.add(route("POST", path, Handler(answer)));
  }
  router.add(route("GET", "/v1/jobs/{job}/ranks/{rank}/schedule", Handler(answer)));
  return router;
}

JobRequest some_job() {
  JobRequest job;
  job.id = "job";
  job.stages = 1;
  job.microbatches = 1;
  return job;
}

TEST(HostileServer, ADeepAnswerIsAnErrorAndEndsNothing) {
  for (const std::string& body : {kDeep, "{\"rank\":" + kDeep + "}"}) {
    Host host(answering(200, body));
    PlanServer server(host.path(), "token", Seconds(0), "");
    EXPECT_THROW((void)server.join(some_job(), {0, 0, 0, 0, {}}), InputError);
    EXPECT_THROW((void)server.schedule("job", 0, 0, Seconds(0)), InputError);
    AgentClient agent(host.local());
    EXPECT_THROW((void)agent.lease(LeaseRequest{}), InputError);
  }
}

TEST(HostileServer, WhatARefusalQuotesIsUtf8) {
  // 199 bytes, then a character of two: 200 are quoted at most.
  for (const std::string& body : {std::string(199, 'x') + "ü and more", "{\"detail\":" + kDeep + "}"}) {
    Host host(answering(409, body));
    PlanServer server(host.path(), "token", Seconds(0), "");
    try {
      (void)server.join(some_job(), {0, 0, 0, 0, {}});
      ADD_FAILURE() << "no error";
    } catch (const Error& refused) {
      EXPECT_THAT(refused.what(), HasSubstr("409"));
      EXPECT_TRUE(is_utf8(refused.what()));
    }
  }
}

}  // namespace
}  // namespace flyball
