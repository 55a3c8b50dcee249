#include "coordinator/allocation/variables.h"

#include <cstdlib>

namespace pfc {

std::optional<std::string> own_variable(const char* name) {
  const char* const value = std::getenv(name);  // NOLINT(concurrency-mt-unsafe): only read
  if (value == nullptr || *value == '\0') return {};
  return value;
}

}  // namespace pfc
