// Writes a network to files that other programs read.
#pragma once

#include <filesystem>

#include "model/files/model_file.h"
#include "model/files/onnx_graph.h"

namespace pfc {

/// Writes the network as ONNX and checks the file: ONNX's own checker accepts it, and on random
/// images it gives the embeddings that Backbone::forward() gives, within 1e-4 of their length, or
/// 1e-2 with float16. Otherwise the file is deleted, and InputError thrown, which says by how much
/// they differ. Throws StorageError where it cannot be written. Returns that difference.
double export_onnx(const ModelFile& model, const std::filesystem::path& path,
                   const OnnxOptions& options);

void export_safetensors(const ModelFile& model, const std::filesystem::path& path);

}  // namespace pfc
