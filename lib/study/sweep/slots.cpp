#include "study/sweep/slots.hpp"

#include "base/error.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>
#include <utility>

namespace trainctl::study {

Slots::Slots(int jobs, std::vector<int> cores, double quota, std::vector<std::string> gpus)
    : taken_(static_cast<std::size_t>(jobs), false),
      cores_(std::move(cores)),
      quota_(quota),
      gpus_(std::move(gpus)),
      runs_(gpus_.size(), 0) {}

/// Neighbours, so that the threads of a run share caches. A quota below the cores is shared, too.
std::vector<int> Slots::cores_of(int slot) const {
  const auto jobs = static_cast<double>(taken_.size());
  const auto all = static_cast<double>(cores_.size());
  if (taken_.size() == 1 || cores_.empty()) return {};
  const double share = std::max(1.0, std::floor(std::min(all, quota_) / jobs));
  const double stride = std::max(1.0, std::floor(all / jobs));
  const auto first = static_cast<std::size_t>(stride * slot) % cores_.size();
  const auto last = std::min(first + static_cast<std::size_t>(share), cores_.size());
  return {cores_.begin() + static_cast<std::ptrdiff_t>(first),
          cores_.begin() + static_cast<std::ptrdiff_t>(last)};
}

Share Slots::take(int gpus) {
  const auto free = std::ranges::find(taken_, false);
  ASSERT(free != taken_.end());
  *free = true;
  Share share{static_cast<int>(free - taken_.begin()), {}, {}};
  share.cores = cores_of(share.slot);
  if (taken_.size() == 1) return share;
  std::vector<std::size_t> order(gpus_.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, {}, [&](std::size_t gpu) { return runs_[gpu]; });
  order.resize(std::min(order.size(), static_cast<std::size_t>(std::max(gpus, 0))));
  std::ranges::sort(order);
  for (const std::size_t gpu : order) {
    ++runs_[gpu];
    share.gpus.push_back(gpus_[gpu]);
  }
  return share;
}

void Slots::give_back(const Share& share) {
  taken_.at(static_cast<std::size_t>(share.slot)) = false;
  for (const std::string& name : share.gpus)
    --runs_[static_cast<std::size_t>(std::ranges::find(gpus_, name) - gpus_.begin())];
}

}  // namespace trainctl::study
