// A coordinator over real gRPC, for one host with a fake agent and two fake workers.
#pragma once

#include <grpcpp/client_context.h>
#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <memory>
#include <string>

#include "proto/channel.h"
#include "proto/coordinator.grpc.pb.h"
#include "tests/coordinator/rpc/voice_of_agent.h"
#include "tests/coordinator/running_coordinator.h"
#include "worker/coordinator_link/coordinator_client.h"

namespace pfc::testing {

/// Returns whether another generation or job has begun.
inline bool is_superseded(CoordinatorClient& client) {
  bool told = false;
  client.on_superseded([&told](const std::string&) { told = true; });
  client.on_superseded({});
  return told;
}

class ServiceOfOneHost : public ::testing::Test {
 protected:
  explicit ServiceOfOneHost(const RendezvousConfig& config = impatient())
      : coordinator({{.name = "a", .slots = 2}}, config) {}

  /// Options of a worker of the agent "first", the only agent here. So a worker's slot is its rank.
  [[nodiscard]] CoordinatorClientOptions options(int slot) const {
    return {.address = coordinator.address(), .job_id = kJob, .agent_id = "first", .slot = slot};
  }
  std::unique_ptr<CoordinatorClient> worker(int slot) {
    return connect_to_coordinator(options(slot));
  }

  std::unique_ptr<proto::CoordinatorService::Stub> stub() {
    return proto::CoordinatorService::NewStub(make_channel(coordinator.address()));
  }

  grpc::Status sets_a_value(const std::string& job_id, Generation generation) {
    grpc::ClientContext context;
    proto::SetValueRequest request;
    proto::SetValueReply reply;
    request.set_job_id(job_id);
    request.set_generation(generation);
    request.set_key("key");
    return stub()->SetValue(&context, request, &reply);
  }

  grpc::Status attaches(const std::string& job_id, Generation generation) {
    grpc::ClientContext context;
    const auto its_stub = stub();
    const auto stream = its_stub->AttachWorker(&context);
    proto::WorkerMessage message;
    message.set_job_id(job_id);
    message.set_generation(generation);
    stream->Write(message);
    proto::WorkerCommand command;
    while (stream->Read(&command)) {
    }
    return stream->Finish();
  }

  grpc::Status stops(const std::string& job_id) {
    grpc::ClientContext context;
    proto::StopRequest request;
    proto::StopReply reply;
    request.set_job(job_id);
    return stub()->Stop(&context, request, &reply);
  }

  void begin_generation() {
    agent = std::make_unique<VoiceOfAgent>(coordinator.address(), "a");
    EXPECT_TRUE(agent->hears().has_registered());
    EXPECT_EQ(agent->is_told_workers().slots_size(), 2);
  }

  void join_both() {
    begin_generation();
    first = worker(0);
    second = worker(1);
    auto joining =
        std::async(std::launch::async, [&] { return first->join(std::chrono::seconds{20}); });
    second->join(std::chrono::seconds{20});
    joining.get();
  }

  RunningCoordinator coordinator;
  std::unique_ptr<VoiceOfAgent> agent;
  std::unique_ptr<CoordinatorClient> first;
  std::unique_ptr<CoordinatorClient> second;
};

}  // namespace pfc::testing
