// Files of torch.save(): any bytes are either weights or an InputError. If an input does not begin
// like a zip file, it is taken as a pickle, and is put into a zip file with the right checksum.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "common/error.h"
#include "model/files/weights_file.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/support/array_files.h"
#include "tests/support/files.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/torch_files.h"

namespace {

using namespace pfc::testing;  // NOLINT: the writers of test files

const std::string kNumbers = bytes_of_numbers<float>({0, 1, 2, 3, 4, 5});

std::string state_dict() {
  return pickled_dict(
      {{"conv1.weight", pickled({.elements = 6, .size = {3, 2}, .stride = {1, 3}})},
       {"bn1.running_var", pickled({.elements = 6, .offset = 2, .size = {4}, .stride = {1}})},
       {"bn1.num_batches_tracked",
        pickled({.key = "1", .type = "LongStorage", .elements = 1, .size = {}, .stride = {}})},
       {"half",
        pickled({.key = "1", .type = "HalfStorage", .elements = 4, .size = {4}, .stride = {1}})}});
}

std::string zip(const std::string& pickle, bool zip64) {
  auto members = torch_members("", {kNumbers, raw<std::int64_t>(7)});
  members[0].content = pickle;
  return zip_of(members, zip64);
}

}  // namespace

namespace pfc::fuzz {

std::vector<std::string> seeds() {
  const std::string plain = "\x80\x02" + state_dict() + ".";
  const std::string checkpoint =
      "\x80\x02" +
      pickled_dict({{"epoch", pickled_number(1)},
                    {"state_dict_backbone", state_dict()},
                    {"list", "](" + pickled_number(4) + "\x88" + "e"},
                    {"state_optimizer", pickled_call("os\nsystem", ")")}}) +
      ".";
  return {plain, checkpoint, zip(plain, false), zip(checkpoint, true)};
}

}  // namespace pfc::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const pfc::TemporaryFolder folder;
  const std::string input(reinterpret_cast<const char*>(data), size);
  write_file(folder / "model.pt", input.starts_with("PK") ? input : zip(input, false));
  try {
    const pfc::WeightsFile file = pfc::read_weights(folder / "model.pt");
    // Every byte of the spans must be readable.
    std::size_t sum = 0;
    for (const auto* table : {&file.state_dict, &file.others}) {
      for (const auto& [name, tensor] : table->tensors()) {
        for (const std::byte b : tensor.bytes) sum += static_cast<std::size_t>(b);
      }
    }
    pfc::check(sum + 1 > 0, "the tensors were read");
  } catch (const pfc::InputError&) {
  }
  return 0;
}
