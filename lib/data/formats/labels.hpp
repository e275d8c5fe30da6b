#pragma once

#include "data/core/batch.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace trainctl::data {

/// The labels of a data set: `field` of every sample, one behind the other.
struct Labels {
  Field field{"label", Dtype::i64, {}};
  std::vector<std::byte> rows;
  std::int64_t classes = 0;
  std::vector<std::string> class_names;
};

/// Class numbers as the labels of the classes named so.
Labels numbered_labels(const std::vector<std::int64_t>& numbers,
                       std::vector<std::string> class_names);

/// Class labels from texts, each a name or a number. `names` fixes the classes and their order;
/// where it is empty, and not every text is a number, they are the names found, sorted. Numbers
/// count from 0, and may be written as 2.0. Throws Error(data), too where all are numbers, but not
/// all of them classes; `place(i)` says where label i stands.
Labels class_labels(const std::vector<std::string>& texts, const std::vector<std::string>& names,
                    const std::function<std::string(std::size_t)>& place);

/// `numbers` as they are: f32 rows of `width` values, scalars where it is 1.
Labels number_labels(const std::vector<float>& numbers, std::int64_t width);

/// A finite decimal number, whole text. False where it is none, or does not fit.
bool parse_finite(std::string_view text, double& value);
bool parse_finite(std::string_view text, float& value);
/// A whole number of 0 to 2^31 - 1.
bool parse_index(std::string_view text, std::int64_t& value);
/// The same, also as a float: "2.0", as pandas writes a column that had a gap.
bool parse_class(std::string_view text, std::int64_t& value);
/// Whether people would take it for a number: blanks around it do not matter.
bool looks_numeric(std::string_view text);

}  // namespace trainctl::data
