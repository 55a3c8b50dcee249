// pfcctl plan, the part of time: how long the steps of a job take on machines that it names
// (docs/capacity.md).
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "worker/cost/step_cost.h"
#include "worker/memory/memory_plan.h"

namespace pfc {

struct CapacityFlags {
  std::string machine;   ///< "h100", "this", or a file; empty: no time is asked for
  std::string network;   ///< "400Gb", "25Gb:30us"; empty: not given
  std::string save;      ///< a file for what was measured; empty: nowhere
  std::string measured;  ///< the output folder of a short run; empty: none
  [[nodiscard]] bool any() const { return !machine.empty(); }
};

/// Adds --gpu, --network, --save and --measured.
void add_capacity_options(CLI::App& verb, CapacityFlags& flags);

/// Before anything is read, as input may come only once: refuses a --network that is none, and
/// begins this program again where this machine is to be measured and its threads wait in another
/// way than a worker's, whose ops take longer, or shorter, than those of threads that spin.
void prepare_capacity(const CapacityFlags& flags);

/// A speed and a latency: "400Gb", "10Gbit/s", "25Gb:30us", "800Mb:2ms". Without a latency 10 us
/// are taken. Nine tenths of the speed count as payload. Throws InputError.
Link parse_network(const std::string& text);

/// Writes into the job what "precision": "auto" would become on GPUs like those that the flags
/// name, or on devices like this machine's. GPUs that are not here are taken for ones that have
/// bf16.
void decide_precision(const CapacityFlags& flags, JobConfig& job);

/// The machine that the flags name, measured where it is this one, which takes 15 s and says on
/// stderr what it does. Null without --gpu. Throws InputError.
std::optional<MachineProfile> machine_of(const CapacityFlags& flags, const PlannedJob& planned);

struct Capacity {
  Cluster cluster;
  StepCost step;
  std::string network;           ///< as it was given
  std::string measured;          ///< the run that has corrected it
  std::int64_t samples = 0;      ///< of a step, all workers
  std::int64_t steps = 0;        ///< of the job; 0: not known
  double epochs = 0;             ///< that these steps are
  std::uint64_t checkpoint = 0;  ///< bytes
  std::uint64_t kept = 0;        ///< bytes of all checkpoints that are on disk at the same time
  [[nodiscard]] double samples_per_second() const;
  /// Returns the cores of a host that input decoding needs if no worker waits for images.
  [[nodiscard]] double decoding_cores() const;
};

/// Throws InputError: several hosts without --network, or a run that cannot be compared.
Capacity plan_capacity(const CapacityFlags& flags, const PlannedJob& planned, int workers_of_host,
                       const MemoryPlan& memory, MachineProfile machine);

/// For people: a table of the phases, and what follows from it.
std::string capacity_text(const Capacity& capacity);
nlohmann::ordered_json capacity_json(const Capacity& capacity);

}  // namespace pfc
