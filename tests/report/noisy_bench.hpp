#pragma once

#include "base/random.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

// These benches have random noise from a seed: times of two settings that run in alternation.

namespace noisy {

/// The logarithm of a time has one of these distributions.
/// normal: the normal distribution.
/// slow_minutes: normal, but every fourth round is slower by half for both settings.
/// heavy_tailed: Student's t distribution with 3 degrees of freedom.
/// exponential: delays only.
/// spikes: normal, but one run in ten is much slower, independent of its neighbor.
enum class Noise { normal, slow_minutes, heavy_tailed, exponential, spikes };

class Draws {
 public:
  Draws(std::uint64_t seed, std::uint64_t bench) : rng_(seed, 0, bench, 0) {}

  double normal() {
    const double radius = std::sqrt(-2 * std::log(1 - uniform()));
    return radius * std::cos(6.283185307179586 * uniform());
  }

  /// Returns the noise of the logarithm of one run's time; `size` is about its standard deviation.
  double noise(Noise kind, double size) {
    switch (kind) {
      case Noise::heavy_tailed: {
        double squares = 0;
        for (int i = 0; i < 3; ++i) squares += std::pow(normal(), 2);
        return size * normal() / std::sqrt(squares / 3);
      }
      case Noise::exponential: return -size * std::log(1 - uniform());
      case Noise::spikes: {
        const double usual = size * normal();
        return uniform() < 0.1 ? usual + 10 * size * std::abs(normal()) : usual;
      }
      case Noise::normal:
      case Noise::slow_minutes: break;
    }
    return size * normal();
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
  Noise noise = Noise::normal;
  double size = 0.02;  // the scale of the noise
  double slower = 1;   // the true ratio of the times of other and base
  int repeats = 5;
  bool one_side = false;  // only the base is noisy
};

/// Returns the bench with this number and shape.
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
