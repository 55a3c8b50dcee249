// Writes a network to files that other programs read.
#pragma once

#include <filesystem>

#include "model/files/model_file.h"
#include "model/files/onnx_graph.h"

namespace pfc {

/// Writes the network as ONNX and checks the file: ONNX's own checker accepts it, and on random
/// images it gives the embeddings that Backbone::forward() gives, within 1e-4 of their length, or
/// 1e-2 with float16. Returns that difference. Throws InputError if it is larger; then the new file
/// is deleted, and an earlier file of this name stays. Throws StorageError if the file cannot be
/// written.
double export_onnx(const ModelFile& model, const std::filesystem::path& path,
                   const OnnxOptions& options);

/// Writes the network's tensors in arcface_torch's names. Throws StorageError if the file cannot be
/// written.
void export_safetensors(const ModelFile& model, const std::filesystem::path& path);

}  // namespace pfc
