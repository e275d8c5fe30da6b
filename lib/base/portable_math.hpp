#pragma once

namespace trainctl {

// Functions whose last bits libm leaves to the machine, here from IEEE additions, multiplications
// and divisions in one order: the same bits everywhere, for draws and parameters that decide
// pixels. Good to about 1e-15.

double portable_exp(double x);
/// `x` must be above 0.
double portable_log(double x);

struct SinCos {
  double sin = 0;
  double cos = 1;
};
SinCos sin_cos_degrees(double degrees);

}  // namespace trainctl
