#include "model/files/torch_writer.h"

#include <zlib.h>

#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/error.h"
#include "common/files/atomic_file.h"

namespace pfc {
namespace {

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}

/// Little-endian.
template <typename Integer>
void append(std::string& to, Integer value) {
  for (std::size_t i = 0; i < sizeof value; ++i) to += static_cast<char>(value >> 8 * i);
}

/// A zip file of stored members (PKWARE, APPNOTE.TXT, sections 4.3.7, 4.3.12 and 4.3.16). The bytes
/// of each begin at a multiple of 64, as PyTorch's do, so that they can be mapped.
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
    append<std::uint16_t>(directory_, kVersion);  // made by
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
    end.append(4, '\0');  // this disk and the directory's are number 0
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

  /// The fields that a member's header and its entry in the directory share.
  [[nodiscard]] std::string description(const std::string& name, std::uint32_t crc,
                                        std::uint64_t size) const {
    std::string fields;
    append(fields, kVersion);          // needed to read it
    append<std::uint16_t>(fields, 0);  // flags
    append<std::uint16_t>(fields, 0);  // stored
    append<std::uint16_t>(fields, 0);  // 00:00
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
        ": the model is too large for a PyTorch file of up to 4 GB; write safetensors");
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

/// A pickle of protocol 2 (Python's Lib/pickletools.py).
class PickleWriter {
 public:
  void begin_state_dict() {
    out_ += "\x80\x02";
    ordered_dict();
    out_ += '(';  // MARK
  }

  /// Storage `key` holds the tensor, from its first element on.
  void tensor(const std::string& name, const std::string& key, const char* storage,
              std::span<const std::int64_t> shape) {
    std::int64_t elements = 1;
    for (const std::int64_t d : shape) elements *= d;
    std::vector<std::int64_t> strides(shape.size());
    for (std::int64_t i = static_cast<std::int64_t>(shape.size()) - 1, step = 1; i >= 0; --i) {
      strides[static_cast<std::size_t>(i)] = step;
      step *= shape[static_cast<std::size_t>(i)];
    }
    text(name);
    global("torch._utils", "_rebuild_tensor_v2");
    out_ += "((";
    text("storage");
    global("torch", storage);
    text(key);
    text("cpu");
    integer(elements);
    out_ += "tQ";  // TUPLE, BINPERSID
    integer(0);    // offset
    integers(shape);
    integers(strides);
    out_ += '\x89';  // requires_grad: False
    ordered_dict();  // no hooks
    out_ += "tR";    // TUPLE, REDUCE
  }

  std::string end() {
    out_ += "u.";  // SETITEMS, STOP
    return std::move(out_);
  }

 private:
  void global(const char* module, const char* name) {
    out_ += 'c' + std::string(module) + '\n' + name + '\n';
  }
  void ordered_dict() {
    global("collections", "OrderedDict");
    out_ += ")R";  // EMPTY_TUPLE, REDUCE
  }
  void text(const std::string& value) {
    out_ += 'X';
    append(out_, static_cast<std::uint32_t>(value.size()));
    out_ += value;
  }
  void integer(std::int64_t value) {
    out_ += "\x8a\x08";  // LONG1 of eight bytes
    append(out_, value);
  }
  void integers(std::span<const std::int64_t> values) {
    out_ += '(';
    for (const std::int64_t value : values) integer(value);
    out_ += 't';
  }

  std::string out_;
};

}  // namespace

void write_torch(const std::filesystem::path& path, const NamedTensors& state_dict) {
  PickleWriter pickle;
  pickle.begin_state_dict();
  int number = 0;
  for (const auto& [name, tensor] : state_dict.tensors()) {
    check(tensor.dtype == "F32" || tensor.dtype == "I64", "write_torch: a tensor of another type");
    pickle.tensor(name, std::to_string(number++),
                  tensor.dtype == "F32" ? "FloatStorage" : "LongStorage", tensor.shape);
  }
  StoredZip zip(path);
  zip.add("model/data.pkl", bytes_of(pickle.end()));
  zip.add("model/byteorder", bytes_of("little"));
  number = 0;
  for (const auto& [name, tensor] : state_dict.tensors()) {
    zip.add("model/data/" + std::to_string(number++), tensor.bytes);
  }
  zip.add("model/version", bytes_of("3\n"));
  zip.finish();
}

}  // namespace pfc
