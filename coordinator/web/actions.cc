#include "coordinator/web/actions.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <variant>

#include "common/config/strict_json.h"
#include "common/error.h"
#include "common/one_line.h"
#include "coordinator/access/roles.h"
#include "security/identity.h"

namespace pfc {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::int64_t kDrainMilliseconds = 30'000;  // as pfcctl drain

HttpReply json_reply(const Json& body, int status = 200) {
  return {.status = status,
          .content_type = "application/json",
          .body = body.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n"};
}

HttpReply error_reply(int status, const std::string& message) {
  return json_reply({{"error", one_line(message)}}, status);
}

int http_status_of(Refusal::Kind kind) {
  switch (kind) {
    case Refusal::Kind::kOldGeneration:
      return 409;
    case Refusal::Kind::kInvalid:
      return 400;
    case Refusal::Kind::kTimeout:
      return 504;
    case Refusal::Kind::kUnavailable:
      return 503;
    case Refusal::Kind::kDenied:
      return 403;
    case Refusal::Kind::kInternal:
      break;
  }
  return 500;
}

/// Returns an answer that replies with `to_json` of the result, or with the refusal.
template <typename Reply, typename ToJson>
Answer<Reply> answer_of(const HttpAnswer& answer, ToJson to_json) {
  return [answer, to_json](const std::variant<Reply, Refusal>& result) {
    if (const auto* refusal = std::get_if<Refusal>(&result)) {
      return answer(error_reply(http_status_of(refusal->kind), refusal->message));
    }
    answer(json_reply(to_json(std::get<Reply>(result))));
  };
}

/// Returns a number of the query; 0 if absent. Throws InputError if it is malformed or out of
/// range.
template <typename Number>
Number number_in(const HttpRequest& request, std::string_view key) {
  const std::string_view text = query_value(request.query, key);
  Number number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (!text.empty() && (error != std::errc() || end != text.data() + text.size())) {
    throw InputError(std::string(key) + " is " + one_line(text, 40) + ", expected a number");
  }
  return number;
}

/// Returns a string from the body. Throws InputError if there is none.
std::string text_in(const nlohmann::json& body, const char* key) {
  const auto found = body.find(key);
  if (found == body.end() || !found->is_string()) {
    throw InputError("the body has no string \"" + std::string(key) + "\"");
  }
  return found->get<std::string>();
}

nlohmann::json body_of(const HttpRequest& request) {
  auto body = parse_strict_json(request.body, "the body");
  if (!body.is_object()) throw InputError("the body is not a JSON object");
  return body;
}

/// Returns who made the request, for logs.
std::string asker(const HttpRequest& request) {
  return "the page at / (" + request.caller.peer + ")";
}

}  // namespace

std::string_view query_value(std::string_view query, std::string_view key) {
  while (!query.empty()) {
    const std::string_view pair = query.substr(0, query.find('&'));
    query.remove_prefix(std::min(pair.size() + 1, query.size()));
    const std::size_t equals = pair.find('=');
    if (pair.substr(0, equals) == key) return equals == pair.npos ? "" : pair.substr(equals + 1);
  }
  return {};
}

void Actions::handle(const HttpRequest& request, const HttpAnswer& answer) {
  try {
    if (request.path == "/api/me") {
      const Role role = request.caller.identity.role;
      return answer(json_reply({{"role", name_of(role)},
                                {"may_stop", may_call(role, "StopRequest")},
                                {"may_read_logs", may_call(role, "LogsRequest")}}));
    }
    if (request.path == "/api/log") return log(request, answer);
    if (request.path == "/api/stop" && request.post) return stop(request, answer);
    if (request.path == "/api/drain" && request.post) return drain(request, answer);
  } catch (const InputError& error) {
    return answer(error_reply(400, error.what()));
  }
  answer(error_reply(404, "no such path"));
}

bool Actions::admits(const HttpRequest& request, std::string_view call, const HttpAnswer& answer) {
  const Role role = request.caller.identity.role;
  if (may_call(role, call)) return true;
  const std::string why =
      "a credential of role " + std::string(name_of(role)) + " does not allow this";
  if (gate_ != nullptr) static_cast<void>(gate_->refuse(request.caller, call, "wrong_role", why));
  answer(error_reply(403, why));
  return false;
}

void Actions::log(const HttpRequest& request, const HttpAnswer& answer) {
  if (!admits(request, "LogsRequest", answer)) return;
  proto::LogsRequest asked;
  asked.set_job(std::string(query_value(request.query, "job")));
  asked.set_rank(number_in<Rank>(request, "rank"));
  asked.mutable_from()->set_part(number_in<std::int64_t>(request, "part"));
  asked.mutable_from()->set_offset(number_in<std::int64_t>(request, "offset"));
  const auto tell = answer_of<proto::LogsReply>(answer, [](const auto& reply) {
    return Json{{"job_id", reply.job_id()},    {"text", reply.text()},
                {"part", reply.next().part()}, {"offset", reply.next().offset()},
                {"skipped", reply.skipped()},  {"over", reply.over()}};
  });
  if (asked.job().empty() && coordinator_.jobs().last().empty()) {
    proto::LogsReply nothing;
    *nothing.mutable_next() = asked.from();
    return tell(std::move(nothing));
  }
  coordinator_.jobs().read_log(asked, tell);
}

void Actions::stop(const HttpRequest& request, const HttpAnswer& answer) {
  if (!admits(request, "StopRequest", answer)) return;
  proto::StopRequest asked;
  asked.set_job(text_in(body_of(request), "job"));
  asked.set_reason(asker(request));
  calls_.stop(request.caller, asked, answer_of<proto::StopReply>(answer, [](const auto& reply) {
                return Json{{"job_id", reply.job_id()}, {"was_waiting", reply.was_waiting()}};
              }));
}

void Actions::drain(const HttpRequest& request, const HttpAnswer& answer) {
  if (!admits(request, "DrainRequest", answer)) return;
  const auto body = body_of(request);
  proto::DrainRequest asked;
  asked.set_job_id(text_in(body, "job"));
  asked.set_host(text_in(body, "host"));
  asked.mutable_leaving()->set_reason(asker(request));
  asked.mutable_leaving()->set_grace_ms(kDrainMilliseconds);
  Refusal why;
  const bool idle = asked.job_id().empty() && coordinator_.fence().job_id.empty();
  if (!idle && !of_this_job(asked.job_id(), coordinator_.fence(), why)) {
    return answer(error_reply(http_status_of(why.kind), why.message));
  }
  calls_.drain(request.caller, asked,
               answer_of<proto::DrainReply>(answer, [](const auto&) { return Json::object(); }));
}

}  // namespace pfc
