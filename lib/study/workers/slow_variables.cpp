#include "study/workers/slow_variables.hpp"

#include <algorithm>
#include <cstdlib>
#include <string_view>

namespace trainctl::study {
namespace {

/// In letters of either case.
bool is_word(std::string_view text, std::string_view word) {
  return std::ranges::equal(
      text, word, {}, [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
}

std::string value_of(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? std::string() : std::string(value);
}

}  // namespace

// As libgomp reads them: the count wins, whose words are two.
std::string spin_variable() {
  const std::string count = value_of("GOMP_SPINCOUNT");
  if (is_word(count, "infinite") || is_word(count, "infinity")) return "GOMP_SPINCOUNT=" + count;
  const std::string policy = value_of("OMP_WAIT_POLICY");
  return count.empty() && is_word(policy, "active") ? "OMP_WAIT_POLICY=" + policy : "";
}

std::string slow_variable() {
  const std::string spins = spin_variable();
  if (!spins.empty()) return spins;
  return value_of("CUDA_LAUNCH_BLOCKING") == "1" ? "CUDA_LAUNCH_BLOCKING=1" : "";
}

}  // namespace trainctl::study
