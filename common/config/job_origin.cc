#include "common/config/job_origin.h"

namespace pfc {

std::string JobOrigin::of(const std::string& key) const {
  for (auto each = overrides.rbegin(); each != overrides.rend(); ++each) {
    const std::string set = each->substr(0, each->find('='));
    // The key itself, a part of its value, or the object that contains it.
    if (set == key || set.starts_with(key + ".") || key.starts_with(set + ".")) {
      return "--set " + *each;
    }
  }
  return file;
}

}  // namespace pfc
