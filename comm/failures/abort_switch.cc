#include "comm/failures/abort_switch.h"

#include <utility>

namespace pfc {

AbortSwitch::Guard::Guard(AbortSwitch& owner, Comm& comm)
    : Guard(owner, [&comm](const std::string& why) { comm.abort(why); }) {}

AbortSwitch::Guard::Guard(AbortSwitch& owner, Abort abort) : owner_(owner) {
  const std::lock_guard lock(owner_.mutex_);
  place_ = owner_.guarded_.insert(owner_.guarded_.end(), std::move(abort));
  if (!owner_.why_.empty()) (*place_)(owner_.why_);
}

AbortSwitch::Guard::~Guard() {
  const std::lock_guard lock(owner_.mutex_);
  owner_.guarded_.erase(place_);
}

void AbortSwitch::abort(const std::string& why) {
  const std::lock_guard lock(mutex_);
  if (!why_.empty()) return;
  why_ = why.empty() ? "this worker has left its generation" : why;
  for (const Abort& abort : guarded_) abort(why_);
}

std::string AbortSwitch::reason() const {
  const std::lock_guard lock(mutex_);
  return why_;
}

}  // namespace pfc
