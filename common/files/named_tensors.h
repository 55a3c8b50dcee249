// Named tensors of a file, in host memory, for example the state dict of a network.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace pfc {

/// Returns the shape as text: "[64, 3, 3, 3]".
std::string shape_text(std::span<const std::int64_t> shape);
/// Returns a name from a file in quotation marks, on one line.
std::string quoted_name(std::string_view name);

/// Table of tensors in memory, for example in a mapped file. Copies share ownership of the memory.
class NamedTensors {
 public:
  struct Tensor {
    std::string dtype;  ///< name in safetensors: "F32", "BF16", "F16", "I64", "U8" ...
    std::vector<std::int64_t> shape;
    std::span<const std::byte> bytes;  ///< contiguous, row by row; valid as long as the table
    std::uint64_t offset = 0;          ///< offset in the file; 0 if the tensor is not in a file
  };

  explicit NamedTensors(std::filesystem::path path = {}) : path_(std::move(path)) {}

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  [[nodiscard]] const std::map<std::string, Tensor>& tensors() const { return tensors_; }
  /// Returns the tensor. Throws InputError that names file, tensor and the nearest existing name.
  [[nodiscard]] const Tensor& at(const std::string& name) const;
  /// Returns the tensor as float32. Throws InputError if it has another type or shape.
  [[nodiscard]] std::span<const float> float32(const std::string& name,
                                               std::span<const std::int64_t> shape) const;

  /// Adds a tensor, or replaces the one of this name. REQUIRES: its bytes fit its dtype and shape,
  /// are aligned for the dtype, and belong to memory that was given to keep().
  void add(const std::string& name, Tensor tensor) { tensors_[name] = std::move(tensor); }
  /// Moves the tensors whose names `match` to a new table, which shares the memory.
  NamedTensors extract(const std::function<bool(const std::string&)>& match);
  /// Takes shared ownership of the memory of tensors.
  void keep(std::shared_ptr<const void> memory) { memory_.push_back(std::move(memory)); }
  /// Adds a tensor and takes ownership of its bytes.
  void add_owned(const std::string& name, const std::string& dtype, std::vector<std::int64_t> shape,
                 std::vector<std::byte> bytes);

 private:
  std::filesystem::path path_;
  std::map<std::string, Tensor> tensors_;
  std::vector<std::shared_ptr<const void>> memory_;
};

}  // namespace pfc
