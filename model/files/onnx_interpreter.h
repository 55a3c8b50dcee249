// Evaluates the ONNX operators that make_onnx() emits, to check a file that was written.
#pragma once

#include <onnx/onnx_pb.h>

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "kernels/ops.h"

namespace pfc {

/// Called with each activation, the input included, in any order of its numbers.
using ObserveActivation = std::function<void(const std::string& value, std::span<const float>)>;

/// images float32 [batch, 3, height, width] -> the graph's output [batch, D]. Float16 results are
/// rounded to float16; int8 ones are whole numbers. Throws InputError that names the node where the
/// graph has another operator, or attributes that make_onnx() does not emit. REQUIRES: `ops`
/// computes on the host in float32, and check_onnx() has accepted the model.
std::vector<float> run_onnx(Ops& ops, const onnx::ModelProto& model, std::int64_t batch,
                            std::span<const float> images, const ObserveActivation& observe = {});

}  // namespace pfc
