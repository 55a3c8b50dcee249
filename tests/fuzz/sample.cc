// Feeds a fuzz target with mutations of its seeds, without clang and its coverage: a sample for
// every test run, or a million by hand.
//
//   sample_TARGET COUNT [FIRST]      FIRST: the number of the first input, to repeat one
//   sample_TARGET --seeds FOLDER     writes the seeds, for libFuzzer
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <string_view>

#include "tests/fuzz/fuzz_target.h"
#include "tests/support/files.h"

namespace {

using Random = std::mt19937_64;

std::size_t below(Random& random, std::size_t count) { return count == 0 ? 0 : random() % count; }

/// Returns a byte that makes parsers fail more often than other bytes do.
char odd_byte(Random& random) {
  using std::string_view_literals::operator""sv;
  constexpr auto kOdd = "\0\n\r\t \"'\\,:;[]{}()#%/@=-.0129eE\x7f\x80\xc3\xff"sv;
  return below(random, 2) == 0 ? static_cast<char>(random()) : kOdd[below(random, kOdd.size())];
}

void mutate_once(std::string& text, const std::string& other, Random& random) {
  const std::size_t at = below(random, text.size() + 1);
  const std::size_t length = below(random, std::min<std::size_t>(text.size() - at, 16) + 1);
  switch (random() % 8) {
    case 0:
      if (at < text.size()) text[at] = static_cast<char>(text[at] ^ (1 << (random() % 8)));
      return;
    case 1:
      if (at < text.size()) text[at] = odd_byte(random);
      return;
    case 2:
      text.insert(at, 1, odd_byte(random));
      return;
    case 3:
      text.erase(at, length);
      return;
    case 4:
      text.insert(at, text.substr(at, length));
      return;
    case 5:
      text.insert(at, other.substr(below(random, other.size() + 1), 64));
      return;
    case 6:
      text.insert(at, 1 + below(random, 2'000), odd_byte(random));
      return;
    default:
      if (random() % 8 == 0) text.resize(at);
  }
}

std::string input(const std::vector<std::string>& seeds, std::uint64_t number) {
  Random random(number);
  std::string text = seeds[below(random, seeds.size())];
  const std::string& other = seeds[below(random, seeds.size())];
  for (std::size_t left = below(random, 8); left > 0; --left) mutate_once(text, other, random);
  return text;
}

/// Returns the resident size of this process, in KiB.
long resident_size() {
  long pages = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> pages >> resident;
  return resident * (sysconf(_SC_PAGESIZE) / 1024);
}

int write_seeds(const std::filesystem::path& folder) {
  std::filesystem::create_directories(folder);
  int number = 0;
  for (const std::string& seed : pfc::fuzz::seeds()) {
    pfc::testing::write_file(folder / std::to_string(++number), seed);
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 3 && std::string(argv[1]) == "--seeds") return write_seeds(argv[2]);
  const std::uint64_t count = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 1'000;
  const std::uint64_t first = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 0;
  const std::vector<std::string> seeds = pfc::fuzz::seeds();
  for (std::uint64_t done = 0; done < count; ++done) {
    if (done % std::max<std::uint64_t>(count / 10, 1) == 0) {
      std::printf("%12llu inputs, %ld KiB\n", static_cast<unsigned long long>(done),
                  resident_size());
      std::fflush(stdout);
    }
    const std::string text = input(seeds, first + done);
    LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(text.data()), text.size());
  }
  std::printf("%12llu inputs, %ld KiB\n", static_cast<unsigned long long>(count), resident_size());
}
