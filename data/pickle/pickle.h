// Reads Python pickles: PyTorch's files, and verification .bin files (lists, tuples, bytes, text,
// numbers, flags, numpy arrays of bytes). Supports only the opcodes and names that these files use
// (protocols 2 to 5, and Python 2). Never runs code. Python's Lib/pickletools.py describes the
// opcodes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <string_view>
#include <vector>

namespace pfc {

/// A value of a pickle: a small, copyable view. The Pickle must outlive it. The comments on Kind
/// name the member that holds the value.
struct PickleValue {
  enum class Kind : std::uint8_t {
    kNone,      ///< also a float that is not a whole number
    kBool,      ///< number
    kInteger,   ///< number; also a float that is a whole number
    kBytes,     ///< bytes; also a Python 2 str
    kText,      ///< bytes, UTF-8
    kSequence,  ///< number: index into sequences; a list or a tuple
    kArray,     ///< number: index into arrays
    kDtype,     ///< bytes: "u1"
    kGlobal,    ///< number: index of a known name; PyTorch: bytes, "torch.FloatStorage"
    // Only in PyTorch's files.
    kDict,     ///< number: index into sequences; keys and values alternate
    kStorage,  ///< number: index into sequences: ("storage", type, key, location, elements)
    kTensor,   ///< number: index into sequences: (storage, offset, size, stride, ...)
    kOpaque,   ///< an object of unknown type; bytes: its name
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
  bool vector = false;  ///< one-dimensional, or all dimensions but one are 1
  std::string_view dtype;
  std::span<const std::byte> bytes;
};

/// The expected kind of pickle.
enum class PickleDialect {
  kVerificationSet,  ///< rejects unknown names
  kTorch,            ///< objects of unknown type become kOpaque
};

/// A parsed pickle. Its memory is bounded by the size of the file, because bytes are views of the
/// file and the number of values is limited.
class Pickle {
 public:
  /// Keeps views of `file`. Throws InputError "ORIGIN: ..." with the offset and the opcode.
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
  std::deque<std::vector<std::byte>> decoded_;  ///< bytes that the file stores in another encoding
};

}  // namespace pfc
