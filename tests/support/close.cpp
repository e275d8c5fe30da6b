#include "support/close.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

Tolerance share_of_largest(const at::Tensor& numbers, double share) {
  return {.relative = 0, .absolute = share * numbers.abs().max().item<double>()};
}

std::string mismatch(const at::Tensor& actual, const at::Tensor& expected, Tolerance tolerance) {
  if (actual.sizes() != expected.sizes()) {
    return fmt::format("the shape must be [{}], got [{}]", fmt::join(expected.sizes().vec(), ", "),
                       fmt::join(actual.sizes().vec(), ", "));
  }
  const at::Tensor close =
      actual.isclose(expected, tolerance.relative, tolerance.absolute, /*equal_nan=*/true);
  if (close.all().item<bool>()) return "";
  return fmt::format(
      "{} of {} numbers are not close: largest difference {:.3g}, largest expected number {:.3g}, "
      "tolerances {:.3g} (relative) and {:.3g} (absolute)",
      close.logical_not().sum().item<std::int64_t>(), close.numel(),
      (actual - expected).abs().max().item<double>(), expected.abs().max().item<double>(),
      tolerance.relative, tolerance.absolute);
}
