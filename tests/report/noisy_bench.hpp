#pragma once

#include "base/random.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

// Invented benches with noise: times of two settings in alternation, from a seed.

namespace noisy {

/// bell: log-normal. slow_minutes: the same, and every fourth round is slower by half for both
/// settings. heavy: Student's t with 3 degrees of freedom. late: exponential delays only. spikes:
/// log-normal, and one run in ten is much slower, independent of its neighbor.
enum class Noise { bell, slow_minutes, heavy, late, spikes };

class Draws {
 public:
  Draws(std::uint64_t seed, std::uint64_t bench) : rng_(seed, 0, bench, 0) {}

  double bell() {
    const double radius = std::sqrt(-2 * std::log(1 - uniform()));
    return radius * std::cos(6.283185307179586 * uniform());
  }

  /// Returns the noise of the logarithm of one run's time; `size` is about its standard deviation.
  double noise(Noise kind, double size) {
    switch (kind) {
      case Noise::heavy: {
        double squares = 0;
        for (int i = 0; i < 3; ++i) squares += std::pow(bell(), 2);
        return size * bell() / std::sqrt(squares / 3);
      }
      case Noise::late: return -size * std::log(1 - uniform());
      case Noise::spikes: {
        const double calm = size * bell();
        return uniform() < 0.1 ? calm + 10 * size * std::abs(bell()) : calm;
      }
      case Noise::bell:
      case Noise::slow_minutes: break;
    }
    return size * bell();
  }

  double uniform() { return static_cast<double>(rng_.uniform()); }

 private:
  trainctl::CounterRng rng_;
};

struct Times {
  std::vector<double> base;
  std::vector<double> other;
};

struct Shape {
  Noise noise = Noise::bell;
  double size = 0.02;  // of a run's noise
  double slower = 1;   // true ratio of the other's times to the base's
  int repeats = 5;
  bool one_side = false;  // only the base is noisy
};

/// Returns the `number`-th bench of that shape.
inline Times bench(const Shape& shape, std::uint64_t seed, std::uint64_t number) {
  Draws draws(seed, number);
  Times times;
  for (int i = 0; i < shape.repeats; ++i) {
    const bool slow = shape.noise == Noise::slow_minutes && draws.uniform() < 0.25;
    const double minute = slow ? 1.5 : 1;
    times.base.push_back(10 * minute * std::exp(draws.noise(shape.noise, shape.size)));
    times.other.push_back(10 * minute * shape.slower *
                          std::exp(shape.one_side ? 0 : draws.noise(shape.noise, shape.size)));
  }
  return times;
}

}  // namespace noisy
