// Checks an ONNX file against the limits of InsightFace's competition
// (recognition/arcface_torch/onnx_helper.py).
#pragma once

#include <onnx/onnx_pb.h>

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/ops.h"

namespace pfc {

struct CompetitionTrack {
  std::string_view name;
  std::int64_t embedding_size;  ///< maximum
  int milliseconds;             ///< maximum time per image; not checked here
};
std::span<const CompetitionTrack> competition_tracks();

struct OnnxLimit {
  std::string what;      ///< "file"
  std::string found;     ///< "166 MB"
  std::string expected;  ///< "at most 1024 MB"
  bool kept = false;
};

/// Checks all limits except the time per image. `file_bytes`: the size of the model's file. Runs
/// 32 images through run_onnx() if all other limits are met. Throws InputError if the graph has
/// an operator that run_onnx() does not know. REQUIRES: check_onnx() has accepted the model.
std::vector<OnnxLimit> check_limits(Ops& ops, const onnx::ModelProto& model,
                                    std::uint64_t file_bytes, const CompetitionTrack& track);

}  // namespace pfc
