// Decodes tensors and dicts of torch.save() (torch/serialization.py and torch/_utils.py;
// torch/_weights_only_unpickler.py lists the allowed names).
#include <spdlog/fmt/fmt.h>

#include <string>
#include <utility>

#include "data/pickle/pickle_machine.h"

namespace pfc {

namespace {

enum TorchOpcode : std::uint8_t {
  kPop = '0',
  kPopMark = '1',
  kEmptyDict = '}',
  kSetItem = 's',
  kSetItems = 'u',
  kBinPersId = 'Q',
  kNewObject = 0x81,
  kEmptySet = 0x8f,
  kAddItems = 0x90,
};

}  // namespace

bool PickleMachine::run_torch(std::uint8_t opcode) {
  const auto set_items = [&](std::size_t first) {
    if (first > stack_.size() || (stack_.size() - first) % 2 != 0) fail("a key without a value");
    append_to(first, Kind::kDict, "sets an item of an object that is not a dict");
    return true;
  };
  switch (opcode) {
    case kPop:
      pop();
      return true;
    case kPopMark:
      pop_top(stack_.size() - pop_mark());
      return true;
    case kEmptyDict:
      push_sequence({}, Kind::kDict);
      return true;
    case kSetItem:
      return set_items(stack_.size() - 2);
    case kSetItems:
      return set_items(pop_mark());
    case kEmptySet:
      push_sequence({});
      return true;
    case kAddItems:
      append_to_list(pop_mark());
      return true;
    case kBinPersId: {
      const PickleValue id = pop();
      (void)tuple(id, 5);
      push({.kind = Kind::kStorage, .number = id.number, .bytes = {}});
      return true;
    }
    case kNewObject:  // like REDUCE: a class and the arguments of its __new__
      reduce_torch();
      return true;
    default:
      return false;
  }
}

/// Pushes the name itself. Nothing is imported.
void PickleMachine::push_torch_global(std::string_view module, std::string_view name) {
  const std::string full = fmt::format("{}.{}", module, name);
  decoded_bytes_ += full.size();
  if (decoded_bytes_ > 2 * file_.size()) fail("contains too many names");
  count_values(1);
  const auto* const bytes = reinterpret_cast<const std::byte*>(full.data());
  out_.decoded_.emplace_back(bytes, bytes + full.size());
  push({.kind = Kind::kGlobal, .number = 0, .bytes = out_.decoded_.back()});
}

void PickleMachine::reduce_torch() {
  const Values operands = pop_top(2);
  const PickleValue& callable = operands[0];
  if (callable.kind != Kind::kGlobal && callable.kind != Kind::kOpaque) {
    fail("calls an object that is not a function");
  }
  const std::string_view name = callable.text();
  if (name == "collections.OrderedDict") return push_sequence({}, Kind::kDict);
  if (name == "torch._utils._rebuild_tensor_v2") {
    const Values& arguments = tuple(operands[1], 4);
    if (arguments[0].kind != Kind::kStorage) fail("a tensor without a storage");
    return push({.kind = Kind::kTensor, .number = operands[1].number, .bytes = {}});
  }
  if (name == "torch._utils._rebuild_parameter" ||
      name == "torch._utils._rebuild_parameter_with_state") {
    return push(tuple(operands[1], 1)[0]);
  }
  push({.kind = Kind::kOpaque, .number = 0, .bytes = callable.bytes});
}

}  // namespace pfc
