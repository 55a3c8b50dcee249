// Stack machine that parses a pickle, with one method for each family of opcodes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "data/pickle/pickle.h"

namespace pfc {

class PickleMachine {
 public:
  PickleMachine(std::string_view origin, std::span<const std::byte> file, PickleDialect dialect,
                Pickle& out)
      : origin_(origin), file_(file), dialect_(dialect), out_(out) {}

  /// Reads up to STOP. The value left on the stack becomes the root.
  void run();

 private:
  using Kind = PickleValue::Kind;
  using Values = std::vector<PickleValue>;

  // Opcodes. Each method returns false if the opcode is not in its family.
  bool run_constant(std::uint8_t opcode);
  bool run_bytes(std::uint8_t opcode);
  bool run_sequence(std::uint8_t opcode);
  bool run_memo(std::uint8_t opcode);
  bool run_object(std::uint8_t opcode);
  bool run_torch(std::uint8_t opcode);  ///< opcodes used only in PyTorch's files

  void append_to_list(std::size_t first);
  void append_to(std::size_t first, Kind kind, const char* wrong);
  void push_global(std::string_view module, std::string_view name);
  void reduce();
  void build();
  void push_torch_global(std::string_view module, std::string_view name);
  void reduce_torch();
  PickleValue encode_latin1(const Values& arguments);
  PickleValue make_array(const PickleArray& array);
  [[nodiscard]] PickleArray filled_array(const PickleValue& shape, const PickleValue& dtype,
                                         const PickleValue& bytes) const;

  std::span<const std::byte> take(std::uint64_t count);
  template <typename Integer>
  Integer take_integer();
  std::string_view take_line();
  std::int64_t take_long();
  void push_float();

  void push(PickleValue value);
  void push_sequence(Values values, Kind kind = Kind::kSequence);
  PickleValue pop();
  Values pop_top(std::size_t count);
  std::size_t pop_mark();  ///< returns the stack position of the first value after the mark
  [[nodiscard]] const Values& tuple(const PickleValue& value, std::size_t at_least) const;
  void memoize(std::uint32_t slot);
  void count_values(std::size_t more);

  [[nodiscard]] const char* expected_files() const {
    return dialect_ == PickleDialect::kTorch ? "PyTorch's files" : "verification files";
  }
  [[noreturn]] void fail(const std::string& what) const;

  std::string_view origin_;
  std::span<const std::byte> file_;
  const PickleDialect dialect_;
  Pickle& out_;
  std::size_t position_ = 0;
  std::size_t opcode_position_ = 0;
  std::size_t values_ = 0;  ///< number of values held by sequences and memo
  std::uint64_t decoded_bytes_ = 0;
  Values stack_;
  std::vector<std::size_t> marks_;
  std::unordered_map<std::uint32_t, PickleValue> memo_;
};

}  // namespace pfc
