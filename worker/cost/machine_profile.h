// Speed of a machine for the work of a training step: measured, or from a data sheet.
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

/// seconds = overhead + flops * per_flop + bytes * per_byte. This is Hockney's model of a message,
/// used for ops too (Hockney, "The communication challenge for MPP", 1994). Bytes have another
/// rate if all tensors of the op fit into the cache, because the previous op has just written one
/// of them.
struct Rate {
  double overhead = 0;       ///< seconds per call
  double per_flop = 0;       ///< seconds
  double per_byte = 0;       ///< seconds
  double per_near_byte = 0;  ///< seconds
};

struct HeadRate {
  double overhead = 0;  ///< seconds per micro-batch
  double per_flop = 0, per_logit = 0, per_byte = 0;
  double per_drawn = 0;  ///< on one core, in parallel with the step
  [[nodiscard]] double seconds(const HeadWork& work) const {
    return overhead + work.flops * per_flop + work.logits * per_logit + work.bytes * per_byte;
  }
};

/// Cost of a message between two workers.
struct Link {
  double latency = 0;   ///< seconds
  double per_byte = 0;  ///< seconds per byte, one direction
};

/// Compute resources of a host: one GPU, or all CPU cores that its workers share.
struct MachineProfile {
  std::string name;    ///< "h100", or the processor's name
  std::string source;  ///< "measured 2026-11-23", "data sheet, efficiencies assumed"
  bool gpu = false;
  int cores = 1;                  ///< number of cores that a CPU's rates refer to
  std::uint64_t cache_bytes = 0;  ///< if an op's tensors fit, per_near_byte is used; 0: never
  std::array<Rate, kOpKinds> ops;
  HeadRate head;
  /// Between workers of one host. For GPUs: each has its own link. For a CPU: total bytes moved by
  /// all its workers, because the same cores copy them.
  Link local;
  double decode_seconds = 0;       ///< one image of 112 x 112 pixels, on one core
  double step_seconds = 0;         ///< host's part of a step, outside of its ops
  std::uint64_t memory_bytes = 0;  ///< of a GPU; 0 if unknown

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
/// assumed fractions of the peaks that kernels reach. Nothing was measured. Returns nullopt for
/// another name.
std::optional<MachineProfile> gpu_profile(const std::string& name, DType activations, bool tf32);
/// Returns the names that gpu_profile() accepts.
std::vector<std::string> gpu_names();

nlohmann::json to_json(const MachineProfile& profile);
/// Throws InputError that names the file, and the missing or wrong key.
MachineProfile read_profile(const std::filesystem::path& file);
/// Throws StorageError.
void write_profile(const MachineProfile& profile, const std::filesystem::path& file);

}  // namespace pfc
