#include "common/random_id.h"

#include <cstdint>
#include <cstdio>
#include <random>

namespace pfc {

std::string random_id() {
  std::random_device random;
  char digits[17];
  std::snprintf(digits, sizeof(digits), "%08x%08x", static_cast<std::uint32_t>(random()),
                static_cast<std::uint32_t>(random()));
  return digits;
}

}  // namespace pfc
