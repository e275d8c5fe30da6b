#include "data/loader/auto_loading.hpp"

#include "base/error.hpp"
#include "base/statistics.hpp"
#include "data/loader/batch_assembler.hpp"
#include "data/loader/host_memory.hpp"
#include "data/loader/memory_plan.hpp"
#include "data/loader/order.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

namespace trainctl::data {
namespace {

constexpr double kSeconds = 0.25;  // after which no new tile begins
constexpr std::size_t kMostTiles = 2000;

/// The first tiles of epoch 0, each timed.
class TileProbe {
 public:
  TileProbe(const Pipeline& pipeline, const LoaderOptions& options, const Clock& clock)
      : clock_(clock),
        maker_(pipeline, options),
        orders_(*pipeline.dataset, options),
        plan_(orders_.positions(), options),
        slot_(maker_.slot_shape().bytes),
        scratch_(maker_.scratch()) {
    scratch_.epoch = 0;
    scratch_.order = orders_.get(0);
  }

  /// Seconds for a row, of each tile.
  std::vector<double> run() {
    const double begin = clock_.now();
    try {
      for (std::int64_t batch = 0; batch < plan_.batches(); ++batch) {
        for (int tile = 0; tile < maker_.tiles(); ++tile) {
          add(batch, tile);
          if (clock_.now() - begin > kSeconds || seconds_.size() == kMostTiles) return seconds_;
        }
      }
    } catch (const Error&) {  // the loader meets it too, and knows what is to be done
    }
    return seconds_;
  }

  [[nodiscard]] int tiles() const { return maker_.tiles(); }

 private:
  void add(std::int64_t batch, int tile) {
    const Extent extent = plan_.extent(batch);
    const std::int64_t rows = std::min(maker_.tile_rows(), extent.rows - tile * maker_.tile_rows());
    if (rows <= 0) return;
    const double begin = clock_.now();
    maker_.make({0, batch, extent, tile, slot_.bytes()}, scratch_);
    seconds_.push_back((clock_.now() - begin) / static_cast<double>(rows));
  }

  const Clock& clock_;
  TileMaker maker_;
  Orders orders_;
  BatchPlan plan_;
  Arena slot_;
  TileMaker::Scratch scratch_;
  std::vector<double> seconds_;
};

}  // namespace

std::optional<BatchCost> time_batches(const Pipeline& pipeline, const LoaderOptions& options,
                                      const Clock& clock) {
  TileProbe probe(pipeline, options, clock);
  std::vector<double> rows = probe.run();
  if (rows.empty()) return std::nullopt;
  if (rows.size() > 1) rows.erase(rows.begin());  // tables and memory are made in the first
  BatchCost cost;
  cost.whole = probe.tiles() == 1;
  cost.seconds = median(rows) * static_cast<double>(options.batch_size);
  const double average = mean(rows);
  // A batch is the mean of its tiles, and so much the steadier.
  if (average > 0)
    cost.spread = 1 + (quantile(rows, 0.99) / average - 1) / std::sqrt(probe.tiles());
  return cost;
}

LoadingChoice decide_loading(const spec::Loader& wish, const Pipeline& pipeline,
                             const LoaderOptions& options, LoadingLimits limits, double step_s,
                             const Clock& clock) {
  const bool no_threads = wish.num_workers.value == 0;
  if (no_threads || (!wish.num_workers.is_auto() && !wish.prefetch_factor.is_auto()))
    return {*wish.num_workers.value, wish.prefetch_factor.value_or(LoadingChoice::kUsualPrefetch)};
  limits.ring_bytes = ring_budget(options);
  const auto cost = time_batches(pipeline, options, clock);
  if (!cost)
    return {wish.num_workers.value_or(0),
            wish.prefetch_factor.value_or(LoadingChoice::kUsualPrefetch),
            "no sample could be made for a probe"};
  limits.helped = cost->whole;
  return choose_loading(wish, {cost->seconds, cost->spread, step_s}, limits,
                        SlotShape(batch_layout(pipeline, options), options.batch_size).bytes);
}

LoaderOptions with_choice(LoaderOptions options, const LoadingChoice& choice,
                          const LoadingLimits& limits) {
  options.num_workers = choice.num_workers;
  options.prefetch_factor = choice.prefetch_factor;
  const bool shared = limits.trains_on_them || choice.num_workers >= limits.cores;
  options.priority = shared ? Priority::below_trainer : Priority::normal;
  return options;
}

}  // namespace trainctl::data
