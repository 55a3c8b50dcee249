// Reads the few things that verification .bin files hold out of a Python pickle: lists, tuples,
// bytes, text, numbers, flags and numpy arrays of bytes. It knows only their opcodes (protocols 2
// to 5, Python 2 files too), only the handful of names that numpy's arrays are pickled with, and
// runs nothing: a pickle that asks for anything else is refused. The opcodes: Python's
// Lib/pickletools.py.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <string_view>
#include <vector>

namespace pfc {

/// A value of a pickle. Small, copied freely; points into the Pickle it came from.
struct PickleValue {
  enum class Kind : std::uint8_t {
    kNone,
    kBool,      ///< number
    kInteger,   ///< number
    kBytes,     ///< bytes; a Python 2 str too
    kText,      ///< bytes, UTF-8
    kSequence,  ///< number: index into sequences; a list or a tuple
    kArray,     ///< number: index into arrays
    kDtype,     ///< bytes: "u1"
    kGlobal,    ///< number: which of the known names
  };
  Kind kind = Kind::kNone;
  std::int64_t number = 0;
  std::span<const std::byte> bytes;

  [[nodiscard]] std::string_view text() const {
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }
};

/// A numpy array of one-byte elements.
struct PickleArray {
  bool filled = false;
  bool vector = false;  ///< one-dimensional, or all sides but one are 1
  std::string_view dtype;
  std::span<const std::byte> bytes;
};

/// A pickle, taken apart. Memory is bounded by the file: bytes are views of it, and the number of
/// values is limited.
class Pickle {
 public:
  /// `origin` begins every error. `file` is borrowed. Throws InputError that names origin, offset
  /// and opcode.
  Pickle(std::string_view origin, std::span<const std::byte> file);

  [[nodiscard]] const PickleValue& root() const { return root_; }
  [[nodiscard]] const std::vector<PickleValue>& sequence(const PickleValue& v) const;
  [[nodiscard]] const PickleArray& array(const PickleValue& v) const;

 private:
  friend class PickleMachine;
  PickleValue root_;
  std::vector<std::vector<PickleValue>> sequences_;
  std::vector<PickleArray> arrays_;
  std::deque<std::vector<std::byte>> decoded_;  ///< bytes that were not in the file as such
};

}  // namespace pfc
