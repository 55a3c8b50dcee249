#include "pfcctl/data/embed/damages.h"

#include "pfcctl/data/writing.h"

namespace pfc {

void Damages::add(const std::string& name, const std::string& what) {
  all_.push_back(named_damage(name, DamagedImage(what)));
  expect_few_damaged(std::ssize(all_), images_, allowed_of(images_, allowed_part_), all_.front());
}

}  // namespace pfc
