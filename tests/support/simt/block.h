// Runs CUDA kernels on a CPU, for tests. The threads of a block are fibers of the calling thread.
// Between two barriers they run one after another, in an order that changes at each barrier, so a
// kernel with a missing barrier reads memory that is not written yet.
//
// Throws std::logic_error with the kernel, block and thread for behaviour that is undefined on a
// GPU: a barrier that some threads of the block do not reach, a warp operation without some lanes
// of its mask, and dynamic shared memory that the launch did not request.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>

namespace pfc::simt {

struct Index3 {
  unsigned x = 0, y = 0, z = 0;
};

struct Launch {
  const char* kernel = "kernel";
  Index3 grid{1, 1, 1};
  Index3 block{1, 1, 1};
  std::size_t shared_bytes = 0;
};

/// While it lives, a launch runs only this many of its first and its last blocks. With
/// SparseMemory, a test of more than 2^31 elements then takes the time of a few blocks.
class OnlyOuterBlocks {
 public:
  explicit OnlyOuterBlocks(std::uint64_t at_each_end);
  OnlyOuterBlocks(const OnlyOuterBlocks&) = delete;
  ~OnlyOuterBlocks();
};

/// While it lives, newly opened GPUs have this many multiprocessors instead of 2.
class Multiprocessors {
 public:
  explicit Multiprocessors(int count);
  Multiprocessors(const Multiprocessors&) = delete;
  ~Multiprocessors();
  static int count();
};

/// Runs body() once for every thread of every block. Blocks run one after another, in another
/// order than their numbers.
void run(const Launch& launch, const std::function<void()>& body);

// REQUIRES for the following functions: called from a running body().
const Index3& thread_index();
const Index3& block_index();
const Index3& block_size();
const Index3& grid_size();
/// Aligned to 16 bytes. Filled with NaNs when a block starts.
std::byte* dynamic_shared_memory();
void barrier();

/// The values that the lanes of a warp exchange; 0 for lanes outside the mask.
using WarpValues = std::array<std::uint64_t, 32>;
/// Shares this lane's value and returns the values of all lanes. Waits for all lanes of the mask.
/// REQUIRES: the mask includes this lane.
WarpValues warp_exchange(std::uint32_t mask, std::uint64_t value);
unsigned lane();

}  // namespace pfc::simt
