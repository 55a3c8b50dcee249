#include "worker/head/sampling/class_neighbours.h"

#include <algorithm>
#include <array>
#include <limits>

#include "kernels/math/bfloat16.h"
#include "kernels/owned_tensor.h"
#include "worker/head/row_copy.h"

namespace pfc {
namespace {

/// Sizes of the search, in classes, and the type of the products' operands.
struct SearchSizes {
  SearchSizes(const NeighbourOptions& o, int world_size, DType activation_type)
      : dimension(o.row_size / o.sub_centres - (o.bias ? 1 : 0)),
        own(std::max<std::int64_t>(1024 / o.sub_centres, 1)),
        tile(std::max<std::int64_t>(4096 / o.sub_centres, 1)),
        shard(o.positions.shard(0, world_size).size()),
        type(activation_type == DType::kBFloat16 ? DType::kBFloat16 : DType::kFloat32) {
    // A shard reads its own rows once for each part, so a part has many rows.
    constexpr std::int64_t kPartNumbers = 8 << 20;
    part = std::min(std::max<std::int64_t>(kPartNumbers / (o.row_size * tile), 1) * tile, shard);
    tile = std::min(tile, part);
    own = std::min(own, shard);
  }
  std::int64_t dimension;  ///< D
  std::int64_t own;        ///< classes of this worker in a product
  std::int64_t tile;       ///< classes that they are compared with in a product
  std::int64_t part = 0;   ///< classes that one worker sends to all at a time
  std::int64_t shard;      ///< classes of rank 0, whose shard is the largest
  DType type;
};

/// Rows of unit length, in the type of the products.
class UnitRows {
 public:
  UnitRows(const NeighbourOptions& o, const SearchSizes& sizes, std::int64_t classes)
      : o_(o),
        d_(sizes.dimension),
        rows_(static_cast<std::size_t>(classes * o.row_size)),
        rounded_(sizes.type == DType::kBFloat16
                     ? static_cast<std::size_t>(classes * o.sub_centres * d_)
                     : 0) {}

  /// Returns the memory for the centres of `classes` classes, [classes * sub_centres, D].
  [[nodiscard]] std::span<std::byte> bytes(std::int64_t classes) {
    const auto numbers = static_cast<std::size_t>(classes * o_.sub_centres * d_);
    if (!rounded_.empty()) return std::as_writable_bytes(std::span(rounded_).first(numbers));
    return std::as_writable_bytes(std::span(rows_).first(numbers));
  }

  void fill(RowRange classes, const ReadCentres& read) {
    const std::span rows =
        std::span(rows_).first(static_cast<std::size_t>(classes.size() * o_.row_size));
    read(classes, rows);
    const std::int64_t size = o_.row_size / o_.sub_centres;  // D, and a bias if there is one
    const std::int64_t centres = classes.size() * o_.sub_centres;
#pragma omp parallel for schedule(static)
    for (std::int64_t i = 0; i < centres; ++i) {
      const std::span<float> row(rows.data() + i * size, static_cast<std::size_t>(d_));
      if (!normalise(row)) std::ranges::fill(row, 0.f);
      if (rounded_.empty()) continue;
      std::ranges::transform(row, rounded_.data() + i * d_,
                             [](float x) { return nearest_bfloat16(x); });
    }
    if (size == d_) return;
    for (std::int64_t i = 1; i < centres; ++i) {  // removes the biases
      std::copy_n(rows.data() + i * size, d_, rows.data() + i * d_);
    }
  }

 private:
  const NeighbourOptions& o_;
  const std::int64_t d_;
  std::vector<float> rows_;
  std::vector<BFloat16> rounded_;  // empty: the products are float32
};

class NeighbourSearch {
 public:
  /// `queries`: the rows to compare with the classes; nullptr: this worker's classes.
  NeighbourSearch(Ops& ops, Comm& host, const NeighbourOptions& options, const ReadCentres& read,
                  const QueryRows* queries)
      : ops_(ops),
        host_(host),
        o_(options),
        read_(read),
        queries_(queries),
        sizes_(options, host.size(), ops.activation_type()),
        mine_(queries != nullptr ? RowRange{0, queries->count}
                                 : options.positions.shard(host.rank(), host.size())),
        own_rows_(o_, sizes_, sizes_.own),
        part_rows_(o_, sizes_, sizes_.part),
        own_(ops, centres_shape(sizes_.own), sizes_.type),
        part_(ops, centres_shape(sizes_.part), sizes_.type),
        products_(ops, {sizes_.own * o_.sub_centres, sizes_.tile * o_.sub_centres}),
        copied_(ops.on_host() ? 0 : static_cast<std::size_t>(products_->elements())),
        cosines_(static_cast<std::size_t>(mine_.size() * o_.degree),
                 -std::numeric_limits<float>::infinity()),
        found_{.degree = o_.degree,
               .table = std::vector<std::int32_t>(
                   static_cast<std::size_t>(
                       (queries != nullptr ? queries->count : o_.positions.classes) * o_.degree),
                   -1)} {}

  ClassNeighbours run() {
    for (int rank = 0; rank < host_.size(); ++rank) {
      const RowRange shard = o_.positions.shard(rank, host_.size());
      for (std::int64_t begin = shard.begin; begin < shard.end; begin += sizes_.part) {
        compare_all(rank, {begin, std::min(begin + sizes_.part, shard.end)});
      }
    }
    for (int rank = 0; queries_ == nullptr && rank < host_.size(); ++rank) {
      const RowRange shard = o_.positions.shard(rank, host_.size());
      host_.broadcast(
          {found_.table.data() + shard.begin * o_.degree,
           DType::kUInt8,
           {shard.size() * o_.degree * static_cast<std::int64_t>(sizeof(std::int32_t))}},
          rank);
    }
    return std::move(found_);
  }

 private:
  [[nodiscard]] Shape centres_shape(std::int64_t classes) const {
    return {classes * o_.sub_centres, sizes_.dimension};
  }

  /// Copies unit rows to the first rows of a table, and returns these.
  Tensor to_device(UnitRows& rows, std::int64_t classes, const Tensor& table) {
    const Tensor first(table.data, table.dtype, centres_shape(classes));
    ops_.copy_to_device(first, rows.bytes(classes).data());
    return first;
  }

  /// Compares this worker's classes with a part of those of `rank`.
  void compare_all(int rank, RowRange part) {
    if (rank == host_.rank()) part_rows_.fill(part, read_);
    const std::span<std::byte> bytes = part_rows_.bytes(part.size());
    host_.broadcast({bytes.data(), DType::kUInt8, {std::ssize(bytes)}}, rank);
    const Tensor theirs = to_device(part_rows_, part.size(), part_);
    for (std::int64_t begin = mine_.begin; begin < mine_.end; begin += sizes_.own) {
      const RowRange own{begin, std::min(begin + sizes_.own, mine_.end)};
      own_rows_.fill(own, queries_ != nullptr ? queries_->read : read_);
      const Tensor mine = to_device(own_rows_, own.size(), own_);
      for (std::int64_t first = 0; first < part.size(); first += sizes_.tile) {
        const std::int64_t count = std::min(sizes_.tile, part.size() - first);
        const Tensor tile = row_range(theirs, first * o_.sub_centres, count * o_.sub_centres);
        keep_nearest(own, {part.begin + first, part.begin + first + count}, product(mine, tile));
      }
      compared_ += own.size() * part.size();
      if (o_.progress) o_.progress(compared_ / o_.positions.classes, mine_.size());
    }
  }

  /// Returns the cosines of all pairs, [rows of mine, rows of theirs], in host memory.
  float* product(const Tensor& mine, const Tensor& theirs) {
    const Tensor c(products_->data, DType::kFloat32, {mine.shape[0], theirs.shape[0]});
    ops_.gemm({.m = mine.shape[0],
               .n = theirs.shape[0],
               .k = sizes_.dimension,
               .transpose_b = true,
               .a = mine,
               .b = theirs,
               .c = c});
    if (ops_.on_host()) return c.f32();
    ops_.copy_to_host(copied_.data(), c);
    return copied_.data();
  }

  /// cosines: [own * sub_centres, tile * sub_centres]; overwritten with sub-centres.
  void keep_nearest(RowRange own, RowRange tile, float* cosines) {
    const std::int64_t k = o_.sub_centres, row = k * tile.size() * k;  // of a class
#pragma omp parallel for schedule(static)
    for (std::int64_t i = 0; i < own.size(); ++i) {
      float* const c = cosines + i * row;
      if (k > 1) keep_largest(c, tile.size());
      add(own.begin + i, tile, {c, static_cast<std::size_t>(tile.size())});
    }
  }

  /// Replaces the cosines [sub_centres, classes, sub_centres] of one class with `classes` others by
  /// the largest cosine of each of these, [classes].
  void keep_largest(float* cosines, std::int64_t classes) const {
    const std::int64_t k = o_.sub_centres;
    for (std::int64_t c = 0; c < classes; ++c) {
      float largest = -std::numeric_limits<float>::infinity();
      for (std::int64_t mine = 0; mine < k; ++mine) {
        const float* const pairs = cosines + (mine * classes + c) * k;
        largest = std::max(largest, *std::max_element(pairs, pairs + k));
      }
      cosines[c] = largest;
    }
  }

  /// Adds the classes of a tile to the nearest ones of class `mine` so far. Tiles come in rising
  /// order, so of equal cosines the first one stays.
  void add(std::int64_t mine, RowRange tile, std::span<const float> cosines) {
    constexpr std::int64_t kTogether = 16;
    const std::int64_t first = (mine - mine_.begin) * o_.degree;
    float* const best = cosines_.data() + first;
    const float& least = best[o_.degree - 1];
    for (std::int64_t begin = 0; begin < tile.size(); begin += kTogether) {
      const std::int64_t end = std::min(begin + kTogether, tile.size());
      const float limit = least;
      bool any = false;
      for (std::int64_t i = begin; i < end; ++i)
        any |= cosines[static_cast<std::size_t>(i)] > limit;
      for (std::int64_t i = begin; any && i < end; ++i) {
        const float cosine = cosines[static_cast<std::size_t>(i)];
        const bool is_itself = queries_ == nullptr && tile.begin + i == mine;
        if (cosine > least && !is_itself) insert(mine, tile.begin + i, cosine);
      }
    }
  }

  void insert(std::int64_t mine, std::int64_t other, float cosine) {
    float* const best = cosines_.data() + (mine - mine_.begin) * o_.degree;
    std::int32_t* const classes = found_.table.data() + mine * o_.degree;
    std::int64_t place = o_.degree - 1;
    for (; place > 0 && cosine > best[place - 1]; --place) {
      best[place] = best[place - 1];
      classes[place] = classes[place - 1];
    }
    best[place] = cosine;
    classes[place] = static_cast<std::int32_t>(other);
  }

  Ops& ops_;
  Comm& host_;
  const NeighbourOptions& o_;
  const ReadCentres& read_;
  const QueryRows* const queries_;
  const SearchSizes sizes_;
  const RowRange mine_;        // this worker's shard, or its queries
  std::int64_t compared_ = 0;  // pairs of rows so far
  UnitRows own_rows_, part_rows_;
  OwnedTensor own_, part_;      // the same on the device
  OwnedTensor products_;        // [own, tile], each times sub_centres
  std::vector<float> copied_;   // products_ of a GPU
  std::vector<float> cosines_;  // [mine_, degree]: of the nearest classes so far, largest first
  ClassNeighbours found_;       // rows of other workers are filled last
};

void check_sizes(const NeighbourOptions& o) {
  check(o.positions.classes <= std::numeric_limits<std::int32_t>::max() && o.degree > 0 &&
            o.row_size % o.sub_centres == 0,
        "class neighbours: a size is out of range");
}

}  // namespace

ClassNeighbours find_neighbours(Ops& ops, Comm& host, const NeighbourOptions& options,
                                const ReadCentres& read) {
  check_sizes(options);
  return NeighbourSearch(ops, host, options, read, nullptr).run();
}

ClassNeighbours find_nearest(Ops& ops, Comm& host, const NeighbourOptions& options,
                             const ReadCentres& read, const QueryRows& queries) {
  check_sizes(options);
  check(queries.count > 0, "find_nearest: no queries");
  return NeighbourSearch(ops, host, options, read, &queries).run();
}

void share_neighbours(ClassNeighbours& neighbours, Comm& host) {
  std::array<std::int64_t, 2> sizes{neighbours.degree, std::ssize(neighbours.table)};
  host.broadcast({sizes.data(), DType::kInt64, {std::ssize(sizes)}}, 0);
  neighbours.degree = sizes[0];
  neighbours.table.resize(static_cast<std::size_t>(sizes[1]));
  const std::span bytes = std::as_writable_bytes(std::span(neighbours.table));
  if (!bytes.empty()) host.broadcast({bytes.data(), DType::kUInt8, {std::ssize(bytes)}}, 0);
}

NeighbourBytes neighbour_bytes(const NeighbourOptions& o, int world_size, bool gpu) {
  const SearchSizes s(o, world_size, DType::kFloat32);
  const auto size = [](std::int64_t numbers, std::size_t bytes) {
    return static_cast<std::size_t>(numbers) * bytes;
  };
  const auto centres = [&](std::int64_t classes) {
    return size(classes * o.sub_centres * s.dimension, sizeof(float));
  };
  NeighbourBytes b{.table = size(o.positions.classes * o.degree, sizeof(std::int32_t)),
                   .host = size(s.shard * o.degree + (s.own + s.part) * o.row_size, sizeof(float)),
                   .own = centres(s.own),
                   .others = centres(s.part),
                   .products = size(s.own * s.tile * o.sub_centres * o.sub_centres, sizeof(float))};
  if (gpu) b.host += b.own + b.others + b.products;  // copies
  return b;
}

}  // namespace pfc
