// Writes a network to files that other programs read.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>

#include "model/files/model_file.h"
#include "model/files/onnx_graph.h"

namespace pfc {

/// Writes the network as ONNX and checks the file. ONNX's own checker must accept it. Its
/// embeddings of random images may differ from those of Backbone::forward() by at most 1e-4 of
/// their length, or 1e-2 with float16. Returns this difference. If it is larger, throws InputError,
/// deletes the new file, and keeps an earlier file of this name. Throws StorageError if the file
/// cannot be written.
double export_onnx(const ModelFile& model, const std::filesystem::path& path,
                   const OnnxOptions& options);

/// Called with the number of images embedded so far, and the total. Each image counts twice,
/// because the float32 and the int8 graph both embed it.
using ShowExported = std::function<void(std::int64_t done, std::int64_t all)>;

/// Writes the network as ONNX in int8. The ranges of activations come from calibration images:
/// uint8 RGB [count, H, W, 3] of the network's size, at least one. ONNX's own checker must accept
/// the file. The median over these images of the cosine between the int8 and the float32 embedding
/// must be at least 0.99. Returns this median. Throws as export_onnx() does. Sets `options.int8`.
/// REQUIRES: opset 13, not float16.
double export_int8_onnx(const ModelFile& model, const std::filesystem::path& path,
                        OnnxOptions options, std::span<const std::uint8_t> images,
                        const ShowExported& show);

/// Writes the network's tensors under arcface_torch's names. Throws StorageError if the file
/// cannot be written.
void export_safetensors(const ModelFile& model, const std::filesystem::path& path);

}  // namespace pfc
