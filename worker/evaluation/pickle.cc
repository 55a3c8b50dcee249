#include "worker/evaluation/pickle.h"

#include "common/error.h"
#include "worker/evaluation/pickle_machine.h"

namespace pfc {

Pickle::Pickle(std::string_view origin, std::span<const std::byte> file) {
  PickleMachine(origin, file, *this).run();
}

const std::vector<PickleValue>& Pickle::sequence(const PickleValue& v) const {
  check(v.kind == PickleValue::Kind::kSequence, "Pickle: no sequence");
  return sequences_[static_cast<std::size_t>(v.number)];
}

const PickleArray& Pickle::array(const PickleValue& v) const {
  check(v.kind == PickleValue::Kind::kArray, "Pickle: no array");
  return arrays_[static_cast<std::size_t>(v.number)];
}

}  // namespace pfc
