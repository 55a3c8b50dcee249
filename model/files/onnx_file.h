// Reads and writes ONNX files.
#pragma once

#include <onnx/onnx_pb.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace pfc {

/// The node with which an exported graph applies image_mean and image_std.
inline constexpr const char* kScaleColours = "colours";

/// Reads a file. Throws InputError that names it if it is not ONNX, has over 2 GB, or keeps
/// tensors in other files. Does not check the graph (check_onnx()).
onnx::ModelProto read_onnx(const std::filesystem::path& path);
/// Same as read_onnx() for the bytes of a file that is or will be at `path`.
onnx::ModelProto parse_onnx(const std::filesystem::path& path, std::span<const std::byte> bytes);

/// Runs ONNX's own checker and shape inference. Throws InputError that begins with the path.
void check_onnx(const std::filesystem::path& path, onnx::ModelProto model);

/// Returns the bytes of a file for `path`. Throws InputError if there are over 2 GB.
std::string onnx_bytes(const std::filesystem::path& path, const onnx::ModelProto& model);

/// Returns the values of a float32 or float16 tensor. Throws InputError that names it if it has
/// another type, is empty, or the number of values does not match its shape.
std::vector<float> float_values(const onnx::TensorProto& tensor);

/// Returns the values of an int8 tensor with raw data. Throws InputError as float_values() does.
std::vector<float> int8_values(const onnx::TensorProto& tensor);

/// Returns the values of an int64 tensor. Throws InputError as float_values() does.
std::vector<std::int64_t> int64_values(const onnx::TensorProto& tensor);

using Dims = std::vector<std::int64_t>;
Dims dims_of(const onnx::TensorProto& tensor);

/// Returns an attribute of a node, or `otherwise` if it has none of this name.
std::int64_t int_attribute(const onnx::NodeProto& node, const char* name, std::int64_t otherwise);
std::vector<std::int64_t> int_attributes(const onnx::NodeProto& node, const char* name,
                                         std::vector<std::int64_t> otherwise);
float float_attribute(const onnx::NodeProto& node, const char* name, float otherwise);

}  // namespace pfc
