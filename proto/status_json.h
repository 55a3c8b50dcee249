// The coordinator's status as JSON: what pfcctl status --json prints and /status.json serves.
#pragma once

#include <nlohmann/json.hpp>

#include "proto/coordinator.pb.h"

namespace pfc {

/// Every field is present, named as in the .proto file; numbers are numbers, a loss that is not
/// finite is null, and so is a remaining time that is not known.
nlohmann::ordered_json to_json(const proto::StatusReply& status);

}  // namespace pfc
