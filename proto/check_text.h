// Formats the report of a check (docs/check.md) as text and as JSON.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "proto/coordinator.pb.h"

namespace pfc {

/// Returns the number of findings with this verdict. Equal findings of several hosts count once.
int count_of(const proto::CheckReport& report, proto::CheckVerdict verdict);

/// Returns whether nothing would stop or slow the job.
bool is_good(const proto::CheckReport& report);

/// Returns a summary: "the cluster would run this job: 6 workers on 3 hosts", "2 things would stop
/// the job, and 1 would slow it".
std::string check_sentence(const proto::CheckReport& report);

/// Returns a table of the findings, with a remedy below each bad one; the speeds between hosts;
/// and the summary. Ends with a line feed.
std::string check_text(const proto::CheckReport& report);

/// Returns the report as JSON. Fields are named as in the .proto file.
nlohmann::ordered_json check_json(const proto::CheckReport& report);

}  // namespace pfc
