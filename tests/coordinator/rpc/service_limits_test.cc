// Tests how much of a coordinator's memory one connection can use.
#include <gmock/gmock.h>
#include <grpcpp/client_context.h>
#include <gtest/gtest.h>
#include <malloc.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "common/clock.h"
#include "coordinator/access/peer_limits.h"
#include "tests/coordinator/rpc/service_fixture.h"
#include "tests/support/relay.h"

namespace pfc {
namespace {

using testing::kJob;

/// A call of GetValue that waits for its key. Its reply then waits in the coordinator to be read.
struct Waiting {
  grpc::ClientContext context;
  proto::GetValueRequest request;
  proto::GetValueReply reply;
  grpc::Status status;
};

class ServiceLimits : public testing::ServiceOfOneHost {
 protected:
  void asks_for_key(proto::CoordinatorService::Stub& client,
                    const proto::GetValueRequest& request = {}) {
    Waiting& call = *calls.emplace_back(std::make_unique<Waiting>());
    call.request = request;
    call.request.set_job_id(kJob);
    call.request.set_generation(1);
    call.request.set_key("large");
    call.request.set_timeout_ms(60'000);
    client.async()->GetValue(&call.context, &call.request, &call.reply,
                             [this, &call](const grpc::Status& status) {
                               call.status = status;
                               ended += 1;
                             });
    call.request.Clear();  // already serialized
  }

  std::vector<std::unique_ptr<Waiting>> calls;
  std::atomic<std::size_t> ended{0};
};

/// Returns the heap bytes of this process, in all arenas and mapped.
std::size_t heap_bytes() {
  const struct mallinfo2 info = mallinfo2();
  return info.uordblks + info.hblkhd;
}

TEST_F(ServiceLimits, DiscardsUnknownFieldsOfRequests) {
  constexpr std::size_t kCalls = 16, kBytes = 3 << 20;
  join_both();
  proto::GetValueRequest large;
  large.GetReflection()->MutableUnknownFields(&large)->AddLengthDelimited(999,
                                                                          std::string(kBytes, 'x'));
  const std::size_t before = heap_bytes();
  const auto client = stub();
  for (std::size_t i = 0; i < kCalls; ++i) asks_for_key(*client, large);
  // The reply to a later call shows that all these calls have arrived.
  grpc::ClientContext context;
  proto::StatusReply status;
  ASSERT_TRUE(client->Status(&context, proto::StatusRequest(), &status).ok());
  // gRPC's client, which runs in this process too, keeps one copy of each request until its call
  // ends.
  constexpr std::size_t kMost = kCalls * kBytes * 3 / 2;
  const auto deadline = Clock::now() + std::chrono::seconds{60};
  while (heap_bytes() >= before + kMost && Clock::now() < deadline) {
    std::this_thread::sleep_for(std::chrono::milliseconds{10});
  }
  EXPECT_LT(heap_bytes(), before + kMost);
  EXPECT_EQ(ended, 0U);
  first->set("large", {'x'});
  testing::wait_until([&] { return ended == kCalls; });
}

TEST_F(ServiceLimits, RefusesFurtherRepliesToAPeerThatDoesNotReadEarlierOnes) {
  constexpr std::size_t kCalls = 64, kBytes = 1 << 20;
  join_both();
  testing::Relay relay(coordinator.port());
  const auto client =
      proto::CoordinatorService::NewStub(make_channel("127.0.0.1:" + std::to_string(relay.port())));
  for (std::size_t i = 0; i < kCalls; ++i) asks_for_key(*client);
  // The reply to a later call shows that all these calls have arrived.
  grpc::ClientContext context;
  proto::StatusReply status;
  ASSERT_TRUE(client->Status(&context, proto::StatusRequest(), &status).ok());
  relay.set(testing::Relay::Link::kSilent);
  first->set("large", std::vector<char>(kBytes, 'x'));
  relay.set(testing::Relay::Link::kWhole);
  testing::wait_until([&] { return ended == kCalls; });
  std::size_t answered = 0;
  for (const auto& call : calls) {
    if (call->status.ok()) {
      answered += 1;
      continue;
    }
    EXPECT_EQ(call->status.error_code(), grpc::StatusCode::UNAVAILABLE);
    EXPECT_THAT(call->status.error_message(), ::testing::HasSubstr("not read; try again"));
  }
  EXPECT_GE(answered, 1U);
  EXPECT_LE(answered * kBytes, kMostWaitingBytes + 4 * kBytes);
}

}  // namespace
}  // namespace pfc
