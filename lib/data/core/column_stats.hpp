#pragma once

#include <cstdint>
#include <limits>
#include <string>

namespace trainctl::data {

/// What the numbers of one column are.
struct ColumnStats {
  std::string name;
  bool categorical = false;  // of names: only those that are missing are counted
  std::int64_t count = 0;
  std::int64_t missing = 0;
  double mean = 0;
  double squares = 0;  // sum of squared distances from the mean
  double least = std::numeric_limits<double>::infinity();
  double most = -std::numeric_limits<double>::infinity();

  void learn(double value);  // Welford
  /// The population's standard deviation.
  [[nodiscard]] double deviation() const;
};

}  // namespace trainctl::data
