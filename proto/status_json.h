// The coordinator's status as JSON, for pfcctl status --json and /status.json.
#pragma once

#include <nlohmann/json.hpp>

#include "proto/coordinator.pb.h"

namespace pfc {

/// Has every field, named as in the .proto file. A loss that is not finite and a remaining time
/// that is not known are null.
nlohmann::ordered_json to_json(const proto::StatusReply& status);

}  // namespace pfc
