#include "data/loader/loading_plan.hpp"

#include "base/strings.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace trainctl::data {
namespace {

constexpr double kAhead = 1.15;       // of the rate at which the training uses batches
constexpr double kLeastShare = 0.05;  // of the time that loading in the trainer's thread would take
constexpr double kHandover = 50e-6;   // seconds of a batch below which another thread gains nothing
constexpr double kMostWanted = 1e6;
constexpr std::uint64_t kLeastSlots = 2;  // of a ring with threads

std::string times(const LoadingFigures& figures) {
  const std::string batch = human_duration(figures.batch_s);
  if (figures.step_s == 0) return fmt::format("probe: a batch takes {} to make", batch);
  return fmt::format("probe: a batch takes {} to make and a step {}", batch,
                     human_duration(figures.step_s));
}

struct Workers {
  int number = 0;
  std::string why;
};

/// Why no thread is taken, whatever a step takes; empty where one may be.
std::string never(double batch_s, const LoadingLimits& limits, std::uint64_t slot_bytes) {
  if (batch_s < kHandover) return "too little for another thread";
  if (limits.ring_bytes / kLeastSlots < slot_bytes) return "memory for one batch only";
  return {};
}

Workers auto_workers(const LoadingFigures& figures, const LoadingLimits& limits,
                     std::uint64_t slot_bytes) {
  if (std::string why = never(figures.batch_s, limits, slot_bytes); !why.empty())
    return {0, std::move(why)};
  const double share = figures.batch_s / (figures.batch_s + figures.step_s);
  if (share <= kLeastShare)
    return {0, fmt::format("{:.0f} % of the time, too little for another thread", share * 100)};
  const int most = most_auto_workers(limits);
  if (figures.step_s == 0) return {most, "every core that is free for it"};
  const double wanted = std::ceil(std::min(kAhead * figures.batch_s / figures.step_s, kMostWanted));
  if (wanted <= most)
    return {static_cast<int>(wanted),
            fmt::format("{:.0f} thread{} keep up", wanted, wanted == 1 ? " will" : "s")};
  return {most, fmt::format("{:.0f} threads would keep up, {} {} free for it", wanted, most,
                            most == 1 ? "core is" : "cores are")};
}

int auto_prefetch(int workers, const LoadingFigures& figures, const LoadingLimits& limits,
                  std::uint64_t slot_bytes) {
  int factor = static_cast<int>(std::clamp<double>(
      std::ceil(figures.spread), LoadingChoice::kUsualPrefetch, LoadingChoice::kMostPrefetch));
  const auto threads = static_cast<std::uint64_t>(workers);
  while (factor > 1 &&
         threads * static_cast<std::uint64_t>(factor) * slot_bytes > limits.ring_bytes)
    --factor;
  return factor;
}

}  // namespace

int most_auto_workers(const LoadingLimits& limits) {
  const bool all = limits.trains_on_them && !limits.helped;
  return std::clamp(all ? limits.cores : limits.cores - 1, 1, 256);
}

LoadingChoice choose_loading(const spec::Loader& wish, const LoadingFigures& figures,
                             const LoadingLimits& limits, std::uint64_t slot_bytes) {
  LoadingChoice choice;
  Workers workers{wish.num_workers.value_or(0), "threads as asked"};
  if (wish.num_workers.is_auto()) workers = auto_workers(figures, limits, slot_bytes);
  choice.num_workers = workers.number;
  choice.prefetch_factor =
      wish.prefetch_factor.value_or(auto_prefetch(workers.number, figures, limits, slot_bytes));
  choice.why = times(figures) + "; " + workers.why;
  return choice;
}

std::vector<AutoWorkers> auto_workers_by_step(double batch_s, const LoadingLimits& limits,
                                              std::uint64_t slot_bytes) {
  if (!never(batch_s, limits, slot_bytes).empty()) return {{0, 0}};
  const int most = most_auto_workers(limits);
  std::vector<AutoWorkers> found{{batch_s * (1 / kLeastShare - 1), 0}};
  for (int workers = 1; workers < most; ++workers)
    found.push_back({kAhead * batch_s / workers, workers});
  found.push_back({0, most});
  return found;
}

}  // namespace trainctl::data
