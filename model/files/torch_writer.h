// Writes PyTorch files: a zip of stored members, with a pickle of protocol 2 as the index.
#pragma once

#include <filesystem>

#include "common/files/named_tensors.h"

namespace pfc {

/// Writes the tensors as a state dict (an OrderedDict of contiguous CPU tensors) that
/// torch.load(path, weights_only=True) reads. F32 and I64 only. Throws StorageError where it cannot
/// be written, InputError where it would be over 4 GB.
void write_torch(const std::filesystem::path& path, const NamedTensors& state_dict);

}  // namespace pfc
