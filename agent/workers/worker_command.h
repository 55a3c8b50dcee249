// The command of a worker: arguments, environment, cores and stdin.
#pragma once

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "agent/workers/binding.h"
#include "common/machine/gpu/gpus.h"
#include "common/process/child_process.h"
#include "proto/coordinator.pb.h"
#include "security/credential.h"

namespace pfc {

/// The credential of an agent's workers. All of them use one key, which is not the agent's and
/// never leaves the host. The coordinator certifies this key for each job. Empty in plaintext.
class WorkerCredential {
 public:
  /// `agent` is the agent's own credential.
  explicit WorkerCredential(const Credential& agent);

  /// Returns the certificate request in PEM; empty in plaintext.
  [[nodiscard]] const std::string& request() const { return request_; }
  /// Returns the text that a worker reads from stdin (read_credential()); empty in plaintext.
  [[nodiscard]] std::string text(const std::string& certificate) const;

 private:
  std::string authority_;
  std::string key_;
  std::string request_;
};

/// Holds the parts of the command that all workers of a host share.
class WorkerCommand {
 public:
  struct Options {
    std::filesystem::path program;  ///< the only program that is started
    std::string coordinator;        ///< host:port
    std::string agent_id;
    Credential credential = {};       ///< the agent's credential; empty: plaintext
    std::vector<Gpu> gpus = {};       ///< indexed by slot; each worker is bound near its GPU
    BindMode bind = BindMode::kNone;  ///< as AgentOptions::bind; warns if the cores are unknown
  };
  explicit WorkerCommand(Options options);

  /// Returns the request for the workers' certificate; empty in plaintext.
  [[nodiscard]] const std::string& certificate_request() const { return credential_.request(); }
  /// `wanted` is one of the slots of `desired`, which share the cores.
  [[nodiscard]] SpawnOptions of(const std::string& job_id, const proto::DesiredSlots& desired,
                                const proto::DesiredSlots::Slot& wanted,
                                std::chrono::milliseconds coordinator_grace) const;

 private:
  [[nodiscard]] Binding binding_of(int slot, int places) const;

  const Options options_;
  const WorkerCredential credential_;
  const std::optional<Topology> topology_;  // empty: workers are not bound
};

/// Formats a duration for pfc-worker's options: "70", "2.5".
std::string in_seconds(std::chrono::milliseconds time);

}  // namespace pfc
