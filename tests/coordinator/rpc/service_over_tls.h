// A coordinator over TLS, and its callers' credentials.
#pragma once

#include <gmock/gmock.h>
#include <grpcpp/client_context.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <fstream>
#include <iterator>
#include <string>

#include "agent/join.h"
#include "common/error.h"
#include "coordinator/access/gate.h"
#include "tests/coordinator/rpc/voice_of_agent.h"
#include "tests/coordinator/running_coordinator.h"
#include "tests/support/error_message.h"
#include "tests/support/temporary_folder.h"

namespace pfc::testing {

/// Hosts a and b with one slot each.
class ServiceOverTls : public ::testing::Test {
 protected:
  JoinString new_join_string() {
    return parse_join_string(gate.make_join_string(coordinator.address()), "the gate");
  }
  JoinString join_string_for(const std::string& host) {
    return parse_join_string(gate.create_token({}, {.hosts = {host}}, coordinator.address()).text,
                             "the gate");
  }
  /// An agent's state folder is named after its machine.
  JoinedCluster joins(const JoinString& join, const std::string& host, const std::string& machine) {
    return join_cluster(join, host, folder / machine, std::chrono::seconds{60});
  }
  /// Returns the error when an agent's token is refused.
  std::string is_refused(const JoinString& join, const std::string& host,
                         const std::string& machine) {
    return message_of<InputError>([&] { joins(join, host, machine); });
  }

  Credential admin() { return read_credential(folder / "state" / "security" / "admin.pem"); }

  template <typename Request, typename Reply>
  grpc::Status calls(grpc::Status (proto::CoordinatorService::Stub::*rpc)(grpc::ClientContext*,
                                                                          const Request&, Reply*),
                     const Credential& credential, Request request = {},
                     const std::string& reader = {}) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds{60});
    if (!reader.empty()) context.AddMetadata("authorization", "Bearer " + reader);
    if constexpr (requires { request.set_job_id(kJob); }) request.set_job_id(kJob);
    Reply reply;
    const auto stub =
        proto::CoordinatorService::NewStub(make_channel(coordinator.address(), credential));
    return (*stub.*rpc)(&context, request, &reply);
  }

  /// Expects that this refusal was counted and audited.
  void expect_noted(const std::string& reason, int count = 1) {
    EXPECT_THAT(gate.metrics_text(),
                ::testing::HasSubstr("pfc_coordinator_refusals_total{reason=\"" + reason + "\"} " +
                                     std::to_string(count) + "\n"));
    wait_until([&] { return audit().find("\"result\":\"" + reason + "\"") != std::string::npos; });
  }
  std::string audit() const {
    std::ifstream file(folder / "state" / "audit.jsonl");
    return {std::istreambuf_iterator<char>(file), {}};
  }

  TemporaryFolder folder;
  std::atomic<std::int64_t> now{1'800'000'000};
  Gate gate{{.state_dir = folder / "state", .clock = [this] { return now.load(); }}};
  RunningCoordinator coordinator{
      {{.name = "a", .slots = 1}, {.name = "b", .slots = 1}}, impatient(), 0, kJob, &gate};
  Credential stranger{.authority = gate.server().authority};
};

}  // namespace pfc::testing
