// Tests a worker's client with a coordinator that only stores its reports.
#include "worker/coordinator_link/coordinator_client.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <grpcpp/server_builder.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "common/files/fd.h"
#include "proto/coordinator.grpc.pb.h"
#include "proto/grpc_runtime.h"

namespace pfc {
namespace {

using namespace std::chrono_literals;

/// Accepts every worker as the only one of its job, and stores its reports.
class ProgressListener final : public proto::CoordinatorService::Service {
 public:
  ProgressListener() {
    set_up_grpc();
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port_);
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
  }
  ~ProgressListener() override { server_->Shutdown(std::chrono::system_clock::now()); }

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

// Progress on the stream may arrive after the end, and is dropped then.
TEST(CoordinatorClient, RepeatsTheLastProgressInItsFinalReport) {
  ProgressListener coordinator;
  const auto worker = coordinator.worker();
  worker->join(20s);
  worker->report(kLastStep);
  EXPECT_EQ(coordinator.heard().phases_size(), 1);
  worker->finish(CoordinatorClient::Outcome::kCompleted, "");
  EXPECT_EQ(coordinator.finished().progress().step(), 42);
  EXPECT_EQ(coordinator.finished().progress().phases_size(), 0) << "they would be counted twice";
}

TEST(CoordinatorClient, ReportsNoProgressOfAnEarlierGenerationAtItsEnd) {
  ProgressListener coordinator;
  const auto worker = coordinator.worker();
  worker->join(20s);
  worker->report(kLastStep);
  EXPECT_EQ(coordinator.heard().step(), 42);
  worker->join(20s);
  worker->finish(CoordinatorClient::Outcome::kStopped, "");
  EXPECT_EQ(coordinator.finished().left_generation(), 2);
  EXPECT_FALSE(coordinator.finished().has_progress());
}

/// Ports of this machine that accept connections, but never answer.
class SilentHost {
 public:
  SilentHost() {
    for (Fd& fd : listeners_) {
      fd = Fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
      sockaddr_in address{};
      address.sin_family = AF_INET;
      address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
      EXPECT_EQ(::bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
      EXPECT_EQ(::listen(fd, 64), 0);
      socklen_t size = sizeof(address);
      ::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size);
      address_ += (address_.empty() ? "ipv4:127.0.0.1:" : ",127.0.0.1:") +
                  std::to_string(ntohs(address.sin_port));
    }
  }
  [[nodiscard]] const std::string& address() const { return address_; }

 private:
  std::array<Fd, 5> listeners_;  // a connection attempt tries each of them for 2 s
  std::string address_;
};

// One connection attempt takes 10 s (five ports, 2 s each), which is longer than the grace period.
TEST(CoordinatorClient, WaitsNoLongerThanItsGraceForAnUnresponsiveHost) {
  const SilentHost host;
  const auto begin = std::chrono::steady_clock::now();
  const auto time = [&] { return std::chrono::steady_clock::now() - begin; };
  const auto worker = connect_to_coordinator({.address = host.address(),
                                              .job_id = "job",
                                              .agent_id = "agent",
                                              .grace = 8s,
                                              .gives_up = [&] { return time() > 45s; }});
  EXPECT_FALSE(worker->finish(CoordinatorClient::Outcome::kCompleted, "").told);
  EXPECT_LT(time(), 20s);
}

}  // namespace
}  // namespace pfc
