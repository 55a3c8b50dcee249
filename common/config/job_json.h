// A job as JSON, which is how people write it and programs pass it on.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "common/config/config.h"
#include "common/config/job_origin.h"

namespace pfc {

/// Parses a job, which may also have arcface_torch's keys that have no counterpart
/// (common/config/arcface_torch_keys.h). An error begins with the origin of the value. It names the
/// nearest known key for an unknown one, and says what was found and what was expected for a wrong
/// type and for a value out of range. Throws InputError.
JobConfig parse_job(const nlohmann::json& job, const JobOrigin& origin);

/// Every key of JobConfig, "fp16", the older way to write "precision": "fp16", and "dali_aug",
/// arcface_torch's way to ask for its set of augmentations. In no order.
std::vector<std::string> job_keys();

/// The whole job, defaults filled in: what a checkpoint's manifest keeps.
nlohmann::json to_json(const JobConfig& job);

}  // namespace pfc
