#include "data/cache/image_cache.hpp"

#include "base/strings.hpp"
#include "data/cache/device_cache.hpp"

namespace trainctl::data {
namespace {

// The model and its gradients are allocated later: mode auto leaves half of the free memory to
// them.
constexpr std::uint64_t kAutoShare = 2;
constexpr std::uint64_t kNamedTenths = 9;

void need_device(const Pipeline& pipeline, const ImageShape& shape, CacheNeed& need) {
  need.no_device =
      pipeline.batch_transforms.empty()
          ? planned_tail(pipeline, shape).obstacle
          : "batch_transforms are not supported\nhint: remove batch_transforms, or set "
            "dataset.cache.mode to decoded";
  if (need.no_device.empty())
    need.device = static_cast<std::uint64_t>(pipeline.dataset->size()) * shape.bytes();
}

CacheChoice choose_device(const CacheNeed& need, const CacheBudget& budget) {
  ENSURE(config, budget.device != nullptr || budget.planned_device,
         "dataset.cache.mode=device requires a GPU and a build with GPU kernels (see 'trainctl "
         "doctor')\nhint: set dataset.cache.mode to decoded");
  ENSURE(config, need.no_device.empty(), "dataset.cache.mode=device: {}", need.no_device);
  if (budget.planned_device) return {CacheTier::device, need.device};
  const std::uint64_t room = budget.device->free_bytes() / 10 * kNamedTenths;
  ENSURE(
      resource, need.device <= room,
      "dataset.cache.mode=device: the images need {}, but may use only {} (90 % of the free device "
      "memory)\nhint: stop other programs on the device, use smaller images, or set "
      "dataset.cache.mode to auto, which caches what fits",
      human_bytes(need.device), human_bytes(room));
  return {CacheTier::device, need.device};
}

bool suits_device(const CacheNeed& need, const CacheBudget& budget) {
  return budget.device != nullptr && need.device > 0 &&
         need.device <= budget.device->free_bytes() / kAutoShare;
}

}  // namespace

CacheBudget::CacheBudget(const spec::Cache& cache, int ranks, std::uint64_t available)
    : mode(cache.mode), left(cache.of_memory().of(available) / static_cast<std::uint64_t>(ranks)) {
  if (mode == spec::CacheMode::device) mode = spec::CacheMode::automatic;
}

CacheBudget CacheBudget::of_plan(const spec::Cache& cache, int ranks, std::uint64_t available) {
  CacheBudget budget(cache, ranks, available);
  budget.mode = cache.mode;
  budget.planned_device = true;
  return budget;
}

CacheBudget CacheBudget::of_run(const spec::Cache& cache, int ranks, const ImageDevice* device) {
  CacheBudget budget(cache, ranks);
  budget.mode = cache.mode;
  budget.device = device;
  budget.threads = cores_of_rank(ranks);
  return budget;
}

CacheNeed cache_need(const Pipeline& pipeline, const ImageSizes& sizes) {
  CacheNeed need;
  need.no_device = "no image of the data set can be read\nhint: set dataset.cache.mode to auto";
  if (sizes.images == 0) return need;
  const Dataset& dataset = *pipeline.dataset;
  const std::int64_t samples = dataset.size();
  const ImageShape shape = Prefix(pipeline).shape();
  need_device(pipeline, shape, need);
  if (!dataset.in_memory()) need.encoded = sizes.stored + ImageStash::bookkeeping(samples, {});
  if (dataset.in_memory() && !sizes.files && fixed_prefix(pipeline) == 0) return need;
  need.decoded = shape.fixed() ? static_cast<std::uint64_t>(samples) * shape.bytes() : sizes.pixels;
  need.decoded += ImageStash::bookkeeping(samples, shape);
  return need;
}

CacheChoice choose_cache(const CacheNeed& need, const CacheBudget& budget) {
  using spec::CacheMode;
  const CacheChoice encoded{CacheTier::encoded, need.encoded};
  const CacheChoice decoded{CacheTier::decoded, need.decoded};
  const auto fits = [&](const CacheChoice& choice) {
    return choice.bytes > 0 && choice.bytes <= budget.left;
  };
  if (budget.mode == CacheMode::device) return choose_device(need, budget);
  if (budget.mode == CacheMode::automatic && suits_device(need, budget))
    return {CacheTier::device, need.device};
  if (budget.mode == CacheMode::automatic)
    return fits(decoded) ? decoded : fits(encoded) ? encoded : CacheChoice{};
  if (budget.mode == CacheMode::none) return {};
  const CacheChoice& wanted = budget.mode == CacheMode::encoded ? encoded : decoded;
  if (wanted.bytes == 0) return {};
  ENSURE(resource, fits(wanted),
         "the {0} images need about {1}, but only {2} of dataset.cache.budget is left\nhint: "
         "raise dataset.cache.budget, free some memory, or set dataset.cache.mode to auto, which "
         "caches what fits",
         wanted.tier == CacheTier::encoded ? "encoded" : "decoded", human_bytes(wanted.bytes),
         human_bytes(budget.left));
  return wanted;
}

Pipeline with_cache(Pipeline pipeline, CacheBudget& budget, const Progress& progress,
                    CacheFill fill) {
  if (budget.mode == spec::CacheMode::none) return pipeline;
  const CacheChoice choice =
      choose_cache(cache_need(pipeline, probe_image_sizes(pipeline)), budget);
  budget.left -= choice.host_bytes();
  if (choice.tier == CacheTier::device)
    return hold_images(std::move(pipeline), *budget.device, progress, budget.threads);
  if (choice.tier == CacheTier::encoded) {
    const auto cached = std::make_shared<CachedDataset>(pipeline.dataset, choice.bytes);
    if (fill == CacheFill::at_once) cached->load(progress);
    pipeline.dataset = cached;
  }
  if (choice.tier == CacheTier::decoded) {
    pipeline.dataset =
        std::make_shared<CachedDataset>(std::make_unique<Prefix>(pipeline), choice.bytes);
    drop_fixed_prefix(pipeline);
  }
  return pipeline;
}

}  // namespace trainctl::data
