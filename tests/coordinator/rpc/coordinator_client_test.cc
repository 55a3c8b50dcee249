// A worker's client and a coordinator that only listens.
#include "worker/report/coordinator_client.h"

#include <gmock/gmock.h>
#include <grpcpp/server_builder.h>
#include <gtest/gtest.h>

#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "proto/coordinator.grpc.pb.h"
#include "proto/grpc_runtime.h"

namespace pfc {
namespace {

using namespace std::chrono_literals;

/// Takes every worker for rank 0 of one, and keeps what it says.
class Listener final : public proto::CoordinatorService::Service {
 public:
  Listener() {
    set_up_grpc();
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port_);
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
  }
  ~Listener() override { server_->Shutdown(std::chrono::system_clock::now()); }

  grpc::Status Join(grpc::ServerContext*, const proto::JoinRequest*,
                    proto::JoinReply* reply) override {
    reply->set_world_size(1);
    reply->set_generation(++generation_);
    return grpc::Status::OK;
  }
  grpc::Status AttachWorker(
      grpc::ServerContext*,
      grpc::ServerReaderWriter<proto::WorkerCommand, proto::WorkerMessage>* stream) override {
    stream->Write({});
    proto::WorkerMessage message;
    while (stream->Read(&message)) {
      const std::lock_guard lock(mutex_);
      if (message.has_progress()) heard_.push_back(message.progress());
      changed_.notify_all();
    }
    return grpc::Status::OK;
  }
  grpc::Status Finish(grpc::ServerContext*, const proto::FinishRequest* request,
                      proto::FinishReply*) override {
    const std::lock_guard lock(mutex_);
    finished_ = *request;
    return grpc::Status::OK;
  }

  [[nodiscard]] std::unique_ptr<CoordinatorClient> worker() const {
    return connect_to_coordinator(
        {.address = "127.0.0.1:" + std::to_string(port_), .job_id = "job", .agent_id = "agent"});
  }
  /// Waits for the first progress on the stream.
  proto::Progress heard() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return !heard_.empty(); });
    return heard_.front();
  }
  proto::FinishRequest finished() {
    const std::lock_guard lock(mutex_);
    return finished_;
  }

 private:
  int port_ = 0;
  std::atomic<int> generation_{0};
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<proto::Progress> heard_;  // guarded by mutex_
  proto::FinishRequest finished_;       // guarded by mutex_
  std::unique_ptr<grpc::Server> server_;
};

const Progress kLastStep{.step = 42, .phase = "forward", .phases = {{"forward", 0.5}}};

// What the stream carries may arrive after the end, and is dropped then.
TEST(CoordinatorClient, RepeatsWithItsEndTheProgressThatTheStreamHasTaken) {
  Listener coordinator;
  const auto worker = coordinator.worker();
  worker->join(20s);
  worker->report(kLastStep);
  EXPECT_EQ(coordinator.heard().phases_size(), 1);
  worker->finish(CoordinatorClient::Outcome::kCompleted, "");
  EXPECT_EQ(coordinator.finished().progress().step(), 42);
  EXPECT_EQ(coordinator.finished().progress().phases_size(), 0) << "a sample is counted twice";
}

TEST(CoordinatorClient, TellsNoProgressOfAnEarlierGenerationAtItsEnd) {
  Listener coordinator;
  const auto worker = coordinator.worker();
  worker->join(20s);
  worker->report(kLastStep);
  EXPECT_EQ(coordinator.heard().step(), 42);
  worker->join(20s);
  worker->finish(CoordinatorClient::Outcome::kStopped, "");
  EXPECT_EQ(coordinator.finished().left_generation(), 2);
  EXPECT_FALSE(coordinator.finished().has_progress());
}

}  // namespace
}  // namespace pfc
