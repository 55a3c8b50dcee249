#include "worker/head/class_centres.h"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <utility>
#include <vector>

#include "common/error.h"
#include "kernels/cpu/normal_row.h"
#include "kernels/math/missed_updates.h"
#include "worker/head/row_copy.h"

namespace pfc {
namespace {

constexpr float kInitialDeviation = 0.01f;

constexpr std::size_t whole_pages(std::size_t bytes) {
  return (bytes + kPageBytes - 1) / kPageBytes * kPageBytes;
}

/// A table in a PagedMemory.
class PagedTable : public Buffer {
 public:
  PagedTable(std::byte* data, std::size_t bytes) : data_(data), bytes_(bytes) {}
  [[nodiscard]] std::byte* data() override { return data_; }
  [[nodiscard]] std::size_t bytes() const override { return bytes_; }

 private:
  std::byte* const data_;
  const std::size_t bytes_;
};

std::unique_ptr<KeptPages> taken_over(const CentreFile& file, std::size_t bytes) {
  try {
    return KeptPages::take_over({file.folder, file.name}, file.checkpoint, bytes);
  } catch (const StorageError&) {
    throw;
  } catch (const InputError& error) {
    throw InputError(error.what() + file.advice);
  }
}

}  // namespace

std::size_t CentreBytes::file() const {
  return whole_pages(weight) + whole_pages(momentum) + whole_pages(second);
}

CentreBytes ClassCentres::bytes(std::int64_t rows, const CentreOptions& options) {
  const auto r = static_cast<std::size_t>(rows);
  const std::size_t numbers = r * static_cast<std::size_t>(options.dimension);
  const std::size_t state = numbers * size_of(momentum_type(options.precision));
  const std::size_t of_centres = r * static_cast<std::size_t>(options.sub_centres) * sizeof(float);
  return {.weight = numbers * size_of(weight_type(options.precision)),
          .momentum = options.momentum ? state : 0,
          .second = options.optimizer == OptimizerKind::kAdamW ? state : 0,
          .scales = is_one_byte(options.precision) ? of_centres * (options.momentum ? 2 : 1) : 0,
          .inverse_norm = of_centres,
          .updated = r * sizeof(updated_[0])};
}

std::vector<FileTable> ClassCentres::file_tables(std::int64_t rows, const CentreOptions& options) {
  const CentreBytes sizes = bytes(rows, options);
  const DType state = momentum_type(options.precision);
  std::vector<FileTable> tables;
  std::uint64_t used = 0;
  const auto add = [&](const char* name, DType type, std::size_t size) {
    if (size == 0) return;
    tables.push_back({name, type, {rows, options.dimension}, used});
    used += whole_pages(size);
  };
  add("weight", weight_type(options.precision), sizes.weight);
  add("momentum", state, sizes.momentum);
  add("second", state, sizes.second);
  return tables;
}

ClassCentres::ClassCentres(Ops& ops, RowRange shard, const CentreOptions& options)
    : shard_(shard), options_(options), history_(options.optimizer) {
  allocate(ops);
}

std::unique_ptr<PageFile> ClassCentres::open_file(std::size_t bytes) {
  const CentreFile& file = options_.file;
  if (!file.kept()) return make_page_file(file.folder, bytes);
  auto kept = file.taken_over() ? taken_over(file, bytes)
                                : KeptPages::create({file.folder, file.name}, bytes);
  kept_ = kept.get();
  return kept;
}

void ClassCentres::allocate(Ops& ops) {
  const CentreBytes sizes = bytes(shard_.size(), options_);
  std::size_t used = 0;  // of paged_
  if (options_.file.on()) {
    check(ops.on_host(), "class centres: a file needs tables that the CPU reads");
    paged_ = std::make_unique<PagedMemory>(
        open_file(sizes.file()), PagedMemoryOptions{.bytes = sizes.file(),
                                                    .limit = options_.file.cache,
                                                    .stored = options_.file.taken_over()});
  }
  const auto table = [&](std::size_t size) -> std::unique_ptr<Buffer> {
    if (size == 0) return nullptr;
    if (!paged_) return ops.allocate(size);
    const std::size_t begin = std::exchange(used, used + whole_pages(size));
    return std::make_unique<PagedTable>(paged_->data() + begin, size);
  };
  weight_ = table(sizes.weight);
  momentum_ = table(sizes.momentum);
  second_ = table(sizes.second);
  inverse_norm_ = ops.allocate(sizes.inverse_norm);
  if (is_one_byte(options_.precision)) {
    weight_scales_ = ops.allocate(sizes.inverse_norm);
    if (options_.momentum) momentum_scales_ = ops.allocate(sizes.inverse_norm);
  }
  updated_.resize(sizes.updated / sizeof(updated_[0]));
}

CentreTable ClassCentres::table() {
  const Shape shape{shard_.size(), options_.dimension};
  const Shape of_centres{shard_.size(), options_.sub_centres};
  const auto view = [](const std::unique_ptr<Buffer>& buffer, DType type, const Shape& rows) {
    return buffer ? Tensor(buffer->data(), type, rows) : Tensor();
  };
  const auto scales = [&](const std::unique_ptr<Buffer>& buffer) {
    return view(buffer, DType::kFloat32, of_centres);
  };
  const DType state = momentum_type(options_.precision);
  return {.first_class = shard_.begin,
          .weight = {view(weight_, weight_type(options_.precision), shape), scales(weight_scales_)},
          .inverse_norm = {inverse_norm_->data(),
                           DType::kFloat32,
                           {shard_.size() * options_.sub_centres}},
          .momentum = {view(momentum_, state, shape), scales(momentum_scales_)},
          .second = view(second_, state, shape),
          .updated = updated_,
          .history = &history_};
}

void ClassCentres::draw(Ops& ops, const std::function<void(RowRange classes)>& drawn) {
  const std::int64_t d = options_.dimension;
  const ScaledRows weight = table().weight;
  const std::int64_t most = rows_at_once(d);  // drawn on the host, then copied
  std::vector<float> rows(static_cast<std::size_t>(std::min(most, shard_.size()) * d));
  for (std::int64_t begin = 0; begin < shard_.size(); begin += most) {
    const std::int64_t count = std::min(most, shard_.size() - begin);
#pragma omp parallel for schedule(static)
    for (std::int64_t row = 0; row < count; ++row) {
      draw_normal_row({.seed = options_.seed,
                       .stream = Stream::kCentreInit,
                       .row = static_cast<std::uint64_t>(
                           options_.positions.label_at(shard_.begin + begin + row)),
                       .deviation = kInitialDeviation},
                      {rows.data() + row * d, static_cast<std::size_t>(d)});
      if (options_.bias) rows[static_cast<std::size_t>((row + 1) * d - 1)] = 0;
    }
    const RowRange part{shard_.begin + begin, shard_.begin + begin + count};
    const auto pinned = pin(part, PageUse::kChange, weight);
    copy_rows_to_device(ops, row_range(weight, begin, count), rows.data());
    if (drawn) drawn(part);
  }
}

template <typename F>
void ClassCentres::each_table(const F& f) const {
  for (const auto* table : {&weight_, &momentum_, &second_}) {
    if (*table) f(**table);
  }
}

/// Adds the pages of rows that come after those in `pages`, or begin in the last one.
void ClassCentres::add_pages(RowRange classes, Buffer& table, std::vector<PageRange>& pages) const {
  const auto row = static_cast<std::int64_t>(table.bytes()) / shard_.size();
  const std::int64_t begin = table.data() - paged_->data();
  constexpr auto kPage = static_cast<std::int64_t>(kPageBytes);
  const std::int64_t first = (begin + (classes.begin - shard_.begin) * row) / kPage;
  const std::int64_t end = (begin + (classes.end - shard_.begin) * row + kPage - 1) / kPage;
  if (!pages.empty() && pages.back().first + pages.back().count >= first) {
    pages.back().count = end - pages.back().first;
  } else {
    pages.push_back({first, end - first});
  }
}

std::vector<PageRange> ClassCentres::pages_of(std::span<const std::int64_t> classes) const {
  std::vector<PageRange> pages;
  each_table([&](Buffer& table) {
    for (const std::int64_t c : classes) add_pages({c, c + 1}, table, pages);
  });
  pages.shrink_to_fit();
  return pages;
}

std::shared_ptr<PinnedPages> ClassCentres::read_ahead(std::span<const std::int64_t> classes) const {
  return paged_ ? paged_->read_ahead(pages_of(classes)) : nullptr;
}

std::unique_ptr<PinnedPages> ClassCentres::pin(RowRange classes, PageUse use,
                                               const Tensor& only) const {
  if (!paged_ || classes.size() == 0) return nullptr;
  std::vector<PageRange> pages;
  each_table([&](Buffer& table) {
    if (!only || table.data() == only.data) add_pages(classes, table, pages);
  });
  return paged_->pin(std::move(pages), use);
}

void ClassCentres::in_pieces(std::span<const std::int64_t> classes,
                             const std::function<void(std::span<const std::int64_t>)>& f) const {
  if (!paged_) return f(classes);
  std::size_t pages = 0;  // of a class, at most
  each_table([&](Buffer& table) {
    pages += table.bytes() / static_cast<std::size_t>(shard_.size()) / kPageBytes + 2;
  });
  const std::size_t most = std::max<std::size_t>(paged_->window() / kPageBytes / pages, 1);
  for (; !classes.empty(); classes = classes.subspan(std::min(most, classes.size()))) {
    const auto some = classes.first(std::min(most, classes.size()));
    const auto pinned = paged_->pin(pages_of(some), PageUse::kChange);
    f(some);
  }
}

void ClassCentres::expect_pinned(std::span<const std::int64_t> classes) const {
  check(!paged_ || paged_->holds(pages_of(classes)),
        "class centres: an active row is not in memory");
}

void ClassCentres::keep(const std::string& checkpoint) {
  check(kept_ != nullptr, "class centres: their file cannot be the base of checkpoints");
  paged_->write_back();
  kept_->add_checkpoint(checkpoint);
}

PagingCounters ClassCentres::paging() const {
  return paged_ ? paged_->counters() : PagingCounters{};
}

void ClassCentres::read_current(Ops& ops, RowRange classes, std::span<float> rows) {
  const std::int64_t d = options_.dimension, most = rows_at_once(d);
  check(std::ssize(rows) == classes.size() * d, "class centres: rows must be [classes, D]");
  for (std::int64_t begin = classes.begin; begin < classes.end; begin += most) {
    const RowRange piece{begin, std::min(begin + most, classes.end)};
    read_piece(ops, piece,
               rows.subspan(static_cast<std::size_t>((begin - classes.begin) * d),
                            static_cast<std::size_t>(piece.size() * d)));
  }
}

void ClassCentres::read_piece(Ops& ops, RowRange classes, std::span<float> rows) {
  const CentreTable t = table();
  const auto d = static_cast<std::size_t>(options_.dimension);
  const auto pinned = pin(classes, PageUse::kRead);
  std::vector<std::int64_t> numbers(static_cast<std::size_t>(classes.size()));
  std::iota(numbers.begin(), numbers.end(), classes.begin);
  CatchUpPlan missed;
  missed.make(history_, updated_, shard_.begin, numbers);
  const auto read = [&](const ScaledRows& from, std::span<float> to) {
    copy_rows_to_host(ops, to.data(),
                      row_range(from, classes.begin - shard_.begin, classes.size()));
  };
  read(t.weight, rows);
  if (missed.table().size() < 2) return;  // no row has missed an update
  std::vector<float> momentum(rows.size()), second(t.second ? rows.size() : 0);
  if (t.momentum) read(t.momentum, momentum);
  if (t.second) read(t.second, second);
#pragma omp parallel for schedule(static)
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const std::uint32_t index = missed.index()[i / d];
    if (index == 0) continue;
    const CatchUp& catch_up = missed.table()[index];
    if (t.second) {
      apply_adamw(catch_up, rows[i], momentum[i], second[i]);
    } else {
      apply_sgd(catch_up, rows[i], momentum[i]);
    }
  }
}

}  // namespace pfc
