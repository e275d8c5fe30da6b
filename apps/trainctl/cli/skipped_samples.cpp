#include "cli/skipped_samples.hpp"

#include "base/numbers.hpp"
#include "base/strings.hpp"
#include "cli/context.hpp"

#include <algorithm>

namespace trainctl::app {
namespace {

constexpr std::size_t kMostNamed = 10;

}  // namespace

void tell_skipped(const Context& context, const std::vector<data::SkippedSample>& skipped,
                  const std::string& what) {
  if (skipped.empty() || context.quiet || context.json) return;
  std::string text = fmt::format("warning: {} sample{} cannot be read, {}:\n", skipped.size(),
                                 plural(skipped.size()), what);
  for (std::size_t i = 0; i < std::min(skipped.size(), kMostNamed); ++i)
    text += fmt::format("  {}: {}\n", printable(skipped[i].name), printable(skipped[i].reason));
  if (skipped.size() > kMostNamed)
    text += fmt::format("  and {} more\n", skipped.size() - kMostNamed);
  put(stderr, text);
}

Json skipped_json(const std::vector<data::SkippedSample>& skipped) {
  Json first = Json::array();
  for (std::size_t i = 0; i < std::min(skipped.size(), kMostNamed); ++i)
    first.push_back({{"name", skipped[i].name}, {"reason", skipped[i].reason}});
  return {{"count", skipped.size()}, {"first", first}};
}

}  // namespace trainctl::app
