// Writes networks for tests of distillation.
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "common/files/safetensors.h"
#include "kernels/make_ops.h"
#include "model/files/model_file.h"

namespace pfc::testing {

/// Writes an untrained mbf for square images.
inline void write_teacher(const std::filesystem::path& file, std::int64_t side,
                          std::int64_t embedding_size) {
  const auto ops = make_ops({.choice = DeviceChoice::kCpu, .cpu_threads = 1});
  const BackboneOptions options{.network = "mbf",
                                .batch = 1,
                                .embedding_size = embedding_size,
                                .height = side,
                                .width = side,
                                .seed = 5};
  const auto tensors = export_state_dict(*ops, *make_backbone(*ops, options));
  std::vector<SafetensorsEntry> entries;
  for (const HostTensor& t : tensors) entries.push_back({t.name, t.dtype, t.shape, t.bytes});
  write_safetensors(file, entries, metadata_of(options));
}

}  // namespace pfc::testing
