#pragma once

#include "data/core/batch.hpp"

#include <functional>

namespace trainctl::data {

/// The labels of a data set: contiguous rows of `field`, one per sample.
struct Labels {
  Field field{"label", Dtype::i64, {}};
  std::vector<std::byte> rows;
  std::int64_t classes = 0;
  std::vector<std::string> class_names;
};

/// Returns class numbers as labels with the given class names.
Labels numbered_labels(const std::vector<std::int64_t>& numbers,
                       std::vector<std::string> class_names);

/// Makes class labels from texts, each a name or a number. `names` fixes the classes and their
/// order. If it is empty and some text is not a number, the classes are the sorted distinct texts.
/// Numbers count from 0 and may be written as 2.0. Throws Error(data), also when all texts are
/// numbers but some are not valid classes; `place(i)` returns the position of label i for the
/// message.
Labels class_labels(const std::vector<std::string>& texts, const std::vector<std::string>& names,
                    const std::function<std::string(std::size_t)>& place);

/// Returns `numbers` as f32 rows of `width` values, or as scalars when `width` is 1.
Labels number_labels(const std::vector<float>& numbers, std::int64_t width);

/// Parses a finite decimal number. Returns false unless the whole text is one and fits the type.
bool parse_finite(std::string_view text, double& value);
bool parse_finite(std::string_view text, float& value);
/// Parses an integer from 0 to 2^31 - 1.
bool parse_index(std::string_view text, std::int64_t& value);
/// Like parse_index(), but also accepts "2.0", as pandas writes an integer column with missing
/// values.
bool parse_class(std::string_view text, std::int64_t& value);
/// Returns whether the text, without surrounding blanks, is a number.
bool looks_numeric(std::string_view text);

}  // namespace trainctl::data
