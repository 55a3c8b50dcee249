#include "model/files/onnx_file.h"

#include <onnx/checker.h>
#include <onnx/shape_inference/implementation.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <span>

#include "common/error.h"
#include "common/files/mapped_file.h"
#include "common/one_line.h"

namespace pfc {
namespace {

constexpr std::size_t kLargest = std::numeric_limits<std::int32_t>::max();  // limit of protobuf

void expect_own_tensors(const std::filesystem::path& path, const onnx::GraphProto& graph) {
  for (const onnx::TensorProto& tensor : graph.initializer()) {
    if (tensor.data_location() != onnx::TensorProto::EXTERNAL) continue;
    throw InputError(path.string() + ": tensor " + tensor.name() +
                     " is in another file, expected all tensors in this one; save the model "
                     "again without external data");
  }
}

/// Rejects zeros: ONNX's shape inference would divide by them, which ends the program.
void expect_divisors(const onnx::GraphProto& graph) {
  for (const onnx::NodeProto& node : graph.node()) {
    for (const onnx::AttributeProto& attribute : node.attribute()) {
      const bool divides = attribute.name() == "strides" || attribute.name() == "blocksize";
      const bool positive =
          attribute.type() == onnx::AttributeProto::INT
              ? attribute.i() > 0
              : std::ranges::all_of(attribute.ints(), [](std::int64_t each) { return each > 0; });
      if (divides && !positive) {
        throw InputError("node " + node.name() + ": " + attribute.name() + " of 0 or less");
      }
      if (attribute.has_g()) expect_divisors(attribute.g());
      for (const onnx::GraphProto& each : attribute.graphs()) expect_divisors(each);
    }
  }
}

const onnx::AttributeProto* find(const onnx::NodeProto& node, const char* name) {
  for (const onnx::AttributeProto& attribute : node.attribute()) {
    if (attribute.name() == name) return &attribute;
  }
  return nullptr;
}

void expect_shape(const onnx::TensorProto& tensor, std::size_t values) {
  std::size_t rest = values;
  bool fits = values > 0;
  for (const std::int64_t d : tensor.dims()) {
    fits = fits && d > 0 && rest % static_cast<std::size_t>(d) == 0;
    if (fits) rest /= static_cast<std::size_t>(d);
  }
  if (fits && rest == 1) return;
  throw InputError("tensor " + tensor.name() + " has " + std::to_string(values) +
                   " values, which do not fit its shape; the file is damaged");
}

void expect_type(const onnx::TensorProto& tensor, bool ok, const char* expected) {
  if (ok) return;
  throw InputError("tensor " + tensor.name() + " is of type " +
                   onnx::TensorProto::DataType_Name(tensor.data_type()) + ", expected " + expected +
                   "; export the model again");
}

}  // namespace

onnx::ModelProto read_onnx(const std::filesystem::path& path) {
  return parse_onnx(path, MappedFile(path).bytes());
}

onnx::ModelProto parse_onnx(const std::filesystem::path& path, std::span<const std::byte> bytes) {
  const std::size_t size = bytes.size();
  if (size > kLargest) {
    throw InputError(path.string() + ": " + std::to_string(size) +
                     " bytes, expected an ONNX file of at most 2 GB");
  }
  onnx::ModelProto model;
  if (!model.ParseFromArray(bytes.data(), static_cast<int>(size)) || !model.has_graph()) {
    throw InputError(path.string() + ": not an ONNX file, or damaged; export the model again");
  }
  expect_own_tensors(path, model.graph());
  return model;
}

void check_onnx(const std::filesystem::path& path, onnx::ModelProto model) {
  try {
    if (model.functions_size() > 0) throw InputError("found functions, expected only operators");
    onnx::checker::check_model(model);
    expect_divisors(model.graph());
    onnx::shape_inference::InferShapes(model, onnx::OpSchemaRegistry::Instance(),
                                       {/*check_type=*/true, /*error_mode=*/1});
  } catch (const std::exception& error) {
    throw InputError(path.string() + ": not a valid ONNX model: " + one_line(error.what()) +
                     "; export the model again");
  }
}

std::string onnx_bytes(const std::filesystem::path& path, const onnx::ModelProto& model) {
  const std::size_t size = model.ByteSizeLong();
  if (size > kLargest) {
    throw InputError(path.string() + ": the model takes " + std::to_string(size) +
                     " bytes, but protobuf limits an ONNX file to 2 GB; write safetensors");
  }
  return model.SerializeAsString();
}

std::vector<float> float_values(const onnx::TensorProto& tensor) {
  const bool half = tensor.data_type() == onnx::TensorProto::FLOAT16;
  expect_type(tensor, half || tensor.data_type() == onnx::TensorProto::FLOAT, "float32 or float16");
  std::vector<float> values;
  if (half && tensor.has_raw_data()) {
    std::vector<_Float16> halves(tensor.raw_data().size() / sizeof(_Float16));
    std::memcpy(halves.data(), tensor.raw_data().data(), halves.size() * sizeof(_Float16));
    values.assign(halves.begin(), halves.end());
  } else if (half) {
    for (const std::int32_t each : tensor.int32_data()) {
      values.push_back(std::bit_cast<_Float16>(static_cast<std::uint16_t>(each)));
    }
  } else if (tensor.has_raw_data()) {
    values.resize(tensor.raw_data().size() / sizeof(float));
    std::memcpy(values.data(), tensor.raw_data().data(), values.size() * sizeof(float));
  } else {
    values.assign(tensor.float_data().begin(), tensor.float_data().end());
  }
  expect_shape(tensor, values.size());
  return values;
}

std::vector<float> int8_values(const onnx::TensorProto& tensor) {
  expect_type(tensor, tensor.data_type() == onnx::TensorProto::INT8, "int8");
  const std::string& raw = tensor.raw_data();
  expect_shape(tensor, raw.size());
  std::vector<float> values;
  values.reserve(raw.size());
  for (const char each : raw) values.push_back(static_cast<signed char>(each));
  return values;
}

std::vector<std::int64_t> int64_values(const onnx::TensorProto& tensor) {
  expect_type(tensor, tensor.data_type() == onnx::TensorProto::INT64, "int64");
  const std::string& raw = tensor.raw_data();
  std::vector<std::int64_t> values(tensor.int64_data().begin(), tensor.int64_data().end());
  if (tensor.has_raw_data()) {
    values.resize(raw.size() / sizeof(std::int64_t));
    std::memcpy(values.data(), raw.data(), values.size() * sizeof(std::int64_t));
  }
  expect_shape(tensor, values.size());
  return values;
}

Dims dims_of(const onnx::TensorProto& tensor) {
  return {tensor.dims().begin(), tensor.dims().end()};
}

std::int64_t int_attribute(const onnx::NodeProto& node, const char* name, std::int64_t otherwise) {
  const onnx::AttributeProto* const attribute = find(node, name);
  return attribute == nullptr ? otherwise : attribute->i();
}

std::vector<std::int64_t> int_attributes(const onnx::NodeProto& node, const char* name,
                                         std::vector<std::int64_t> otherwise) {
  const onnx::AttributeProto* const attribute = find(node, name);
  if (attribute == nullptr) return otherwise;
  return {attribute->ints().begin(), attribute->ints().end()};
}

float float_attribute(const onnx::NodeProto& node, const char* name, float otherwise) {
  const onnx::AttributeProto* const attribute = find(node, name);
  return attribute == nullptr ? otherwise : attribute->f();
}

}  // namespace pfc
