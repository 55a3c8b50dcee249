#include "model/files/torch_file.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <fstream>
#include <optional>
#include <set>
#include <span>
#include <string_view>
#include <utility>

#include "common/error.h"
#include "common/one_line.h"
#include "data/pickle/pickle.h"
#include "model/files/zip_file.h"

namespace pfc {
namespace {

using Kind = PickleValue::Kind;
using Shape64 = std::vector<std::int64_t>;

// Limits what the reader stores or visits for a small file, which may contain objects that refer to
// each other repeatedly, or tensors that repeat their storage.
constexpr std::size_t kMostEntries = std::size_t{1} << 20;
constexpr int kMostDepth = 16;
constexpr std::uint64_t kMostCopiedPerByte = 4;

struct StorageType {
  std::string_view name;  // name in the pickle
  std::string_view dtype;
  std::uint64_t bytes;
};
constexpr std::array kStorageTypes{
    StorageType{"torch.FloatStorage", "F32", 4},     StorageType{"torch.HalfStorage", "F16", 2},
    StorageType{"torch.BFloat16Storage", "BF16", 2}, StorageType{"torch.DoubleStorage", "F64", 8},
    StorageType{"torch.LongStorage", "I64", 8},      StorageType{"torch.IntStorage", "I32", 4},
    StorageType{"torch.ShortStorage", "I16", 2},     StorageType{"torch.CharStorage", "I8", 1},
    StorageType{"torch.ByteStorage", "U8", 1},       StorageType{"torch.BoolStorage", "BOOL", 1},
};

/// A tensor as the pickle describes it.
struct Described {
  std::string key;  ///< key of its storage
  StorageType type;
  std::int64_t storage_elements = 0;
  std::int64_t offset = 0;  ///< in elements
  Shape64 size, stride;
};

class TorchReader {
 public:
  explicit TorchReader(const std::filesystem::path& path)
      : zip_(path), out_{.tensors = NamedTensors(path)} {}
  TorchFile read();

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw InputError(zip_.path().string() + ": " + what);
  }
  [[noreturn]] void fail_tensor(const std::string& name, const std::string& what) const {
    fail("tensor " + quoted_name(name) + ": " + what);
  }
  void visit(const Pickle& pickle, const PickleValue& value, const std::string& name, int depth);
  void visit_children(const Pickle& pickle, const PickleValue& value, const std::string& name,
                      int depth);
  [[nodiscard]] Described describe(const Pickle& pickle, const PickleValue& value,
                                   const std::string& name) const;
  void add_tensor(const std::string& name, const Described& tensor);
  std::span<const std::byte> storage(const std::string& name, const Described& tensor);
  std::vector<std::byte> gathered(const std::string& name, const Described& tensor,
                                  std::span<const std::byte> all, std::uint64_t count);

  ZipFile zip_;
  TorchFile out_;
  std::string folder_;  // folder in the zip file, ends with a slash
  std::map<std::string, std::span<const std::byte>> storages_;
  std::size_t entries_ = 0;
  std::uint64_t copied_ = 0;
};

/// Returns nothing if the storage's type is not known.
std::optional<StorageType> storage_type(std::string_view name) {
  const auto* const found = std::ranges::find(kStorageTypes, name, &StorageType::name);
  return found == kStorageTypes.end() ? std::nullopt : std::optional(*found);
}

TorchFile TorchReader::read() {
  constexpr std::string_view kData = "/data.pkl";
  const std::string pickle_name = zip_.first_ending_with(kData);
  if (pickle_name.empty()) fail("a zip file without data.pkl; expected a file of torch.save()");
  folder_ = pickle_name.substr(0, pickle_name.size() - kData.size() + 1);
  if (zip_.contains(folder_ + "byteorder")) {
    const auto order = zip_.read(folder_ + "byteorder");
    if (std::string_view(reinterpret_cast<const char*>(order.data()), order.size()) != "little") {
      fail("its numbers are big-endian, expected little-endian; save it again on another machine");
    }
  }
  const Pickle pickle(zip_.path().string() + ": data.pkl", zip_.read(pickle_name),
                      PickleDialect::kTorch);
  visit(pickle, pickle.root(), "", 0);
  out_.tensors.keep(zip_.memory());
  return std::move(out_);
}

void TorchReader::visit(const Pickle& pickle, const PickleValue& value, const std::string& name,
                        int depth) {
  entries_ += 1 + name.size() / 64;  // long names count as several entries
  if (entries_ > kMostEntries) fail("data.pkl has more entries than models have");
  switch (value.kind) {
    case Kind::kDict:
    case Kind::kSequence:
      return visit_children(pickle, value, name, depth);
    case Kind::kTensor:
      return add_tensor(name, describe(pickle, value, name));
    case Kind::kInteger:
    case Kind::kBool:
      out_.numbers[name] = value.number;
      return;
    case Kind::kOpaque:
    case Kind::kGlobal:
      out_.opaque[name] = one_line(value.text());
      return;
    default:
      return;  // ignores text, bytes and the like
  }
}

void TorchReader::visit_children(const Pickle& pickle, const PickleValue& value,
                                 const std::string& name, int depth) {
  if (depth == kMostDepth) fail("data.pkl is nested too deep");
  const std::vector<PickleValue>& items = pickle.sequence(value);
  const std::string prefix = name.empty() ? "" : name + "/";
  if (value.kind == Kind::kSequence) {
    for (std::size_t i = 0; i < items.size(); ++i) {
      visit(pickle, items[i], prefix + std::to_string(i), depth + 1);
    }
    return;
  }
  for (std::size_t i = 0; i + 1 < items.size(); i += 2) {
    const PickleValue& key = items[i];
    if (key.kind == Kind::kText || key.kind == Kind::kBytes) {
      visit(pickle, items[i + 1], prefix + std::string(key.text()), depth + 1);
    } else if (key.kind == Kind::kInteger) {
      visit(pickle, items[i + 1], prefix + std::to_string(key.number), depth + 1);
    }
  }
}

Described TorchReader::describe(const Pickle& pickle, const PickleValue& value,
                                const std::string& name) const {
  const std::vector<PickleValue>& tensor = pickle.sequence(value);
  const auto number = [&](const PickleValue& v) {
    if (v.kind != Kind::kInteger || v.number < 0) fail_tensor(name, "its size is not a number");
    return v.number;
  };
  const auto numbers = [&](const PickleValue& v) {
    Shape64 all;
    if (v.kind != Kind::kSequence) fail_tensor(name, "its shape is not a tuple");
    for (const PickleValue& n : pickle.sequence(v)) all.push_back(number(n));
    return all;
  };
  if (tensor.size() < 4 || tensor[0].kind != Kind::kStorage) fail_tensor(name, "it has no storage");
  const std::vector<PickleValue>& storage = pickle.sequence(tensor[0]);
  const auto type = storage.size() < 5 ? std::nullopt : storage_type(storage[1].text());
  if (!type || storage[0].text() != "storage" || storage[2].kind != Kind::kText) {
    fail_tensor(name, "its storage has an unknown type; save it as float32");
  }
  return {.key = std::string(storage[2].text()),
          .type = *type,
          .storage_elements = number(storage[4]),
          .offset = number(tensor[1]),
          .size = numbers(tensor[2]),
          .stride = numbers(tensor[3])};
}

/// Returns all elements of the tensor's storage.
std::span<const std::byte> TorchReader::storage(const std::string& name, const Described& tensor) {
  auto found = storages_.find(tensor.key);
  if (found == storages_.end()) {
    found = storages_.emplace(tensor.key, zip_.read(folder_ + "data/" + tensor.key)).first;
  }
  const std::uint64_t bytes = found->second.size();
  if (bytes % tensor.type.bytes != 0 ||
      bytes / tensor.type.bytes != static_cast<std::uint64_t>(tensor.storage_elements)) {
    fail_tensor(name, "its storage has " + std::to_string(bytes) + " bytes, expected " +
                          std::to_string(tensor.storage_elements) + " numbers of " +
                          std::to_string(tensor.type.bytes) + " bytes");
  }
  return found->second;
}

/// Returns whether the elements are contiguous, row by row. Ignores strides of size 1.
bool is_contiguous(const Described& tensor) {
  std::int64_t expected = 1;
  for (std::size_t i = tensor.size.size(); i-- > 0;) {
    if (tensor.size[i] != 1 && tensor.stride[i] != expected) return false;
    expected *= tensor.size[i];
  }
  return true;
}

/// Returns the number of elements; nothing if some are outside the storage.
std::optional<std::uint64_t> checked_count(const Described& tensor) {
  if (tensor.size.size() != tensor.stride.size()) return std::nullopt;
  if (std::ranges::count(tensor.size, 0) > 0) return 0;
  std::int64_t count = 1, last = tensor.offset;
  for (std::size_t i = 0; i < tensor.size.size(); ++i) {
    std::int64_t step = 0;
    if (__builtin_mul_overflow(count, tensor.size[i], &count) ||
        __builtin_mul_overflow(tensor.size[i] - 1, tensor.stride[i], &step) ||
        __builtin_add_overflow(last, step, &last)) {
      return std::nullopt;
    }
  }
  if (last >= tensor.storage_elements) return std::nullopt;
  return static_cast<std::uint64_t>(count);
}

void TorchReader::add_tensor(const std::string& name, const Described& tensor) {
  const std::span<const std::byte> all = storage(name, tensor);
  const auto count = checked_count(tensor);
  if (!count) {
    fail_tensor(name, "offset " + std::to_string(tensor.offset) + ", size " +
                          shape_text(tensor.size) + " and stride " + shape_text(tensor.stride) +
                          " reach outside its storage of " +
                          std::to_string(tensor.storage_elements) + " elements");
  }
  if (!out_.tensors.tensors().contains(name)) out_.order.push_back(name);
  const std::string dtype(tensor.type.dtype);
  if (*count == 0) return out_.tensors.add(name, {.dtype = dtype, .shape = tensor.size});
  if (is_contiguous(tensor)) {
    const auto bytes = all.subspan(static_cast<std::uint64_t>(tensor.offset) * tensor.type.bytes,
                                   *count * tensor.type.bytes);
    if (reinterpret_cast<std::uintptr_t>(bytes.data()) % tensor.type.bytes == 0) {
      return out_.tensors.add(name, {.dtype = dtype, .shape = tensor.size, .bytes = bytes});
    }
  }
  out_.tensors.add_owned(name, dtype, tensor.size, gathered(name, tensor, all, *count));
}

/// Returns the elements, contiguous. REQUIRES: the tensor is inside its storage, and not empty.
std::vector<std::byte> TorchReader::gathered(const std::string& name, const Described& tensor,
                                             std::span<const std::byte> all, std::uint64_t count) {
  const std::uint64_t most = kMostCopiedPerByte * zip_.memory()->bytes().size();
  if (count > most / tensor.type.bytes || copied_ + count * tensor.type.bytes > most) {
    fail_tensor(name,
                "it and other tensors use parts of their storages several times, and would "
                "together need more than " +
                    std::to_string(kMostCopiedPerByte) + " times the size of the file");
  }
  copied_ += count * tensor.type.bytes;
  std::vector<std::byte> out(count * tensor.type.bytes);
  Shape64 index(tensor.size.size(), 0);
  auto element = static_cast<std::uint64_t>(tensor.offset);
  for (std::uint64_t i = 0; i < count; ++i) {
    std::memcpy(out.data() + i * tensor.type.bytes, all.data() + element * tensor.type.bytes,
                tensor.type.bytes);
    for (std::size_t d = index.size(); d-- > 0;) {  // increments the index like an odometer
      element += static_cast<std::uint64_t>(tensor.stride[d]);
      if (++index[d] < tensor.size[d]) break;
      element -= static_cast<std::uint64_t>(tensor.stride[d] * tensor.size[d]);
      index[d] = 0;
    }
  }
  return out;
}

constexpr std::string_view kZip("PK\x03\x04", 4);
constexpr std::string_view kLegacy("\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19", 14);

std::string first_bytes(const std::filesystem::path& path) {
  const MappedFile file(path);
  const auto bytes = file.bytes().first(std::min(file.bytes().size(), kLegacy.size()));
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace

bool looks_like_torch_file(const std::filesystem::path& path) {
  const std::string first = first_bytes(path);
  return first.starts_with(kZip) || first.starts_with("\x80\x02");
}

TorchFile read_torch_file(const std::filesystem::path& path) {
  const std::string first = first_bytes(path);
  if (!first.starts_with(kZip)) {
    throw InputError(
        path.string() + ": " +
        (first == kLegacy ? "in the format of PyTorch before 1.6" : "a pickle, not a zip file") +
        "; if you trust the file, convert it with python3 -c \"import torch, sys; "
        "torch.save(torch.load(sys.argv[1], map_location='cpu'), sys.argv[2])\" OLD.pth NEW.pt");
  }
  return TorchReader(path).read();
}

}  // namespace pfc
