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
  std::string name = "train";  ///< its keys in the store begin with it, so each Comm needs its own
  std::string address;         ///< of this host, as its peers reach it; empty: loopback
  std::chrono::milliseconds connect_timeout{60'000};
  std::chrono::milliseconds timeout{300'000};  ///< of one collective
  AbortSwitch* abort_switch = nullptr;         ///< borrowed; ends connecting. Null: nothing does
  TraceRecorder* trace = nullptr;              ///< borrowed; records its collectives. Null: unused
};

}  // namespace pfc
