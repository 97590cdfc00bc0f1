// Account sessions over HTTP, as docs/openapi-agent.yaml describes them: each route reads its request, calls
// AccountSessions in the loop's thread and answers, at once or when the session has begun or ended.
#include <fmt/format.h>

#include <utility>
#include <nlohmann/json.hpp>

#include "agent/routes.h"
#include "base/json_object.h"
#include "base/record.h"
#include "base/text.h"
#include "net/json_response.h"

namespace flyball {
namespace {

AccountSessions::Done answer(const Reply& reply, unsigned status) {
  return [reply, status](const std::exception_ptr& error, const AccountSessionInfo& session) {
    if (error) return reply.fail(error);
    Response response = json_response(status, to_json(session));
    if (status == 201) response.headers.push_back({"Location", "/v1/sessions/" + session.name});
    reply.send(std::move(response));
  };
}

std::size_t offset_of(const Request& request) {
  const auto text = request.query.find("offset");
  if (!text) return 0;
  const long offset = parse_integer(*text).value_or(-1);
  if (offset < 0) throw HttpError(400, fmt::format("offset is '{}'; give a number of bytes", *text));
  return static_cast<std::size_t>(offset);
}

const std::string& name_in(const Request& request) { return request.parameters.at("session"); }

}  // namespace

void add_session_routes(Router& router, const AgentParts& parts) {
  const auto add = [&](const char* method, const char* pattern, auto handler) {
    router.add({method, pattern, std::move(handler), Runs::kInLoop, agent_problem});
  };
  AccountSessions& sessions = parts.sessions;
  Claimants& claimants = parts.claimants;
  add("GET", "/v1/sessions", Handler([&sessions, &claimants](const Request& request) {
        return json_response(200, to_json(AccountSessionList{sessions.of(claimants.of(request.peer))}));
      }));
  add("POST", "/v1/sessions", AsyncHandler([&sessions, &claimants](const Request& request, const Reply& reply) {
        const auto wanted = read_message<AccountSessionRequest>(parse_json("the request", request.body));
        sessions.start(wanted, claimants.of(request.peer), answer(reply, 201));
      }));
  add("GET", "/v1/sessions/{session}", Handler([&sessions, &claimants](const Request& request) {
        return json_response(200, to_json(sessions.find(name_in(request), claimants.of(request.peer))));
      }));
  add("DELETE", "/v1/sessions/{session}", Handler([&sessions, &claimants](const Request& request) {
        sessions.drop(name_in(request), claimants.of(request.peer));
        return json_response(200, to_json(AccountSessionDropped{name_in(request)}));
      }));
  add("POST", "/v1/sessions/{session}/stop",
      AsyncHandler([&sessions, &claimants](const Request& request, const Reply& reply) {
        sessions.stop(name_in(request), claimants.of(request.peer), answer(reply, 200));
      }));
  add("GET", "/v1/sessions/{session}/power.csv", Handler([&sessions, &claimants](const Request& request) {
        refuse_other_queries(request, {"offset"});
        return text_response("text/csv; charset=utf-8",
                             sessions.trace(name_in(request), claimants.of(request.peer), offset_of(request)));
      }));
}

}  // namespace flyball
