// Builds the ONNX graph of a network.
#pragma once

#include <onnx/onnx_pb.h>

#include <span>

#include "model/files/model_file.h"
#include "model/files/onnx_calibration.h"
#include "model/networks/network_graph.h"

namespace pfc {

inline constexpr int kLowestOpset = 11, kHighestOpset = 13, kInt8Opset = 13;
inline constexpr const char* kOnnxOutput = "embedding";

struct OnnxOptions {
  int opset = kHighestOpset;
  /// Weights and activations are float16, except the linear layer and the batch norm after it.
  /// Input and output stay float32.
  bool float16 = false;
  /// Ranges of the float32 graph's values; not null: all inputs of Conv and Gemm are quantized to
  /// int8 (QuantizeLinear, DequantizeLinear). Weights are symmetric per output channel,
  /// activations symmetric per tensor. Biases and results are float32. Borrowed. REQUIRES: opset
  /// 13, not float16.
  const ActivationRanges* int8 = nullptr;
  /// The graph itself computes x / 127.5 - 1: its input is pixels, 0 to 255.
  bool normalize = false;
  /// The output is the sum of the embeddings of the image and of its mirror image.
  bool flip = false;
};

/// Builds the graph. Input "data" [N, 3, height, width], output "embedding" [N, embedding_size];
/// N is symbolic. Nodes are named after the modules. A batch norm after a convolution is folded
/// into it. A batch norm before a convolution is not folded, because the convolution pads the
/// batch norm's output with zeros. `network`: the network_graph() of the model.
onnx::ModelProto make_onnx(std::span<const NetworkOp> network, const ModelFile& model,
                           const OnnxOptions& options);

}  // namespace pfc
