#include "base/portable_math.hpp"

#include <algorithm>
#include <cmath>

// frexp, ldexp, fmod, floor and nearbyint are exact, so they are the same everywhere.

namespace trainctl {
namespace {

// ln 2 in two parts: the first has few enough bits that small multiples of it are exact.
constexpr double kLn2High = 0x1.62e42feep-1;
constexpr double kLn2Low = 0x1.a39ef35793c76p-33;
constexpr double kRadians = 0x1.1df46a2529d39p-6;  // pi / 180

/// Sine and cosine of at most a quarter of pi, by their series.
SinCos series(double x) {
  const double square = x * x;
  double sin = 0;
  double cos = 0;
  for (int n = 19; n >= 3; n -= 2) sin = (1 - sin) * square / (n * (n - 1));
  for (int n = 20; n >= 2; n -= 2) cos = (1 - cos) * square / (n * (n - 1));
  return {x * (1 - sin), 1 - cos};
}

}  // namespace

double portable_exp(double x) {
  x = std::clamp(x, -746.0, 710.0);  // beyond: zero, infinity
  const double twos = std::nearbyint(x / (kLn2High + kLn2Low));
  const double rest = (x - twos * kLn2High) - twos * kLn2Low;
  double sum = 1;
  for (int n = 14; n >= 1; --n) sum = 1 + sum * rest / n;
  return std::ldexp(sum, static_cast<int>(twos));
}

double portable_log(double x) {
  int twos = 0;
  double fraction = std::frexp(x, &twos);  // in [0.5, 1)
  if (fraction < 0.70710678) {
    fraction *= 2;
    --twos;
  }
  const double s = (fraction - 1) / (fraction + 1);
  const double square = s * s;
  double sum = 0;
  for (int n = 23; n >= 1; n -= 2) sum = sum * square + 1.0 / n;
  return twos * kLn2High + (twos * kLn2Low + 2 * s * sum);
}

SinCos sin_cos_degrees(double degrees) {
  const double turned = std::fmod(degrees, 360.0);
  const double quarters = std::nearbyint(turned / 90);
  const SinCos near = series((turned - 90 * quarters) * kRadians);
  switch (static_cast<int>(quarters) & 3) {
    case 0: return near;
    case 1: return {near.cos, -near.sin};
    case 2: return {-near.sin, -near.cos};
    default: return {-near.cos, near.sin};
  }
}

}  // namespace trainctl
