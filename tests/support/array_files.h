// Builds NumPy .npy and safetensors files of embeddings as other programs write them.
#pragma once

#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <vector>

namespace pfc::testing {

template <typename Number>
std::string bytes_of_numbers(const std::vector<Number>& numbers) {
  return {reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(Number)};
}

/// Pads the header as numpy.save() does: data begin at a multiple of 64 bytes.
inline std::string npy_with_header(std::string header, const std::string& data, int version = 1) {
  const std::size_t length_bytes = version == 1 ? 2 : 4;
  header.append(63 - (8 + length_bytes + header.size()) % 64, ' ');
  header += '\n';
  std::string file("\x93NUMPY", 6);
  file += static_cast<char>(version);
  file += '\0';
  const auto length = static_cast<std::uint32_t>(header.size());
  file.append(reinterpret_cast<const char*>(&length), length_bytes);
  return file + header + data;
}

/// descr: "<f4"; shape: "(3, 2)".
inline std::string npy(const std::string& descr, const std::string& shape, const std::string& data,
                       int version = 1) {
  return npy_with_header(
      "{'descr': '" + descr + "', 'fortran_order': False, 'shape': " + shape + ", }", data,
      version);
}

struct StoredTensor {
  std::string name, dtype, shape;  ///< "embeddings", "F32", "[3,2]"
  std::string data;
};

inline std::string safetensors(const std::vector<StoredTensor>& tensors) {
  std::string header = "{", data;
  for (const StoredTensor& t : tensors) {
    if (header.size() > 1) header += ',';
    header += "\"" + t.name + "\":{\"dtype\":\"" + t.dtype + "\",\"shape\":" + t.shape +
              ",\"data_offsets\":[" + std::to_string(data.size()) + "," +
              std::to_string(data.size() + t.data.size()) + "]}";
    data += t.data;
  }
  header += '}';
  const std::uint64_t length = header.size();
  std::string file(reinterpret_cast<const char*>(&length), sizeof length);
  return file + header + data;
}

}  // namespace pfc::testing
