// A block of a CUDA kernel on a CPU: its threads are fibers of the calling thread. Between two
// barriers they run one after the other in an order that differs from barrier to barrier, so that a
// kernel that lacks a barrier reads what is not there yet. Serves tests only.
//
// What no GPU promises is refused with std::logic_error that names kernel, block and thread: a
// barrier that some threads of the block have left behind, a warp operation that lanes of its mask
// do not take part in, dynamic shared memory that was not asked for.
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

/// While it lives, a launch of more blocks runs only this many first and this many last ones. With
/// SparseMemory: what a kernel does beyond 2^31 elements, in the time of a few blocks.
class OnlyOuterBlocks {
 public:
  explicit OnlyOuterBlocks(std::uint64_t at_each_end);
  OnlyOuterBlocks(const OnlyOuterBlocks&) = delete;
  ~OnlyOuterBlocks();
};

/// While it lives, GPUs that are opened have so many multiprocessors; else 2.
class Multiprocessors {
 public:
  explicit Multiprocessors(int count);
  Multiprocessors(const Multiprocessors&) = delete;
  ~Multiprocessors();
  static int count();
};

/// Runs body() once for every thread of every block. Blocks come one after the other, in an order
/// that is not that of their numbers.
void run(const Launch& launch, const std::function<void()>& body);

// What body() may ask while it runs.
const Index3& thread_index();
const Index3& block_index();
const Index3& block_size();
const Index3& grid_size();
/// 16-byte aligned, full of NaNs when a block starts.
std::byte* dynamic_shared_memory();
void barrier();

/// What the lanes of a warp have put down; those outside the mask: 0.
using WarpValues = std::array<std::uint64_t, 32>;
/// Waits for all lanes of the mask, which must include this thread's.
WarpValues warp_exchange(std::uint32_t mask, std::uint64_t value);
unsigned lane();

}  // namespace pfc::simt
