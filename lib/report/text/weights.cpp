#include "report/text/weights.hpp"

#include "base/strings.hpp"

#include <fmt/format.h>

namespace trainctl::report {
namespace {

using events::WeightsSet;

std::string headline(const WeightsSet& weights) {
  if (weights.path.empty()) return "weights: drawn from the seed";
  const std::size_t tensors =
      weights.loaded.size() + weights.redrawn.size() + weights.missing.size();
  return fmt::format("weights: {} of {} tensors of the model come from {}", weights.loaded.size(),
                     tensors, printable(weights.path));
}

void add(std::vector<std::string>& lines, const char* what, const std::vector<std::string>& names) {
  if (!names.empty()) lines.push_back(fmt::format("{}: {}", what, shortened(names)));
}

}  // namespace

std::vector<std::string> weights_lines(const WeightsSet& weights) {
  std::vector<std::string> lines{headline(weights)};
  add(lines, "drawn anew, for another number of outputs", weights.redrawn);
  add(lines, "not in the file, drawn", weights.missing);
  add(lines, "not in the model, ignored", weights.ignored);
  if (!weights.frozen.empty())
    lines.push_back(
        fmt::format("{} parameters frozen: {}", weights.frozen.size(), shortened(weights.frozen)));
  for (const std::string& note : weights.notes) lines.push_back(printable(note));
  return lines;
}

Json weights_document(const WeightsSet& weights) {
  return {{"path", weights.path.empty() ? Json(nullptr) : Json(weights.path)},
          {"format", weights.path.empty() ? Json(nullptr) : Json(weights.format)},
          {"loaded", weights.loaded},
          {"redrawn", weights.redrawn},
          {"missing", weights.missing},
          {"ignored", weights.ignored},
          {"frozen", weights.frozen},
          {"notes", weights.notes}};
}

}  // namespace trainctl::report
