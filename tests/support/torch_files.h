// Builds zip files and pickles as torch.save() writes them, and damaged ones.
#pragma once

#include <zlib.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace pfc::testing {

/// Returns the number's bytes, little-endian.
template <typename Number>
std::string raw(Number number) {
  return {reinterpret_cast<const char*>(&number), sizeof number};
}

struct ZipMember {
  std::string name, content;
  std::uint16_t method = 0;
  std::uint16_t flags = 8;      ///< 8: sizes and checksum follow the content
  std::uint32_t wrong_crc = 0;  ///< added to the correct checksum
};

/// `zip64` stores sizes and offsets in 8-byte fields.
inline std::string zip_of(const std::vector<ZipMember>& members, bool zip64 = false) {
  std::string file, directory;
  const auto narrow = [&](std::size_t n) {
    return raw(zip64 ? 0xffffffffu : static_cast<std::uint32_t>(n));
  };
  const auto wide = [](std::size_t n) { return raw(static_cast<std::uint64_t>(n)); };
  for (const ZipMember& m : members) {
    const auto* const bytes = reinterpret_cast<const Bytef*>(m.content.data());
    const auto crc =
        static_cast<std::uint32_t>(::crc32(0, bytes, static_cast<uInt>(m.content.size())));
    const std::string checked = raw(crc + m.wrong_crc);
    const std::string fields = raw<std::uint16_t>(45) + raw(m.flags) + raw(m.method) + raw(0u);
    const auto name_bytes = raw(static_cast<std::uint16_t>(m.name.size()));
    const std::size_t begin = file.size();
    std::string filling = "FB" + raw<std::uint16_t>(0);
    const std::size_t to_64 = 63 - (begin + 30 + m.name.size() + 4 + 63) % 64;
    filling[2] = static_cast<char>(to_64);
    filling.append(to_64, 'Z');
    // Zeros, because the sizes follow the content.
    file += "PK\x03\x04" + fields + std::string(12, '\0') + name_bytes +
            raw(static_cast<std::uint16_t>(filling.size())) + m.name + filling + m.content +
            "PK\x07\x08" + checked + raw(static_cast<std::uint32_t>(m.content.size())) +
            raw(static_cast<std::uint32_t>(m.content.size()));
    std::string extra;
    if (zip64) {
      extra = raw<std::uint16_t>(1) + raw<std::uint16_t>(24) + wide(m.content.size()) +
              wide(m.content.size()) + wide(begin);
    }
    directory += "PK\x01\x02" + raw<std::uint16_t>(0) + fields + checked +
                 narrow(m.content.size()) + narrow(m.content.size()) + name_bytes +
                 raw(static_cast<std::uint16_t>(extra.size())) + std::string(10, '\0') +
                 narrow(begin) + m.name + extra;
  }
  const std::size_t at = file.size();
  file += directory;
  const std::size_t end = file.size();
  if (zip64) {
    file += "PK\x06\x06" + wide(44) + raw(0u) + raw(0u) + raw(0u) + wide(members.size()) +
            wide(members.size()) + wide(directory.size()) + wide(at);
    file += "PK\x06\x07" + raw(0u) + wide(end) + raw(1u);
  }
  const std::string count = zip64 ? "\xff\xff" : raw(static_cast<std::uint16_t>(members.size()));
  return file + "PK\x05\x06" + raw(0u) + count + count + narrow(directory.size()) + narrow(at) +
         raw<std::uint16_t>(0);
}

// Parts of a pickle of protocol 2.
inline std::string pickled_text(std::string_view text) {
  return "X" + raw(static_cast<std::uint32_t>(text.size())) + std::string(text);
}
inline std::string pickled_number(std::int64_t n) { return "\x8a\x08" + raw(n); }
inline std::string pickled_tuple(const std::vector<std::string>& values) {
  std::string all = "(";
  for (const std::string& v : values) all += v;
  return all + "t";
}
inline std::string pickled_numbers(const std::vector<std::int64_t>& numbers) {
  std::vector<std::string> values;
  for (const std::int64_t n : numbers) values.push_back(pickled_number(n));
  return pickled_tuple(values);
}
/// `global`: "torch._utils\n_rebuild_tensor_v2".
inline std::string pickled_call(const std::string& global, const std::string& arguments) {
  return "c" + global + "\n" + arguments + "R";
}

struct PickledTensor {
  std::string key = "0", type = "FloatStorage";
  std::int64_t elements = 0;  ///< of the storage
  std::int64_t offset = 0;
  std::vector<std::int64_t> size, stride;
};
inline std::string pickled(const PickledTensor& t) {
  const std::string storage =
      pickled_tuple({pickled_text("storage"), "ctorch\n" + t.type + "\n", pickled_text(t.key),
                     pickled_text("cuda:3"), pickled_number(t.elements)}) +
      "Q";
  return pickled_call("torch._utils\n_rebuild_tensor_v2",
                      pickled_tuple({storage, pickled_number(t.offset), pickled_numbers(t.size),
                                     pickled_numbers(t.stride), "\x89",
                                     pickled_call("collections\nOrderedDict", ")")}));
}
/// Returns an OrderedDict with the metadata that PyTorch adds to a state dict.
inline std::string pickled_dict(const std::vector<std::pair<std::string, std::string>>& items) {
  std::string all = pickled_call("collections\nOrderedDict", ")") + "(";
  for (const auto& [key, value] : items) all += pickled_text(key) + value;
  return all + "u}" + pickled_text("_metadata") + "}sb";
}

/// Returns data.pkl and the storages "0", "1" and so on.
inline std::vector<ZipMember> torch_members(const std::string& value,
                                            const std::vector<std::string>& storages = {}) {
  std::vector<ZipMember> members{{"model/data.pkl", "\x80\x02" + value + "."}};
  for (const std::string& s : storages) {
    members.push_back({"model/data/" + std::to_string(members.size() - 1), s});
  }
  members.push_back({"model/version", "3\n"});
  return members;
}

}  // namespace pfc::testing
