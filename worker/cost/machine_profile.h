// How fast a machine does the work of a training step: measured, or from a data sheet.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "worker/cost/step_work.h"

namespace pfc {

/// seconds = overhead + flops * per_flop + bytes * per_byte: Hockney's model of a message, for ops
/// too (Hockney, "The communication challenge for MPP", 1994). Bytes have another rate where all
/// tensors of the op fit into the cache, because the op before has just written one of them.
struct Rate {
  double overhead = 0;       ///< seconds a call
  double per_flop = 0;       ///< seconds
  double per_byte = 0;       ///< seconds
  double per_near_byte = 0;  ///< seconds
};

struct HeadRate {
  double overhead = 0;  ///< seconds a micro-batch
  double per_flop = 0, per_logit = 0, per_byte = 0;
  double per_drawn = 0;  ///< of one core, beside the step
  [[nodiscard]] double seconds(const HeadWork& work) const {
    return overhead + work.flops * per_flop + work.logits * per_logit + work.bytes * per_byte;
  }
};

/// A message between two workers.
struct Link {
  double latency = 0;   ///< seconds
  double per_byte = 0;  ///< seconds a byte, one direction
};

/// The compute part of a host: one GPU, or all the CPU cores that its workers share.
struct MachineProfile {
  std::string name;    ///< "h100", or the processor's name
  std::string source;  ///< "measured 2026-11-23", "data sheet, efficiencies assumed"
  bool gpu = false;
  int cores = 1;                  ///< that the rates of a CPU are of
  std::uint64_t cache_bytes = 0;  ///< that tensors of an op fit into; 0: per_near_byte is not used
  std::array<Rate, kOpKinds> ops;
  HeadRate head;
  /// Between workers of one host. Of GPUs: each has a link of its own. Of a CPU: bytes that all its
  /// workers together move, because they are copied by the same cores.
  Link local;
  double decode_seconds = 0;       ///< of one image of 112 x 112 pixels, on one core
  double step_seconds = 0;         ///< of a step beside its ops: the host's part
  std::uint64_t memory_bytes = 0;  ///< of a GPU; 0: not known

  [[nodiscard]] bool near(const OpWork& work) const {
    return work.bytes <= static_cast<double>(cache_bytes);
  }
  [[nodiscard]] double seconds(const OpWork& work) const {
    const Rate& rate = ops[static_cast<std::size_t>(work.kind)];
    return rate.overhead + work.flops * rate.per_flop +
           work.bytes * (near(work) ? rate.per_near_byte : rate.per_byte);
  }
};

/// Returns the profile of "h200", "h100", "a100" or "v100" from NVIDIA's data sheets, with the
/// fractions of the peaks that kernels are assumed to reach. Nothing was measured. Returns nothing
/// for another name.
std::optional<MachineProfile> gpu_profile(const std::string& name, DType activations, bool tf32);
/// The names that gpu_profile() knows.
std::vector<std::string> gpu_names();

nlohmann::json to_json(const MachineProfile& profile);
/// Throws InputError that names the file, and the key that is missing or wrong.
MachineProfile read_profile(const std::filesystem::path& file);
/// Throws StorageError.
void write_profile(const MachineProfile& profile, const std::filesystem::path& file);

}  // namespace pfc
