#include "common/files/safetensors.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <string_view>
#include <utility>

#include "common/error.h"
#include "common/files/mapped_file.h"

static_assert(std::endian::native == std::endian::little, "safetensors files are little-endian");

namespace pfc {
namespace {

using nlohmann::json;

constexpr std::size_t kLengthBytes = 8;
constexpr std::uint64_t kMaxHeader = 100ull << 20;  // limit of the official reader: 100 MB
constexpr int kMaxDepth = 3;                        // file, tensor, its shape or offsets
constexpr std::string_view kMetadata = "__metadata__";

/// Returns 0 for an unknown dtype.
std::size_t dtype_size(std::string_view dtype) {
  static constexpr std::array<std::pair<std::string_view, std::size_t>, 15> kSizes{{
      {"BOOL", 1},
      {"U8", 1},
      {"I8", 1},
      {"F8_E5M2", 1},
      {"F8_E4M3", 1},
      {"I16", 2},
      {"U16", 2},
      {"F16", 2},
      {"BF16", 2},
      {"I32", 4},
      {"U32", 4},
      {"F32", 4},
      {"F64", 8},
      {"I64", 8},
      {"U64", 8},
  }};
  for (const auto& [name, size] : kSizes) {
    if (name == dtype) return size;
  }
  return 0;
}

/// Computes dtype size x product of the dimensions. Returns false if that overflows.
bool size_in_bytes(std::size_t element, std::span<const std::int64_t> shape, std::uint64_t& bytes) {
  bytes = element;
  for (const std::int64_t d : shape) {
    if (d < 0 || __builtin_mul_overflow(bytes, static_cast<std::uint64_t>(d), &bytes)) return false;
  }
  return true;
}

// --- Writing

std::string make_header(std::span<const SafetensorsEntry* const> entries,
                        const std::map<std::string, std::string>& metadata) {
  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  if (!metadata.empty()) header[std::string(kMetadata)] = metadata;
  std::uint64_t offset = 0;
  for (const SafetensorsEntry* e : entries) {
    std::uint64_t bytes = 0;
    check(dtype_size(e->dtype) != 0, "safetensors: unknown dtype " + e->dtype);
    check(size_in_bytes(dtype_size(e->dtype), e->shape, bytes) &&
              (e->pieces || bytes == e->bytes.size()),
          "safetensors: the bytes of " + e->name + " do not fit its shape " + shape_text(e->shape));
    check(!header.contains(e->name) && e->name != kMetadata,
          "safetensors: found the name " + e->name + " twice");
    header[e->name] = {
        {"dtype", e->dtype}, {"shape", e->shape}, {"data_offsets", {offset, offset + bytes}}};
    offset += bytes;
  }
  std::string text = header.dump();
  text.append((kLengthBytes - text.size() % kLengthBytes) % kLengthBytes, ' ');
  return text;
}

void stream_pieces(const ByteSink& sink, const SafetensorsEntry& entry) {
  std::uint64_t expected = 0, written = 0;
  size_in_bytes(dtype_size(entry.dtype), entry.shape, expected);
  entry.pieces([&](std::span<const std::byte> piece) {
    written += piece.size();
    sink(piece);
  });
  check(written == expected, "safetensors: the pieces of " + entry.name + " do not fit its shape " +
                                 shape_text(entry.shape));
}

}  // namespace

void stream_safetensors(const ByteSink& sink, std::span<const SafetensorsEntry> entries,
                        const std::map<std::string, std::string>& metadata) {
  std::vector<const SafetensorsEntry*> ordered;
  ordered.reserve(entries.size());
  for (const SafetensorsEntry& e : entries) ordered.push_back(&e);
  std::ranges::stable_sort(ordered, std::greater{},
                           [](const SafetensorsEntry* e) { return dtype_size(e->dtype); });

  const std::string header = make_header(ordered, metadata);
  const std::uint64_t length = header.size();
  sink(std::as_bytes(std::span(&length, 1)));
  sink(std::as_bytes(std::span(header)));
  for (const SafetensorsEntry* e : ordered) {
    if (e->pieces) {
      stream_pieces(sink, *e);
    } else {
      sink(e->bytes);
    }
  }
}

WrittenFile write_safetensors(const std::filesystem::path& path,
                              std::span<const SafetensorsEntry> entries,
                              const std::map<std::string, std::string>& metadata) {
  AtomicFile file(path);
  stream_safetensors([&](std::span<const std::byte> bytes) { file.write(bytes); }, entries,
                     metadata);
  return file.commit();
}

// --- Reading

namespace {

/// Reads a file's header into `out`.
class SafetensorsReader {
 public:
  using Tensor = NamedTensors::Tensor;

  SafetensorsReader(NamedTensors& out, std::map<std::string, std::string>& metadata,
                    SafetensorsFile::Unaligned unaligned)
      : out_(out),
        metadata_(metadata),
        unaligned_(unaligned),
        file_(std::make_shared<MappedFile>(out.path())) {}
  void read();

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw InputError(out_.path().string() + ": " + what);
  }
  [[nodiscard]] std::string_view header_text() const;
  [[nodiscard]] json parse_header(std::string_view text) const;
  void read_metadata(const json& object);
  /// Returns the tensor and the offset of its bytes within the data.
  std::pair<Tensor, std::uint64_t> read_tensor(const std::string& name, const json& object,
                                               std::span<const std::byte> data) const;
  void check_coverage(const std::vector<std::pair<std::uint64_t, std::string>>& begins,
                      std::uint64_t data_bytes) const;
  void add(const std::string& name, Tensor tensor);

  NamedTensors& out_;
  std::map<std::string, std::string>& metadata_;
  const SafetensorsFile::Unaligned unaligned_;
  const std::shared_ptr<MappedFile> file_;  // shared with the table
};

std::string_view SafetensorsReader::header_text() const {
  const auto bytes = file_->bytes();
  if (bytes.size() < kLengthBytes) {
    fail("not a safetensors file: " + std::to_string(bytes.size()) +
         " bytes long, expected at least 8");
  }
  std::uint64_t length = 0;
  std::memcpy(&length, bytes.data(), kLengthBytes);
  if (length > bytes.size() - kLengthBytes) {
    fail("not a safetensors file, or truncated: its header has " + std::to_string(length) +
         " bytes, but the file has " + std::to_string(bytes.size()));
  }
  if (length > kMaxHeader) {
    fail("not a safetensors file: its header has " + std::to_string(length) +
         " bytes, expected at most " + std::to_string(kMaxHeader));
  }
  return {reinterpret_cast<const char*>(bytes.data()) + kLengthBytes, length};
}

json SafetensorsReader::parse_header(std::string_view text) const {
  std::array<std::set<std::string>, kMaxDepth + 1> names;  // seen in the open object at each depth
  const auto watch = [&](int depth, json::parse_event_t event, json& value) {
    const auto d = static_cast<std::size_t>(depth);
    const bool opens =
        event == json::parse_event_t::object_start || event == json::parse_event_t::array_start;
    if (opens) {
      if (depth >= kMaxDepth) fail("the header is nested too deep");
      names[d + 1].clear();
    }
    if (event == json::parse_event_t::key && !names[d].insert(value.get<std::string>()).second) {
      fail("the header has the name " + quoted_name(value.get<std::string>()) + " twice");
    }
    return true;
  };
  if (!text.starts_with('{')) fail("not a safetensors file: its header does not begin with '{'");
  try {
    return json::parse(text, watch);
  } catch (const json::exception& e) {
    fail("the header is not JSON: " + std::string(e.what()).substr(0, 200));
  }
}

void SafetensorsReader::read_metadata(const json& object) {
  if (!object.is_object()) fail("the header's __metadata__ is not an object");
  for (const auto& [key, value] : object.items()) {
    if (!value.is_string())
      fail("the header's __metadata__ " + quoted_name(key) + " is not a string");
    metadata_[key] = value.get<std::string>();
  }
}

std::pair<NamedTensors::Tensor, std::uint64_t> SafetensorsReader::read_tensor(
    const std::string& name, const json& object, std::span<const std::byte> data) const {
  const auto fail_tensor = [&](const std::string& what) {
    fail("tensor " + quoted_name(name) + ": " + what);
  };
  const auto whole_numbers = [&](const char* key) {
    if (!object.contains(key) || !object[key].is_array()) {
      fail_tensor(std::string(key) + " is not a list");
    }
    std::vector<std::int64_t> numbers;
    for (const json& v : object[key]) {
      constexpr auto kMax = std::uint64_t{std::numeric_limits<std::int64_t>::max()};
      if (!v.is_number_unsigned() || v.get<std::uint64_t>() > kMax) {
        fail_tensor(std::string(key) + " contains an entry that is not a whole number");
      }
      numbers.push_back(v.get<std::int64_t>());
    }
    return numbers;
  };
  if (!object.is_object()) fail_tensor("its header entry is not an object");
  if (!object.contains("dtype") || !object["dtype"].is_string()) fail_tensor("has no dtype");

  Tensor tensor{.dtype = object["dtype"].get<std::string>(),
                .shape = whole_numbers("shape"),
                .bytes = {},
                .offset = 0};
  const std::size_t element = dtype_size(tensor.dtype);
  if (element == 0) fail_tensor("unknown dtype " + quoted_name(tensor.dtype));
  const auto offsets = whole_numbers("data_offsets");
  if (offsets.size() != 2 || offsets[0] > offsets[1] ||
      static_cast<std::uint64_t>(offsets[1]) > data.size()) {
    fail_tensor("data_offsets " + shape_text(offsets) +
                " are not a begin and an end within the file's " + std::to_string(data.size()) +
                " bytes of data");
  }
  const auto begin = static_cast<std::uint64_t>(offsets[0]);
  const auto size = static_cast<std::uint64_t>(offsets[1]) - begin;
  std::uint64_t expected = 0;
  if (!size_in_bytes(element, tensor.shape, expected) || expected != size) {
    fail_tensor(std::to_string(size) + " bytes do not fit " + tensor.dtype + " " +
                shape_text(tensor.shape));
  }
  tensor.bytes = data.subspan(begin, size);
  tensor.offset = file_->bytes().size() - data.size() + begin;
  return {std::move(tensor), begin};
}

void SafetensorsReader::check_coverage(
    const std::vector<std::pair<std::uint64_t, std::string>>& begins,
    std::uint64_t data_bytes) const {
  std::uint64_t end = 0;
  for (const auto& [begin, name] : begins) {
    if (begin != end) {
      fail("tensor " + quoted_name(name) + " begins at byte " + std::to_string(begin) +
           " of the data, expected " + std::to_string(end) + " (a gap or an overlap)");
    }
    end += out_.at(name).bytes.size();
  }
  if (end != data_bytes) {
    fail("the tensors end at byte " + std::to_string(end) + " of the data, the file has " +
         std::to_string(data_bytes));
  }
}

void SafetensorsReader::add(const std::string& name, Tensor tensor) {
  const auto address = reinterpret_cast<std::uintptr_t>(tensor.bytes.data());
  const std::size_t element = dtype_size(tensor.dtype);
  check(element != 0, "safetensors: added before its dtype was checked");
  if (unaligned_ == SafetensorsFile::Unaligned::kKeep || tensor.bytes.empty() ||
      address % element == 0) {
    out_.add(name, std::move(tensor));
  } else {
    out_.add_owned(name, tensor.dtype, tensor.shape, {tensor.bytes.begin(), tensor.bytes.end()});
  }
}

void SafetensorsReader::read() {
  const std::string_view text = header_text();
  const auto data = file_->bytes().subspan(kLengthBytes + text.size());
  const json header = parse_header(text);

  // (begin, size, name): an empty tensor sorts before a non-empty one with the same begin.
  std::vector<std::tuple<std::uint64_t, std::size_t, std::string>> order;
  for (const auto& [name, object] : header.items()) {
    if (name == kMetadata) {
      read_metadata(object);
      continue;
    }
    auto [tensor, begin] = read_tensor(name, object, data);
    order.emplace_back(begin, tensor.bytes.size(), name);
    add(name, std::move(tensor));
  }
  std::ranges::sort(order);
  std::vector<std::pair<std::uint64_t, std::string>> begins;
  begins.reserve(order.size());
  for (auto& [begin, size, name] : order) begins.emplace_back(begin, std::move(name));
  check_coverage(begins, data.size());
  out_.keep(file_);
}

}  // namespace

SafetensorsFile::SafetensorsFile(const std::filesystem::path& path, Unaligned unaligned)
    : NamedTensors(path) {
  SafetensorsReader(*this, metadata_, unaligned).read();
}

}  // namespace pfc
