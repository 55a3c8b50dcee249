// pfcctl top: where the time goes, the slowest rank first.
#pragma once

#include <cstddef>
#include <string>

#include "proto/coordinator.pb.h"

namespace pfc {

/// Sorts the workers: first those that do not train or make no progress, then by how long their own
/// work takes in a step.
void slowest_first(proto::StatusReply& status);

/// A line about the job, and a table of the first workers, at most so many. The last line counts
/// the others.
std::string top_text(const proto::StatusReply& status, std::size_t most_rows);

}  // namespace pfc
