#pragma once

#include <ATen/core/Tensor.h>

#include <string>

/// How far float32 results may lie apart. The defaults are those of torch.testing.assert_close:
/// kernels of other instruction sets round and add in other ways.
struct Tolerance {
  double relative = 1.3e-6;
  double absolute = 1e-5;
};

/// Returns the tolerance `share * max(|numbers|)` for sums of many terms, which lose digits near 0.
Tolerance share_of_largest(const at::Tensor& numbers, double share);

/// Returns what is wrong where a number differs from the expected one by more than
/// `absolute + relative * |expected|`, or where a shape differs; empty if all are close. NaN is
/// close to NaN.
std::string mismatch(const at::Tensor& actual, const at::Tensor& expected,
                     Tolerance tolerance = {});
