// Converts a job from and to JSON. Users write it in this form, and programs send it.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "common/config/config.h"
#include "common/config/job_origin.h"

namespace pfc {

/// Parses a job. Also accepts the keys of arcface_torch that have no effect here
/// (common/config/keys/arcface_torch_keys.h). Throws InputError that begins with the origin of the
/// value. For an unknown key it names the nearest known one. For a wrong type or a value out of
/// range it says what was found and what was expected.
JobConfig parse_job(const nlohmann::json& job, const JobOrigin& origin);

/// Returns every key of JobConfig, plus "fp16" (the older form of "precision": "fp16") and
/// "dali_aug" (arcface_torch's set of augmentations). Not sorted.
std::vector<std::string> job_keys();

/// Returns the parameters of the object `key` ("lr_schedule" or "loss") that do not belong to the
/// schedule or loss `name`, but to others. Empty for another key or an unknown name.
std::vector<std::string> parameters_of_others(std::string_view key, std::string_view name);

/// Returns the whole job with defaults filled in, as checkpoint manifests store it.
nlohmann::json to_json(const JobConfig& job);

}  // namespace pfc
