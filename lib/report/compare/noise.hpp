#pragma once

#include "base/json.hpp"

#include <span>
#include <string>
#include <vector>

namespace trainctl::report {

/// How much the same work differs in time on this machine, and so how small a slow-down a
/// comparison can tell.
struct Noise {
  int repeats = 0;
  double median_s = 0;
  double variation = 0;  // standard deviation of the logarithms: about the coefficient of variation
  double slowdown_5 = 0;   // smallest that 5 paired repeats tell with a power of 90 %: 0.03 is 3 %
  double slowdown_20 = 0;  // and 20
};

/// Of pairs of runs, the difference of their logarithms has the deviation sqrt(2) v. A two-sided
/// t-test at 5 % tells a slow-down d with a power of 90 % where log(1 + d) = k(n) sqrt(2) v; k is
/// the standardised difference that the noncentral t distribution asks for: k(5) = 1.967, k(20) =
/// 0.767. Times that are not above 0 are left out.
Noise noise_of(std::span<const double> seconds);

/// One sentence with the formula.
std::string noise_text(const Noise& noise);
Json noise_json(const Noise& noise);

}  // namespace trainctl::report
