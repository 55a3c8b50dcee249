// Answers that tell the audit log what became of a request.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <variant>

#include "coordinator/access/gate.h"
#include "coordinator/refusal.h"

namespace pfc {

/// `answer`, which notes first that `what` was done, with `detail(reply)`; or that it was not, with
/// `asked` ("job 1234") and the reason. `gate`, borrowed, may be null: then there is no audit log.
template <typename Reply>
Answer<Reply> noted(Gate* gate, const Caller& caller, const std::string& what,
                    const std::string& asked, const Answer<Reply>& answer,
                    const std::function<std::string(const Reply&)>& detail) {
  if (gate == nullptr) return answer;
  return [=](std::variant<Reply, Refusal> result) {
    if (const auto* done = std::get_if<Reply>(&result)) {
      gate->note(caller, what, detail(*done));
    } else {
      gate->note(caller, what, asked + " was not done: " + std::get<Refusal>(result).message,
                 "not_done");
    }
    answer(std::move(result));
  };
}

}  // namespace pfc
