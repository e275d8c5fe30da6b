#include "data/cache/cache.hpp"

#include "base/error.hpp"
#include "base/strings.hpp"

namespace trainctl::data {
namespace {

const char* name_of(CacheTier tier) { return tier == CacheTier::encoded ? "encoded" : "decoded"; }

}  // namespace

CacheBudget::CacheBudget(const spec::Cache& cache, int ranks, std::uint64_t available)
    : mode(cache.mode), left(cache.of_memory().of(available) / static_cast<std::uint64_t>(ranks)) {}

CacheNeed cache_need(const Pipeline& pipeline, const ImageLook& look) {
  CacheNeed need;
  if (look.images == 0) return need;
  const Dataset& dataset = *pipeline.dataset;
  const std::int64_t samples = dataset.size();
  if (!dataset.in_memory()) need.encoded = look.stored + ImageStash::bookkeeping(samples, {});
  if (dataset.in_memory() && !look.files && fixed_prefix(pipeline) == 0) return need;
  const ImageShape shape = Prefix(pipeline).shape();
  need.decoded = shape.fixed() ? static_cast<std::uint64_t>(samples) * shape.bytes() : look.pixels;
  need.decoded += ImageStash::bookkeeping(samples, shape);
  return need;
}

CacheChoice choose_cache(const CacheNeed& need, const CacheBudget& budget) {
  using spec::CacheMode;
  ENSURE(config, budget.mode != CacheMode::device,
         "dataset.cache.mode=device: this release keeps no data set in the memory of a device; "
         "write auto");
  const CacheChoice encoded{CacheTier::encoded, need.encoded};
  const CacheChoice decoded{CacheTier::decoded, need.decoded};
  const auto fits = [&](const CacheChoice& choice) {
    return choice.bytes > 0 && choice.bytes <= budget.left;
  };
  if (budget.mode == CacheMode::automatic)
    return fits(decoded) ? decoded : fits(encoded) ? encoded : CacheChoice{};
  if (budget.mode == CacheMode::none) return {};
  const CacheChoice& wanted = budget.mode == CacheMode::encoded ? encoded : decoded;
  if (wanted.bytes == 0) return {};
  ENSURE(resource, fits(wanted),
         "the {0} images take about {1}, and {2} of dataset.cache.budget are left for them; raise "
         "the budget, free some "
         "memory, or write 'mode: auto', which keeps what fits",
         name_of(wanted.tier), human_bytes(static_cast<double>(wanted.bytes)),
         human_bytes(static_cast<double>(budget.left)));
  return wanted;
}

Pipeline with_cache(Pipeline pipeline, CacheBudget& budget, const Progress& progress,
                    CacheFill fill) {
  if (budget.mode == spec::CacheMode::none) return pipeline;
  const CacheChoice choice = choose_cache(cache_need(pipeline, look_at_images(pipeline)), budget);
  budget.left -= choice.bytes;
  if (choice.tier == CacheTier::encoded) {
    const auto cached = std::make_shared<CachedDataset>(pipeline.dataset, choice.bytes);
    if (fill == CacheFill::at_once) cached->load(progress);
    pipeline.dataset = cached;
  }
  if (choice.tier == CacheTier::decoded) {
    const std::size_t count = fixed_prefix(pipeline);
    pipeline.dataset =
        std::make_shared<CachedDataset>(std::make_unique<Prefix>(pipeline), choice.bytes);
    pipeline.transforms.erase(pipeline.transforms.begin(),
                              pipeline.transforms.begin() + static_cast<std::ptrdiff_t>(count));
    pipeline.first_operation += count;
  }
  return pipeline;
}

}  // namespace trainctl::data
