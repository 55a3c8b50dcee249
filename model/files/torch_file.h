// Reads files that torch.save() wrote, without Python and without running code from them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "common/files/named_tensors.h"

namespace pfc {

/// The contents. Names of values in nested dicts and lists are joined with slashes:
/// "state_optimizer/state/0/momentum_buffer". If the file holds only one tensor or number, its
/// name is "".
struct TorchFile {
  NamedTensors tensors;            ///< views of the mapped file if they are contiguous there
  std::vector<std::string> order;  ///< tensor names in the file's order
  std::map<std::string, std::int64_t> numbers;  ///< integers and booleans
  std::map<std::string, std::string>
      opaque;  ///< name of an object -> its type, "argparse.Namespace"
};

/// Returns whether the file begins like a PyTorch file: zip, or a format before PyTorch 1.6.
bool looks_like_torch_file(const std::filesystem::path& path);

/// Reads the zip format (PyTorch 1.6 and newer). Throws InputError that names the file, and the
/// member, offset or tensor, for damaged or compressed members, a pickle that PyTorch did not
/// write, a tensor outside its storage, tensors that together are far larger than the file, or an
/// older format (the error then has the command that converts it).
TorchFile read_torch_file(const std::filesystem::path& path);

}  // namespace pfc
