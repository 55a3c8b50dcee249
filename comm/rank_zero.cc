#include "comm/rank_zero.h"

#include "common/error.h"

namespace pfc {

void on_rank_zero(Comm& comm, const std::function<void()>& work) {
  std::string error;  // the first character encodes its kind
  if (comm.rank() == 0) {
    try {
      work();
    } catch (const InputError& e) {
      error = std::string("I") + e.what();
    } catch (const CommError& e) {
      error = std::string("C") + e.what();
    }
  }
  error = from_rank_zero(comm, std::move(error));
  if (error.empty()) return;
  const std::string what = error.substr(1);
  if (error.front() == 'C') throw CommError(what);
  throw InputError(what);
}

std::string from_rank_zero(Comm& comm, std::string text) {
  text.resize(static_cast<std::size_t>(
      from_rank_zero(comm, static_cast<std::int64_t>(comm.rank() == 0 ? text.size() : 0))));
  comm.broadcast(Tensor(text.data(), DType::kUInt8, {static_cast<std::int64_t>(text.size())}), 0);
  return text;
}

std::int64_t from_rank_zero(Comm& comm, std::int64_t number) {
  comm.broadcast(Tensor(&number, DType::kInt64, {1}), 0);
  return number;
}

}  // namespace pfc
