// What every fuzz target has beside libFuzzer's entry, so that a sample of its inputs can be made
// without clang too (sample.cc).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace pfc::fuzz {

/// Inputs that are well formed, from which others are made by mutation.
std::vector<std::string> seeds();

}  // namespace pfc::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);
