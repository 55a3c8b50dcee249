// Reads what a worker's next batches need, ahead of the threads that decode.
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
  std::int64_t first_batch = 0;  ///< of this worker
  std::int64_t end_batch = 0;
  int units = 2;                ///< in memory at the same time
  std::size_t unit_bytes = 0;   ///< the most that one of them takes
  std::size_t piece_bytes = 0;  ///< the most that one read takes
  /// Makes the reads. Called once. REQUIRES: not empty.
  std::function<std::unique_ptr<AsyncReader>()> make_reader = {};
};

/// A thread that reads unit by unit in the order of the batches, several pieces at a time, into at
/// most `units` pieces of memory of unit_bytes each. What a unit has beyond that, and what cannot
/// be read, is left to the caller, who reads it from the data set. take() and give_back() are
/// thread-safe.
class ReadAhead {
 public:
  /// Images in memory.
  class Unit {
   public:
    /// The bytes that hold an image, and those behind it; empty where they are not here.
    [[nodiscard]] std::span<const std::byte> find(std::int64_t image) const;

   private:
    friend class ReadAhead;
    struct Range {
      ImageRange images;
      std::uint64_t offset = 0;     ///< in the file
      std::span<std::byte> memory;  ///< of its first bytes: perhaps not for all of them
      std::size_t readable = 0;     ///< bytes of that which could be read
    };
    struct Piece : FileRead {
      Unit* unit = nullptr;
      std::size_t range = 0, at = 0;  ///< where in which of unit->ranges_
    };
    const Dataset* dataset_ = nullptr;
    std::int64_t end_batch_ = 0;
    std::int64_t batches_left_ = 0;  ///< that were not given back
    std::vector<Range> ranges_;
    std::vector<Piece> pieces_;
    std::size_t pieces_left_ = 0;  ///< that were not read
    std::unique_ptr<std::byte[]> memory_;
    std::size_t capacity_ = 0;
  };

  /// `dataset` and `plan` are borrowed. REQUIRES: the data set has a stretch() for its images.
  ReadAhead(const Dataset& dataset, const ReadPlan& plan, const ReadAheadOptions& options);
  ~ReadAhead();
  ReadAhead(const ReadAhead&) = delete;
  ReadAhead& operator=(const ReadAhead&) = delete;

  /// The images of this batch; blocks until they are read. Valid until give_back(batch). Null after
  /// stop(). Rethrows what the thread threw. REQUIRES: batches are taken in rising order, each
  /// once, from first_batch on, with at most units - 1 units' batches not yet given back.
  const Unit* take(std::int64_t batch);
  /// Also of a batch for which take() gave null or threw.
  void give_back(std::int64_t batch);
  /// Ends every wait.
  void stop();

 private:
  void run();
  bool is_stopping();
  bool begin_unit();
  void finish_piece();
  void lay_out(const ReadUnit& planned, Unit& unit);
  void take_memory(std::size_t bytes, Unit& unit);
  std::map<std::int64_t, std::unique_ptr<Unit>>::iterator unit_of(std::int64_t batch);

  // Constant after construction.
  const Dataset& dataset_;
  const ReadPlan& plan_;
  const ReadAheadOptions options_;

  std::mutex mutex_;
  std::condition_variable read_;  // a unit is complete, or the thread has ended
  std::condition_variable room_;  // a unit was given back
  // Guarded by mutex_.
  std::map<std::int64_t, std::unique_ptr<Unit>> units_;  ///< by the first batch
  struct Memory {
    std::unique_ptr<std::byte[]> bytes;
    std::size_t capacity = 0;
  };
  std::vector<Memory> spare_;
  std::exception_ptr error_;
  bool stopping_ = false;

  // Of the thread.
  std::int64_t next_batch_;
  std::deque<Unit::Piece*> to_start_;
  std::unique_ptr<AsyncReader> reader_;  ///< ends before the memory that it writes to

  std::thread thread_;  // last: it uses all of the above
};

}  // namespace pfc
