#include "model/files/torch_writer.h"

#include <zlib.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/error.h"
#include "common/files/atomic_file.h"

namespace pfc {
namespace {

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}

/// Appends an integer, little-endian.
template <typename Integer>
void append(std::string& to, Integer value) {
  for (std::size_t i = 0; i < sizeof value; ++i) to += static_cast<char>(value >> 8 * i);
}

/// A zip file of stored members (PKWARE, APPNOTE.TXT, sections 4.3.7, 4.3.12 and 4.3.16). The
/// content of each member begins at a multiple of 64 bytes, as in PyTorch's files, so it can be
/// mapped.
class StoredZip {
 public:
  explicit StoredZip(const std::filesystem::path& path) : path_(path), file_(path) {}

  void add(const std::string& name, std::span<const std::byte> bytes) {
    const uLong crc = ::crc32_z(0, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size());
    const std::string about = description(name, static_cast<std::uint32_t>(crc), bytes.size());

    std::string header = "PK\x03\x04";
    header += about;
    const std::uint64_t unpadded = offset_ + header.size() + 2 + name.size() + 4;
    const auto padding =
        static_cast<std::uint16_t>((kAlignment - unpadded % kAlignment) % kAlignment);
    append<std::uint16_t>(header, 4 + padding);
    header += name;
    header += "FB";  // the extra field that PyTorch pads with
    append(header, padding);
    header.append(padding, 'Z');

    directory_ += "PK\x01\x02";
    append<std::uint16_t>(directory_, kVersion);  // version made by
    directory_ += about;
    directory_.append(2 + 2 + 2 + 2 + 4, '\0');  // no extra field, comment, disk or attributes
    append(directory_, bounded(offset_));
    directory_ += name;
    ++members_;
    write(bytes_of(header));
    write(bytes);
  }

  void finish() {
    std::string end = "PK\x05\x06";
    end.append(4, '\0');  // this disk and the disk of the directory are number 0
    append(end, members_);
    append(end, members_);
    append(end, bounded(directory_.size()));
    append(end, bounded(offset_));
    append<std::uint16_t>(end, 0);
    write(bytes_of(directory_));
    write(bytes_of(end));
    file_.commit();
  }

 private:
  static constexpr std::uint64_t kAlignment = 64;
  static constexpr std::uint16_t kVersion = 10;
  static constexpr std::uint16_t kFirstOfJanuary1980 = 0x21;

  /// Returns the fields that a member's header and its directory entry share.
  [[nodiscard]] std::string description(const std::string& name, std::uint32_t crc,
                                        std::uint64_t size) const {
    std::string fields;
    append(fields, kVersion);          // version needed to read it
    append<std::uint16_t>(fields, 0);  // flags
    append<std::uint16_t>(fields, 0);  // compression method: stored
    append<std::uint16_t>(fields, 0);  // time: 00:00
    append(fields, kFirstOfJanuary1980);
    append(fields, crc);
    append(fields, bounded(size));
    append(fields, bounded(size));
    append(fields, static_cast<std::uint16_t>(name.size()));
    return fields;
  }

  [[nodiscard]] std::uint32_t bounded(std::uint64_t number) const {
    if (number < std::numeric_limits<std::uint32_t>::max()) {
      return static_cast<std::uint32_t>(number);
    }
    throw InputError(
        path_.string() +
        ": too large, because pfc writes PyTorch files of at most 4 GB; write safetensors, or "
        "a checkpoint of more GPUs");
  }

  void write(std::span<const std::byte> bytes) {
    file_.write(bytes);
    offset_ += bytes.size();
  }

  const std::filesystem::path path_;
  AtomicFile file_;
  std::uint64_t offset_ = 0;
  std::uint16_t members_ = 0;
  std::string directory_;
};

}  // namespace

TorchWriter::TorchWriter() { pickle_ = "\x80\x02"; }  // protocol 2 (Python's Lib/pickletools.py)

void TorchWriter::begin_dict() { pickle_ += "}("; }  // EMPTY_DICT, MARK
void TorchWriter::begin_state_dict() {
  ordered_dict();
  pickle_ += '(';
}
void TorchWriter::end_dict() { pickle_ += 'u'; }  // SETITEMS
void TorchWriter::begin_list() { pickle_ += "]("; }
void TorchWriter::end_list() { pickle_ += 'e'; }  // APPENDS

void TorchWriter::text(const std::string& value) {
  pickle_ += 'X';
  append(pickle_, static_cast<std::uint32_t>(value.size()));
  pickle_ += value;
}

void TorchWriter::integer(std::int64_t value) {
  pickle_ += "\x8a\x08";  // LONG1 of eight bytes
  append(pickle_, value);
}

void TorchWriter::boolean(bool value) { pickle_ += value ? '\x88' : '\x89'; }

void TorchWriter::real(double value) {
  pickle_ += 'G';  // BINFLOAT, big-endian
  const auto bits = std::bit_cast<std::uint64_t>(value);
  for (int shift = 56; shift >= 0; shift -= 8) pickle_ += static_cast<char>(bits >> shift);
}

void TorchWriter::tensor(TorchTensor tensor) {
  check(tensor.dtype == "F32" || tensor.dtype == "I64", "torch writer: a tensor is not F32 or I64");
  std::int64_t elements = 1;
  for (const std::int64_t d : tensor.shape) elements *= d;
  std::vector<std::int64_t> strides(tensor.shape.size());
  for (std::int64_t i = static_cast<std::int64_t>(strides.size()) - 1, step = 1; i >= 0; --i) {
    strides[static_cast<std::size_t>(i)] = step;
    step *= tensor.shape[static_cast<std::size_t>(i)];
  }
  global("torch._utils", "_rebuild_tensor_v2");
  pickle_ += "((";
  text("storage");
  global("torch", tensor.dtype == "F32" ? "FloatStorage" : "LongStorage");
  text(std::to_string(tensors_.size()));
  text("cpu");
  integer(elements);
  pickle_ += "tQ";  // TUPLE, BINPERSID
  integer(0);       // offset
  integers(tensor.shape);
  integers(strides);
  boolean(false);   // requires_grad
  ordered_dict();   // no hooks
  pickle_ += "tR";  // TUPLE, REDUCE
  tensors_.push_back(std::move(tensor));
}

void TorchWriter::global(const char* module, const char* name) {
  pickle_ += 'c' + std::string(module) + '\n' + name + '\n';
}

void TorchWriter::ordered_dict() {
  global("collections", "OrderedDict");
  pickle_ += ")R";  // EMPTY_TUPLE, REDUCE
}

void TorchWriter::integers(std::span<const std::int64_t> values) {
  pickle_ += '(';
  for (const std::int64_t value : values) integer(value);
  pickle_ += 't';
}

void TorchWriter::write(const std::filesystem::path& path) {
  StoredZip zip(path);
  zip.add("model/data.pkl", bytes_of(pickle_ + '.'));  // STOP
  zip.add("model/byteorder", bytes_of("little"));
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    zip.add("model/data/" + std::to_string(i), tensors_[i].bytes());
  }
  zip.add("model/version", bytes_of("3\n"));
  zip.finish();
}

void add_state_dict(TorchWriter& writer, const NamedTensors& state_dict,
                    std::span<const std::string> first) {
  const auto add = [&writer](const std::string& name, const NamedTensors::Tensor& tensor) {
    writer.text(name);
    writer.tensor({tensor.dtype, tensor.shape, [bytes = tensor.bytes] { return bytes; }});
  };
  writer.begin_state_dict();
  for (const std::string& name : first) add(name, state_dict.at(name));
  for (const auto& [name, tensor] : state_dict.tensors()) {
    if (std::ranges::find(first, name) == first.end()) add(name, tensor);
  }
  writer.end_dict();
}

void write_torch(const std::filesystem::path& path, const NamedTensors& state_dict) {
  TorchWriter writer;
  add_state_dict(writer, state_dict);
  writer.write(path);
}

}  // namespace pfc
