// Reads files that torch.save() wrote, without Python and without running code from them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "common/files/named_tensors.h"

namespace pfc {

/// The contents, where nested dicts and lists make names with slashes:
/// "state_optimizer/state/0/momentum_buffer". A file that holds nothing but a tensor or a number
/// has the name "".
struct TorchFile {
  NamedTensors tensors;            ///< views of the mapped file where they are contiguous there
  std::vector<std::string> order;  ///< names of the tensors as the file has them
  std::map<std::string, std::int64_t> numbers;  ///< whole ones, and flags
  std::map<std::string, std::string>
      opaque;  ///< name of an object -> its type, "argparse.Namespace"
};

/// Whether the file begins as one that PyTorch writes: zip, or a format of PyTorch before 1.6.
bool looks_like_torch_file(const std::filesystem::path& path);

/// Reads the zip format (PyTorch 1.6 and newer). Throws InputError that names the file, and member,
/// offset or tensor: damaged or compressed members, a pickle that is none of PyTorch's, a tensor
/// outside its storage, tensors that together are far larger than the file, or an older format
/// (with the command that converts it).
TorchFile read_torch_file(const std::filesystem::path& path);

}  // namespace pfc
