#include "study/preflight/noise_probe.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>

namespace trainctl::study {
namespace {

constexpr std::size_t kWords = std::size_t{4} << 20;  // 32 MiB: more than most caches hold
constexpr std::uint64_t kFactor = 6364136223846793005ULL;

/// Products that wait for one another, then a walk through memory.
std::uint64_t work(std::vector<std::uint64_t>& memory, std::int64_t rounds) {
  std::uint64_t state = memory.front();
  for (std::int64_t i = 0; i < rounds; ++i) {
    for (int j = 0; j < 1'000'000; ++j) state = state * kFactor + 1;
    for (std::uint64_t& word : memory) word += state;
  }
  return state;
}

}  // namespace

std::vector<double> probe_noise(const NoiseProbe& probe, const Clock& clock) {
  std::vector<std::uint64_t> memory(kWords, 1);
  const auto timed = [&](std::int64_t rounds) {
    const double begun = clock.now();
    memory.front() ^= work(memory, rounds);
    return clock.now() - begun;
  };
  timed(1);
  const double once = std::max(timed(1), 1e-6);
  const double each = probe.seconds / std::max(probe.repeats, 1);
  const auto rounds = static_cast<std::int64_t>(std::clamp(each / once, 1.0, 1e6));
  timed(rounds);
  std::vector<double> seconds;
  for (int i = 0; i < probe.repeats; ++i) seconds.push_back(timed(rounds));
  return seconds;
}

}  // namespace trainctl::study
