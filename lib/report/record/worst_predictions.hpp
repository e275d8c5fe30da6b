#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace trainctl::report {

/// A row of predictions: what the sample is, and what the model calls it.
struct Mistake {
  std::int64_t index = 0;  // of the split
  std::string name;        // empty: it has none
  std::int64_t label = 0;
  std::int64_t predicted = 0;
  std::optional<double> probability;  // that it gave to the label
  std::optional<double> loss;         // of that: its negative logarithm
};

/// The `most` worst of the CSV file of `predict`, the worst first: by the loss where the file has
/// probabilities, else those that are wrong, the surest first. Throws Error(config) where it has no
/// labels or no classes.
std::vector<Mistake> worst_predictions(std::string_view csv, std::size_t most);

}  // namespace trainctl::report
