// What a check has found (docs/check.md), for people and for programs.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "proto/coordinator.pb.h"

namespace pfc {

/// How many findings have this verdict. What several hosts have found in the same words counts
/// once.
int count_of(const proto::CheckReport& report, proto::CheckVerdict verdict);

/// Whether nothing would stop or slow the job.
bool is_good(const proto::CheckReport& report);

/// "the cluster would run this job: 6 workers on 3 hosts", "2 things would stop the job, and 1
/// would slow it".
std::string check_sentence(const proto::CheckReport& report);

/// A table of all findings, the worst first, each bad one with its remedy; the speeds of all pairs
/// of hosts; and the sentence. Ends with a line's end.
std::string check_text(const proto::CheckReport& report);

/// The same as JSON: every field, named as in the .proto file.
nlohmann::ordered_json check_json(const proto::CheckReport& report);

}  // namespace pfc
