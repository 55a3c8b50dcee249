// Output and requests of the verbs submit, queue and logs.
#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "proto/coordinator.pb.h"

namespace pfc {

/// Makes the relative paths of a job absolute, because the coordinator may run in another folder
/// than the user's. Writes the default of "output" into the job. Does not change a name without a
/// slash in "val_targets", because a job searches for it in the folder of the data.
void make_paths_absolute(nlohmann::json& job, const std::filesystem::path& folder);

/// Returns the jobs for the terminal, one per line, and the reason if no job is running.
std::string queue_text(const proto::QueueReply& queue);

/// Returns the content of queue_text() as JSON.
nlohmann::ordered_json queue_json(const proto::QueueReply& queue);

}  // namespace pfc
