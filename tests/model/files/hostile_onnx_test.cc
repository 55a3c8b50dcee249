// Tests that ONNX files made to harm the reader are rejected with an error of one line.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "kernels/make_ops.h"
#include "model/files/onnx_file.h"
#include "model/files/onnx_interpreter.h"
#include "tests/support/error_message.h"
#include "tests/support/files.h"
#include "tests/support/temporary_folder.h"

namespace pfc {
namespace {

void declare(onnx::ValueInfoProto& value, const std::string& name, std::vector<std::int64_t> dims) {
  value.set_name(name);
  auto& type = *value.mutable_type()->mutable_tensor_type();
  type.set_elem_type(onnx::TensorProto::FLOAT);
  for (const std::int64_t d : dims) type.mutable_shape()->add_dim()->set_dim_value(d);
}

void add_node(onnx::ModelProto& model, const std::string& type, std::vector<std::string> inputs,
              const std::string& output) {
  onnx::NodeProto& node = *model.mutable_graph()->add_node();
  node.set_op_type(type);
  node.set_name(output);
  for (const std::string& input : inputs) node.add_input(input);
  node.add_output(output);
}

onnx::TensorProto& add_tensor(onnx::ModelProto& model, std::vector<std::int64_t> dims) {
  onnx::TensorProto& tensor = *model.mutable_graph()->add_initializer();
  tensor.set_name("w");
  tensor.set_data_type(onnx::TensorProto::FLOAT);
  for (const std::int64_t d : dims) tensor.add_dims(d);
  return tensor;
}

/// Returns a model that reads x [2, 1, 4, 4] and writes y, without nodes.
onnx::ModelProto empty_model() {
  onnx::ModelProto model;
  model.set_ir_version(7);
  model.add_opset_import()->set_version(13);
  model.mutable_graph()->set_name("g");
  declare(*model.mutable_graph()->add_input(), "x", {2, 1, 4, 4});
  onnx::ValueInfoProto& y = *model.mutable_graph()->add_output();
  declare(y, "y", {});
  for (int i = 0; i < 4; ++i) y.mutable_type()->mutable_tensor_type()->mutable_shape()->add_dim();
  return model;
}

std::string external_data() {
  onnx::ModelProto model = empty_model();
  onnx::TensorProto& tensor = add_tensor(model, {1, 1});
  tensor.set_data_location(onnx::TensorProto::EXTERNAL);
  auto& location = *tensor.add_external_data();
  location.set_key("location");
  location.set_value("../../../etc/passwd");
  return model.SerializeAsString();
}

std::string nested_subgraphs() {
  onnx::ModelProto model = empty_model();
  onnx::GraphProto* graph = model.mutable_graph();
  for (int i = 0; i < 100; ++i) graph = graph->add_node()->add_attribute()->mutable_g();
  return model.SerializeAsString();
}

std::string cycle() {
  onnx::ModelProto model = empty_model();
  add_node(model, "Add", {"x", "y"}, "z");
  add_node(model, "Add", {"x", "z"}, "y");
  return model.SerializeAsString();
}

std::string doubling() {
  onnx::ModelProto model = empty_model();
  std::string value = "x";
  for (int i = 0; i < 40; ++i) {
    const std::string next = i == 39 ? "y" : "y" + std::to_string(i);
    add_node(model, "Concat", {value, value}, next);
    auto& axis = *model.mutable_graph()->mutable_node(i)->add_attribute();
    axis.set_name("axis");
    axis.set_type(onnx::AttributeProto::INT);
    axis.set_i(0);
    value = next;
  }
  return model.SerializeAsString();
}

/// Adds an attribute to the model's only node.
void add_ints(onnx::ModelProto& model, const std::string& name,
              const std::vector<std::int64_t>& values) {
  auto& attribute = *model.mutable_graph()->mutable_node(0)->add_attribute();
  attribute.set_name(name);
  attribute.set_type(onnx::AttributeProto::INTS);
  for (const std::int64_t value : values) attribute.add_ints(value);
}

std::string stride_of_0() {
  onnx::ModelProto model = empty_model();
  add_tensor(model, {1, 1, 1, 1}).set_raw_data("1234");
  add_node(model, "Conv", {"x", "w"}, "y");
  add_ints(model, "strides", {1, 0});
  return model.SerializeAsString();
}

std::string padded_pool() {
  onnx::ModelProto model = empty_model();
  add_node(model, "MaxPool", {"x"}, "y");
  add_ints(model, "kernel_shape", {1, 1});
  add_ints(model, "pads", {0, 0, 1, 1});
  return model.SerializeAsString();
}

std::string pool_outside_the_image() {
  onnx::ModelProto model = empty_model();
  add_node(model, "MaxPool", {"x"}, "y");
  add_ints(model, "kernel_shape", {3, 3});
  add_ints(model, "pads", {3, 3, 3, 3});
  return model.SerializeAsString();
}

std::string function() {
  onnx::ModelProto model = empty_model();
  model.add_functions()->set_name("f");
  return model.SerializeAsString();
}

/// Returns a PRelu whose slope claims 2^62 values.
std::string huge_shape() {
  onnx::ModelProto model = empty_model();
  add_tensor(model, {std::int64_t{1} << 31, std::int64_t{1} << 31, 1}).set_raw_data("1234");
  add_node(model, "PRelu", {"x", "w"}, "y");
  return model.SerializeAsString();
}

struct HostileFile {
  std::string name;
  std::function<std::string()> content;
  std::string error;
};

class HostileOnnx : public ::testing::TestWithParam<HostileFile> {};

TEST_P(HostileOnnx, IsRejectedWithOneLine) {
  const TemporaryFolder folder;
  const std::filesystem::path file = folder / "m.onnx";
  testing::write_file(file, GetParam().content());
  const auto ops = make_ops({.choice = DeviceChoice::kCpu, .cpu_threads = 1});
  EXPECT_THAT(testing::message_of<InputError>([&] {
                const onnx::ModelProto model = read_onnx(file);
                check_onnx(file, model);
                run_onnx(*ops, model, 2, std::vector<float>(32));
              }),
              ::testing::HasSubstr(GetParam().error));
}

INSTANTIATE_TEST_SUITE_P(
    All, HostileOnnx,
    ::testing::Values(
        HostileFile{"ExternalData", external_data, "m.onnx: tensor w is in another file"},
        HostileFile{"LengthOf2GB",
                    [] { return std::string("\x08\x07\x3a\xff\xff\xff\xff\x07graph"); },
                    "m.onnx: not an ONNX file, or damaged"},
        HostileFile{"NestedSubgraphs", nested_subgraphs, "m.onnx: not an ONNX file, or damaged"},
        HostileFile{"Cycle", cycle,
                    "m.onnx: not a valid ONNX model: Nodes in a graph must be topo"},
        HostileFile{"StrideOf0", stride_of_0, "node y: strides of 0 or less"},
        HostileFile{"PaddedPool", padded_pool, "node y: expected square windows, equal strides"},
        HostileFile{"PoolOutsideTheImage", pool_outside_the_image,
                    "node y: expected windows that contain pixels"},
        HostileFile{"Function", function, "m.onnx: not a valid ONNX model: found functions"},
        HostileFile{"HugeShape", huge_shape, "tensor w has 1 values, which do not fit its shape"},
        HostileFile{"Doubling", doubling, "activations would take more than 1 GB"}),
    [](const auto& each) { return each.param.name; });

TEST(HostileOnnx, FileOf3GBIsRejectedUnread) {
  const TemporaryFolder folder;
  testing::write_file(folder / "m.onnx", std::string("\x08\x07"));
  // Sparse; uses no disk space.
  std::filesystem::resize_file(folder / "m.onnx", std::uintmax_t{3} << 30);
  EXPECT_THAT(testing::message_of<InputError>([&] { read_onnx(folder / "m.onnx"); }),
              ::testing::HasSubstr("m.onnx: 3221225472 bytes, expected an ONNX file of at most"));
}

}  // namespace
}  // namespace pfc
