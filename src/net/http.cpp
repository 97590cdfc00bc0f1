// Headers are few and are searched one by one. Errors become responses as RFC 9457 (problem details) asks.
#include "net/http.h"

#include <algorithm>
#include <cctype>
#include <nlohmann/json.hpp>

#include "base/json_text.h"
#include "base/utf8.h"
#include "net/json_response.h"

namespace flyball {
namespace {

bool equal_ignoring_case(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](char x, char y) {
    return std::tolower(static_cast<unsigned char>(x)) == std::tolower(static_cast<unsigned char>(y));
  });
}

std::optional<std::string_view> find_header(const std::vector<Header>& headers, std::string_view name) {
  for (const Header& header : headers) {
    if (equal_ignoring_case(header.name, name)) return header.value;
  }
  return std::nullopt;
}

nlohmann::ordered_json problem(unsigned status, std::string_view detail) {
  return {{"type", "about:blank"}, {"title", reason_phrase(status)}, {"status", status}, {"detail", detail}};
}

Response as_response(unsigned status, const nlohmann::ordered_json& body) {
  Response response = json_response(status, body);
  response.content_type = "application/problem+json";
  return response;
}

}  // namespace

std::optional<std::string_view> Request::header(std::string_view name) const { return find_header(headers, name); }
std::optional<std::string_view> Response::header(std::string_view name) const { return find_header(headers, name); }

std::string_view reason_phrase(unsigned status) {
  switch (status) {
    case 200: return "OK";
    case 201: return "Created";
    case 202: return "Accepted";
    case 204: return "No Content";
    case 304: return "Not Modified";
    case 400: return "Bad Request";
    case 401: return "Unauthorized";
    case 403: return "Forbidden";
    case 404: return "Not Found";
    case 405: return "Method Not Allowed";
    case 408: return "Request Timeout";
    case 409: return "Conflict";
    case 410: return "Gone";
    case 413: return "Content Too Large";
    case 415: return "Unsupported Media Type";
    case 417: return "Expectation Failed";
    case 421: return "Misdirected Request";
    case 422: return "Unprocessable Content";
    case 429: return "Too Many Requests";
    case 431: return "Request Header Fields Too Large";
    case 500: return "Internal Server Error";
    case 501: return "Not Implemented";
    case 503: return "Service Unavailable";
    case 504: return "Gateway Timeout";
    case 507: return "Insufficient Storage";
    default: return status < 400 ? "OK" : status < 500 ? "Bad Request" : "Internal Server Error";
  }
}

nlohmann::json json_body(const Request& request) { return parse_json("the request", request.body); }

Response json_response(unsigned status, const nlohmann::ordered_json& body) {
  Response response;
  response.status = status;
  response.body = dump_json(body);
  return response;
}

Response empty_response() {
  Response response;
  response.status = 204;
  return response;
}

Response text_response(std::string content_type, std::string body) {
  Response response;
  response.content_type = std::move(content_type);
  response.body = std::move(body);
  return response;
}

std::string detail_of_problem(const std::string& body) {
  constexpr std::size_t kLongest = 200;
  try {
    const nlohmann::json json = parse_json("the answer", body);
    if (json.is_object() && json.contains("detail") && json["detail"].is_string()) return json["detail"];
  } catch (const InputError&) {  // a body that is no JSON is quoted as it stands
  }
  return std::string(cut_between_characters(body, kLongest));
}

unsigned status_of(const std::exception& error) {
  if (const auto* http = dynamic_cast<const HttpError*>(&error)) return http->status();
  const bool bad_input =
      dynamic_cast<const InputError*>(&error) != nullptr || dynamic_cast<const UsageError*>(&error) != nullptr;
  return bad_input ? 400 : 500;
}

Response problem_response(const std::exception& error) {
  const unsigned status = status_of(error);
  nlohmann::ordered_json body = problem(status, error.what());
  const auto* http = dynamic_cast<const HttpError*>(&error);
  if (http != nullptr) {
    for (const auto& [name, json] : http->extra()) body[name] = nlohmann::ordered_json::parse(json);
  }
  Response response = as_response(status, body);
  if (http != nullptr) response.headers = http->headers();
  return response;
}

Response problem_response(unsigned status, std::string_view detail) {
  return as_response(status, problem(status, detail));
}

bool equal_in_constant_time(std::string_view a, std::string_view b) {
  // The length is no secret; every byte of `b` is looked at whatever `a` holds.
  unsigned difference = a.size() == b.size() ? 0 : 1;
  for (std::size_t i = 0; i < b.size(); ++i) {
    const char other = a.empty() ? '\0' : a[i % a.size()];
    difference |= static_cast<unsigned>(static_cast<unsigned char>(other) ^ static_cast<unsigned char>(b[i]));
  }
  return difference == 0;
}

}  // namespace flyball
