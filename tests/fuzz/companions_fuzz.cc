// Small files that a data set may have beside it. The first byte selects one: p: property, i:
// identities.txt, o: an overlay.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "common/error.h"
#include "data/identity_names.h"
#include "data/mapping/overlay.h"
#include "data/records/property_file.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/support/files.h"
#include "tests/support/temporary_folder.h"

namespace pfc::fuzz {

std::vector<std::string> seeds() {
  return {"p93431,112,112\n", "p 4 , 8 ,\t16\r\n", "iAda Lovelace\nBen\n\nCy", "iAda\r\n\xc3\xa9\n",
          "o{\"overlay\": 1, \"images\": 8, \"identities\": 4, \"changes\": 2}\n"
          "{\"identity\": 3, \"label\": 1}\n{\"image\": 0, \"label\": null}\n"};
}

}  // namespace pfc::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const pfc::TemporaryFolder folder;
  if (size == 0) return 0;
  const std::string_view input(reinterpret_cast<const char*>(data) + 1, size - 1);
  const auto file = folder / "beside";
  pfc::testing::write_file(file, input);
  try {
    if (data[0] == 'p') {
      static_cast<void>(pfc::read_property(file));
    } else if (data[0] == 'o') {
      static_cast<void>(pfc::read_overlay(file, {}));
    } else {
      const auto lines = std::count(input.begin(), input.end(), '\n');
      for (std::int64_t classes = lines; classes <= lines + 1; ++classes) {
        try {
          const pfc::IdentityNames names = pfc::read_identity_names(file, classes);
          for (std::int64_t label = 0; label <= classes; ++label) {
            static_cast<void>(names.at(label));
          }
        } catch (const pfc::InputError&) {
        }
      }
    }
  } catch (const pfc::InputError&) {
  }
  return 0;
}
