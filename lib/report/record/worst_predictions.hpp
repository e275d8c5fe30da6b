#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace trainctl::report {

/// A wrong or uncertain prediction of a sample.
struct Mistake {
  std::int64_t index = 0;  // in the split
  std::string name;        // empty: no name
  std::int64_t label = 0;
  std::int64_t predicted = 0;
  std::optional<double> probability;  // predicted for the label
  std::optional<double> loss;         // negative logarithm of `probability`
};

/// Returns the `most` worst rows of a CSV file of `predict`, the worst first: by loss if the file
/// has probabilities, else the wrong predictions with the highest confidence first. Throws
/// Error(config) when the file has no labels or no classes.
std::vector<Mistake> worst_predictions(std::string_view csv, std::size_t most);

}  // namespace trainctl::report
