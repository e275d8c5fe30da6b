#include "train/state/retention.hpp"

#include <algorithm>
#include <utility>

namespace trainctl::train {

std::vector<std::string> best_names(const std::vector<checkpoint::Found>& found,
                                    const Ranking& ranking, std::int64_t most) {
  std::vector<const checkpoint::Found*> ranked;
  for (const checkpoint::Found& one : found) {
    if (one.manifest && one.manifest->value && one.manifest->monitor == ranking.monitor)
      ranked.push_back(&one);
  }
  std::ranges::sort(ranked, [&](const auto* a, const auto* b) {
    const double left = *a->manifest->value, right = *b->manifest->value;
    if (left == right) return a->moment < b->moment;
    return ranking.mode == spec::Mode::min ? left < right : left > right;
  });
  std::vector<std::string> names;
  for (const checkpoint::Found* one : ranked) {
    if (most >= 0 && std::cmp_greater_equal(names.size(), most)) break;
    names.push_back(one->name);
  }
  return names;
}

}  // namespace trainctl::train
