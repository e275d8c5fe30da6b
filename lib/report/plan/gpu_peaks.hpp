#pragma once

#include <optional>
#include <string_view>

namespace trainctl::report {

/// Floating-point operations a second that a GPU does at most in dense matrix products of that
/// precision, as its maker says; nothing for one that is not in the table. `device`: "NVIDIA H200";
/// `precision`: "bf16-mixed", "16-mixed", or "tf32". Of "32-true" nothing: convolutions are
/// computed in TF32, products are not.
std::optional<double> peak_flops(std::string_view device, std::string_view precision);

}  // namespace trainctl::report
