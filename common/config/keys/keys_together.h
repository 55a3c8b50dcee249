// Checks combinations of keys whose values are valid alone.
#pragma once

#include "common/config/config.h"
#include "common/config/job_origin.h"

namespace pfc {

/// Throws InputError. The error names where the key was given, the key, the value found and what
/// the other key requires.
void check_keys_together(const JobConfig& job, const JobOrigin& origin);

}  // namespace pfc
