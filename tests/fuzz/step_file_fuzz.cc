// Files of a head step, which are safetensors files: the whole input is one file.
#include <cstddef>
#include <cstdint>
#include <span>

#include "common/error.h"
#include "tests/support/files.h"
#include "tests/support/temporary_folder.h"
#include "worker/head/step_file.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const pfc::TemporaryFolder folder;
  const std::filesystem::path path = folder / "step.safetensors";
  pfc::testing::write_file(path, std::as_bytes(std::span(data, size)));
  try {
    static_cast<void>(pfc::read_head_step(std::span(&path, 1)));
  } catch (const pfc::InputError&) {
  }
  return 0;
}
