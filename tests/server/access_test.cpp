// Who without a token can take what from those who have one.
#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "base/record.h"
#include "server/test_server.h"
#include "support/event_stream.h"
#include "support/raw_socket.h"

namespace flyball::testing {
namespace {

using ::testing::HasSubstr;

constexpr const char* kRegistration = "registration-registration-registration";

int refused_of(Client& client, const std::string& target, int requests) {
  int refused = 0;
  for (int i = 0; i < requests; ++i) refused += client.ask("GET", target).status == 429 ? 1 : 0;
  return refused;
}

TEST(Access, AStrangerCannotUseUpWhatAJobMayAsk) {
  PlanningServerOptions options = local_options();
  options.administrator_token = kAdministrator;
  options.requests_per_second = 20;
  options.requests_per_second_rank = 40;
  ServerThread server(options);
  Client rank(server.port(), kToken);
  rank.post("/v1/jobs", to_json(small_job()), 201);
  rank.post("/v1/jobs/job/ranks", to_json(rank_of(small_job(), 0)), 201);

  // From the rank's own address: without a token and with a wrong one, until nothing else than 429 comes back for long.
  const std::string schedule = "/v1/jobs/job/ranks/0/schedule";
  Client stranger(server.port());
  Client liar(server.port(), "ffffffffffffffffffffffffffffffff");
  int refused = 0;
  while (refused < 100) refused += refused_of(stranger, schedule, 10) + refused_of(liar, schedule, 10);
  // The job's own share is 20 + 2 * 40 a second and twice that at once: 150 more are within it, however fast they come.
  EXPECT_EQ(refused_of(rank, schedule, 150), 0);
  Client administrator(server.port(), kAdministrator);
  EXPECT_EQ(refused_of(administrator, "/v1/jobs", 30), 0);
  // Nor can the job use up the administrator's share.
  while (refused_of(rank, schedule, 10) == 0) {
  }
  EXPECT_EQ(refused_of(administrator, "/v1/jobs", 5), 0);
}

// Sums are for everybody. What single jobs do is for whoever may read all of them.
TEST(Access, MetricsOfSingleJobsAreTheAdministrators) {
  PlanningServerOptions options = local_options();
  options.administrator_token = kAdministrator;
  ServerThread server(options);
  JobRequest job = small_job("night");
  job.name = R"(a "name"
flyball_server_jobs 9)";
  Client rank(server.port(), kToken);
  rank.post("/v1/jobs", to_json(job), 201);
  const std::string told = Client(server.port(), kAdministrator).ask("GET", "/metrics").body;
  EXPECT_THAT(told, HasSubstr(R"(flyball_job_info{job_id="night",name="a \"name\"\nflyball_server_jobs 9",)"));
  EXPECT_THAT(told, HasSubstr(R"(flyball_job_promise{job_id="night",promise="unknown"} 1)"));
  for (const char* const token : {"", kToken}) {
    const std::string sums = Client(server.port(), token).ask("GET", "/metrics").body;
    EXPECT_THAT(sums, HasSubstr("flyball_server_jobs{state="));
    EXPECT_THAT(sums, ::testing::Not(HasSubstr("flyball_job")));
    EXPECT_THAT(sums, ::testing::Not(HasSubstr("night")));
  }
}

// A million bytes count as 1 + 1,000,000 / 8192 = 123 requests. Of 200 at once and 100 a second, 50 long requests are
// more than a stranger has, unless each takes over a second; for whoever shows the job's token they are 50.
TEST(Access, WhatAStrangerSendsCountsByItsLength) {
  PlanningServerOptions options = local_options();
  options.requests_per_second = 100;
  ServerThread server(options);
  Client rank(server.port(), kToken);
  rank.post("/v1/jobs", to_json(small_job()), 201);
  const std::string longest(1'000'000, 'x');
  const auto refused_of_50 = [&](Client& client, const std::string& body) {
    int refused = 0;
    for (int i = 0; i < 50; ++i) refused += client.ask("POST", "/v1/jobs/job/ranks", body).status == 429 ? 1 : 0;
    return refused;
  };
  Client stranger(server.port());
  EXPECT_EQ(refused_of_50(stranger, "x"), 0);
  EXPECT_EQ(refused_of_50(rank, longest), 0);
  EXPECT_GT(refused_of_50(stranger, longest), 0);
}

// What is no JSON is told so (400) only to whoever may register.
TEST(Access, ALongBodyIsNotParsedBeforeTheTokenIsRight) {
  PlanningServerOptions options = local_options();
  options.registration_token = kRegistration;
  ServerThread server(options);
  const std::string longest(1'000'000, '[');
  EXPECT_EQ(Client(server.port()).ask("POST", "/v1/jobs", longest).status, 401u);
  EXPECT_EQ(Client(server.port(), kToken).ask("POST", "/v1/jobs", longest).status, 403u);
  EXPECT_EQ(Client(server.port(), kRegistration).ask("POST", "/v1/jobs", longest).status, 400u);
}

TEST(Access, RegisteringTakesTheTokenForIt) {
  PlanningServerOptions options = local_options();
  options.administrator_token = kAdministrator;
  options.registration_token = kRegistration;
  ServerThread server(options);
  Client nobody(server.port());
  Client owner(server.port(), kToken);
  Client registrar(server.port(), kRegistration);
  EXPECT_THAT(nobody.post("/v1/jobs", to_json(small_job()), 401)["detail"], HasSubstr("FLYBALL_REGISTRATION_TOKEN"));
  EXPECT_THAT(owner.post("/v1/jobs", to_json(small_job()), 403)["detail"], HasSubstr("registration token"));
  registrar.post("/v1/jobs", to_json(small_job()), 201);
  Client(server.port(), kAdministrator).post("/v1/jobs", to_json(small_job("other")), 201);
  // It opens nothing else, and a job that is there asks for its own token.
  EXPECT_EQ(registrar.ask("GET", "/v1/jobs/job").status, 403u);
  EXPECT_EQ(registrar.ask("GET", "/v1/jobs").status, 403u);
  owner.post("/v1/jobs", to_json(small_job()), 200);
  registrar.post("/v1/jobs", to_json(small_job()), 200);
}

TEST(Access, BeyondThisMachineRegisteringTakesTheAdministratorsToken) {
  PlanningServerOptions options = local_options();
  options.listen_host = "0.0.0.0";
  options.administrator_token = kAdministrator;
  {
    ServerThread server(options);
    Client(server.port()).post("/v1/jobs", to_json(small_job()), 401);
    Client(server.port(), kToken).post("/v1/jobs", to_json(small_job()), 403);
    Client(server.port(), kAdministrator).post("/v1/jobs", to_json(small_job()), 201);
  }
  options.open_registration = true;
  ServerThread open(options);
  Client(open.port()).post("/v1/jobs", to_json(small_job()), 201);
}

// From another address of this machine; the status of the answer.
unsigned registers_from(const char* address, std::uint16_t port, const std::string& token) {
  const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in from{};
  from.sin_family = AF_INET;
  EXPECT_EQ(::inet_pton(AF_INET, address, &from.sin_addr), 1);
  EXPECT_EQ(::bind(socket, reinterpret_cast<const sockaddr*>(&from), sizeof from), 0);
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(port);
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  EXPECT_EQ(::connect(socket, reinterpret_cast<const sockaddr*>(&to), sizeof to), 0);
  const std::string body = to_json(small_job()).dump();
  const std::string request =
      "POST /v1/jobs HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nAuthorization: Bearer " + token +
      "\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
  EXPECT_EQ(::send(socket, request.data(), request.size(), MSG_NOSIGNAL), static_cast<ssize_t>(request.size()));
  std::string answer;
  char block[4096];
  for (ssize_t count = 0; (count = ::read(socket, block, sizeof block)) > 0;) {
    answer.append(block, static_cast<std::size_t>(count));
  }
  ::close(socket);
  return answer.size() < 12 ? 0 : static_cast<unsigned>(std::stoul(answer.substr(9, 3)));  // "HTTP/1.1 201 Created"
}

TEST(Access, WhoMayRegisterCannotUseUpWhatOthersMayRegister) {
  PlanningServerOptions options = local_options();
  options.administrator_token = kAdministrator;
  options.registration_token = kRegistration;
  options.requests_per_second = 20;
  ServerThread server(options);
  Client greedy(server.port(), kRegistration);
  while (refused_of(greedy, "/openapi.yaml", 10) < 10) {
  }
  EXPECT_EQ(registers_from("127.0.0.2", server.port(), kRegistration), 201u);
}

TEST(Access, TheNamesOfZeusJobsAreForTheAdministrator) {
  const TempFolder folder;
  PlanningServerOptions options = local_options();
  options.socket_path = folder / "s";
  ServerThread server(options);
  Client stranger(server.port());
  stranger.post("/v1/jobs", to_json(small_job()), 201);
  const std::string body = R"({"job_id":"","pp_degree":2,"dp_degree":1,"tp_degree":1,"world_size":2,)"
                           R"("job_metadata":"reports=yes microbatches=4"})";
  EXPECT_EQ(stranger.ask("POST", "/register_job", body).status, 200u);
  const nlohmann::json listed = stranger.get("/v1/jobs")["jobs"];
  ASSERT_EQ(listed.size(), 1u);
  EXPECT_EQ(listed[0]["job"], "job");
  // All that there is comes before the second sums.
  int sums = 0;
  std::vector<std::string> told;
  follow_events(RawSocket(server.port()), "/v1/events", [&](const ServerEvent& event) {
    if (event.name == "job") told.push_back(nlohmann::json::parse(event.data)["job"]);
    sums += event.name == "fleet" ? 1 : 0;
    return sums < 2;
  });
  EXPECT_EQ(told, std::vector<std::string>{"job"});
  // The server's own user.
  HttpClient local(parse_endpoint(options.socket_path), {});
  EXPECT_EQ(nlohmann::json::parse(local.request("GET", "/v1/jobs").body)["jobs"].size(), 2u);
}

// Zeus's clients know no tokens, but make this header of a server_url that has one: http://zeus:TOKEN@HOST:PORT.
TEST(Access, ZeusClientsShowTheTokenInTheirUrl) {
  PlanningServerOptions options = local_options();
  options.registration_token = kRegistration;
  ServerThread server(options);
  const std::string body = R"({"job_id":"","pp_degree":2,"dp_degree":1,"tp_degree":1,"world_size":2,)"
                           R"("job_metadata":"reports=yes microbatches=4"})";
  EXPECT_EQ(Client(server.port()).ask("POST", "/register_job", body).status, 401u);
  const auto register_with = [&](const std::string& credentials) {
    const RawSocket socket(server.port());
    socket.send("POST /register_job HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nAuthorization: Basic " +
                credentials + "\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body);
    return socket.read_all();
  };
  // base64 of zeus:registration-registration-registration
  EXPECT_THAT(register_with("emV1czpyZWdpc3RyYXRpb24tcmVnaXN0cmF0aW9uLXJlZ2lzdHJhdGlvbg=="), HasSubstr("200 OK"));
  EXPECT_THAT(register_with("emV1czp3cm9uZw=="), HasSubstr("403"));  // zeus:wrong
  EXPECT_THAT(register_with("*"), HasSubstr("401"));
}

}  // namespace
}  // namespace flyball::testing
