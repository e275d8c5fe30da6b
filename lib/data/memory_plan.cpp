#include "data/memory_plan.hpp"

#include "base/error.hpp"
#include "base/machine.hpp"
#include "base/strings.hpp"
#include "data/cache/look.hpp"
#include "data/tiles.hpp"

#include <algorithm>
#include <array>

namespace trainctl::data {
namespace {

constexpr int kMostSlots = 256;

/// Two epochs are in use at a time; samplers hold their samples by class.
std::uint64_t order_bytes(std::int64_t samples, const LoaderOptions& options) {
  constexpr std::uint64_t kEach = sizeof(Permutation::value_type);
  const auto all = static_cast<std::uint64_t>(samples);
  if (options.sampling) {
    const std::int64_t drawn = options.sampling->num_samples.value_or(samples);
    return kEach * (all + 2 * static_cast<std::uint64_t>(drawn));
  }
  return options.order == Order::sequential ? 0 : kEach * 2 * all;
}

/// The stored image, its pixels where it must be decoded, and what lies between the transforms.
std::uint64_t scratch_bytes(const Pipeline& pipeline, const ImageLook& look) {
  std::array<std::uint64_t, 2> between{};
  ImageShape shape = look.largest;
  for (std::size_t op = 0; op + 1 < pipeline.transforms.size() && shape.fixed(); ++op) {
    shape = pipeline.transforms[op]->output(shape);
    between[op % 2] = std::max<std::uint64_t>(between[op % 2], shape.bytes());
  }
  return look.largest_stored + (look.files ? look.largest.bytes() : 0) + between[0] + between[1];
}

}  // namespace

int ring_slots(const LoaderOptions& options, std::uint64_t slot_bytes) {
  const bool threads = options.num_workers > 0;
  const int least = threads ? 2 : 1;
  const int wanted =
      threads ? std::clamp(options.num_workers * options.prefetch_factor, least, kMostSlots) : 1;
  const std::uint64_t budget = options.memory_budget.value_or(available_memory() / 2);
  const auto fitting = static_cast<int>(std::min<std::uint64_t>(budget / slot_bytes, kMostSlots));
  ENSURE(resource, fitting >= least,
         "{} batch(es) of {} samples take {}, and the loader may take {} (half of the available "
         "memory); lower "
         "loader.batch_size or free some memory",
         least, options.batch_size, human_bytes(static_cast<double>(slot_bytes) * least),
         human_bytes(static_cast<double>(budget)));
  return std::min(wanted, fitting);
}

MemoryPlan memory_plan(const Pipeline& pipeline, const LoaderOptions& options,
                       CacheBudget& budget) {
  const Layout layout = transformed(pipeline.dataset->layout(), pipeline.transforms);
  const ImageLook look = look_at_images(pipeline);
  MemoryPlan plan;
  plan.slot = SlotShape(layout, options.batch_size).bytes;
  plan.slots = ring_slots(options, plan.slot);
  plan.orders = order_bytes(pipeline.dataset->size(), options);
  plan.cache = choose_cache(cache_need(pipeline, look), budget);
  budget.left -= plan.cache.bytes;
  plan.threads = std::max(options.num_workers, 1);
  plan.scratch = scratch_bytes(pipeline, look);
  return plan;
}

}  // namespace trainctl::data
