#include "data/pickle/pickle_machine.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <utility>

#include "common/error.h"

namespace pfc {

namespace {

// Limits on the memory that a small file can claim. The largest verification sets have some ten
// thousand images with a few values each.
constexpr std::size_t kMaxStack = std::size_t{1} << 20;
constexpr std::size_t kMaxValues = std::size_t{1} << 22;

enum Opcode : std::uint8_t {
  kMark = '(',
  kStop = '.',
  kNone = 'N',
  kBinInt = 'J',
  kBinInt1 = 'K',
  kBinInt2 = 'M',
  kBinFloat = 'G',
  kLong1 = 0x8a,
  kNewTrue = 0x88,
  kNewFalse = 0x89,
  kBinString = 'T',
  kShortBinString = 'U',
  kBinBytes = 'B',
  kShortBinBytes = 'C',
  kBinBytes8 = 0x8e,
  kByteArray8 = 0x96,
  kBinUnicode = 'X',
  kShortBinUnicode = 0x8c,
  kBinUnicode8 = 0x8d,
  kEmptyList = ']',
  kAppend = 'a',
  kAppends = 'e',
  kEmptyTuple = ')',
  kTuple = 't',
  kTuple1 = 0x85,
  kTuple2 = 0x86,
  kTuple3 = 0x87,
  kBinPut = 'q',
  kLongBinPut = 'r',
  kBinGet = 'h',
  kLongBinGet = 'j',
  kMemoize = 0x94,
  kGlobal = 'c',
  kStackGlobal = 0x93,
  kReduce = 'R',
  kBuild = 'b',
  kProto = 0x80,
  kFrame = 0x95,
};

}  // namespace

void PickleMachine::run() {
  if (file_.size() < 2 || file_[0] != std::byte{kProto} || file_[1] < std::byte{2} ||
      file_[1] > std::byte{5}) {
    std::string found;
    for (const std::byte b : file_.first(std::min<std::size_t>(file_.size(), 4))) {
      found += fmt::format(" {:02x}", static_cast<unsigned>(b));
    }
    fail(fmt::format("begins with{}, expected a pickle of protocol 2 to 5 (80 02 .. 80 05)",
                     found.empty() ? " nothing" : found));
  }
  while (true) {
    opcode_position_ = position_;
    const auto opcode = take_integer<std::uint8_t>();
    if (opcode == kStop) break;
    if (!run_constant(opcode) && !run_bytes(opcode) && !run_sequence(opcode) && !run_memo(opcode) &&
        !run_object(opcode) && !(dialect_ == PickleDialect::kTorch && run_torch(opcode))) {
      fail(fmt::format("an opcode that {} do not need", expected_files()));
    }
  }
  out_.root_ = pop();
}

bool PickleMachine::run_constant(std::uint8_t opcode) {
  switch (opcode) {
    case kProto:
      take_integer<std::uint8_t>();
      return true;
    case kFrame:
      take_integer<std::uint64_t>();
      return true;
    case kNone:
      push({});
      return true;
    case kNewTrue:
      push({.kind = Kind::kBool, .number = 1, .bytes = {}});
      return true;
    case kNewFalse:
      push({.kind = Kind::kBool, .number = 0, .bytes = {}});
      return true;
    case kBinInt:
      push({.kind = Kind::kInteger, .number = take_integer<std::int32_t>(), .bytes = {}});
      return true;
    case kBinInt1:
      push({.kind = Kind::kInteger, .number = take_integer<std::uint8_t>(), .bytes = {}});
      return true;
    case kBinInt2:
      push({.kind = Kind::kInteger, .number = take_integer<std::uint16_t>(), .bytes = {}});
      return true;
    case kBinFloat:
      push_float();
      return true;
    case kLong1:
      push({.kind = Kind::kInteger, .number = take_long(), .bytes = {}});
      return true;
    default:
      return false;
  }
}

bool PickleMachine::run_bytes(std::uint8_t opcode) {
  const auto bytes = [&](Kind kind, std::uint64_t count) {
    push({.kind = kind, .number = 0, .bytes = take(count)});
    return true;
  };
  switch (opcode) {
    case kShortBinString:
    case kShortBinBytes:
      return bytes(Kind::kBytes, take_integer<std::uint8_t>());
    case kBinString:  // signed length; a negative one is too long when read as unsigned
    case kBinBytes:
      return bytes(Kind::kBytes, take_integer<std::uint32_t>());
    case kByteArray8:
    case kBinBytes8:
      return bytes(Kind::kBytes, take_integer<std::uint64_t>());
    case kShortBinUnicode:
      return bytes(Kind::kText, take_integer<std::uint8_t>());
    case kBinUnicode:
      return bytes(Kind::kText, take_integer<std::uint32_t>());
    case kBinUnicode8:
      return bytes(Kind::kText, take_integer<std::uint64_t>());
    default:
      return false;
  }
}

bool PickleMachine::run_sequence(std::uint8_t opcode) {
  switch (opcode) {
    case kMark:
      marks_.push_back(stack_.size());
      return true;
    case kEmptyList:
    case kEmptyTuple:
      push_sequence({});
      return true;
    case kTuple:
      push_sequence(pop_top(stack_.size() - pop_mark()));
      return true;
    case kTuple1:
      push_sequence(pop_top(1));
      return true;
    case kTuple2:
      push_sequence(pop_top(2));
      return true;
    case kTuple3:
      push_sequence(pop_top(3));
      return true;
    case kAppend:
      append_to_list(stack_.size() - 1);
      return true;
    case kAppends:
      append_to_list(pop_mark());
      return true;
    default:
      return false;
  }
}

bool PickleMachine::run_memo(std::uint8_t opcode) {
  const auto get = [&](std::uint32_t slot) {
    const auto found = memo_.find(slot);
    if (found == memo_.end()) fail(fmt::format("memo slot {} is empty", slot));
    push(found->second);
    return true;
  };
  switch (opcode) {
    case kBinPut:
      memoize(take_integer<std::uint8_t>());
      return true;
    case kLongBinPut:
      memoize(take_integer<std::uint32_t>());
      return true;
    case kMemoize:
      memoize(static_cast<std::uint32_t>(memo_.size()));
      return true;
    case kBinGet:
      return get(take_integer<std::uint8_t>());
    case kLongBinGet:
      return get(take_integer<std::uint32_t>());
    default:
      return false;
  }
}

bool PickleMachine::run_object(std::uint8_t opcode) {
  switch (opcode) {
    case kGlobal: {
      const std::string_view module = take_line();
      push_global(module, take_line());
      return true;
    }
    case kStackGlobal: {
      const Values names = pop_top(2);
      push_global(names[0].text(), names[1].text());
      return true;
    }
    case kReduce:
      reduce();
      return true;
    case kBuild:
      build();
      return true;
    default:
      return false;
  }
}

void PickleMachine::append_to_list(std::size_t first) {
  append_to(first, Kind::kSequence, "appends to an object that is not a list");
}

/// Moves the values on the stack from `first` on into the list or dict below them. Discards them if
/// an object of unknown type is below them.
void PickleMachine::append_to(std::size_t first, Kind kind, const char* wrong) {
  if (first == 0 || first >= stack_.size() + 1) fail("nothing to append to");
  const Values values = pop_top(stack_.size() - first);
  const PickleValue list = stack_.back();
  if (list.kind == Kind::kOpaque) return;
  if (list.kind != kind) fail(wrong);
  count_values(values.size());
  Values& items = out_.sequences_[static_cast<std::size_t>(list.number)];
  items.insert(items.end(), values.begin(), values.end());
}

std::span<const std::byte> PickleMachine::take(std::uint64_t count) {
  if (count > file_.size() - position_) {
    fail(
        fmt::format("expected {} more bytes, but the file ends after {}: it is truncated, or not a "
                    "pickle",
                    count, file_.size() - position_));
  }
  const auto bytes = file_.subspan(position_, static_cast<std::size_t>(count));
  position_ += bytes.size();
  return bytes;
}

template <typename Integer>
Integer PickleMachine::take_integer() {
  Integer value;
  std::memcpy(&value, take(sizeof value).data(), sizeof value);
  return value;
}

/// Reads BINFLOAT, a big-endian double. A whole number becomes an integer.
void PickleMachine::push_float() {
  std::array<std::byte, sizeof(double)> bytes{};
  std::ranges::reverse_copy(take(bytes.size()), bytes.begin());
  const auto value = std::bit_cast<double>(bytes);
  if (std::trunc(value) != value || std::abs(value) > 1e15) return push({});
  push({.kind = Kind::kInteger, .number = static_cast<std::int64_t>(value), .bytes = {}});
}

/// LONG1: a count of bytes, then a little-endian two's complement.
std::int64_t PickleMachine::take_long() {
  const auto bytes = take(take_integer<std::uint8_t>());
  if (bytes.size() > 8) fail("an integer of more than 8 bytes");
  if (bytes.empty()) return 0;
  const bool negative = (bytes.back() & std::byte{0x80}) != std::byte{0};
  std::int64_t value = negative ? -1 : 0;
  std::memcpy(&value, bytes.data(), bytes.size());
  return value;
}

std::string_view PickleMachine::take_line() {
  constexpr std::size_t kMaxName = 256;
  const auto rest = file_.subspan(position_, std::min(kMaxName, file_.size() - position_));
  const auto end = std::find(rest.begin(), rest.end(), std::byte{'\n'});
  if (end == rest.end()) fail("a name that does not end");
  const auto line = rest.first(static_cast<std::size_t>(end - rest.begin()));
  position_ += line.size() + 1;
  return {reinterpret_cast<const char*>(line.data()), line.size()};
}

void PickleMachine::push(PickleValue value) {
  if (stack_.size() >= kMaxStack)
    fail(fmt::format("more values at once than {} hold", expected_files()));
  stack_.push_back(value);
}

void PickleMachine::push_sequence(Values values, Kind kind) {
  count_values(values.size() + 1);
  out_.sequences_.push_back(std::move(values));
  const auto index = static_cast<std::int64_t>(out_.sequences_.size()) - 1;
  push({.kind = kind, .number = index, .bytes = {}});
}

PickleValue PickleMachine::pop() { return pop_top(1).front(); }

PickleMachine::Values PickleMachine::pop_top(std::size_t count) {
  const std::size_t floor = marks_.empty() ? 0 : marks_.back();
  if (stack_.size() < floor || stack_.size() - floor < count) fail("the stack is empty");
  const auto first = stack_.end() - static_cast<std::ptrdiff_t>(count);
  Values values(first, stack_.end());
  stack_.erase(first, stack_.end());
  return values;
}

std::size_t PickleMachine::pop_mark() {
  if (marks_.empty()) fail("there is no mark");
  const std::size_t mark = marks_.back();
  marks_.pop_back();
  return mark;
}

const PickleMachine::Values& PickleMachine::tuple(const PickleValue& value,
                                                  std::size_t at_least) const {
  if (value.kind != Kind::kSequence) fail("expected a tuple");
  const Values& values = out_.sequence(value);
  if (values.size() < at_least) fail("a tuple that is too short");
  return values;
}

void PickleMachine::memoize(std::uint32_t slot) {
  if (stack_.empty()) fail("the stack is empty");
  count_values(1);
  memo_[slot] = stack_.back();
}

void PickleMachine::count_values(std::size_t more) {
  values_ += more;
  if (values_ > kMaxValues) fail(fmt::format("more values than {} hold", expected_files()));
}

void PickleMachine::fail(const std::string& what) const {
  if (opcode_position_ >= file_.size() || position_ == 0) {
    throw InputError(fmt::format("{}: offset {}: {}", origin_, opcode_position_, what));
  }
  throw InputError(fmt::format("{}: offset {}: opcode {:02x}: {}", origin_, opcode_position_,
                               static_cast<unsigned>(file_[opcode_position_]), what));
}

Pickle::Pickle(std::string_view origin, std::span<const std::byte> file, PickleDialect dialect) {
  PickleMachine(origin, file, dialect, *this).run();
}

const std::vector<PickleValue>& Pickle::sequence(const PickleValue& v) const {
  using Kind = PickleValue::Kind;
  check(v.kind == Kind::kSequence || v.kind == Kind::kDict || v.kind == Kind::kStorage ||
            v.kind == Kind::kTensor,
        "Pickle: no sequence");
  return sequences_[static_cast<std::size_t>(v.number)];
}

const PickleArray& Pickle::array(const PickleValue& v) const {
  check(v.kind == PickleValue::Kind::kArray, "Pickle: no array");
  return arrays_[static_cast<std::size_t>(v.number)];
}

}  // namespace pfc
