#pragma once

#include <cstdint>
#include <functional>

namespace trainctl::data {

/// Runs make(i) for first <= i < end on `workers` threads, and take(i) for one after the other in
/// the caller, at most `ahead` behind what is being made; make(i) may write to its slot i mod
/// `ahead` until take(i) has returned. Where a make throws, everything before it is taken, and then
/// its exception leaves.
struct InOrder {
  std::int64_t first = 0;
  std::int64_t end = 0;
  std::int64_t ahead = 1;
  int workers = 1;
};
void run_in_order(const InOrder& range, const std::function<void(std::int64_t)>& make,
                  const std::function<void(std::int64_t)>& take);

}  // namespace trainctl::data
