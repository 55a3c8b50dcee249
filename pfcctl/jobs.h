// What the verbs submit, queue and logs show and send.
#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "proto/coordinator.pb.h"

namespace pfc {

/// Makes the relative paths of a job absolute: a person means the folder in which the command is
/// given, and the coordinator may run in another one. "output" is written out where the job has
/// none. A name in "val_targets" without a slash is looked for beside the data, and stays.
void make_paths_absolute(nlohmann::json& job, const std::filesystem::path& folder);

/// The jobs for people, one a line, and why none runs.
std::string queue_text(const proto::QueueReply& queue);

/// The same for programs.
nlohmann::ordered_json queue_json(const proto::QueueReply& queue);

}  // namespace pfc
