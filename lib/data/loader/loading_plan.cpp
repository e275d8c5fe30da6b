#include "data/loader/loading_plan.hpp"

#include "base/numbers.hpp"
#include "base/statistics.hpp"
#include "base/strings.hpp"

#include <fmt/format.h>

#include <cmath>

namespace trainctl::data {
namespace {

constexpr double kRateMargin = 1.15;  // times the rate at which the training consumes batches
constexpr double kLeastShare = 0.05;  // no threads below this share of the time
constexpr double kHandover = 50e-6;   // seconds per batch below which another thread is not faster
constexpr double kMostWanted = 1e6;
constexpr int kLeastSlots = 2;  // of a ring with threads

std::string probe_text(const LoadingFigures& figures) {
  const std::string batch = human_duration(figures.batch_s);
  if (figures.step_s == 0) return fmt::format("probe: a batch takes {} to load", batch);
  return fmt::format("probe: a batch takes {} to load, a step {}", batch,
                     human_duration(figures.step_s));
}

struct Workers {
  int number = 0;
  std::string why;
};

/// Returns why no threads are used for any step time, or an empty string.
std::string reason_for_no_workers(double batch_s, const LoadingLimits& limits,
                                  std::uint64_t slot_bytes) {
  if (batch_s < kHandover) return "too short for workers to help";
  if (limits.ring_bytes / std::uint64_t{kLeastSlots} < slot_bytes)
    return "workers need memory for two batches, but there is memory for only one";
  return {};
}

Workers auto_workers(const LoadingFigures& figures, const LoadingLimits& limits,
                     std::uint64_t slot_bytes) {
  if (std::string why = reason_for_no_workers(figures.batch_s, limits, slot_bytes); !why.empty())
    return {0, std::move(why)};
  const double share = figures.batch_s / (figures.batch_s + figures.step_s);
  if (share <= kLeastShare)
    return {0, fmt::format("loading takes {:.0f} % of the time, too little for workers to help",
                           share * 100)};
  const int most = most_auto_workers(limits);
  if (figures.step_s == 0) return {most, "one worker for each free core"};
  const double wanted =
      std::ceil(std::min(kRateMargin * figures.batch_s / figures.step_s, kMostWanted));
  if (wanted <= most)
    return {static_cast<int>(wanted), fmt::format("{:.0f} worker{} up with the steps", wanted,
                                                  wanted == 1 ? " keeps" : "s keep")};
  return {most, fmt::format("{:.0f} workers would keep up with the steps, but only {} {} free",
                            wanted, most, most == 1 ? "core is" : "cores are")};
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
  const bool all = limits.training_uses_cores && !limits.consumer_helps;
  return std::clamp(all ? limits.cores : limits.cores - 1, 1, 256);
}

LoadingChoice choose_loading(const spec::Loader& requested, const LoadingFigures& figures,
                             const LoadingLimits& limits, std::uint64_t slot_bytes) {
  LoadingChoice choice;
  Workers workers{requested.num_workers.value_or(0), "loader.num_workers is set"};
  if (requested.num_workers.is_auto()) workers = auto_workers(figures, limits, slot_bytes);
  choice.num_workers = workers.number;
  choice.prefetch_factor = requested.prefetch_factor.value_or(
      auto_prefetch(workers.number, figures, limits, slot_bytes));
  choice.why = probe_text(figures) + "; " + workers.why;
  return choice;
}

std::vector<AutoWorkers> auto_workers_by_step(double batch_s, const LoadingLimits& limits,
                                              std::uint64_t slot_bytes) {
  if (!reason_for_no_workers(batch_s, limits, slot_bytes).empty()) return {{0, 0}};
  const int most = most_auto_workers(limits);
  std::vector<AutoWorkers> found{{batch_s * (1 / kLeastShare - 1), 0}};
  for (int workers = 1; workers < most; ++workers)
    found.push_back({kRateMargin * batch_s / workers, workers});
  found.push_back({0, most});
  return found;
}

namespace {

constexpr double kSeconds = 0.25;  // no new tile starts after this time
constexpr std::size_t kMostTiles = 2000;

struct TileTimes {
  std::vector<double> row_s;  // seconds per row of each tile
  std::int64_t next_batch = 0;
};

TileTimes time_tiles(const BatchAssembler& assembler, const LoaderOptions& options,
                     const Clock& clock, std::int64_t first_batch) {
  const Orders orders(*assembler.pipeline().dataset, options);
  const BatchPlan plan(orders.positions(), options);
  Arena slot(assembler.slot_shape().bytes);
  BatchAssembler::Scratch scratch = assembler.scratch();
  scratch.epoch = 0;
  scratch.order = orders.get(0);
  TileTimes times{.next_batch = first_batch};
  const double begin = clock.now();
  try {
    for (std::int64_t timed = 0; timed < plan.batches(); ++timed) {
      const std::int64_t batch = times.next_batch;
      times.next_batch = (batch + 1) % plan.batches();
      const Extent extent = plan.extent(batch);
      for (int tile = 0; tile < assembler.tiles(); ++tile) {
        const std::int64_t rows =
            std::min(assembler.tile_rows(), extent.rows - tile * assembler.tile_rows());
        if (rows > 0) {
          const double start = clock.now();
          assembler.make({0, batch, extent, tile, slot.bytes()}, scratch);
          times.row_s.push_back((clock.now() - start) / static_cast<double>(rows));
        }
        if (clock.now() - begin > kSeconds || times.row_s.size() == kMostTiles) return times;
      }
    }
  } catch (const Error&) {  // the loader gets the same error and handles it
  }
  return times;
}

}  // namespace

std::optional<BatchCost> time_batches(const Pipeline& pipeline, const LoaderOptions& options,
                                      const Clock& clock, std::int64_t first_batch) {
  const BatchAssembler assembler(pipeline, options);
  auto [rows, next_batch] = time_tiles(assembler, options, clock, first_batch);
  if (rows.empty()) return std::nullopt;
  if (rows.size() > 1) rows.erase(rows.begin());  // the first tile initializes tables and memory
  BatchCost cost{.next_batch = next_batch};
  cost.whole = assembler.tiles() == 1;
  cost.seconds = median(rows) * static_cast<double>(options.batch_size);
  const double average = mean(rows);
  // A batch averages over its tiles, so its time varies less.
  if (average > 0)
    cost.spread = 1 + (quantile(rows, 0.99) / average - 1) / std::sqrt(assembler.tiles());
  return cost;
}

LoadingChoice decide_loading(const spec::Loader& requested, const Pipeline& pipeline,
                             const LoaderOptions& options, LoadingLimits limits, double step_s,
                             const Clock& clock, std::int64_t first_batch) {
  const bool no_threads = requested.num_workers.value == 0;
  if (no_threads || (!requested.num_workers.is_auto() && !requested.prefetch_factor.is_auto()))
    return {*requested.num_workers.value,
            requested.prefetch_factor.value_or(LoadingChoice::kUsualPrefetch)};
  limits.ring_bytes = ring_budget(options);
  const auto cost = time_batches(pipeline, options, clock, first_batch);
  if (!cost)
    return {requested.num_workers.value_or(0),
            requested.prefetch_factor.value_or(LoadingChoice::kUsualPrefetch),
            "the loading time is unknown, because no sample could be loaded"};
  limits.consumer_helps = cost->whole;
  LoadingChoice choice =
      choose_loading(requested, {cost->seconds, cost->spread, step_s}, limits,
                     SlotShape(batch_layout(pipeline, options), options.batch_size).bytes);
  choice.next_batch = cost->next_batch;
  return choice;
}

LoaderOptions with_choice(LoaderOptions options, const LoadingChoice& choice,
                          const LoadingLimits& limits) {
  options.num_workers = choice.num_workers;
  options.prefetch_factor = choice.prefetch_factor;
  const bool shared = limits.training_uses_cores || choice.num_workers >= limits.cores;
  options.priority = shared ? Priority::below_trainer : Priority::normal;
  return options;
}

namespace {

constexpr int kMostSlots = 256;

int wanted_slots(const LoaderOptions& options) {
  const int loaded =
      options.num_workers == 0
          ? 1
          : std::clamp(options.num_workers * options.prefetch_factor, kLeastSlots, kMostSlots);
  return loaded + options.in_flight;
}

/// Two epochs are in use at the same time; samplers also group all samples by class or source.
std::uint64_t order_bytes(const Dataset& dataset, const LoaderOptions& options) {
  constexpr std::uint64_t kEach = sizeof(Permutation::value_type);
  const std::int64_t samples = dataset.size();
  const auto all = static_cast<std::uint64_t>(samples);
  if (options.sampling) {
    const std::int64_t drawn = options.sampling->num_samples.value_or(samples);
    return kEach * (all + 2 * static_cast<std::uint64_t>(drawn));
  }
  if (options.order == Order::sequential) return 0;
  return kEach * (2 * all + dataset.mixture().groups.size());
}

/// Returns the size of the stored image, its pixels if it is decoded, the buffers between
/// transforms, and the scratch of the transforms. If steps are merged, the actual use is lower.
std::uint64_t scratch_bytes(const Pipeline& pipeline, const ImageSizes& sizes) {
  std::array<std::uint64_t, 2> between{};
  std::uint64_t kept = 0;
  ImageShape shape = sizes.largest;
  for (std::size_t op = 0; op < pipeline.transforms.size() && shape.fixed(); ++op) {
    kept += pipeline.transforms[op]->scratch_bytes(shape);
    shape = pipeline.transforms[op]->largest(shape);
    if (op + 1 < pipeline.transforms.size())  // the last one writes to the slot
      between[op % 2] = std::max<std::uint64_t>(between[op % 2], shape.bytes());
  }
  return sizes.largest_stored + (sizes.files ? sizes.largest.bytes() : 0) + between[0] +
         between[1] + kept;
}

}  // namespace

std::uint64_t ring_budget(const LoaderOptions& options) {
  return options.memory_budget.value_or(available_memory() / 2);
}

int least_slots(const LoaderOptions& options) { return options.num_workers > 0 ? kLeastSlots : 1; }

int ring_slots(const LoaderOptions& options, std::uint64_t slot_bytes) {
  const int least = least_slots(options);
  const std::uint64_t budget = ring_budget(options);
  const auto fitting = static_cast<int>(std::min<std::uint64_t>(budget / slot_bytes, kMostSlots));
  ENSURE(resource, fitting >= least,
         "{} of {} samples need{} {}, but the loader may use {} (half of the available "
         "memory)\nhint: lower loader.batch_size, or free memory",
         counted(least, "batch", "batches"), options.batch_size, least == 1 ? "s" : "",
         human_bytes(static_cast<double>(slot_bytes) * least), human_bytes(budget));
  return std::min(wanted_slots(options), fitting);
}

std::uint64_t read_ahead_within_budget(const Dataset& dataset, const LoaderOptions& options,
                                       std::uint64_t ring_bytes) {
  const std::uint64_t budget = ring_budget(options);
  return read_ahead_bytes(dataset, options, budget - std::min(budget, ring_bytes));
}

MemoryPlan memory_plan(const Pipeline& pipeline, const LoaderOptions& options,
                       CacheBudget& budget) {
  const ImageSizes sizes = probe_image_sizes(pipeline);
  MemoryPlan plan;
  plan.slots_wanted = wanted_slots(options);
  plan.orders = order_bytes(*pipeline.dataset, options);
  plan.cache_need = cache_need(pipeline, sizes);
  plan.threads = std::max(options.num_workers, 1);
  plan.scratch = scratch_bytes(pipeline, sizes);
  plan.dataset = pipeline.dataset->footprint();
  plan.transfers = FetchAhead::memory(*pipeline.dataset, plan.threads);
  const auto attempt = [&plan](const auto& part) {
    try {
      part();
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::resource) throw;
      if (plan.refusal.empty()) plan.refusal = one_line(error.what());
    }
  };
  attempt([&] { plan.cache = choose_cache(plan.cache_need, budget); });
  Layout layout = batch_layout(pipeline, options);
  if (plan.cache.tier == CacheTier::device)
    layout[find_field(layout, "image")].shape = {static_cast<std::int64_t>(sizeof(PixelPlan))};
  plan.slot = SlotShape(layout, options.batch_size).bytes;
  attempt([&] { plan.slots = ring_slots(options, plan.slot); });
  budget.left -= plan.cache.host_bytes();
  // With a cache, files are not read ahead.
  if (plan.cache.tier == CacheTier::none)
    plan.ahead = read_ahead_within_budget(*pipeline.dataset, options, plan.ring());
  return plan;
}

}  // namespace trainctl::data
