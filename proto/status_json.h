// The coordinator's status as JSON: pfcctl status --json and /status.json.
#pragma once

#include <nlohmann/json.hpp>

#include "proto/coordinator.pb.h"

namespace pfc {

/// Fields are named as in the .proto file. A loss that is not finite and an unknown remaining time
/// are null.
nlohmann::ordered_json to_json(const proto::StatusReply& status);

}  // namespace pfc
