#include "coordinator/rpc/unary_reactor.h"

#include <grpcpp/client_context.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/server_builder.h>
#include <gtest/gtest.h>

#include <atomic>
#include <boost/asio/executor_work_guard.hpp>
#include <chrono>
#include <memory>
#include <string>
#include <thread>

#include "proto/coordinator.grpc.pb.h"

namespace pfc {
namespace {

using namespace std::chrono_literals;

/// Answers no call.
class Silent final : public proto::CoordinatorService::CallbackService {
 public:
  explicit Silent(boost::asio::io_context& loop) : loop_(loop) {}

  grpc::ServerUnaryReactor* Status(grpc::CallbackServerContext*, const proto::StatusRequest*,
                                   proto::StatusReply*) override {
    auto* const call = new UnaryReactor(loop_);
    call->when_done([this] { done = true; });
    end = call->end();
    asked = true;
    return call;
  }

  std::shared_ptr<UnaryReactor::End> end;  // shared with the call
  std::atomic<bool> asked{false}, done{false};

 private:
  boost::asio::io_context& loop_;
};

void wait_for(const std::atomic<bool>& flag) {
  for (int left = 6'000; !flag && left > 0; --left) std::this_thread::sleep_for(10ms);
}

TEST(UnaryReactor, FreesItsRequestWhenTheCallerHasGone) {
  boost::asio::io_context loop;
  const auto work = boost::asio::make_work_guard(loop);
  std::thread thread([&] { loop.run(); });
  Silent service(loop);
  int port = 0;
  grpc::ServerBuilder builder;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
  builder.RegisterService(&service);
  const auto server = builder.BuildAndStart();
  const auto stub = proto::CoordinatorService::NewStub(
      grpc::CreateChannel("127.0.0.1:" + std::to_string(port), grpc::InsecureChannelCredentials()));
  grpc::ClientContext context;
  const proto::StatusRequest request;
  proto::StatusReply reply;
  std::atomic<bool> ended{false};
  stub->async()->Status(&context, &request, &reply, [&](const grpc::Status&) { ended = true; });
  wait_for(service.asked);
  EXPECT_FALSE(service.end->is_over());
  context.TryCancel();
  wait_for(service.done);
  EXPECT_TRUE(service.done);
  EXPECT_EQ(service.end->take(), nullptr);  // a later answer is dropped
  wait_for(ended);
  server->Shutdown(std::chrono::system_clock::now());
  loop.stop();
  thread.join();
}

}  // namespace
}  // namespace pfc
