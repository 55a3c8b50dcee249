// Selects a coordinator and the credential for it, and calls it.
#pragma once

#include <grpcpp/client_context.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <filesystem>
#include <string>

#include "common/coordinator_file.h"
#include "common/error.h"
#include "proto/channel.h"
#include "proto/coordinator.grpc.pb.h"

namespace pfc {

/// A coordinator's address and the caller's credential.
struct Endpoint {
  std::string address;
  Credential credential;
  std::string token = {};  ///< sent with every call if the credential has no certificate
};

/// Command-line options that select the coordinator.
struct Target {
  std::string coordinator;
  std::string service;
  std::filesystem::path access_file;
  std::filesystem::path state_dir = default_state_folder();

  void declare(CLI::App& verb);
  /// Returns the selected coordinator. Throws InputError if it does not exist or its files belong
  /// to another user, and CommError if it cannot be reached.
  [[nodiscard]] Endpoint endpoint() const;
};

inline constexpr std::chrono::seconds kCallTimeout{10};

/// Calls to one coordinator over one connection.
class CoordinatorCall {
 public:
  explicit CoordinatorCall(Endpoint endpoint)
      : endpoint_(std::move(endpoint)),
        stub_(proto::CoordinatorService::NewStub(
            make_channel(endpoint_.address, endpoint_.credential))) {}

  [[nodiscard]] const std::string& address() const { return endpoint_.address; }

  /// Calls `rpc`. Throws InputError with the coordinator's message if it rejects the request, and
  /// CommError if it does not answer.
  template <typename Request, typename Reply>
  Reply operator()(grpc::Status (proto::CoordinatorService::Stub::*rpc)(grpc::ClientContext*,
                                                                        const Request&, Reply*),
                   const Request& request) const {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + kCallTimeout + std::chrono::seconds{2});
    if (!endpoint_.token.empty()) {
      context.AddMetadata("authorization", "Bearer " + endpoint_.token);
    }
    Reply reply;
    const grpc::Status status = (*stub_.*rpc)(&context, request, &reply);
    if (status.ok()) return reply;
    const bool refused = status.error_code() == grpc::StatusCode::INVALID_ARGUMENT ||
                         status.error_code() == grpc::StatusCode::FAILED_PRECONDITION ||
                         status.error_code() == grpc::StatusCode::PERMISSION_DENIED;
    if (refused) throw InputError(status.error_message());
    throw CommError("coordinator " + address() + " does not answer (" + problem_of(status) +
                    "); is it running, and is this its --port?");
  }

 private:
  const Endpoint endpoint_;
  const std::unique_ptr<proto::CoordinatorService::Stub> stub_;
};

}  // namespace pfc
