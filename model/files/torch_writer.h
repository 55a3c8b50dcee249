// Writes PyTorch files: a zip of stored members, with a pickle of protocol 2 as the index.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "common/files/named_tensors.h"

namespace pfc {

/// A contiguous tensor to write: F32 or I64.
struct TorchTensor {
  std::string dtype;
  std::vector<std::int64_t> shape;
  /// Called once, when the tensor is written. The bytes are valid until the next tensor's call.
  std::function<std::span<const std::byte>()> bytes;
};

/// Builds, value by value, a file that torch.load(path, weights_only=True) reads. Within a dict,
/// each key (a text or an integer) is followed by its value.
class TorchWriter {
 public:
  TorchWriter();
  void begin_dict();
  void begin_state_dict();  ///< an OrderedDict
  void end_dict();          ///< ends a dict or a state dict
  void begin_list();
  void end_list();
  void text(const std::string& value);
  void integer(std::int64_t value);
  void real(double value);
  void boolean(bool value);
  void tensor(TorchTensor tensor);
  /// Throws StorageError if the file cannot be written, InputError if it would be over 4 GB.
  void write(const std::filesystem::path& path);

 private:
  void global(const char* module, const char* name);
  void ordered_dict();
  void integers(std::span<const std::int64_t> values);

  std::string pickle_;
  std::vector<TorchTensor> tensors_;
};

/// Adds a dict of the tensors: first those named in `first`, in that order, then the others by
/// name. The tensors must exist until the file is written.
void add_state_dict(TorchWriter& writer, const NamedTensors& state_dict,
                    std::span<const std::string> first = {});

/// Writes the tensors as a state dict (an OrderedDict of contiguous CPU tensors) that
/// torch.load(path, weights_only=True) reads. F32 and I64 only. Throws StorageError if it cannot
/// be written, InputError if it would be over 4 GB.
void write_torch(const std::filesystem::path& path, const NamedTensors& state_dict);

}  // namespace pfc
