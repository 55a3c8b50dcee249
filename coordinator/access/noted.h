// Writes the result of a request to the audit log before the reply.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <variant>

#include "coordinator/access/gate.h"
#include "coordinator/rules/refusal.h"

namespace pfc {

/// Wraps `answer` so that the result is first written to the audit log: `detail(reply)` on
/// success, `asked` ("stop of job 1234") and the reason on refusal. `gate` is not owned; nullptr
/// disables the audit log.
template <typename Reply>
Answer<Reply> noted(Gate* gate, const Caller& caller, const std::string& what,
                    const std::string& asked, const Answer<Reply>& answer,
                    const std::function<std::string(const Reply&)>& detail) {
  if (gate == nullptr) return answer;
  return [=](std::variant<Reply, Refusal> result) {
    if (const auto* done = std::get_if<Reply>(&result)) {
      gate->note(caller, what, detail(*done));
    } else {
      gate->note(caller, what, asked + ": not done: " + std::get<Refusal>(result).message,
                 "not_done");
    }
    answer(std::move(result));
  };
}

}  // namespace pfc
