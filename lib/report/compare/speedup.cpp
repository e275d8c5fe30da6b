#include "report/compare/speedup.hpp"

namespace trainctl::report {

Speedup speedup(std::span<const double> base_s, std::span<const double> other_s) {
  const Change change = paired_change(other_s, base_s, Scale::ratio);
  return {.value = change.value, .ci95 = change.interval, .pairs = change.repeats};
}

}  // namespace trainctl::report
