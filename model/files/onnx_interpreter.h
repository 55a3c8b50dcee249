// Evaluates the ONNX operators that make_onnx() emits, to check written files.
#pragma once

#include <onnx/onnx_pb.h>

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "kernels/ops.h"

namespace pfc {

/// Called with each activation, including the graph's input. The order of the activation's numbers
/// is unspecified.
using ObserveActivation = std::function<void(const std::string& value, std::span<const float>)>;

/// Runs the graph: images float32 [batch, 3, height, width] -> its output [batch, D]. Float16
/// results are rounded to float16; int8 results are integers. Throws InputError that names the
/// node if the graph has another operator, or attributes that make_onnx() does not emit.
/// REQUIRES: `ops` computes on the host in float32, and check_onnx() has accepted the model.
std::vector<float> run_onnx(Ops& ops, const onnx::ModelProto& model, std::int64_t batch,
                            std::span<const float> images, const ObserveActivation& observe = {});

}  // namespace pfc
