#include "worker/comm/abort_switch.h"

#include <algorithm>

namespace pfc {

AbortSwitch::Guard::Guard(AbortSwitch& owner, Comm& comm) : owner_(owner), comm_(comm) {
  const std::lock_guard lock(owner_.mutex_);
  owner_.comms_.push_back(&comm_);
  if (!owner_.why_.empty()) comm_.abort(owner_.why_);
}

AbortSwitch::Guard::~Guard() {
  const std::lock_guard lock(owner_.mutex_);
  std::erase(owner_.comms_, &comm_);
}

void AbortSwitch::abort(const std::string& why) {
  const std::lock_guard lock(mutex_);
  if (!why_.empty()) return;
  why_ = why.empty() ? "this worker leaves its generation" : why;
  for (Comm* const comm : comms_) comm->abort(why_);
}

}  // namespace pfc
