#include "agent/workers/worker_command.h"

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <sstream>
#include <stdexcept>
#include <utility>

#include "common/log.h"
#include "common/machine/cores.h"
#include "common/machine/thread_waiting.h"
#include "security/openssl.h"
#include "security/private_key.h"

namespace pfc {
namespace {

using Environment = std::vector<std::pair<std::string, std::string>>;

Environment worker_environment(int workers_of_host, const Binding& binding) {
  const int threads = threads_of_worker(workers_of_host, binding.cores);
  Environment environment{{"OMP_NUM_THREADS", std::to_string(threads)}};
  if (!threads_are_chosen()) environment.emplace_back(kShareOfCores, "1");
  if (auto waiting = waiting_of_worker_threads()) environment.push_back(std::move(*waiting));
  return environment;
}

/// Returns nothing if workers should not be bound, or hwloc fails.
std::optional<Topology> find_topology(BindMode bind) {
  if (bind == BindMode::kNone) return {};
  try {
    return Topology::here();
  } catch (const std::runtime_error& error) {
    print_message("pfc-agent", Severity::kWarning,
                  std::string("workers are not bound to cores: ") + error.what());
    return {};
  }
}

}  // namespace

std::string in_seconds(std::chrono::milliseconds time) {
  std::ostringstream text;
  text << static_cast<double>(time.count()) / 1000;
  return text.str();
}

WorkerCredential::WorkerCredential(const Credential& agent) : authority_(agent.authority) {
  if (!agent.secure()) return;
  const KeyOwner key = make_key();
  key_ = to_pem(*key);
  request_ = make_request(*key);
}

std::string WorkerCredential::text(const std::string& certificate) const {
  if (authority_.empty()) return {};
  return to_text({.authority = authority_, .certificate = certificate, .key = key_});
}

WorkerCommand::WorkerCommand(Options options)
    : options_(std::move(options)),
      credential_(options_.credential),
      topology_(find_topology(options_.bind)) {}

// CUDA_VISIBLE_DEVICES is not changed: every worker sees all GPUs of the host and uses the one of
// its local rank. So a GPU has the same number in all messages, and NCCL can access the memory of
// other GPUs directly. A worker creates a CUDA context only on its own GPU.
SpawnOptions WorkerCommand::of(const std::string& job_id, const proto::DesiredSlots& desired,
                               const proto::DesiredSlots::Slot& wanted,
                               std::chrono::milliseconds coordinator_grace) const {
  using std::chrono::milliseconds;
  const int places = std::max(desired.places(), desired.slots_size());
  const Binding binding = binding_of(wanted.slot(), places);
  SpawnOptions options{
      .program = options_.program,
      .arguments = {"--coordinator", options_.coordinator, "--job", job_id, "--agent",
                    options_.agent_id, "--slot", std::to_string(wanted.slot()), "--incarnation",
                    std::to_string(wanted.incarnation()), "--join-timeout",
                    in_seconds(milliseconds(desired.join_timeout_ms())), "--collective-timeout",
                    in_seconds(milliseconds(desired.collective_timeout_ms())),
                    "--coordinator-grace", in_seconds(coordinator_grace)},
      .environment = worker_environment(places, binding),
      .capture_output = true,
      .input = credential_.text(desired.worker_certificate()),
      .cpus = binding.cpus};
  if (!options.input.empty()) {
    options.arguments.insert(options.arguments.end(), {"--credential", "-"});
  }
  return options;
}

Binding WorkerCommand::binding_of(int slot, int places) const {
  if (!topology_) return {};
  std::vector<int> near;
  for (const Gpu& gpu : options_.gpus) near.push_back(topology_->node_of_device(gpu.pci_bus_id));
  const auto plan = plan_binding(*topology_, options_.bind, places, near);
  const auto place = static_cast<std::size_t>(slot);
  return place < plan.size() ? plan[place] : Binding();
}

}  // namespace pfc
