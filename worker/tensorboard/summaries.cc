#include "worker/tensorboard/summaries.h"

#include <cstdint>

namespace pfc {
namespace {

using tensorboard::Summary;

std::string with_known_bytes(std::string_view name) {
  constexpr std::string_view kKnown =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-";
  std::string known(name);
  for (char& c : known) {
    if (kKnown.find(c) == std::string_view::npos) c = '_';
  }
  return known;
}

/// Adds a value that TensorBoard's plugin of this name displays.
tensorboard::TensorProto& add_tensor(Summary& summary, const std::string& tag, const char* plugin,
                                     tensorboard::DataClass data_class, tensorboard::DataType type,
                                     std::initializer_list<std::int64_t> shape) {
  Summary::Value& value = *summary.add_value();
  value.set_tag(tag);
  value.mutable_metadata()->mutable_plugin_data()->set_plugin_name(plugin);
  value.mutable_metadata()->set_data_class(data_class);
  tensorboard::TensorProto& tensor = *value.mutable_tensor();
  tensor.set_dtype(type);
  for (const std::int64_t size : shape) tensor.mutable_tensor_shape()->add_dim()->set_size(size);
  return tensor;
}

}  // namespace

std::string tag_of(std::string_view group, std::string_view name) {
  return with_known_bytes(group) + "/" + with_known_bytes(name);
}

void add_scalar(Summary& summary, const std::string& tag, double value) {
  Summary::Value& scalar = *summary.add_value();
  scalar.set_tag(tag);
  scalar.set_simple_value(static_cast<float>(value));
}

void add_histogram(Summary& summary, const std::string& tag,
                   std::span<const HistogramBucket> buckets) {
  auto& tensor = add_tensor(summary, tag, "histograms", tensorboard::DATA_CLASS_TENSOR,
                            tensorboard::DT_DOUBLE, {static_cast<std::int64_t>(buckets.size()), 3});
  for (const HistogramBucket& bucket : buckets) {
    for (const double number : {bucket.left, bucket.right, bucket.count}) {
      tensor.add_double_val(number);
    }
  }
}

void add_images(Summary& summary, const std::string& tag, int width, int height,
                std::span<const std::vector<std::byte>> files) {
  auto& tensor = add_tensor(summary, tag, "images", tensorboard::DATA_CLASS_BLOB_SEQUENCE,
                            tensorboard::DT_STRING, {2 + static_cast<std::int64_t>(files.size())});
  tensor.add_string_val(std::to_string(width));
  tensor.add_string_val(std::to_string(height));
  for (const std::vector<std::byte>& file : files) {
    tensor.add_string_val(file.data(), file.size());
  }
}

}  // namespace pfc
