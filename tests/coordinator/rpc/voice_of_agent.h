// A fake agent over real gRPC, without workers.
#pragma once

#include <grpcpp/client_context.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "common/version.h"
#include "proto/channel.h"
#include "proto/coordinator.grpc.pb.h"

namespace pfc::testing {

inline constexpr const char* kJob = "0123456789abcdef";  ///< job of a RunningCoordinator

/// An agent that registers, but starts nothing.
class VoiceOfAgent {
 public:
  VoiceOfAgent(const std::string& address, const std::string& host, const std::string& id = "first",
               const std::string& its_version = version(), const Credential& credential = {},
               const std::string& worker_request = {})
      : stub_(proto::CoordinatorService::NewStub(make_channel(address, credential))),
        stream_(stub_->AttachAgent(&context_)) {
    proto::AgentMessage message;
    message.mutable_registration()->set_host(host);
    message.mutable_registration()->set_agent_id(id);
    message.mutable_registration()->set_version(its_version);
    message.mutable_registration()->set_worker_certificate_request(worker_request);
    stream_->Write(message);
  }
  ~VoiceOfAgent() {
    context_.TryCancel();
    if (!finished_) stream_->Finish();
  }

  proto::AgentCommand hears() {
    proto::AgentCommand command;
    EXPECT_TRUE(stream_->Read(&command)) << "the coordinator has closed the stream";
    return command;
  }

  /// Waits for the desired workers.
  proto::DesiredSlots is_told_workers() {
    while (true) {
      const proto::AgentCommand command = hears();
      const bool ended =
          !command.has_desired() && !command.has_registered() && !command.has_describe();
      if (command.desired().slots_size() > 0 || ended) return command.desired();
    }
  }

  /// Returns why the coordinator has closed the stream.
  grpc::Status is_refused() {
    proto::AgentCommand command;
    while (stream_->Read(&command)) {
    }
    finished_ = true;
    return stream_->Finish();
  }

  /// Breaks the connection.
  void goes() { context_.TryCancel(); }

  void tells_output(int slot, const std::string& line) {
    proto::AgentMessage message;
    message.set_job_id(kJob);
    message.mutable_output()->set_slot(slot);
    message.mutable_output()->set_incarnation(1);
    message.mutable_output()->add_lines(line);
    stream_->Write(message);
  }

  /// Sends the description of this slot's worker.
  void tells_description(int slot, const std::string& text) {
    proto::AgentMessage message;
    message.set_job_id(kJob);
    message.mutable_described()->set_slot(slot);
    message.mutable_described()->set_incarnation(1);
    message.mutable_described()->set_text(text);
    stream_->Write(message);
  }

  /// Sends the reply to a fault.
  void tells_fault(std::int64_t request, const std::string& problem) {
    proto::AgentMessage message;
    message.set_job_id(kJob);
    message.mutable_fault()->set_request(request);
    message.mutable_fault()->set_problem(problem);
    stream_->Write(message);
  }

  /// Sends the reply to a request for a log.
  void tells_log(std::int64_t request, const std::string& text, const std::string& problem = {}) {
    proto::AgentMessage message;
    message.mutable_log_chunk()->set_request(request);
    message.mutable_log_chunk()->set_text(text);
    message.mutable_log_chunk()->set_problem(problem);
    stream_->Write(message);
  }

  void tells_exit(int slot, int signal, const std::string& job_id = kJob) {
    proto::AgentMessage message;
    message.set_job_id(job_id);
    message.mutable_exited()->set_slot(slot);
    message.mutable_exited()->set_incarnation(1);
    message.mutable_exited()->set_signal(signal);
    stream_->Write(message);
  }

 private:
  bool finished_ = false;
  grpc::ClientContext context_;
  std::unique_ptr<proto::CoordinatorService::Stub> stub_;
  std::unique_ptr<grpc::ClientReaderWriter<proto::AgentMessage, proto::AgentCommand>> stream_;
};

}  // namespace pfc::testing
