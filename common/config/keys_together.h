// Keys of a job that are right alone, but not together.
#pragma once

#include "common/config/config.h"
#include "common/config/job_origin.h"

namespace pfc {

/// Throws InputError that names where the key was given, the key, what was found and what the other
/// key needs.
void check_keys_together(const JobConfig& job, const JobOrigin& origin);

}  // namespace pfc
