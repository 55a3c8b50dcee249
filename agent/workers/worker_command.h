// How a worker is started: its arguments, its environment, its cores, and what its stdin has.
#pragma once

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "agent/workers/binding.h"
#include "agent/workers/worker_credential.h"
#include "common/machine/child_process.h"
#include "common/machine/gpu/gpus.h"
#include "proto/coordinator.pb.h"

namespace pfc {

/// What is the same for all workers of a host.
class WorkerCommand {
 public:
  struct Options {
    std::filesystem::path program;  ///< the only one that is started
    std::string coordinator;        ///< host:port
    std::string agent_id;
    Credential credential = {};       ///< the agent's own; none: plaintext
    std::vector<Gpu> gpus = {};       ///< near which workers are bound, by slot
    BindMode bind = BindMode::kNone;  ///< warns where the machine's cores cannot be found out
  };
  explicit WorkerCommand(Options options);

  /// For the certificate of the workers; empty in plaintext.
  [[nodiscard]] const std::string& certificate_request() const { return credential_.request(); }
  /// `wanted`: one of the slots of `desired`, which share the cores.
  [[nodiscard]] SpawnOptions of(const std::string& job_id, const proto::DesiredSlots& desired,
                                const proto::DesiredSlots::Slot& wanted,
                                std::chrono::milliseconds coordinator_grace) const;

 private:
  [[nodiscard]] Binding binding_of(int slot, int places) const;

  const Options options_;
  const WorkerCredential credential_;
  const std::optional<Topology> topology_;  // none: workers are not bound
};

/// A duration as pfc-worker's options take it: "70", "2.5".
std::string in_seconds(std::chrono::milliseconds time);

}  // namespace pfc
