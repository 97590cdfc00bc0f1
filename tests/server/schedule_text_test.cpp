// The texts that ranks get: made once for each plan, however often they are asked for.
#include "server/schedule_text.h"

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>

#include "base/record.h"
#include "server/test_server.h"
#include "server/zeus_routes.h"

namespace flyball::testing {
namespace {

TEST(ScheduleText, IsWhatATreeOfJsonWouldSay) {
  const std::vector<ScheduledComputation> schedule = {{"forward", 0, 0, 1410},
                                                      {"backward", 65535, 3, 0},
                                                      {"a \"name\"", 1, 2, 100},
                                                      {"forward", 1, 0, 1395, {0, 12, 1, 0}}};
  EXPECT_EQ(computations_text(schedule), to_json(schedule).dump());
  EXPECT_EQ(computations_text({}), "[]");
  EXPECT_EQ(zeus_tail({{"forward", 0, 0, 1410}, {"a \"name\"", 1, 2, 0}}),
            R"("frequencies":[["forward",1410],["a \"name\"",0]]})");
  EXPECT_EQ(zeus_tail({{InstructionKind::kForward, 0, 0}, {InstructionKind::kBackward, 0, 0}}, 1200),
            R"("frequencies":[["forward",1200],["backward",1200]]})");
}

// Zeus's interface without sockets, so that an answer can be told from another one that says the same.
class ZeusTexts : public ::testing::Test {
 protected:
  explicit ZeusTexts(std::optional<GivenPlan> plan = std::nullopt) : desk_(loop_, book_, access_, std::move(plan)) {
    desk_.add_routes(router_);
  }

  Response ask(const std::string& method, const std::string& path, const nlohmann::json& body = {}) {
    Request request;
    request.method = method;
    request.path = path;
    request.body = body.dump();
    if (method == "GET") request.query = parse_target("/?rank=0")->query;
    const Router::Match match = router_.match(request);
    std::optional<Response> answer;
    const Reply reply(
        [&](Response response) {
          answer = std::move(response);
          loop_.post([this] { loop_.stop(); });
        },
        match.route->errors);
    loop_.post([&] {
      try {
        std::get<AsyncHandler>(match.route->handler)(request, reply);
      } catch (const std::exception& error) {
        reply.fail(error);
      }
    });
    loop_.run();
    EXPECT_EQ(answer->status, 200u) << answer->body;
    return *std::move(answer);
  }

  std::string register_job(const std::string& metadata) {
    const Response job = ask("POST", "/register_job",
                             {{"job_id", ""},
                              {"pp_degree", 1},
                              {"dp_degree", 1},
                              {"tp_degree", 1},
                              {"world_size", 1},
                              {"job_metadata", metadata}});
    const std::string id = nlohmann::json::parse(job.body);
    ask("POST", "/register_rank/" + id,
        {{"rank", 0}, {"dp_rank", 0}, {"pp_rank", 0}, {"tp_rank", 0}, {"available_frequencies", {1410, 1200}}});
    return id;
  }

  // What a second request gets, too.
  std::shared_ptr<const std::string> text_of(const std::string& id) {
    const Response first = ask("GET", "/schedule/" + id);
    const Response second = ask("GET", "/schedule/" + id);
    EXPECT_EQ(first.body, "{\"rank\":0,");
    EXPECT_EQ(first.tail, second.tail) << "made anew";
    return first.tail;
  }

  void report(const std::string& id, double seconds, double joules) {
    ask("POST", "/result/" + id,
        {{"rank", 0},
         {"time_breakdown", {{"forward", {{seconds}}}, {"backward", {{seconds}}}}},
         {"energy_breakdown", {{"forward", {{joules}}}, {"backward", {{joules}}}}}});
  }

  EventLoop loop_;
  JobBook book_{loop_, "", {}};
  Access access_{Access::Tokens{}};
  ZeusDesk desk_;
  Router router_;
};

std::string two_of(int clock) {
  const std::string both = "[\"forward\"," + std::to_string(clock) + "],[\"backward\"," + std::to_string(clock) + "]";
  return "\"frequencies\":[" + both + "," + both + "]}";
}

// One stage leaves no slack: at 1410 MHz while it sets the pace itself. Beside a straggler of twice the time it may
// take 1.2 times as long, and 1200 MHz save 400 - 300 J less 75 W in 0.2 s of each computation.
TEST_F(ZeusTexts, AreMadeOnceForEachPlan) {
  const std::string id = register_job("reports=yes microbatches=2");
  const auto sweep = text_of(id);
  EXPECT_EQ(*sweep, two_of(1410));
  report(id, 1.0, 400.0);
  EXPECT_EQ(*text_of(id), two_of(1200));
  report(id, 1.2, 300.0);
  const auto planned = text_of(id);
  EXPECT_EQ(*planned, two_of(1410));
  EXPECT_NE(planned, sweep);

  const Reply unheard([](const Response&) {}, [](const std::exception& error) { return problem_response(error); });
  loop_.post([&] {
    book_.set_straggler(id, {std::string("rack"), 2.0, Seconds(0), std::nullopt},
                        {unheard, [&](const StragglerTaken&) {
                           loop_.post([this] { loop_.stop(); });
                           return Response();
                         }});
  });
  loop_.run();
  while (book_.job(id).current()->version < 2) {
    const auto soon = loop_.after(Seconds(0.01), [this] { loop_.stop(); });
    loop_.run();
  }
  EXPECT_EQ(*text_of(id), two_of(1200));
}

class ZeusPlanTexts : public ZeusTexts {
 protected:
  ZeusPlanTexts() : ZeusTexts(GivenPlan{{R"("frequencies":[["forward",1305]]})"}, 7}) {}
};

TEST_F(ZeusPlanTexts, AreThePlanFiles) {
  const std::string id = register_job("");
  EXPECT_EQ(*text_of(id), R"("frequencies":[["forward",1305]]})");
}

}  // namespace
}  // namespace flyball::testing
