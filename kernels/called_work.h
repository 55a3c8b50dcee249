// Repeated work on a device that records nothing: it is called each time.
#pragma once

#include <functional>
#include <utility>

#include "kernels/ops.h"

namespace pfc {

class CalledWork : public RepeatedWork {
 public:
  explicit CalledWork(std::function<void()> call) : call_(std::move(call)) {}
  void run() override { call_(); }

 private:
  const std::function<void()> call_;
};

}  // namespace pfc
