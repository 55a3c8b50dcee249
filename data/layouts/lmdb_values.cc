#include "data/layouts/lmdb_values.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "common/error.h"
#include "data/damaged_image.h"
#include "data/pickle/pickle.h"

namespace pfc {

namespace {

bool begins_with(std::span<const std::byte> value, std::initializer_list<unsigned> bytes) {
  if (value.size() < bytes.size()) return false;
  return std::equal(bytes.begin(), bytes.end(), value.begin(),
                    [](unsigned a, std::byte b) { return static_cast<std::byte>(a) == b; });
}

bool is_image_value(std::span<const std::byte> value) {
  return begins_with(value, {0xff, 0xd8, 0xff}) || begins_with(value, {0x89, 'P', 'N', 'G'}) ||
         begins_with(value, {'R', 'I', 'F', 'F'});
}

bool is_pickle(std::span<const std::byte> value) {
  return value.size() > 2 && value[0] == std::byte{0x80} && value[1] >= std::byte{2} &&
         value[1] <= std::byte{5};
}

LabelledImage parse_pickle(std::span<const std::byte> value, const std::string& name,
                           std::vector<std::byte>& parsed) {
  using Kind = PickleValue::Kind;
  const Pickle pickle(name, value);
  LabelledImage found;
  const auto take = [&](const PickleValue& part) {
    if (part.kind == Kind::kInteger && found.label < 0) found.label = part.number;
    if (!found.image.empty()) return;
    if (part.kind == Kind::kBytes) found.image = part.bytes;
    if (part.kind == Kind::kArray) found.image = pickle.array(part).bytes;
  };
  if (pickle.root().kind == Kind::kSequence) {
    for (const PickleValue& part : pickle.sequence(pickle.root())) take(part);
  }
  if (found.label < 0 || found.image.empty()) {
    throw DamagedImage(name + ": found an unknown pickle, expected (bytes of an image, label)");
  }
  const bool is_view = found.image.data() >= value.data() &&
                       found.image.data() + found.image.size() <= value.data() + value.size();
  if (!is_view) {  // the image is in memory of `pickle`
    parsed.assign(found.image.begin(), found.image.end());
    found.image = parsed;
  }
  return found;
}

/// Reads Caffe's Datum: data is field 4, label is field 5 (caffe.proto).
class DatumParser {
 public:
  DatumParser(std::span<const std::byte> value, const std::string& name)
      : value_(value), name_(name) {}

  LabelledImage parse() {
    LabelledImage found;
    while (at_ < value_.size()) {
      const std::uint64_t tag = varint();
      const std::uint64_t field = tag >> 3;
      switch (tag & 7) {
        case 0: {
          const std::uint64_t number = varint();
          if (field == 5) found.label = static_cast<std::int64_t>(number);
          break;
        }
        case 1:
          skip(8);
          break;
        case 2: {
          const std::uint64_t bytes = varint();
          const std::size_t begin = at_;
          skip(bytes);
          if (field == 4) found.image = value_.subspan(begin, at_ - begin);
          break;
        }
        case 5:
          skip(4);
          break;
        default:
          fail();
      }
    }
    if (!is_image_value(found.image)) {
      throw DamagedImage(name_ +
                         ": found no JPEG, PNG or WebP in this value; expected an image, a pickle, "
                         "or a Datum that contains an encoded image");
    }
    if (found.label < 0) found.label = 0;  // Datum omits a label of 0
    return found;
  }

 private:
  [[noreturn]] void fail() const {
    throw DamagedImage(name_ +
                       ": found a value of an unknown format, expected a pickle, a Datum or an "
                       "image");
  }
  std::uint64_t varint() {
    std::uint64_t number = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      if (at_ >= value_.size()) fail();
      const auto byte = static_cast<std::uint64_t>(value_[at_++]);
      number |= (byte & 0x7f) << shift;
      if (byte < 0x80) return number;
    }
    fail();
  }
  void skip(std::uint64_t bytes) {
    if (bytes > value_.size() - at_) fail();
    at_ += static_cast<std::size_t>(bytes);
  }

  const std::span<const std::byte> value_;
  const std::string& name_;
  std::size_t at_ = 0;
};

}  // namespace

const char* text_of(ValueKind kind) {
  switch (kind) {
    case ValueKind::kPickle:
      return "pickles of an image and a label";
    case ValueKind::kDatum:
      return "Caffe's Datum";
    case ValueKind::kImage:
      break;
  }
  return "images";
}

ValueKind kind_of(std::span<const std::byte> value) {
  if (is_pickle(value)) return ValueKind::kPickle;
  return is_image_value(value) ? ValueKind::kImage : ValueKind::kDatum;
}

LabelledImage parse_value(ValueKind kind, std::span<const std::byte> value, const std::string& name,
                          std::vector<std::byte>& parsed) {
  switch (kind) {
    case ValueKind::kImage:
      return {.image = value, .label = -1};
    case ValueKind::kDatum:
      return DatumParser(value, name).parse();
    case ValueKind::kPickle:
      break;
  }
  return as_damaged_image([&] { return parse_pickle(value, name, parsed); });
}

}  // namespace pfc
