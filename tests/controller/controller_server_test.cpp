// Who may report for whom over TCP with TLS.
#include "controller/controller_server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "base/error.h"
#include "controller/job_token.h"
#include "controller/scripted_engine.h"
#include "net/client.h"
#include "support/certificate.h"
#include "support/temp_folder.h"

namespace flyball {
namespace {

using testing::a100_cluster;
using ::testing::HasSubstr;
using testing::make_certificate;
using testing::ScriptedEngine;
using testing::TempFolder;

const std::string kSecret(64, 's');
const std::string kOtherSecret(64, 't');
const std::string kAdministrator = "the administrator's token";

// By another program: printf 'flyball job 7 of user 1000' | openssl dgst -sha256 -hmac "$(printf 's%.0s' $(seq 64))"
TEST(JobToken, IsTheHmacOfJobAndUser) {
  EXPECT_EQ(job_token(kSecret, 7, 1000), "1000.d8285260685e9a038f7e42c09cb3190354e692327e3a0373e2c767af0eda34aa");
  EXPECT_NE(job_token(kSecret, 70, 1000), job_token(kSecret, 7, 1000));
  EXPECT_NE(job_token(kSecret, 7, 1001).substr(5), job_token(kSecret, 7, 1000).substr(5));
}

// A controller that answers. Job 7 is user 1000's, job 8 user 1001's.
class ServedController {
 public:
  explicit ServedController(const std::optional<std::string>& secret)
      : files_(make_certificate(folder_ / ".", "controller", "IP:127.0.0.1")) {
    engine_.submit(7, ElasticOption{"a", 1e6, 1, 1}.text());
    engine_.submit(8, ElasticOption{"a", 1e6, 1, 1}.text()).user = 1001;
    engine_.submit(9, "");
    controller_.cycle(Seconds(1e9));
    ControllerServerOptions options;
    options.listen_port = 0;
    options.tls = files_;
    options.administrator_token = kAdministrator;
    options.job_secret = secret;
    server_ = std::make_unique<ControllerServer>(loop_, controller_, options);
    thread_ = std::thread([this] { loop_.run(); });
  }
  ~ServedController() {
    loop_.post([this] { server_->stop([this] { loop_.stop(); }); });
    thread_.join();
  }
  ServedController(const ServedController&) = delete;
  ServedController& operator=(const ServedController&) = delete;

  Response post(const std::string& job, const std::string& token,
                const std::string& body = R"({"iteration": 1, "gpus": 1})") const {
    HttpClient::Options options;
    options.timeout = Seconds(60);  // a busy machine
    options.ca_file = files_.certificate;
    options.token = token;
    HttpClient client(parse_endpoint("https://127.0.0.1:" + std::to_string(server_->port())), options);
    return client.request("POST", "/v1/cluster/jobs/" + job + "/report", body);
  }

 private:
  TempFolder folder_;
  TlsFiles files_;
  ScriptedEngine engine_{1};
  ControllerStore store_{""};
  Controller controller_{engine_, store_, a100_cluster(), [](const std::string&) {}};
  EventLoop loop_;
  std::unique_ptr<ControllerServer> server_;
  std::thread thread_;
};

TEST(ControllerServer, TakesReportsOverTlsFromTheJobThatTheTokenIsOf) {
  const ServedController site(kSecret);
  const std::string token = job_token(kSecret, 7, 1000);
  EXPECT_EQ(site.post("7", token).status, 200U);
  EXPECT_EQ(site.post("7", token).status, 200U);  // again: it holds as long as the job is there
  EXPECT_EQ(site.post("8", kAdministrator).status, 200U);

  const Response without = site.post("7", "");
  EXPECT_EQ(without.status, 401U);
  EXPECT_THAT(without.body, HasSubstr("FLYBALL_JOB_TOKEN"));
  const Response wrong = site.post("7", job_token(kOtherSecret, 7, 1000));
  EXPECT_EQ(wrong.status, 403U);
  EXPECT_THAT(wrong.body, HasSubstr("this is not the token of job 7"));
  EXPECT_THAT(wrong.body, HasSubstr("--job-secret-file"));
  EXPECT_EQ(site.post("8", token).status, 403U);  // another job
  // The number was another user's before: that user's token is right, and the job is not theirs.
  const Response former = site.post("7", job_token(kSecret, 7, 1001));
  EXPECT_EQ(former.status, 403U);
  EXPECT_THAT(former.body, HasSubstr("job 7 is another user's"));
  for (const std::int64_t job : {9, 10}) {  // not elastic, and none
    EXPECT_EQ(site.post(std::to_string(job), job_token(kSecret, job, 1000)).status, 404U);
  }
}

TEST(ControllerServer, RefusesWhatIsNoToken) {
  const ServedController site(kSecret);
  const std::string right = job_token(kSecret, 7, 1000);
  const std::string code = right.substr(4);
  for (const std::string& token :
       {std::string("1000"), std::string("1000."), code, "0" + right, "+" + right, "0" + code, "1001" + code,
        "-1" + code, "99999999999999999999" + code, right + "0", right.substr(0, right.size() - 1),
        std::string(8000, 'x'), right + code, std::string("\xff\xfe.\x01")}) {
    SCOPED_TRACE(token.substr(0, 100));
    const unsigned status = site.post("7", token).status;
    EXPECT_TRUE(status == 403U || status == 400U) << status;
  }
  for (const std::string job : {"0", "-7", "x", "99999999999999999999"}) {
    EXPECT_EQ(site.post(job, right).status, 404U) << job;
  }
  EXPECT_EQ(site.post("7%00", right).status, 400U);
  EXPECT_EQ(site.post("7", right).status, 200U);
}

// A job may say what it likes of itself; what is no report is refused, and the controller goes on.
TEST(ControllerServer, RefusesHostileBodies) {
  const ServedController site(kSecret);
  const std::string token = job_token(kSecret, 7, 1000);
  for (const std::string& body :
       {std::string(), std::string("{"), std::string("[]"), std::string("null"), std::string(100'000, '['),
        std::string(R"({"iteration": -1, "gpus": 1})"), std::string(R"({"iteration": 1e300, "gpus": 1})"),
        std::string(R"({"iteration": 1, "gpus": 0})"), std::string(R"({"iteration": 1, "gpus": 1e9})"),
        std::string(R"({"iteration": 1, "gpus": 1, "step_s": -1})"), std::string(R"({"iteration": "1", "gpus": 1})"),
        std::string(R"({"gpus": 1})"), std::string("{\"iteration\": 1, \"gpus\": 1, \"\xff\": 1}")}) {
    SCOPED_TRACE(body.substr(0, 60));
    EXPECT_EQ(site.post("7", token, body).status, 400U);
    EXPECT_EQ(site.post("7", "", body).status, 401U);  // nothing is read of who has no token
  }
  EXPECT_EQ(site.post("7", token).status, 200U);
}

TEST(ControllerServer, WithoutASecretJobsReportOverTheUnixSocketOnly) {
  const ServedController site(std::nullopt);
  const Response refused = site.post("7", job_token(kSecret, 7, 1000));
  EXPECT_EQ(refused.status, 403U);
  EXPECT_THAT(refused.body, HasSubstr("report over the controller's Unix socket"));
  EXPECT_EQ(site.post("7", "").status, 403U);
  EXPECT_EQ(site.post("7", kAdministrator).status, 200U);
}

TEST(ControllerServer, IsOpenToOtherMachinesOnlyWithSecretsAndTls) {
  ScriptedEngine engine(1);
  ControllerStore store("");
  Controller controller(engine, store, a100_cluster(), [](const std::string&) {});
  EventLoop loop;
  const auto refusal = [&](const std::optional<std::string>& token, const std::optional<std::string>& secret) {
    ControllerServerOptions options;
    options.listen_host = "0.0.0.0";
    options.listen_port = 0;
    options.administrator_token = token;
    options.job_secret = secret;
    try {
      const ControllerServer server(loop, controller, options);
    } catch (const UsageError& error) {
      return std::string(error.what());
    }
    return std::string("it listens");
  };
  EXPECT_THAT(refusal(std::nullopt, std::nullopt), HasSubstr("--job-secret-file"));
  EXPECT_THAT(refusal(std::nullopt, kSecret), HasSubstr("by TLS only; give --tls-cert and --tls-key"));
  EXPECT_EQ(refusal(kAdministrator, std::nullopt), "it listens");
}

}  // namespace
}  // namespace flyball
