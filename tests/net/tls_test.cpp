// TLS between server and client, with certificates made here.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/read_until.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/asio/write.hpp>

#include "net/client.h"
#include "net/http_host.h"
#include "support/certificate.h"
#include "support/expect_error.h"
#include "support/raw_socket.h"
#include "support/temp_folder.h"

namespace flyball {
namespace {

using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using testing::Host;
using testing::make_certificate;
using testing::RawSocket;
using testing::route;
using testing::start_and_let_expire;
using testing::TempFolder;
using testing::text;

Router some_routes() {
  Router router;
  router.add(route("GET", "/hello", Handler([](const Request&) { return text("hello\n"); })));
  router.add(route("POST", "/echo", Handler([](const Request& request) {
                     Response response = text(request.body);
                     response.tail = std::make_shared<const std::string>(1'000'000, 't');
                     return response;
                   })));
  router.add(route("GET", "/count", StreamHandler([](const Request&) {
                     return [](const std::shared_ptr<EventStream>& stream) {
                       for (int i = 0; i < 100; ++i) stream->send("n", std::to_string(i));
                     };
                   })));
  return router;
}

Endpoint https(const Host& host, const std::string& name = "127.0.0.1") {
  return parse_endpoint("https://" + name + ":" + std::to_string(host.port()));
}

HttpClient::Options trusting(const TlsFiles& files) {
  HttpClient::Options options;
  options.timeout = Seconds(60);
  options.ca_file = files.certificate;
  return options;
}

// What the client says when it cannot talk to the server.
std::string refusal_of(const Endpoint& endpoint, const HttpClient::Options& options) {
  HttpClient client(endpoint, options);
  try {
    return "answered " + std::to_string(client.request("GET", "/hello").status);
  } catch (const SystemError& error) {
    return error.what();
  }
}

// All that the server sends up to `words`. Not with HttpClient, whose answers have an end.
std::string read_over_tls(std::uint16_t port, const TlsFiles& files, const std::string& target,
                          const std::string& words) {
  boost::asio::io_context io;
  boost::asio::ssl::context trust(boost::asio::ssl::context::tls_client);
  trust.load_verify_file(files.certificate);
  boost::asio::ssl::stream<boost::asio::ip::tcp::socket> stream(io, trust);
  stream.set_verify_mode(boost::asio::ssl::verify_peer);
  stream.next_layer().connect({boost::asio::ip::address_v4::loopback(), port});
  stream.handshake(boost::asio::ssl::stream_base::client);
  boost::asio::write(stream, boost::asio::buffer("GET " + target + " HTTP/1.1\r\nHost: x\r\n\r\n"));
  std::string all;
  boost::asio::read_until(stream, boost::asio::dynamic_buffer(all), words);
  return all;
}

TEST(Tls, CarriesRequestsBodiesAndEvents) {
  const TempFolder folder;
  const TlsFiles files = make_certificate(folder.path(), "server", "DNS:localhost,IP:127.0.0.1");
  Host host(some_routes(), {}, files);
  HttpClient client(https(host), trusting(files));
  for (int i = 0; i < 3; ++i) EXPECT_EQ(client.request("GET", "/hello").body, "hello\n");
  EXPECT_TRUE(client.connected()) << "one connection for all";
  const std::string large(300'000, 'x');
  const Response echoed = client.request("POST", "/echo", large);
  EXPECT_EQ(echoed.body.size(), large.size() + 1'000'000);
  EXPECT_EQ(echoed.body.compare(0, large.size(), large), 0);
  std::string expected;
  for (int i = 0; i < 100; ++i) expected += "event: n\ndata: " + std::to_string(i) + "\n\n";
  EXPECT_THAT(read_over_tls(host.port(), files, "/count", "data: 99\n\n"), EndsWith("\r\n\r\n" + expected));
  EXPECT_EQ(HttpClient(host.local()).request("GET", "/hello").status, 200u) << "the Unix socket stays plain";
}

TEST(Tls, TheClientTakesNoOtherCertificate) {
  const TempFolder folder;
  const TlsFiles files = make_certificate(folder.path(), "server", "DNS:localhost");
  const TlsFiles stranger = make_certificate(folder.path(), "stranger", "DNS:localhost,IP:127.0.0.1");
  Host host(some_routes(), {}, files);
  EXPECT_EQ(refusal_of(https(host, "localhost"), trusting(files)), "answered 200");
  EXPECT_THAT(refusal_of(https(host, "localhost"), trusting(stranger)), HasSubstr("certificate is refused"));
  EXPECT_THAT(refusal_of(https(host), trusting(files)), HasSubstr("use a name that the certificate is for"));
  HttpClient::Options system;
  EXPECT_THAT(refusal_of(https(host, "localhost"), system),
              AllOf(HasSubstr("certificate is refused"), HasSubstr("name the file of its authority (ca_file")));
}

TEST(Tls, TheClientTakesNoCertificateThatHasExpired) {
  const TempFolder folder;
  const auto host = start_and_let_expire(folder.path(), "IP:127.0.0.1", [](const TlsFiles& files) {
    return std::make_unique<Host>(some_routes(), ServerLimits{}, files);
  });
  EXPECT_THAT(refusal_of(https(*host), trusting({folder / "expiring.pem", ""})),
              AllOf(HasSubstr("certificate is refused: certificate has expired"), HasSubstr("renew it on the server")));
}

TEST(Tls, ServerAndClientNoticeThatTheOtherIsPlain) {
  const TempFolder folder;
  const TlsFiles files = make_certificate(folder.path(), "server", "DNS:localhost,IP:127.0.0.1");
  Host host(some_routes(), {}, files);
  const Response told = HttpClient(host.tcp()).request("GET", "/hello");
  EXPECT_EQ(told.status, 400u);
  EXPECT_THAT(told.body, HasSubstr("https://"));
  Host plain(some_routes());
  EXPECT_THAT(refusal_of(https(plain), trusting(files)), HasSubstr("speaks no TLS"));
}

TEST(Tls, WhoDoesNotShakeHandsIsClosed) {
  const TempFolder folder;
  ServerLimits limits;
  limits.read = Seconds(0.1);
  Host host(some_routes(), limits, make_certificate(folder.path(), "server", "IP:127.0.0.1"));
  EXPECT_EQ(RawSocket(host.port()).read_all(), "") << "says nothing";
  const RawSocket nonsense(host.port());
  nonsense.send(std::string(300, '\x17'));
  (void)nonsense.read_all();  // an alert at most, and the end
  EXPECT_TRUE(host.wait_disconnects(2));
}

TEST(Tls, FilesThatAreNoGoodAreNamed) {
  const TempFolder folder;
  const TlsFiles good = make_certificate(folder.path(), "good", "DNS:localhost");
  const TlsFiles other = make_certificate(folder.path(), "other", "DNS:localhost");
  const TlsFiles expired = make_certificate(folder.path(), "expired", "DNS:localhost", -7200, -3600);
  const TlsFiles early = make_certificate(folder.path(), "early", "DNS:localhost", 3600, 7200);
  const std::string garbage = folder / "garbage";
  std::ofstream(garbage) << "no PEM\n";
  EventLoop loop;
  HttpServer server(loop, Router(), {});
  const auto listen = [&](const std::string& certificate, const std::string& key) {
    return [&server, files = TlsFiles{certificate, key}] { server.listen_tcp("127.0.0.1", 0, files); };
  };
  expect_input_error(listen(good.certificate, other.key), 0, 0, "is not the key of");
  expect_input_error(listen(expired.certificate, expired.key), 0, 0, "expired on");
  expect_input_error(listen(early.certificate, early.key), 0, 0, "holds only from");
  expect_input_error(listen(garbage, good.key), 0, 0, "is no certificate");
  expect_input_error(listen(good.certificate, garbage), 0, 0, "is no private key");
  EXPECT_THROW(listen(folder / "nothing", good.key)(), SystemError);
  // A key that everybody may read is none; a group may have been given it.
  ASSERT_EQ(::chmod(good.key.c_str(), 0644), 0);
  expect_input_error(listen(good.certificate, good.key), 0, 0, "read or changed by everybody");
  ASSERT_EQ(::chmod(good.key.c_str(), 0640), 0);
  Host host(some_routes(), {}, good);
  HttpClient::Options options;
  options.ca_file = garbage;
  expect_input_error([&] { (void)HttpClient(https(host, "localhost"), options); }, 0, 0, "holds no certificates");
  options.ca_file = folder / "nothing";
  EXPECT_THROW((void)HttpClient(https(host, "localhost"), options), SystemError);
}

TEST(Tls, NamesBecomeAddresses) {
  EXPECT_EQ(resolve_host("127.0.0.1"), "127.0.0.1");
  EXPECT_EQ(resolve_host("::1"), "::1");
  EXPECT_TRUE(is_loopback(resolve_host("localhost")));
  EXPECT_THROW((void)resolve_host("no-such-host.invalid"), SystemError);
}

}  // namespace
}  // namespace flyball
