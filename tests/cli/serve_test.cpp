// flyball serve as a program; what the server does is tested in tests/server.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <chrono>
#include <string>
#include <thread>

#include "cli/program.h"
#include "net/client.h"

namespace flyball::testing {
namespace {

using ::testing::HasSubstr;

TEST(Serve, AnswersUntilItIsTold) {
  const TempFolder folder;
  const std::string socket = folder / "server.sock";
  const Running server({"serve", "--socket", socket, "--database", folder / "deep/server.db"}, "/dev/null",
                       folder.path());
  HttpClient client(parse_endpoint(socket));
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  unsigned status = 0;
  while (status != 200 && std::chrono::steady_clock::now() < deadline) {
    try {
      status = client.request("GET", "/healthz").status;
    } catch (const SystemError&) {  // not listening yet
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
  }
  EXPECT_EQ(status, 200u);
  // Over its socket, its own user is the administrator.
  EXPECT_EQ(client.request("GET", "/v1/jobs").status, 200u);
  EXPECT_EQ(client.request("GET", "/openapi.yaml").body, file_text(FLYBALL_SOURCE_DIR "/docs/openapi.yaml"));
  server.interrupt();
  const Ran ran = server.wait();
  EXPECT_EQ(ran.status, 0) << ran.err;
  EXPECT_THAT(ran.out, HasSubstr("listening on " + socket));
  EXPECT_THAT(ran.out, HasSubstr("deep/server.db (0 there)"));
  EXPECT_FALSE(std::filesystem::exists(socket));
}

TEST(Serve, RefusesWhatWouldNotBeSafe) {
  const TempFolder folder;
  const std::string token = folder / "token";
  write_file(token, "0123456789abcdef0123456789abcdef\n");
  ::chmod(token.c_str(), 0644);
  const auto refused = [&](std::vector<std::string> arguments, int status, const std::string& words) {
    arguments.insert(arguments.begin(), "serve");
    const Ran ran = run_flyball(arguments, "", folder.path());
    EXPECT_EQ(ran.status, status) << ran.err;
    EXPECT_THAT(ran.err, HasSubstr(words));
  };
  refused({"--in-memory", "--listen", "0.0.0.0:0"}, 2, "administrator's token");
  refused({"--in-memory", "--listen", "127.0.0.1:0", "--admin-token-file", token}, 3, "chmod 600");
  write_file(token, "short\n");
  ::chmod(token.c_str(), 0600);
  refused({"--in-memory", "--listen", "127.0.0.1:0", "--admin-token-file", token}, 3, "5 characters");
  refused({"--in-memory", "--database", folder / "a.db"}, 2, "exclude each other");
  refused({"--in-memory", "--listen", "localhost"}, 2, "HOST:PORT");
  refused({"--listen", "127.0.0.1:0", "--database", "/proc/nowhere/a.db"}, 1, "cannot be opened");
  write_file(folder / "text.db", std::string(5000, 'x'));
  refused({"--listen", "127.0.0.1:0", "--database", folder / "text.db"}, 3,
          "text.db: the database cannot be read or written: file is not a database");
  write_file(folder / "cert.pem", "no PEM\n");
  write_file(folder / "key.pem", "no PEM\n");
  ::chmod((folder / "key.pem").c_str(), 0600);
  refused({"--in-memory", "--tls-cert", folder / "cert.pem"}, 2, "go together");
  refused(
      {"--in-memory", "--listen", "localhost:0", "--tls-cert", folder / "cert.pem", "--tls-key", folder / "key.pem"}, 3,
      "is no certificate in PEM form");
  refused({"--in-memory", "--listen", "no-such-host.invalid:0"}, 1, "there is no address of no-such-host.invalid");
}

}  // namespace
}  // namespace flyball::testing
