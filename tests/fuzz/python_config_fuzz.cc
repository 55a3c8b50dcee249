// Fuzzes the parser of arcface_torch configurations: accepted input can be written as JSON.
#include <nlohmann/json.hpp>

#include "common/config/python_config.h"
#include "common/error.h"
#include "tests/fuzz/fuzz_target.h"

std::vector<std::string> pfc::fuzz::seeds() {
  return {
      "from easydict import EasyDict as edict\nconfig = edict()\n"
      "config.margin_list = (1.0, 0.5, 0.0)\nconfig.num_classes = 30 * 10000 # c\n"
      "config.a = config.num_classes // 7 % 5 ** 2 - -3 / 0x1f\n"
      "config.val_targets = ['lfw', \"cfp\\u00e4\\x41\\101\", r'\\q' '''a\nb''', None, True]\n"
      "config.d = {'a': [1, (2, 3,), {}], \"b\": 1_0.5e-3}\n"};
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    const std::string_view text(reinterpret_cast<const char*>(data), size);
    if (pfc::parse_python_config(text, "c.py").dump().empty()) __builtin_trap();
  } catch (const pfc::InputError&) {
  }
  return 0;
}
