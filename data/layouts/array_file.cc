#include "data/layouts/array_file.h"

#include <spdlog/fmt/fmt.h>
#include <spdlog/fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <optional>
#include <span>
#include <utility>

#include "common/error.h"
#include "common/files/regular_file.h"

namespace pfc {

namespace {

constexpr std::string_view kNumpyMagic("\x93NUMPY", 6);
constexpr std::size_t kVersionEnd = 8;          // magic and version
constexpr std::uint32_t kMaxHeader = 64 << 10;  // NumPy's headers are below 200 bytes
constexpr std::size_t kMostDimensions = 8;

struct Type {
  const char* name;
  std::size_t size;
  std::string_view npy, safetensors;
};

constexpr std::array<Type, 5> kTypes{{{"float32", 4, "<f4", "F32"},
                                      {"float16", 2, "<f2", "F16"},
                                      {"bfloat16", 2, "", "BF16"},
                                      {"int64", 8, "<i8", "I64"},
                                      {"int32", 4, "<i4", "I32"}}};

const Type& facts(ElementType type) { return kTypes[static_cast<std::size_t>(type)]; }

std::optional<ElementType> type_named(std::string_view Type::*as, std::string_view name) {
  for (std::size_t i = 0; i < kTypes.size(); ++i) {
    if (!name.empty() && kTypes[i].*as == name) return static_cast<ElementType>(i);
  }
  return {};
}

/// Returns a part of a file's header in printable form, for messages.
std::string printable(std::string_view text) {
  std::string line(text.substr(0, 80));
  std::ranges::replace_if(
      line, [](char c) { return c < ' ' || c > '~'; }, '?');
  return line;
}

/// Parses a Python dictionary literal in the form that NumPy writes.
class HeaderParser {
 public:
  HeaderParser(std::string_view text, const std::string& file) : rest_(text), file_(file) {}

  NpyHeader parse() {
    NpyHeader header;
    unsigned seen = 0;
    expect('{');
    while (!take('}')) {
      const std::string_view key = string();
      expect(':');
      if (key == "descr") {
        if (next_is('[')) fail("records of several fields, expected numbers of one type");
        header.descr = string();
        seen |= 1;
      } else if (key == "fortran_order") {
        header.fortran_order = boolean();
        seen |= 2;
      } else if (key == "shape") {
        header.shape = tuple();
        seen |= 4;
      } else {
        fail(fmt::format("the key '{}', expected descr, fortran_order and shape", printable(key)));
      }
      if (!take(',') && !next_is('}')) unexpected("a comma");
    }
    skip_spaces();
    if (!rest_.empty()) unexpected("the end of the header");
    if (seen != 7) fail("a header without descr, fortran_order or shape");
    return header;
  }

 private:
  [[noreturn]] void fail(const std::string& found) const {
    throw InputError(fmt::format("{}: found {}", file_, found));
  }
  [[noreturn]] void unexpected(const char* expected) const {
    fail(fmt::format("'{}' in the header, expected {}", printable(rest_), expected));
  }
  void skip_spaces() {
    rest_.remove_prefix(std::min(rest_.find_first_not_of(" \t\r\n"), rest_.size()));
  }
  bool next_is(char c) {
    skip_spaces();
    return rest_.starts_with(c);
  }
  bool take(char c) {
    if (!next_is(c)) return false;
    rest_.remove_prefix(1);
    return true;
  }
  void expect(char c) {
    if (!take(c)) unexpected(fmt::format("'{}'", c).c_str());
  }
  std::string_view string() {
    skip_spaces();
    const char quote = rest_.empty() ? '\0' : rest_.front();
    if (quote != '\'' && quote != '"') unexpected("a string");
    const std::size_t end = rest_.find(quote, 1);
    if (end == std::string_view::npos) unexpected("a closing quote");
    const std::string_view text = rest_.substr(1, end - 1);
    rest_.remove_prefix(end + 1);
    return text;
  }
  bool boolean() {
    skip_spaces();
    for (const auto& [word, value] :
         {std::pair{std::string_view("True"), true}, {"False", false}}) {
      if (!rest_.starts_with(word)) continue;
      rest_.remove_prefix(word.size());
      return value;
    }
    unexpected("True or False");
  }
  std::vector<std::int64_t> tuple() {
    std::vector<std::int64_t> numbers;
    expect('(');
    while (!take(')')) {
      skip_spaces();
      std::int64_t number = -1;
      const auto parsed = std::from_chars(rest_.data(), rest_.data() + rest_.size(), number);
      if (parsed.ec != std::errc{} || number < 0) unexpected("a number from 0");
      rest_.remove_prefix(static_cast<std::size_t>(parsed.ptr - rest_.data()));
      numbers.push_back(number);
      if (numbers.size() > kMostDimensions) fail("an array of more than 8 dimensions");
      if (!take(',') && !next_is(')')) unexpected("a comma");
    }
    return numbers;
  }

  std::string_view rest_;
  const std::string& file_;
};

ElementType npy_type(const std::string& descr, const std::string& file) {
  if (const auto type = type_named(&Type::npy, descr)) return *type;
  const bool objects = descr.find('O') != std::string::npos;
  const bool big_endian = descr.starts_with('>');
  throw InputError(fmt::format(
      "{}: found {} '{}', expected little-endian float32 or float16 for embeddings, int64 or int32 "
      "for labels",
      file,
      objects      ? "pickled objects, which are not read, of type"
      : big_endian ? "big-endian numbers of type"
                   : "numbers of type",
      printable(descr)));
}

/// Throws if the product overflows, or the file is too short for the array after the offset.
void check_size(const ArrayInFile& array, std::uint64_t file_bytes) {
  std::uint64_t bytes = size_of(array.type);
  bool fits = true;
  for (const std::int64_t d : array.shape) {
    fits = fits && !__builtin_mul_overflow(bytes, static_cast<std::uint64_t>(d), &bytes);
  }
  if (fits && bytes <= file_bytes - array.offset) return;
  throw InputError(fmt::format(
      "{}: found {} bytes after the header, expected {} for [{}] of {}: the file is truncated",
      array.name, file_bytes - array.offset, fits ? fmt::format("{}", bytes) : "more than 2^64",
      fmt::join(array.shape, ", "), name_of(array.type)));
}

}  // namespace

std::size_t size_of(ElementType type) { return facts(type).size; }
const char* name_of(ElementType type) { return facts(type).name; }

NpyHeader parse_npy_header(std::string_view text, const std::string& file) {
  return HeaderParser(text, file).parse();
}

ArrayInFile npy_array(const std::filesystem::path& path) {
  RegularFile file(path);
  const std::string name = path.string();
  std::string begin(kVersionEnd + sizeof(std::uint32_t), '\0');
  begin.resize(file.read(std::as_writable_bytes(std::span(begin))));
  if (begin.size() < kVersionEnd + sizeof(std::uint32_t) || !begin.starts_with(kNumpyMagic)) {
    throw InputError(fmt::format("{}: found '{}' at its beginning, expected NumPy's \\x93NUMPY",
                                 name, printable(begin.substr(0, kNumpyMagic.size()))));
  }
  const int version = static_cast<unsigned char>(begin[6]);
  if (version < 1 || version > 3) {
    throw InputError(
        fmt::format("{}: found version {} of the format, expected 1, 2 or 3", name, version));
  }
  const std::size_t length_bytes = version == 1 ? 2 : 4;
  std::uint32_t length = 0;
  std::memcpy(&length, begin.data() + kVersionEnd, length_bytes);
  const std::uint64_t offset = kVersionEnd + length_bytes + length;
  if (length > kMaxHeader) {
    throw InputError(fmt::format("{}: found a header of {} bytes, expected at most {}", name,
                                 length, kMaxHeader));
  }
  if (offset > file.bytes()) {
    throw InputError(
        fmt::format("{}: found {} bytes, but its header ends at byte {}: the file is truncated; "
                    "copy it again",
                    name, file.bytes(), offset));
  }
  std::string header = begin.substr(kVersionEnd + length_bytes);
  const std::size_t have = std::min<std::size_t>(header.size(), length);
  header.resize(length);
  const std::size_t got = file.read(std::as_writable_bytes(std::span(header)).subspan(have));
  header.resize(have + got);
  NpyHeader found = parse_npy_header(header, name);
  ArrayInFile array{.file = path,
                    .name = name,
                    .type = npy_type(found.descr, name),
                    .shape = std::move(found.shape),
                    .offset = offset};
  if (found.fortran_order && array.shape.size() > 1) {
    throw InputError(name +
                     ": found an array in Fortran order, expected C order; save "
                     "numpy.ascontiguousarray() of the array");
  }
  check_size(array, file.bytes());
  return array;
}

ArrayInFile safetensors_array(const SafetensorsFile& file, const std::string& tensor) {
  const SafetensorsFile::Tensor& found = file.at(tensor);
  const std::string name = fmt::format("{}: tensor '{}'", file.path().string(), tensor);
  const auto type = type_named(&Type::safetensors, found.dtype);
  if (!type) {
    throw InputError(fmt::format(
        "{}: found {}, expected F32, F16 or BF16, or for labels I64 or I32", name, found.dtype));
  }
  return {.file = file.path(),
          .name = name,
          .type = *type,
          .shape = found.shape,
          .offset = found.offset};
}

}  // namespace pfc
