// pfcctl top: shows where each worker's time goes, slowest rank first.
#pragma once

#include <cstddef>
#include <string>

#include "proto/coordinator.pb.h"

namespace pfc {

/// Sorts the workers: first those that are not training, then by time of their own work per step,
/// longest first.
void slowest_first(proto::StatusReply& status);

/// Returns a line about the job and a table of the first `most_rows` workers. The last line counts
/// the others.
std::string top_text(const proto::StatusReply& status, std::size_t most_rows);

}  // namespace pfc
