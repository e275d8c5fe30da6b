#pragma once

#include <ATen/core/Tensor.h>

#include <string>

/// The allowed difference of float32 results, with the defaults of torch.testing.assert_close:
/// kernels for other instruction sets round and add in another order.
struct Tolerance {
  double relative = 1.3e-6;
  double absolute = 1e-5;
};

/// Returns the tolerance `share * max(|numbers|)` for sums of many terms, which lose digits near 0.
Tolerance share_of_largest(const at::Tensor& numbers, double share);

/// Describes the first mismatch: another shape, or a number that differs from the expected one by
/// more than `absolute + relative * |expected|`. Returns an empty string if all are close. NaN is
/// close to NaN.
std::string mismatch(const at::Tensor& actual, const at::Tensor& expected,
                     Tolerance tolerance = {});
