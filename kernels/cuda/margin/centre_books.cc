#include "kernels/cuda/margin/centre_books.h"

#include <algorithm>

namespace pfc {

void CentreBooks::plan(std::span<const std::int64_t> classes) {
  if (none_has_missed()) return;
  plan_.make(*table_.history, table_.updated, table_.first_class, classes);
}

std::int64_t CentreBooks::list_bytes(std::int64_t rows) const {
  const auto index = rows * static_cast<std::int64_t>(sizeof(std::int32_t));
  const auto table = static_cast<std::int64_t>(plan_.table().size_bytes());
  return 2 * CudaLists::rounded(index) + CudaLists::rounded(table);
}

RowList CentreBooks::add_lists(CudaLists& lists, std::span<const std::int64_t> classes) const {
  const auto count = static_cast<std::int64_t>(classes.size());
  if (count == 0) return {};
  RowList list{.first = classes.front() - table_.first_class};
  if (classes.back() - classes.front() != count - 1) {
    const auto rows = lists.add<std::int32_t>(count);
    std::ranges::transform(classes, rows.host, [&](std::int64_t c) {
      return static_cast<std::int32_t>(c - table_.first_class);
    });
    list.rows = rows.device;
  }
  if (none_has_missed() || plan_.table().size() <= 1) return list;
  const auto missed = lists.add<std::uint32_t>(count);
  std::ranges::copy(plan_.index(), missed.host);
  const auto how = lists.add<CatchUp>(static_cast<std::int64_t>(plan_.table().size()));
  std::ranges::copy(plan_.table(), how.host);
  list.missed = missed.device;
  list.catch_ups = how.device;
  return list;
}

void CentreBooks::moved(std::span<const std::int64_t> classes,
                        const MarginSoftmax::Update& update) {
  if (!kept()) return;
  table_.history->add(sgd_options(options_, update));
  settled(classes);
}

std::int32_t CentreBooks::settled(std::span<const std::int64_t> classes) {
  const std::int32_t count = table_.history->count();
  for (const std::int64_t c : classes) {
    table_.updated[static_cast<std::size_t>(c - table_.first_class)] = count;
  }
  if (static_cast<std::int64_t>(classes.size()) == table_.weight.shape[0]) all_seen_ = count;
  return count;
}

}  // namespace pfc
