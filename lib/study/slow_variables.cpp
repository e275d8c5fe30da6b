#include "study/slow_variables.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <span>
#include <string_view>

namespace trainctl::study {
namespace {

struct Slow {
  const char* name;
  std::string_view value;
};

// As the worker's libraries read them.
constexpr std::array kSpin{Slow{"OMP_WAIT_POLICY", "active"}, Slow{"GOMP_SPINCOUNT", "infinite"},
                           Slow{"GOMP_SPINCOUNT", "infinity"}};
constexpr std::array kOthers{Slow{"CUDA_LAUNCH_BLOCKING", "1"}};

/// In letters of either case.
bool is_word(std::string_view text, std::string_view word) {
  return std::ranges::equal(
      text, word, {}, [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
}

std::string first_of(std::span<const Slow> all) {
  for (const Slow& each : all) {
    const char* const value = std::getenv(each.name);
    if (value != nullptr && is_word(value, each.value))
      return fmt::format("{}={}", each.name, value);
  }
  return {};
}

}  // namespace

std::string spin_variable() { return first_of(kSpin); }

std::string slow_variable() {
  const std::string spins = spin_variable();
  return spins.empty() ? first_of(kOthers) : spins;
}

}  // namespace trainctl::study
