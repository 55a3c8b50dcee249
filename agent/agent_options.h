// Command-line options of pfc-agent.
#pragma once

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>

#include "agent/logs/rotating_log.h"
#include "agent/workers/binding.h"
#include "common/machine/gpu/gpus.h"
#include "security/credential.h"

namespace pfc {

struct AgentOptions {
  std::string coordinator;               ///< host:port
  std::string host;                      ///< this host's name in the coordinator's --hosts
  std::string id;                        ///< empty: random
  std::filesystem::path worker_program;  ///< the only program that the agent starts
  Credential credential = {};            ///< the agent's credential; empty: plaintext
  GpuSearch gpus;                        ///< GPUs usable by the workers
  BindMode bind = BindMode::kNuma;       ///< which cores each worker may use
  /// If set, the agent serves one job after another and retries the coordinator forever. Otherwise
  /// it ends with the job or the coordinator, or when the coordinator refuses it.
  bool stays = false;
  bool allow_chaos = false;          ///< pfcctl chaos may inject faults on this host
  std::filesystem::path log_folder;  ///< for the workers' logs; empty: logs are not stored
  LogLimits log_limits;
  /// Timeout for the first connection to a coordinator, unless `stays` is set.
  std::chrono::milliseconds patience{30'000};
  /// How long workers keep training without the coordinator, so that another one can take over.
  /// After this time the workers end, and unless `stays` is set, the agent too. Empty: use the
  /// coordinator's value.
  std::optional<std::chrono::milliseconds> coordinator_grace = {};
  /// The value used until the coordinator has sent its own.
  std::chrono::milliseconds first_coordinator_grace{0};
  std::chrono::milliseconds grace{5'000};  ///< from SIGTERM to SIGKILL when the agent ends
  /// Time for a checkpoint when the host is drained.
  std::chrono::milliseconds leave_grace{30'000};
  /// Time for a checkpoint when the coordinator is lost. It can be long, because nothing waits.
  std::chrono::milliseconds lost_grace{30'000};
};

}  // namespace pfc
