// Decodes numpy arrays in a pickle (numpy/core/src/multiarray/methods.c, array_reduce and
// array_reduce_ex) and the bytes that Python 3 writes at protocol 2.
#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <array>
#include <utility>

#include "data/pickle/pickle_machine.h"

namespace pfc {

namespace {

/// The callable names. Each is implemented here; no Python function is called.
enum class Name : std::int64_t { kReconstruct, kScalar, kFromBuffer, kNdarray, kDtype, kEncode };

struct KnownName {
  std::string_view module;
  std::string_view name;
  Name id;
};

// numpy 2 has moved numpy.core to numpy._core.
constexpr std::array kKnownNames{
    KnownName{"numpy.core.multiarray", "_reconstruct", Name::kReconstruct},
    KnownName{"numpy._core.multiarray", "_reconstruct", Name::kReconstruct},
    KnownName{"numpy.core.multiarray", "scalar", Name::kScalar},
    KnownName{"numpy._core.multiarray", "scalar", Name::kScalar},
    KnownName{"numpy.core.numeric", "_frombuffer", Name::kFromBuffer},
    KnownName{"numpy._core.numeric", "_frombuffer", Name::kFromBuffer},
    KnownName{"numpy", "ndarray", Name::kNdarray},
    KnownName{"numpy", "dtype", Name::kDtype},
    KnownName{"_codecs", "encode", Name::kEncode},
};

std::string printable(std::string_view text) {
  std::string out;
  for (const char c : text.substr(0, 60)) out += c >= ' ' && c <= '~' ? c : '?';
  return out;
}

}  // namespace

void PickleMachine::push_global(std::string_view module, std::string_view name) {
  if (dialect_ == PickleDialect::kTorch) return push_torch_global(module, name);
  for (const KnownName& known : kKnownNames) {
    if (known.module != module || known.name != name) continue;
    push({.kind = Kind::kGlobal, .number = static_cast<std::int64_t>(known.id), .bytes = {}});
    return;
  }
  fail(
      fmt::format("asks for {}.{}, which is refused (nothing was run); expected lists, tuples, "
                  "bytes, flags and numpy uint8 arrays",
                  printable(module), printable(name)));
}

void PickleMachine::reduce() {
  if (dialect_ == PickleDialect::kTorch) return reduce_torch();
  const Values operands = pop_top(2);
  const PickleValue& callable = operands[0];
  if (callable.kind != Kind::kGlobal) fail("calls an object that is not a function");
  switch (static_cast<Name>(callable.number)) {
    case Name::kReconstruct:
      push(make_array({}));
      return;
    case Name::kFromBuffer: {
      const Values& a = tuple(operands[1], 3);  // buffer, dtype, shape, order
      push(make_array(filled_array(a[2], a[1], a[0])));
      return;
    }
    case Name::kDtype: {
      const PickleValue& name = tuple(operands[1], 1)[0];
      push({.kind = Kind::kDtype, .number = 0, .bytes = name.bytes});
      return;
    }
    case Name::kScalar: {
      const Values& a = tuple(operands[1], 2);  // dtype, bytes
      if (a[0].kind != Kind::kDtype || a[0].text() != "b1" || a[1].bytes.size() != 1) {
        fail("a numpy scalar that is not a bool");
      }
      push({.kind = Kind::kBool, .number = a[1].bytes[0] != std::byte{0}, .bytes = {}});
      return;
    }
    case Name::kEncode:
      push(encode_latin1(tuple(operands[1], 2)));
      return;
    case Name::kNdarray:
      break;
  }
  fail("calls a type that verification files do not call");
}

/// BUILD fills an array: (version, shape, dtype, is Fortran order, bytes). The state of a dtype
/// (byte order, alignment) is ignored, because elements are single bytes.
void PickleMachine::build() {
  const Values operands = pop_top(2);
  const PickleValue object = operands[0];
  push(object);
  // PyTorch attaches _metadata to a dict of tensors; it is not needed.
  if (object.kind == Kind::kDtype || dialect_ == PickleDialect::kTorch) return;
  if (object.kind != Kind::kArray) fail("builds an object that is not a numpy array");
  const Values& state = tuple(operands[1], 5);
  out_.arrays_[static_cast<std::size_t>(object.number)] =
      filled_array(state[1], state[2], state[4]);
}

PickleValue PickleMachine::make_array(const PickleArray& array) {
  count_values(1);
  out_.arrays_.push_back(array);
  const auto index = static_cast<std::int64_t>(out_.arrays_.size()) - 1;
  return {.kind = Kind::kArray, .number = index, .bytes = {}};
}

PickleArray PickleMachine::filled_array(const PickleValue& shape, const PickleValue& dtype,
                                        const PickleValue& bytes) const {
  const Values& sides = tuple(shape, 0);
  if (dtype.kind != Kind::kDtype) fail("a numpy array without a dtype");
  if (dtype.text() != "u1" && dtype.text() != "b1") {
    fail(fmt::format("a numpy array of {}, expected uint8 or bool", printable(dtype.text())));
  }
  if (bytes.kind != Kind::kBytes) fail("a numpy array without its bytes");
  std::uint64_t elements = 1;
  std::uint64_t longest = 0;
  for (const PickleValue& side : sides) {
    const auto n = static_cast<std::uint64_t>(side.number);
    const bool fits = side.kind == Kind::kInteger && side.number >= 0 &&
                      (n == 0 || elements <= bytes.bytes.size() / n);
    if (!fits) fail("a numpy array whose shape does not fit its bytes");
    elements *= n;
    longest = std::max(longest, n);
  }
  if (elements != bytes.bytes.size()) fail("a numpy array whose shape does not fit its bytes");
  return {
      .filled = true, .vector = elements == longest, .dtype = dtype.text(), .bytes = bytes.bytes};
}

/// Decodes _codecs.encode(text, 'latin1'), which Python 3 writes because protocol 2 has no bytes.
PickleValue PickleMachine::encode_latin1(const Values& arguments) {
  if (arguments[0].kind != Kind::kText ||
      (arguments[1].text() != "latin1" && arguments[1].text() != "latin-1")) {
    fail("encodes something other than text as latin1");
  }
  const auto text = arguments[0].bytes;
  decoded_bytes_ += text.size();
  // Without a limit, repeated references to one text would let a small file use much memory.
  if (decoded_bytes_ > file_.size()) fail("decodes more text than the file holds");
  std::vector<std::byte> bytes;
  bytes.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    auto c = static_cast<unsigned>(text[i]);
    if (c >= 0x80) {  // two bytes of UTF-8: c2 or c3, then 80 .. bf
      const unsigned next = i + 1 < text.size() ? static_cast<unsigned>(text[i + 1]) : 0;
      if ((c != 0xc2 && c != 0xc3) || (next & 0xc0) != 0x80) fail("text that is not latin1");
      c = (c & 0x03) << 6 | (next & 0x3f);
      ++i;
    }
    bytes.push_back(static_cast<std::byte>(c));
  }
  count_values(1);
  out_.decoded_.push_back(std::move(bytes));
  return {.kind = Kind::kBytes, .number = 0, .bytes = out_.decoded_.back()};
}

}  // namespace pfc
