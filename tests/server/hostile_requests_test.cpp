// Single requests and short loops of a stranger without credentials, through a real server: it refuses them or does
// what they say, keeps nothing of them, and serves the others.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <future>
#include <memory>
#include <regex>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "base/contain.h"
#include "base/record.h"
#include "server/planning_queue.h"
#include "server/store.h"
#include "server/test_server.h"
#include "support/raw_socket.h"

namespace flyball::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

nlohmann::ordered_json zeus_job(const std::string& metadata) {
  return {{"job_id", ""},   {"pp_degree", 2},  {"dp_degree", 1},
          {"tp_degree", 1}, {"world_size", 2}, {"job_metadata", metadata}};
}

double metric(Client& client, const std::string& name) {
  const std::string text = client.ask("GET", "/metrics").body;
  std::smatch found;
  if (!std::regex_search(text, found, std::regex("\n" + name + " ([0-9.e+]+)"))) return -1.0;
  return std::stod(found[1]);
}

bool becomes(Client& client, const std::string& name, double value) {
  for (int i = 0; i < 600; ++i) {
    if (metric(client, name) == value) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  return false;
}

// --- Texts ---------------------------------------------------------------------------------------------------------

// 255 bytes, then characters of 2, 3 and 4 bytes: the job's name, at most 256 bytes, would end within one.
TEST(HostileRequests, ANameIsCutBetweenCharacters) {
  const TempFolder folder;
  PlanningServerOptions options = local_options(folder / "a.db");
  options.administrator_token = kToken;  // lists Zeus's jobs, too
  ServerThread server(options);
  Client client(server.port(), kToken);
  const std::string words = "reports=yes microbatches=4 ";
  for (const std::string character : {"ü", "層", "🔥"}) {
    for (std::size_t before = 252; before <= 256; ++before) {
      std::string metadata = words + std::string(before - words.size(), 'x');
      metadata += character + "and more";
      client.post("/register_job", zeus_job(metadata));
    }
  }
  const nlohmann::json listed = client.get("/v1/jobs");
  for (const auto& job : listed["jobs"]) {
    const std::string name = job["name"];
    EXPECT_LE(name.size(), 256u);
    EXPECT_GE(name.size(), 252u);
    EXPECT_THAT(name, StartsWith(words));
  }
  EXPECT_EQ(listed["jobs"].size(), 15u);
  EXPECT_EQ(metric(client, "flyball_server_exceptions_total"), static_cast<double>(contained_exceptions()));
}

TEST(HostileRequests, BytesThatAreNoUtf8AreRefusedAtTheDoor) {
  ServerThread server;
  Client client(server.port());
  std::string body = zeus_job("reports=yes microbatches=4 \x01").dump();
  body.replace(body.find("\\u0001"), 6, "\xE2\x82");
  EXPECT_EQ(client.ask("POST", "/register_job", body).status, 422u);
  EXPECT_EQ(client.ask("GET", "/schedule/%E2%82?rank=0").status, 400u);
  EXPECT_EQ(client.ask("GET", "/v1/jobs/%FF").status, 400u);
  EXPECT_EQ(client.ask("POST", "/v1/jobs", "{\"id\":\"\xC3\",\"stages\":2,\"microbatches\":4}").status, 400u);
  EXPECT_EQ(client.ask("GET", "/healthz").status, 200u);
}

TEST(HostileRequests, DeepJsonIsRefusedByEveryRoute) {
  ServerThread server;
  Client client(server.port(), kToken);
  client.post("/v1/jobs", to_json(small_job()), 201);
  const std::string zeus = client.post("/register_job", zeus_job("reports=yes microbatches=4"));
  for (const std::string& deep : {std::string(100'000, '['), std::string(100'000, '[') + std::string(100'000, ']')}) {
    for (const std::string& body : {deep, "{\"id\":" + deep + "}"}) {
      for (const std::string path :
           {"/v1/jobs", "/v1/jobs/job/ranks", "/v1/jobs/job/measurements", "/v1/jobs/job/stragglers",
            "/v1/jobs/job/steps", "/v1/jobs/job/orders", "/v1/jobs/job/promises"}) {
        const Response answer = client.ask("POST", path, body);
        EXPECT_EQ(answer.status, 400u) << path;
        EXPECT_THAT(answer.body, HasSubstr("more than 64 deep")) << path;
      }
      for (const std::string& path : {std::string("/register_job"), "/register_rank/" + zeus, "/result/" + zeus}) {
        EXPECT_EQ(client.ask("POST", path, body).status, 422u) << path;
      }
    }
  }
  EXPECT_EQ(client.ask("GET", "/healthz").status, 200u);
}

// --- Waiting -------------------------------------------------------------------------------------------------------

TEST(HostileRequests, PollsOfClientsThatHaveGoneAreFreed) {
  ServerThread server;
  Client client(server.port(), kToken);
  const JobRequest job = small_job();
  client.post("/v1/jobs", to_json(job), 201);
  const std::string zeus = client.post("/register_job", zeus_job("reports=yes microbatches=4"));
  for (int rank = 0; rank < 2; ++rank) client.post("/v1/jobs/job/ranks", to_json(rank_of(job, rank)), 201);
  client.post("/register_rank/" + zeus,
              {{"rank", 0}, {"dp_rank", 0}, {"pp_rank", 0}, {"tp_rank", 0}, {"available_frequencies", {1410, 1200}}});
  const std::string zeus_poll = "GET /schedule/" + zeus + "?rank=0 HTTP/1.1\r\nHost: localhost\r\n\r\n";
  const std::string own_poll =
      std::string("GET /v1/jobs/job/ranks/1/schedule?wait_s=3000 HTTP/1.1\r\nHost: localhost\r\n") +
      "Authorization: Bearer " + kToken + "\r\n\r\n";
  // Four of each may wait, no more: a further one ends the oldest.
  {
    std::vector<std::unique_ptr<RawSocket>> clients;
    for (int i = 0; i < 100; ++i) {
      for (const std::string& poll : {zeus_poll, own_poll}) {
        clients.push_back(std::make_unique<RawSocket>(server.port()));
        clients.back()->send(poll);
      }
    }
    EXPECT_TRUE(becomes(client, "flyball_server_waiting_polls", 8.0));
    EXPECT_THAT(clients[0]->read_until("}"), HasSubstr("HTTP/1.1 503 "));
    EXPECT_THAT(clients[1]->read_until("\r\n\r\n"), HasSubstr("HTTP/1.1 204 "));
    // They ask again and again, as a loop does that does not wait for answers.
    for (int i = 0; i < 200; ++i) clients[static_cast<std::size_t>(i)]->send(i % 2 == 0 ? zeus_poll : own_poll);
    EXPECT_TRUE(becomes(client, "flyball_server_http_open_connections", 201.0));
  }
  EXPECT_TRUE(becomes(client, "flyball_server_http_open_connections", 1.0));
  EXPECT_TRUE(becomes(client, "flyball_server_waiting_polls", 0.0));
  EXPECT_GE(metric(client, "flyball_server_http_abandoned_total"), 8.0);
}

TEST(HostileRequests, OneAddressCannotTakeAllConnections) {
  PlanningServerOptions options = local_options();
  const TempFolder folder;
  options.socket_path = folder / "s";
  options.http.connections_per_party = 5;
  ServerThread server(options);
  Client registrar(server.port());
  const std::string zeus = registrar.post("/register_job", zeus_job("reports=yes microbatches=4"));
  registrar.post("/register_rank/" + zeus,
                 {{"rank", 0}, {"dp_rank", 0}, {"pp_rank", 0}, {"tp_rank", 0}, {"available_frequencies", {1410}}});
  std::vector<std::unique_ptr<RawSocket>> clients;
  for (int i = 0; i < 20; ++i) {
    clients.push_back(std::make_unique<RawSocket>(server.port()));
    clients.back()->send("GET /schedule/" + zeus + "?rank=0 HTTP/1.1\r\nHost: localhost\r\n\r\n");
  }
  // Another party is served all the while: this process's user, through the Unix socket.
  HttpClient other(parse_endpoint(options.socket_path));
  EXPECT_EQ(other.request("GET", "/healthz").status, 200u);
  const std::string metrics = other.request("GET", "/metrics").body;
  std::smatch found;
  ASSERT_TRUE(std::regex_search(metrics, found, std::regex("http_open_connections ([0-9]+)")));
  EXPECT_LE(std::stoi(found[1]), 6);
}

// --- Health --------------------------------------------------------------------------------------------------------

TEST(HostileRequests, HealthIsToldHoweverManyAsk) {
  PlanningServerOptions options = local_options();
  options.requests_per_second = 1.0;
  ServerThread server(options);
  Client client(server.port());
  bool refused = false;
  for (int i = 0; i < 1000 && !refused; ++i) refused = client.ask("GET", "/openapi.yaml").status == 429;
  EXPECT_TRUE(refused);
  for (int i = 0; i < 20; ++i) EXPECT_EQ(client.ask("GET", "/healthz").status, 200u);
}

// --- Threads -------------------------------------------------------------------------------------------------------

// What cannot be written as JSON costs its own entry, not the store's thread, nor what is written with it.
TEST(HostileRequests, TheStoreOutlivesWhatItCannotWrite) {
  tell_contained([](std::string_view, std::string_view) {});
  const TempFolder folder;
  const std::uint64_t before = contained_exceptions();
  const auto stored = [](std::int64_t number) {
    StoredJob job;
    job.job = number;
    job.request = small_job("job-" + std::to_string(number));
    job.token = hash_token(kToken);
    return job;
  };
  {
    Store store(folder / "a.db", [](const std::function<void()>& action) { action(); });
    EXPECT_TRUE(store.load().empty());
    StoredJob broken = stored(1);
    broken.request.name = "\xE2\x82";
    std::promise<std::string> first;
    std::promise<bool> second;
    std::promise<bool> third;
    const Store::Entry one{broken, [&](const std::exception_ptr& error) {
                             try {
                               if (error) std::rethrow_exception(error);
                               first.set_value("");
                             } catch (const std::exception& why) {
                               first.set_value(why.what());
                             }
                           }};
    const Store::Entry two{stored(2), [&](const std::exception_ptr& error) {
                             second.set_value(error == nullptr);
                             throw std::runtime_error("unmeant");  // of what follows a commit
                           }};
    // Both wait when the thread comes to them, so that they are of one transaction.
    HeldStore held(store);
    store.submit(one.write, one.done);
    store.submit(two.write, two.done);
    held.release();
    EXPECT_THAT(first.get_future().get(), HasSubstr("cannot store this"));
    EXPECT_TRUE(second.get_future().get());
    store.submit(stored(3), [&](const std::exception_ptr& error) { third.set_value(error == nullptr); });
    EXPECT_TRUE(third.get_future().get());
    EXPECT_EQ(contained_exceptions(), before + 2);
  }
  Store again(folder / "a.db", [](const std::function<void()>& action) { action(); });
  EXPECT_EQ(again.load().size(), 2u);
  tell_contained({});
}

TEST(HostileRequests, APlannersThreadOutlivesItsWork) {
  PlanningQueue queue([](const std::function<void()>& action) { action(); }, {});
  std::promise<bool> first;
  std::promise<bool> second;
  queue.run(
      Seconds(0), [] { throw std::runtime_error("unmeant"); },
      [&](const std::exception_ptr& error) { first.set_value(error != nullptr); });
  queue.run(
      Seconds(0), [] {}, [&](const std::exception_ptr& error) { second.set_value(error == nullptr); });
  EXPECT_TRUE(first.get_future().get());
  EXPECT_TRUE(second.get_future().get());
}

// --- Files ---------------------------------------------------------------------------------------------------------

TEST(HostileRequests, TheDatabaseIsForTheServerAlone) {
  namespace fs = std::filesystem;
  const TempFolder folder;
  const std::string path = folder / "state/deep/server.db";
  const auto mode = [](const fs::path& of) { return static_cast<unsigned>(fs::status(of).permissions()); };
  const mode_t mask = ::umask(0);
  {
    ServerThread server(local_options(path));
    Client(server.port()).post("/v1/jobs", to_json(small_job()), 201);
    EXPECT_EQ(mode(path), 0600u);
    EXPECT_EQ(mode(fs::path(path).parent_path()), 0700u);
    for (const auto& file : fs::directory_iterator(fs::path(path).parent_path())) EXPECT_EQ(mode(file), 0600u) << file;
  }
  // One of an older version, in a folder that is somebody's choice.
  fs::permissions(path, fs::perms(0644));
  fs::permissions(fs::path(path).parent_path(), fs::perms(0755));
  {
    ServerThread server(local_options(path));
    EXPECT_EQ(mode(path), 0600u);
    EXPECT_EQ(mode(fs::path(path).parent_path()), 0755u);
  }
  ::umask(mask);
}

}  // namespace
}  // namespace flyball::testing
