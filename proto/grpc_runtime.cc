#include "proto/grpc_runtime.h"

#include <absl/synchronization/mutex.h>
#include <google/protobuf/stubs/logging.h>

#include <cstdlib>
#include <mutex>

namespace pfc {

void set_up_grpc() {
  static std::once_flag once;
  std::call_once(once, [] {
    setenv("GRPC_VERBOSITY", "NONE", 0);  // before gRPC starts threads
    google::protobuf::SetLogHandler(nullptr);
    absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
  });
}

}  // namespace pfc
