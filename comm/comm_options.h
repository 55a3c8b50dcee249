// Options of a Comm: which workers take part, and how long it waits for them.
#pragma once

#include <chrono>
#include <string>

#include "common/ids.h"

namespace pfc {

class AbortSwitch;
class TraceRecorder;

struct CommOptions {
  Membership membership;
  /// Prefix of the Comm's keys in the store; must differ between Comms.
  std::string name = "train";
  std::string address;  ///< address at which peers reach this host; empty for loopback
  std::chrono::milliseconds connect_timeout{60'000};
  std::chrono::milliseconds timeout{300'000};  ///< maximum duration of one collective
  AbortSwitch* abort_switch = nullptr;         ///< not owned; nullptr: connecting cannot be aborted
  TraceRecorder* trace = nullptr;              ///< not owned; nullptr disables tracing
};

}  // namespace pfc
