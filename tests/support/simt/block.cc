#include "tests/support/simt/block.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <deque>
#include <limits>
#include <random>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/simt/fiber.h"

namespace pfc::simt {
namespace {

constexpr unsigned kWarp = 32;

enum class Waits { kNot, kForBlock, kForWarp };

struct Thread {
  Index3 index;
  unsigned number = 0;
  Waits waits = Waits::kNot;
  std::uint32_t mask = 0;   // mask of the current warp operation
  std::uint64_t value = 0;  // this lane's value in the operation
  WarpValues seen{};        // all lanes' values in the operation
  std::unique_ptr<Fiber> fiber;

  [[nodiscard]] bool ended() const { return fiber->ended(); }
};

// Stacks of one host thread's fibers, reused for the next block.
std::deque<FiberStack>& stacks() {
  thread_local std::deque<FiberStack> all;
  return all;
}

class Block {
 public:
  Block(const Launch& launch, Index3 index, std::uint32_t seed)
      : launch_(launch), index_(index), shared_(launch.shared_bytes + 16), random_(seed) {
    std::memset(shared_.data(), 0xff, shared_.size());  // a NaN in every floating-point type
  }

  void run(const std::function<void()>& body);

  const Launch& launch_;
  const Index3 index_;
  Thread* running_ = nullptr;

  [[nodiscard]] std::byte* shared() {
    const auto address = reinterpret_cast<std::uintptr_t>(shared_.data());
    return shared_.data() + ((16 - address % 16) % 16);
  }
  [[noreturn]] void refuse(const Thread& thread, const std::string& why) const;

 private:
  void make_threads(const std::function<void()>& body);
  bool run_ready();
  bool release_warps();
  bool release_warp(std::size_t first);
  bool release_block();
  [[nodiscard]] const Thread* someone(Waits waits) const;

  std::vector<std::byte> shared_;
  std::minstd_rand random_;
  std::vector<Thread> threads_;
  std::vector<std::size_t> order_;
};

thread_local Block* current = nullptr;

constexpr int kFewMultiprocessors = 2;  // few, so that grid-wide loops have several iterations
std::atomic<int> multiprocessors = kFewMultiprocessors;
std::atomic<std::uint64_t> run_at_each_end = std::numeric_limits<std::uint64_t>::max();

std::string text(const Index3& i) {
  return std::to_string(i.x) + "," + std::to_string(i.y) + "," + std::to_string(i.z);
}

void Block::refuse(const Thread& thread, const std::string& why) const {
  throw std::logic_error(std::string(launch_.kernel) + ", block " + text(index_) + ", thread " +
                         text(thread.index) + ": " + why);
}

void Block::make_threads(const std::function<void()>& body) {
  const Index3& size = launch_.block;
  const std::size_t count = std::size_t{size.x} * size.y * size.z;
  while (stacks().size() < count) stacks().emplace_back();
  threads_.resize(count);
  for (std::size_t i = 0; i < count; ++i) {
    const auto n = static_cast<unsigned>(i);
    threads_[i].index = {n % size.x, n / size.x % size.y, n / size.x / size.y};
    threads_[i].number = n;
    threads_[i].fiber = std::make_unique<Fiber>(stacks()[i], body);
    order_.push_back(i);
  }
}

void Block::run(const std::function<void()>& body) {
  make_threads(body);
  for (;;) {
    while (run_ready() || release_warps()) {
    }
    if (std::ranges::all_of(threads_, &Thread::ended)) return;
    if (!release_block()) {
      const Thread* stuck = someone(Waits::kForWarp);
      refuse(*stuck, "waits for lanes of its warp that do not come (mask " +
                         std::to_string(stuck->mask) + ")");
    }
  }
}

bool Block::run_ready() {
  std::shuffle(order_.begin(), order_.end(), random_);
  bool any = false;
  for (const std::size_t i : order_) {
    Thread& thread = threads_[i];
    if (thread.ended() || thread.waits != Waits::kNot) continue;
    running_ = &thread;
    thread.fiber->resume();
    any = true;
  }
  return any;
}

bool Block::release_warps() {
  bool any = false;
  for (std::size_t first = 0; first < threads_.size(); first += kWarp) any |= release_warp(first);
  return any;
}

bool Block::release_warp(std::size_t first) {
  const std::size_t lanes = std::min<std::size_t>(kWarp, threads_.size() - first);
  bool any = false;
  for (std::size_t i = 0; i < lanes; ++i) {
    const Thread& thread = threads_[first + i];
    if (thread.waits != Waits::kForWarp) continue;
    const std::uint32_t mask = thread.mask;
    std::uint32_t there = 0;
    WarpValues values{};
    for (std::size_t k = 0; k < lanes; ++k) {
      const Thread& other = threads_[first + k];
      if ((mask >> k & 1u) == 0) continue;
      if (other.ended()) refuse(other, "has ended, but a warp operation of its warp names it");
      if (other.waits != Waits::kForWarp || other.mask != mask) continue;
      there |= 1u << k;
      values[k] = other.value;
    }
    if (there != mask) continue;
    for (std::size_t k = 0; k < lanes; ++k) {
      if ((mask >> k & 1u) == 0) continue;
      threads_[first + k].seen = values;
      threads_[first + k].waits = Waits::kNot;
    }
    any = true;
  }
  return any;
}

bool Block::release_block() {
  if (someone(Waits::kForWarp) != nullptr) return false;
  for (const Thread& thread : threads_) {
    if (thread.ended()) refuse(thread, "has ended, but others of its block wait at a barrier");
  }
  for (Thread& thread : threads_) thread.waits = Waits::kNot;
  return true;
}

const Thread* Block::someone(Waits waits) const {
  const auto found = std::ranges::find(threads_, waits, &Thread::waits);
  return found == threads_.end() ? nullptr : &*found;
}

}  // namespace

OnlyOuterBlocks::OnlyOuterBlocks(std::uint64_t at_each_end) { run_at_each_end = at_each_end; }
OnlyOuterBlocks::~OnlyOuterBlocks() { run_at_each_end = std::numeric_limits<std::uint64_t>::max(); }

Multiprocessors::Multiprocessors(int count) { multiprocessors = count; }
Multiprocessors::~Multiprocessors() { multiprocessors = kFewMultiprocessors; }
int Multiprocessors::count() { return multiprocessors; }

void run(const Launch& launch, const std::function<void()>& body) {
  const Index3& grid = launch.grid;
  const std::uint64_t blocks = std::uint64_t{grid.x} * grid.y * grid.z;
  if (blocks == 0) {
    throw std::logic_error(std::string(launch.kernel) +
                           ": a grid without blocks cannot be launched");
  }
  // In reverse order: kernels must not assume that block 0 runs first.
  const std::uint64_t kept = run_at_each_end;
  for (std::uint64_t i = blocks; i-- > 0;) {
    if (i >= kept && blocks - 1 - i >= kept) continue;
    const Index3 index{static_cast<unsigned>(i % grid.x),
                       static_cast<unsigned>(i / grid.x % grid.y),
                       static_cast<unsigned>(i / grid.x / grid.y)};
    Block block(launch, index, static_cast<std::uint32_t>(i + 1));
    Block* const outer = std::exchange(current, &block);
    try {
      block.run(body);
    } catch (...) {
      current = outer;
      throw;
    }
    current = outer;
  }
}

const Index3& thread_index() { return current->running_->index; }
const Index3& block_index() { return current->index_; }
const Index3& block_size() { return current->launch_.block; }
const Index3& grid_size() { return current->launch_.grid; }

std::byte* dynamic_shared_memory() {
  if (current->launch_.shared_bytes == 0) {
    current->refuse(*current->running_, "uses dynamic shared memory, but was launched without any");
  }
  return current->shared();
}

void barrier() {
  Thread& me = *current->running_;
  me.waits = Waits::kForBlock;
  me.fiber->suspend();
}

unsigned lane() { return current->running_->number % kWarp; }

WarpValues warp_exchange(std::uint32_t mask, std::uint64_t value) {
  Thread& me = *current->running_;
  if ((mask >> lane() & 1u) == 0) {
    current->refuse(me, "calls a warp operation whose mask leaves it out");
  }
  me.mask = mask;
  me.value = value;
  me.waits = Waits::kForWarp;
  me.fiber->suspend();
  return me.seen;
}

}  // namespace pfc::simt
