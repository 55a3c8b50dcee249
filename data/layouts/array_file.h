// Locates an array in a .npy file of NumPy, or a tensor in a safetensors file. Reads only headers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "common/files/safetensors.h"

namespace pfc {

enum class ElementType { kFloat32, kFloat16, kBFloat16, kInt64, kInt32 };

std::size_t size_of(ElementType type);
const char* name_of(ElementType type);  ///< "float32"

/// A row-major array that is completely inside the file.
struct ArrayInFile {
  std::filesystem::path file;
  std::string name;  ///< for messages: "FILE", or "FILE: tensor 'NAME'"
  ElementType type = ElementType::kFloat32;
  std::vector<std::int64_t> shape;
  std::uint64_t offset = 0;  ///< offset of its first element in the file
};

/// The dictionary in a .npy header: "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }",
/// with keys in any order.
struct NpyHeader {
  std::string descr;  ///< "<f4"
  bool fortran_order = false;
  std::vector<std::int64_t> shape;
};

/// Throws InputError that starts with `file` for any other text.
NpyHeader parse_npy_header(std::string_view text, const std::string& file);

/// Returns the array of a .npy file of version 1.0 to 3.0. Throws InputError that names the file,
/// what was found and what was expected: also for big-endian numbers, Fortran order, objects (which
/// are pickles), and a file shorter than its header says.
ArrayInFile npy_array(const std::filesystem::path& file);

/// Throws InputError like SafetensorsFile, and for a tensor of another type.
ArrayInFile safetensors_array(const SafetensorsFile& file, const std::string& tensor);

}  // namespace pfc
