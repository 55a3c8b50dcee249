#include "proto/grpc_runtime.h"

#include <absl/synchronization/mutex.h>
#include <gtest/gtest.h>

#include "proto/coordinator.pb.h"

namespace pfc {
namespace {

// Abseil's deadlock detection aborts on such a cycle, even if no deadlock is possible.
TEST(SetUpGrpc, DisablesDeadlockDetection) {
  set_up_grpc();
  absl::Mutex first, second;
  {
    const absl::MutexLock a(&first);
    const absl::MutexLock b(&second);
  }
  const absl::MutexLock b(&second);
  const absl::MutexLock a(&first);
}

TEST(SetUpGrpc, DoesNotLogMessagesOfClients) {
  set_up_grpc();
  ::testing::internal::CaptureStderr();
  proto::StopRequest request;
  EXPECT_FALSE(request.ParseFromString("\x0a\x01\xff"));  // job_id "\xff"
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
}

}  // namespace
}  // namespace pfc
