// Reads the data of a worker's next batches, ahead of the decoding threads.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

#include "data/dataset.h"
#include "data/reading/async_reader.h"
#include "data/reading/read_plan.h"

namespace pfc {

struct ReadAheadOptions {
  std::int64_t first_batch = 0;  ///< number of the first batch to read
  std::int64_t end_batch = 0;
  int units = 2;                ///< number of units in memory at a time
  std::size_t unit_bytes = 0;   ///< maximum memory of one unit
  std::size_t piece_bytes = 0;  ///< maximum size of one read
  /// Creates the reader. Called once. REQUIRES: not empty.
  std::function<std::unique_ptr<AsyncReader>()> make_reader = {};
};

/// A thread that reads unit after unit in batch order, several pieces at a time, into at most
/// `units` buffers of unit_bytes each. The caller itself reads data from the data set if they do
/// not fit into the buffers or could not be read ahead. take() and give_back() are thread-safe.
class ReadAhead {
 public:
  /// Images in memory.
  class Unit {
   public:
    /// Returns the bytes of an image's extent; empty if they are not in memory.
    [[nodiscard]] std::span<const std::byte> find(std::int64_t image) const;

   private:
    friend class ReadAhead;
    /// Contiguous bytes of a file.
    struct Range {
      ImageRange images;
      Extent extent;
      std::span<std::byte> memory = {};  ///< the range's first bytes, or all of them
      std::size_t readable = 0;          ///< part of `memory` that was read
    };
    struct Piece : FileRead {
      Unit* unit = nullptr;
      std::size_t range = 0, at = 0;  ///< index into unit->ranges_, and offset in it
    };
    const Dataset* dataset_ = nullptr;
    std::int64_t end_batch_ = 0;
    std::int64_t batches_left_ = 0;  ///< batches not yet given back
    std::vector<Range> ranges_;
    std::vector<Piece> pieces_;
    std::size_t pieces_left_ = 0;  ///< pieces not yet read
    std::unique_ptr<std::byte[]> memory_;
    std::size_t capacity_ = 0;
  };

  /// Borrows `dataset`. REQUIRES: the images of the data set are in order.
  ReadAhead(const Dataset& dataset, ReadPlan plan, const ReadAheadOptions& options);
  ~ReadAhead();
  ReadAhead(const ReadAhead&) = delete;
  ReadAhead& operator=(const ReadAhead&) = delete;

  /// Blocks until the images of this batch are read, and returns them. Valid until
  /// give_back(batch). Returns nullptr after stop(). Rethrows errors of the thread. REQUIRES:
  /// batches are taken in ascending order, each once, starting with first_batch; the batches that
  /// were not yet given back belong to at most units - 1 units.
  const Unit* take(std::int64_t batch);
  /// Releases a batch, even if take() returned nullptr or threw.
  void give_back(std::int64_t batch);
  /// Makes all blocked calls return.
  void stop();

 private:
  void run();
  bool is_stopping();
  bool begin_unit();
  void finish_piece();
  void lay_out(const ReadUnit& planned, Unit& unit);
  void add_image(std::int64_t image, Unit& unit) const;
  void take_memory(std::size_t bytes, Unit& unit);
  std::map<std::int64_t, std::unique_ptr<Unit>>::iterator unit_of(std::int64_t batch);

  // Constant after construction.
  const Dataset& dataset_;
  const ReadPlan plan_;
  const ReadAheadOptions options_;

  std::mutex mutex_;
  std::condition_variable read_;  // a unit is complete, or the thread has ended
  std::condition_variable room_;  // a unit was released
  // Guarded by mutex_.
  std::map<std::int64_t, std::unique_ptr<Unit>> units_;  ///< key: first batch
  struct Memory {
    std::unique_ptr<std::byte[]> bytes;
    std::size_t capacity = 0;
  };
  std::vector<Memory> spare_;
  std::exception_ptr error_;
  bool stopping_ = false;

  // Used only by thread_.
  std::int64_t next_batch_;
  std::deque<Unit::Piece*> to_start_;
  std::unique_ptr<AsyncReader> reader_;  ///< destroyed before the memory that it writes to

  std::thread thread_;  // last, because it uses all of the above
};

}  // namespace pfc
