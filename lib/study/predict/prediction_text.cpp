#include "study/predict/prediction_text.hpp"

#include "base/json.hpp"
#include "report/text/table.hpp"

#include <fmt/format.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace trainctl::study {
namespace {

static_assert(std::endian::native == std::endian::little, "an NPY file of '<f4' is little-endian");

/// prob_0, prob_1, ... A single output needs no number.
void add_names(std::vector<std::string>& names, const std::string& stem, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i)
    names.push_back(count == 1 ? stem : fmt::format("{}_{}", stem, i));
}

/// The name of a class, or its number where it has none.
std::string class_text(const PredictionPlan& plan, std::int64_t number) {
  const bool has_name = number >= 0 && std::cmp_less(number, plan.class_names.size());
  return has_name ? plan.class_names[static_cast<std::size_t>(number)] : std::to_string(number);
}

/// prob_cat, prob_dog, ...
void add_output_names(std::vector<std::string>& names, const std::string& stem,
                      const PredictionPlan& plan, std::int64_t count) {
  if (plan.class_names.empty()) return add_names(names, stem, count);
  for (const std::string& name : plan.class_names) names.push_back(stem + "_" + name);
}

/// Else its targets are numbers, or it has none.
bool tells_label(const events::Evaluated& told) {
  return told.labelled && told.target_numbers == 0;
}

std::string csv_head(const PredictionPlan& plan, const events::Evaluated& told) {
  std::vector<std::string> names{"index"};
  if (told.named) names.emplace_back("name");
  if (tells_label(told)) names.emplace_back("label");
  if (told.labelled) add_names(names, "target", told.target_numbers);
  for (const Output output : plan.outputs) {
    if (output == Output::classes) {
      names.emplace_back("class");
      if (plan.meaning.scale != Scale::none) names.emplace_back("class_prob");
    } else if (output == Output::probabilities) {
      add_output_names(names, "prob", plan, told.outputs);
    } else if (output == Output::logits) {
      add_output_names(names, "logit", plan, told.outputs);
    } else {
      add_names(names, "prediction", told.outputs);
    }
  }
  return report::csv_line(names) + '\n';
}

/// A sample, and its probabilities where an output asks for them.
struct Outputs {
  const SampleRow& row;
  std::vector<float> probabilities;

  /// The values of an output that is numbers.
  [[nodiscard]] std::span<const float> values(Output output) const {
    return output == Output::probabilities ? probabilities : row.logits;
  }
};

Outputs outputs_of(const PredictionPlan& plan, const SampleRow& row) {
  const bool has_scale = plan.meaning.scale != Scale::none;
  const bool tells_class = plan.has(Output::classes) && plan.format != Format::npy;
  if (!has_scale || (!tells_class && !plan.has(Output::probabilities))) return {row, {}};
  return {row, probabilities(row.logits, plan.meaning.scale)};
}

/// A number that is none has no sign.
std::string number(float value) { return std::isnan(value) ? "nan" : fmt::format("{}", value); }

void csv_row(std::string& text, const PredictionPlan& plan, const events::Evaluated& told,
             const Outputs& outputs) {
  const SampleRow& row = outputs.row;
  text += std::to_string(row.index);
  if (told.named) text += "," + report::csv_cell(row.name);
  if (tells_label(told)) text += "," + report::csv_cell(class_text(plan, row.label));
  for (const float target : row.targets) text += "," + number(target);
  for (const Output output : plan.outputs) {
    if (output == Output::classes) {
      const std::size_t found = largest(row.logits);
      text += "," + report::csv_cell(class_text(plan, static_cast<std::int64_t>(found)));
      if (plan.meaning.scale != Scale::none) text += "," + number(outputs.probabilities[found]);
      continue;
    }
    for (const float value : outputs.values(output)) text += "," + number(value);
  }
  text += '\n';
}

std::string json_number(float value) {
  return std::isfinite(value) ? number(value) : '"' + number(value) + '"';
}

std::string json_list(std::span<const float> values) {
  std::string text;
  for (const float value : values) text += (text.empty() ? "" : ",") + json_number(value);
  return '[' + text + ']';
}

/// A number, or the name as text.
std::string json_class(const PredictionPlan& plan, std::int64_t number) {
  return plan.class_names.empty() ? std::to_string(number)
                                  : to_line(Json(class_text(plan, number)));
}

/// A list, or an object by the names of the classes.
std::string json_outputs(const PredictionPlan& plan, std::span<const float> values) {
  if (plan.class_names.size() != values.size()) return json_list(values);
  std::string text;
  for (std::size_t i = 0; i < values.size(); ++i)
    text += (text.empty() ? "" : ",") + to_line(Json(plan.class_names[i])) + ':' +
            json_number(values[i]);
  return '{' + text + '}';
}

// By hand: a float that passes through the double of a JSON library is written with 17 digits.
void json_row(std::string& text, const PredictionPlan& plan, const events::Evaluated& told,
              const Outputs& outputs) {
  const SampleRow& row = outputs.row;
  text += fmt::format(R"({{"index":{})", row.index);
  if (told.named) text += R"(,"name":)" + to_line(Json(row.name));
  if (tells_label(told)) text += R"(,"label":)" + json_class(plan, row.label);
  if (told.labelled && told.target_numbers > 0) text += R"(,"target":)" + json_list(row.targets);
  for (const Output output : plan.outputs) {
    if (output == Output::classes) {
      const std::size_t found = largest(row.logits);
      text += R"(,"class":)" + json_class(plan, static_cast<std::int64_t>(found));
      if (plan.meaning.scale != Scale::none)
        text += R"(,"class_prob":)" + json_number(outputs.probabilities[found]);
      continue;
    }
    text += fmt::format(R"(,"{}":)", enum_names(output).at(static_cast<std::size_t>(output))) +
            json_outputs(plan, outputs.values(output));
  }
  text += "}\n";
}

template <class T>
void append_bytes(std::string& text, std::span<const T> values) {
  text.append(reinterpret_cast<const char*>(values.data()), values.size_bytes());
}

void npy_row(std::string& text, const PredictionPlan& plan, const Outputs& outputs) {
  if (plan.has(Output::classes)) {
    const auto found = static_cast<std::int64_t>(largest(outputs.row.logits));
    append_bytes(text, std::span(&found, 1));
  } else {
    append_bytes(text, outputs.values(plan.outputs.front()));
  }
}

}  // namespace

std::string npy_header(const PredictionPlan& plan, std::int64_t samples, std::int64_t outputs) {
  constexpr std::size_t kBefore = 10;  // magic, version, length
  constexpr std::size_t kAlignment = 64;
  const bool classes = plan.has(Output::classes);
  std::string text = fmt::format(
      "{{'descr': '{}', 'fortran_order': False, 'shape': {}, }}", classes ? "<i8" : "<f4",
      classes ? fmt::format("({},)", samples) : fmt::format("({}, {})", samples, outputs));
  const std::size_t used = (kBefore + text.size() + 1) % kAlignment;
  text.append((kAlignment - used) % kAlignment, ' ');
  text += '\n';
  std::string head("\x93NUMPY\x01\x00", 8);
  head += static_cast<char>(text.size() & 0xff);
  head += static_cast<char>(text.size() >> 8);
  return head + text;
}

std::string head_of(const PredictionPlan& plan, const events::Evaluated& told) {
  if (plan.format == Format::npy) return npy_header(plan, told.samples, told.outputs);
  return plan.format == Format::csv ? csv_head(plan, told) : std::string();
}

void append_row(std::string& text, const PredictionPlan& plan, const events::Evaluated& told,
                const SampleRow& row) {
  const Outputs outputs = outputs_of(plan, row);
  if (plan.format == Format::npy) {
    npy_row(text, plan, outputs);
  } else if (plan.format == Format::csv) {
    csv_row(text, plan, told, outputs);
  } else {
    json_row(text, plan, told, outputs);
  }
}

}  // namespace trainctl::study
