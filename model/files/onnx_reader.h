// Reads ONNX files of known networks.
#pragma once

#include <onnx/onnx_pb.h>

#include <filesystem>
#include <span>

#include "common/files/named_tensors.h"
#include "model/networks/network_graph.h"

namespace pfc {

/// Reads the state dict of an iresnet or a mobilefacenet from a file of this or another exporter,
/// as float32 and without num_batches_tracked, under arcface_torch's names. The graph says which
/// tensor is which, because exporters rename those of convolutions. A batch norm that was folded
/// into the layer before it becomes one that only adds the layer's bias. Throws InputError that
/// names the file, and the node, where the graph is not that of a known network.
NamedTensors read_onnx_state_dict(const std::filesystem::path& path);

/// The same of a graph that must be that of `network`, whose file `path` names. Throws InputError
/// that names the node.
NamedTensors match_onnx(const onnx::GraphProto& graph, std::span<const NetworkOp> network,
                        const std::filesystem::path& path);

}  // namespace pfc
