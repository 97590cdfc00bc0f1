// What no honest client sends, over real sockets: the server refuses it, keeps nothing of it and goes on.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <future>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "base/contain.h"
#include "net/http_host.h"
#include "support/raw_socket.h"

namespace flyball {
namespace {

using ::testing::HasSubstr;
using testing::Host;
using ::testing::Not;
using testing::RawSocket;
using testing::route;
using ::testing::StartsWith;
using testing::text;

// Of a handler's thread; read when the loop is asked.
struct Owed {
  std::vector<Reply> replies;

  Route route_of(const std::string& pattern) {
    return route("GET", pattern,
                 AsyncHandler([this](const Request&, const Reply& reply) { replies.push_back(reply); }));
  }
};

template <class Action>
auto in_loop(Host& host, Action action) {
  std::promise<decltype(action())> result;
  host.loop().post([&] { result.set_value(action()); });
  return result.get_future().get();
}

template <class Condition>
[[nodiscard]] bool comes_true(Condition condition) {
  for (int i = 0; i < 60'000; ++i) {
    if (condition()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return false;
}

Router hello_router() {
  Router router;
  router.add(route("GET", "/hello", Handler([](const Request&) { return text("hello\n"); })));
  router.add(route("POST", "/echo", Handler([](const Request& request) { return text("<" + request.body + ">"); })));
  return router;
}

// --- Who waits and goes --------------------------------------------------------------------------------------------

TEST(HostileClients, NothingStaysOfAClientThatGoesBeforeItsAnswer) {
  Owed owed;
  Router router;
  router.add(owed.route_of("/wait"));
  Host host(std::move(router));
  constexpr std::size_t kEach = 20;
  {
    std::vector<std::unique_ptr<RawSocket>> clients;
    for (std::size_t i = 0; i < kEach; ++i) {
      clients.push_back(std::make_unique<RawSocket>(host.path()));
      clients.push_back(std::make_unique<RawSocket>(host.port()));
      // Some have sent what is the beginning of another request, behind which the end stands.
      for (std::size_t k = clients.size() - 2; k < clients.size(); ++k) {
        clients[k]->send("GET /wait HTTP/1.1\r\nHost: x\r\n\r\n");
        if (i % 2 == 1) clients[k]->send("GET /wait HTTP/1.1\r\nHo");
      }
    }
    ASSERT_TRUE(comes_true([&] { return host.counts().requests == 2 * kEach; }));
    EXPECT_EQ(host.counts().open_connections, 2 * kEach);
    EXPECT_EQ(in_loop(host,
                      [&] {
                        return std::count_if(owed.replies.begin(), owed.replies.end(),
                                             [](const Reply& reply) { return reply.abandoned(); });
                      }),
              0);
  }
  EXPECT_TRUE(comes_true([&] { return host.counts().open_connections == 0; }));
  EXPECT_EQ(host.counts().abandoned, 2 * kEach);
  EXPECT_TRUE(in_loop(host, [&] {
    return std::all_of(owed.replies.begin(), owed.replies.end(), [](const Reply& reply) { return reply.abandoned(); });
  }));
  in_loop(host, [&] {
    for (const Reply& reply : owed.replies) reply.send(text("too late"));
    owed.replies.clear();
    return 0;
  });
}

TEST(HostileClients, WhoWaitsIsAnsweredOverAndOverOnOneConnection) {
  Owed owed;
  Router router = hello_router();
  router.add(owed.route_of("/wait"));
  Host host(std::move(router));
  const auto answer = [&](const std::string& words) {
    ASSERT_TRUE(comes_true([&] { return in_loop(host, [&] { return owed.replies.size(); }) == 1; }));
    in_loop(host, [&] {
      owed.replies.back().send(text(words));
      owed.replies.clear();
      return 0;
    });
  };
  const RawSocket client(host.port());
  for (int i = 0; i < 50; ++i) {
    // Every other time with the next request behind it.
    const bool pipelined = i % 2 == 1;
    client.send("GET /wait HTTP/1.1\r\nHost: x\r\n\r\n");
    if (pipelined) client.send("GET /hello HTTP/1.1\r\nHost: x\r\n\r\n");
    const std::string words = "answer " + std::to_string(i) + ".";
    answer(words);
    const std::string answers = client.read_until(pipelined ? "hello\n" : words);
    EXPECT_THAT(answers, HasSubstr(words));
    EXPECT_THAT(answers, StartsWith("HTTP/1.1 200 OK\r\n"));
  }
  EXPECT_EQ(host.counts().accepted, 1u);
  EXPECT_EQ(host.counts().abandoned, 0u);
}

// --- Who begins a request and leaves it at that --------------------------------------------------------------------

TEST(HostileClients, NobodyHoldsAPlaceWithAPieceOfARequest) {
  ServerLimits limits;
  limits.connections_per_party = 8;
  limits.read = Seconds(1000);  // what ends them is the need of others
  Host host(hello_router(), limits);
  for (const char* piece :
       {"G", "GET /hello HTTP/1.1\r\nHost: x\r\n", "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n",
        "GET /hello HTTP/1.1\r\nHost: x\r\n\r\nG"}) {
    const std::uint64_t before = host.counts().accepted;
    std::vector<std::unique_ptr<RawSocket>> attackers;
    for (std::uint64_t i = 1; i <= 10; ++i) {
      attackers.push_back(std::make_unique<RawSocket>(host.port()));
      attackers.back()->send(piece);
      ASSERT_TRUE(comes_true([&] { return host.counts().accepted == before + i; })) << piece;
    }
    const RawSocket honest(host.port());
    honest.send("GET /hello HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    EXPECT_THAT(honest.read_all(), HasSubstr("hello")) << piece;
    EXPECT_EQ(host.counts().refused, 0u) << piece;
    EXPECT_LE(host.counts().open_connections, 8u) << piece;
  }
}

// --- Where a request ends ------------------------------------------------------------------------------------------

TEST(HostileClients, ABodyOfUnknownLengthIsNoRequest) {
  Host host(hello_router());
  for (const char* encoding : {"Transfer-Encoding: gzip", "Transfer-Encoding: chunked, gzip",
                               "Transfer-Encoding: gzip, chunked", "Transfer-Encoding: xchunked",
                               "Transfer-Encoding: identity", "Transfer-Encoding:", "TRANSFER-ENCODING: chunke"}) {
    const RawSocket client(host.port());
    client.send(std::string("POST /echo HTTP/1.1\r\nHost: x\r\n") + encoding +
                "\r\n\r\nGET /hello HTTP/1.1\r\nHost: x\r\n\r\n");
    const std::string answer = client.read_all();
    EXPECT_THAT(answer, StartsWith("HTTP/1.1 501 Not Implemented\r\n")) << encoding;
    EXPECT_THAT(answer, HasSubstr("Connection: close\r\n")) << encoding;
    EXPECT_THAT(answer, Not(HasSubstr("hello"))) << encoding;
  }
  const RawSocket old(host.port());
  old.send("POST /echo HTTP/1.0\r\nConnection: keep-alive\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n");
  EXPECT_THAT(old.read_all(), StartsWith("HTTP/1.1 400 "));
  const RawSocket twice(host.port());
  twice.send("POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n");
  EXPECT_THAT(twice.read_all(), StartsWith("HTTP/1.1 400 "));
  const RawSocket both(host.port());
  both.send("POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n");
  EXPECT_THAT(both.read_all(), StartsWith("HTTP/1.1 400 "));
  const RawSocket right(host.port());
  right.send(
      "POST /echo HTTP/1.1\r\nHost: x\r\nConnection: close\r\nTransfer-Encoding: Chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n");
  EXPECT_THAT(right.read_all(), HasSubstr("<abc>"));
}

// A page of evil.example whose name stands for 127.0.0.1 by now: browsers name it in Host, whatever the address.
TEST(HostileClients, APageOfAnotherSiteIsRefusedWhereNoTokenIsTaken) {
  Host host(hello_router(), {.only_as = "node7"});
  const auto answer_for = [&](const std::string& name) {
    const RawSocket client(host.port());
    client.send("GET /hello HTTP/1.1\r\nHost: " + name + "\r\nConnection: close\r\n\r\n");
    return client.read_all();
  };
  for (const char* name : {"evil.example", "evil.example:4940", "localhost.evil.example:4940", "", "node7.evil.",
                           "127.0.0.1.evil.example", "localhost:1:2", "node8"}) {
    EXPECT_THAT(answer_for(name), StartsWith("HTTP/1.1 421 Misdirected Request\r\n")) << name;
  }
  for (const char* name : {"localhost", "LocalHost:4940", "localhost.:80", "127.0.0.1:4940", "[::1]:4940", "[::1]",
                           "node7:4940", "192.0.2.7"}) {
    EXPECT_THAT(answer_for(name), HasSubstr("hello\n")) << name;
  }
  const RawSocket unix_client(host.path());
  unix_client.send("GET /hello HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n");
  EXPECT_THAT(unix_client.read_all(), HasSubstr("hello\n"));  // no browser gets there
}

TEST(HostileClients, ARequestOfHttp11HasOneHost) {
  Host host(hello_router());
  const auto answer = [&](const std::string& head) {
    const RawSocket client(host.port());
    client.send("GET /hello " + head + "Connection: close\r\n\r\n");
    return client.read_all();
  };
  EXPECT_THAT(answer("HTTP/1.1\r\n"), StartsWith("HTTP/1.1 400 "));
  EXPECT_THAT(answer("HTTP/1.1\r\nHost: a\r\nHost: b\r\n"), StartsWith("HTTP/1.1 400 "));
  EXPECT_THAT(answer("HTTP/1.1\r\nHost: a\r\n"), HasSubstr("hello"));
  EXPECT_THAT(answer("HTTP/1.1\r\nHost:\r\n"), HasSubstr("hello")) << "a target without a host has an empty one";
  EXPECT_THAT(answer("HTTP/1.0\r\n"), HasSubstr("hello"));
}

TEST(HostileClients, WhoAsksBeforeItsBodyIsTold) {
  ServerLimits limits;
  limits.body_bytes = 1000;
  Host host(hello_router(), limits);
  const RawSocket client(host.port());
  for (int i = 0; i < 2; ++i) {
    client.send("POST /echo HTTP/1.1\r\nHost: x\r\nExpect: 100-Continue\r\nContent-Length: 3\r\n\r\n");
    EXPECT_EQ(client.read_until("\r\n\r\n"), "HTTP/1.1 100 Continue\r\n\r\n");
    client.send("abc");
    EXPECT_THAT(client.read_until("<abc>"), StartsWith("HTTP/1.1 200 OK\r\n"));
  }
  const RawSocket large(host.port());
  large.send("POST /echo HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 1001\r\n\r\n");
  EXPECT_THAT(large.read_all(), StartsWith("HTTP/1.1 413 "));
  const RawSocket unknown(host.port());
  unknown.send("POST /echo HTTP/1.1\r\nHost: x\r\nExpect: 200-ok\r\nContent-Length: 3\r\n\r\n");
  EXPECT_THAT(unknown.read_all(), StartsWith("HTTP/1.1 417 "));
  const RawSocket nothing(host.port());
  nothing.send("GET /hello HTTP/1.1\r\nHost: x\r\nConnection: close\r\nExpect: 100-continue\r\n\r\n");
  EXPECT_THAT(nothing.read_all(), StartsWith("HTTP/1.1 200 ")) << "there is no body to wait for";
}

TEST(HostileClients, TextsAreUtf8) {
  Host host(hello_router());
  for (const char* request : {"GET /%E2%82 HTTP/1.1\r\nHost: x\r\n", "GET /hello?a=%FF HTTP/1.1\r\nHost: x\r\n",
                              "GET /hello HTTP/1.1\r\nHost: x\r\nUser-Agent: M\xFCller\r\n"}) {
    const RawSocket client(host.port());
    client.send(std::string(request) + "Connection: close\r\n\r\n");
    EXPECT_THAT(client.read_all(), StartsWith("HTTP/1.1 400 ")) << request;
  }
}

// --- What nobody meant to throw ------------------------------------------------------------------------------------

TEST(HostileClients, AnExceptionEndsItsRequestOnly) {
  Router router = hello_router();
  router.add(route("GET", "/throw", Handler([](const Request&) -> Response { throw std::runtime_error("unmeant"); })));
  router.add(route("GET", "/pool", Handler([](const Request&) -> Response { throw std::runtime_error("unmeant"); }),
                   Runs::kInPool));
  router.add(route("GET", "/kind", Handler([](const Request&) -> Response { throw 7; })));
  router.add(route("GET", "/pooled-kind", Handler([](const Request&) -> Response { throw 7; }), Runs::kInPool));
  router.add(route("GET", "/later", AsyncHandler([](const Request&, const Reply& reply) {
                     reply.fail(std::make_exception_ptr(std::runtime_error("unmeant")));
                   })));
  router.add(route("GET", "/stream", StreamHandler([](const Request&) {
                     return [](const std::shared_ptr<EventStream>&) { throw std::runtime_error("unmeant"); };
                   })));
  Route answers = route("GET", "/no-answer", Handler([](const Request&) -> Response { throw Error("meant"); }));
  answers.errors = [](const std::exception&) -> Response { throw std::runtime_error("unmeant"); };
  router.add(std::move(answers));
  Host host(std::move(router));
  tell_contained([](std::string_view, std::string_view) {});
  const auto answer = [&](const std::string& path) {
    const RawSocket client(host.port());
    client.send("GET " + path + " HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    return client.read_all();
  };
  std::uint64_t expected = contained_exceptions();
  for (const char* path : {"/throw", "/pool", "/later"}) {
    EXPECT_THAT(answer(path), StartsWith("HTTP/1.1 500 ")) << path;
    EXPECT_EQ(contained_exceptions(), ++expected) << path;
  }
  EXPECT_THAT(answer("/pooled-kind"), StartsWith("HTTP/1.1 500 "));
  EXPECT_EQ(contained_exceptions(), ++expected);
  // Of these there is no telling what the client may still be told.
  for (const char* path : {"/kind", "/stream", "/no-answer"}) {
    (void)answer(path);
    EXPECT_EQ(contained_exceptions(), ++expected) << path;
  }
  EXPECT_THAT(answer("/hello"), HasSubstr("hello"));
  tell_contained({});
}

TEST(EventLoop, GoesOnAfterAnActionThatThrows) {
  tell_contained([](std::string_view, std::string_view) {});
  const std::uint64_t before = contained_exceptions();
  EventLoop loop;
  int ticks = 0;
  const auto every = loop.every(Seconds(0.001), [&] {
    if (++ticks == 3) loop.stop();
    throw std::runtime_error("unmeant");
  });
  const auto once = loop.after(Seconds(0), [] { throw 7; });
  loop.post([] { throw std::runtime_error("unmeant"); });
  loop.run();
  EXPECT_EQ(ticks, 3);
  EXPECT_EQ(contained_exceptions(), before + 5);  // three ticks, the timer, what was posted
  tell_contained({});
}

}  // namespace
}  // namespace flyball
