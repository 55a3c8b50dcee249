// Performance of GPUs from their data sheets.

#include <algorithm>
#include <array>

#include "worker/capacity/machine_profile.h"

namespace pfc {
namespace {

struct DataSheet {
  const char* name;
  double bf16, fp16, tf32, fp32;  // dense products, operations per second; 0 if unsupported
  double memory;                  // bytes per second
  double nvlink;                  // bytes per second, all links, one direction
  std::uint64_t memory_bytes;
};

// Dense peaks in the data sheets of H200 SXM, H100 SXM5, A100 SXM4 80 GB and V100 SXM2 32 GB.
constexpr std::array<DataSheet, 4> kSheets{{
    {"h200", 989e12, 989e12, 494e12, 67e12, 4.8e12, 450e9, 141'000'000'000},
    {"h100", 989e12, 989e12, 494e12, 67e12, 3.35e12, 450e9, 80'000'000'000},
    {"a100", 312e12, 312e12, 156e12, 19.5e12, 2.04e12, 300e9, 80'000'000'000},
    {"v100", 0, 125e12, 0, 15.7e12, 0.9e12, 150e9, 32'000'000'000},
}};

// Fractions of the peaks that kernels are assumed to reach. With these fractions, the predicted
// times of r50 and of a head of a million classes are within 5 % of those measured on an H200
// (docs/benchmarks/h200.md).
constexpr double kProducts = 0.45;  // convolutions and matrix products
constexpr double kMemory = 0.80;
constexpr double kLinks = 0.70;
constexpr double kKernel = 3e-6;         // seconds between the kernels of a CUDA graph
constexpr double kStepSeconds = 300e-6;  // the host's part of a step, in seconds
constexpr double kCollective = 15e-6;    // a small NCCL collective within a host, in seconds

double peak(const DataSheet& sheet, DType activations, bool tf32) {
  switch (activations) {
    case DType::kBFloat16:
      return sheet.bf16;
    case DType::kFloat16:
      return sheet.fp16;
    default:
      return tf32 && sheet.tf32 > 0 ? sheet.tf32 : sheet.fp32;
  }
}

}  // namespace

std::vector<std::string> gpu_names() {
  std::vector<std::string> names;
  for (const DataSheet& sheet : kSheets) names.emplace_back(sheet.name);
  return names;
}

std::optional<MachineProfile> gpu_profile(const std::string& name, DType activations, bool tf32) {
  const auto sheet = std::ranges::find(kSheets, name, &DataSheet::name);
  if (sheet == kSheets.end() || peak(*sheet, activations, tf32) == 0) return std::nullopt;
  return MachineProfile{.name = name,
                        .source = "its data sheet, with assumed efficiencies; nothing measured",
                        .gpu = true,
                        .roofline = {.per_flop = 1 / (peak(*sheet, activations, tf32) * kProducts),
                                     .per_byte = 1 / (sheet->memory * kMemory),
                                     .per_op = kKernel},
                        .local = {.latency = kCollective, .per_byte = 1 / (sheet->nvlink * kLinks)},
                        .step_seconds = kStepSeconds,
                        .memory_bytes = sheet->memory_bytes};
}

}  // namespace pfc
