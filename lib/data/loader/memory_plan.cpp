#include "data/loader/memory_plan.hpp"

#include "base/error.hpp"
#include "base/machine/machine.hpp"
#include "base/strings.hpp"
#include "data/core/image_probe.hpp"
#include "data/loader/batch_assembler.hpp"
#include "data/read_ahead/read_ahead.hpp"
#include "data/remote/fetch_ahead.hpp"

#include <algorithm>
#include <array>

namespace trainctl::data {
namespace {

constexpr int kLeastSlots = 2;  // with threads
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

/// The stored image, its pixels where it must be decoded, what lies between the transforms, and
/// what those keep. Neighbours may be joined: then this is more than is taken.
std::uint64_t scratch_bytes(const Pipeline& pipeline, const ImageLook& look) {
  std::array<std::uint64_t, 2> between{};
  std::uint64_t kept = 0;
  ImageShape shape = look.largest;
  for (std::size_t op = 0; op < pipeline.transforms.size() && shape.fixed(); ++op) {
    kept += pipeline.transforms[op]->scratch_bytes(shape);
    shape = pipeline.transforms[op]->largest(shape);
    if (op + 1 < pipeline.transforms.size())  // the last one writes into the slot
      between[op % 2] = std::max<std::uint64_t>(between[op % 2], shape.bytes());
  }
  return look.largest_stored + (look.files ? look.largest.bytes() : 0) + between[0] + between[1] +
         kept;
}

}  // namespace

std::uint64_t ring_budget(const LoaderOptions& options) {
  return options.memory_budget.value_or(available_memory() / 2);
}

int wanted_slots(const LoaderOptions& options) {
  if (options.num_workers == 0) return 1;
  return std::clamp(options.num_workers * options.prefetch_factor, kLeastSlots, kMostSlots);
}

int ring_slots(const LoaderOptions& options, std::uint64_t slot_bytes) {
  const int least = options.num_workers > 0 ? kLeastSlots : 1;
  const std::uint64_t budget = ring_budget(options);
  const auto fitting = static_cast<int>(std::min<std::uint64_t>(budget / slot_bytes, kMostSlots));
  ENSURE(resource, fitting >= least,
         "{} batch(es) of {} samples take {}, and the loader may take {} (of half of the available "
         "memory); lower loader.batch_size or free some memory",
         least, options.batch_size, human_bytes(static_cast<double>(slot_bytes) * least),
         human_bytes(static_cast<double>(budget)));
  return std::min(wanted_slots(options), fitting);
}

std::uint64_t ahead_memory(const Dataset& dataset, const LoaderOptions& options,
                           std::uint64_t ring_bytes) {
  const std::uint64_t budget = ring_budget(options);
  return ahead_bytes(dataset, options, budget - std::min(budget, ring_bytes));
}

MemoryPlan memory_plan(const Pipeline& pipeline, const LoaderOptions& options,
                       CacheBudget& budget) {
  const ImageLook look = look_at_images(pipeline);
  MemoryPlan plan;
  plan.slots_wanted = wanted_slots(options);
  plan.orders = order_bytes(pipeline.dataset->size(), options);
  plan.cache_need = cache_need(pipeline, look);
  plan.threads = std::max(options.num_workers, 1);
  plan.scratch = scratch_bytes(pipeline, look);
  plan.dataset = pipeline.dataset->footprint();
  plan.transfers = FetchAhead::memory(*pipeline.dataset, plan.threads);
  const auto attempt = [&plan](const auto& part) {
    try {
      part();
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::resource) throw;
      if (plan.refusal.empty()) plan.refusal = error.message();
    }
  };
  attempt([&] { plan.cache = choose_cache(plan.cache_need, budget); });
  Layout layout = batch_layout(pipeline, options);
  if (plan.cache.tier == CacheTier::device)
    layout[find_field(layout, "image")].shape = {static_cast<std::int64_t>(sizeof(PixelPlan))};
  plan.slot = SlotShape(layout, options.batch_size).bytes;
  attempt([&] { plan.slots = ring_slots(options, plan.slot); });
  budget.left -= plan.cache.host_bytes();
  // A cache has the images at hand, in the place of the files.
  if (plan.cache.tier == CacheTier::none)
    plan.ahead = ahead_memory(*pipeline.dataset, options, plan.ring());
  return plan;
}

}  // namespace trainctl::data
