#include "comm/gather_texts.h"

#include <algorithm>
#include <cstdint>

#include "common/error.h"

namespace pfc {

std::vector<std::string> gather_texts(Comm& comm, const std::string& mine) {
  check(mine.size() <= kLongestText, "gather_texts: a text is too long");
  auto size = static_cast<std::int64_t>(mine.size());
  std::vector<std::int64_t> sizes(static_cast<std::size_t>(comm.size()));
  comm.all_gather(Tensor(&size, DType::kInt64, {1}),
                  Tensor(sizes.data(), DType::kInt64, {comm.size()}));
  const std::int64_t longest = *std::ranges::max_element(sizes);

  std::string padded = mine;
  padded.resize(static_cast<std::size_t>(longest));
  std::string all(padded.size() * sizes.size(), '\0');
  comm.all_gather(Tensor(padded.data(), DType::kUInt8, {longest}),
                  Tensor(all.data(), DType::kUInt8, {longest * comm.size()}));

  std::vector<std::string> texts;
  for (std::size_t rank = 0; rank < sizes.size(); ++rank) {
    texts.push_back(all.substr(rank * padded.size(), static_cast<std::size_t>(sizes[rank])));
  }
  return texts;
}

}  // namespace pfc
