// The time part of pfcctl plan: how long a job's steps take on given machines (docs/capacity.md).
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "worker/capacity/step_cost.h"
#include "worker/memory/memory_plan.h"

namespace pfc {

struct CapacityFlags {
  std::string machine;   ///< "h100", "this", or a file; empty: plan no time
  std::string network;   ///< "400Gb", "25Gb:30us"; empty: not given
  std::string save;      ///< file to save the measured profile to; empty: not saved
  std::string measured;  ///< output folder of a short run that corrects the plan; empty: none
  [[nodiscard]] bool any() const { return !machine.empty(); }
};

/// Adds --gpu, --network, --save and --measured.
void add_capacity_options(CLI::App& verb, CapacityFlags& flags);

/// Call before any input is read, because some input can be read only once. Rejects a bad
/// --network. To measure this machine, restarts this program unless its threads wait as a worker's
/// threads do: spinning threads change the speed of ops.
void prepare_capacity(const CapacityFlags& flags);

/// Parses a speed and an optional latency: "400Gb", "10Gbit/s", "25Gb:30us", "800Mb:2ms". The
/// default latency is 10 us. Nine tenths of the speed count as payload. Throws InputError.
Link parse_network(const std::string& text);

/// Replaces "precision": "auto" in the job by the precision for the GPUs that the flags name, or
/// for this machine's devices. If "cuda" is requested on a machine without a GPU, assumes bf16.
void decide_precision(const CapacityFlags& flags, JobConfig& job);

/// Returns the machine that the flags name; null without --gpu. Measures this machine for "this",
/// which takes seconds, and reports progress on stderr. Throws InputError.
std::optional<MachineProfile> machine_of(const CapacityFlags& flags, const PlannedJob& planned);

struct Capacity {
  ClusterModel cluster;
  StepCost step;
  std::string network;           ///< as given on the command line
  std::string measured;          ///< the run that corrected the plan
  std::int64_t samples = 0;      ///< per step, all workers
  std::int64_t steps = 0;        ///< number of steps of the job; 0: unknown
  double epochs = 0;             ///< number of epochs in these steps
  std::uint64_t checkpoint = 0;  ///< bytes of one checkpoint
  std::uint64_t kept = 0;        ///< bytes of all checkpoints on disk at the same time
  [[nodiscard]] double samples_per_second() const;
  /// Returns the cores per host that decoding needs so that no worker waits for images.
  [[nodiscard]] double decoding_cores() const;
};

/// Throws InputError for several hosts without --network, or a run that is not comparable.
Capacity plan_capacity(const CapacityFlags& flags, const PlannedJob& planned, int workers_of_host,
                       const MemoryPlan& memory, MachineProfile machine);

/// Returns a table of the phases with a summary, for the terminal.
std::string capacity_text(const Capacity& capacity);
nlohmann::ordered_json capacity_json(const Capacity& capacity);

}  // namespace pfc
