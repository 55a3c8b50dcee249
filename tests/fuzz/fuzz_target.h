// The seeds of a fuzz target. They are separate from libFuzzer's entry point, so that sample.cc can
// mutate them without clang.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace pfc::fuzz {

/// Returns well-formed inputs, from which others are made by mutation.
std::vector<std::string> seeds();

}  // namespace pfc::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);
