// Writes networks for tests of distillation.
#pragma once

#include <cmath>
#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

#include "common/files/safetensors.h"
#include "kernels/make_ops.h"
#include "model/files/model_file.h"

namespace pfc::testing {

/// Writes an untrained mbf for square images. With `classes` above 0 the file also has centres:
/// element i of all is sin(i).
inline void write_teacher(const std::filesystem::path& file, std::int64_t side,
                          std::int64_t embedding_size, std::int64_t classes = 0) {
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
  std::vector<float> centres(static_cast<std::size_t>(classes * embedding_size));
  for (std::size_t i = 0; i < centres.size(); ++i) centres[i] = std::sin(static_cast<float>(i));
  if (classes > 0) {
    entries.push_back(
        {"centres", "F32", {classes, embedding_size}, std::as_bytes(std::span(centres))});
  }
  write_safetensors(file, entries, metadata_of(options));
}

}  // namespace pfc::testing
