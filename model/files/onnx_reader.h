// Reads ONNX files of known networks.
#pragma once

#include <filesystem>

#include "common/files/named_tensors.h"

namespace pfc {

/// Reads the state dict of an iresnet or a mobilefacenet from a file of this or another exporter,
/// as float32 and without num_batches_tracked, under arcface_torch's names. The graph says which
/// tensor is which, because exporters rename those of convolutions. A batch norm that was folded
/// into the layer before it becomes one that only adds the layer's bias. Throws InputError that
/// names the file, and the node, where the graph is not that of a known network.
NamedTensors read_onnx_state_dict(const std::filesystem::path& path);

}  // namespace pfc
