#include "data/formats/labels.hpp"

#include "base/error.hpp"
#include "base/numbers.hpp"
#include "base/strings.hpp"

#include <cmath>
#include <limits>
#include <unordered_map>

namespace trainctl::data {
namespace {

constexpr std::size_t kMostNames = 100'000;  // more distinct texts are not class names

template <class T>
std::vector<std::byte> bytes_of(const std::vector<T>& values) {
  std::vector<std::byte> bytes(values.size() * sizeof(T));
  if (!values.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

/// Returns whether the labels are class numbers. Throws when they are numbers but not valid
/// classes.
bool are_numbers(const std::vector<std::string>& texts,
                 const std::function<std::string(std::size_t)>& place) {
  if (!std::all_of(texts.begin(), texts.end(), looks_numeric)) return false;
  std::int64_t ignored = 0;
  for (std::size_t i = 0; i < texts.size(); ++i)
    ENSURE(data, parse_class(texts[i], ignored),
           "{}: the label must be a class number (0, 1, 2, ...), got '{}'\nhint: number the "
           "classes from 0, or list them under 'classes' if they are names",
           place(i), printable(texts[i]));
  return true;
}

std::vector<std::string> sorted_names(const std::vector<std::string>& texts) {
  std::vector<std::string> names = texts;
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  ENSURE(data, names.size() <= kMostNames,
         "the labels have {} different values, more than the limit of {} classes", names.size(),
         kMostNames);
  return names;
}

}  // namespace

Labels numbered_labels(const std::vector<std::int64_t>& numbers,
                       std::vector<std::string> class_names) {
  Labels labels;
  labels.rows = bytes_of(numbers);
  labels.classes = std::ssize(class_names);
  labels.class_names = std::move(class_names);
  return labels;
}

Labels class_labels(const std::vector<std::string>& texts, const std::vector<std::string>& names,
                    const std::function<std::string(std::size_t)>& place) {
  for (std::size_t i = 0; i < texts.size(); ++i)
    ENSURE(data, !texts[i].empty(), "{}: the label is empty", place(i));
  const bool learns_names = names.empty() && !are_numbers(texts, place);
  std::vector<std::string> class_names = learns_names ? sorted_names(texts) : names;
  std::unordered_map<std::string, std::int64_t> by_name;
  for (const std::string& name : class_names) by_name.emplace(name, std::ssize(by_name));
  std::vector<std::int64_t> numbers(texts.size());
  std::int64_t classes = std::ssize(class_names);
  for (std::size_t i = 0; i < texts.size(); ++i) {
    if (const auto found = by_name.find(texts[i]); found != by_name.end()) {
      numbers[i] = found->second;
      continue;
    }
    const bool is_number = parse_class(texts[i], numbers[i]);
    ENSURE(data, names.empty() || (is_number && numbers[i] < classes),
           "{}: the label '{}' is not one of the {} classes\nhint: add it to 'classes'", place(i),
           printable(texts[i]), classes);
    classes = std::max(classes, numbers[i] + 1);
  }
  Labels labels = numbered_labels(numbers, std::move(class_names));
  labels.classes = classes;
  return labels;
}

Labels number_labels(const std::vector<float>& numbers, std::int64_t width) {
  Labels labels;
  labels.field = {"label", Dtype::f32, {}};
  if (width > 1) labels.field.shape = {width};
  labels.rows = bytes_of(numbers);
  return labels;
}

bool parse_finite(std::string_view text, double& value) {
  if (text.starts_with('+')) text.remove_prefix(1);
  const auto number = parse_number<double>(text);
  value = number.value_or(value);
  return number && std::isfinite(value);
}

bool parse_finite(std::string_view text, float& value) {
  double wide = 0;
  if (!parse_finite(text, wide)) return false;
  value = static_cast<float>(wide);
  return std::isfinite(value);
}

bool parse_index(std::string_view text, std::int64_t& value) {
  const auto number = parse_number<std::int64_t>(text);
  value = number.value_or(value);
  return number && value >= 0 && value <= std::numeric_limits<std::int32_t>::max();
}

bool parse_class(std::string_view text, std::int64_t& value) {
  if (parse_index(text, value)) return true;
  double number = 0;
  if (!parse_finite(text, number) || number != std::floor(number) || number < 0 ||
      number > std::numeric_limits<std::int32_t>::max())
    return false;
  value = static_cast<std::int64_t>(number);
  return true;
}

bool looks_numeric(std::string_view text) {
  double ignored = 0;
  return parse_finite(trimmed(text, " \t"), ignored);
}

}  // namespace trainctl::data
