// Speed of a machine for the work of a training step: measured, or from a data sheet.
#pragma once

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "worker/capacity/step_work.h"

namespace pfc {

/// Cost of a message between two workers: Hockney's model (Hockney, "The communication challenge
/// for MPP", 1994).
struct Link {
  double latency = 0;   ///< seconds
  double per_byte = 0;  ///< seconds per byte, one direction
};

/// The roofline model (Williams et al., "Roofline", 2009): an op takes as long as its arithmetic or
/// its memory traffic, whichever takes longer.
struct Roofline {
  double per_flop = 0;  ///< seconds
  double per_byte = 0;  ///< seconds
  double per_op = 0;    ///< seconds between two ops
  [[nodiscard]] double seconds(const OpWork& work) const {
    return per_op + std::max(work.flops * per_flop, work.bytes * per_byte);
  }
  [[nodiscard]] double seconds(const OpWorks& works) const {
    double sum = 0;
    for (const OpWork& work : works) sum += seconds(work);
    return sum;
  }
  /// Returns the time for arithmetic plus the time for memory traffic, because the products of a
  /// tile do not overlap with the passes over their results.
  [[nodiscard]] double seconds(const HeadWork& work) const {
    constexpr double kLogitBytes = 8;  // float32, written and read once
    return work.flops * per_flop + (work.logits * kLogitBytes + work.bytes) * per_byte;
  }
};

/// Compute resources of a host: one GPU, or all CPU cores that its workers share.
struct MachineProfile {
  std::string name;    ///< "h100", or the name of the processor
  std::string source;  ///< "measured 2026-11-23 with r50", "data sheet, efficiencies assumed"
  bool gpu = false;
  int cores = 1;  ///< number of CPU cores to which the rates refer
  Roofline roofline;
  // Measured time of a network's phases, divided by the time that the roofline predicts.
  double forward = 1, backward = 1, head = 1;
  /// Link between workers of one host. Each GPU has its own link. The workers on a CPU share one
  /// link, because the same cores copy the bytes of all workers.
  Link local;
  double draw_seconds = 0;  ///< to draw one class's number, on one core, in parallel with the step
  double decode_seconds = 0;       ///< to decode one image of 112 x 112 pixels, on one core
  double step_seconds = 0;         ///< the host's part of a step, outside the step's ops
  std::uint64_t memory_bytes = 0;  ///< memory of a GPU; 0 if unknown
};

/// Returns the profile of "h200", "h100", "a100" or "v100" from NVIDIA's data sheets, with assumed
/// fractions of the peaks that kernels reach. The values are not measured. Returns nullopt for
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
