// Runs CUDA kernels on a CPU, for tests. The threads of a block are fibers of the calling thread.
// Between two barriers they run one after the other, in an order that changes from barrier to
// barrier, so a kernel in which a barrier is missing reads memory that is not written yet.
//
// Throws std::logic_error, which names kernel, block and thread, for what is undefined on a GPU: a
// barrier that some threads of the block do not reach, a warp operation in which lanes of its mask
// do not take part, and dynamic shared memory that the launch did not request.
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

/// While it lives, a launch runs only this many of its first and of its last blocks. Together with
/// SparseMemory, a test of more than 2^31 elements takes the time of a few blocks.
class OnlyOuterBlocks {
 public:
  explicit OnlyOuterBlocks(std::uint64_t at_each_end);
  OnlyOuterBlocks(const OnlyOuterBlocks&) = delete;
  ~OnlyOuterBlocks();
};

/// While it lives, newly opened GPUs have this many multiprocessors, otherwise 2.
class Multiprocessors {
 public:
  explicit Multiprocessors(int count);
  Multiprocessors(const Multiprocessors&) = delete;
  ~Multiprocessors();
  static int count();
};

/// Runs body() once for every thread of every block. Blocks run one after the other, but not in the
/// order of their numbers.
void run(const Launch& launch, const std::function<void()>& body);

// REQUIRES for the following functions: called from body() while it runs.
const Index3& thread_index();
const Index3& block_index();
const Index3& block_size();
const Index3& grid_size();
/// Aligned to 16 bytes, and filled with NaNs when a block starts.
std::byte* dynamic_shared_memory();
void barrier();

/// The values that the lanes of a warp exchange; 0 for lanes outside the mask.
using WarpValues = std::array<std::uint64_t, 32>;
/// Gives this lane's value to the others and returns the values of all lanes. Waits for all lanes
/// of the mask. REQUIRES: the mask includes this lane.
WarpValues warp_exchange(std::uint32_t mask, std::uint64_t value);
unsigned lane();

}  // namespace pfc::simt
