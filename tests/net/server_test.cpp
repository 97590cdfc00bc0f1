#include "net/server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <future>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "net/client.h"
#include "net/http_host.h"
#include "support/event_stream.h"
#include "support/raw_socket.h"
#include "support/temp_folder.h"

namespace flyball {
namespace {

using testing::follow_events;
using ::testing::HasSubstr;
using testing::Host;
using testing::RawSocket;
using testing::route;
using testing::ServerEvent;
using testing::TempFolder;
using testing::text;

Router echo_router() {
  Router router;
  router.add(route("GET", "/hello", Handler([](const Request&) { return text("hello\n"); })));
  router.add(route("POST", "/echo/{name}", Handler([](const Request& request) {
                     return text(request.parameters.at("name") + ":" + request.body);
                   })));
  router.add(route("GET", "/who", Handler([](const Request& request) {
                     return text(request.peer.local
                                     ? std::to_string(request.peer.uid) + "/" + std::to_string(request.peer.pid)
                                     : request.peer.address);
                   })));
  router.add(route("GET", "/fail",
                   Handler([](const Request&) -> Response { throw InputError({"it"}, "is wrong", "mend it"); })));
  return router;
}

TEST(HttpServer, AnswersOverUnixAndTcpOnOneConnection) {
  Host host(echo_router());
  for (const Endpoint& endpoint : {host.local(), host.tcp()}) {
    HttpClient client(endpoint);
    for (int i = 0; i < 3; ++i) EXPECT_EQ(client.request("GET", "/hello").body, "hello\n");
    EXPECT_EQ(client.request("POST", "/echo/a%20b", "{}").body, "a b:{}");
    const std::string large(500'000, 'x');
    EXPECT_EQ(client.request("POST", "/echo/n", large).body.size(), large.size() + 2);
    EXPECT_TRUE(client.connected());
  }
  EXPECT_EQ(host.counts().accepted, 2u);
  EXPECT_EQ(host.counts().requests, 10u);
}

TEST(HttpServer, KnowsWhoIsAtAUnixSocket) {
  Host host(echo_router());
  EXPECT_EQ(HttpClient(host.local()).request("GET", "/who").body,
            std::to_string(::getuid()) + "/" + std::to_string(::getpid()));
  EXPECT_THAT(HttpClient(host.tcp()).request("GET", "/who").body, HasSubstr("127.0.0.1:"));
}

TEST(HttpServer, ErrorsBecomeProblems) {
  Host host(echo_router());
  HttpClient client(host.local());
  const Response wrong = client.request("GET", "/fail");
  EXPECT_EQ(wrong.status, 400u);
  EXPECT_EQ(wrong.content_type, "application/problem+json");
  EXPECT_THAT(wrong.body, HasSubstr("is wrong"));
  EXPECT_EQ(client.request("GET", "/nothing").status, 404u);
  const Response method = client.request("DELETE", "/hello");
  EXPECT_EQ(method.status, 405u);
  EXPECT_EQ(method.header("allow"), "GET");
  EXPECT_EQ(client.request("POST", "/echo/").status, 404u) << "a parameter is never empty";
}

TEST(HttpServer, RepliesMayComeLaterAndFromAnyThread) {
  Router router;
  std::vector<std::thread> threads;
  std::mutex mutex;
  router.add(route("GET", "/later", AsyncHandler([&](const Request&, const Reply& reply) {
                     const std::lock_guard lock(mutex);
                     threads.emplace_back([reply] {
                       reply.send(text("first"));
                       reply.send(text("second"));
                     });
                   })));
  router.add(route("GET", "/dropped", AsyncHandler([](const Request&, const Reply&) {})));
  router.add(route("GET", "/failed", AsyncHandler([](const Request&, const Reply& reply) {
                     reply.fail(std::make_exception_ptr(HttpError(409, "taken", {{"holder", "7"}})));
                   })));
  router.add(route("GET", "/pooled", Handler([](const Request&) -> Response { throw HttpError(503, "not now"); }),
                   Runs::kInPool));
  Host host(std::move(router));
  HttpClient client(host.local());
  EXPECT_EQ(client.request("GET", "/later").body, "first");
  EXPECT_EQ(client.request("GET", "/dropped").status, 500u);
  const Response failed = client.request("GET", "/failed");
  EXPECT_EQ(failed.status, 409u);
  EXPECT_THAT(failed.body, HasSubstr("\"holder\":7"));
  EXPECT_EQ(client.request("GET", "/pooled").status, 503u);
  for (std::thread& thread : threads) thread.join();
}

TEST(HttpServer, ManyAnswersAtOnceGoOutWholeEachToItsOwn) {
  // More than one thread sends them, and the larger ones do not fit into a socket's buffer at once.
  constexpr int kClients = 300;
  for (const std::size_t size : {std::size_t{2'000}, std::size_t{400'000}}) {
    const int clients = size > 100'000 ? 140 : kClients;
    std::vector<std::pair<std::string, Reply>> owed;
    std::promise<void> all_there;
    Router router;
    router.add(route("GET", "/wait/{name}", AsyncHandler([&](const Request& request, const Reply& reply) {
                       owed.emplace_back(request.parameters.at("name"), reply);
                       if (std::ssize(owed) == clients) all_there.set_value();
                     })));
    ServerLimits limits;
    limits.sending_threads = 3;
    Host host(std::move(router), limits);
    std::vector<std::unique_ptr<RawSocket>> waiting;
    for (int i = 0; i < clients; ++i) {
      waiting.push_back(std::make_unique<RawSocket>(host.path()));
      waiting.back()->send("GET /wait/" + std::to_string(i) + " HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    }
    all_there.get_future().wait();
    host.loop().post([&] {
      const auto tail = std::make_shared<const std::string>(size, 't');
      for (const auto& [name, reply] : owed) {
        Response response = text(name + ":");
        response.tail = tail;
        reply.send(std::move(response));
      }
      owed.clear();
    });
    for (int i = 0; i < clients; ++i) {
      const std::string answer = waiting[static_cast<std::size_t>(i)]->read_all();
      const std::string expected = std::to_string(i) + ":" + std::string(size, 't');
      ASSERT_THAT(answer.substr(0, 300), HasSubstr("Content-Length: " + std::to_string(expected.size()) + "\r\n"));
      ASSERT_EQ(answer.compare(answer.find("\r\n\r\n") + 4, std::string::npos, expected), 0) << i;
    }
  }
}

TEST(HttpServer, HandlersInThePoolDoNotHoldUpTheOthers) {
  Router router = echo_router();
  std::promise<void> go;
  const std::shared_future<void> gone = go.get_future().share();
  router.add(route("GET", "/slow", Handler([gone](const Request&) {
                     gone.wait();
                     return text("slow");
                   }),
                   Runs::kInPool));
  Host host(std::move(router));
  auto slow = std::async(std::launch::async, [&] { return HttpClient(host.local()).request("GET", "/slow").body; });
  EXPECT_EQ(HttpClient(host.local()).request("GET", "/hello").body, "hello\n");
  go.set_value();
  EXPECT_EQ(slow.get(), "slow");
}

TEST(HttpServer, TheGuardRefuses) {
  Router router = echo_router();
  router.set_guard([](const Request& request, const Route&) {
    if (!request.header("AUTHORIZATION")) throw HttpError(401, "no", {}, {{"WWW-Authenticate", "Bearer"}});
  });
  Host host(std::move(router));
  const Response refused = HttpClient(host.local()).request("GET", "/hello");
  EXPECT_EQ(refused.status, 401u);
  EXPECT_EQ(refused.header("www-authenticate"), "Bearer");
  HttpClient::Options options;
  options.token = "x";
  EXPECT_EQ(HttpClient(host.local(), options).request("GET", "/hello").status, 200u);
}

// --- Streams -------------------------------------------------------------------------------------------------------

TEST(HttpServer, StreamsEventsUntilTheClientGoes) {
  Router router;
  std::atomic<bool> closed{false};
  router.add(route("GET", "/count", StreamHandler([&](const Request& request) {
                     if (request.query.find("bad")) throw HttpError(400, "bad stream");
                     return [&](const std::shared_ptr<EventStream>& stream) {
                       stream->on_close([&] { closed = true; });
                       for (int i = 0; i < 100; ++i) stream->send("n", std::to_string(i));
                     };
                   })));
  Host host(std::move(router));
  int next = 0;
  follow_events(RawSocket(host.path()), "/count", [&](const ServerEvent& event) {
    EXPECT_EQ(event.name, "n");
    EXPECT_EQ(event.data, std::to_string(next));
    return ++next < 100;
  });
  EXPECT_EQ(next, 100);
  EXPECT_TRUE(host.wait_disconnects(1));
  EXPECT_TRUE(closed);
  EXPECT_EQ(HttpClient(host.local()).request("GET", "/count?bad=1").status, 400u);
}

TEST(HttpServer, AStreamIsSentOnceAndInOrder) {
  Router router;
  std::thread writer;
  std::promise<void> heard;
  router.add(route("GET", "/lines", StreamHandler([&](const Request&) {
                     return [&](const std::shared_ptr<EventStream>& stream) {
                       writer = std::thread([stream, &heard] {
                         for (int i = 0; i < 2000; ++i) stream->send("", std::to_string(i));
                         heard.get_future().wait();
                         stream->close();
                       });
                     };
                   })));
  Host host(std::move(router));
  const RawSocket raw(host.path());
  raw.send("GET /lines HTTP/1.1\r\nHost: x\r\n\r\n");
  std::string all = raw.read_until("data: ");
  heard.set_value();
  all += raw.read_all();
  EXPECT_EQ(all.rfind("HTTP/1.1 200 OK"), 0u) << "one head, at the beginning";
  std::string expected;
  for (int i = 0; i < 2000; ++i) expected += "data: " + std::to_string(i) + "\n\n";
  const std::string body = all.substr(all.find("\r\n\r\n") + 4);
  // close() does not wait for what is queued.
  EXPECT_EQ(expected.compare(0, body.size(), body), 0) << body.size();
  EXPECT_GT(body.size(), 0u);
  writer.join();
}

TEST(HttpServer, ARequestCanBeInterruptedFromAnotherThread) {
  Router router;
  std::promise<void> begun;
  std::optional<Reply> owed;
  router.add(route("GET", "/silent", AsyncHandler([&](const Request&, const Reply& reply) {
                     owed = reply;
                     begun.set_value();
                   })));
  Host host(std::move(router));
  HttpClient::Options options;
  options.timeout = Seconds(60);
  HttpClient client(host.local(), options);
  std::thread reader([&] { EXPECT_THROW(client.request("GET", "/silent"), SystemError); });
  begun.get_future().wait();
  client.interrupt();
  reader.join();
  owed->send(text("too late"));
  EXPECT_TRUE(host.wait_disconnects(1));
}

TEST(HttpServer, AReaderThatIsTooSlowIsDropped) {
  Router router;
  std::atomic<int> refused{0};
  std::thread writer;
  router.add(route("GET", "/flood", StreamHandler([&](const Request&) {
                     return [&](const std::shared_ptr<EventStream>& stream) {
                       writer = std::thread([stream, &refused] {
                         const std::string kilobyte(1024, 'x');
                         while (stream->send("", kilobyte)) {
                         }
                         ++refused;
                       });
                     };
                   })));
  ServerLimits limits;
  limits.stream_queue_bytes = 64u << 10u;
  Host host(std::move(router), limits);
  const int socket = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  host.path().copy(address.sun_path, sizeof address.sun_path - 1);
  ASSERT_EQ(::connect(socket, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  constexpr std::string_view kRequest = "GET /flood HTTP/1.1\r\nHost: x\r\n\r\n";
  ASSERT_EQ(::write(socket, kRequest.data(), kRequest.size()), static_cast<ssize_t>(kRequest.size()));
  EXPECT_TRUE(host.wait_disconnects(1)) << "without a byte read";
  writer.join();
  EXPECT_EQ(refused, 1);
  EXPECT_EQ(host.counts().dropped_slow, 1u);
  ::close(socket);
}

// --- Limits --------------------------------------------------------------------------------------------------------

TEST(HttpServer, WhoDoesNotFinishARequestIsClosed) {
  ServerLimits limits;
  limits.read = Seconds(0.1);
  Host host(echo_router(), limits);
  const RawSocket slow(host.path());
  slow.send("GET /hello HT");
  EXPECT_EQ(slow.read_all(), "");
}

TEST(HttpServer, WhoSaysNothingIsClosed) {
  ServerLimits limits;
  limits.idle = Seconds(0.1);
  Host host(echo_router(), limits);
  EXPECT_EQ(RawSocket(host.path()).read_all(), "");
}

TEST(HttpServer, TheLongestIdleConnectionMakesRoom) {
  ServerLimits limits;
  limits.connections = 2;
  Host host(echo_router(), limits);
  const RawSocket first(host.path());
  HttpClient second(host.local());
  EXPECT_EQ(second.request("GET", "/hello").status, 200u);
  HttpClient third(host.local());
  EXPECT_EQ(third.request("GET", "/hello").status, 200u);
  EXPECT_EQ(first.read_all(), "");
  EXPECT_EQ(second.request("GET", "/hello").status, 200u);
  EXPECT_EQ(host.counts().accepted, 3u);
  EXPECT_EQ(host.counts().dropped_idle, 1u);
}

TEST(HttpServer, OnePartyHasItsShareOfConnections) {
  Router router = echo_router();
  router.add(route("GET", "/who-counts", Handler([](const Request& request) { return text(request.peer.party); })));
  std::vector<Reply> owed;
  router.add(route("GET", "/wait", AsyncHandler([&](const Request&, const Reply& reply) { owed.push_back(reply); })));
  ServerLimits limits;
  limits.connections_per_party = 2;
  Host host(std::move(router), limits);
  HttpClient over_tcp(host.tcp());
  EXPECT_EQ(over_tcp.request("GET", "/who-counts").body, "127.0.0.1");
  const RawSocket idle(host.path());
  const RawSocket waits(host.path());
  waits.send("GET /wait HTTP/1.1\r\nHost: x\r\n\r\n");
  while (host.counts().requests < 2) std::this_thread::yield();
  {
    // The party's own idle connection makes room, another's that has been idle for longer does not.
    HttpClient third(host.local());
    EXPECT_EQ(third.request("GET", "/who-counts").body, "uid " + std::to_string(::getuid()));
    EXPECT_EQ(idle.read_all(), "");
    const RawSocket waits_too(host.path());
    EXPECT_TRUE(host.wait_disconnects(2)) << "the third, in its turn";
    waits_too.send("GET /wait HTTP/1.1\r\nHost: x\r\n\r\n");
    while (host.counts().requests < 4) std::this_thread::yield();  // both wait now, and none can go
    EXPECT_EQ(RawSocket(host.path()).read_all(), "");
    EXPECT_EQ(host.counts().refused, 1u);
    EXPECT_EQ(host.counts().open_connections, 3u);
    EXPECT_EQ(over_tcp.request("GET", "/hello").status, 200u);
    host.loop().post([&] { owed.clear(); });
    EXPECT_THAT(waits_too.read_until("\r\n\r\n"), HasSubstr("500"));
  }
  EXPECT_TRUE(host.wait_disconnects(3)) << "what has gone counts no more";
  EXPECT_EQ(HttpClient(host.local()).request("GET", "/hello").status, 200u);
}

TEST(HttpServer, PipelinedRequestsAreAnsweredInOrder) {
  Host host(echo_router());
  const RawSocket raw(host.path());
  raw.send(
      "POST /echo/1 HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\n\r\na"
      "POST /echo/2 HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nConnection: close\r\n\r\nb");
  const std::string answers = raw.read_all();
  EXPECT_LT(answers.find("1:a"), answers.find("2:b"));
  EXPECT_NE(answers.find("2:b"), std::string::npos);
}

TEST(HttpServer, HeadHasNoBody) {
  Host host(echo_router());
  const RawSocket raw(host.path());
  raw.send("HEAD /hello HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
  const std::string answer = raw.read_all();
  EXPECT_THAT(answer, HasSubstr("Content-Length: 6\r\n"));
  EXPECT_TRUE(answer.ends_with("\r\n\r\n")) << answer;
}

TEST(HttpServer, StoppingLetsARequestUnderWayFinish) {
  Router router = echo_router();
  std::promise<Reply> owed;
  router.add(route("GET", "/later", AsyncHandler([&](const Request&, const Reply& reply) { owed.set_value(reply); })));
  Host host(std::move(router));
  HttpClient idle(host.local());
  EXPECT_EQ(idle.request("GET", "/hello").status, 200u);
  auto later = std::async(std::launch::async, [&] { return HttpClient(host.local()).request("GET", "/later").body; });
  const Reply reply = owed.get_future().get();
  std::thread stopper([&] { host.stop(); });
  EXPECT_TRUE(host.wait_disconnects(1)) << "the idle one goes at once";
  reply.send(text("at last"));
  EXPECT_EQ(later.get(), "at last");
  stopper.join();
  EXPECT_THROW(static_cast<void>(HttpClient(host.local()).request("GET", "/hello")), SystemError);
}

TEST(HttpServer, ASocketOfADeadServerIsReplacedAndOneOfALivingServerIsNot) {
  Host host(echo_router());
  EventLoop loop;
  HttpServer other(loop, Router(), {});
  EXPECT_THROW(other.listen_unix(host.path(), 0600), SystemError);
  const TempFolder folder;
  const std::string path = folder / "s";
  const int left = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof address.sun_path - 1);
  ASSERT_EQ(::bind(left, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  ::close(left);
  other.listen_unix(path, 0600);
}

TEST(HttpClient, SaysThatThereIsNoServer) {
  try {
    static_cast<void>(HttpClient(parse_endpoint("/nowhere/s")).request("GET", "/"));
    FAIL();
  } catch (const SystemError& error) {
    EXPECT_THAT(error.what(), HasSubstr("/nowhere/s"));
  }
  EXPECT_THROW(static_cast<void>(parse_endpoint("host")), UsageError);
  EXPECT_THROW(static_cast<void>(parse_endpoint("host:99999")), UsageError);
  EXPECT_EQ(parse_endpoint("http://[::1]:80/").host, "::1");
}

TEST(Http, TokensAreComparedWhole) {
  EXPECT_TRUE(equal_in_constant_time("abc", "abc"));
  for (const char* other : {"", "ab", "abcd", "abd", "abcabc"})
    EXPECT_FALSE(equal_in_constant_time(other, "abc")) << other;
}

}  // namespace
}  // namespace flyball
