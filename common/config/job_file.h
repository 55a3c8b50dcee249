// Reads job files and applies `--set` overrides.
#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>

namespace pfc {

/// Applies each `--set key=value` in order. A value is JSON, or else a plain string. A dot selects
/// a member of an object; if the job lacks the object, its default is used. Throws InputError for
/// an unknown key.
void apply_overrides(nlohmann::json& job, std::span<const std::string> overrides);

/// Reads a job file, or a configuration of arcface_torch (FILE.py,
/// common/config/arcface_torch_job.h), and applies the overrides. Relative paths stay relative to
/// the working directory. Throws InputError.
nlohmann::json read_job_file(const std::filesystem::path& path,
                             std::span<const std::string> overrides);

}  // namespace pfc
