// Reads ONNX files of known networks.
#pragma once

#include <onnx/onnx_pb.h>

#include <filesystem>
#include <span>

#include "common/files/named_tensors.h"
#include "model/networks/network_graph.h"

namespace pfc {

/// Reads the state dict of an iresnet or a mobilefacenet from a file of any exporter, as float32
/// and without num_batches_tracked, under arcface_torch's names. Identifies the tensors by the
/// graph, because exporters rename the convolutions' tensors. A batch norm that was folded into the
/// previous layer becomes a batch norm that only adds that layer's bias. Throws InputError that
/// names the file, and the node, if the graph is not that of a known network.
NamedTensors read_onnx_state_dict(const std::filesystem::path& path);

/// Like read_onnx_state_dict(), but expects the graph of this `network`. `path`: the file of the
/// graph, for errors. Throws InputError that names the node.
NamedTensors match_onnx(const onnx::GraphProto& graph, std::span<const NetworkOp> network,
                        const std::filesystem::path& path);

}  // namespace pfc
