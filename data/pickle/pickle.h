// Reads Python pickles of the kinds of values that verification .bin files hold (lists, tuples,
// bytes, text, numbers, flags and numpy arrays of bytes), and those of PyTorch's files. It knows
// only the opcodes of these (protocols 2 to 5, and files of Python 2) and the few names that they
// contain, and never runs code. Python's Lib/pickletools.py describes the opcodes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <string_view>
#include <vector>

namespace pfc {

/// A value of a pickle. Small, may be copied; a view of the Pickle that it came from.
struct PickleValue {
  enum class Kind : std::uint8_t {
    kNone,      ///< also a float that is not whole
    kBool,      ///< number
    kInteger,   ///< number; a float too, if it is whole
    kBytes,     ///< bytes; a Python 2 str too
    kText,      ///< bytes, UTF-8
    kSequence,  ///< number: index into sequences; a list or a tuple
    kArray,     ///< number: index into arrays
    kDtype,     ///< bytes: "u1"
    kGlobal,  ///< number: index of one of the known names; of PyTorch: bytes, "torch.FloatStorage"
    // Of PyTorch's files alone.
    kDict,     ///< number: index into sequences, which has keys and values in turn
    kStorage,  ///< number: index into sequences: ("storage", type, key, location, elements)
    kTensor,   ///< number: index into sequences: (storage, offset, size, stride, ...)
    kOpaque,   ///< an object of a type that is not known; bytes: its name
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

/// Which pickles are expected.
enum class PickleDialect {
  kVerificationSet,  ///< refuses names that it does not know
  kTorch,            ///< objects of types that it does not know become kOpaque
};

/// A parsed pickle. Its memory is limited by the size of the file: bytes are views of the file, and
/// the number of values has a limit.
class Pickle {
 public:
  /// `file` is borrowed. Throws InputError that begins with `origin` and names offset and opcode.
  Pickle(std::string_view origin, std::span<const std::byte> file,
         PickleDialect dialect = PickleDialect::kVerificationSet);

  [[nodiscard]] const PickleValue& root() const { return root_; }
  /// REQUIRES: a kind whose number is an index into sequences.
  [[nodiscard]] const std::vector<PickleValue>& sequence(const PickleValue& v) const;
  [[nodiscard]] const PickleArray& array(const PickleValue& v) const;

 private:
  friend class PickleMachine;
  PickleValue root_;
  std::vector<std::vector<PickleValue>> sequences_;
  std::vector<PickleArray> arrays_;
  std::deque<std::vector<std::byte>> decoded_;  ///< bytes that the file holds in another encoding
};

}  // namespace pfc
