// How a Comm is made: who takes part, and how long it waits for them.
#pragma once

#include <chrono>
#include <string>

#include "common/ids.h"

namespace pfc {

struct CommOptions {
  Membership membership;
  std::string name = "train";  ///< keys in the store begin with it: one Comm a name
  std::string address;         ///< this host's address as its peers see it; empty: loopback
  std::chrono::milliseconds connect_timeout{60'000};
  std::chrono::milliseconds timeout{300'000};  ///< one collective
};

}  // namespace pfc
